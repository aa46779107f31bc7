// Runs a model on values from files and from the command line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/array_file.h"
#include "sardonyx/eval.h"

namespace sardonyx {

struct RunRequest {
  // NAME=FILE.npy, NAME=VALUE (a number, a string or a list of them: x=[[1,2],[3,4]]), or FILE.npz with
  // arrays by name.
  std::vector<std::string> inputs;
  std::vector<std::string> input_shapes;  // fixes sizes of inputs that are made up, as in OptimizeOptions
  bool random = false;                    // make up inputs that are not given
  uint64_t memory_cap = 0;                // bytes; 0: the evaluator's default
  EvalOptions eval;
};

// The inputs of the main graph as requested, checked against its signature.
std::vector<EvalValue> run_inputs(Model& m, const RunRequest& request);

// Returns the results with their names in the model.
std::vector<std::pair<std::string, EvalValue>> run_model(Model& m, const RunRequest& request);

// Flattens a sequence `y` into y.0, y.1, ... Omits empty optionals and refuses maps.
NamedTensors tensors_in(const std::vector<std::pair<std::string, EvalValue>>& results);

// Parses an element or nested lists of elements.
TensorPtr parse_value(std::string_view text, DType dtype);

}  // namespace sardonyx
