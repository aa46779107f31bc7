// Kernels of onnxruntime's CPU provider that compute wrong results on extreme integers, by release.
//
// The facts are in wrong_kernels.gen.inc, which scripts/tables/gen_wrong_kernels.py writes. It runs the
// releases on the ends of the ranges, on powers of two and on their neighbors. Max, Min, Clip, Relu and Sign
// are right on tensors of one element.
#pragma once

#include <string_view>

#include "dialects/onnx/runtimes/runtimes.h"

namespace sardonyx::onnx {

// Whether the runtime's kernel of the operator is wrong on some elements of type t; null means any runtime.
// Operators are spelled as in the table: "Mod fmod" is Mod with that attribute, "Einsum sum" an Einsum that
// sums over an axis of one operand.
bool is_wrong(std::string_view op, DType t, const Runtime* runtime = nullptr);

}  // namespace sardonyx::onnx
