//   x ── Expand ── Neg, Cast, Mul by a number ... ── y        =>   x ── Neg, Cast, ... ── Expand ── y
//
// An elementwise node computes each element once when it stands before the Expand; and an Expand that reaches a node that broadcasts
// is dropped there (simplify_shapes), together with the computation of its target. Exact.
// What stops it: another reader of the expanded value; another operand that is no number.
#include "rewrite/pass.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, s{"s"}, e{"e"};

bool others_are_numbers(const Match& m) {
  const Node& n = m.root();
  if (n.num_results() != 1 || n.has(Trait::kRandom) || !n.bodies().empty() || !m[x]->ranked()) return false;
  for (const Use& u : n.operands()) {
    if (u.value == nullptr || u.value == m[e]) continue;
    const TensorPtr& t = u.value->constant();
    if (t == nullptr || t->size() != 1 || t->rank() > m[x]->type()->rank()) return false;
  }
  return true;
}

}  // namespace

Pass sink_expands() {
  return Rule{
      .match = with_operand(Trait::kElementwise, sole(Expand(x, s).as(e))),
      .when = others_are_numbers,
      .build = [](Rewriter& b, const Match& m) { return b.Expand(b.like(m.root(), *m[e], *m[x]), m[s]); },
      .same_type = true,
  };
}

}  // namespace sardonyx::onnx
