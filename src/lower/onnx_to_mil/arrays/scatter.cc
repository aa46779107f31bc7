// GatherND, ScatterND, ScatterElements.
#include <fmt/format.h>

#include <algorithm>

#include "lower/onnx_to_mil/arrays/indices.h"

namespace sardonyx::onnx_to_mil {
namespace {

constexpr int kIos17 = 8;

// Makes indices into the axes [first, first + n) of x non-negative; the last axis of the indices runs over
// these axes. See indices().
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
  Value* sizes = std::ranges::all_of(whole, [](Dim d) { return d.is_int(); }) ? ctx.shape(whole) : ctx.join(pieces);
  return b.select(is_counted, at, b.add(at, sizes));
}

std::string mode_of(Lowering& ctx) {
  std::string reduction = ctx.string_attr("reduction", "none");
  if (reduction == "none") return "update";
  if (reduction == "add" || reduction == "mul" || reduction == "max" || reduction == "min") return reduction;
  ctx.unsupported(fmt::format("the reduction '{}'", reduction));
}

// Casts data and updates to an element type that the op takes.
Value* scattered_with(Lowering& ctx, std::string_view op, Value* data, Value* updates,
                      const std::function<Value*(Value* data, Value* updates)>& f) {
  if (ctx.takes(op, data->dtype())) return f(data, updates);
  if (data->dtype() != DType::kBool) ctx.unsupported(fmt::format("Core ML's {} takes no {}", op, to_string(data->dtype())));
  Value* wide = ctx.cast(data, DType::kI32);
  return ctx.b.not_equal(f(wide, ctx.cast(updates, DType::kI32)), ctx.b.i32(0));
}

Value* scattered(Lowering& ctx, std::string_view op, const std::function<Value*(Value* data, Value* updates)>& f) {
  return scattered_with(ctx, op, ctx.in(0), ctx.in(2), f);
}

// y; sums and products of narrow integers wrap around.
Value* reduced(Lowering& ctx, std::string_view mode, Value* y) { return mode == "add" || mode == "mul" ? ctx.wrapped(y) : y; }

}  // namespace

std::vector<Value*> lower_GatherND(Lowering& ctx) {
  const int64_t batch = ctx.int_attr("batch_dims", 0);
  Value* at = tuples(ctx, 1, ctx.in(0), static_cast<size_t>(batch));
  if (batch != 0 && ctx.version() < 7) ctx.needs(7, "batch_dims");
  return {ctx.via("gather_nd", ctx.in(0), [&](Value* x) {
    return batch == 0 ? ctx.b.gather_nd(x, at) : ctx.b.gather_nd(x, at, {.batch_dims = batch});
  })};
}

std::vector<Value*> lower_ScatterND(Lowering& ctx) {
  const std::string mode = mode_of(ctx);
  Value* at = tuples(ctx, 1, ctx.in(0), 0);
  return {reduced(ctx, mode, scattered(ctx, "scatter_nd", [&](Value* data, Value* updates) {
                    return ctx.b.scatter_nd(data, at, updates, {.mode = mode});
                  }))};
}

std::vector<Value*> lower_ScatterElements(Lowering& ctx) {
  const std::string mode = mode_of(ctx);
  const size_t axis = from_front(ctx.int_attr("axis", 0), ctx.rank(0));
  Value* at = indices(ctx, 1, ctx.in(0), axis);
  const std::vector<size_t> fewer = axes_with_fewer(ctx, axis);
  const auto dims = ctx.in_dims(1);
  return {reduced(ctx, mode, scattered(ctx, "scatter_along_axis", [&](Value* data, Value* updates) {
                    std::vector<Value*> kept;  // the rows after those that the indices update
                    for (size_t d : fewer) {
                      kept.push_back(rows(ctx, data, d, dims[d], /*first=*/false));
                      data = rows(ctx, data, d, dims[d], /*first=*/true);
                    }
                    Value* y = ctx.b.scatter_along_axis(data, at, updates, {.axis = as_int(axis), .mode = mode});
                    for (size_t k = fewer.size(); k-- > 0;)
                      y = ctx.b.concat({y, kept[k]}, {.axis = as_int(fewer[k]), .interleave = false});
                    return y;
                  }))};
}

