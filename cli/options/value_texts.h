// Values of inputs on the command line: NAME=FILE.npy, NAME=VALUE (a number, a string or a list of them:
// x=[[1,2],[3,4]]), or FILE.npz with arrays by name.
#pragma once

#include <string>
#include <vector>

#include "sardonyx/ir.h"
#include "sardonyx/tensor.h"

namespace sardonyx::cli {

// In the element types of the inputs. Throws kInvalidArgument for other texts and for unknown names, and what
// read_npy() throws.
NamedTensors input_values(const Graph& g, const std::vector<std::string>& texts);

// The inputs of several runs: each FILE.npz is one, and all others apply to each.
std::vector<NamedTensors> inputs_of_runs(const Graph& g, const std::vector<std::string>& texts);

}  // namespace sardonyx::cli
