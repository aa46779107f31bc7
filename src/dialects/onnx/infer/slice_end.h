// The end of a Slice that runs backwards.
#pragma once

#include <cstdint>
#include <limits>

namespace sardonyx::onnx {

// The end as every reader of a Slice has to see it. The standard clamps an end beyond the axis, so that a
// slice with a negative step and the largest integer as its end is empty. onnxruntime takes exactly the
// largest i32 and the largest i64 for "the rest of the axis" in either direction: such a slice goes on to the
// first element.
inline int64_t slice_end(int64_t end, int64_t step) {
  const bool is_open = end == std::numeric_limits<int32_t>::max() || end == std::numeric_limits<int64_t>::max();
  return step < 0 && is_open ? std::numeric_limits<int64_t>::min() : end;
}

}  // namespace sardonyx::onnx
