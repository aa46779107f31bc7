// The steps of an optimization as a picture.
#pragma once

#include "driver/convert.h"
#include "driver/optimize.h"
#include "view/picture.h"

namespace sardonyx::view {

// Optimizes `m` and adds its state after each step that changed it. The steps are named by the passes that did
// something.
OptimizeReport trace(Model& m, const OptimizeOptions& options, Picture& to);

// Converts as convert() does, and adds the program, what it was lowered to, and the state after each step that changed that.
void trace_conversion(const Model& jax, Model& onnx, const ConvertOptions& options, const LoweringRegistry& registry,
                      Picture& to);

}  // namespace sardonyx::view
