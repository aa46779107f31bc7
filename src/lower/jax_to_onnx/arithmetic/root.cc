// rsqrt x   =>   Reciprocal(Sqrt(x))
// cbrt x    =>   y = |x|^(1/3), one Newton step, and the sign of x
//
// 1/3 is not a float, so Pow alone is off by several last bits if the exponent of x is large. The step
// divides by y^2; if that is NaN (x is 0 or infinite), the first value is exact.
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_rsqrt(Lowering& ctx) {
  return {ctx.via({"Sqrt"}, ctx.operands()[0], [&](Value* x) { return ctx.b.Reciprocal(ctx.b.Sqrt(x)); }, false)};
}

std::vector<Value*> lower_cbrt(Lowering& ctx) {
  OnnxBuilder& b = ctx.b;
  return {ctx.via({"Pow", "Where"}, ctx.operands()[0], [&](Value* x) {
    Value* a = b.Abs(x);
    Value* y = b.Pow(a, ctx.like(x, 1.0 / 3));
    Value* quotient = b.Div(a, b.Mul(y, y));
    Value* better = b.Add(y, b.Mul(b.Sub(quotient, y), ctx.like(x, 1.0 / 3)));
    return b.Mul(b.Where(b.Greater(quotient, ctx.like(x, 0)), better, y), b.Sign(x));
  })};
}

}  // namespace sardonyx::jax_to_onnx
