//   y = f(...);  z = g(y);  u = coreml_update_state(s, y)    =>    y = f(...);  u = coreml_update_state(s, y);  z = g(y)
//
// In files an update is a write_state and, if its result is used, the read_state after it: both move.
//
// An update moves to just after the op that computes the value: passes and compilers look for the two side by
// side. It does not move past an op that reads or writes the same state, since that op would see another
// value; coremltools' pass of this name does not check this.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "passes/mil/states/states.h"

namespace sardonyx::mil {
namespace {

size_t move_updates(Graph& g) {
  NodeMap<uint32_t> position(g.model(), 0);  // a moved update takes that of the op that computes its value
  std::vector<Node*> updates;
  uint32_t at = 0;
  for (Node& n : g.nodes()) {
    position[n] = ++at;
    if (is_update(n)) updates.push_back(&n);
  }
  std::unordered_map<const Value*, std::vector<Node*>> touching;  // the ops that read or write each state, in order
  for (const Node* u : updates) touching.try_emplace(u->input(0));
  std::unordered_map<const Node*, const Node*> earlier;  // maps each update to the previous op that uses its state
  for (auto& [state, nodes] : touching) {
    for (const Use& u : state->uses()) {
      if (Node* n = user_in(g, u)) nodes.push_back(n);
    }
    std::ranges::sort(nodes, {}, [&](const Node* n) { return position[*n]; });
    for (size_t i = 1; i < nodes.size(); ++i) {
      if (nodes[i] != nodes[i - 1]) earlier[nodes[i]] = nodes[i - 1];
    }
  }
  size_t moved = 0;
  std::unordered_map<const Node*, Node*> last;  // by the op that computes a value: the last update after it
  for (Node* u : updates) {
    Node* maker = u->input(1)->def();
    if (maker == nullptr || maker->graph() != &g || maker->is("read_state") || is_update(*maker)) continue;
    if (const auto before = earlier.find(u); before != earlier.end() && position[*before->second] > position[*maker]) continue;
    Node *behind = last.try_emplace(maker, maker).first->second, *read = read_of(*u);
    last[maker] = read != nullptr ? read : u;
    for (Node* n : {u, read}) {
      if (n != nullptr) position[*n] = position[*maker];
    }
    if (u->prev() == behind) continue;
    for (Node* n : {u, read}) {
      if (n == nullptr) continue;
      g.detach(*n);
      g.insert_after(*behind, *n);
      behind = n;
    }
    ++moved;
  }
  return moved;
}

}  // namespace

Pass canonicalize_inplace_pattern() {
  return Pass::on_graph(Numerics::kExact, needs({"coreml_update_state", "write_state"}), [](Graph& top, PassContext& context) {
    size_t moved = 0;
    for (Graph* g : graphs_in(top)) moved += move_updates(*g);
    context.log.count("updates", moved);
    return moved > 0;
  });
}

}  // namespace sardonyx::mil
