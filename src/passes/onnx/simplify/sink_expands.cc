//   x ── Expand ── Neg, Cast, Mul by a number ... ── y        =>   x ── Neg, Cast, ... ── Expand ── y
//   ConstantOfShape<value=v>(s) ── the same ── y              =>   Neg, Cast, ... (v) ── Expand(s)
//
// An elementwise node before the Expand computes each element only once. An Expand that reaches a
// broadcasting node is dropped there (simplify_shapes), along with the computation of its target. Exact.
// What stops it: another user of the expanded value; another operand that is not a single number; a result
// type that onnxruntime does not expand, such as bf16.
#include "dialects/onnx/refusals.h"
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, s{"s"}, e{"e"};

bool others_are_numbers(const Match& m, Var ranked_as) {
  const Node& n = m.root();
  const Value* ranked = m[ranked_as];
  if (n.num_results() != 1 || n.has(Trait::kRandom) || !n.bodies().empty() || !ranked->ranked()) return false;
  const DType before = m[e]->dtype(), after = n.result()->dtype();
  if (before != after && !has_kernel(m.model(), "Expand", after)) return false;
  for (const Use& u : n.operands()) {
    if (u.value == nullptr || u.value == m[e]) continue;
    const TensorPtr& t = u.value->constant();
    if (t == nullptr || t->size() != 1 || t->rank() > ranked->type()->rank()) return false;
  }
  return true;
}

}  // namespace

Pass sink_expands() {
  return std::vector<Rule>{
      {.name = "expand",
       .match = with_operand(Trait::kElementwise, sole(Expand(x, s).as(e))),
       .when = [](const Match& m) { return others_are_numbers(m, x); },
       .build = [](Rewriter& b, const Match& m) { return b.Expand(b.like(m.root(), *m[e], *m[x]), m[s]); },
       .same_type = true},
      {.name = "constant_of_shape",
       .match = with_operand(Trait::kElementwise, sole(ConstantOfShape(s)).as(e)),
       // The slope must not have more axes than x, so PRelu stays.
       .when = [](const Match& m) { return !m.root().is("PRelu") && others_are_numbers(m, e); },
       .build = [](Rewriter& b, const Match& m) -> Value* {
         TensorPtr number = repeated_number(m.node(e));
         return number == nullptr ? nullptr : b.Expand(b.like(m.root(), *m[e], *b.constant(std::move(number))), m[s]);
       },
       .opset = 8,
       .same_type = true},
  };
}

}  // namespace sardonyx::onnx
