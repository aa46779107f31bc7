// Reductions, ArgMax, ArgMin and CumSum.
#include <fmt/format.h>

#include <algorithm>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {
namespace {

struct Axes {
  std::vector<int64_t> axes;
  bool keep = true;
};

// The reduced axes; nullopt if nothing is reduced.
std::optional<Axes> axes_of(Lowering& ctx) {
  Axes a;
  a.keep = ctx.int_attr("keepdims", 1) != 0;
  const size_t rank = ctx.rank(0);
  if (const auto given = ctx.ints(1, "axes")) {
    for (int64_t axis : *given) a.axes.push_back(as_int(from_front(axis, rank)));
  } else if (ctx.has(1)) {
    ctx.unsupported("the axes are computed, and Core ML wants constants");
  }
  if (a.axes.empty() && ctx.int_attr("noop_with_empty_axes", 0) != 0) return std::nullopt;
  if (a.axes.empty()) a.axes = iota(rank);
  if (a.axes.empty()) return std::nullopt;
  std::ranges::sort(a.axes);
  return a;
}

// Writes `reduce`, or `alone` elementwise if there is no axis to reduce.
std::vector<Value*> reduced(Lowering& ctx, std::string_view op, const std::function<Value*(Value*, const Axes&)>& reduce,
                            const std::function<Value*(Value*)>& alone = {}) {
  const auto axes = axes_of(ctx);
  Value* x = ctx.in(0);
  if (!axes) return {alone ? alone(x) : x};
  if (std::ranges::any_of(ctx.in_dims(0), [](Dim d) { return d.is(0); })) ctx.unsupported("a reduction of nothing");
  return {ctx.via(op, x, [&](Value* v) { return reduce(v, *axes); })};
}

}  // namespace

std::vector<Value*> lower_ReduceL1(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  return reduced(
      ctx, "reduce_l1_norm",
      [&](Value* x, const Axes& a) { return b.reduce_l1_norm(x, {.axes = a.axes, .keep_dims = a.keep}); },
      [&](Value* x) { return b.abs(x); });
}

std::vector<Value*> lower_ReduceL2(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  return reduced(
      ctx, "reduce_l2_norm",
      [&](Value* x, const Axes& a) { return b.reduce_l2_norm(x, {.axes = a.axes, .keep_dims = a.keep}); },
      [&](Value* x) { return b.abs(x); });
}

std::vector<Value*> lower_ReduceLogSum(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const auto log = [&](Value* x) { return b.log(x, {.epsilon = ctx.like(x, 0)}); };
  return reduced(
      ctx, "reduce_sum", [&](Value* x, const Axes& a) { return log(b.reduce_sum(x, {.axes = a.axes, .keep_dims = a.keep})); },
      log);
}

std::vector<Value*> lower_ReduceLogSumExp(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  return reduced(ctx, "reduce_log_sum_exp",
                 [&](Value* x, const Axes& a) { return b.reduce_log_sum_exp(x, {.axes = a.axes, .keep_dims = a.keep}); });
}

std::vector<Value*> lower_ReduceMax(Lowering& ctx) {
  return reduced(ctx, "reduce_max", [&](Value* x, const Axes& a) {
    return ctx.flip_sign_bit_if_u32(ctx.b.reduce_max(ctx.flip_sign_bit_if_u32(x), {.axes = a.axes, .keep_dims = a.keep}));
  });
}

std::vector<Value*> lower_ReduceMean(Lowering& ctx) {
  if (stored_dtype(ctx.in_dtype(0)) == DType::kI32) ctx.unsupported("the mean of integers");
  return reduced(ctx, "reduce_mean",
                 [&](Value* x, const Axes& a) { return ctx.b.reduce_mean(x, {.axes = a.axes, .keep_dims = a.keep}); });
}

std::vector<Value*> lower_ReduceMin(Lowering& ctx) {
  return reduced(ctx, "reduce_min", [&](Value* x, const Axes& a) {
    return ctx.flip_sign_bit_if_u32(ctx.b.reduce_min(ctx.flip_sign_bit_if_u32(x), {.axes = a.axes, .keep_dims = a.keep}));
  });
}

std::vector<Value*> lower_ReduceProd(Lowering& ctx) {
  return reduced(ctx, "reduce_prod",
                 [&](Value* x, const Axes& a) { return ctx.b.reduce_prod(x, {.axes = a.axes, .keep_dims = a.keep}); });
}

