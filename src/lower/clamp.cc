// clamp lo x hi   =>   Clip(x, lo, hi) where both bounds are scalars, else Min(Max(x, lo), hi)
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_clamp(Lowering& at) {
  auto xs = operands(at);
  Value *lo = xs[0], *x = xs[1], *hi = xs[2];
  if (at.in_rank(0) == 0 && at.in_rank(2) == 0) return {via(at, "Clip", {x, lo, hi})};
  return {via(at, "Min", {via(at, "Max", {x, lo}), hi})};
}

}  // namespace sardonyx
