// concatenate[dimension] xs   =>   Concat<axis>(xs)
// stack[axis] xs              =>   Concat<axis>(Unsqueeze of each)
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_concatenate(Lowering& ctx) {
  std::vector<Value*> xs;
  for (size_t i = 0; i < ctx.num_inputs(); ++i) {
    // An empty operand adds nothing.
    if (!ctx.in_dims(i)[static_cast<size_t>(ctx.int_param("dimension"))].is(0)) xs.push_back(ctx.in(i));
  }
  if (xs.empty()) xs.push_back(ctx.in(0));
  return {ctx.concat(xs, ctx.int_param("dimension"))};
}

std::vector<Value*> lower_stack(Lowering& ctx) {
  int64_t axis = ctx.int_param("axis");
  std::vector<Value*> xs;
  for (size_t i = 0; i < ctx.num_inputs(); ++i) xs.push_back(ctx.unsqueeze(ctx.in(i), std::vector{axis}));
  return {ctx.concat(xs, axis)};
}

}  // namespace sardonyx::jax_to_onnx
