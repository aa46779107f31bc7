//   x ── squeeze ── expand_dims ── y    =>    x ── identity ── y      where y has the shape of x
//
// The squeeze must have no other user. noop_elimination removes the identity, unless the block returns it.
// After coremltools' pass of this name.
#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

Pass fuse_squeeze_expand_dims() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"};
  return Rule{
      .match = m::expand_dims(sole(m::squeeze(x))),
      .when = [](const Match& found) { return found.type(x) == found.root().result()->type(); },
      .build = [](Rewriter& b, const Match& found) { return b.identity(found[x]); },
  };
}

}  // namespace sardonyx::mil
