// The family of an operator, for colors and legends.
#pragma once

#include <string_view>

#include "sardonyx/op.h"

namespace sardonyx::view {

// "matrix", "convolution", "normalization", "reduction", "elementwise", "movement" (of elements: Reshape, Concat, Gather),
// "control", "random", "constant" or "other".
std::string_view kind_of(const Op& op);

}  // namespace sardonyx::view
