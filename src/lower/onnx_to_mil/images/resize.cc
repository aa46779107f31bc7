// Resize.
//
// Core ML's own ops resize the last two axes in some of ONNX's coordinate modes. All other cases of known
// sizes are computed exactly, axis by axis: nearest is a gather at constant indices; linear and cubic are
// products with a constant sparse matrix. For sizes known only at run time, indices and weights are computed
// by nodes, with a gather per tap.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {
namespace {

struct Axis {
  Dim in, out;
  double scale = 1;
  bool by_scale = false;      // the scale is given and may differ from out / in
  double start = 0, end = 1;  // the part of the operand that is resized, when cropping
  int64_t index = -1;         // in the operand of scales or sizes
};

struct Plan {
  std::string mode, coordinates, nearest;
  double cubic = -0.75;
  bool exclude_outside = false, antialias = false;
  std::vector<Axis> axes;    // of x
  bool crops = false;        // tf_crop_and_resize
  double extrapolation = 0;  // the value outside of the operand, when cropping
};

// Gives all axes the largest scale that stays within the sizes, or the smallest that reaches them.
void keep_ratio(Lowering& ctx, Plan& p, const std::vector<int64_t>& axes, bool within) {
  const auto sizes = ctx.need_ints(3, {}, "the sizes");
  std::optional<double> scale;
  for (size_t k = 0; k < axes.size(); ++k) {
    const Axis& a = p.axes[from_front(axes[k], p.axes.size())];
    if (!a.in.is_int()) ctx.unsupported("sizes that are open and keep the aspect ratio");
    const double own = static_cast<double>(sizes.at(k)) / static_cast<double>(a.in.value());
    scale = !scale ? own : within ? std::min(*scale, own) : std::max(*scale, own);
  }
  for (int64_t axis : axes) {
    Axis& a = p.axes[from_front(axis, p.axes.size())];
    a.scale = scale.value_or(1);
    a.by_scale = true;
  }
}

Plan plan_of(Lowering& ctx) {
  Plan p;
  p.mode = ctx.string_attr("mode", "nearest");
  p.coordinates = ctx.string_attr("coordinate_transformation_mode", "half_pixel");
  p.nearest = ctx.string_attr("nearest_mode", "round_prefer_floor");
  p.cubic = ctx.float_attr("cubic_coeff_a", -0.75);
  p.exclude_outside = ctx.int_attr("exclude_outside", 0) != 0;
  if (ctx.node.op().since_version < 11) ctx.unsupported("Resize of an opset before 11");
  p.antialias = ctx.int_attr("antialias", 0) != 0;
  p.crops = p.coordinates == "tf_crop_and_resize";
  p.extrapolation = ctx.float_attr("extrapolation_value", 0);
  const std::string policy = ctx.string_attr("keep_aspect_ratio_policy", "stretch");
  const auto in = ctx.in_dims(0), out = ctx.out_dims();
  for (size_t i = 0; i < in.size(); ++i) p.axes.push_back({in[i], out[i], 1, false});
  std::vector<int64_t> axes = ctx.node.attr_ints("axes").value_or(iota(in.size()));
  for (size_t k = 0; k < axes.size(); ++k) p.axes[from_front(axes[k], in.size())].index = as_int(k);
  const TensorPtr scales = ctx.constant(2);
  if (scales != nullptr && scales->size() > 0) {
    if (static_cast<size_t>(scales->size()) != axes.size())
      throw Error(ErrorCode::kInvalidModel, "expected one scale per axis");
    for (size_t k = 0; k < axes.size(); ++k) {
      Axis& a = p.axes[from_front(axes[k], in.size())];
      a.scale = scales->as_double(static_cast<int64_t>(k));
      a.by_scale = true;
    }
  } else if (ctx.has(2) && scales == nullptr && !ctx.has(3)) {
    ctx.unsupported("scales that are computed");
  } else {
    for (Axis& a : p.axes) {
      if (a.in == a.out || !a.in.is_int() || !a.out.is_int()) continue;
      a.scale = static_cast<double>(a.out.value()) / static_cast<double>(a.in.value());
    }
    if (policy != "stretch") keep_ratio(ctx, p, axes, policy == "not_larger");
  }
  if (p.crops) {
    const TensorPtr parts = ctx.constant(1);
    const auto n = static_cast<int64_t>(axes.size());
    if (parts == nullptr || parts->size() != 2 * n) ctx.unsupported("a computed region to resize");
    for (int64_t k = 0; k < n; ++k) {
      Axis& a = p.axes[from_front(axes[static_cast<size_t>(k)], in.size())];
      a.start = parts->as_double(k);
      a.end = parts->as_double(n + k);
    }
  }
  return p;
}

bool is_open(const Axis& a) { return !a.in.is_int() || !a.out.is_int(); }

bool changes(const Axis& a) { return !(a.in == a.out) || a.scale != 1 || a.start != 0 || a.end != 1; }

// Whether the scale equals out / in, which Core ML assumes.
bool is_plain(const Axis& a) {
  if (!a.in.is_int() || !a.out.is_int()) return a.by_scale && a.scale == std::floor(a.scale);
  return static_cast<double>(a.out.value()) == a.scale * static_cast<double>(a.in.value());
}

bool is_whole(double scale) { return scale >= 1 && scale == std::floor(scale); }

// Uses Core ML's own ops; null if they lack the mode.
Value* native(Lowering& ctx, Value* x, const Plan& p) {
  MilBuilder& b = ctx.b;
  const size_t rank = p.axes.size();
  if (rank < 3 || p.antialias || p.crops) return nullptr;
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (changes(p.axes[i])) return nullptr;
  }
  const Axis &h = p.axes[rank - 2], &w = p.axes[rank - 1];
  if (!is_plain(h) || !is_plain(w)) return nullptr;
  const bool known = h.out.is_int() && w.out.is_int() && h.in.is_int() && w.in.is_int();
  if (p.mode == "nearest") {
    // For integer factors, all of these are floor(i / factor).
    const bool whole = is_whole(h.scale) && is_whole(w.scale);
    const bool floors = p.coordinates == "asymmetric" && p.nearest == "floor";
    const bool rounds = whole && (p.coordinates == "half_pixel" || p.coordinates == "pytorch_half_pixel") &&
                        (p.nearest == "round_prefer_floor" || p.nearest == "round_prefer_ceil");
    if (!(whole && (floors || rounds))) return nullptr;
    return b.upsample_nearest_neighbor(x, {.scale_factor_height = b.i32(static_cast<int32_t>(h.scale)),
                                           .scale_factor_width = b.i32(static_cast<int32_t>(w.scale))});
  }
  if (p.mode != "linear") return nullptr;
  const bool corners = p.coordinates == "align_corners";
  const bool half = p.coordinates == "half_pixel" || (p.coordinates == "pytorch_half_pixel" && !h.out.is(1) && !w.out.is(1));
  if (!known) {
    if (!half || !is_whole(h.scale) || !is_whole(w.scale)) return nullptr;
    return b.upsample_bilinear(x, {.align_corners = false,
                                   .scale_factor_height = b.i32(static_cast<int32_t>(h.scale)),
                                   .scale_factor_width = b.i32(static_cast<int32_t>(w.scale))});
  }
  if (!corners && !half && p.coordinates != "asymmetric") return nullptr;
  return b.resize_bilinear(x, {.sampling_mode = corners ? "STRICT_ALIGN_CORNERS"
                                                : half  ? "UNALIGN_CORNERS"
                                                        : "DEFAULT",
                               .target_size_height = h.out.value(),
                               .target_size_width = w.out.value()});
}

