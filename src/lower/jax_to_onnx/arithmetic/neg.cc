// neg x   =>   Neg(x);  unsigned: 0 - x, which wraps
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_neg(Lowering& ctx) {
  Value* x = ctx.operands()[0];
  if (is_unsigned(x->dtype())) return {ctx.via("Sub", {ctx.b.scalar_int(x->dtype(), 0), x})};
  return {ctx.via("Neg", {x})};
}

}  // namespace sardonyx::jax_to_onnx
