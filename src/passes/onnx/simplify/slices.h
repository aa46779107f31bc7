// The ranges of an axis that Slice, Split and Gather take.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// The constant operands of a Slice (from opset 10 on), in their order, with axes counted from the front and
// ends as slice_end() reads them.
struct Bounds {
  std::vector<int64_t> starts, ends, axes, steps;
};
std::optional<Bounds> bounds_of(const Node& slice, PassContext& context);

// Elements first, first + step, ... of an axis.
struct Piece {
  int64_t first = 0, step = 1, count = 0;
};
// The elements that a slice takes of an axis of `size` elements.
Piece piece_of(int64_t start, int64_t end, int64_t step, int64_t size);

}  // namespace sardonyx::onnx