// Keeps the elements along an axis whose condition is true.
std::vector<Value*> lower_Compress(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* found = b.non_zero(ctx.cast(ctx.in(1), DType::kI32));  // [n, 1]
  Value* at = b.squeeze(found, {.axes = {1}});
  Value* x = ctx.in(0);
  int64_t axis = 0;
  if (ctx.node.attr("axis") == nullptr) {
    x = ctx.via("reshape", x, [&](Value* v) { return b.reshape(v, {-1}); });
  } else {
    axis = as_int(from_front(ctx.int_attr("axis", 0), ctx.rank(0)));
  }
  return {ctx.via("gather", x, [&](Value* v) { return b.gather(v, at, {.axis = axis}); })};
}

// Writes rows into a cache, starting at an index given per batch. A circular cache wraps around to its
// beginning.
std::vector<Value*> lower_TensorScatter(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const size_t rank = ctx.rank(0), axis = from_front(ctx.int_attr("axis", -2), rank);
  Value* cache = ctx.in(0);
  const auto rows = ctx.in_dims(1);
  Value* at = rows[axis].is_int() ? b.i32s(iota(static_cast<size_t>(rows[axis].value())))
                                  : b.range_1d(b.squeeze(ctx.size_of(ctx.in(1), axis), {.axes = {0}}), 0, 1);
  at = ctx.unsqueeze(at, iota(rank - axis - 1, 1));
  if (ctx.has(2)) at = b.add(at, ctx.unsqueeze(ctx.in(2), iota(rank - 1, 1)));
  if (ctx.string_attr("mode", "linear") == "circular") at = b.mod(at, ctx.size_of(cache, axis));
  at = ctx.expand(at, rows);
  return {scattered_with(ctx, "scatter_along_axis", cache, ctx.in(1), [&](Value* data, Value* updates) {
    return b.scatter_along_axis(data, at, updates, {.axis = as_int(axis), .mode = "update"});
  })};
}

// Adds each block of columns at its position in a padded image, which is then cropped.
std::vector<Value*> lower_Col2Im(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const auto image = ctx.need_ints(1, {}, "the shape of the image"), block = ctx.need_ints(2, {}, "the shape of the block");
  const size_t axes = image.size();
  const auto dilations = ctx.ints_attr("dilations", axes, 1), strides = ctx.ints_attr("strides", axes, 1);
  const auto pads = ctx.ints_attr("pads", 2 * axes, 0);
  std::vector<int64_t> whole, steps(axes, 1), windows;
  int64_t plane = 1, kernel_size = 1, count = 1;
  for (size_t i = 0; i < axes; ++i) {
    whole.push_back(image[i] + pads[i] + pads[i + axes]);
    windows.push_back((whole[i] - dilations[i] * (block[i] - 1) - 1) / strides[i] + 1);
    plane *= whole[i];
    kernel_size *= block[i];
    count *= windows[i];
  }
  for (size_t i = axes - 1; i-- > 0;) steps[i] = steps[i + 1] * whole[i + 1];
  std::vector<int32_t> to;
  for (int64_t k = 0; k < kernel_size; ++k) {
    for (int64_t n = 0; n < count; ++n) {
      int64_t at = 0, of_block = k, of_window = n;
      for (size_t i = axes; i-- > 0;) {
        at += (of_window % windows[i] * strides[i] + of_block % block[i] * dilations[i]) * steps[i];
        of_window /= windows[i];
        of_block /= block[i];
      }
      to.push_back(static_cast<int32_t>(at));
    }
  }
  const auto dims = ctx.in_dims(0);
  const auto channels = ctx.dims().divide_exactly(dims[1], Dim::of(kernel_size));
  if (!channels || !channels->is_int() || !dims[0].is_int()) ctx.unsupported("columns of an open number of channels or images");
  const int64_t n = dims[0].value(), c = channels->value();
  Value* x = b.reshape(ctx.in(0), {n, c, kernel_size * count});
  Value* at = b.constant(Tensor::of<int32_t>(DType::kI32, {kernel_size * count}, to));
  Value* sum = b.scatter(b.full(x->dtype(), {n, c, plane}, 0), at, x, {.axis = 2, .mode = "add"});
  std::vector<int64_t> shape{n, c}, begin(2), end{n, c};
  shape.insert(shape.end(), whole.begin(), whole.end());
  for (size_t i = 0; i < axes; ++i) {
    begin.push_back(pads[i]);
    end.push_back(pads[i] + image[i]);
  }
  Value* y = b.reshape(sum, shape);
  return {whole == image ? y : b.slice_by_index(y, begin, end)};
}

}  // namespace sardonyx::onnx_to_mil
