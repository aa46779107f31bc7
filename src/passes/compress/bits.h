// Codes of few bits, packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sardonyx/tensor.h"

namespace sardonyx::compress {

// Packs the low `bits` of each byte, the first code in the lowest bits, as files store types below a byte.
std::vector<std::byte> packed(std::vector<std::byte> codes, int bits);

// Codes of one byte each as a tensor of integers of up to 8 bits.
TensorPtr packed(DType type, std::vector<int64_t> shape, std::vector<std::byte> codes);

}  // namespace sardonyx::compress
