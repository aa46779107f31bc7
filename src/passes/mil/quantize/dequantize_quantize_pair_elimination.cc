//   x ── dequantize ── quantize ── y    =>    x ── y
//
// Scale, zero point and axis must be the same. The dequantize stays for its other users; if the block returns
// it, nothing changes. Nothing changes either if 8-bit integers do not survive the pair: the scale is so
// large that a product overflows, or so small that it loses digits. An input never becomes a result of the
// function: the writer would need an identity. quantize followed by dequantize is not such a pair, since it
// rounds. After coremltools' pass of this name.
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

// Whether both are absent, or constants with the same elements.
bool agree(const Value* a, const Value* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->is_constant() && b->is_constant() && a->constant()->equals(*b->constant());
}

}  // namespace

Pass dequantize_quantize_pair_elimination() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, real{"real"};
  return Rule{
      .match = m::quantize(m::dequantize(x).as(real)),
      .when =
          [](const Match& found) {
            Node &there = found.node(real), &back = found.root();
            for (std::string_view slot : {"scale", "zero_point", "axis"}) {
              if (!agree(operand(there, found.context(), slot), operand(back, found.context(), slot))) return false;
            }
            if (is_graph_result(*found[real])) return found.refuse("the dequantized value is a result");
            if (found[x]->kind() == ValueKind::kInput && is_graph_result(*back.result())) return false;
            return comes_back(*operand(there, found.context(), "scale")->constant());
          },
      .build = [](Rewriter&, const Match& found) { return found[x]; },
  };
}

}  // namespace sardonyx::mil
