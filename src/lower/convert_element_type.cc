// convert_element_type[new_dtype] x   =>   Cast<to>(x)
//
// Integers wrap and floats round in both. A float beyond an integer's range gives what the runtime gives: StableHLO leaves it open.
// From complex: the real part, as JAX takes it.
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_convert_element_type(Lowering& at) {
  if (at.in_dtype(0) == at.out_dtype()) return {at.in(0)};
  if (is_complex(at.in_dtype(0)) && is_complex(at.out_dtype())) return {at.cast(at.in(0), at.stored_out_type()->dtype())};
  if (is_complex(at.out_dtype())) at.unsupported("no conversion to complex");
  if (is_complex(at.in_dtype(0))) {
    Value* real = at.b.Gather(at.in(0), at.b.i64(0), {.axis = -1});
    return {at.cast(real, at.out_dtype())};
  }
  return {at.cast(at.in(0), at.out_dtype())};
}

}  // namespace sardonyx
