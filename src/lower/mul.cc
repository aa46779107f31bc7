// mul[out_dtype] x y   =>   Mul(x, y), of operands cast to out_dtype first if there is one;  bools: And
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_mul(Lowering& at) {
  auto xs = operands(at);
  if (at.out_dtype() == DType::kBool) return {at.b.And(xs[0], xs[1])};
  for (Value*& x : xs) x = at.cast(x, at.out_dtype());
  return {via(at, "Mul", xs)};
}

}  // namespace sardonyx
