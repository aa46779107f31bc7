// transpose[permutation] x   =>   Transpose<perm = permutation>(x)
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_transpose(Lowering& ctx) {
  return {ctx.transpose(ctx.in(0), stored_axes(ctx, ctx.ints_param("permutation")))};
}

}  // namespace sardonyx::jax_to_onnx