// The coordinate in the operand of index i of the result.
double source(Lowering& ctx, const Plan& p, const Axis& a, int64_t i) {
  const double y = static_cast<double>(i), n = static_cast<double>(a.in.value()), width = a.scale * n;
  if (p.coordinates == "align_corners") return width == 1 ? 0 : y * (n - 1) / (width - 1);
  if (p.coordinates == "asymmetric") return y / a.scale;
  const double half = (y + 0.5) / a.scale - 0.5;
  if (p.coordinates == "pytorch_half_pixel") return width == 1 ? -0.5 : half;
  if (p.coordinates == "half_pixel") return half;
  if (p.crops) {
    const double length = (a.end - a.start) * (n - 1);
    return a.start * (n - 1) + (width == 1 ? length / 2 : y * length / (width - 1));
  }
  if (p.coordinates == "half_pixel_symmetric") return n / 2 * (1 - static_cast<double>(a.out.value()) / width) + half;
  ctx.unsupported(fmt::format("the coordinate transformation '{}'", p.coordinates));
}

int64_t nearest(const Plan& p, double x) {
  if (p.nearest == "floor") return static_cast<int64_t>(std::floor(x));
  if (p.nearest == "ceil") return static_cast<int64_t>(std::ceil(x));
  const double low = std::floor(x), over = x - low;
  const bool up = p.nearest == "round_prefer_ceil" ? over >= 0.5 : over > 0.5;
  return static_cast<int64_t>(low) + (up ? 1 : 0);
}

double cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// [in, out]: the weight of each operand element in each result element.
TensorPtr shares(Lowering& ctx, const Plan& p, const Axis& a, DType d) {
  const int64_t in = a.in.value(), out = a.out.value();
  std::vector<double> m(static_cast<size_t>(in * out));
  for (int64_t i = 0; i < out; ++i) {
    const double x = source(ctx, p, a, i);
    const auto left = static_cast<int64_t>(std::floor(x));
    std::vector<std::pair<int64_t, double>> taps;
    // With antialiasing, the filter is as wide as an element of the result.
    const double narrow = p.antialias ? std::min(a.scale, 1.0) : 1;
    const auto reach = static_cast<int64_t>(std::ceil((p.mode == "linear" ? 1 : 2) / narrow));
    double sum = 0;
    for (int64_t k = left - reach + 1; k <= left + reach; ++k) {
      const double distance = std::fabs(x - static_cast<double>(k)) * narrow;
      double share = p.mode == "linear" ? std::max(0.0, 1 - distance) : cubic(distance, p.cubic);
      if (p.exclude_outside && (k < 0 || k >= in)) share = 0;
      taps.emplace_back(std::clamp<int64_t>(k, 0, in - 1), share);
      sum += share;
    }
    for (const auto& [k, share] : taps)
      m[static_cast<size_t>(k * out + i)] += (p.exclude_outside || p.antialias) && sum != 0 ? share / sum : share;
  }
  std::vector<std::byte> bytes(byte_size(d, m.size()));
  for (size_t i = 0; i < m.size(); ++i) encode_element(d, bytes.data(), static_cast<int64_t>(i), m[i]);
  return Tensor::own(d, {in, out}, std::move(bytes));
}

// The ratio of small integers that a scale approximates: 1.3 in f32 is 13 / 10.
std::pair<int64_t, int64_t> ratio_of(Lowering& ctx, double scale) {
  constexpr int64_t kMost = 1000;
  constexpr double kEpsilon = 1.2e-7, kLargest = 32'000;  // twice that is finite in f16
  for (int64_t q = 1; q <= kMost; ++q) {
    const double p = std::round(scale * static_cast<double>(q));
    if (p >= 1 && p <= kLargest && std::fabs(p / static_cast<double>(q) - scale) <= kEpsilon * scale)
      return {static_cast<int64_t>(p), q};
  }
  ctx.unsupported(fmt::format("the scale {}, which is not a ratio of small numbers, on sizes that are open", scale));
}

// An axis at run time, in integers, which are exact in every precision: sizes, the scale p / q, and width /
// per, which is the result's size before rounding down.
struct Lengths {
  Value *in, *out, *p, *q, *width, *per;
};

Lengths lengths(Lowering& ctx, const Plan& plan, size_t axis) {
  MilBuilder& b = ctx.b;
  const Axis& a = plan.axes[axis];
  Value* in = ctx.size_of(ctx.in(0), axis);
  if (!a.by_scale) {
    Value* out = b.slice_by_index(ctx.in(3), {a.index}, {a.index + 1});
    return {.in = in, .out = out, .p = out, .q = in, .width = out, .per = b.i32s(std::vector<int64_t>{1})};
  }
  const auto [p, q] = ratio_of(ctx, a.scale);
  Lengths n{.in = in, .p = b.i32s(std::vector<int64_t>{p}), .q = b.i32s(std::vector<int64_t>{q})};
  n.width = b.mul(in, n.p);
  n.per = n.q;
  n.out = q == 1 ? n.width : b.floor_div(n.width, n.q);
  return n;
}

