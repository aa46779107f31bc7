// A look at a few elements of a large constant: what differs there need not be compared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sardonyx::mil {

// Of constants whose elements are not in order in memory, which makes looking at all of them dear, it is an
// attribute of the const op.
inline constexpr const char* kSampleAttribute = "sample";

// Of const ops whose elements only their owner sees: equal numbers are equal elements.
inline constexpr const char* kContentsAttribute = "contents";

// at(i): the bytes of element i, row by row.
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
