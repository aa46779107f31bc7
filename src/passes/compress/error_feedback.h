// Codes for weights whose inputs are known: the error of the product counts, and not that of each weight.
//
// Minimizes tr(Dᵀ H D), where D are the errors of the weights and H the moments of the inputs, as GPTQ
// does (Frantar et al., 2022): row after row is rounded, and the rows that are left change so that they
// make up for its error. A block has scales when its first row is reached, by least squares of what its
// rows are then.
#pragma once

#include <cstddef>
#include <vector>

#include "passes/compress/encode.h"

namespace sardonyx::compress {

struct Unpacked {
  std::vector<std::byte> codes, scales, zeros;  // a byte for each code and zero point
};

// Replaces codes, scales and zero points of those channels whose products get a smaller error. Groups lie in
// one channel each.
void feed_errors_back(const Tensor& t, const Floats& floats, const Grouping& grouping, DType type, const Inputs& inputs,
                      Unpacked& made);

}  // namespace sardonyx::compress
