// Facts about a graph that its model keeps up to date: nobody has to walk it for them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// Model::op_count() of all operators by Op::id; those beyond the last have none. Valid until the graph is edited.
std::span<const uint32_t> op_counts(const Model& m);
// Changes whenever an operator gets its first node or loses its last.
uint64_t op_set(const Model& m);
// The nodes of g that have nested graphs, in order: found by one walk, and remembered until such a node comes, goes or changes, which is
// also how long the answer is valid.
std::span<Node* const> nodes_with_bodies(const Graph& g);
// The graphs, then all that are nested in them: outer ones before inner ones.
std::vector<Graph*> with_nested_graphs(std::vector<Graph*> graphs);

}  // namespace sardonyx
