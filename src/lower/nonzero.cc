// nonzero[dtype, size] x   =>   Cast(NonZero(x)): dtype[rank, size]
//
// Where x is not zero: one row of indices per axis, in the order of the elements; `size` is the symbol that stands for how many.
// `fitted`: it is a size that others have, for which they are as many or one; the runtime's Expand refuses all else.
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_nonzero(Lowering& at) {
  Value* x = at.in(0);
  // NaN is not zero; a Cast to bool says so too.
  if (!has_kernel(at, "NonZero", x->dtype())) x = at.cast(x, DType::kBool);
  Value* found = at.b.NonZero(x);
  if (at.bool_param("fitted", false)) found = at.expand(found, at.out_dims());
  return {at.cast(found, at.out_dtype())};
}

}  // namespace sardonyx
