//   x ── mul(alpha) ── maximum(x) ── y    =>    x ── leaky_relu<alpha> ── y      for 0 <= alpha <= 1
//
// The product must have no other user. Relaxed for alpha = 0, where an infinite x made NaN. After
// coremltools' pass of this name.
#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {
namespace {

constexpr Var x{"x"}, alpha{"alpha"};

bool is_slope(const Match& found, bool flat) {
  const auto v = found.splat(alpha);
  if (!is_float(found[x]->dtype()) || found[alpha]->constant()->size() != 1 || !v) return false;
  return flat ? *v == 0 : *v > 0 && *v <= 1;
}

Value* leaky_relu(Rewriter& b, const Match& found) {
  const bool scalar = found[alpha]->constant()->rank() == 0;
  Value* slope = scalar ? found[alpha] : b.scalar(found[alpha]->dtype(), *found.splat(alpha));
  return b.leaky_relu(found[x], {.alpha = slope});
}

}  // namespace

Pass fuse_leaky_relu() {
  using namespace pattern;
  namespace m = pattern::mil;
  const Pattern maximum = m::maximum(sole(m::mul(constant.as(alpha), x)), x);
  return std::vector<Rule>{
      {.name = "slope",
       .match = maximum,
       .when = [](const Match& found) { return is_slope(found, false); },
       .build = leaky_relu},
      {.name = "flat",
       .numerics = Numerics::kRelaxed,
       .match = maximum,
       .when = [](const Match& found) { return is_slope(found, true); },
       .build = leaky_relu},
  };
}

}  // namespace sardonyx::mil
