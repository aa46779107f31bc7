// Fixes the shapes of inputs.
#pragma once

#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// Sets the shapes of inputs of the main graph: "x=f32[1,3,224,224]" or "x:1,3,B" (the dtype may be omitted).
// Throws kInvalidArgument for names, ranks and sizes that the model does not have.
void fix_input_shapes(Model& m, const std::vector<std::string>& specs);

// Opens the sizes of inputs for which such a text has a name and the model a number. Types of inner values
// are forgotten then. Throws kInvalidArgument, with the node, if an operator cannot take inputs of twice
// these sizes: a reshape to constant sizes, say.
void open_input_sizes(Model& m, const std::vector<std::string>& specs);

}  // namespace sardonyx
