// Views: constants whose elements are in another order in memory, such as a transposed weight that was not
// copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sardonyx/tensor.h"

namespace sardonyx {

// The storage and strides of a view. Element [i, j, ...] is element i * strides[0] + j * strides[1] + ... of
// the storage.
struct TensorView {
  TensorPtr storage;             // in order: not deferred and not a splat; elements of whole bytes
  std::vector<int64_t> strides;  // in elements; none is negative
};

// The storage seen with this shape and these strides. If that is the order of the storage, returns the
// storage reshaped; else a deferred tensor that reads in pieces. The strides must stay inside the storage.
TensorPtr make_view(TensorPtr storage, std::vector<int64_t> shape, std::vector<int64_t> strides);

// The description of a view; null if t is not a view: its elements are in order, or not in memory.
const TensorView* view_of(const TensorPtr& t);

// t with its axes permuted, without a copy. Also for a matrix that is computed in pieces, which stays so;
// null for other tensors whose elements are not in memory.
TensorPtr transposed_view(const TensorPtr& t, std::span<const int64_t> perm);

// Copies elements at `strides` (in elements of `width` bytes) in row-major order of `shape`, starting at
// index `first`, until `out` is full. Nothing needs to be aligned.
void copy_strided(const std::byte* from, size_t width, std::span<const int64_t> shape, std::span<const int64_t> strides,
                  int64_t first, std::span<std::byte> out);

}  // namespace sardonyx
