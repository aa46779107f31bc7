// Weights of 4 bits as onnxruntime's own operators read them.
#pragma once

#include "dialects/onnx/runtimes/runtimes.h"
#include "passes/compress/encode.h"
#include "passes/compress/weights.h"
#include "rewrite/pass.h"

namespace sardonyx::onnx {

// How a weight is stored: the integers, and how many of them share a scale along the axis that is summed
// over.
struct PackedType {
  DType type = DType::kI4;
  int64_t block = 0;
};

// Whether operators of onnxruntime can take the places of all users of a matrix:
// com.microsoft::MatMulNBits for MatMul and Gemm, or com.microsoft::GatherBlockQuantized for Gather.
bool can_pack(const Value& weight, const compress::Axes& axes, PackedType type, const Runtime& runtime);

// Writes these operators instead of the users of the weight, and erases it. Returns what is stored.
compress::Codes write_packed(Value& weight, const compress::Axes& axes, PackedType type, const compress::Codes& codes,
                             PassContext& context);

}  // namespace sardonyx::onnx
