// What a Pad adds, read from attributes or constant operands.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// The pads of all axes, all beginnings first; nullopt if they are not known.
std::optional<std::vector<int64_t>> pads_of(const Node& pad, PassContext& c);
// The fill; nullopt if it is not known.
std::optional<double> fill_of(const Node& pad, PassContext& c);

// Whether onnxruntime 1.23 divides by the wrong number if this AveragePool counts these pads, all beginnings
// first: its kernel of opset 19 and later does, in windows that reach the padding at an end.
bool counts_wrongly(const Node& average, std::span<const int64_t> pads);

}  // namespace sardonyx::onnx
