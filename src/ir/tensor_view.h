// Constants whose elements lie in memory in another order: a transposed weight that nobody has copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sardonyx/tensor.h"

namespace sardonyx {

// What a view is a view of. Element [i, j, ...] is the element i * strides[0] + j * strides[1] + ... of the storage.
struct TensorView {
  TensorPtr storage;             // in order: neither deferred nor a splat; elements of whole bytes
  std::vector<int64_t> strides;  // in elements; none is negative
};

// The storage seen with that shape and those strides. Where this is the order of the storage, it is the storage itself, reshaped; else a
// deferred tensor, which reads in pieces. The strides must stay inside the storage.
TensorPtr make_view(TensorPtr storage, std::vector<int64_t> shape, std::vector<int64_t> strides);

// Null where t is no view: its elements are in order, or not in memory.
const TensorView* view_of(const TensorPtr& t);

// t with its axes in that order, without a copy; null where its elements are not in memory.
TensorPtr transposed_view(const TensorPtr& t, std::span<const int64_t> perm);

// Copies elements that lie at `strides` (in elements, which are `width` bytes), in row-major order of `shape`: from index `first` on, as many
// as fill `out`. Nothing needs to be aligned.
void copy_strided(const std::byte* from, size_t width, std::span<const int64_t> shape, std::span<const int64_t> strides,
                  int64_t first, std::span<std::byte> out);

}  // namespace sardonyx
