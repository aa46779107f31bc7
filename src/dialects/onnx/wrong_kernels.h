// Kernels of onnxruntime's CPU provider that compute wrong results on extreme integers, release by release.
//
// The facts are in wrong_kernels.gen.inc, which tools/gen_wrong_kernels.py writes: it runs the releases on the ends of the ranges, on powers of
// two and their neighbours. Of Max, Min, Clip, Relu and Sign, tensors of one element come out right.
#pragma once

#include <string_view>

#include "dialects/onnx/runtimes.h"

namespace sardonyx::onnx {

// Whether the runtime's kernel of the operator is wrong on some elements of type t; of any runtime where it is null. The operator is spelled
// as in the table: "Mod fmod" and "Einsum sum" are those with that attribute or those that sum over an axis of one operand.
bool is_wrong(std::string_view op, DType t, const Runtime* runtime = nullptr);

}  // namespace sardonyx::onnx
