// conv_general_dilated x, w   =>   Conv(x in NC.., w in OI..), or ConvTranspose if x is dilated
//
// Axes are transposed to ONNX's order and back. Padding that ONNX cannot express (negative, or more than
// ConvTranspose takes) is applied to x first. batch_group_count moves groups from the batch into the
// features. Types and ranks that no runtime convolves become a sum of matrix products. If the number of
// groups is known only at run time, as under vmap over kernels, a Scan runs over the groups.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lower/jax_to_onnx/arrays/pad.h"
#include "lower/jax_to_onnx/params.h"

namespace sardonyx::jax_to_onnx {
namespace {

using Ints = std::vector<int64_t>;

struct Conv {
  Ints strides, low, high, x_dilation, w_dilation;
  Ints kernel;                           // empty if a size is symbolic: Conv reads it from its operand
  std::string_view auto_pad = "NOTSET";  // or SAME_UPPER or SAME_LOWER, for sizes known only at run time
  int64_t groups = 1;
  size_t rank = 0;  // spatial axes
};

Value* pad_zeros(Lowering& ctx, Value* x, const Ints& pads) {
  const DType own = x->dtype();
  return ctx.cast(ctx.b.Pad(ctx.cast(x, kernel_dtype(ctx, {"Pad"}, own)), ctx.b.i64s(pads)), own);
}

// x in NC.. order, with zeros between its elements, padded with zeros or cut on the spatial axes.
Value* dilate_and_pad(Lowering& ctx, Value* x, const Conv& c) {
  for (size_t i = 0; i < c.rank; ++i) {
    const int64_t axis = static_cast<int64_t>(i) + 2;
    const int64_t by = c.x_dilation[i];
    if (by == 1) continue;
    // [.., n, ..] -> [.., n, by, ..] with zeros after each element -> [.., n*by, ..] without the last by-1.
    std::vector<Dim> dims(x->type()->dims().begin(), x->type()->dims().end());
    const Dim n = dims[static_cast<size_t>(axis)];
    Value* spread = ctx.unsqueeze(x, Ints{axis + 1});
    Ints pads(2 * (dims.size() + 1), 0);
    pads[dims.size() + 1 + static_cast<size_t>(axis) + 1] = by - 1;
    spread = pad_zeros(ctx, spread, pads);
    dims[static_cast<size_t>(axis)] = ctx.b.dims().mul(n, Dim::of(by));
    x = ctx.reshape(spread, dims);
    const Dim stop = ctx.b.dims().sub(dims[static_cast<size_t>(axis)], Dim::of(by - 1));
    x = ctx.slice(x, axis, Dim::of(0), stop);
  }
  Ints pads(2 * (c.rank + 2), 0);
  bool any = false;
  for (size_t i = 0; i < c.rank; ++i) {
    const int64_t axis = static_cast<int64_t>(i) + 2;
    pads[2 + i] = std::max<int64_t>(c.low[i], 0);
    pads[c.rank + 4 + i] = std::max<int64_t>(c.high[i], 0);
    any |= c.low[i] > 0 || c.high[i] > 0;
    if (c.low[i] >= 0 && c.high[i] >= 0) continue;
    const Dim n = x->type()->dim(static_cast<size_t>(axis));
    const Dim stop = ctx.b.dims().add(n, Dim::of(std::min<int64_t>(c.high[i], 0)));
    x = ctx.slice(x, axis, Dim::of(std::max<int64_t>(-c.low[i], 0)), stop);
  }
  return any ? pad_zeros(ctx, x, pads) : x;
}

bool all_are(const Ints& v, int64_t value) {
  return std::ranges::all_of(v, [&](int64_t x) { return x == value; });
}
// Empty, which omits the attribute, if all of v equal the attribute's default.
Ints unless_all(const Ints& v, int64_t usual) { return all_are(v, usual) ? Ints{} : v; }

// ConvTranspose convolves a dilated x with a flipped kernel; its pads count from the full padding.
bool fits_conv_transpose(const Conv& c) {
  if (all_are(c.x_dilation, 1) || !all_are(c.strides, 1) || c.kernel.empty()) return false;
  for (size_t i = 0; i < c.rank; ++i) {
    const int64_t full = c.w_dilation[i] * (c.kernel[i] - 1);
    // output_padding extends the full padding on the right; it must stay below the stride.
    if (c.low[i] > full || c.high[i] - full >= c.x_dilation[i]) return false;
  }
  return true;
}

Value* conv_transpose(Lowering& ctx, Value* x, Value* w, const Conv& c, Dim in_channels, Dim out_channels) {
  // w is [O, I/g, k..]; ConvTranspose takes [I, O/g, k..], flipped.
  std::vector<Dim> kernel(w->type()->dims().begin() + 2, w->type()->dims().end());
  Dims& dims = ctx.b.dims();
  const Dim g = Dim::of(c.groups);
  std::vector<Dim> split{g, *dims.divide_exactly(out_channels, g), *dims.divide_exactly(in_channels, g)};
  split.insert(split.end(), kernel.begin(), kernel.end());
  Ints perm{0, 2, 1};
  for (size_t i = 0; i < c.rank; ++i) perm.push_back(static_cast<int64_t>(i) + 3);
  if (c.groups == 1) {
    Ints swap{1, 0};
    for (size_t i = 0; i < c.rank; ++i) swap.push_back(static_cast<int64_t>(i) + 2);
    w = ctx.transpose(w, swap);
  } else {
    std::vector<Dim> merged{in_channels, split[1]};
    merged.insert(merged.end(), kernel.begin(), kernel.end());
    w = ctx.reshape(ctx.transpose(ctx.reshape(w, split), perm), merged);
  }
  Ints axes, starts(c.rank, -1), ends(c.rank, INT64_MIN), steps(c.rank, -1);
  for (size_t i = 0; i < c.rank; ++i) axes.push_back(static_cast<int64_t>(i) + 2);
  if (!all_are(c.kernel, 1)) w = ctx.b.Slice(w, ctx.b.i64s(starts), ctx.b.i64s(ends), ctx.b.i64s(axes), ctx.b.i64s(steps));
  Ints pads(2 * c.rank), extra(c.rank);
  for (size_t i = 0; i < c.rank; ++i) {
    const int64_t full = c.w_dilation[i] * (c.kernel[i] - 1);
    pads[i] = full - c.low[i];
    pads[c.rank + i] = std::max<int64_t>(full - c.high[i], 0);
    extra[i] = std::max<int64_t>(c.high[i] - full, 0);
  }
  return ctx.b.ConvTranspose(x, w, nullptr,
                             {.dilations = unless_all(c.w_dilation, 1),
                              .group = c.groups,
                              .kernel_shape = c.kernel,
                              .output_padding = unless_all(extra, 0),
                              .pads = pads,
                              .strides = c.x_dilation});
}

Value* conv(Lowering& ctx, Value* x, Value* w, Conv c) {
  const bool plain_padding = all_are(c.x_dilation, 1) && std::ranges::all_of(c.low, [](int64_t p) { return p >= 0; }) &&
                             std::ranges::all_of(c.high, [](int64_t p) { return p >= 0; });
  if (!plain_padding) {
    x = dilate_and_pad(ctx, x, c);
    std::ranges::fill(c.low, 0);
    std::ranges::fill(c.high, 0);
  }
  Ints pads = c.low;
  pads.insert(pads.end(), c.high.begin(), c.high.end());
  return ctx.b.Conv(x, w, nullptr,
                    {.auto_pad = c.auto_pad,
                     .dilations = unless_all(c.w_dilation, 1),
                     .group = c.groups,
                     .kernel_shape = c.kernel,
                     .pads = unless_all(pads, 0),
                     .strides = unless_all(c.strides, 1)});
}

// Sums over the positions of the kernel, each a product of matrices: for element types and ranks that no
// runtime convolves. Takes x in NC.. and w in OI.. order; the result is in N..C order.
Value* shifted_products(Lowering& ctx, Value* x, Value* w, const Conv& c, std::span<const Dim> out_spatial) {
  Dims& dims = ctx.b.dims();
  if (c.kernel.size() != c.rank)
    ctx.unsupported(fmt::format("no runtime convolves {}, and the kernel's size is symbolic", to_string(x->dtype())));
  const auto positions = std::accumulate(c.kernel.begin(), c.kernel.end(), int64_t{1}, std::multiplies<>());
  if (positions > 256) {
    ctx.unsupported(fmt::format("no runtime convolves {} over {} axes, and a kernel of {} positions is too large to write out",
                                to_string(x->dtype()), c.rank, positions));
  }
  x = dilate_and_pad(ctx, x, c);
  const auto rank = static_cast<int64_t>(c.rank);
  const Dim g = Dim::of(c.groups), channels = w->type()->dim(1), features = *dims.divide_exactly(w->type()->dim(0), g);
  // x: [n, .., c]. w: [k.., g, c/g, o/g].
  Ints to_last{0}, kernel_first;
  for (int64_t i = 0; i < rank; ++i) to_last.push_back(i + 2), kernel_first.push_back(i + 3);
  to_last.push_back(1);
  kernel_first.insert(kernel_first.end(), {0, 2, 1});
  x = ctx.transpose(x, to_last);
  std::vector<Dim> split{g, features, channels};
  for (int64_t k : c.kernel) split.push_back(Dim::of(k));
  w = ctx.transpose(ctx.reshape(w, split), kernel_first);
  std::vector<Dim> flat{Dim::of(positions), g, channels, features};
  w = ctx.reshape(w, flat);

  const Dim batch = x->type()->dim(0);
  std::vector<Dim> grouped{batch};
  grouped.insert(grouped.end(), out_spatial.begin(), out_spatial.end());
  std::vector<Dim> result = grouped;
  result.push_back(dims.mul(g, features));
  grouped.insert(grouped.end(), {g, Dim::of(1), channels});

  Value* sum = nullptr;
  for (int64_t position = 0; position < positions; ++position) {
    Value* part = x;
    int64_t rest = position;
    for (int64_t i = rank - 1; i >= 0; --i) {
      const auto s = static_cast<size_t>(i);
      const int64_t start = rest % c.kernel[s] * c.w_dilation[s];
      rest /= c.kernel[s];
      const Dim stop = dims.add(dims.mul(dims.sub(out_spatial[s], Dim::of(1)), Dim::of(c.strides[s])), Dim::of(start + 1));
      part = ctx.slice(part, i + 1, Dim::of(start), stop, c.strides[s]);
    }
    Value* kernel = positions == 1 ? ctx.squeeze(w, Ints{0}) : ctx.b.Gather(w, ctx.b.i64(position), {.axis = 0});
    if (c.groups == 1) {
      kernel = ctx.squeeze(kernel, Ints{0});
    } else {
      part = ctx.reshape(part, grouped);
    }
    part = ctx.via("MatMul", {part, kernel});
    sum = sum ? ctx.via("Add", {sum, part}) : part;
  }
  return ctx.reshape(sum, result);
}

// Padding of symbolic size: as auto_pad if it equals SAME (which onnxruntime takes only without dilation),
// else as a Pad of x, in NC.. order.
Value* pad_symbolic(Lowering& ctx, Value* x, Conv& c, std::vector<Padding> config, bool can_be_named) {
  c.low.assign(c.rank, 0);
  c.high.assign(c.rank, 0);
  if (can_be_named && !c.kernel.empty() && all_are(c.x_dilation, 1) && all_are(c.w_dilation, 1)) {
    std::vector<PaddedAxis> axes;
    for (size_t i = 0; i < c.rank; ++i) axes.push_back({config[i], x->type()->dim(i + 2), c.kernel[i], c.strides[i]});
    if (const std::string_view same = auto_pad_of(ctx.b.dims(), axes); !same.empty()) {
      c.auto_pad = same;
      return x;
    }
  }
  for (size_t i = 0; i < c.rank; ++i) config[i].interior = c.x_dilation[i] - 1;
  c.x_dilation.assign(c.rank, 1);
  config.insert(config.begin(), 2, Padding{});
  return pad(ctx, x, config, ctx.b.scalar(x->dtype(), 0));
}

// Convolves x [groups, n, c, ..] with w [groups, o, c, ..] group by group; the result is [n, groups * o, ..].
Value* group_by_group(Lowering& ctx, Value* x, Value* w, const Conv& c) {
  Types& types = ctx.b.types();
  Graph& each = ctx.make_body("body", [&](Lowering& inside) {
    std::vector<Value*> operands;
    for (Value* v : {x, w})
      operands.push_back(inside.b.graph().add_input({}, types.with_dims(v->type(), v->type()->dims().subspan(1))));
    Value* y = conv(inside, operands[0], operands[1], c);
    inside.b.graph().add_output(*y, {}, y->type());
  });
  Value* operands[] = {x, w};
  Value* y = ctx.b.Scan(operands, each, {.num_scan_inputs = 2}).result();
  Ints perm{1, 0};
  for (size_t i = 2; i < y->type()->rank(); ++i) perm.push_back(static_cast<int64_t>(i));
  y = ctx.transpose(y, perm);
  std::vector<Dim> merged(y->type()->dims().begin(), y->type()->dims().end());
  merged[1] = ctx.b.dims().mul(merged[1], merged[2]);
  merged.erase(merged.begin() + 2);
  return ctx.reshape(y, merged);
}

// Splits axis `axis` of v in two; the first part, of size g, becomes the leading axis.
Value* groups_in_front(Lowering& ctx, Value* v, Dim g, size_t axis) {
  std::vector<Dim> dims(v->type()->dims().begin(), v->type()->dims().end());
  const auto rest = ctx.b.dims().divide_exactly(dims[axis], g);
  if (!rest) ctx.unsupported("an axis is not provably a multiple of the number of groups");
  dims[axis] = *rest;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), g);
  Ints perm{static_cast<int64_t>(axis)};
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != axis) perm.push_back(static_cast<int64_t>(i));
  }
  return ctx.transpose(ctx.reshape(v, dims), perm);
}

}  // namespace

