// tile[reps] x   =>   Tile(x, reps)
#include <algorithm>

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_tile(Lowering& ctx) {
  auto reps = ctx.dims_param("reps");
  if (is_complex(ctx.in_dtype(0))) reps.push_back(Dim::of(1));
  if (std::ranges::all_of(reps, [](Dim d) { return d.is(1); })) return {ctx.in(0)};
  DType own = ctx.in(0)->dtype();
  Value* x = ctx.cast(ctx.in(0), kernel_dtype(ctx, {"Tile"}, own));
  return {ctx.cast(ctx.b.Tile(x, ctx.shape(reps)), own)};
}

}  // namespace sardonyx::jax_to_onnx
