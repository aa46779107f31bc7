// broadcast_in_dim[shape, broadcast_dimensions] x   =>   Unsqueeze(x), unless ONNX's alignment to the right says it, then Expand
//
// No Expand where every reader broadcasts anyway.
#include <algorithm>

#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_broadcast_in_dim(Lowering& at) {
  const std::vector<int64_t> places = at.ints_param("broadcast_dimensions");
  const auto rank = static_cast<int64_t>(at.out_type()->rank());
  const bool is_real = at.stored_out_type()->rank() == at.out_type()->rank();
  if (places.empty() && !is_real) return {at.expand(at.in(0), at.stored_out_type()->dims())};
  // New axes before the operand's first need no node; those after it do.
  const int64_t first = places.empty() ? rank : places[0];
  std::vector<int64_t> missing;
  for (int64_t axis = first + 1; axis < rank; ++axis) {
    if (std::ranges::find(places, axis) == places.end()) missing.push_back(axis - first);
  }
  Value* x = at.unsqueeze(at.in(0), missing);
  return {is_real && at.may_stay_narrow() ? x : at.expand(x, at.stored_out_type()->dims())};
}

}  // namespace sardonyx
