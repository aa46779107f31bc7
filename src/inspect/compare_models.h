// Half precision, where an ONNX model and a Core ML program are compared.
#pragma once

#include "sardonyx/inspect.h"

namespace sardonyx {

// How far results in half precision may be off, as a share of the largest element. Rounding in deep networks
// stays below it.
inline constexpr double kHalfShare = 0.02;
inline Tolerance half_tolerance() { return {.rtol = 0, .atol = 0, .of_largest = kHalfShare}; }

// Whether a result of a node, other than a constant, is in half precision.
bool computes_in_half(const Model& m);

}  // namespace sardonyx
