// GatherND, ScatterND, ScatterElements.
#include <fmt/format.h>

#include <algorithm>

#include "lower/mil/indices.h"

namespace sardonyx::to_mil {
namespace {

constexpr int kIos17 = 8;

// Makes indices into the axes [first, first + n) of x non-negative; the last axis of the indices runs over these axes. See indices().
Value* tuples(Lowering& ctx, size_t i, Value* x, size_t first) {
  MilBuilder& b = ctx.b;
  Value* at = ctx.in(i);
  const Type* t = ctx.in_type(i);
  if (ctx.is_never_negative(i) || ctx.version() < kIos17) return at;
  const Dim n = t->dim(t->rank() - 1);
  if (!n.is_int()) ctx.unsupported("indices of an open number of axes");
  const auto whole = x->type()->dims().subspan(first, static_cast<size_t>(n.value()));
  if (const TensorPtr& known = at->constant()) {
    const auto list = known->to_ints(1 << 20);
    const bool counted = list && std::ranges::none_of(*list, [](int64_t k) { return k < 0; });
    if (counted) return at;
    if (list && std::ranges::all_of(whole, [](Dim d) { return d.is_int(); })) {
      std::vector<int32_t> from_front;
      for (size_t k = 0; k < list->size(); ++k) {
        const int64_t v = (*list)[k];
        from_front.push_back(static_cast<int32_t>(v < 0 ? v + whole[k % whole.size()].value() : v));
      }
      return b.constant(Tensor::of<int32_t>(DType::kI32, {known->shape().begin(), known->shape().end()}, from_front));
    }
  }
  Value* is_counted = b.greater_equal(at, 0);
  std::vector<Value*> pieces;
  for (size_t k = 0; k < whole.size(); ++k) pieces.push_back(ctx.size_of(x, first + k));
  Value* sizes = std::ranges::all_of(whole, [](Dim d) { return d.is_int(); }) ? ctx.sizes(whole) : ctx.join(pieces);
  return b.select(is_counted, at, b.add(at, sizes));
}

std::string mode_of(Lowering& ctx) {
  std::string reduction = ctx.string_attr("reduction", "none");
  if (reduction == "none") return "update";
  if (reduction == "add" || reduction == "mul" || reduction == "max" || reduction == "min") return reduction;
  ctx.unsupported(fmt::format("the reduction '{}'", reduction));
}

// Casts data and updates to an element type that the op takes.
Value* scattered(Lowering& ctx, std::string_view op, const std::function<Value*(Value* data, Value* updates)>& f) {
  Value *data = ctx.in(0), *updates = ctx.in(2);
  if (ctx.takes(op, data->dtype())) return f(data, updates);
  if (data->dtype() != DType::kBool) ctx.unsupported(fmt::format("Core ML's {} takes no {}", op, to_string(data->dtype())));
  Value* wide = ctx.cast(data, DType::kI32);
  return ctx.b.not_equal(f(wide, ctx.cast(updates, DType::kI32)), ctx.b.i32(0));
}

}  // namespace

std::vector<Value*> lower_GatherND(Lowering& ctx) {
  const int64_t batch = ctx.int_attr("batch_dims", 0);
  Value* at = tuples(ctx, 1, ctx.in(0), static_cast<size_t>(batch));
  if (batch != 0 && ctx.version() < 7) ctx.needs(7, "batch_dims");
  return {ctx.moved("gather_nd", ctx.in(0), [&](Value* x) {
    return batch == 0 ? ctx.b.gather_nd(x, at) : ctx.b.gather_nd(x, at, {.batch_dims = batch});
  })};
}

std::vector<Value*> lower_ScatterND(Lowering& ctx) {
  const std::string mode = mode_of(ctx);
  Value* at = tuples(ctx, 1, ctx.in(0), 0);
  return {scattered(ctx, "scatter_nd",
                    [&](Value* data, Value* updates) { return ctx.b.scatter_nd(data, at, updates, {.mode = mode}); })};
}

std::vector<Value*> lower_ScatterElements(Lowering& ctx) {
  const std::string mode = mode_of(ctx);
  const size_t axis = from_front(ctx.int_attr("axis", 0), ctx.rank(0));
  Value* at = indices(ctx, 1, ctx.in(0), axis);
  return {scattered(ctx, "scatter_along_axis", [&](Value* data, Value* updates) {
    return ctx.b.scatter_along_axis(data, at, updates, {.axis = as_int(axis), .mode = mode});
  })};
}

}  // namespace sardonyx::to_mil
