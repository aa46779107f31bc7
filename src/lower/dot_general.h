// Products of tensors over any axes, as lax.dot_general means them.
#pragma once

#include "lower/kernels.h"

namespace sardonyx {

struct DotAxes {
  std::vector<int64_t> lhs_contract, rhs_contract, lhs_batch, rhs_batch;

  // ((lhs contracting, rhs contracting), (lhs batch, rhs batch))
  static DotAxes of(const Lowering& ctx, const Attr& dimension_numbers);
};

// x, y of one real element type: [batch.., free axes of x, free axes of y], merged as the operator that was used has them; the caller reshapes.
Value* dot_product(Lowering& ctx, const DotAxes& axes, Value* x, Value* y);
// In the type `out`, with the shape of the result.
Value* dot_general(Lowering& ctx, const DotAxes& axes, Value* x, Value* y, DType out);

}  // namespace sardonyx
