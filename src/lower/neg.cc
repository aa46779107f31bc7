// neg x   =>   Neg(x);  unsigned: 0 - x, which wraps
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_neg(Lowering& at) {
  Value* x = operands(at)[0];
  if (is_unsigned(x->dtype())) return {via(at, "Sub", {at.b.scalar_int(x->dtype(), 0), x})};
  return {via(at, "Neg", {x})};
}

}  // namespace sardonyx
