// clamp lo x hi   =>   Clip(x, lo, hi) if both bounds are scalars, else Min(Max(x, lo), hi)
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_clamp(Lowering& ctx) {
  auto xs = ctx.operands();
  Value *lo = xs[0], *x = xs[1], *hi = xs[2];
  if (ctx.in_rank(0) == 0 && ctx.in_rank(2) == 0) return {ctx.via("Clip", {x, lo, hi})};
  return {ctx.via("Min", {ctx.via("Max", {x, lo}), hi})};
}

}  // namespace sardonyx::jax_to_onnx
