// Convolutions and transposed convolutions.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lower/onnx_to_mil/layers/window.h"

namespace sardonyx::onnx_to_mil {
namespace {

std::vector<int64_t> kernel_of(Lowering& ctx) {
  std::vector<int64_t> kernel;
  for (Dim d : ctx.in_dims(1).subspan(2)) {
    if (!d.is_int()) ctx.unsupported("a kernel of open size");
    kernel.push_back(d.value());
  }
  return kernel;
}

Value* add_bias(Lowering& ctx, Value* y, Value* bias) {
  return ctx.b.add(y, ctx.unsqueeze(bias, iota(y->type()->rank() - 2, 1)));
}

// The kernel with zeros between its elements: Core ML's conv dilates only constant kernels.
Value* spread(Lowering& ctx, Value* weight, Window& w) {
  MilBuilder& b = ctx.b;
  std::vector<int64_t> shape;
  for (Dim d : weight->type()->dims()) {
    if (!d.is_int()) ctx.unsupported("a dilated kernel that is computed and of open size");
    shape.push_back(d.value());
  }
  for (size_t i = 0; i < w.spatial(); ++i) {
    const int64_t apart = std::exchange(w.dilations[i], 1);
    int64_t& k = shape[i + 2];
    if (apart == 1 || k == 1) continue;
    const auto product = [&](size_t first, size_t last) {
      int64_t n = 1;
      for (size_t axis = first; axis < last; ++axis) n *= shape[axis];
      return n;
    };
    const int64_t before = product(0, i + 2), after = product(i + 3, shape.size());
    Value* v = b.reshape(weight, {before, k, 1, after});
    v = b.pad(v, {0, 0, 0, 0, 0, apart - 1, 0, 0}, {.constant_val = ctx.like(v, 0), .mode = "constant"});
    v = b.reshape(v, {before, k * apart, after});
    k = (k - 1) * apart + 1;
    v = b.slice_by_index(v, {0, 0, 0}, {before, k, after});
    weight = b.reshape(v, shape);
  }
  return weight;
}

}  // namespace

std::vector<Value*> lower_Conv(Lowering& ctx) {
  Window w = window_of(ctx, kernel_of(ctx));
  Value *x = ctx.in(0), *weight = ctx.in(1), *bias = ctx.in_or_null(2);
  if (!ctx.takes("conv", x->dtype())) ctx.unsupported(fmt::format("Core ML's conv takes no {}", to_string(x->dtype())));
  if (!weight->is_constant() && std::ranges::any_of(w.dilations, [](int64_t d) { return d != 1; }))
    weight = spread(ctx, weight, w);
  const bool apart = bias != nullptr && !bias->is_constant();
  Value* y = ctx.b.conv(x, weight,
                        {.bias = apart ? nullptr : bias,
                         .dilations = w.dilations,
                         .groups = ctx.int_attr("group", 1),
                         .pad = w.pads,
                         .pad_type = w.is_padded() ? w.pad_type : "valid",
                         .strides = w.strides});
  return {apart ? add_bias(ctx, y, bias) : y};
}

namespace {

// A transposed convolution with a computed kernel, which Core ML's conv_transpose does not take: a
// convolution of x, dilated by zeros, with the reversed kernel. A transposed convolution with ones inserts
// the zeros.
Value* convolve_back(Lowering& ctx, Value* x, Value* weight, Window w) {
  MilBuilder& b = ctx.b;
  const size_t n = w.spatial();
  const Dim channels = x->type()->dim(1);
  if (ctx.int_attr("group", 1) != 1 || !channels.is_int())
    ctx.unsupported("the kernel is computed and has several groups or an open number of channels");
  std::vector<int64_t> pads, perm = iota(n + 2, 0);
  for (size_t side = 0; side < 2 * n; ++side) {
    pads.push_back(w.reach(side / 2) - 1 - w.pads[side]);
    if (pads.back() < 0) ctx.unsupported("the kernel is computed, and more is cropped than it reaches");
  }
  const std::vector<int64_t> ones(n, 1);
  if (w.strides != ones) {
    std::vector<int64_t> shape(n + 2, 1);
    shape[0] = channels.value();
    x = b.conv_transpose(x, b.constant(Tensor::full(x->dtype(), shape, 1)),
                         {.dilations = ones, .groups = channels.value(), .pad_type = "valid", .strides = w.strides});
  }
  std::swap(perm[0], perm[1]);
  weight = spread(ctx, b.reverse(b.transpose(weight, {.perm = perm}), {.axes = iota(n, 2)}), w);
  const bool padded = std::ranges::any_of(pads, [](int64_t p) { return p != 0; });
  return b.conv(x, weight,
                {.dilations = ones, .groups = 1, .pad = pads, .pad_type = padded ? "custom" : "valid", .strides = ones});
}

}  // namespace

// `output_padding` adds elements at the end: it reduces the padding at the end, which crops the result.
std::vector<Value*> lower_ConvTranspose(Lowering& ctx) {
  Window w = window_of(ctx, kernel_of(ctx));
  const size_t n = w.spatial();
  Value *x = ctx.in(0), *weight = ctx.in(1), *bias = ctx.in_or_null(2);
  if (!ctx.takes("conv_transpose", x->dtype()))
    ctx.unsupported(fmt::format("Core ML's conv_transpose takes no {}", to_string(x->dtype())));
  const auto more = ctx.ints_attr("output_padding", n, 0);
  const std::string mode = ctx.string_attr("auto_pad", "NOTSET");
  if (ctx.node.attr_ints("output_shape").has_value() || mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    const auto in = ctx.in_dims(0).subspan(2), out = ctx.out_dims().subspan(2);
    for (size_t i = 0; i < n; ++i) {
      if (!in[i].is_int() || !out[i].is_int())
        ctx.unsupported("a transposed convolution whose sizes are open and padding automatic");
      const int64_t all = (in[i].value() - 1) * w.strides[i] + more[i] + w.reach(i) - out[i].value();
      w.pads[2 * i] = all < 0 ? 0 : mode == "SAME_UPPER" ? all / 2 : all - all / 2;  // zeros are added at the end only
      w.pads[2 * i + 1] = all - w.pads[2 * i];
    }
    w.pad_type = "custom";
  }
  // output_padding reduces the crop at the end. If it exceeds the crop, zeros are appended.
  std::vector<int64_t> zeros(2 * (n + 2));
  for (size_t i = 0; i < n; ++i) w.pads[2 * i + 1] -= more[i];
  if (!weight->is_constant()) {
    Value* y = convolve_back(ctx, x, weight, w);
    return {bias != nullptr ? add_bias(ctx, y, bias) : y};
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t side : {2 * i, 2 * i + 1}) {
      zeros[4 + side] = std::max<int64_t>(-w.pads[side], 0);
      w.pads[side] = std::max<int64_t>(w.pads[side], 0);
    }
  }
  const bool is_longer = std::ranges::any_of(zeros, [](int64_t z) { return z != 0; });
  const bool apart = bias != nullptr && (!bias->is_constant() || is_longer);
  Value* y = ctx.b.conv_transpose(x, weight,
                                  {.bias = apart ? nullptr : bias,
                                   .dilations = w.dilations,
                                   .groups = ctx.int_attr("group", 1),
                                   .pad = w.pads,
                                   .pad_type = w.is_padded() ? w.pad_type : "valid",
                                   .strides = w.strides});
  if (is_longer) y = ctx.b.pad(y, zeros, {.constant_val = ctx.like(y, 0), .mode = "constant"});
  return {apart ? add_bias(ctx, y, bias) : y};
}

