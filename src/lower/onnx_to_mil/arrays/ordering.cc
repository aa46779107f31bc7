// Sorting, counting and rearranging: TopK, OneHot, Range, Trilu, DepthToSpace and others.
#include <fmt/format.h>

#include <algorithm>

#include "lower/onnx_to_mil/arrays/indices.h"
#include "lower/onnx_to_mil/context.h"

namespace sardonyx::onnx_to_mil {

namespace {

// For a computed k, as min(100, n): sorts all elements, and slices the first k.
std::vector<Value*> sorted(Lowering& ctx, Value* x, size_t axis, bool ascending, bool all) {
  MilBuilder& b = ctx.b;
  if (!ctx.takes("argsort", x->dtype())) ctx.unsupported(fmt::format("Core ML's argsort takes no {}", to_string(x->dtype())));
  Value* indices = b.argsort(x, {.ascending = ascending, .axis = as_int(axis)});
  if (!all) {
    const size_t rank = x->type()->rank();
    Value* k = ctx.reshape(ctx.in(1), std::vector<Dim>{Dim::of(1)});
    std::vector<Value*> to{b.i32s(std::vector<int64_t>(axis)), k, b.i32s(std::vector<int64_t>(rank - axis - 1))};
    std::erase_if(to, [](Value* v) { return v->is_constant() && v->constant()->size() == 0; });
    std::vector<bool> whole(rank, true);
    whole[axis] = false;
    indices = b.slice_by_index(indices, b.i32s(std::vector<int64_t>(rank)), ctx.join(to), {.end_mask = whole});
  }
  return {ctx.flip_sign_bit_if_u32(b.gather_along_axis(x, indices, {.axis = as_int(axis)})), indices};
}

// Whether k, which is computed, is the size of the axis.
bool takes_all(Lowering& ctx, size_t axis) {
  const SymbolicValue* k = ctx.has(1) ? ctx.context().onnx_facts().find(*ctx.node.input(1)) : nullptr;
  const Type* t = ctx.node.input(0)->type();
  return k != nullptr && k->elements.size() == 1 && !k->elements[0].is_unknown() && k->elements[0] == t->dim(axis);
}

}  // namespace

std::vector<Value*> lower_TopK(Lowering& ctx) {
  const size_t axis = from_front(ctx.int_attr("axis", -1), ctx.rank(0));
  Value* x = ctx.flip_sign_bit_if_u32(ctx.in(0));
  const bool ascending = ctx.int_attr("largest", 1) == 0;
  const auto k = ctx.ints(1, "k");
  if (!k) return sorted(ctx, x, axis, ascending, takes_all(ctx, axis));
  if (!ctx.takes("topk", x->dtype())) ctx.unsupported(fmt::format("Core ML's topk takes no {}", to_string(x->dtype())));
  Node& n = ctx.b.topk(x, 2, {.ascending = ascending, .axis = as_int(axis), .k = k->at(0)});
  return {ctx.flip_sign_bit_if_u32(n.result(0)), n.result(1)};
}

// Negative indices count from the end; indices out of range set no element. Core ML documents neither for
// one_hot.
std::vector<Value*> lower_OneHot(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const auto depth = ctx.constant(1) != nullptr ? std::optional(ctx.constant(1)->as_int(0)) : std::nullopt;
  if (!depth) ctx.unsupported("the depth is computed, and Core ML wants a constant");
  const size_t rank = ctx.rank(0);
  const size_t axis = from_front(ctx.int_attr("axis", -1), rank + 1);
  if (const TensorPtr values = ctx.constant(2); values != nullptr && ctx.out_dtype() != DType::kBool && is_from_pytorch(ctx)) {
    const DType d = stored_dtype(ctx.out_dtype());
    const TensorPtr off = Tensor::full(d, {}, values->as_double(0)), on = Tensor::full(d, {}, values->as_double(1));
    return {b.one_hot(ctx.cast(ctx.in(0), DType::kI32), *depth, {.axis = as_int(axis), .off_value = off, .on_value = on})};
  }
  Value* indices = b.expand_dims(ctx.cast(ctx.in(0), DType::kI32), {.axes = {as_int(axis)}});
  std::vector<int64_t> shape(rank + 1 - axis, 1);
  shape[0] = *depth;
  const auto numbers = [&](int64_t first) {
    std::vector<int32_t> list;
    for (int64_t i = 0; i < *depth; ++i) list.push_back(static_cast<int32_t>(first + i));
    return b.constant(Tensor::of<int32_t>(DType::kI32, shape, list));
  };
  Value* marked = b.equal(indices, numbers(0));
  if (!ctx.is_never_negative(0)) marked = b.logical_or(marked, b.equal(indices, numbers(-*depth)));
  Value *off = nullptr, *on = nullptr;
  if (const TensorPtr values = ctx.constant(2)) {
    const DType d = stored_dtype(ctx.out_dtype());
    const double first = values->as_double(0), second = values->as_double(1);
    if (d != DType::kBool && first == 0 && second == 1) return {b.cast(marked, {.dtype = d})};
    off = b.scalar(d, first);
    on = b.scalar(d, second);
    if (!marked->type()->is_static() && d != DType::kBool)
      return {b.select(marked, b.fill_like(b.cast(marked, {.dtype = d}), {.value = on->constant()}), off)};
  } else {
    Value* both = ctx.in(2);
    off = ctx.via("slice_by_index", both, [&](Value* v) { return b.slice_by_index(v, {0}, {1}); });
    on = ctx.via("slice_by_index", both, [&](Value* v) { return b.slice_by_index(v, {1}, {2}); });
  }
  return {ctx.select(marked, on, off)};
}

std::vector<Value*> lower_Hardmax(Lowering& ctx) {
  const auto axis = as_int(from_front(ctx.int_attr("axis", -1), ctx.rank(0)));
  if (ctx.node.op().since_version < 13) ctx.unsupported("hardmax of an opset before 13");
  Value* x = ctx.in(0);
  const Dim size = ctx.in_dims(0)[static_cast<size_t>(axis)];
  if (!size.is_int()) ctx.unsupported("hardmax along an axis of open size");
  Value* at = ctx.b.reduce_argmax(x, {.axis = axis, .keep_dims = false});
  const TensorPtr off = Tensor::full(x->dtype(), {}, 0), on = Tensor::full(x->dtype(), {}, 1);
  return {ctx.b.one_hot(at, size.value(), {.axis = axis, .off_value = off, .on_value = on})};
}

std::vector<Value*> lower_Range(Lowering& ctx) {
  std::vector<Value*> bounds;
  for (size_t i = 0; i < 3; ++i) {
    Value* v = ctx.in(i);
    bounds.push_back(v->type()->rank() == 0 ? v : ctx.b.squeeze(v));
  }
  return {ctx.b.range_1d(bounds[1], bounds[0], bounds[2])};
}

std::vector<Value*> lower_EyeLike(Lowering& ctx) {
  const auto dims = ctx.out_dims();
  if (!ctx.out_type()->is_static()) ctx.unsupported("a diagonal of open size");
  const int64_t rows = dims[0].value(), columns = dims[1].value(), k = ctx.int_attr("k", 0);
  const DType d = stored_dtype(ctx.out_dtype());
  std::vector<std::byte> bytes(byte_size(d, static_cast<uint64_t>(rows * columns)));
  for (int64_t i = 0; i < rows; ++i) {
    if (const int64_t at = i + k; at >= 0 && at < columns) {
      if (is_float(d)) {
        encode_element(d, bytes.data(), i * columns + at, 1);
      } else {
        bytes[static_cast<size_t>(i * columns + at) * (static_cast<size_t>(bit_width(d)) / 8)] = std::byte{1};
      }
    }
  }
  return {ctx.b.constant(Tensor::own(d, {rows, columns}, std::move(bytes)))};
}

// Selects by a mask; the mask is a constant if the sizes are known.
std::vector<Value*> lower_Trilu(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const auto dims = ctx.in_dims(0);
  const bool upper = ctx.int_attr("upper", 1) != 0;
  const auto given = ctx.has(1) ? ctx.ints(1) : std::vector<int64_t>{0};  // null: computed
  const int64_t k = given ? given->at(0) : 0;
  Value* x = ctx.in(0);
  const Dim rows = dims[dims.size() - 2], columns = dims[dims.size() - 1];
  Value* mask = nullptr;
  if (rows.is_int() && columns.is_int() && given) {
    std::vector<uint8_t> kept;
    for (int64_t i = 0; i < rows.value(); ++i) {
      for (int64_t j = 0; j < columns.value(); ++j) kept.push_back(upper ? j >= i + k : j <= i + k);
    }
    mask = b.constant(Tensor::of<uint8_t>(DType::kBool, {rows.value(), columns.value()}, kept));
  } else {
    Value* height = b.squeeze(ctx.size_of(x, dims.size() - 2), {.axes = {0}});
    Value* width = b.squeeze(ctx.size_of(x, dims.size() - 1), {.axes = {0}});
    Value* i = b.expand_dims(b.range_1d(height, 0, 1), {.axes = {1}});
    Value* j = b.range_1d(width, 0, 1);
    Value* diagonal = given ? b.add(i, k) : b.add(i, ctx.reshape(ctx.in(1), {}));
    mask = upper ? b.greater_equal(j, diagonal) : b.less_equal(j, diagonal);
  }
  if (x->dtype() == DType::kBool) return {b.logical_and(x, mask)};
  return {ctx.select(mask, x, ctx.like(x, 0))};
}

std::vector<Value*> lower_DepthToSpace(Lowering& ctx) {
  const int64_t block = ctx.int_attr("blocksize", 1);
  Value* x = ctx.in(0);
  if (ctx.string_attr("mode", "DCR") == "CRD") return {ctx.b.pixel_shuffle(x, {.upscale_factor = block})};
  return {ctx.b.depth_to_space(x, {.block_size = block})};
}

std::vector<Value*> lower_SpaceToDepth(Lowering& ctx) {
  const int64_t block = ctx.int_attr("blocksize", 1);
  Value* x = ctx.in(0);
  if (ctx.string_attr("mode", "DCR") == "DCR") return {ctx.b.space_to_depth(x, {.block_size = block})};
  constexpr int kIos16 = 7;
  if (ctx.version() >= kIos16) return {ctx.b.pixel_unshuffle(x, {.downscale_factor = block})};
  const auto dims = ctx.in_dims(0);
  const Dim size = Dim::of(block);
  const auto rows = ctx.dims().divide_exactly(dims[2], size), columns = ctx.dims().divide_exactly(dims[3], size);
  if (!rows || !columns) ctx.unsupported("blocks of images of open size");
  Value* blocks = ctx.reshape(x, std::vector<Dim>{ctx.dims().product(dims.first(2)), *rows, size, *columns, size});
  return {ctx.reshape(ctx.transpose(blocks, std::vector<int64_t>{0, 2, 4, 1, 3}), ctx.out_dims())};
}

std::vector<Value*> lower_MeanVarianceNormalization(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  const std::vector<int64_t> axes = ctx.node.attr_ints("axes").value_or(std::vector<int64_t>{0, 2, 3});
  Value* centered = b.sub(x, b.reduce_mean(x, {.axes = axes, .keep_dims = true}));
  Value* variance = b.reduce_mean(b.mul(centered, centered), {.axes = axes, .keep_dims = true});
  return {b.real_div(centered, b.add(b.sqrt(variance), ctx.like(x, 1e-9)))};
}

std::vector<Value*> lower_Shrink(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  Value* edge = ctx.like(x, ctx.float_attr("lambd", 0.5));
  Value* bias = ctx.like(x, ctx.float_attr("bias", 0));
  Value* below = b.less(x, b.mul(edge, ctx.like(x, -1)));
  Value* above = b.greater(x, edge);
  Value* high = ctx.select(above, b.sub(x, bias), ctx.like(x, 0));
  return {ctx.wrapped(b.select(below, b.add(x, bias), high))};
}

std::vector<Value*> lower_NonZero(Lowering& ctx) {
  Value* x = ctx.in(0);
  if (!ctx.takes("non_zero", x->dtype())) x = ctx.cast(x, DType::kI32);
  return {ctx.b.transpose(ctx.b.non_zero(x), {.perm = {1, 0}})};
}

std::vector<Value*> lower_ReverseSequence(Lowering& ctx) {
  Value* lengths = ctx.in(1);
  return {ctx.via("reverse_sequence", ctx.in(0), [&](Value* x) {
    return ctx.b.reverse_sequence(x, lengths,
                                  {.batch_axis = ctx.int_attr("batch_axis", 1), .seq_axis = ctx.int_attr("time_axis", 0)});
  })};
}

std::vector<Value*> lower_LRN(Lowering& ctx) {
  Value* x = ctx.in(0);
  return {ctx.b.local_response_norm(x, {.alpha = ctx.like(x, ctx.float_attr("alpha", 1e-4)),
                                        .beta = ctx.like(x, ctx.float_attr("beta", 0.75)),
                                        .k = ctx.like(x, ctx.float_attr("bias", 1)),
                                        .size = ctx.int_attr("size", 1)})};
}

}  // namespace sardonyx::onnx_to_mil
