// Values that the graph holds as two numbers in a last axis of 2.
#pragma once

#include <optional>
#include <utility>

#include "sardonyx/ir.h"

namespace sardonyx::jax_to_onnx {

// The element type of the pair: the reals of a complex number, the i64 halves of a key of four words.
// kUndefined for values held as one number.
DType pair_part(DType t);
// The two values that form x, if x was just joined; else nothing.
std::optional<std::pair<Value*, Value*>> joined_parts(Value* x);
inline bool is_pair(DType t) { return pair_part(t) != DType::kUndefined; }

}  // namespace sardonyx::jax_to_onnx
