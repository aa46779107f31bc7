//   prelu<alpha = [a, a, ..., a]>(x)    =>    leaky_relu<alpha = a>(x)
//
// After coremltools' pass of this name.
#include "passes/mil/params.h"

namespace sardonyx::mil {

Pass prelu_to_lrelu() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, alpha{"alpha"};
  return Rule{
      .match = m::prelu(x, constant.as(alpha)),
      .when = [](const Match& found) { return found.splat(alpha).has_value(); },
      .build =
          [](Rewriter& b, const Match& found) {
            return b.leaky_relu(found[x], {.alpha = b.scalar(found[alpha]->dtype(), *found.splat(alpha))});
          },
  };
}

}  // namespace sardonyx::mil
