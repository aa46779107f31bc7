// reshape[new_sizes, dimensions] x   =>   Reshape(x), after a Transpose by `dimensions` if given;
//                                         Unsqueeze if it only adds axes of size 1
// squeeze[dimensions] x              =>   Squeeze(x)
//
// Leading axes of size 1 need no node if all users add them by broadcasting.
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {
namespace {

// The positions of the axes of size 1 by which `to` differs from `from`; nullopt if there are none, or other
// differences.
std::optional<std::vector<int64_t>> inserted_axes(std::span<const Dim> from, std::span<const Dim> to) {
  std::vector<int64_t> axes;
  size_t next = from.size();
  // Matches from the right, as broadcasting does: if several ways are possible, takes the one with leading
  // new axes.
  for (size_t i = to.size(); i-- > 0;) {
    if (next > 0 && from[next - 1] == to[i]) {
      --next;
    } else if (to[i].is(1)) {
      axes.insert(axes.begin(), static_cast<int64_t>(i));
    } else {
      return {};
    }
  }
  return next == 0 && !axes.empty() ? std::optional(axes) : std::nullopt;
}

}  // namespace

std::vector<Value*> lower_reshape(Lowering& ctx) {
  Value* x = ctx.in(0);
  auto to = ctx.stored_out_type()->dims();
  if (ctx.find_param("dimensions") != nullptr)
    return {ctx.reshape(ctx.transpose(x, stored_axes(ctx, ctx.ints_param("dimensions"))), to)};
  // Compares the equation's own types: the operand may be narrower, and then only leading axes are new.
  auto axes = inserted_axes(ctx.stored_in_type(0)->dims(), to);
  if (!axes) return {ctx.reshape(x, to)};
  if (ctx.may_stay_narrow()) {
    int64_t front = 0;
    while (front < static_cast<int64_t>(axes->size()) && (*axes)[static_cast<size_t>(front)] == front) ++front;
    axes->erase(axes->begin(), axes->begin() + front);
    for (int64_t& axis : *axes) axis -= front;
  }
  return {insert_axes(ctx, x, *axes)};
}

std::vector<Value*> lower_squeeze(Lowering& ctx) { return {ctx.squeeze(ctx.in(0), ctx.ints_param("dimensions"))}; }

}  // namespace sardonyx::jax_to_onnx
