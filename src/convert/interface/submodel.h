// A part of a model as a model of its own.
#pragma once

#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// Leaves what lies between the values of these names in the main graph: `inputs` become its inputs, `outputs`
// its results, in this order, and what no result needs goes. An empty list keeps the model's own. Infers
// types. Throws kInvalidArgument for names that the graph does not have, inputs that no result needs, and
// inputs of the model that a result needs and the list lacks.
void keep_between(Model& m, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

}  // namespace sardonyx
