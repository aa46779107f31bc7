// Facts about a graph that its model keeps up to date, so that no walk is needed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// Model::op_count() of all operators, indexed by Op::id; operators beyond the end have none. Valid until the
// graph is edited.
std::span<const uint32_t> op_counts(const Model& m);
// Changes whenever an operator gains its first node or loses its last.
uint64_t op_set(const Model& m);
// The nodes of g that have nested graphs, in order. Cached until such a node is added, removed or changed,
// which is also how long the answer is valid.
std::span<Node* const> nodes_with_bodies(const Graph& g);
// The graphs and all graphs nested in them, outer ones before inner ones.
std::vector<Graph*> with_nested_graphs(std::vector<Graph*> graphs);

}  // namespace sardonyx
