// Windows that slide over the spatial axes of [N, C, ...], for convolutions and pooling.
#pragma once

#include <string>
#include <vector>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {

struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads;  // in Core ML's order: before and after, axis by axis
  std::string pad_type = "custom";

  size_t spatial() const { return kernel.size(); }
  // The distance from the first to the last element of the window, inclusive.
  int64_t reach(size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
  bool is_padded() const;
};

// Reads the node's attributes and resolves auto_pad if sizes are known. Refuses ranks that Core ML lacks.
Window window_of(Lowering& ctx, std::vector<int64_t> kernel);

}  // namespace sardonyx::onnx_to_mil
