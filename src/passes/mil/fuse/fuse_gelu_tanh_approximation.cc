//   x ── pow(3) ── mul(0.044715) ── add(x) ── mul(sqrt(2/pi)) ── tanh ── add(1) ──┐
//   x ────────────────────────────────────────────────────────── mul ── mul(0.5)     =>   x ── gelu<TANH_APPROXIMATION>
//
// The factor 0.5 may belong to x or to 1 + tanh. Constants match within coremltools' tolerance (1e-3):
// relaxed. After its pass of this name.
#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

Pass fuse_gelu_tanh_approximation() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"};
  constexpr double kTolerance = 1e-3;
  const Pattern cubed = sole(m::mul(near(0.044715, kTolerance), sole(m::pow(x, near(3, kTolerance)))));
  const Pattern inside = sole(m::mul(near(0.79788456, kTolerance), sole(m::add(x, cubed))));
  const Pattern one_up = sole(m::add(near(1, kTolerance), sole(m::tanh(inside))));
  const Pattern half = near(0.5, kTolerance);
  return Rule{
      .numerics = Numerics::kRelaxed,
      .match = any_of(m::mul(x, sole(m::mul(half, one_up))), m::mul(sole(m::mul(half, x)), one_up)),
      .build = [](Rewriter& b, const Match& found) { return b.gelu(found[x], {.mode = "TANH_APPROXIMATION"}); },
  };
}

}  // namespace sardonyx::mil
