// Stores numbers as indices into a table of a few of them, with the least squared error.
#pragma once

#include <optional>
#include <vector>

#include "passes/compress/groups.h"

namespace sardonyx::compress {

struct Palettes {
  std::vector<std::byte> indices;  // one byte for each element, in the order of the tensor
  TensorPtr tables;                // of the tensor's type: [groups, entries], each table in increasing order
};

// Each group has a table of `entries` numbers; unused ones are zeros at its end. The tables are those of
// exact k-means (kmeans.h) over bins: the numbers that round to one half, which keep together. Nullopt if an
// element is infinite or NaN. `t` is f32 or f16.
std::optional<Palettes> palettes(const Tensor& t, const Grouping& grouping, size_t entries);

}  // namespace sardonyx::compress
