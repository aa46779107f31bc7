#include "passes/compress/groups.h"

#include <algorithm>

#include "ir/tensor/half.h"
#include "sardonyx/error.h"

namespace sardonyx::compress {

Floats::Floats(const Tensor& t) : bytes_(t.bytes(scratch_)) {
  if (t.dtype() == DType::kF32) return;
  singles_.resize(static_cast<size_t>(t.size()));
  if (t.dtype() == DType::kF16) {
    halves_to_floats(bytes_.data(), reinterpret_cast<std::byte*>(singles_.data()), singles_.size());
  } else {
    for (int64_t i = 0; i < t.size(); ++i)
      singles_[static_cast<size_t>(i)] = static_cast<float>(decode_element(t.dtype(), bytes_.data(), i));
  }
  bytes_ = std::as_bytes(std::span(singles_));
}

Grouping::Grouping(std::span<const int64_t> shape, std::vector<int64_t> extents)
    : shape_(shape.begin(), shape.end()), extents_(std::move(extents)), strides_(dense_strides(shape)) {
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    counts_.push_back((shape_[axis] - 1) / extents_[axis] + 1);
    num_groups_ *= counts_.back();
  }
}

Group Grouping::group(int64_t i) const {
  Group g;
  bool has_count = false, has_runs = false;
  for (size_t axis = shape_.size(); axis-- > 0;) {
    const int64_t from = i % counts_[axis] * extents_[axis];
    i /= counts_[axis];
    g.first += from * strides_[axis];
    const int64_t size = std::min(extents_[axis], shape_[axis] - from);
    if (size == 1) continue;
    if (!has_count) {
      g.count = size;
      g.stride = strides_[axis];
      has_count = true;
    } else if (!has_runs && strides_[axis] == g.count * g.stride) {
      g.count *= size;
    } else if (!has_runs) {
      g.runs = size;
      g.run_stride = strides_[axis];
      has_runs = true;
    } else {
      SX_CHECK(strides_[axis] == g.runs * g.run_stride, "a box has elements in more than two bundles of axes");
      g.runs *= size;
    }
  }
  return g;
}

}  // namespace sardonyx::compress
