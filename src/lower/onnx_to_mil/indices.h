// Indices as Core ML wants them.
#pragma once

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::to_mil {

// Operand i, which counts along `axis` of x, from the front: from iOS 17 on, Core ML's gathers and scatters take no negative indices. The
// pass guard_negative_gather_indices knows this spelling.
Value* indices(Lowering& ctx, size_t i, Value* x, size_t axis);

// Whether PyTorch wrote the model. Its gather, scatter and one_hot fail for indices that are negative or too large, so that none is here.
bool is_from_pytorch(Lowering& ctx);

// The axes other than `axis` along which operand 1, the indices, has fewer elements than operand 0, the data: there, ONNX reads and
// writes the first rows, and Core ML takes no such indices.
std::vector<size_t> axes_with_fewer(Lowering& ctx, size_t axis);

// The first `count` rows of x along an axis, or those behind them.
Value* rows(Lowering& ctx, Value* x, size_t axis, Dim count, bool first);

}  // namespace sardonyx::to_mil
