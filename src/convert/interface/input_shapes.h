// Fixes the shapes of inputs.
#pragma once

#include <vector>

#include "sardonyx/interface.h"
#include "sardonyx/ir.h"

namespace sardonyx {

// Sets the shapes of inputs of the main graph. Throws kInvalidArgument for names, ranks, types and sizes that
// the model does not have.
void fix_input_shapes(Model& m, const std::vector<InputShape>& shapes);

// Opens the sizes of inputs for which a shape has a name and the model a number. Types of inner values are
// forgotten then. Throws kInvalidArgument, with the node, if an operator cannot take inputs of twice these
// sizes: a reshape to constant sizes, say.
void open_input_sizes(Model& m, const std::vector<InputShape>& shapes);

}  // namespace sardonyx
