// Nodes that the written file has and the model does not.
#pragma once

#include <cstddef>

#include "sardonyx/ir.h"

namespace sardonyx {

struct AddedNodes {
  size_t identities = 0;  // for results that could not have their names otherwise
  size_t constants = 0;   // Core ML: const ops for constants without one
};

// The nodes that the writer for the model's format adds.
AddedNodes added_nodes(const Model& m);

}  // namespace sardonyx