// A depthwise convolution over the past state followed by the input. The last elements of this sequence are
// the new state.
std::vector<Value*> lower_CausalConvWithState(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value *x = ctx.in(0), *weight = ctx.in(1), *bias = ctx.in_or_null(2);
  const Dim channels = x->type()->dim(1), size = weight->type()->dim(2);
  if (!channels.is_int() || !size.is_int()) ctx.unsupported("a kernel of open size");
  const int64_t before = size.value() - 1;
  Value* all = x;
  if (ctx.has(3) && before > 0) {
    all = b.concat({ctx.in(3), x}, {.axis = 2, .interleave = false});
  } else if (before > 0) {
    all = b.pad(x, {0, 0, 0, 0, before, 0}, {.constant_val = ctx.like(x, 0), .mode = "constant"});
  }
  Value* y = b.conv(all, weight,
                    {.bias = bias != nullptr && bias->is_constant() ? bias : nullptr,
                     .dilations = {1},
                     .groups = channels.value(),
                     .pad = {0, 0},
                     .pad_type = "valid",
                     .strides = {1}});
  if (bias != nullptr && !bias->is_constant()) y = add_bias(ctx, y, bias);
  const std::string activation = ctx.string_attr("activation", "none");
  if (activation == "silu" || activation == "swish") y = b.silu(y);
  std::vector<Value*> results{y};
  if (ctx.is_used(1)) {
    if (before == 0) ctx.unsupported("a state without elements");
    results.push_back(
        b.slice_by_index(all, {0, 0, -before}, {0, 0, 0}, {.begin_mask = {true, true, false}, .end_mask = {true, true, true}}));
  }
  results.resize(ctx.node.num_results());
  return results;
}

}  // namespace sardonyx::onnx_to_mil
