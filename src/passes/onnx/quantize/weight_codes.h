// Weights as integers of 8 or 4 bits: which elements share a scale, and the codes of a whole tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "passes/onnx/quantize/least_squares.h"
#include "sardonyx/tensor.h"

namespace sardonyx::onnx {

// The elements that share a scale: runs of `count` elements, each `stride` after the one before it.
struct Group {
  int64_t first = 0, count = 0, stride = 1, runs = 1, run_stride = 0;

  size_t size() const { return static_cast<size_t>(count * runs); }
};

// How a tensor is split into groups, in the order of its scales: one for each index of the axis `channel`,
// or one for each `block` elements along the axis `summed` where that is as long.
class Grouping {
 public:
  Grouping(const Tensor& t, size_t channel, size_t summed, int64_t block);

  int64_t axis() const { return static_cast<int64_t>(axis_); }
  int64_t block() const { return block_; }  // 0: one group for each index of the axis
  const std::vector<int64_t>& scale_shape() const { return scale_shape_; }
  int64_t num_groups() const { return block_ == 0 ? size_ : outer_ * blocks() * inner_; }
  Group group(int64_t i) const;

 private:
  int64_t blocks() const { return (size_ - 1) / block_ + 1; }

  size_t axis_ = 0;
  int64_t block_ = 0, size_ = 0, outer_ = 1, inner_ = 1;
  std::vector<int64_t> scale_shape_;
};

struct Codes {
  TensorPtr codes, scales, zeros;  // zeros: null for signed codes
};

// The codes of a tensor of f32, f16 or bf16, in the shape of the tensor, as elements of `type`; scales have
// the type of the tensor. Works on several threads. Nullopt if an element is infinite or NaN.
std::optional<Codes> encode(const Tensor& t, const Grouping& grouping, DType type, CodeRange range);

}  // namespace sardonyx::onnx
