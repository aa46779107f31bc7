// split[sizes, axis] x   =>   Split<axis>(x, sizes)
// unstack[axis] x        =>   Gather<axis>(x, i) for each i
#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_split(Lowering& at) {
  auto sizes = at.dims_param("sizes");
  if (sizes.size() == 1) return {at.in(0)};
  Node& pieces = at.b.Split(at.in(0), at.shape(sizes), sizes.size(), {.axis = at.int_param("axis")});
  std::vector<Value*> results;
  for (Value& piece : pieces.results()) results.push_back(&piece);
  return results;
}

std::vector<Value*> lower_unstack(Lowering& at) {
  int64_t axis = at.int_param("axis");
  std::vector<Value*> results;
  for (size_t i = 0; i < at.eqn.num_results(); ++i)
    results.push_back(at.b.Gather(at.in(0), at.b.i64(static_cast<int64_t>(i)), {.axis = axis}));
  return results;
}

}  // namespace sardonyx
