// reshape[new_sizes, dimensions] x   =>   Reshape(x), after a Transpose by `dimensions` where given
// squeeze[dimensions] x              =>   Squeeze(x)
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_reshape(Lowering& at) {
  Value* x = at.in(0);
  if (at.find_param("dimensions") != nullptr) x = at.transpose(x, stored_axes(at, at.ints_param("dimensions")));
  return {at.reshape_like(x, at.stored_out_type())};
}

std::vector<Value*> lower_squeeze(Lowering& at) { return {at.squeeze(at.in(0), at.ints_param("dimensions"))}; }

}  // namespace sardonyx
