// Gather, GatherElements, Slice.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "dialects/onnx/infer/slice_end.h"
#include "lower/onnx_to_mil/arrays/indices.h"
#include "lower/onnx_to_mil/context.h"

namespace sardonyx::onnx_to_mil {
bool is_from_pytorch(Lowering& ctx) { return ctx.context().source().producer_name == "pytorch"; }

Value* indices(Lowering& ctx, size_t i, Value* x, size_t axis) {
  MilBuilder& b = ctx.b;
  const Dim size = x->type()->dim(axis);
  const TensorPtr t = ctx.constant(i);
  const bool counted_from_front = is_from_pytorch(ctx) && (ctx.node.is("GatherElements") || ctx.node.is("ScatterElements"));
  if (counted_from_front || ctx.is_never_negative(i)) return ctx.in(i);
  if (t != nullptr && !t->is_promise() && size.is_int()) {
    const auto list = t->to_ints(1 << 20);
    if (!list || std::ranges::none_of(*list, [](int64_t k) { return k < 0; })) return ctx.in(i);
    std::vector<int32_t> counted;
    for (int64_t k : *list) counted.push_back(static_cast<int32_t>(k < 0 ? k + size.value() : k));
    return b.constant(Tensor::of<int32_t>(DType::kI32, {t->shape().begin(), t->shape().end()}, counted));
  }
  constexpr int kIos17 = 8;
  Value* at = ctx.in(i);
  if (ctx.version() < kIos17) return at;
  Value* is_counted = b.greater_equal(at, 0);
  Value* whole = size.is_int() ? b.i32(static_cast<int32_t>(size.value())) : b.squeeze(ctx.size_of(x, axis), {.axes = {0}});
  return b.select(is_counted, at, b.add(at, whole));
}

std::vector<size_t> axes_with_fewer(Lowering& ctx, size_t axis) {
  const auto data = ctx.in_dims(0), at = ctx.in_dims(1);
  std::vector<size_t> axes;
  for (size_t d = 0; d < data.size(); ++d) {
    if (d == axis || at[d] == data[d]) continue;
    if (at[d].is_int() && data[d].is_int() && at[d].value() <= data[d].value()) {
      axes.push_back(d);
    } else if (ctx.dims().compare(at[d], data[d]) != Compare::kUnknown) {
      ctx.unsupported("indices of fewer rows than data of an open size");
    }
  }
  return axes;
}

Value* rows(Lowering& ctx, Value* x, size_t axis, Dim count, bool first) {
  const size_t rank = x->type()->rank();
  std::vector<int64_t> from(rank), to(rank);
  std::vector<bool> all(rank, true);
  all[axis] = false;
  (first ? to : from)[axis] = count.value();
  const std::vector<bool> whole(rank, true);
  return ctx.b.slice_by_index(x, from, to, {.begin_mask = first ? whole : all, .end_mask = first ? all : whole});
}

std::vector<Value*> lower_Gather(Lowering& ctx) {
  const size_t axis = from_front(ctx.int_attr("axis", 0), ctx.rank(0));
  Value* at = indices(ctx, 1, ctx.in(0), axis);
  return {ctx.via("gather", ctx.in(0), [&](Value* x) { return ctx.b.gather(x, at, {.axis = as_int(axis)}); })};
}

std::vector<Value*> lower_GatherElements(Lowering& ctx) {
  const size_t axis = from_front(ctx.int_attr("axis", 0), ctx.rank(0));
  Value* at = indices(ctx, 1, ctx.in(0), axis);
  const std::vector<size_t> fewer = axes_with_fewer(ctx, axis);
  return {ctx.via("gather_along_axis", ctx.in(0), [&](Value* x) {
    for (size_t d : fewer) x = rows(ctx, x, d, ctx.in_dims(1)[d], /*first=*/true);
    return ctx.b.gather_along_axis(x, at, {.axis = as_int(axis)});
  })};
}

namespace {

// One number for each axis of x; some may be computed at run time.
struct Bounds {
  std::vector<int64_t> known;    // valid where `computed` is null
  std::vector<Value*> computed;  // i32[1]; null: see `known`
  bool is_known() const {
    return std::ranges::all_of(computed, [](Value* v) { return v == nullptr; });
  }
  Value* value(Lowering& ctx) const {
    if (is_known()) return ctx.b.i32s(known);
    std::vector<Value*> pieces;
    for (size_t i = 0; i < known.size(); ++i)
      pieces.push_back(computed[i] != nullptr ? computed[i] : ctx.b.i32s(std::vector<int64_t>{known[i]}));
    return ctx.join(pieces);
  }
};

}  // namespace

// ONNX clamps the bounds of slices; Core ML does not document that. Clamps constant bounds here, and uses a
// mask for "to the end".
std::vector<Value*> lower_Slice(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const size_t rank = ctx.rank(0);
  const auto dims = ctx.in_dims(0);
  const auto starts = ctx.ints(1, "starts"), ends = ctx.ints(2, "ends");
  std::vector<int64_t> axes, steps;
  if (ctx.has(3) || ctx.node.attr("axes") != nullptr) axes = ctx.need_ints(3, "axes", "the axes");
  if (ctx.has(4)) steps = ctx.need_ints(4, {}, "the steps");
  const size_t count = starts ? starts->size()
                       : ends ? ends->size()
                              : static_cast<size_t>(ctx.in_type(1)->static_size().value_or(0));
  if (axes.empty()) axes = iota(count);
  if (steps.empty()) steps.assign(count, 1);
  Bounds begin{std::vector<int64_t>(rank), std::vector<Value*>(rank)}, end = begin;
  std::vector<int64_t> stride(rank, 1);
  std::vector<bool> from_begin(rank, true), to_end(rank, true);
  const auto computed = [&](size_t operand, size_t k) {
    return count == 1 ? ctx.in(operand) : b.slice_by_index(ctx.in(operand), {as_int(k)}, {as_int(k + 1)});
  };
  for (size_t k = 0; k < count; ++k) {
    const size_t axis = from_front(axes[k], rank);
    const Dim size = dims[axis];
    stride[axis] = steps[k];
    const bool back = steps[k] < 0;
    const int64_t far = std::numeric_limits<int32_t>::max();
    if (starts) {
      int64_t at = std::clamp((*starts)[k], -far, far);
      if (size.is_int())
        at = std::clamp<int64_t>(at < 0 ? at + size.value() : at, 0, std::max<int64_t>(size.value() - (back ? 1 : 0), 0));
      begin.known[axis] = at;
      from_begin[axis] = back ? (size.is_int() ? at == size.value() - 1 : at == -1 || at == far) : at == 0 || at == -far;
    } else {
      begin.computed[axis] = computed(1, k);
      from_begin[axis] = false;
    }
    if (ends) {
      int64_t at = std::clamp(onnx::slice_end((*ends)[k], steps[k]), -far, far);
      if (size.is_int()) {
        at = at < 0 ? at + size.value() : at;
        to_end[axis] = back ? at < 0 : at >= size.value();
      } else {
        to_end[axis] = back ? at == -far : at == far;
      }
      end.known[axis] = to_end[axis] ? 0 : at;
    } else {
      end.computed[axis] = computed(2, k);
      to_end[axis] = false;
    }
  }
  Value *from = begin.value(ctx), *to = end.value(ctx);
  return {ctx.via("slice_by_index", ctx.in(0), [&](Value* x) {
    return b.slice_by_index(x, from, to, {.begin_mask = from_begin, .end_mask = to_end, .stride = stride});
  })};
}

}  // namespace sardonyx::onnx_to_mil
