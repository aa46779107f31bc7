// broadcast_in_dim[shape, broadcast_dimensions] x   =>   Unsqueeze(x), unless ONNX's alignment to the right says it, then Expand
#include <algorithm>

#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_broadcast_in_dim(Lowering& at) {
  auto places = at.ints_param("broadcast_dimensions");
  int64_t rank = static_cast<int64_t>(at.out_type()->rank());
  bool is_real = at.stored_out_type()->rank() == at.out_type()->rank();
  // New axes before the operand's first need no node; those after it do.
  int64_t first = places.empty() && is_real ? rank : places.empty() ? 0 : places[0];
  std::vector<int64_t> missing;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (std::ranges::find(places, axis) == places.end() && axis > first) missing.push_back(axis - first);
  }
  if (places.empty() && !is_real) return {at.expand(at.in(0), at.stored_out_type()->dims())};
  return {at.expand(at.unsqueeze(at.in(0), missing), at.stored_out_type()->dims())};
}

}  // namespace sardonyx
