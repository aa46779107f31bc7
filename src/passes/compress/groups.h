// A tensor of floats, split into boxes whose elements share a scale or a table.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "sardonyx/tensor.h"

namespace sardonyx::compress {

// The elements of a tensor of f32, f16 or bf16, in single precision.
class Floats {
 public:
  explicit Floats(const Tensor& t);

  float operator[](int64_t i) const {
    float v = 0;
    std::memcpy(&v, bytes_.data() + static_cast<size_t>(i) * sizeof v, sizeof v);
    return v;
  }

 private:
  std::vector<std::byte> scratch_;
  std::vector<float> singles_;
  std::span<const std::byte> bytes_;  // may be unaligned
};

// The elements of a box: runs of `count` elements, each `stride` after the one before it.
struct Group {
  int64_t first = 0, count = 1, stride = 1, runs = 1, run_stride = 0;

  size_t size() const { return static_cast<size_t>(count * runs); }
};

// Boxes of equal extents, in row-major order; those at the end of an axis may be smaller.
class Grouping {
 public:
  // `extents` has the size of a box along each axis. Axes that a box spans with more than one element lie in
  // at most two bundles of neighbors, each whole but for its first axis.
  Grouping(std::span<const int64_t> shape, std::vector<int64_t> extents);

  const std::vector<int64_t>& extents() const { return extents_; }
  const std::vector<int64_t>& counts() const { return counts_; }  // of boxes along each axis
  int64_t num_groups() const { return num_groups_; }
  Group group(int64_t i) const;

 private:
  std::vector<int64_t> shape_, extents_, counts_, strides_;
  int64_t num_groups_ = 1;
};

}  // namespace sardonyx::compress
