// Shared with the options of an optimization that quantize, which run these passes last.
#pragma once

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// The opset that the pass needs for the weights of a model, which are in half precision by then or not; 0 if
// it has no large constants of floats. Throws kInvalidArgument for options that the pass refuses.
int opset_of_narrow_weights(Model& m, const PassOptions& options, bool in_half);

// What follows a weight's name in the names of its parts.
inline constexpr std::string_view kCodesSuffix = "_quantized", kScaleSuffix = "_scale", kZerosSuffix = "_zero_point";

// The opset that added DynamicQuantizeLinear, which quantize_products needs.
inline constexpr int kDynamicQuantization = 11;

// The opset whose DequantizeLinear takes a scale for each channel, which quantize_values needs.
inline constexpr int kStaticQuantization = 13;

}  // namespace sardonyx::onnx
