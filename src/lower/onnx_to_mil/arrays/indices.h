// Indices for Core ML.
#pragma once

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {

// Operand i, indices along `axis` of x, with negative ones counted from the front: from iOS 17 on, Core ML's
// gathers and scatters take no negative indices. The pass guard_negative_gather_indices matches these nodes.
Value* indices(Lowering& ctx, size_t i, Value* x, size_t axis);

// Whether PyTorch wrote the model. Its gather, scatter and one_hot fail for indices that are negative or too
// large, so its models have none.
bool is_from_pytorch(Lowering& ctx);

// The axes other than `axis` along which operand 1, the indices, is smaller than operand 0, the data. ONNX
// then reads and writes the first elements along these axes; Core ML requires equal sizes.
std::vector<size_t> axes_with_fewer(Lowering& ctx, size_t axis);

// The first `count` elements of x along an axis; with `first` false, the others.
Value* rows(Lowering& ctx, Value* x, size_t axis, Dim count, bool first);

}  // namespace sardonyx::onnx_to_mil