std::vector<Value*> lower_conv_general_dilated(Lowering& ctx) {
  const Attr& numbers = ctx.param("dimension_numbers");
  const Ints x_spec = ints_field(ctx, numbers, "lhs_spec"), w_spec = ints_field(ctx, numbers, "rhs_spec"),
             out_spec = ints_field(ctx, numbers, "out_spec");
  Conv c;
  c.rank = x_spec.size() - 2;
  c.strides = ctx.ints_param("window_strides");
  c.x_dilation = ctx.ints_param("lhs_dilation");
  c.w_dilation = ctx.ints_param("rhs_dilation");
  const Dim groups = ctx.dim_param("feature_group_count"), batch_groups = ctx.dim_param("batch_group_count");
  const std::vector<Padding> padding = padding_param(ctx, "padding");
  const bool is_padding_known =
      std::ranges::all_of(padding, [](const Padding& p) { return p.low.is_int() && p.high.is_int(); });
  for (const Padding& p : padding) {
    if (!is_padding_known) break;
    c.low.push_back(p.low.value());
    c.high.push_back(p.high.value());
  }

  const DType out = ctx.out_dtype();
  const DType compute = out == DType::kBF16 ? DType::kF32 : out;
  const bool has_conv = has_kernel(ctx, "Conv", compute) && c.rank > 0 && c.rank <= 3;

  Dims& dims = ctx.b.dims();
  Value* x = ctx.transpose(ctx.in(0), x_spec);
  Value* w = ctx.transpose(ctx.in(1), w_spec);
  for (size_t i = 0; i < c.rank; ++i) {
    const Dim k = w->type()->dim(i + 2);
    if (k.is_int()) c.kernel.push_back(k.value());
  }
  if (c.kernel.size() != c.rank) c.kernel.clear();
  if (!is_padding_known) x = pad_symbolic(ctx, x, c, padding, has_conv);
  const bool in_turn = !groups.is_int() || !batch_groups.is_int();
  if (in_turn) {
    const bool of_batch = !batch_groups.is_int();
    if (!(of_batch ? groups : batch_groups).is(1))
      ctx.unsupported("groups of both the batch and the features, one of symbolic number");
    x = groups_in_front(ctx, x, of_batch ? batch_groups : groups, of_batch ? 0 : 1);
    w = groups_in_front(ctx, w, of_batch ? batch_groups : groups, 0);
  } else if (!batch_groups.is(1)) {
    // [g*n, c, ..] -> [n, g*c, ..], and each group of kernels sees its own features.
    std::vector<Dim> d(x->type()->dims().begin(), x->type()->dims().end());
    const Dim g = batch_groups;
    const auto n = dims.divide_exactly(d[0], g);
    if (!n) ctx.unsupported("the batch is not provably a multiple of batch_group_count");
    std::vector<Dim> split{g, *n}, merged{*n, dims.mul(g, d[1])};
    split.insert(split.end(), d.begin() + 1, d.end());
    merged.insert(merged.end(), d.begin() + 2, d.end());
    Ints perm{1, 0};
    for (size_t i = 2; i < split.size(); ++i) perm.push_back(static_cast<int64_t>(i));
    x = ctx.reshape(ctx.transpose(ctx.reshape(x, split), perm), merged);
    c.groups = batch_groups.value();
  } else {
    c.groups = groups.value();
  }
  x = ctx.cast(x, compute);
  w = ctx.cast(w, compute);
  const Ints& to = out_spec;
  const auto axes = static_cast<int64_t>(to.size());
  Ints perm(to.size());
  if (!has_conv) {
    if (in_turn)
      ctx.unsupported(fmt::format("no runtime convolves {} over {} axes, and the number of groups is symbolic",
                                  to_string(compute), c.rank));
    std::vector<Dim> spatial;
    for (size_t i = 2; i < to.size(); ++i) spatial.push_back(ctx.out_dims()[static_cast<size_t>(to[i])]);
    Value* y = shifted_products(ctx, x, w, c, spatial);
    perm[static_cast<size_t>(to[0])] = 0;
    perm[static_cast<size_t>(to[1])] = axes - 1;
    for (int64_t i = 2; i < axes; ++i) perm[static_cast<size_t>(to[static_cast<size_t>(i)])] = i - 1;
    return {ctx.cast(ctx.transpose(y, perm), out)};
  }
  const Dim in_channels = x->type()->dim(1), out_channels = w->type()->dim(0);
  const bool transposed = !in_turn && fits_conv_transpose(c) && in_channels.is_int() && out_channels.is_int();
  Value* y = in_turn      ? group_by_group(ctx, x, w, c)
             : transposed ? conv_transpose(ctx, x, w, c, in_channels, out_channels)
                          : conv(ctx, x, w, c);
  for (int64_t i = 0; i < axes; ++i) perm[static_cast<size_t>(to[static_cast<size_t>(i)])] = i;
  return {ctx.transpose(ctx.cast(y, out), perm)};
}

}  // namespace sardonyx::jax_to_onnx
