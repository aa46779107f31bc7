#include "passes/compress/bits.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sardonyx::compress {

std::vector<std::byte> packed(std::vector<std::byte> codes, int bits) {
  static_assert(std::endian::native == std::endian::little);
  if (bits == 8) return codes;
  const uint64_t mask = (1u << bits) - 1;
  const auto pack = [&](uint64_t eight) {
    uint64_t bytes = 0;
    for (int k = 0; k < 8; ++k) bytes |= (eight >> (8 * k) & mask) << (k * bits);
    return bytes;
  };
  const size_t count = codes.size(), width = static_cast<size_t>(bits);
  // Eight codes at a time, in place: what is written never gets ahead of what is read.
  size_t from = 0, to = 0;
  uint64_t eight = 0;
  for (; from + sizeof eight <= count; from += sizeof eight, to += width) {
    std::memcpy(&eight, codes.data() + from, sizeof eight);
    const uint64_t bytes = pack(eight);
    std::memcpy(codes.data() + to, &bytes, sizeof bytes);
  }
  eight = 0;
  if (from < count) std::memcpy(&eight, codes.data() + from, count - from);
  const uint64_t bytes = pack(eight);
  if (from < count) std::memcpy(codes.data() + to, &bytes, std::min(width, count - to));
  codes.resize((count * width + 7) / 8);
  return codes;
}

TensorPtr packed(DType type, std::vector<int64_t> shape, std::vector<std::byte> codes) {
  return Tensor::own(type, std::move(shape), packed(std::move(codes), bit_width(type)));
}

}  // namespace sardonyx::compress
