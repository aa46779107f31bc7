// Values that the graph holds as two numbers in a last axis of 2.
#pragma once

#include <optional>
#include <utility>

#include "sardonyx/ir.h"

namespace sardonyx {

// The element type of the two: the reals of a complex number, the i64 halves of a key of four words. kUndefined for what is held as one.
DType pair_part(DType t);
// The two of a value that has just been put together of them, else nothing.
std::optional<std::pair<Value*, Value*>> joined_parts(Value* x);
inline bool is_pair(DType t) { return pair_part(t) != DType::kUndefined; }

}  // namespace sardonyx
