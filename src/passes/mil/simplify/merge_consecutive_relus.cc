//   x ── relu ── relu ── y    =>    x ── relu ── y
//
// The inner relu must have no other user, as in coremltools' pass of this name.
#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

Pass merge_consecutive_relus() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, inner{"inner"};
  return Rule{
      .match = m::relu(sole(m::relu(x)).as(inner)),
      .build = [](Rewriter&, const Match& found) { return found[inner]; },
  };
}

}  // namespace sardonyx::mil
