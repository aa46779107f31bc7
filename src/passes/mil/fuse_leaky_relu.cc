//   x ── mul(alpha) ── maximum(x) ── y    =>    x ── leaky_relu<alpha> ── y      for 0 <= alpha <= 1
//
// The product must have no other reader. After coremltools' pass of this name.
#include "rewrite/pass.h"

namespace sardonyx::mil {

Pass fuse_leaky_relu() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, alpha{"alpha"};
  return Rule{
      .match = m::maximum(sole(m::mul(constant.as(alpha), x)), x),
      .when =
          [](const Match& found) {
            const auto v = found.splat(alpha);
            return found[alpha]->constant()->rank() == 0 && v && *v >= 0 && *v <= 1;
          },
      .build = [](Rewriter& b, const Match& found) { return b.mil("leaky_relu", {{"x", found[x]}, {"alpha", found[alpha]}}); },
  };
}

}  // namespace sardonyx::mil