std::vector<Value*> lower_ReduceSum(Lowering& ctx) {
  return reduced(ctx, "reduce_sum",
                 [&](Value* x, const Axes& a) { return ctx.b.reduce_sum(x, {.axes = a.axes, .keep_dims = a.keep}); });
}

std::vector<Value*> lower_ReduceSumSquare(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  return reduced(
      ctx, "reduce_sum_square",
      [&](Value* x, const Axes& a) { return b.reduce_sum_square(x, {.axes = a.axes, .keep_dims = a.keep}); },
      [&](Value* x) { return b.mul(x, x); });
}

namespace {

// Core ML returns the first of equal elements. The last one is the first in the reversed operand.
std::vector<Value*> index_of_extreme(Lowering& ctx, bool largest) {
  MilBuilder& b = ctx.b;
  const size_t axis = from_front(ctx.int_attr("axis", 0), ctx.rank(0));
  const bool keep = ctx.int_attr("keepdims", 1) != 0, last = ctx.int_attr("select_last_index", 0) != 0;
  const auto index = [&](Value* x) {
    if (last) x = b.reverse(x, {.axes = {as_int(axis)}});
    Value* at = largest ? b.reduce_argmax(x, {.axis = as_int(axis), .keep_dims = keep})
                        : b.reduce_argmin(x, {.axis = as_int(axis), .keep_dims = keep});
    if (!last) return at;
    Value* end = b.sub(ctx.size_of(x, axis), 1);
    return b.sub(at->type()->rank() == 0 ? b.squeeze(end, {.axes = {0}}) : end, at);
  };
  Value* x = ctx.flip_sign_bit_if_u32(ctx.in(0));
  if (!ctx.takes(largest ? "reduce_argmax" : "reduce_argmin", x->dtype()))
    ctx.unsupported(fmt::format("Core ML has no {} of {}", largest ? "reduce_argmax" : "reduce_argmin", to_string(x->dtype())));
  return {index(x)};
}

}  // namespace

std::vector<Value*> lower_ArgMax(Lowering& ctx) { return index_of_extreme(ctx, true); }
std::vector<Value*> lower_ArgMin(Lowering& ctx) { return index_of_extreme(ctx, false); }

// Element i is the product of the elements that row i of a triangle selects.
std::vector<Value*> lower_CumProd(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const size_t rank = ctx.rank(0);
  const size_t axis = from_front(ctx.need_ints(1, {}, "the axis").at(0), rank);
  const bool exclusive = ctx.int_attr("exclusive", 0) != 0, reverse = ctx.int_attr("reverse", 0) != 0;
  const Dim size = ctx.in_dims(0)[axis];
  constexpr int64_t kMost = 1024;
  if (!size.is_int() || size.value() > kMost)
    ctx.unsupported(fmt::format("products along an axis of open size, or of more than {} elements", kMost));
  const int64_t n = size.value();
  std::vector<uint8_t> selected;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t ahead = reverse ? j - i : i - j;
      selected.push_back(exclusive ? ahead > 0 : ahead >= 0);
    }
  }
  std::vector<int64_t> shape(rank - axis + 1, 1);
  shape[0] = shape[1] = n;
  Value* mask = b.constant(Tensor::of<uint8_t>(DType::kBool, shape, selected));
  Value* x = ctx.in(0);
  std::vector<int64_t> reps(rank + 1, 1);
  reps[axis] = n;
  Value* wide = b.tile(ctx.unsqueeze(x, std::vector<int64_t>{as_int(axis)}), reps);
  return {b.reduce_prod(b.select(mask, wide, ctx.like(x, 1)), {.axes = {as_int(axis) + 1}, .keep_dims = false})};
}

std::vector<Value*> lower_CumSum(Lowering& ctx) {
  const auto axis = ctx.need_ints(1, {}, "the axis");
  Value* x = ctx.in(0);
  if (!ctx.takes("cumsum", x->dtype())) ctx.unsupported(fmt::format("Core ML's cumsum takes no {}", to_string(x->dtype())));
  return {ctx.b.cumsum(x, {.axis = as_int(from_front(axis.at(0), ctx.rank(0))),
                           .exclusive = ctx.int_attr("exclusive", 0) != 0,
                           .reverse = ctx.int_attr("reverse", 0) != 0})};
}

}  // namespace sardonyx::onnx_to_mil
