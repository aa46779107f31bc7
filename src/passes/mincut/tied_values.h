// Values that bodies tie together, and how often bodies run.
//
//   If     result i and what each branch returns there
//   Loop   what it carries: the initial value, the body's input and result, the node's result; what it stacks along axis 0
//   Scan   what it carries; what it cuts and what it stacks, along an axis each
#pragma once

#include <vector>

#include "passes/mincut/layout.h"
#include "rewrite/pass.h"

namespace sardonyx::layout {

// These change their layout together, or not at all.
struct TiedValues {
  struct Operand {
    Node* owner;  // or the boundary of a body
    size_t slot;
    Value* value() const { return owner->is_boundary() ? owner->graph()->output(slot) : owner->input(slot); }
  };
  std::vector<Operand> read;
  std::vector<Value*> made;
  bool read_stacked = false, made_stacked = false;  // all that is read, or made, has one axis more: that of the slices
  int8_t axis = 0;                                  // that axis
};

// Those of a node with bodies whose ranks agree.
std::vector<TiedValues> tied_values(Node& n);
// How often a Loop or Scan runs its body, as far as known.
Dim trips(const Node& n, PassContext& context);

}  // namespace sardonyx::layout
