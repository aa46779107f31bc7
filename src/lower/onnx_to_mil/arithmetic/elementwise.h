// Operators that are one MIL op on the same operands.
#pragma once

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {

// The op of that name on all operands. Casts bools to i32 if the op does not take them; refuses integers if
// it takes floats only.
std::vector<Value*> lower_same(Lowering& ctx, std::string_view op);

}  // namespace sardonyx::onnx_to_mil
