// What passes on Slice, Split and Gather ask: which elements of an axis are taken.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// The constant operands of a Slice (from opset 10 on), axes counted from the front, in the order in which they are given.
struct Bounds {
  std::vector<int64_t> starts, ends, axes, steps;
};
std::optional<Bounds> bounds_of(const Node& slice, PassContext& context);

// Elements first, first + step, ... of an axis.
struct Piece {
  int64_t first = 0, step = 1, count = 0;
};
// What a slice of an axis of `size` takes.
Piece piece_of(int64_t start, int64_t end, int64_t step, int64_t size);

// The axis attribute of a node, counted from the front of `rank`; nullopt when it is not there or out of range.
std::optional<size_t> axis_within(const Node& n, size_t rank);

}  // namespace sardonyx::onnx
