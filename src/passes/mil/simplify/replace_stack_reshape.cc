//   stack<axis a>(x, y) ── reshape that doubles axis a       =>    concat<axis a>(x, y)
//   stack<axis a>(x, y) ── reshape that doubles axis a - 1   =>    concat<axis a - 1, interleave>(x, y)
//
// The stack must have no other user. After coremltools' pass of this name.
#include "passes/mil/params.h"

namespace sardonyx::mil {

Pass replace_stack_reshape() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var stacked{"stacked"};
  return Rule{
      .match = m::reshape(sole(m::stack()).as(stacked)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const Stack stack(found.node(stacked), b.facts());
        const std::vector<Value*> values = stack.values();
        const auto from_front = stack.axis();
        const Type* out = found.root().result()->type();
        if (!from_front || values.size() != 2 || !values.front()->ranked() || !found.root().result()->ranked()) return nullptr;
        const Type* in = values.front()->type();
        if (in->rank() != out->rank()) return nullptr;
        const auto axis = static_cast<int64_t>(*from_front);
        int64_t doubled = -1;  // if another axis differs too, the types differ and the rule does not apply
        for (size_t i = 0; i < in->rank(); ++i) {
          if (in->dim(i) != out->dim(i)) doubled = static_cast<int64_t>(i);
        }
        if (doubled != axis && doubled != axis - 1) return nullptr;
        return b.concat({values[0], values[1]}, {.axis = doubled, .interleave = doubled == axis - 1});
      },
  };
}

}  // namespace sardonyx::mil
