// Logic on the bits of integers, before and after opset 18, which added operators for it.
#pragma once

#include "sardonyx/onnx_builder.h"

namespace sardonyx::jax_to_onnx {

// `op` is BitwiseAnd, BitwiseOr, BitwiseXor or (without y) BitwiseNot; x and y have the same integer type and
// broadcast.
//
// Below opset 18, four bits of each operand at a time form an index into a table of 256 results. Low-bit
// masks, the highest bit and complements become arithmetic instead.
Value* bitwise(OnnxBuilder& b, std::string_view op, Value* x, Value* y = nullptr);

// x | y, if x and y have no set bit in common: below opset 18, their sum.
Value* join_bits(OnnxBuilder& b, Value* x, Value* y);

}  // namespace sardonyx::jax_to_onnx
