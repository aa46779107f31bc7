// A hash of a few elements of a large constant: constants whose samples differ need not be compared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sardonyx::mil {

// This attribute of a const op holds the sample if the elements are not in order in memory, because reading
// them all would be expensive.
inline constexpr const char* kSampleAttribute = "sample";

// This attribute identifies elements that only their owner can read: equal numbers mean equal elements.
inline constexpr const char* kContentsAttribute = "contents";

// at(i): the bytes of element i in row-major order.
template <class At>
int64_t sample(int64_t size, size_t element_bytes, const At& at) {
  constexpr int64_t kLooks = 64;
  uint64_t h = 0xcbf29ce484222325ULL;
  for (int64_t k = 0; k < std::min(kLooks, size); ++k) {
    const int64_t i = size <= kLooks ? k : k * (size - 1) / (kLooks - 1);
    uint64_t bits = 0;
    std::memcpy(&bits, at(i), std::min<size_t>(element_bytes, sizeof bits));
    h = (h ^ bits) * 0x100000001b3ULL;
    h ^= h >> 29;
  }
  return static_cast<int64_t>(h >> 1);
}

}  // namespace sardonyx::mil
