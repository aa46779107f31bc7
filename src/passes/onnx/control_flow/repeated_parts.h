// Finds parts of a graph that occur several times: the same operators on the same shapes, connected the same
// way, whatever their weights.
#pragma once

#include <functional>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::onnx {

// Occurrences share no node. Each can become one node: no path leaves it and comes back.
struct Repeat {
  // occurrences[k][i] corresponds to occurrences[0][i]. The nodes of the first occurrence are in graph order.
  std::vector<std::vector<Node*>> occurrences;
  size_t size() const { return occurrences.empty() ? 0 : occurrences[0].size(); }
};

// The repeat of `g` that leaves the fewest nodes when each occurrence becomes one node. Empty if no part has
// `min_nodes` nodes.
//
// A part grows from its last node upwards. The color of a node depends on its operator, attributes and
// types, and on the colors of its producers up to three levels. The search follows two neighboring nodes of
// one color in lockstep while both sides agree, no further than the earlier node. It first tries places
// where few values are live, because programs are usually cut there. Constants compare by type; small
// integers compare by value because they determine shapes. Linear in the graph: it tries a bounded number of
// colors, each over the nodes between its occurrences.
Repeat best_repeat(const Graph& g, size_t min_nodes);

// Every use through which `n` depends on values from outside: its operands (absent ones too), then captures
// of its bodies. Equal nodes list them in the same order.
std::vector<Use*> reads_of(Node& n);

// The node of `g` that contains `n` at any depth, or `n` itself; the boundary of `g` for its outputs.
Node* node_around(const Graph& g, Node& n);

}  // namespace sardonyx::onnx
