// Products of tensors over any axes, as lax.dot_general defines them.
#pragma once

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

struct DotAxes {
  std::vector<int64_t> lhs_contract, rhs_contract, lhs_batch, rhs_batch;

  // ((lhs contracting, rhs contracting), (lhs batch, rhs batch))
  static DotAxes of(const Lowering& ctx, const Attr& dimension_numbers);
};

// x and y have the same real element type. Returns [batch.., free axes of x, free axes of y], with axes
// merged as the chosen operator leaves them; the caller reshapes.
Value* dot_product(Lowering& ctx, const DotAxes& axes, Value* x, Value* y);
// The same, in the type `out` and with the shape of the result.
Value* dot_general(Lowering& ctx, const DotAxes& axes, Value* x, Value* y, DType out);

}  // namespace sardonyx::jax_to_onnx
