// The steps of an optimization as a picture.
#pragma once

#include <memory>

#include "driver/convert.h"
#include "driver/optimize.h"
#include "driver/to_coreml.h"
#include "view/picture.h"

namespace sardonyx::view {

// Optimizes `m` and adds its state after each step that changed it. The steps are named by the passes that did
// something.
OptimizeReport trace(Model& m, const OptimizeOptions& options, Picture& to);

// Converts as convert() does, and adds the program, what it was lowered to, and the state after each step that changed that.
void trace_conversion(const Model& jax, Model& onnx, const ConvertOptions& options, const LoweringRegistry& registry,
                      Picture& to);

// Converts as to_coreml() does, and adds the ONNX model, the program that it was lowered to, and the state after each step that
// changed one of them. `jax`: the program that the ONNX model was lowered from, or null.
std::unique_ptr<Model> trace_to_coreml(const Model* jax, Model& onnx, const ToCoremlOptions& options, ToCoremlReport& report,
                                       Picture& to);

}  // namespace sardonyx::view
