// expm1 x   =>   (exp(x) + 1) * tanh(x / 2)
//
// The identity tanh(x/2) = (e^x - 1) / (e^x + 1): no cancellation near 0, and exact at both infinities.
#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {

Value* expm1(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  return b.Mul(b.Add(b.Exp(x), ctx.like(x, 1)), b.Tanh(b.Mul(x, ctx.like(x, 0.5))));
}

std::vector<Value*> lower_expm1(Lowering& ctx) {
  return {ctx.via({"Exp", "Tanh"}, ctx.operands()[0], [&](Value* x) { return expm1(ctx, x); })};
}

}  // namespace sardonyx::jax_to_onnx
