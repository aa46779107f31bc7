//   u = coreml_update_state(s, y);  z = f(y)    =>    u = coreml_update_state(s, y);  z = f(u)
//
// In files: w = write_state(s, y); r = read_state(s); z = f(r). The read is added if there is none.
//
// Users of a value that is written to a state take it from the state, so it needs no memory of its own. Users
// before the update keep y. Nothing changes if only updates use y, or if y is both an input and a result of
// its block. After coremltools' pass of this name.
#include <algorithm>
#include <vector>

#include "passes/mil/states/states.h"
#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {
namespace {

void read_instead(Use& u, Value& v) {
  if (!u.owner->is_boundary()) return u.owner->set_input(u.owner->operand_index(u), &v);
  Graph& g = *u.owner->graph();
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    if (g.outputs()[i].use == &u) return g.set_output(i, v);
  }
}

bool use_state(Graph& g, Node& update, NodeMap<uint32_t>& place, PassContext& context) {
  Value& written = *update.input(1);
  std::vector<Use*> later;
  bool read = false, is_result = false;
  for (Use& u : written.uses()) {
    if (!u.owner->is_boundary() && !is_update(*u.owner)) read = true;
    const bool leaves = u.owner == &g.boundary();
    const Node* user = user_in(g, u);
    if (leaves || (user != nullptr && place[*user] > place[update])) later.push_back(&u);
    is_result |= leaves;
  }
  if (!read || later.empty()) return false;
  if (is_result && written.kind() == ValueKind::kInput && written.graph() == &g) return false;
  Node* source = update.num_results() == 0 ? read_of(update) : &update;
  if (source == nullptr) {
    Rewriter b(g, context);
    b.set_insertion_point(update.next());
    b.set_provenance(update.provenance());
    source = b.read_state(update.input(0))->def();
  }
  for (Use* u : later) read_instead(*u, *source->result());
  return true;
}

}  // namespace

Pass prefer_state_in_downstream() {
  return Pass::on_graph(Numerics::kExact, needs({"coreml_update_state", "write_state"}), [](Graph& top, PassContext& context) {
    bool changed = false;
    for (Graph* g : graphs_in(top)) {
      NodeMap<uint32_t> place(g->model(), 0);
      uint32_t at = 0;
      for (const Node& n : g->nodes()) place[n] = ++at;
      for (Node& n : g->nodes()) {
        if (is_update(n) && use_state(*g, n, place, context)) changed = true, context.log.count("states");
      }
    }
    return changed;
  });
}

}  // namespace sardonyx::mil
