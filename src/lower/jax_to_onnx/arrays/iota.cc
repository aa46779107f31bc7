// iota[dtype, shape, dimension]   =>   0, 1, 2, ... along `dimension`: a constant or a Range
//
// There is no Expand to the shape if all users broadcast.
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_iota(Lowering& ctx) {
  auto dims = ctx.out_dims();
  auto axis = static_cast<size_t>(ctx.int_param("dimension"));
  Value* counts = ctx.iota(ctx.out_dtype(), dims[axis]);
  std::vector<int64_t> after;
  for (size_t i = axis + 1; i < dims.size(); ++i) after.push_back(static_cast<int64_t>(i - axis));
  Value* x = ctx.unsqueeze(counts, after);
  return {ctx.may_stay_narrow() ? x : ctx.expand(x, dims)};
}

}  // namespace sardonyx::jax_to_onnx
