// Primitives that only steer JAX: their results are their operands.
// debug_print, debug_callback   =>   nothing: a graph does not print
// empty[shape, dtype]           =>   zeros
// create_token, after_all       =>   nothing: no node uses tokens
#include "lower/jax_to_onnx/check_equation.h"
#include "lower/jax_to_onnx/context.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_pass_through(Lowering& ctx) {
  std::vector<Value*> results;
  for (size_t i = 0; i < ctx.node.num_results(); ++i) results.push_back(ctx.in(i));
  return results;
}

std::vector<Value*> lower_nothing(Lowering& ctx) {
  if (ctx.node.num_results() > 0) contradicts(ctx.node, "it has results");
  return {};
}

// Tokens order effects. ONNX graphs have no effects, so no operator uses a token.
std::vector<Value*> lower_token(Lowering& ctx) {
  return {&ctx.b.model().new_placeholder({}, ctx.context().import(ctx.node.result()->type()))};
}

std::vector<Value*> lower_empty(Lowering& ctx) {
  return {ctx.zeros(ctx.stored_out_type()->dtype(), ctx.stored_out_type()->dims())};
}

}  // namespace sardonyx::jax_to_onnx
