// Indices as Core ML wants them.
#pragma once

#include "lower/mil/lowering.h"

namespace sardonyx::to_mil {

// Operand i, which counts along `axis` of x, from the front: from iOS 17 on, Core ML's gathers and scatters take no negative indices. The
// pass guard_negative_gather_indices knows this spelling.
Value* indices(Lowering& ctx, size_t i, Value* x, size_t axis);

}  // namespace sardonyx::to_mil
