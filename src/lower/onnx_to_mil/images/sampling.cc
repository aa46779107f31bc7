// GridSample, AffineGrid: images sampled at computed points.
//
// Core ML has an op for images with two axes, sampled at the nearest pixel or between four. For others:
//
// Along each axis, a point reads one, two or four elements, each with a weight. One gather from the flattened
// image per combination over all axes reads the elements.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {
namespace {

struct Tap {
  Value* at;      // f32: the index along the axis
  Value* weight;  // null: 1
};

class Sampler {
 public:
  explicit Sampler(Lowering& ctx) : ctx_(ctx), b_(ctx.b) {
    mode_ = ctx.string_attr("mode", "linear");
    if (mode_ == "bilinear") mode_ = "linear";
    if (mode_ == "bicubic") mode_ = "cubic";
    padding_ = ctx.string_attr("padding_mode", "zeros");
    align_ = ctx.int_attr("align_corners", 0) != 0;
    for (Dim d : ctx.in_dims(0).subspan(2)) {
      if (!d.is_int()) ctx.unsupported("images of open size");
      sizes_.push_back(d.value());
    }
  }

  Value* result() {
    const size_t axes = sizes_.size();
    const auto grid = ctx_.in_dims(1);
    std::vector<Dim> points{grid[0]};  // [N, P]
    points.push_back(ctx_.dims().product(grid.subspan(1, grid.size() - 2)));
    Value* coordinates = ctx_.reshape(ctx_.in(1), std::vector<Dim>{points[0], points[1], Dim::of(as_int(axes))});
    int64_t plane = 1;
    for (int64_t n : sizes_) plane *= n;
    const auto dims = ctx_.in_dims(0);
    Value* flat = ctx_.reshape(ctx_.in(0), std::vector<Dim>{dims[0], dims[1], Dim::of(plane)});
    std::vector<Tap> sum{{nullptr, nullptr}};
    for (size_t d = 0; d < axes; ++d) {
      const auto last = as_int(axes - 1 - d);
      Value* v = ctx_.squeeze(b_.slice_by_index(coordinates, {0, 0, last}, {0, 0, last + 1},
                                                {.begin_mask = {true, true, false}, .end_mask = {true, true, false}}),
                              std::vector<int64_t>{2});
      std::vector<Tap> next;
      for (const Tap& t : taps(v, sizes_[d])) {
        for (const Tap& s : sum) {
          Value* row = s.at != nullptr ? b_.add(b_.mul(s.at, static_cast<double>(sizes_[d])), t.at) : t.at;
          Value* weight = s.weight == nullptr ? t.weight : t.weight == nullptr ? s.weight : b_.mul(s.weight, t.weight);
          next.push_back({row, weight});
        }
      }
      sum = std::move(next);
    }
    Value* y = nullptr;
    for (const Tap& t : sum) {
      Value* at = b_.expand_dims(b_.cast(t.at, {.dtype = DType::kI32}), {.axes = {1}});  // [N, 1, P]
      Value* read = b_.gather_along_axis(flat, ctx_.expand(at, std::vector<Dim>{dims[0], dims[1], points[1]}), {.axis = 2});
      if (t.weight != nullptr) read = b_.mul(read, ctx_.cast(b_.expand_dims(t.weight, {.axes = {1}}), read->dtype()));
      y = y == nullptr ? read : b_.add(y, read);
    }
    return ctx_.reshape(y, ctx_.out_dims());
  }

 private:
  double low() const { return align_ ? 0 : -0.5; }
  double high(int64_t n) const { return static_cast<double>(n) - (align_ ? 1 : 0.5); }

  // Reflects x at both ends until it lies between them.
  Value* reflected(Value* x, int64_t n) {
    const double range = high(n) - low();
    if (range <= 0) return b_.mul(x, 0.0);
    // A triangle wave of period 2 * range.
    Value* up = b_.mod(b_.sub(x, low()), 2 * range);
    Value* down = b_.sub(b_.scalar(DType::kF32, 2 * range), up);
    return b_.add(b_.minimum(up, down), low());
  }

  Value* clamped(Value* x, int64_t n) {
    if (n == 1) return b_.minimum(b_.maximum(x, 0.0), 0.0);  // clip requires bounds that differ
    return b_.clip(x, {.alpha = b_.scalar(DType::kF32, 0), .beta = b_.scalar(DType::kF32, static_cast<double>(n - 1))});
  }

  // Clamps an index to the image; with padding by zeros, an index outside gets weight 0.
  Tap tap(Value* at, Value* weight, int64_t n) {
    if (padding_ == "reflection") return {clamped(reflected(at, n), n), weight};
    if (padding_ == "border") return {clamped(at, n), weight};
    Value* above = b_.greater_equal(at, 0.0);
    Value* inside = b_.cast(b_.logical_and(above, b_.less_equal(at, static_cast<double>(n - 1))), {.dtype = DType::kF32});
    return {clamped(at, n), weight != nullptr ? b_.mul(weight, inside) : inside};
  }

