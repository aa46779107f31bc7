// Pooling.
//
// Core ML's pools have no dilation and return no indices of maxima. These pools combine strided slices of the
// operand, one for each position in the window.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "lower/onnx_to_mil/layers/layers.h"
#include "lower/onnx_to_mil/layers/window.h"

namespace sardonyx::onnx_to_mil {
namespace {

// With ceil_mode, the last window may extend beyond the end. If sizes are known, this is extra padding at the
// end.
struct Pool {
  Window w;
  bool ceil = false;
  std::vector<int64_t> extra;  // per spatial axis: padding at the end that ceil_mode adds
  bool is_longer() const {
    return std::ranges::any_of(extra, [](int64_t n) { return n != 0; });
  }
  bool is_dilated() const {
    return std::ranges::any_of(w.dilations, [](int64_t d) { return d != 1; });
  }
};

Pool pool_of(Lowering& ctx) {
  Pool p;
  p.w = window_of(ctx, ctx.ints_attr("kernel_shape", ctx.rank(0) - 2, 1));
  p.extra.resize(p.w.spatial());
  if (ctx.int_attr("ceil_mode", 0) == 0 || p.w.pad_type != "custom") return p;
  const auto in = ctx.in_dims(0).subspan(2), out = ctx.out_dims().subspan(2);
  for (size_t i = 0; i < p.w.spatial(); ++i) {
    int64_t& after = p.w.pads[2 * i + 1];
    if (!in[i].is_int() || !out[i].is_int()) {
      if (p.w.pads[2 * i] != after || p.w.spatial() > 2)
        ctx.unsupported("ceil_mode on sizes that are open, with padding that is not the same on both sides");
      p.ceil = true;
      continue;
    }
    const int64_t missing = (out[i].value() - 1) * p.w.strides[i] + p.w.reach(i) - (in[i].value() + p.w.pads[2 * i] + after);
    p.extra[i] = std::max<int64_t>(missing, 0);
    after += p.extra[i];
  }
  if (p.ceil && p.is_longer()) ctx.unsupported("ceil_mode where some sizes are open");
  return p;
}

// Calls f with the offset of each position in the window, the last axis fastest.
void for_each_offset(const Window& w, const std::function<void(const std::vector<int64_t>& offset)>& f) {
  std::vector<int64_t> at(w.spatial());
  for (;;) {
    std::vector<int64_t> offset;
    for (size_t i = 0; i < at.size(); ++i) offset.push_back(at[i] * w.dilations[i]);
    f(offset);
    size_t i = at.size();
    while (i > 0 && ++at[i - 1] == w.kernel[i - 1]) at[--i] = 0;
    if (i == 0) return;
  }
}

// The spatial sizes. Refuses the node if one is not known.
std::vector<int64_t> spatial(Lowering& ctx, std::span<const Dim> dims) {
  std::vector<int64_t> sizes;
  for (Dim d : dims.subspan(2)) {
    if (!d.is_int()) ctx.unsupported("dilated windows, or indices of maxima, on sizes that are open");
    sizes.push_back(d.value());
  }
  return sizes;
}

// For each position in the window, the elements of all windows at that position: strided slices of x, padded
// with `fill`.
std::vector<Value*> slices(Lowering& ctx, Value* x, const Pool& p, double fill) {
  MilBuilder& b = ctx.b;
  const Window& w = p.w;
  constexpr int64_t kMost = 128;
  int64_t size = 1;
  for (int64_t k : w.kernel) size *= k;
  if (size > kMost)
    ctx.unsupported(fmt::format("a window of {} elements with dilation or with the indices of its maxima", size));
  const std::vector<int64_t> out = spatial(ctx, ctx.out_dims());
  if (w.is_padded()) {
    std::vector<int64_t> pads(4);
    pads.insert(pads.end(), w.pads.begin(), w.pads.end());
    x = b.pad(x, pads, {.constant_val = ctx.like(x, fill), .mode = "constant"});
  }
  std::vector<bool> whole(w.spatial() + 2);
  whole[0] = whole[1] = true;
  std::vector<Value*> all;
  for_each_offset(w, [&](const std::vector<int64_t>& offset) {
    std::vector<int64_t> begin(2), end(2), stride{1, 1};
    for (size_t i = 0; i < w.spatial(); ++i) {
      begin.push_back(offset[i]);
      end.push_back(offset[i] + (out[i] - 1) * w.strides[i] + 1);
      stride.push_back(w.strides[i]);
    }
    all.push_back(b.slice_by_index(x, begin, end, {.begin_mask = whole, .end_mask = whole, .stride = stride}));
  });
  return all;
}

Value* total(Lowering& ctx, const std::vector<Value*>& xs) {
  Value* sum = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) sum = ctx.b.add(sum, xs[i]);
  return sum;
}

// A constant of shape [1, 1, sizes...], with the number that f returns for each index.
Value* for_positions(Lowering& ctx, DType d, const std::vector<int64_t>& sizes,
                     const std::function<int64_t(const std::vector<int64_t>& at)>& f) {
  int64_t count = 1;
  for (int64_t n : sizes) count *= n;
  std::vector<std::byte> bytes(byte_size(d, static_cast<uint64_t>(count)));
  std::vector<int64_t> at(sizes.size());
  for (int64_t k = 0; k < count; ++k) {
    if (is_float(d)) {
      encode_element(d, bytes.data(), k, static_cast<double>(f(at)));
    } else {
      const auto v = static_cast<int32_t>(f(at));
      std::memcpy(bytes.data() + k * 4, &v, sizeof v);
    }
    size_t i = at.size();
    while (i > 0 && ++at[i - 1] == sizes[i - 1]) at[--i] = 0;
  }
  std::vector<int64_t> shape{1, 1};
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  return ctx.b.constant(Tensor::own(d, std::move(shape), std::move(bytes)));
}

// The number of elements of each window that an average includes.
Value* counts(Lowering& ctx, const Pool& p, bool with_padding, DType d) {
  const Window& w = p.w;
  const std::vector<int64_t> in = spatial(ctx, ctx.in_dims(0));
  return for_positions(ctx, d, spatial(ctx, ctx.out_dims()), [&](const std::vector<int64_t>& at) {
    int64_t product = 1;
    for (size_t i = 0; i < at.size(); ++i) {
      const int64_t before = with_padding ? w.pads[2 * i] : 0, after = with_padding ? w.pads[2 * i + 1] - p.extra[i] : 0;
      int64_t inside = 0;
      for (int64_t k = 0; k < w.kernel[i]; ++k) {
        const int64_t index = at[i] * w.strides[i] - w.pads[2 * i] + k * w.dilations[i];
        inside += index >= -before && index < in[i] + after ? 1 : 0;
      }
      product *= inside;
    }
    return product;
  });
}

}  // namespace

