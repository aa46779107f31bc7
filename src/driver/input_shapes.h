// Shapes that the user gives inputs.
#pragma once

#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// Gives inputs of the main graph other shapes: "x=f32[1,3,224,224]" or "x:1,3,B" (the dtype may be left out). Throws kInvalidArgument for names,
// ranks and sizes that the model does not have.
void fix_input_shapes(Model& m, const std::vector<std::string>& specs);

}  // namespace sardonyx
