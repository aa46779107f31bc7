// ne x y   =>   Not(Equal(x, y));  bools: Xor(x, y)
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_ne(Lowering& at) {
  auto xs = operands(at);
  if (at.in_dtype(0) == DType::kBool) return {at.b.Xor(xs[0], xs[1])};
  return {at.b.Not(via(at, "Equal", xs))};
}

}  // namespace sardonyx
