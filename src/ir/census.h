// What a model knows of its graph without walking it.
#pragma once

#include <cstdint>
#include <span>

#include "sardonyx/ir.h"

namespace sardonyx {

// Model::op_count() of all operators by Op::id; those beyond the last have none. Valid until the graph is edited.
std::span<const uint32_t> op_counts(const Model& m);
// Another number whenever an operator got its first node or lost its last.
uint64_t op_set(const Model& m);
// The nodes of g that have nested graphs, in order: found by one walk, and remembered until such a node comes, goes or changes, which is
// also how long the answer is valid.
std::span<Node* const> nodes_with_bodies(const Graph& g);

}  // namespace sardonyx
