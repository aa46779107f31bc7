// broadcast_in_dim[shape, broadcast_dimensions] x   =>   Expand(Unsqueeze(x))
//
// There is no Unsqueeze if ONNX's alignment to the right implies it. There is no Expand if all new axes have
// size 1, or if all users broadcast anyway.
#include <algorithm>

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_broadcast_in_dim(Lowering& ctx) {
  const std::vector<int64_t> places = ctx.ints_param("broadcast_dimensions");
  const auto rank = static_cast<int64_t>(ctx.out_type()->rank());
  const bool is_real = ctx.stored_out_type()->rank() == ctx.out_type()->rank();
  if (places.empty() && !is_real) return {ctx.expand(ctx.in(0), ctx.stored_out_type()->dims())};
  const bool may_stay_narrow = is_real && ctx.may_stay_narrow();
  bool grows = false;
  std::vector<int64_t> missing;
  for (int64_t axis = 0; axis < rank; ++axis) {
    auto place = std::ranges::find(places, axis);
    const Dim size = ctx.out_dims()[static_cast<size_t>(axis)];
    if (place == places.end()) {
      missing.push_back(axis);
      grows = grows || !size.is(1);
    } else {
      grows = grows || !(ctx.in_dims(0)[static_cast<size_t>(place - places.begin())] == size);
    }
  }
  if (!grows && !may_stay_narrow) return {insert_axes(ctx, ctx.in(0), missing)};
  // New axes before the operand's first need no node; those after it do.
  const int64_t first = places.empty() ? rank : places[0];
  std::erase_if(missing, [&](int64_t axis) { return axis < first; });
  for (int64_t& axis : missing) axis -= first;
  Value* x = insert_axes(ctx, ctx.in(0), missing);
  return {may_stay_narrow ? x : ctx.expand(x, ctx.stored_out_type()->dims())};
}

}  // namespace sardonyx::jax_to_onnx
