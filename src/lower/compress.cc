// compress[axis, size] x, mask   =>   Compress<axis>(x, mask)
//
// The slices of x along `axis` where mask: bool[n] is true; `size` is the symbol that stands for how many there are.
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_compress(Lowering& at) {
  const int64_t axis = at.int_param("axis");
  const DType own = at.in(0)->dtype();
  const DType wide = kernel_dtype(at, {"Compress"}, own);
  if (wide == DType::kUndefined) at.unsupported("no runtime computes Compress in " + std::string(to_string(own)));
  Value* y = at.b.Compress(at.cast(at.in(0), wide), at.in(1), {.axis = axis});
  return {at.cast(y, own)};
}

}  // namespace sardonyx
