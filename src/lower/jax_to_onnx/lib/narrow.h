// Floats of 8 bits or fewer and integers of fewer than 8: ONNX casts and reshapes them, but does not compute
// in them.
#pragma once

#include "sardonyx/lower.h"

namespace sardonyx::jax_to_onnx {

bool is_narrow(DType t);

// Runs `lower`, the lowering of `primitive` for other types, on an equation with narrow operands or results.
// It computes in f32, f16, i32 or bytes; each result is rounded once to its own type, or truncated to its
// bits. XLA's CPU goes through f16 or rounds after each step, so some of its results differ by one unit in
// the last place.
std::vector<Value*> in_wider_types(Lowering& ctx, std::string_view primitive, const LowerFn& lower);
// Primitives that handle narrow types themselves, or only move their operands.
bool keeps_narrow(std::string_view primitive);

// Casts x, of any other type, to the small float t. Rounds like XLA: to nearest, ties to even; beyond the
// greatest number to infinity, or to NaN if t has none. Pass `may_overflow` = false if t can hold every value
// of x.
Value* to_small_float(Lowering& ctx, Value* x, DType t, bool may_overflow = true);

}  // namespace sardonyx::jax_to_onnx
