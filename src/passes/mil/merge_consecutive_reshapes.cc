//   x ── reshape ── reshape<s> ── y    =>    x ── reshape<s> ── y
//
// The inner reshape must have no other reader, as in coremltools' pass of this name. A zero in the outer shape copies a size of the value
// between: where that is not the same size of x, the types differ and nothing happens.
#include "passes/mil/params.h"

namespace sardonyx::mil {

Pass merge_consecutive_reshapes() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"};
  return Rule{
      .match = m::reshape(sole(m::reshape(x))),
      .build =
          [](Rewriter& b, const Match& found) {
            return b.mil("reshape", {{"x", found[x]}, {"shape", operand(found.root(), b.context(), "shape")}});
          },
  };
}

}  // namespace sardonyx::mil
