// A second kind of JAX PRNG key.
#pragma once

#include "sardonyx/dtype.h"

namespace sardonyx {

// Keys of four u32 words (rbg, unsafe_rbg, threefry4x32), as DType::kKey is for keys of two; "key4" in text. Never written to a file.
inline constexpr DType kWideKey{66};

inline bool is_key(DType t) { return t == DType::kKey || t == kWideKey; }

}  // namespace sardonyx
