// Nodes that a file has beyond those of the model.
#pragma once

#include <cstddef>

#include "sardonyx/ir.h"

namespace sardonyx {

struct AddedNodes {
  size_t identities = 0;  // where a result could not have its name otherwise
  size_t constants = 0;   // Core ML: const ops for constants that have none
};

// What the writer of the model's format adds.
AddedNodes added_nodes(const Model& m);

}  // namespace sardonyx
