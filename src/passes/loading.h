// Whether a runtime loads a model, according to the table of its kernels (dialects/onnx/runtimes/runtimes.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dialects/onnx/refusals.h"

namespace sardonyx {

// Reasons why the runtime cannot load the model: its opset first, then nodes of the main graph, bodies and
// functions.
std::vector<std::string> load_problems(const onnx::Runtime& runtime, const Model& m);

// The runtime that must load the model after the passes: the one named, or the newest for an empty name. Null
// if it does not certainly load `m` itself, because it refuses a node or because unknown sizes decide. Then
// the passes cannot be at fault.
const onnx::Runtime* runtime_that_loads(const Model& m, std::string_view name);

}  // namespace sardonyx
