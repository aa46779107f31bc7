//   x ── pad<p> ── pad<q> ── y    =>    x ── pad<p+q> ── y
//
// Both have the same mode. Constant padding needs the same value (the corners have both); other modes must
// pad different axes. The inner pad must have no other user. After coremltools' pass of this name.
#include "passes/mil/params.h"

namespace sardonyx::mil {

Pass merge_consecutive_paddings() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, inner{"inner"};
  return Rule{
      .match = m::pad(sole(m::pad(x)).as(inner)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const Pad first(found.node(inner), b.facts()), second(found.root(), b.facts());
        auto p = first.pad(), q = second.pad();
        const auto mode = first.mode();
        if (!p || !q || !mode || mode != second.mode()) return nullptr;
        // Pairs belong to the last axes.
        const size_t size = std::max(p->size(), q->size());
        p->insert(p->begin(), size - p->size(), 0);
        q->insert(q->begin(), size - q->size(), 0);
        Value *value = first.value_in("constant_val"), *other_value = second.value_in("constant_val");
        if (mode == "constant") {
          // A computed value or a promise is unknown, not the default.
          for (const Value* v : {value, other_value}) {
            if (v != nullptr && (!v->is_constant() || v->constant()->is_promise())) return nullptr;
          }
          if (first.constant_val() != second.constant_val()) return nullptr;
        } else {
          for (size_t i = 0; i + 1 < size; i += 2) {
            const bool both = ((*p)[i] != 0 || (*p)[i + 1] != 0) && ((*q)[i] != 0 || (*q)[i + 1] != 0);
            if (both) return nullptr;
          }
        }
        for (size_t i = 0; i < size; ++i) (*p)[i] += (*q)[i];
        return b.pad(found[x], *p, {.constant_val = value != nullptr ? value : other_value, .mode = *mode});
      },
  };
}

}  // namespace sardonyx::mil
