// split[sizes, axis] x   =>   Split<axis>(x, sizes)
// unstack[axis] x        =>   Gather<axis>(x, i) for each i
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_split(Lowering& ctx) {
  auto sizes = ctx.dims_param("sizes");
  if (sizes.size() == 1) return {ctx.in(0)};
  Node& pieces = ctx.b.Split(ctx.in(0), ctx.shape(sizes), sizes.size(), {.axis = ctx.int_param("axis")});
  std::vector<Value*> results;
  for (Value& piece : pieces.results()) results.push_back(&piece);
  return results;
}

std::vector<Value*> lower_unstack(Lowering& ctx) {
  int64_t axis = ctx.int_param("axis");
  std::vector<Value*> results;
  for (size_t i = 0; i < ctx.node.num_results(); ++i)
    results.push_back(ctx.b.Gather(ctx.in(0), ctx.b.i64(static_cast<int64_t>(i)), {.axis = axis}));
  return results;
}

}  // namespace sardonyx::jax_to_onnx
