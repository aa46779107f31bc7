// jit, closed_call, core_call, remat2 (checkpoint), custom_jvp_call, custom_vjp_call, custom_lin: the body is
// inlined. The name of a call is a hint for provenance; it never decides what the call computes. A jit that
// @sardonyx.onnx_function marked becomes a call of a model-local function.
#include "lower/jax_to_onnx/context.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_call(Lowering& ctx) {
  if (ctx.node.bodies().empty()) ctx.unsupported("the call has no jaxpr");
  std::vector<Value*> args;
  for (size_t i = 0; i < ctx.num_inputs(); ++i) args.push_back(ctx.in(i));
  if (const Attr* name = ctx.find_param("name"); name != nullptr && name->get<std::string>() != nullptr) {
    if (const auto mark = FunctionMark::parse(*name->get<std::string>()))
      return ctx.context().call_function(ctx.node, *mark, args, ctx.b);
  }
  return ctx.inline_body(*ctx.node.bodies()[0].graph, args);
}

}  // namespace sardonyx::jax_to_onnx
