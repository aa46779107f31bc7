// transpose[permutation] x   =>   Transpose<perm = permutation>(x)
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_transpose(Lowering& at) {
  return {at.transpose(at.in(0), stored_axes(at, at.ints_param("permutation")))};
}

}  // namespace sardonyx
