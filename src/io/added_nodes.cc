#include "io/added_nodes.h"

#include <unordered_set>
#include <vector>

#include "io/coreml/mil_names.h"
#include "io/onnx/write_names.h"

namespace sardonyx {
namespace {

// Whether a result may need an identity: no node of the graph makes it, or it is returned twice. Core ML's
// writer adds others.
bool may_need_identity(const Graph& g) {
  std::unordered_set<const Value*> seen;
  for (const Port& p : g.outputs()) {
    const Value* v = p.use->value;
    if (v == nullptr) continue;
    if (v->kind() != ValueKind::kResult || v->graph() != &g || !seen.insert(v).second) return true;
  }
  return false;
}

std::vector<const Graph*> graphs_of(const Model& m) {
  std::vector<const Graph*> all;
  for (const auto& f : m.functions()) all.push_back(&f->graph());
  for (size_t i = 0; i < all.size(); ++i) {
    for (const Node& n : all[i]->nodes()) {
      for (const Body& b : n.bodies()) all.push_back(b.graph);
    }
  }
  return all;
}

template <class Names>
size_t count(const std::vector<const Graph*>& graphs, const Names& names) {
  size_t found = 0;
  for (const Graph* g : graphs) {
    for (size_t i = 0; i < g->outputs().size(); ++i) found += names.needs_identity(*g, i) ? 1 : 0;
  }
  return found;
}

}  // namespace

AddedNodes added_nodes(const Model& m) {
  const std::vector<const Graph*> graphs = graphs_of(m);
  if (m.dialect() == DialectId::kMil) {
    const mil_file::MilNames names(m);
    std::vector<const Graph*> tops;  // results of blocks have no names
    for (const auto& f : m.functions()) tops.push_back(&f->graph());
    AddedNodes added{.identities = count(tops, names)};
    const auto constants = [&](const Graph& g, const Node* n) {
      const auto* list = names.before(g, n);
      added.constants += list != nullptr ? list->size() : 0;
    };
    for (const Graph* g : graphs) {
      for (const Node& n : g->nodes()) constants(*g, &n);
      constants(*g, nullptr);
    }
    return added;
  }
  for (const Graph* g : graphs) {
    if (may_need_identity(*g)) return {.identities = count(graphs, onnx_file::WriteNames(m))};
  }
  return {};
}

}  // namespace sardonyx
