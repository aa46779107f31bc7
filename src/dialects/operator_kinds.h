// The family of an operator: for counting its work, and for colors and legends.
#pragma once

#include <string_view>

#include "sardonyx/op.h"

namespace sardonyx {

// "matrix", "convolution", "normalization", "reduction", "elementwise", "movement" (of elements: Reshape,
// Concat, Gather), "control", "random", "constant" or "other".
std::string_view kind_of(const Op& op);

}  // namespace sardonyx
