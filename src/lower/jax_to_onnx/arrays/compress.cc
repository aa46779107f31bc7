// compress[axis, size] x, mask   =>   Compress<axis>(x, mask)
//
// The slices of x along `axis` for which mask: bool[n] is true. `size` is the symbol for their number.
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_compress(Lowering& ctx) {
  const int64_t axis = ctx.int_param("axis");
  const DType own = ctx.in(0)->dtype();
  const DType wide = kernel_dtype(ctx, {"Compress"}, own);
  if (wide == DType::kUndefined) ctx.unsupported("no runtime computes Compress in " + std::string(to_string(own)));
  Value* y = ctx.b.Compress(ctx.cast(ctx.in(0), wide), ctx.in(1), {.axis = axis});
  return {ctx.cast(y, own)};
}

}  // namespace sardonyx::jax_to_onnx
