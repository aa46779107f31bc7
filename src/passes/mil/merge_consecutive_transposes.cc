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
        const auto first = param_ints(params(found.node(inner), b.context()), "perm");
        const auto second = param_ints(params(found.root(), b.context()), "perm");
        if (!first || !second || first->size() != second->size()) return nullptr;
        const auto rank = static_cast<int64_t>(first->size());
        std::vector<int64_t> perm;
        const auto axis = [&](int64_t a) { return a < 0 ? a + rank : a; };
        for (int64_t q : *second) perm.push_back(axis((*first)[static_cast<size_t>(axis(q))]));
        return b.transpose(found[x], {.perm = perm});
      },
  };
}

}  // namespace sardonyx::mil
