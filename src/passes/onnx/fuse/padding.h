// What a Pad adds, read from attributes or constant operands.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// The pads of all axes, all beginnings first; nullopt if they are not known.
std::optional<std::vector<int64_t>> pads_of(const Node& pad, PassContext& c);
// The fill; nullopt if it is not known.
std::optional<double> fill_of(const Node& pad, PassContext& c);

}  // namespace sardonyx::onnx
