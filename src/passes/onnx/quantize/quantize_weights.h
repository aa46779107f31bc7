// Shared with the option `weights` of an optimization, which runs quantize_weights last.
#pragma once

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// The opset that the pass needs for the weights of a model; 0 if it has no large constants of floats. Throws
// kInvalidArgument for options that the pass refuses.
int opset_of_narrow_weights(Model& m, const PassOptions& options);

}  // namespace sardonyx::onnx
