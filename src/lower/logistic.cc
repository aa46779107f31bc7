// logistic x   =>   Sigmoid(x);  where a logarithm reads it: 1 / (1 + exp(-x))
//
// onnxruntime's Sigmoid is right to an ulp of 1, which is nothing to other readers; but far below zero its relative error grows, from 1e-3 at -10 to
// all of it at -18, and a logarithm sees that.
#include "lower/num.h"

namespace sardonyx {

std::vector<Value*> lower_logistic(Lowering& ctx) {
  Value* x = operands(ctx)[0];
  bool is_in_logarithm = false;
  for (const Use& u : ctx.eqn.result()->uses()) is_in_logarithm = is_in_logarithm || u.owner->is("log");
  if (!is_in_logarithm) return {via(ctx, "Sigmoid", {x})};
  return {via(ctx, {"Exp"}, x, [&](Value* v) { return reciprocal(exp(-Num(ctx, v)) + 1).value(); })};
}

}  // namespace sardonyx
