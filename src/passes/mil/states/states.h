// Updates of states: coreml_update_state in coremltools' memory, write_state and read_state in files.
#pragma once

#include "rewrite/pass.h"

namespace sardonyx::mil {

// Operand 0 is the state, operand 1 what is written.
inline bool is_update(const Node& n) {
  return (n.is("coreml_update_state") || n.is("write_state")) && n.num_inputs() >= 2 && n.input(0) != nullptr &&
         n.input(1) != nullptr;
}

// The read_state right after a write_state that returns what was written; null if there is none.
inline Node* read_of(const Node& update) {
  Node* next = update.num_results() == 0 ? update.next() : nullptr;
  return next != nullptr && next->is("read_state") && next->input(0) == update.input(0) ? next : nullptr;
}

// The user's node in g, or the node of g that contains it; null for results of g and users outside.
inline Node* user_in(const Graph& g, const Use& u) {
  Node* n = u.owner;
  if (n->is_boundary()) n = n->graph() == &g ? nullptr : n->graph()->parent();
  while (n != nullptr && n->graph() != &g) n = n->graph()->parent();
  return n;
}

}  // namespace sardonyx::mil
