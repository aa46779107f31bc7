#include "ir/graph/graph_summary.h"

#include "ir/graph/journal.h"
#include "ir/graph/model_impl.h"

namespace sardonyx {

std::span<const uint32_t> op_counts(const Model& m) { return Journal::insides(m).op_counts; }

uint64_t op_set(const Model& m) { return Journal::insides(m).op_set; }

std::span<Node* const> nodes_with_bodies(const Graph& g) {
  auto& insides = Journal::insides(g.model());
  if (insides.body_changes == 0) return {};
  auto& [seen, found] = insides.with_bodies[&g];
  if (seen != insides.body_changes) {
    seen = insides.body_changes;
    found.clear();
    for (Node& n : g.nodes()) {
      if (!n.bodies().empty()) found.push_back(&n);
    }
  }
  return found;
}

std::vector<Graph*> with_nested_graphs(std::vector<Graph*> graphs) {
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (const Node* n : nodes_with_bodies(*graphs[i])) {
      for (const Body& b : n->bodies()) graphs.push_back(b.graph);
    }
  }
  return graphs;
}

}  // namespace sardonyx
