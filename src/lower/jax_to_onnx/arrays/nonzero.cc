// nonzero[dtype, size] x   =>   Cast(NonZero(x)): dtype[rank, size]
//
// The indices of elements that are not zero: one row per axis, in row-major order. `size` is the symbol for
// their number. `fitted`: other values have that size, and this result must match it or be 1; the runtime's
// Expand refuses all else.
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_nonzero(Lowering& ctx) {
  Value* x = ctx.in(0);
  // NaN is not zero; a Cast to bool agrees.
  if (!has_kernel(ctx, "NonZero", x->dtype())) x = ctx.cast(x, DType::kBool);
  Value* found = ctx.b.NonZero(x);
  if (ctx.bool_param("fitted", false)) found = ctx.expand(found, ctx.out_dims());
  return {ctx.cast(found, ctx.out_dtype())};
}

}  // namespace sardonyx::jax_to_onnx
