// Windows that slide over the spatial axes of [N, C, ...]: what convolutions and pools share.
#pragma once

#include <string>
#include <vector>

#include "lower/mil/lowering.h"

namespace sardonyx::to_mil {

struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads;  // as Core ML has them: before and after, axis by axis
  std::string pad_type = "custom";

  size_t spatial() const { return kernel.size(); }
  // From the first to the last element that it sees.
  int64_t reach(size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
  bool is_padded() const;
};

// The node's attributes, with auto_pad written out where sizes are known. Refuses ranks that Core ML does not have.
Window window_of(Lowering& ctx, std::vector<int64_t> kernel);

}  // namespace sardonyx::to_mil
