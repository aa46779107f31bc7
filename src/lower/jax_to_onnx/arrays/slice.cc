// slice[start_indices, limit_indices, strides] x   =>   Slice(x, starts, ends, axes, steps), on axes that shrink
//
// A symbolic limit is written as a distance from the end if it is one (b - 1 of b is -1): no size is needed
// at run time.
#include <algorithm>
#include <limits>

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_slice(Lowering& ctx) {
  auto starts = ctx.dims_param("start_indices"), limits = ctx.dims_param("limit_indices");
  std::vector<int64_t> strides(starts.size(), 1);
  if (ctx.find_param("strides") != nullptr) strides = ctx.ints_param("strides");
  OnnxBuilder& b = ctx.b;
  std::vector<Dim> first, last;
  std::vector<int64_t> axes, steps;
  for (size_t i = 0; i < starts.size(); ++i) {
    Dim size = ctx.in_dims(0)[i], end = limits[i];
    if (starts[i].is(0) && end == size && strides[i] == 1) continue;
    if (!end.is_int()) {
      Dim beyond = b.dims().sub(end, size);
      if (beyond.is(0)) end = Dim::of(std::numeric_limits<int32_t>::max());
      if (beyond.is_int() && beyond.value() < 0) end = beyond;
    }
    first.push_back(starts[i]);
    last.push_back(end);
    axes.push_back(static_cast<int64_t>(i));
    steps.push_back(strides[i]);
  }
  if (axes.empty()) return {ctx.in(0)};
  bool has_steps = std::ranges::any_of(steps, [](int64_t s) { return s != 1; });
  return {b.Slice(ctx.in(0), ctx.shape(first), ctx.shape(last), b.i64s(axes), has_steps ? b.i64s(steps) : nullptr)};
}

}  // namespace sardonyx::jax_to_onnx
