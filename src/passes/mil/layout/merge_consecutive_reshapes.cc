//   x ── reshape ── reshape<s> ── y    =>    x ── reshape<s> ── y
//
// The inner reshape must have no other user, as in coremltools' pass of this name. A zero in the outer shape
// copies a size of the value between: it becomes that number; if the size is unknown, nothing changes.
#include <algorithm>

#include "passes/mil/params.h"

namespace sardonyx::mil {

Pass merge_consecutive_reshapes() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, inner{"inner"};
  return Rule{
      .match = m::reshape(sole(m::reshape(x)).as(inner)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const Reshape outer(found.root(), b.facts());
        Rewriter::Ints shape = outer.value_in("shape");
        auto sizes = outer.shape();
        if (sizes && std::ranges::find(*sizes, 0) != sizes->end()) {
          const Type* between = found[inner]->type();
          if (between == nullptr || !between->ranked()) return nullptr;
          for (size_t i = 0; i < sizes->size(); ++i) {
            if ((*sizes)[i] != 0) continue;
            if (!between->dim(i).is_int()) return nullptr;
            (*sizes)[i] = between->dim(i).value();
          }
          shape = *sizes;
        }
        return b.reshape(found[x], shape);
      },
  };
}

}  // namespace sardonyx::mil
