// neg x   =>   Neg(x);  unsigned: 0 - x, which wraps
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_neg(Lowering& ctx) {
  Value* x = operands(ctx)[0];
  if (is_unsigned(x->dtype())) return {via(ctx, "Sub", {ctx.b.scalar_int(x->dtype(), 0), x})};
  return {via(ctx, "Neg", {x})};
}

}  // namespace sardonyx
