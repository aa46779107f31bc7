#include "passes/compress/bits.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sardonyx::compress {

std::vector<std::byte> packed(std::vector<std::byte> codes, int bits) {
  static_assert(std::endian::native == std::endian::little);
  if (bits == 8) return codes;
  const uint64_t mask = (1u << bits) - 1;
  const size_t count = codes.size(), width = static_cast<size_t>(bits);
  // Eight codes at a time, in place: what is written never gets ahead of what is read.
  for (size_t i = 0, to = 0; i < count; i += 8, to += width) {
    uint8_t eight[8] = {};
    std::memcpy(eight, codes.data() + i, std::min<size_t>(8, count - i));
    uint64_t window = 0;
    for (int k = 0; k < 8; ++k) window |= (eight[k] & mask) << (k * bits);
    std::memcpy(codes.data() + to, &window, std::min(width, count - to));
  }
  codes.resize((count * width + 7) / 8);
  return codes;
}

TensorPtr packed(DType type, std::vector<int64_t> shape, std::vector<std::byte> codes) {
  return Tensor::own(type, std::move(shape), packed(std::move(codes), bit_width(type)));
}

}  // namespace sardonyx::compress
