// What several passes on shapes ask.
#pragma once

#include <optional>
#include <vector>

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// The second operand of a Reshape (without allowzero) of x to type y, as a constant that says the same for every size: 0 copies the
// operand's axis, one -1 is what remains. nullopt if there is none that provably does.
std::optional<std::vector<int64_t>> constant_target(const Value& x, const Type& y, Dims& dims);

// Axes of Squeeze, Unsqueeze, Reduce*, ..., attribute or operand, counted from the front of `rank` and in ascending order; nullopt when
// they are absent, empty, unknown or out of range.
std::optional<std::vector<int64_t>> axes_of(const Node& n, PassContext& context, size_t rank);

}  // namespace sardonyx::onnx