Value* average_pool(Lowering& ctx, Value* x) {
  const Pool p = pool_of(ctx);
  if (!ctx.takes("avg_pool", x->dtype())) ctx.unsupported(fmt::format("Core ML's avg_pool takes no {}", to_string(x->dtype())));
  const bool with_padding = ctx.int_attr("count_include_pad", 0) != 0;
  if (p.is_dilated() || (with_padding && p.is_longer())) {
    Value* sum = total(ctx, slices(ctx, x, p, 0));
    return ctx.b.real_div(sum, counts(ctx, p, with_padding, x->dtype()));
  }
  return ctx.b.avg_pool(x, {.ceil_mode = p.ceil,
                            .exclude_padding_from_average = !with_padding,
                            .kernel_sizes = p.w.kernel,
                            .pad = p.w.pads,
                            .pad_type = p.w.is_padded() ? p.w.pad_type : "valid",
                            .strides = p.w.strides});
}

std::vector<Value*> lower_AveragePool(Lowering& ctx) { return {average_pool(ctx, ctx.in(0))}; }

// The p-th root of the sum of p-th powers. Padding adds nothing.
std::vector<Value*> lower_LpPool(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const Pool p = pool_of(ctx);
  Value* x = ctx.in(0);
  const int64_t power = ctx.int_attr("p", 2);
  Value* size = b.abs(x);
  Value* powers = power == 1 ? size : b.pow(size, ctx.like(x, static_cast<double>(power)));
  Value* sum = nullptr;
  if (p.is_dilated() || p.ceil) {
    sum = total(ctx, slices(ctx, powers, p, 0));
  } else {
    Value* mean = b.avg_pool(powers, {.ceil_mode = false,
                                      .exclude_padding_from_average = false,
                                      .kernel_sizes = p.w.kernel,
                                      .pad = p.w.pads,
                                      .pad_type = p.w.is_padded() ? p.w.pad_type : "valid",
                                      .strides = p.w.strides});
    int64_t count = 1;
    for (int64_t k : p.w.kernel) count *= k;
    sum = b.mul(mean, ctx.like(x, static_cast<double>(count)));
  }
  return {power == 1 ? sum : b.pow(sum, ctx.like(x, 1.0 / static_cast<double>(power)))};
}

std::vector<Value*> lower_GlobalLpPool(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  const std::vector<int64_t> axes = iota(ctx.rank(0) - 2, 2);
  const int64_t power = ctx.int_attr("p", 2);
  if (power == 1) return {b.reduce_l1_norm(x, {.axes = axes, .keep_dims = true})};
  if (power == 2) return {b.reduce_l2_norm(x, {.axes = axes, .keep_dims = true})};
  Value* powers = b.pow(b.abs(x), ctx.like(x, static_cast<double>(power)));
  return {b.pow(b.reduce_sum(powers, {.axes = axes, .keep_dims = true}), ctx.like(x, 1.0 / static_cast<double>(power)))};
}

