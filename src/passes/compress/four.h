// Four floats at once: one instruction on all processors, without options of the compiler; and rounding.
#pragma once

#include <cstring>

namespace sardonyx::compress {

using Four [[gnu::vector_size(16)]] = float;

inline Four load(const float* from) {
  Four v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline void store(Four v, float* to) { std::memcpy(to, &v, sizeof v); }

// The nearest integer where |x| < 2^22, halves to even, of a float or of four.
template <class T>
T nearest(T x) {
  constexpr float kNoFraction = 0x1.8p23F;
  return (x + kNoFraction) - kNoFraction;
}

}  // namespace sardonyx::compress
