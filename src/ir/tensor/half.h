// Converts between single and half precision, many elements at once.
#pragma once

#include <cstddef>

#include "sardonyx/tensor.h"

namespace sardonyx {

// Rounds `count` f32 to f16 like encode_element: to nearest even, overflow to infinity, any NaN to the quiet
// NaN of its sign. Neither side needs to be aligned.
void floats_to_halves(const std::byte* from, std::byte* to, size_t count);

// Converts back to f32, exactly; a NaN keeps its bits.
void halves_to_floats(const std::byte* from, std::byte* to, size_t count);

// Rounds numbers, no NaN, to bf16, to nearest even.
void floats_to_bf16(const std::byte* from, std::byte* to, size_t count);

// The f32 tensor rounded to f16. A large one is deferred and read in pieces, so that it is never in memory as
// a whole. Null if t can only be computed as a whole, since each piece would compute it again.
TensorPtr as_half(const TensorPtr& t);
// The f16 tensor as f32, in the same way.
TensorPtr as_single(const TensorPtr& t);
// The f32 tensor, without NaN, rounded to bf16, in the same way.
TensorPtr as_bf16(const TensorPtr& t);
// The source of a deferred tensor made by as_half() or as_single(); else null.
TensorPtr cast_source(const TensorPtr& t);

}  // namespace sardonyx
