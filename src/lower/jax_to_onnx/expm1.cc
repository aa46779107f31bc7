// expm1 x   =>   (exp(x) + 1) * tanh(x / 2)
//
// The identity tanh(x/2) = (e^x - 1) / (e^x + 1): no cancellation near 0, and exact at both infinities.
#include "lower/jax_to_onnx/special.h"

namespace sardonyx {

Value* expm1(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  return b.Mul(b.Add(b.Exp(x), like(ctx, x, 1)), b.Tanh(b.Mul(x, like(ctx, x, 0.5))));
}

std::vector<Value*> lower_expm1(Lowering& ctx) {
  return {via(ctx, {"Exp", "Tanh"}, operands(ctx)[0], [&](Value* x) { return expm1(ctx, x); })};
}

}  // namespace sardonyx
