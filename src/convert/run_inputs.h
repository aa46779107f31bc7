// The inputs of a run, by name.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sardonyx/eval.h"
#include "sardonyx/tensor.h"

namespace sardonyx {

// The number of the input of that name. Throws kInvalidArgument, with the nearest name, if there is none.
size_t input_number(const Graph& g, std::string_view name);
// The element type of an input, or of what a state holds; nullopt where none is known.
std::optional<DType> input_dtype(const Graph& g, size_t i);

// One value for each input of the graph, absent where `given` has none of that name. Throws kInvalidArgument
// for names that the graph lacks and for names that are given twice.
std::vector<EvalValue> inputs_by_name(const Graph& g, const NamedTensors& given);

}  // namespace sardonyx
