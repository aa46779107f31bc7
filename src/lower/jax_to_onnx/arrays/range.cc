// range[dtype, size] start, stop, step   =>   Range(start, stop, step)
//
// Numbers from start to before stop; none if step leads away from stop. `size` is the symbol for their
// number. A bound may be a float that holds an integer.
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_range(Lowering& ctx) {
  DType own = ctx.in_dtype(0);
  const DType wide = own == DType::kI32 && ctx.in_dtype(1) == own && ctx.in_dtype(2) == own ? own : DType::kI64;
  Value* y = ctx.b.Range(ctx.cast(ctx.in(0), wide), ctx.cast(ctx.in(1), wide), ctx.cast(ctx.in(2), wide));
  return {ctx.cast(y, ctx.out_dtype())};
}

}  // namespace sardonyx::jax_to_onnx
