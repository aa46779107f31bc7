// Whether a runtime loads a model, as far as the table of its kernels tells (dialects/onnx/runtimes.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dialects/onnx/refusals.h"

namespace sardonyx {

// What keeps the runtime from loading the model: its opset, then each node of the main graph, of bodies and of functions.
std::vector<std::string> load_problems(const onnx::Runtime& runtime, const Model& m);

// The runtime that has to load what passes make of `m`: the one of that name, the newest for an empty one. Null where it
// does not load `m` itself for certain, since then nothing is the passes' fault: a node is refused, or sizes that are not
// known decide.
const onnx::Runtime* runtime_that_loads(const Model& m, std::string_view name);

}  // namespace sardonyx
