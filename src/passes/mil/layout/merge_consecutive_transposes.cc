//   x ── transpose<p> ── transpose<q> ── y    =>    x ── transpose<p∘q> ── y
//
// The inner transpose must have no other user, as in coremltools' pass of this name. A pair that cancels
// becomes a transpose that keeps the order: noop_elimination removes it.
#include "passes/mil/params.h"

namespace sardonyx::mil {

Pass merge_consecutive_transposes() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, inner{"inner"};
  return Rule{
      .match = m::transpose(sole(m::transpose(x)).as(inner)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const auto first = Transpose(found.node(inner), b.facts()).perm(), second = Transpose(found.root(), b.facts()).perm();
        if (!first || !second || first->size() != second->size()) return nullptr;
        std::vector<int64_t> perm;
        for (int64_t axis : *second) perm.push_back((*first)[static_cast<size_t>(axis)]);
        return b.transpose(found[x], {.perm = perm});
      },
  };
}

}  // namespace sardonyx::mil
