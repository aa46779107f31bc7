//   x: int8 ── dequantize ── reshape ── quantize ── y    =>    x ── reshape ── y
//
// A reshape only moves elements, so it can move the integers. From iOS 17 on: older reshapes take no int8.
// Both sides must have the same scale and zero point, one for all elements, or the integers would differ;
// coremltools' pass of this name does not check this.
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {

Pass int_op_canonicalization() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, reshape_op{"reshape_op"}, real{"real"};
  constexpr int kIos17 = 8;
  return Rule{
      .match = m::quantize(sole(m::reshape(m::dequantize(x).as(real)).since(kIos17).as(reshape_op))),
      .when =
          [](const Match& found) {
            Node &there = found.node(real), &back = found.root();
            for (std::string_view slot : {"scale", "zero_point"}) {
              const Value *a = operand(there, found.context(), slot), *z = operand(back, found.context(), slot);
              if (a == nullptr && z == nullptr) continue;
              const auto one = [&](const Value* v) { return v != nullptr ? found.context().splat(v) : std::optional(0.0); };
              if (!one(a) || one(a) != one(z)) return found.refuse("the two sides have different scales or zero points");
            }
            return comes_back(*operand(there, found.context(), "scale")->constant());
          },
      .build = [](Rewriter& b,
                  const Match& found) { return b.reshape(found[x], operand(found.node(reshape_op), b.context(), "shape")); },
      .same_type = true,  // the same elements by the same shape, which may be computed
  };
}

}  // namespace sardonyx::mil
