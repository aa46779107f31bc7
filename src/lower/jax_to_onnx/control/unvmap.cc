// Primitives of Equinox that vmap does not map:
// unvmap_all, unvmap_any, unvmap_max x       =>   ReduceMin, ReduceMax over all axes
// select_if_vmap x when y                    =>   x: the equation remains only if nothing was mapped
#include "lower/jax_to_onnx/reductions/reduction.h"

namespace sardonyx::jax_to_onnx {
namespace {

std::vector<Value*> over_all_axes(Lowering& ctx, std::string_view primitive) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < ctx.in_rank(0); ++i) axes.push_back(static_cast<int64_t>(i));
  return {reduce_with(ctx, *find_reduction(primitive), ctx.in(0), axes)};
}

}  // namespace

std::vector<Value*> lower_unvmap_all(Lowering& ctx) { return over_all_axes(ctx, "and"); }
std::vector<Value*> lower_unvmap_any(Lowering& ctx) { return over_all_axes(ctx, "or"); }
std::vector<Value*> lower_unvmap_max(Lowering& ctx) { return over_all_axes(ctx, "max"); }
std::vector<Value*> lower_select_if_vmap(Lowering& ctx) { return {ctx.in(1)}; }

}  // namespace sardonyx::jax_to_onnx
