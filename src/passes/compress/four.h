// Four floats at once: one instruction on all processors, without options of the compiler.
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

}  // namespace sardonyx::compress
