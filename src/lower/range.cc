// range[dtype, size] start, stop, step   =>   Range(start, stop, step)
//
// Integers from start on, before stop: `size` is the symbol that stands for how many. None where step leads away from stop. A bound may be a
// float that holds an integer.
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_range(Lowering& at) {
  DType own = at.in_dtype(0);
  const DType wide = own == DType::kI32 && at.in_dtype(1) == own && at.in_dtype(2) == own ? own : DType::kI64;
  Value* y = at.b.Range(at.cast(at.in(0), wide), at.cast(at.in(1), wide), at.cast(at.in(2), wide));
  return {at.cast(y, at.out_dtype())};
}

}  // namespace sardonyx
