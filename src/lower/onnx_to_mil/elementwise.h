// Operators that are one MIL op on the same operands.
#pragma once

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::to_mil {

// The op of that name on all operands. Bools go through i32 where the op does not take them, and integers are refused where it
// takes floats only.
std::vector<Value*> lower_same(Lowering& ctx, std::string_view op);

}  // namespace sardonyx::to_mil
