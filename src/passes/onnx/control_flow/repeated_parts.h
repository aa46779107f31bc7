// Parts of a graph that occur several times: the same operators on the same shapes, wired the same way, whatever their weights.
#pragma once

#include <functional>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::onnx {

// Occurrences share no node, and each can become one node: no path leaves it and comes back.
struct Repeat {
  // occurrences[k][i] is in occurrence k what occurrences[0][i] is in the first. Nodes of the first stand in graph order.
  std::vector<std::vector<Node*>> occurrences;
  size_t size() const { return occurrences.empty() ? 0 : occurrences[0].size(); }
};

// The repeat of `g` that leaves the fewest nodes when each occurrence becomes one; empty when there is none of `min_nodes` nodes or more.
//
// A part is found from its last node upwards. Nodes are coloured by operator, attributes, types and the colours of those that they read,
// three steps up; two neighbours of one colour are followed in lockstep as long as both sides agree, down to the earlier one. Where
// few values are alive is tried first: that is where people cut. Constants count by type; small integers by value, since they shape results.
// Linear in the graph: a bounded number of colours is tried, each over the nodes between its occurrences.
Repeat best_repeat(const Graph& g, size_t min_nodes);

// Every use through which `n` reads values from outside of itself: its operands (absent ones too), then captures of its bodies, in
// an order that is the same for nodes that are equal.
std::vector<Use*> reads_of(Node& n);

// The node of `g` that `n` stands in, at whatever depth; g's boundary for what the graph returns. `n` stands nowhere else.
Node* node_around(const Graph& g, Node& n);

}  // namespace sardonyx::onnx