// The coordinates in the operand, as fractions: i32[out], i32[1].
std::pair<Value*, Value*> sources(Lowering& ctx, const Plan& plan, const Lengths& n) {
  MilBuilder& b = ctx.b;
  const auto i = [&](int32_t v) { return b.i32(v); };
  Value* y = b.range_1d(b.squeeze(n.out, {.axes = {0}}), 0, 1);
  if (plan.coordinates == "asymmetric") return {b.mul(y, n.q), n.p};
  // For one element, the index is 0: any divisor works.
  if (plan.coordinates == "align_corners")
    return {b.mul(b.mul(y, b.sub(n.in, i(1))), n.per), b.maximum(b.sub(n.width, n.per), i(1))};
  Value* half = b.sub(b.mul(b.add(b.mul(y, i(2)), i(1)), n.q), n.p);  // (y + 1/2) q / p - 1/2, times 2 p
  Value* twice = b.mul(n.p, i(2));
  if (plan.coordinates == "half_pixel") return {half, twice};
  if (plan.coordinates == "pytorch_half_pixel") {
    Value* one = b.cast(b.equal(n.width, n.per), {.dtype = "int32"});  // for one element: -1/2
    return {b.sub(b.mul(half, b.sub(i(1), one)), b.mul(one, n.p)), twice};
  }
  if (plan.coordinates == "half_pixel_symmetric") return {b.add(half, b.sub(b.mul(n.in, n.p), b.mul(n.out, n.q))), twice};
  ctx.unsupported(fmt::format("the coordinate transformation '{}' on sizes that are open", plan.coordinates));
}

// The weights of the taps around a coordinate that lies `over` after one of them: two for linear, four for
// cubic interpolation. The polynomials are factored, which loses less to cancellation.
std::vector<Value*> shares_of(MilBuilder& b, const Plan& p, Value* over) {
  const auto f = [&](double v) { return b.scalar(DType::kF32, v); };
  Value* rest = b.sub(f(1), over);
  if (p.mode == "linear") return {rest, over};
  const auto near = [&](Value* distance, Value* other) {
    return b.mul(other, b.sub(b.add(distance, f(1)), b.mul(b.mul(distance, distance), f(p.cubic + 2))));
  };
  const auto far = [&](Value* once, Value* twice) { return b.mul(b.mul(b.mul(twice, twice), once), f(p.cubic)); };
  return {far(over, rest), near(over, rest), near(rest, over), far(rest, over)};
}

Value* along_open(Lowering& ctx, Value* x, const Plan& p, size_t axis) {
  MilBuilder& b = ctx.b;
  if (p.antialias) ctx.unsupported("an antialiasing filter on sizes that are open");
  const auto i = [&](int32_t v) { return b.i32(v); };
  const Lengths n = lengths(ctx, p, axis);
  const auto [at, per] = sources(ctx, p, n);
  Value* last = b.sub(n.in, i(1));
  const auto taken = [&](Value* index) { return b.gather(x, b.minimum(b.maximum(index, i(0)), last), {.axis = as_int(axis)}); };
  if (p.mode == "nearest") {
    if (p.nearest == "floor") return taken(b.floor_div(at, per));
    if (p.nearest == "ceil") return taken(b.floor_div(b.add(at, b.sub(per, i(1))), per));
    Value* up = p.nearest == "round_prefer_ceil" ? per : b.sub(per, i(1));
    return taken(b.floor_div(b.add(b.mul(at, i(2)), up), b.mul(per, i(2))));
  }
  Value* low = b.floor_div(at, per);
  const auto to_f32 = [&](Value* v) { return ctx.cast(v, DType::kF32); };
  Value* over = b.real_div(to_f32(b.sub(at, b.mul(low, per))), to_f32(per));
  const std::vector<Value*> shares = shares_of(b, p, over);
  const auto shaped = [&](Value* v) { return ctx.unsqueeze(ctx.cast(v, x->dtype()), iota(p.axes.size() - axis - 1, 1)); };
  Value *sum = nullptr, *all = nullptr;
  for (size_t k = 0; k < shares.size(); ++k) {
    const int32_t off = static_cast<int32_t>(k) - (shares.size() == 4 ? 1 : 0);
    Value* index = off == 0 ? low : b.add(low, i(off));
    Value* share = shares[k];
    if (p.exclude_outside) {
      Value* within = b.logical_and(b.greater_equal(index, i(0)), b.less_equal(index, last));
      share = b.mul(share, to_f32(within));
      all = all == nullptr ? share : b.add(all, share);
    }
    Value* piece = b.mul(taken(index), shaped(share));
    sum = sum == nullptr ? piece : b.add(sum, piece);
  }
  return all == nullptr ? sum : b.real_div(sum, shaped(all));
}

