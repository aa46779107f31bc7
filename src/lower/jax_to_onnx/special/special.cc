#include "lower/jax_to_onnx/special/special.h"

#include <limits>

#include "lower/jax_to_onnx/lib/float_bits.h"

namespace sardonyx::jax_to_onnx {

std::vector<Num> wide_operands(Lowering& ctx) {
  std::vector<Num> xs;
  for (Value* x : ctx.operands())
    xs.emplace_back(ctx, ctx.expand(ctx.cast(x, FloatFormat::of(x->dtype()).wide()), ctx.out_dims()));
  return xs;
}

double epsilon(const Num& x) {
  return x.dtype() == DType::kF64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

double largest(const Num& x) {
  return x.dtype() == DType::kF64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}

Value* polynomial(Lowering& ctx, Value* x, std::initializer_list<double> c) {
  auto next = std::rbegin(c);
  Value* sum = ctx.like(x, *next);
  for (++next; next != std::rend(c); ++next) sum = ctx.b.Add(ctx.b.Mul(sum, x), ctx.like(x, *next));
  return sum;
}

// 1/x distinguishes -0 from 0; x handles the rest (1/x alone would lose -inf, whose reciprocal is -0).
Value* sign_bit(Lowering& ctx, Value* x) {
  Value* zero = ctx.like(x, 0);
  return ctx.b.Or(ctx.b.Less(x, zero), ctx.b.Less(ctx.b.Reciprocal(x), zero));
}

}  // namespace sardonyx::jax_to_onnx
