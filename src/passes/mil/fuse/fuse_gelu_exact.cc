//   x ── real_div(sqrt 2) or mul(1/sqrt 2) ── erf ── add(1) ──┐
//   x ─────────────────────────────────────── mul ── mul(0.5)     =>   x ── gelu<EXACT>
//
// The three factors x, 0.5 and 1 + erf are multiplied in any order. Inner values with other users stop it, as
// in coremltools' pass of this name; constants match within its tolerance (1e-3, for models that wrote
// 1.414).
#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

Pass fuse_gelu_exact() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"};
  constexpr double kSqrt2 = 1.4142135623730951;
  const Pattern half = sole(m::mul(x, near(0.5, 1e-3)));
  const Pattern one_up = sole(
      m::add(near(1, 1e-3), sole(m::erf(sole(any_of(m::real_div(x, near(kSqrt2, 1e-3)), m::mul(x, near(1 / kSqrt2, 1e-3))))))));
  return Rule{
      .numerics = Numerics::kRounds,
      .match = any_of(m::mul(half, one_up), m::mul(sole(m::mul(x, one_up)), near(0.5, 1e-3)),
                      m::mul(x, sole(m::mul(one_up, near(0.5, 1e-3))))),
      .build = [](Rewriter& b, const Match& found) { return b.gelu(found[x], {.mode = "EXACT"}); },
      .same_type = true,
  };
}

}  // namespace sardonyx::mil
