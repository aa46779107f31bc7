// 64-bit integers that were packed from two of 32 bits, as keys of random numbers are.
#pragma once

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

constexpr uint64_t kLowerHalf = 0xffffffff;

// Whether v is this number.
bool is_number(const Value* v, uint64_t number);
// BitShift by 32 places in that direction.
bool is_shift_of_half(const Node& n, std::string_view direction);
// Whether half_of() finds both halves of x.
bool has_halves(const Value& x);
// The upper or lower half of x as u64, from where x was packed; null if that is not found. Moves between are
// repeated on the half.
Value* half_of(Rewriter& b, Value* x, bool upper);

}  // namespace sardonyx::onnx
