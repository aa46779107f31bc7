// A variable of a while_loop that its body returns as it came, or returns a value from outside for, leaves the loop: its readers inside read
// the value outside. That may make another one invariant: it goes on until none is left. A loop that changes none of its variables has what
// entered as results, if it comes to an end: it goes, unless it writes a state.
//
// Where the loop's result of that variable is a result of the block, an identity before the loop keeps its name, and the loop gets another,
// as the two may have been one. After coremltools' pass of this name.
#include <fmt/format.h>

#include <algorithm>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

// Variables of the loop that never change: the body returns its own input, or the value that entered.
std::vector<size_t> invariants(const Node& loop, const Graph& body) {
  std::vector<size_t> found;
  for (size_t i = 0; i < loop.num_inputs() && i < body.outputs().size(); ++i) {
    const Value* out = body.output(i);
    if (out == body.input(i) || out == loop.input(i)) found.push_back(i);
  }
  return found;
}

// Takes them from the loop, which another one replaces then. A loop that is left without variables has no readers. Null when nothing changes.
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
    std::vector<Node*> without_variables;  // they go last: their blocks are looked at, too
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
