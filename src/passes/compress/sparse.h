// Keeps the numbers of largest magnitude, and takes the others as zeros.
#pragma once

#include <optional>
#include <vector>

#include "sardonyx/tensor.h"

namespace sardonyx::compress {

struct Sparse {
  std::vector<std::byte> mask;  // one byte for each element: 1 if it is kept
  TensorPtr kept;               // of the tensor's type, [elements that are kept]; at least one
};

// At least the share `sparsity` of the elements become zeros; of equal magnitudes, the first do. Zeros are
// not kept. Nullopt if an element is infinite or NaN. 0 <= sparsity < 1.
std::optional<Sparse> sparse(const Tensor& t, double sparsity);

// `t` with zeros for what is not kept.
TensorPtr expanded(const Sparse& s, const Tensor& t);

}  // namespace sardonyx::compress