namespace {

// The flat indices of the maxima in the operand, in row-major order; in column-major order with storage_order
// 1.
Value* indices_of(Lowering& ctx, const std::vector<Value*>& xs, const Pool& p) {
  MilBuilder& b = ctx.b;
  const Window& w = p.w;
  const auto dims = ctx.in_dims(0);
  if (!dims[0].is_int() || !dims[1].is_int()) ctx.unsupported("the indices of maxima among an open number of images");
  const std::vector<int64_t> in = spatial(ctx, dims);
  const bool by_columns = ctx.int_attr("storage_order", 0) != 0;
  std::vector<int64_t> step(in.size(), 1);
  int64_t plane = 1;
  for (size_t k = 0; k < in.size(); ++k) {
    const size_t i = by_columns ? k : in.size() - 1 - k;
    step[i] = plane;
    plane *= in[i];
  }
  std::vector<int64_t> offsets;
  for_each_offset(w, [&](const std::vector<int64_t>& offset) {
    int64_t sum = 0;
    for (size_t i = 0; i < offset.size(); ++i) sum += offset[i] * step[i];
    offsets.push_back(sum);
  });
  Value* which = b.reduce_argmax(b.stack(xs, {.axis = 0}), {.axis = 0, .keep_dims = false});
  Value* within = b.gather(b.i32s(offsets), which, {.axis = 0});
  Value* first = for_positions(ctx, DType::kI32, spatial(ctx, ctx.out_dims()), [&](const std::vector<int64_t>& at) {
    int64_t sum = 0;
    for (size_t i = 0; i < at.size(); ++i) sum += (at[i] * w.strides[i] - w.pads[2 * i]) * step[i];
    return sum;
  });
  std::vector<int32_t> planes;
  for (int64_t k = 0; k < dims[0].value() * dims[1].value(); ++k) planes.push_back(static_cast<int32_t>(k * plane));
  std::vector<int64_t> shape{dims[0].value(), dims[1].value()};
  shape.resize(in.size() + 2, 1);
  Value* index = b.add(within, first);
  return b.add(index, b.constant(Tensor::of<int32_t>(DType::kI32, shape, planes)));
}

}  // namespace

std::vector<Value*> lower_MaxPool(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const Pool p = pool_of(ctx);
  Value* x = ctx.in(0);
  if (x->dtype() == DType::kI32) x = ctx.cast(x, DType::kF32);  // the only integers that ONNX pools are bytes
  Value *best = nullptr, *indices = nullptr;
  if (p.is_dilated() || ctx.is_used(1)) {
    const std::vector<Value*> xs = slices(ctx, x, p, -std::numeric_limits<double>::infinity());
    best = xs[0];
    for (size_t i = 1; i < xs.size(); ++i) best = b.maximum(best, xs[i]);
    if (ctx.is_used(1)) indices = indices_of(ctx, xs, p);
  } else {
    best = b.max_pool(x, {.ceil_mode = p.ceil,
                          .kernel_sizes = p.w.kernel,
                          .pad = p.w.pads,
                          .pad_type = p.w.is_padded() ? p.w.pad_type : "valid",
                          .strides = p.w.strides});
  }
  std::vector<Value*> results{ctx.cast(best, stored_dtype(ctx.out_dtype())), indices};
  results.resize(ctx.node.num_results());
  return results;
}

// Writes each element to its index in a tensor of zeros. The indices are those of a result without
// `output_shape`.
std::vector<Value*> lower_MaxUnpool(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value *x = ctx.in(0), *at = ctx.in(1);
  const auto dims = ctx.in_dims(0), out = ctx.out_dims();
  const auto kernel = ctx.ints_attr("kernel_shape", dims.size() - 2, 1);
  const auto strides = ctx.ints_attr("strides", kernel.size(), 1), pads = ctx.ints_attr("pads", 2 * kernel.size(), 0);
  int64_t size = 1;
  std::vector<int64_t> natural, zeros(4);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].is_int() || !out[i].is_int()) ctx.unsupported("indices of maxima on sizes that are open");
    const size_t k = i < 2 ? 0 : i - 2;
    natural.push_back(i < 2 ? dims[i].value()
                            : (dims[i].value() - 1) * strides[k] - pads[k] - pads[k + kernel.size()] + kernel[k]);
    size *= natural[i];
    if (i < 2) continue;
    zeros.push_back(0);
    zeros.push_back(out[i].value() - natural[i]);
    if (zeros.back() < 0) ctx.unsupported("a result that is smaller than the one that kernel and strides give");
  }
  Value* flat = b.scatter_along_axis(b.full(x->dtype(), {size}, 0), b.reshape(at, {-1}), b.reshape(x, {-1}),
                                     {.axis = 0, .mode = "update"});
  Value* y = b.reshape(flat, natural);
  if (std::ranges::all_of(zeros, [](int64_t z) { return z == 0; })) return {y};
  return {b.pad(y, zeros, {.constant_val = ctx.like(y, 0), .mode = "constant"})};
}

std::vector<Value*> lower_GlobalAveragePool(Lowering& ctx) {
  return {ctx.b.reduce_mean(ctx.in(0), {.axes = iota(ctx.rank(0) - 2, 2), .keep_dims = true})};
}

std::vector<Value*> lower_GlobalMaxPool(Lowering& ctx) {
  return {ctx.b.reduce_max(ctx.in(0), {.axes = iota(ctx.rank(0) - 2, 2), .keep_dims = true})};
}

}  // namespace sardonyx::onnx_to_mil
