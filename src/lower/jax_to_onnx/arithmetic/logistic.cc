// logistic x   =>   Sigmoid(x);  1 / (1 + exp(-x)) if a user is a logarithm
//
// onnxruntime's Sigmoid is accurate to one ulp of 1, which suffices for other users. But its relative error
// grows far below zero, from 1e-3 at -10 to 1 at -18, and a logarithm magnifies that.
#include "lower/jax_to_onnx/lib/num.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_logistic(Lowering& ctx) {
  Value* x = ctx.operands()[0];
  bool is_in_logarithm = false;
  for (const Use& u : ctx.node.result()->uses()) is_in_logarithm = is_in_logarithm || u.owner->is("log");
  if (!is_in_logarithm) return {ctx.via("Sigmoid", {x})};
  return {ctx.via({"Exp"}, x, [&](Value* v) { return reciprocal(exp(-Num(ctx, v)) + 1).value(); })};
}

}  // namespace sardonyx::jax_to_onnx
