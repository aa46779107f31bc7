// Which nodes of two models are the same: by what they compute, by name, by origin, and by their neighbors.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

struct NodeChange {
  const Node* before = nullptr;
  const Node* after = nullptr;
  std::vector<std::string>
      what;  // "axis: 1 -> 2", "constant w: 3 of 49 elements differ, by up to 0.5", "operand A: Relu_0 -> Neg_1"
};

// Nodes that only hold a constant are no nodes here: their constants belong to the nodes that read them.
struct ModelMatch {
  std::unordered_map<const Node*, const Node*> before_of;  // by node of the second model
  size_t same = 0;                                         // equal, with equal operands
  std::vector<std::pair<const Node*, const Node*>> moved;  // equal, in another order than those around them
  std::vector<NodeChange> changed;
  std::vector<const Node*> removed, added;  // in their model's order
};

// In time linear in both models, but for sorting the order of matched nodes. Inputs and constants match by name, by position and by value.
ModelMatch match_models(const Model& before, const Model& after);

// Whether two constants have the same elements, as far as that is known without computing them.
bool is_same_constant(const Value& v, const Value& w);

}  // namespace sardonyx
