// nonzero[dtype, size] x   =>   Cast(NonZero(x)): dtype[rank, size]
//
// Where x is not zero: one row of indices per axis, in the order of the elements; `size` is the symbol that stands for how many.
// `fitted`: it is a size that others have, for which they are as many or one; the runtime's Expand refuses all else.
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_nonzero(Lowering& ctx) {
  Value* x = ctx.in(0);
  // NaN is not zero; a Cast to bool says so too.
  if (!has_kernel(ctx, "NonZero", x->dtype())) x = ctx.cast(x, DType::kBool);
  Value* found = ctx.b.NonZero(x);
  if (ctx.bool_param("fitted", false)) found = ctx.expand(found, ctx.out_dims());
  return {ctx.cast(found, ctx.out_dtype())};
}

}  // namespace sardonyx
