// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, and operators on quantized tensors.
//
//   DequantizeLinear(constant, scale, zero)   =>   constexpr_affine_dequantize (iOS 16),
//                                                  constexpr_blockwise_shift_scale (iOS 18)
//   DequantizeLinear(x, scale, zero)          =>   dequantize (iOS 17), else (x - zero) * scale
//   QuantizeLinear(x, scale, zero)            =>   quantize (iOS 17), else clip(round(x / scale) + zero)
//
// QLinearMatMul and QLinearConv are float ops between these. MatMulInteger and ConvInteger return exact
// integers, and are computed in f32: they are refused if f32 might not represent a sum exactly.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/tensor/tensor_transform.h"
#include "lower/onnx_to_mil/layers/layers.h"
#include "lower/onnx_to_mil/layers/window.h"

namespace sardonyx::onnx_to_mil {
namespace {

constexpr int kIos16 = 7, kIos17 = 8, kIos18 = 9;

bool is_byte(DType d) { return d == DType::kU8 || d == DType::kI8; }

// A scale or zero point, reshaped to broadcast to a tensor of type x: a scalar, one number per index of the
// axis, or one per block along it.
Value* along(Lowering& ctx, Value* v, const Type* x, size_t axis) {
  const size_t rank = x->rank();
  const size_t own = v->type()->rank();
  if (own == 0) return v;
  if (own == 1 && v->type()->dim(0).is(1)) return ctx.reshape(v, {});
  if (own == 1) return ctx.unsqueeze(v, iota(rank - axis - 1, 1));
  const Dim blocks = v->type()->dim(axis), whole = x->dim(axis);
  if (blocks == whole) return v;
  constexpr size_t kMostAxes = 5;
  if (!blocks.is_int() || !whole.is_int() || blocks.is(0) || own + 1 > kMostAxes)
    ctx.unsupported("blocks of quantized numbers of open size");
  const int64_t times = (whole.value() + blocks.value() - 1) / blocks.value();
  std::vector<int64_t> reps(own + 1, 1), end(own, 0);
  reps[axis + 1] = times;
  std::vector<Dim> dims(v->type()->dims().begin(), v->type()->dims().end());
  dims[axis] = Dim::of(blocks.value() * times);
  Value* wide = ctx.reshape(ctx.b.tile(ctx.unsqueeze(v, std::vector<int64_t>{as_int(axis) + 1}), reps), dims);
  if (dims[axis] == whole) return wide;
  std::vector<bool> all(own, true);
  all[axis] = false;
  end[axis] = whole.value();
  return ctx.b.slice_by_index(wide, std::vector<int64_t>(own), end, {.end_mask = all});
}

// How scales and zero points, operands of the node, apply to a tensor of type x.
struct Quantized {
  size_t scale = 0, zero = 0;
  size_t axis = 0;
  bool per_axis = false, blocks = false;
};

Quantized look(Lowering& ctx, const Type* x, size_t scale, size_t zero, int64_t axis) {
  Quantized q{.scale = scale, .zero = zero};
  const size_t rank = x->rank(), scales = ctx.rank(scale);
  q.per_axis = scales == 1 && rank > 0 && !ctx.in_dims(scale)[0].is(1);  // a single number applies to all elements
  q.blocks = scales > 1;
  if (q.per_axis || q.blocks) q.axis = from_front(axis, rank);
  if (q.axis > 0 && q.axis >= rank) ctx.unsupported(fmt::format("axis {} of quantized numbers of rank {}", q.axis, rank));
  return q;
}

// The constant zero point in the quantized type; null if it is absent or all zeros.
TensorPtr zero_point(Lowering& ctx, const Quantized& q) {
  const TensorPtr zero = ctx.constant(q.zero);
  return ctx.splat_value(q.zero) == 0.0 ? nullptr : zero;
}

bool has_constant_zero(Lowering& ctx, const Quantized& q) { return !ctx.has(q.zero) || ctx.constant(q.zero) != nullptr; }

TensorPtr one_number(const TensorPtr& t) { return t != nullptr && t->rank() == 1 && t->size() == 1 ? t->reshaped({}) : t; }

// (x - zero) * scale, computed when the model is written.
TensorPtr computed(Lowering& ctx, const TensorPtr& x, const Quantized& q, DType to) {
  const TensorPtr scale = ctx.constant(q.scale), zero = ctx.constant(q.zero);
  const auto shape = std::vector<int64_t>(x->shape().begin(), x->shape().end());
  int64_t inner = 1;
  for (size_t i = q.axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const int64_t n = q.per_axis && !shape.empty() ? shape[q.axis] : 1;
  return Tensor::defer(to, shape, [=, per_axis = q.per_axis](int64_t first, std::span<std::byte> out) {
    const auto width = static_cast<size_t>(bit_width(to)) / 8;
    for (size_t i = 0; i < out.size() / width; ++i) {
      const int64_t at = first + static_cast<int64_t>(i), k = per_axis ? at / inner % n : 0;
      const double off = zero != nullptr ? zero->as_double(zero->size() == 1 ? 0 : k) : 0;
      encode_element(to, out.data(), static_cast<int64_t>(i),
                     (x->as_double(at) - off) * scale->as_double(scale->size() == 1 ? 0 : k));
    }
  });
}

// Constants that stay quantized in the package.
Value* constexpr_of(Lowering& ctx, const TensorPtr& x, const Quantized& q) {
  const TensorPtr scale = ctx.in(q.scale)->constant();
  if (scale == nullptr || !has_constant_zero(ctx, q)) return nullptr;
  const TensorPtr zero = ctx.constant(q.zero);
  const bool bytes = is_byte(x->dtype()), halves = x->dtype() == DType::kI4 || x->dtype() == DType::kU4;
  if (bytes && !q.blocks && ctx.version() >= kIos16 && x->rank() > 0) {
    const TensorPtr none = Tensor::full(x->dtype(), {}, 0);
    TensorPtr off = one_number(zero != nullptr ? zero : none);
    return ctx.b.constexpr_affine_dequantize(
        {.axis = as_int(q.axis), .quantized_data = x, .scale = one_number(scale), .zero_point = off});
  }
  if (!(halves || (bytes && q.blocks)) || ctx.version() < kIos18) return nullptr;
  // Here, scales have x's rank; along each axis, one scale applies to a fixed number of elements.
  std::vector<int64_t> shape(x->rank(), 1);
  if (q.blocks) shape.assign(scale->shape().begin(), scale->shape().end());
  if (q.per_axis) shape[q.axis] = scale->size();
  const TensorPtr factor = scale->reshaped(shape);
  if (zero == nullptr) return ctx.b.constexpr_blockwise_shift_scale({.data = x, .scale = factor});
  return ctx.b.constexpr_blockwise_shift_scale({.data = x, .offset = zero->reshaped(shape), .scale = factor});
}

// The range of the type.
std::pair<double, double> range_of(DType d) {
  const int bits = bit_width(d) - (is_signed(d) ? 1 : 0);
  return {is_signed(d) ? -std::ldexp(1, bits) : 0, std::ldexp(1, bits) - 1};
}

}  // namespace

Value* dequantized(Lowering& ctx, QuantizedOperand operand, DType to, int64_t axis) {
  const size_t x = operand.x;
  MilBuilder& b = ctx.b;
  const Quantized q = look(ctx, ctx.in_type(x), operand.scale, operand.zero, axis);
  if (stored_dtype(ctx.in_dtype(x)) != DType::kI32)
    ctx.unsupported(fmt::format("quantized numbers of {}", to_string(ctx.in_dtype(x))));
  const bool same = ctx.in(q.scale)->dtype() == to;
  if (const TensorPtr known = ctx.constant(x)) {
    if (Value* v = same ? constexpr_of(ctx, known, q) : nullptr) return v;
    if (!q.blocks && ctx.constant(q.scale) != nullptr && has_constant_zero(ctx, q))
      return b.constant(computed(ctx, known, q, to));
  }
  const TensorPtr scale = ctx.in(q.scale)->constant();
  if (same && !q.blocks && is_byte(ctx.in_dtype(x)) && ctx.version() >= kIos17 && scale != nullptr &&
      has_constant_zero(ctx, q)) {
    const TensorPtr zero = one_number(zero_point(ctx, q));
    mil_params::dequantize p{.scale = one_number(scale)};
    if (q.per_axis && scale->size() != 1) p.axis = as_int(q.axis);
    if (zero != nullptr) p.zero_point = zero;
    return b.dequantize(b.cast(ctx.in(x), {.dtype = ctx.in_dtype(x)}), p);
  }
  Value* v = ctx.in(x);
  if (ctx.has(q.zero)) v = b.sub(v, along(ctx, ctx.in(q.zero), ctx.in_type(x), q.axis));
  Value* factor = ctx.cast(along(ctx, ctx.in(q.scale), ctx.in_type(x), q.axis), to);
  return b.mul(ctx.cast(v, to), factor);
}

std::vector<Value*> lower_DequantizeLinear(Lowering& ctx) {
  return {ctx.cast(dequantized(ctx, {0, 1, 2}, ctx.in(1)->dtype(), ctx.int_attr("axis", 1)), stored_dtype(ctx.out_dtype()))};
}

Value* quantized(Lowering& ctx, Value* y, size_t scale_at, size_t zero_at, int64_t axis) {
  MilBuilder& b = ctx.b;
  const Quantized q = look(ctx, y->type(), scale_at, zero_at, axis);
  const DType to = ctx.out_dtype();
  if (!is_integer(to)) ctx.unsupported(fmt::format("quantization to {}", to_string(to)));
  const TensorPtr scale = ctx.in(q.scale)->constant();
  const bool same = ctx.in(q.scale)->dtype() == y->dtype();
  if (same && !q.blocks && is_byte(to) && ctx.version() >= kIos17 && scale != nullptr && has_constant_zero(ctx, q)) {
    mil_params::quantize p{.output_dtype = to, .scale = one_number(scale)};
    const TensorPtr zero = one_number(zero_point(ctx, q));
    if (q.per_axis && scale->size() != 1) p.axis = as_int(q.axis);
    if (zero != nullptr) p.zero_point = zero;
    return ctx.cast(b.quantize(y, p), DType::kI32);
  }
  const auto [low, high] = range_of(to);
  const Type* type = y->type();
  y = b.round(b.real_div(y, ctx.cast(along(ctx, ctx.in(q.scale), type, q.axis), y->dtype())));
  if (ctx.has(q.zero)) y = b.add(y, ctx.cast(along(ctx, ctx.in(q.zero), type, q.axis), y->dtype()));
  return ctx.cast(b.clip(y, {.alpha = ctx.like(y, low), .beta = ctx.like(y, high)}), DType::kI32);
}

std::vector<Value*> lower_QuantizeLinear(Lowering& ctx) {
  ctx.in_type(0);  // refuses unknown ranks
  Value* x = ctx.in(0);
  if (x->dtype() == DType::kI32) x = ctx.cast(x, ctx.in(1)->dtype());
  return {quantized(ctx, x, 1, 2, ctx.int_attr("axis", 1))};
}

namespace {

struct Dynamic {
  Value *y, *scale, *zero;  // y and zero as floats
};

// The range of x, extended to include 0, gives scale and zero point.
Dynamic dynamically_quantized(Lowering& ctx, size_t i) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(i);
  Value* zero = ctx.like(x, 0);
  const std::vector<int64_t> axes = iota(ctx.rank(i));
  Value* low = b.minimum(b.reduce_min(x, {.axes = axes, .keep_dims = false}), zero);
  Value* high = b.maximum(b.reduce_max(x, {.axes = axes, .keep_dims = false}), zero);
  Value* scale = b.real_div(b.sub(high, low), ctx.like(x, 255));
  Value* nothing = b.equal(scale, zero);
  Value* below = b.select(nothing, ctx.like(x, 1), scale);
  Value* point = b.round(b.clip(b.real_div(b.sub(zero, low), below), {.alpha = ctx.like(x, 0), .beta = ctx.like(x, 255)}));
  Value* y = b.add(b.round(b.real_div(x, below)), point);
  return {b.clip(y, {.alpha = ctx.like(x, 0), .beta = ctx.like(x, 255)}), scale, point};
}

}  // namespace

std::vector<Value*> lower_DynamicQuantizeLinear(Lowering& ctx) {
  const Dynamic d = dynamically_quantized(ctx, 0);
  return {ctx.cast(d.y, DType::kI32), d.scale, ctx.cast(d.zero, DType::kI32)};
}

Value* rounded_to_bytes(Lowering& ctx, size_t x) {
  const Dynamic d = dynamically_quantized(ctx, x);
  return ctx.b.mul(ctx.b.sub(d.y, d.zero), d.scale);
}

namespace {

constexpr int64_t kExact = (1 << 24) / (255 * 255);  // products of bytes whose sum is exact in f32

// Operand x minus its zero point, which is one number, or one per row.
Value* centered(Lowering& ctx, size_t x, size_t zero, bool rows) {
  Value* v = ctx.in(x);
  if (ctx.has(zero)) {
    Value* off = ctx.in(zero);
    if (off->type()->rank() == 1 && rows && off->type()->dim(0).is_int() && !off->type()->dim(0).is(1))
      off = ctx.unsqueeze(off, std::vector<int64_t>{1});
    v = ctx.b.sub(v, off);
  }
  return ctx.cast(v, DType::kF32);
}

// The largest sum of |number - zero point| over the elements that one result of a product (a column) or of a
// convolution (an index of the first axis) combines. Unknown for a computed operand.
std::optional<double> largest_sum(Lowering& ctx, size_t w, size_t w_zero, bool columns) {
  const TensorPtr t = ctx.constant(w), zero = ctx.constant(w_zero);
  if (t == nullptr || t->is_promise() || t->rank() < 2 || t->size() == 0 || (ctx.has(w_zero) && zero == nullptr))
    return std::nullopt;
  if (columns && t->rank() != 2) return std::nullopt;
  const int64_t results = columns ? t->shape().back() : t->shape()[0], each = t->size() / results;
  std::vector<std::byte> scratch;
  const std::span<const std::byte> bytes = t->bytes(scratch);
  std::vector<double> sums(static_cast<size_t>(results));
  for (int64_t i = 0; i < t->size(); ++i) {
    const int64_t at = columns ? i % results : i / each;
    const double off = zero != nullptr ? zero->as_double(zero->size() == 1 ? 0 : at) : 0;
    sums[static_cast<size_t>(at)] += std::abs(decode_element(t->dtype(), bytes.data(), i) - off);
  }
  return std::ranges::max(sums);
}

void check_sum(Lowering& ctx, Dim terms, size_t w, size_t w_zero, bool columns) {
  constexpr double kMost = 1 << 24, kByte = 255;
  if (terms.is_int() && terms.value() <= kExact) return;
  if (const auto sum = largest_sum(ctx, w, w_zero, columns); sum && *sum * kByte <= kMost) return;
  ctx.unsupported(
      fmt::format("products of integers that sum more than {} terms, which single precision cannot represent", kExact));
}

// Reshapes a vector to [n, 1, 1]; returns other values unchanged.
Value* by_channel(Lowering& ctx, Value* v, size_t axes) {
  return v->type()->rank() == 1 && !v->type()->dim(0).is(1) ? ctx.unsqueeze(v, iota(axes, 1)) : v;
}

Value* convolution(Lowering& ctx, Value* x, Value* w) {
  std::vector<int64_t> kernel;
  for (Dim d : w->type()->dims().subspan(2)) {
    if (!d.is_int()) ctx.unsupported("a kernel of open size");
    kernel.push_back(d.value());
  }
  const Window window = window_of(ctx, kernel);
  return ctx.b.conv(x, w,
                    {.dilations = window.dilations,
                     .groups = ctx.int_attr("group", 1),
                     .pad = window.pads,
                     .pad_type = window.is_padded() ? window.pad_type : "valid",
                     .strides = window.strides});
}

}  // namespace

std::vector<Value*> lower_MatMulInteger(Lowering& ctx) {
  const auto dims = ctx.in_dims(0);
  check_sum(ctx, dims.empty() ? Dim::of(1) : dims.back(), 1, 3, true);
  Value* x = centered(ctx, 0, 2, true);
  return {ctx.cast(ctx.b.matmul(x, centered(ctx, 1, 3, false), {.transpose_x = false, .transpose_y = false}), DType::kI32)};
}

// The kernel may have one zero point per channel of the result.
std::vector<Value*> lower_ConvInteger(Lowering& ctx) {
  const auto dims = ctx.in_dims(1);
  check_sum(ctx, ctx.dims().product(dims.subspan(1)), 1, 3, false);
  Value* w = ctx.in(1);
  if (ctx.has(3)) w = ctx.b.sub(w, by_channel(ctx, ctx.in(3), dims.size() - 1));
  w = ctx.cast(w, DType::kF32);
  return {ctx.cast(convolution(ctx, centered(ctx, 0, 2, false), w), DType::kI32)};
}

// x, scale, zero, y, scale, zero, scale and zero of the result. There may be one scale per row of x, and per
// column of y.
std::vector<Value*> lower_QLinearMatMul(Lowering& ctx) {
  const auto axis = [&](size_t i, size_t from_last) { return as_int(ctx.rank(i) < from_last ? 0 : ctx.rank(i) - from_last); };
  Value* x = dequantized(ctx, {0, 1, 2}, DType::kF32, axis(0, 2));
  return {quantized(ctx, product(ctx, x, dequantized(ctx, {3, 4, 5}, DType::kF32, axis(3, 1))), 6, 7)};
}

// The same; the kernel may have one scale per channel. The last operand is an i32 bias in units of the
// product of both scales.
std::vector<Value*> lower_QLinearConv(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const size_t axes = ctx.rank(3) - 2;
  Value* x = dequantized(ctx, {0, 1, 2}, DType::kF32);
  Value* y = convolution(ctx, x, dequantized(ctx, {3, 4, 5}, DType::kF32));
  if (ctx.has(8)) {
    Value* unit = b.mul(ctx.in(1), by_channel(ctx, ctx.in(4), axes));
    y = b.add(y, b.mul(ctx.cast(by_channel(ctx, ctx.in(8), axes), DType::kF32), unit));
  }
  return {quantized(ctx, y, 6, 7)};
}

}  // namespace sardonyx::onnx_to_mil
