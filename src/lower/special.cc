#include "lower/special.h"

#include <limits>

#include "lower/float_bits.h"

namespace sardonyx {

std::vector<Num> wide_operands(Lowering& at) {
  std::vector<Num> xs;
  for (Value* x : operands(at)) xs.emplace_back(at, at.expand(at.cast(x, FloatFormat::of(x->dtype()).wide()), at.out_dims()));
  return xs;
}

double epsilon(const Num& x) {
  return x.dtype() == DType::kF64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

double largest(const Num& x) {
  return x.dtype() == DType::kF64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}

Value* polynomial(Lowering& at, Value* x, std::initializer_list<double> c) {
  auto next = std::rbegin(c);
  Value* sum = like(at, x, *next);
  for (++next; next != std::rend(c); ++next) sum = at.b.Add(at.b.Mul(sum, x), like(at, x, *next));
  return sum;
}

// 1/x tells -0 from 0, x tells the rest (1/x would lose -inf, whose reciprocal is -0).
Value* sign_bit(Lowering& at, Value* x) {
  Value* zero = like(at, x, 0);
  return at.b.Or(at.b.Less(x, zero), at.b.Less(at.b.Reciprocal(x), zero));
}

}  // namespace sardonyx