  std::vector<Tap> taps(Value* v, int64_t n) {
    const auto size = static_cast<double>(n);
    Value* x = ctx_.cast(v, DType::kF32);
    x = b_.add(b_.mul(x, (align_ ? size - 1 : size) / 2), (size - 1) / 2);
    if (mode_ == "nearest") x = b_.round(x);
    if (padding_ == "border" && mode_ != "cubic") {  // cubic clamps each of its four indices
      Value* below = b_.less(x, low());
      Value* outside = b_.logical_or(below, b_.greater(x, high(n)));
      x = b_.select(outside, clamped(x, n), x);
    }
    if (padding_ == "reflection") x = reflected(x, n);
    if (mode_ == "nearest") return {tap(x, nullptr, n)};
    Value* left = b_.floor(x);
    Value* t = b_.sub(x, left);
    if (mode_ == "linear") {
      Value* rest = b_.sub(b_.scalar(DType::kF32, 1), t);
      const Tap first = tap(left, rest, n);
      return {first, tap(b_.add(left, 1.0), t, n)};
    }
    if (mode_ != "cubic") ctx_.unsupported(fmt::format("the mode {}", mode_));
    std::vector<Tap> all;
    for (int k = -1; k <= 2; ++k) {
      Value* weight = cubic(k < 1 ? b_.sub(t, static_cast<double>(k)) : b_.sub(b_.scalar(DType::kF32, k), t), k == 0 || k == 1);
      Value* at = b_.add(left, static_cast<double>(k));
      all.push_back(tap(at, weight, n));
    }
    return all;
  }

  // The cubic weight at distance x, which is below 1 if `near`, else between 1 and 2.
  Value* cubic(Value* x, bool near) {
    constexpr double kA = -0.75;
    const std::vector<double> c =
        near ? std::vector<double>{kA + 2, -(kA + 3), 0, 1} : std::vector<double>{kA, -5 * kA, 8 * kA, -4 * kA};
    Value* y = b_.add(b_.mul(x, c[0]), c[1]);
    y = b_.add(b_.mul(y, x), c[2]);
    return b_.add(b_.mul(y, x), c[3]);
  }

  Lowering& ctx_;
  MilBuilder& b_;
  std::string mode_, padding_;
  bool align_ = false;
  std::vector<int64_t> sizes_;
};

}  // namespace

namespace {

// Core ML's own op, for images with two axes, the nearest pixel or four. Its symmetric padding reflects at
// the edges of the outer pixels, as ONNX does without align_corners; its reflection padding at their centers,
// as with align_corners.
Value* resampled(Lowering& ctx) {
  const std::string mode = ctx.string_attr("mode", "linear"), padding = ctx.string_attr("padding_mode", "zeros");
  const bool nearest = mode == "nearest", align = ctx.int_attr("align_corners", 0) != 0;
  Value* x = ctx.in(0);
  if (ctx.rank(0) != 4 || !(nearest || mode == "linear" || mode == "bilinear") || !ctx.takes("resample", x->dtype()))
    return nullptr;
  const char* outside = padding == "zeros" ? "constant" : padding == "border" ? "border" : align ? "reflection" : "symmetric";
  return ctx.b.resample(x, ctx.cast(ctx.in(1), DType::kF32),
                        {.align_corners = align,
                         .coordinates_mode = "normalized_minus_one_to_one",
                         .padding_mode = outside,
                         .padding_value = ctx.like(x, 0),
                         .sampling_mode = nearest ? "nearest" : "bilinear"});
}

}  // namespace

std::vector<Value*> lower_GridSample(Lowering& ctx) {
  if (Value* y = resampled(ctx)) return {y};
  return {Sampler(ctx).result()};
}

// The coordinates of all pixels, transformed by theta: one product.
std::vector<Value*> lower_AffineGrid(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const auto size = ctx.need_ints(1, {}, "the size of the images");
  const bool align = ctx.int_attr("align_corners", 0) != 0;
  const std::vector<int64_t> sizes(size.begin() + 2, size.end());
  const size_t axes = sizes.size();
  int64_t points = 1;
  for (int64_t n : sizes) points *= n;
  Value* theta = ctx.in(0);
  // [axes + 1, points]: the last axis of the image first, then ones.
  std::vector<std::byte> bytes(byte_size(theta->dtype(), static_cast<uint64_t>(points) * (axes + 1)));
  for (int64_t p = 0; p < points; ++p) {
    int64_t rest = p;
    for (size_t d = axes; d-- > 0;) {
      const auto n = static_cast<double>(sizes[d]), i = static_cast<double>(rest % sizes[d]);
      rest /= sizes[d];
      const double v = align ? (n == 1 ? 0 : 2 * i / (n - 1) - 1) : (2 * i + 1) / n - 1;
      encode_element(theta->dtype(), bytes.data(), as_int(axes - 1 - d) * points + p, v);
    }
    encode_element(theta->dtype(), bytes.data(), as_int(axes) * points + p, 1);
  }
  Value* base = b.constant(Tensor::own(theta->dtype(), {as_int(axes) + 1, points}, std::move(bytes)));
  Value* transformed = b.matmul(theta, base, {.transpose_x = false, .transpose_y = false});  // [N, axes, points]
  return {ctx.reshape(b.transpose(transformed, {.perm = {0, 2, 1}}), ctx.out_dims())};
}

}  // namespace sardonyx::onnx_to_mil
