// A while_loop variable is invariant if the loop body returns it unchanged, or returns an outer value for it.
// It leaves the loop, and its users inside use the outer value. This repeats, since it may make other
// variables invariant. The results of a loop without other variables are its operands (if it terminates): the
// loop is removed, unless it writes a state.
//
// If the block returns the loop's result for that variable, an identity before the loop keeps its name, and
// the loop gets another, as both may have had the same name. After coremltools' pass of this name.
#include <fmt/format.h>

#include <algorithm>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

// Invariant variables: the loop body returns its input, or the loop's operand.
std::vector<size_t> invariants(const Node& loop, const Graph& body) {
  std::vector<size_t> found;
  for (size_t i = 0; i < loop.num_inputs() && i < body.outputs().size(); ++i) {
    const Value* out = body.output(i);
    if (out == body.input(i) || out == loop.input(i)) found.push_back(i);
  }
  return found;
}

// Replaces the loop by one without these variables. A loop that is left without variables has no users. Null
// if nothing changes.
Node* simplify(Node& loop, bool renamed) {
  Graph *condition = loop.body("cond"), *body = loop.body("body");
  if (condition == nullptr || body == nullptr || loop.num_results() != loop.num_inputs()) return nullptr;
  const std::vector<size_t> gone = invariants(loop, *body);
  const bool all = gone.size() == loop.num_inputs();
  if (gone.empty() || (all && !is_removable(loop))) return nullptr;
  Graph& g = *loop.graph();
  Model& model = g.model();
  std::vector<Value*> kept;
  for (size_t i = 0; i < loop.num_inputs(); ++i) {
    if (std::ranges::find(gone, i) == gone.end()) kept.push_back(loop.input(i));
  }
  for (size_t i : gone) {
    Value* stands_for = loop.input(i);
    if (is_block_result(*loop.result(i))) {
      Node& keeper = model.new_node(model.op("", "identity", loop.op().since_version), {&stands_for, 1}, 1);
      keeper.set_name(loop.result(i)->name());
      keeper.set_provenance(loop.provenance());
      keeper.result()->set_name(loop.result(i)->name());
      keeper.result()->set_type(stands_for->type());
      keeper.set_unchecked(false);
      g.insert_before(loop, keeper);
      stands_for = keeper.result();
    }
    g.replace_uses(*loop.result(i), *stands_for);
    for (Graph* inner : {condition, body}) inner->replace_uses(*inner->input(i), *loop.input(i));
  }
  if (all) return &loop;
  for (auto i = gone.rbegin(); i != gone.rend(); ++i) {
    body->remove_output(*i);
    for (Graph* inner : {condition, body}) inner->remove_input(*i);
  }
  Node& made = model.new_node(loop.op(), kept, kept.size(), model.attrs(attrs_of(loop)));
  made.set_name(renamed || loop.name().view().empty() ? loop.name()
                                                      : model.name(fmt::format("{}_renamed", loop.name().view())));
  made.set_provenance(loop.provenance());
  std::vector<Body> bodies(loop.bodies().begin(), loop.bodies().end());
  while (!loop.bodies().empty()) loop.remove_body(loop.bodies().size() - 1);
  for (const Body& b : bodies) made.add_body(b.name.view(), *b.graph);
  g.insert_before(loop, made);
  made.set_unchecked(false);
  for (size_t i = 0, k = 0; i < loop.num_results(); ++i) {
    if (std::ranges::find(gone, i) != gone.end()) continue;
    made.result(k)->set_type(loop.result(i)->type());
    made.result(k)->set_name(loop.result(i)->name());
    g.replace_uses(*loop.result(i), *made.result(k));
    ++k;
  }
  g.erase(loop);
  return &made;
}

}  // namespace

Pass loop_invariant_elimination() {
  return Pass::on_graph(Numerics::kExact, needs({"while_loop"}), [](Graph& top, PassContext& context) {
    bool changed = false;
    std::vector<Node*> without_variables;  // erased last: the walk still visits their blocks
    for (Graph* g : graphs_in(top)) {
      for (Node& n : g->nodes()) {
        if (!n.is("while_loop")) continue;
        Node* made = simplify(n, false);
        if (made == nullptr) continue;
        Node* before = &n;
        while (made != nullptr && made != before) {
          before = made;
          made = simplify(*before, true);
        }
        if (made != nullptr) without_variables.push_back(made);
        context.log.count("loops");
        changed = true;
      }
    }
    for (auto n = without_variables.rbegin(); n != without_variables.rend(); ++n) (*n)->graph()->erase(**n);
    return changed;
  });
}

}  // namespace sardonyx::mil
