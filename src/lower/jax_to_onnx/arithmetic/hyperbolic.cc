// sinh x    =>   Sinh(x), in f64 (e + e / (e + 1)) / 2 with e = exp|x| - 1, and the sign of x
// cosh x    =>   Cosh(x), in f64 exp(|x| - log 2) + exp(-|x| - log 2)
// asinh x   =>   Asinh(x), in f64 log1p(|x| + x^2 / (1 + sqrt(1 + x^2))), and the sign of x
// acosh x   =>   Acosh(x), in f64 log1p(t + sqrt(2 t + t^2)) with t = x - 1
// atanh x   =>   Atanh(x), in f64 log1p(2 |x| / (1 - |x|)) / 2, and the sign of x
//
// Runtimes have these operators only in f32. The formula of cosh overflows no sooner than its result. If the
// square overflows, asinh and acosh are log(2 |x|).
#include <numbers>

#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

using Formula = Value* (*)(Lowering&, Value*);

std::vector<Value*> one_operator(Lowering& ctx, std::string_view op, Formula in_f64) {
  Value* x = ctx.operands()[0];
  if (x->dtype() == DType::kF64) return {in_f64(ctx, x)};
  return {ctx.via(op, {x})};
}

// `small` for x below 2^28, where 1 still matters next to x^2; log(2x) above.
Value* unless_large(Lowering& ctx, Value* x, Value* small) {
  OnnxBuilder& b = ctx.b;
  Value* large = b.Add(b.Log(x), ctx.like(x, std::numbers::ln2));
  return b.Where(b.Greater(x, ctx.like(x, 268435456)), large, small);
}

Value* sinh_f64(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value* half = ctx.like(x, 0.5);
  Value* a = b.Abs(x);
  Value* e = expm1(ctx, b.Min({a, ctx.like(x, 700)}));
  Value* small = b.Mul(half, b.Add(e, b.Div(e, b.Add(e, ctx.like(x, 1)))));
  Value* large = b.Exp(b.Sub(a, ctx.like(x, std::numbers::ln2)));
  return b.Mul(b.Where(b.Greater(a, ctx.like(x, 700)), large, small), b.Sign(x));
}

Value* cosh_f64(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value* log2 = ctx.like(x, std::numbers::ln2);
  Value* a = b.Abs(x);
  return b.Add(b.Exp(b.Sub(a, log2)), b.Exp(b.Sub(b.Neg(a), log2)));
}

Value* asinh_f64(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value* one = ctx.like(x, 1);
  Value* a = b.Abs(x);
  Value* square = b.Mul(a, a);
  Value* small = log1p(ctx, b.Add(a, b.Div(square, b.Add(one, b.Sqrt(b.Add(one, square))))));
  return b.Mul(unless_large(ctx, a, small), b.Sign(x));
}

Value* acosh_f64(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value* t = b.Sub(x, ctx.like(x, 1));
  Value* small = log1p(ctx, b.Add(t, b.Sqrt(b.Mul(t, b.Add(t, ctx.like(x, 2))))));
  return unless_large(ctx, x, small);
}

Value* atanh_f64(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value* a = b.Abs(x);
  Value* ratio = b.Div(b.Mul(a, ctx.like(x, 2)), b.Sub(ctx.like(x, 1), a));
  return b.Mul(b.Mul(log1p(ctx, ratio), ctx.like(x, 0.5)), b.Sign(x));
}

}  // namespace

std::vector<Value*> lower_sinh(Lowering& ctx) { return one_operator(ctx, "Sinh", sinh_f64); }
std::vector<Value*> lower_cosh(Lowering& ctx) { return one_operator(ctx, "Cosh", cosh_f64); }
std::vector<Value*> lower_asinh(Lowering& ctx) { return one_operator(ctx, "Asinh", asinh_f64); }
std::vector<Value*> lower_acosh(Lowering& ctx) { return one_operator(ctx, "Acosh", acosh_f64); }
std::vector<Value*> lower_atanh(Lowering& ctx) { return one_operator(ctx, "Atanh", atanh_f64); }

}  // namespace sardonyx::jax_to_onnx
