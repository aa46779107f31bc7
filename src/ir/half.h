// Single precision to half precision and back, many elements at once.
#pragma once

#include <cstddef>

#include "sardonyx/tensor.h"

namespace sardonyx {

// Rounds `count` f32 to f16 as encode_element does: to nearest even, beyond the largest to infinity, any NaN to the quiet one of its sign.
// Neither needs to be aligned.
void floats_to_halves(const std::byte* from, std::byte* to, size_t count);

// The same numbers as f32; a NaN keeps its bits.
void halves_to_floats(const std::byte* from, std::byte* to, size_t count);

// The f32 tensor rounded to f16. A large one is deferred and reads in pieces, so that nobody holds all of it; null where t is computed as a
// whole, and would be for each piece.
TensorPtr as_half(const TensorPtr& t);
// The f16 tensor as f32, in the same way.
TensorPtr as_single(const TensorPtr& t);
// What t is cast from, where one of these two made it and it is deferred; else null.
TensorPtr cast_source(const TensorPtr& t);

}  // namespace sardonyx