Value* along(Lowering& ctx, Value* x, const Plan& p, size_t axis) {
  MilBuilder& b = ctx.b;
  const Axis& a = p.axes[axis];
  if (is_open(a)) return along_open(ctx, x, p, axis);
  if (p.mode == "nearest") {
    std::vector<int32_t> indices;
    for (int64_t i = 0; i < a.out.value(); ++i)
      indices.push_back(static_cast<int32_t>(std::clamp<int64_t>(nearest(p, source(ctx, p, a, i)), 0, a.in.value() - 1)));
    Value* at = b.constant(Tensor::of<int32_t>(DType::kI32, {a.out.value()}, indices));
    return b.gather(x, at, {.axis = as_int(axis)});
  }
  const size_t rank = p.axes.size();
  std::vector<int64_t> perm = iota(rank);
  std::swap(perm[axis], perm[rank - 1]);
  Value* last = ctx.transpose(x, perm);
  if (rank == 1) last = ctx.unsqueeze(last, std::vector<int64_t>{0});
  Value* y = b.matmul(last, b.constant(shares(ctx, p, a, x->dtype())), {.transpose_x = false, .transpose_y = false});
  if (rank == 1) y = ctx.squeeze(y, std::vector<int64_t>{0});
  return ctx.transpose(y, perm);
}

// Replaces elements that cropping (of known sizes) reads outside of the operand along any axis by
// `extrapolation`.
Value* with_outside(Lowering& ctx, Value* y, const Plan& p) {
  MilBuilder& b = ctx.b;
  Value* outside = nullptr;
  for (size_t i = 0; i < p.axes.size(); ++i) {
    const Axis& a = p.axes[i];
    if (!changes(a)) continue;
    std::vector<uint8_t> marks;
    for (int64_t k = 0; k < a.out.value(); ++k) {
      const double x = source(ctx, p, a, k);
      marks.push_back(x < 0 || x > static_cast<double>(a.in.value() - 1));
    }
    if (std::ranges::none_of(marks, [](uint8_t m) { return m != 0; })) continue;
    std::vector<int64_t> shape(p.axes.size() - i, 1);
    shape[0] = a.out.value();
    Value* mark = b.constant(Tensor::of<uint8_t>(DType::kBool, shape, marks));
    outside = outside == nullptr ? mark : b.logical_or(outside, mark);
  }
  return outside == nullptr ? y : b.select(outside, ctx.like(y, p.extrapolation), y);
}

}  // namespace

std::vector<Value*> lower_Resize(Lowering& ctx) {
  const Plan p = plan_of(ctx);
  if (p.mode != "nearest" && p.mode != "linear" && p.mode != "cubic") ctx.unsupported(fmt::format("the mode {}", p.mode));
  Value* x = ctx.in(0);
  if (std::ranges::none_of(p.axes, changes)) return {x};
  if (!ctx.takes("resize_bilinear", x->dtype())) {
    if (p.mode != "nearest") ctx.unsupported(fmt::format("Core ML interpolates no {}", to_string(x->dtype())));
  } else if (Value* y = native(ctx, x, p)) {
    return {y};
  }
  return {ctx.via("gather", x, [&](Value* v) {
    for (size_t i = 0; i < p.axes.size(); ++i) {
      if (changes(p.axes[i])) v = along(ctx, v, p, i);
    }
    return p.crops ? with_outside(ctx, v, p) : v;
  })};
}

}  // namespace sardonyx::onnx_to_mil
