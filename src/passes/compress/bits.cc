#include "passes/compress/bits.h"

namespace sardonyx::compress {

std::vector<std::byte> packed(std::vector<std::byte> codes, int bits) {
  if (bits == 8) return codes;
  const unsigned mask = (1u << bits) - 1;
  unsigned window = 0;
  int held = 0;
  size_t written = 0;  // never ahead of the code that is read
  for (size_t i = 0; i < codes.size(); ++i) {
    window |= (static_cast<unsigned>(codes[i]) & mask) << held;
    held += bits;
    if (held < 8) continue;
    codes[written++] = static_cast<std::byte>(window & 0xff);
    window >>= 8;
    held -= 8;
  }
  if (held > 0) codes[written++] = static_cast<std::byte>(window);
  codes.resize(written);
  return codes;
}

TensorPtr packed(DType type, std::vector<int64_t> shape, std::vector<std::byte> codes) {
  return Tensor::own(type, std::move(shape), packed(std::move(codes), bit_width(type)));
}

}  // namespace sardonyx::compress
