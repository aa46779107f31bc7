// concatenate[dimension] xs   =>   Concat<axis>(xs)
// stack[axis] xs              =>   Concat<axis>(Unsqueeze of each)
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_concatenate(Lowering& at) {
  std::vector<Value*> xs;
  for (size_t i = 0; i < at.num_inputs(); ++i) {
    // An empty operand adds nothing.
    if (!at.in_dims(i)[static_cast<size_t>(at.int_param("dimension"))].is(0)) xs.push_back(at.in(i));
  }
  if (xs.empty()) xs.push_back(at.in(0));
  return {at.concat(xs, at.int_param("dimension"))};
}

std::vector<Value*> lower_stack(Lowering& at) {
  int64_t axis = at.int_param("axis");
  std::vector<Value*> xs;
  for (size_t i = 0; i < at.num_inputs(); ++i) xs.push_back(at.unsqueeze(at.in(i), std::vector{axis}));
  return {at.concat(xs, axis)};
}

}  // namespace sardonyx
