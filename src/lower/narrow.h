// Floats of 8 bits and fewer, integers of fewer than 8: ONNX converts them, gives them new shapes, and computes nothing in them.
#pragma once

#include "sardonyx/lower.h"

namespace sardonyx {

bool is_narrow(DType t);

// `lower`, the lowering of `primitive` for other types, on an equation with narrow operands or results: in f32, f16, i32 or bytes, and each
// result rounded once to its own type, or cut to its bits. XLA's CPU, which goes through f16 or rounds after each step, is one neighbour off
// for some.
std::vector<Value*> in_wider_types(Lowering& ctx, std::string_view primitive, const LowerFn& lower);
// Primitives that know narrow types themselves, or do nothing to their operands.
bool keeps_narrow(std::string_view primitive);

// x, of any other type, as the small float t, as XLA rounds: to the even one of two neighbours, beyond the greatest to infinity or else
// NaN. Without `may_overflow` t holds what x can be.
Value* to_small_float(Lowering& ctx, Value* x, DType t, bool may_overflow = true);

}  // namespace sardonyx
