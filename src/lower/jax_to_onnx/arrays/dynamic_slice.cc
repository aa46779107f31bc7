// dynamic_slice[slice_sizes] operand, starts..     =>   Slice(operand, clamped starts, starts + sizes, axes);
//                                                       Gather for one row whose index is computed
// dynamic_update_slice operand, update, starts..   =>   Concat(head, update, tail); ScatterND on several axes
//
// As in XLA, starts are clamped so that the window lies inside. Axes taken whole need no start.
#include <algorithm>
#include <optional>

#include "lower/jax_to_onnx/arrays/indexing.h"
#include "lower/jax_to_onnx/kernels.h"
#include "lower/jax_to_onnx/lib/wide_integers.h"

namespace sardonyx::jax_to_onnx {
namespace {

using Ints = std::vector<int64_t>;

struct Window {
  Ints axes;                // those not taken whole
  std::vector<Dim> sizes;   // of the window on them
  Value* starts = nullptr;  // i64[n], clamped
};

// `first` is the operand that holds the start of axis 0.
Window window(Lowering& ctx, std::span<const Dim> sizes, size_t first) {
  Window w;
  std::vector<Value*> parts;
  std::vector<Dim> limits;
  bool constant = true;
  std::vector<int64_t> known;
  const std::span<const Dim> dims = ctx.in_dims(0);
  for (size_t a = 0; a < dims.size(); ++a) {
    if (dims[a] == sizes[a]) continue;
    w.axes.push_back(static_cast<int64_t>(a));
    w.sizes.push_back(sizes[a]);
    limits.push_back(ctx.b.dims().sub(dims[a], sizes[a]));
    Value* start = ctx.in(first + a);
    const TensorPtr& payload = start->constant();
    constant &= payload != nullptr && limits.back().is_int();
    if (constant) known.push_back(std::clamp<int64_t>(payload->as_int(0), 0, limits.back().value()));
    parts.push_back(start);
  }
  if (parts.empty()) return w;
  if (constant) {
    w.starts = ctx.b.i64s(known);
    return w;
  }
  for (Value*& p : parts) p = ctx.unsqueeze(ctx.cast(p, DType::kI64), Ints{0});
  w.starts = clamped_index(ctx, ctx.concat(parts, 0), ctx.b.i64s({0}), ctx.shape(limits));
  return w;
}

// starts + sizes; a constant if the starts are known.
Value* stops(Lowering& ctx, const Window& w) {
  if (const TensorPtr& known = w.starts->constant()) {
    std::vector<Dim> sums;
    for (size_t i = 0; i < w.sizes.size(); ++i)
      sums.push_back(ctx.b.dims().add(Dim::of(known->as_int(static_cast<int64_t>(i))), w.sizes[i]));
    return ctx.shape(sums);
  }
  return ctx.b.Add(w.starts, ctx.shape(w.sizes));
}

// x[i] as programs write it: Gather counts a negative start from the end, so no arithmetic is needed. Null
// for all other windows.
Value* one_row(Lowering& ctx, std::span<const Dim> sizes) {
  const std::span<const Dim> dims = ctx.in_dims(0);
  std::optional<size_t> axis;
  for (size_t a = 0; a < dims.size(); ++a) {
    if (dims[a] == sizes[a]) continue;
    if (axis || !sizes[a].is(1)) return nullptr;
    axis = a;
  }
  if (!axis || ctx.in(1 + *axis)->is_constant()) return nullptr;
  Value* start = ctx.in(1 + *axis);
  const Dim size = dims[*axis];
  Value *first = ctx.b.i64(0), *last = ctx.dim(ctx.b.dims().sub(size, Dim::of(1)));
  if (Value* own = before_wrapping(ctx, start, size)) {
    start = own;
    first = ctx.dim(ctx.b.dims().sub(Dim::of(0), size));
  }
  Value* row = clamped_index(ctx, ctx.cast(start, DType::kI64), first, last);
  return ctx.b.Gather(ctx.in(0), ctx.unsqueeze(row, Ints{0}), {.axis = static_cast<int64_t>(*axis)});
}

}  // namespace

std::vector<Value*> lower_dynamic_slice(Lowering& ctx) {
  const std::vector<Dim> sizes = ctx.dims_param("slice_sizes");
  if (Value* row = one_row(ctx, sizes)) return {row};
  const Window w = window(ctx, sizes, 1);
  if (w.axes.empty()) return {ctx.in(0)};
  return {ctx.b.Slice(ctx.in(0), w.starts, stops(ctx, w), ctx.b.i64s(w.axes))};
}

std::vector<Value*> lower_dynamic_update_slice(Lowering& ctx) {
  const std::vector<Dim> sizes(ctx.in_dims(1).begin(), ctx.in_dims(1).end());
  const Window w = window(ctx, sizes, 2);
  Value* x = ctx.in(0);
  Value* update = ctx.in(1);
  if (w.axes.empty()) return {update};
  if (w.axes.size() == 1) {
    Value* axis = ctx.b.i64s(w.axes);
    Value* head = ctx.b.Slice(x, ctx.b.i64s({0}), w.starts, axis);
    Value* tail = ctx.b.Slice(x, stops(ctx, w), ctx.b.i64s({INT64_MAX}), axis);
    return {ctx.b.Concat({head, update, tail}, {.axis = w.axes[0]})};
  }
  const std::vector<Dim> no_lead{Dim::of(static_cast<int64_t>(w.axes.size()))};
  const Indexing ix(ctx.in_dims(0), no_lead, sizes, w.axes, {}, {}, false);
  const Ints perm = ix.operand_perm();
  Ints back(perm.size()), update_labels(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
    update_labels[i] = static_cast<int64_t>(i);
  }
  std::vector<Dim> dims;
  for (size_t i : ix.windows()) dims.push_back(ix.window[i]);
  for (int64_t a : ix.whole) dims.push_back(ix.operand_dims[static_cast<size_t>(a)]);
  update = arrange(ctx, update, update_labels, perm, dims);
  Value* y = ctx.b.ScatterND(ctx.transpose(x, perm), ix.grid(ctx, w.starts, false), update);
  return {ctx.transpose(y, back)};
}

}  // namespace sardonyx::jax_to_onnx
