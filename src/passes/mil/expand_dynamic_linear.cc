//   linear<w, b>(x), w computed      =>    add(matmul<transpose_y>(x, w), b)       without the addition when b is absent or zero
//   linear<w, b>(x), only b computed =>    add(linear<w>(x), b)
//
// linear needs weights that are constant, or come out of a constexpr op. After coremltools' pass of this name.
#include "passes/mil/weights.h"

namespace sardonyx::mil {
namespace {

bool is_static(const Value* v) {
  return v == nullptr || v->is_constant() || (v->def() != nullptr && v->def()->op().name.starts_with("constexpr_"));
}

}  // namespace

Pass expand_dynamic_linear() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, w{"w"};
  return Rule{
      .numerics = Numerics::kRounds,
      .match = m::linear(x, Pattern(w)),
      .when = [](const Match& found) { return !is_static(found[w]) || !is_static(found.root().input(2)); },
      .build = [](Rewriter& b, const Match& found) -> Value* {
        Value* bias = found.root().input(2);
        if (is_static(found[w]))
          return b.mil("add", {{"x", b.mil("linear", {{"x", found[x]}, {"weight", found[w]}})}, {"y", bias}});
        Value* product = b.mil("matmul", {{"x", found[x]}, {"y", found[w]}, {"transpose_y", b.boolean(true)}});
        const bool zero = bias == nullptr || (bias->is_constant() && b.context().splat(bias) == 0.0);
        return zero ? product : b.mil("add", {{"x", product}, {"y", bias}});
      },
  };
}

}  // namespace sardonyx::mil
