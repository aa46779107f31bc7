//   x ── mul(1.702) ── sigmoid ──┐
//   x ────────────────────────── mul    =>    x ── gelu<SIGMOID_APPROXIMATION>
//
// Inner values with other users stop it. The constant matches within 0.01, as in coremltools' pass of this
// name; results are then those of 1.702.
#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

Pass fuse_gelu_sigmoid_approximation() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"};
  const auto gelu = [](std::string_view name, const Pattern& scale, Numerics numerics) {
    return Rule{
        .name = name,
        .numerics = numerics,
        .match = m::mul(x, sole(m::sigmoid(sole(m::mul(x, scale))))),
        .build = [](Rewriter& b, const Match& found) { return b.gelu(found[x], {.mode = "SIGMOID_APPROXIMATION"}); },
        .same_type = true,
    };
  };
  return std::vector<Rule>{gelu("exactly", splat(1.702), Numerics::kRounds),
                           gelu("nearly", near(1.702, 0.01), Numerics::kRelaxed)};
}

}  // namespace sardonyx::mil
