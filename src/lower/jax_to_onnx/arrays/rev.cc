// rev[dimensions] x   =>   Slice(x) from the last element with step -1
#include <limits>

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_rev(Lowering& ctx) {
  auto axes = ctx.ints_param("dimensions");
  if (axes.empty()) return {ctx.in(0)};
  std::vector<int64_t> backwards(axes.size(), -1), ends(axes.size(), std::numeric_limits<int64_t>::min());
  OnnxBuilder& b = ctx.b;
  return {b.Slice(ctx.in(0), b.i64s(backwards), b.i64s(ends), b.i64s(axes), b.i64s(backwards))};
}

}  // namespace sardonyx::jax_to_onnx
