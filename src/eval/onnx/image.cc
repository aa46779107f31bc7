// Image operators: resizing, sampling at grids and regions, boxes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "eval/elementwise.h"
#include "eval/onnx/window.h"

namespace sardonyx::eval {
namespace {

// Keys' cubic convolution kernel at distance x.
double cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// --- Resize

// The elements that one result element reads along one axis, with weights. Indices outside are clamped to the
// nearest inside.
struct Tap {
  std::vector<std::pair<int64_t, double>> weights;
  bool extrapolated = false;
};

struct AxisPlan {
  int64_t in = 0, out = 0;
  double scale = 1;
  double roi_start = 0, roi_end = 1;
};

struct ResizeMode {
  std::string interpolation, coordinates, nearest;
  bool antialias = false, exclude_outside = false;
  double cubic_a = -0.75;
};

double source_coordinate(const Call& c, const ResizeMode& m, const AxisPlan& a, int64_t i, bool* extrapolated) {
  const double y = static_cast<double>(i), n = static_cast<double>(a.in), width = a.scale * n;
  if (m.coordinates == "align_corners") return width == 1 ? 0 : y * (n - 1) / (width - 1);
  if (m.coordinates == "asymmetric" || m.coordinates == "tf_half_pixel_for_nn") {
    return m.coordinates == "asymmetric" ? y / a.scale : (y + 0.5) / a.scale;
  }
  if (m.coordinates == "tf_crop_and_resize") {
    const double length = a.roi_end - a.roi_start;
    const double x = a.roi_start * (n - 1) + (width == 1 ? length * (n - 1) / 2 : y * length * (n - 1) / (width - 1));
    *extrapolated = x < 0 || x > n - 1;
    return x;
  }
  if (m.coordinates == "pytorch_half_pixel" && width == 1) return -0.5;
  const double half = (y + 0.5) / a.scale - 0.5;
  if (m.coordinates == "half_pixel" || m.coordinates == "pytorch_half_pixel") return half;
  if (m.coordinates == "half_pixel_symmetric") return n / 2 * (1 - static_cast<double>(a.out) / width) + half;
  c.fail(fmt::format("unknown coordinate transformation \"{}\"", m.coordinates));
}

Tap tap(const Call& c, const ResizeMode& m, const AxisPlan& a, int64_t i) {
  Tap t;
  const double x = source_coordinate(c, m, a, i, &t.extrapolated);
  // The index left of x, and the distance to it in (0, 1].
  const double left = std::ceil(x) - 1, ratio = x - left;
  const auto base = static_cast<int64_t>(std::clamp(left, -1e15, 1e15));
  if (m.interpolation == "nearest") {
    bool right = ratio == 1;
    if (!right) {
      if (m.nearest == "round_prefer_floor") {
        right = ratio > 0.5;
      } else if (m.nearest == "round_prefer_ceil") {
        right = ratio >= 0.5;
      } else if (m.nearest == "ceil") {
        right = true;
      } else if (m.nearest != "floor") {
        c.fail(fmt::format("unknown nearest mode \"{}\"", m.nearest));
      }
    }
    t.weights.emplace_back(base + (right ? 1 : 0), 1.0);
  } else {
    const bool linear = m.interpolation == "linear";
    if (!linear && m.interpolation != "cubic") c.fail(fmt::format("unknown mode \"{}\"", m.interpolation));
    const double scale = m.antialias ? std::min(a.scale, 1.0) : 1.0;
    const auto start = static_cast<int64_t>(std::floor((linear ? -1 : -2) / scale)) + 1;
    double sum = 0;
    for (int64_t k = start; k < 2 - start; ++k) {
      const double d = (static_cast<double>(k) - ratio) * scale;
      const double w = linear ? std::max(0.0, 1 - std::fabs(d)) : cubic(d, m.cubic_a);
      t.weights.emplace_back(base + k, w);
      sum += w;
    }
    if (m.antialias) {
      for (auto& [place, w] : t.weights) w /= sum;
    }
  }
  if (m.exclude_outside) {
    double sum = 0;
    for (auto& [place, w] : t.weights) {
      if (place < 0 || place >= a.in) w = 0;
      sum += w;
    }
    for (auto& [place, w] : t.weights) w /= sum == 0 ? 1 : sum;
  }
  for (auto& [place, w] : t.weights) place = std::clamp<int64_t>(place, 0, std::max<int64_t>(a.in - 1, 0));
  return t;
}

Array resized(Call& c, const Array& x, std::span<const AxisPlan> plans, const ResizeMode& m, double extrapolation) {
  std::vector<double> data = load_all<double>(x);
  std::vector<int64_t> shape(x.shape());
  std::vector<std::vector<Tap>> taps;
  for (size_t d = 0; d < plans.size(); ++d) {
    const AxisPlan& a = plans[d];
    taps.emplace_back();
    if (a.in == 0 && a.out > 0) c.fail("an empty axis cannot be resized");
    for (int64_t i = 0; i < a.out; ++i) taps.back().push_back(tap(c, m, a, i));
    if (a.out == a.in && a.scale == 1 && m.coordinates != "tf_crop_and_resize") continue;
    const int64_t outer = product(std::span(shape).first(d)), inner = product(std::span(shape).subspan(d + 1));
    std::vector<int64_t> next_shape(shape);
    next_shape[d] = a.out;
    std::vector<double> next(static_cast<size_t>(product(next_shape)), 0.0);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < a.out; ++i) {
        double* to = next.data() + (o * a.out + i) * inner;
        for (const auto& [place, w] : taps.back()[static_cast<size_t>(i)].weights) {
          if (w == 0) continue;
          const double* from = data.data() + (o * a.in + place) * inner;
          for (int64_t k = 0; k < inner; ++k) to[k] += w * from[k];
        }
      }
    }
    data = std::move(next);
    shape = std::move(next_shape);
  }
  if (m.coordinates == "tf_crop_and_resize") {
    for_each_position(shape, [&](int64_t i, const std::vector<int64_t>& at) {
      for (size_t d = 0; d < at.size(); ++d) {
        if (taps[d][static_cast<size_t>(at[d])].extrapolated) data[static_cast<size_t>(i)] = extrapolation;
      }
    });
  }
  return c.of<double>(x.dtype(), shape, data);
}

// --- GridSample

double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  if (x >= low && x <= high) return x;
  const double away = x < low ? low - x : x - high;
  const double turns = std::floor(away / range), rest = away - turns * range;
  const bool even = std::fmod(turns, 2) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

enum class Padding : uint8_t { kZeros, kBorder, kReflection };

struct Grid {
  std::vector<int64_t> size;
  Padding padding;
  bool align;
  double low() const { return align ? 0 : -0.5; }
  double high(size_t d) const { return static_cast<double>(size[d]) - (align ? 1 : 0.5); }
  // Maps index i on axis d into the image; -1 is outside and reads as zero.
  int64_t place(size_t d, int64_t i) const {
    if (i >= 0 && i < size[d]) return i;
    if (padding == Padding::kZeros) return -1;
    if (padding == Padding::kBorder) return std::clamp<int64_t>(i, 0, size[d] - 1);
    return std::clamp<int64_t>(static_cast<int64_t>(reflected(static_cast<double>(i), low(), high(d))), 0, size[d] - 1);
  }
};

// --- boxes

struct Box {
  double x1, y1, x2, y2;
  double area() const { return (x2 - x1) * (y2 - y1); }
};

Box box_of(const double* b, bool centered) {
  if (centered) return {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
  return {std::min(b[1], b[3]), std::min(b[0], b[2]), std::max(b[1], b[3]), std::max(b[0], b[2])};
}

double overlap(const Box& a, const Box& b) {
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1), height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (width <= 0 || height <= 0 || a.area() <= 0 || b.area() <= 0) return 0;
  return width * height / (a.area() + b.area() - width * height);
}

}  // namespace

namespace kernels {

void Resize(Call& c) {
  const Array& x = c.in(0);
  const size_t rank = x.rank();
  ResizeMode m;
  m.interpolation = c.string_attr("mode", "nearest");
  m.coordinates = c.version() < 11 ? "asymmetric" : c.string_attr("coordinate_transformation_mode", "half_pixel");
  m.nearest = c.version() < 11 ? "floor" : c.string_attr("nearest_mode", "round_prefer_floor");
  m.antialias = c.attr("antialias") != nullptr && c.int_attr("antialias") != 0;
  m.exclude_outside = c.attr("exclude_outside") != nullptr && c.int_attr("exclude_outside") != 0;
  m.cubic_a = c.version() < 11 ? -0.75 : c.float_attr("cubic_coeff_a", -0.75);
  std::vector<size_t> axes(rank);
  std::iota(axes.begin(), axes.end(), size_t{0});
  if (c.attr("axes") != nullptr && c.version() >= 18) axes = c.axes(*c.ints_attr("axes"), rank);
  const size_t scales_at = c.version() < 11 ? 1 : 2;
  std::vector<AxisPlan> plans(rank);
  for (size_t d = 0; d < rank; ++d) plans[d].in = plans[d].out = x.dim(d);
  const bool by_size = c.version() >= 11 && c.has(3) && c.in(3).size() > 0;
  if (by_size) {
    const std::vector<int64_t> sizes = c.ints(3);
    if (sizes.size() != axes.size()) c.fail(fmt::format("{} sizes are given for {} axes", sizes.size(), axes.size()));
    const std::string policy = c.version() >= 18 ? c.string_attr("keep_aspect_ratio_policy", "stretch") : "stretch";
    double common = 0;
    for (size_t k = 0; k < axes.size(); ++k) {
      AxisPlan& a = plans[axes[k]];
      c.require(sizes[k] >= 0 && a.in > 0, "a size is negative, or an axis empty");
      a.out = sizes[k];
      a.scale = static_cast<double>(sizes[k]) / static_cast<double>(a.in);
      if (k == 0 || (policy == "not_larger" ? a.scale < common : a.scale > common)) common = a.scale;
    }
    if (policy != "stretch") {
      if (policy != "not_larger" && policy != "not_smaller") c.fail(fmt::format("unknown policy \"{}\"", policy));
      for (size_t d : axes) {
        plans[d].scale = common;
        plans[d].out = static_cast<int64_t>(std::floor(common * static_cast<double>(plans[d].in) + 0.5));
      }
    }
  } else {
    const std::vector<double> scales = c.doubles(scales_at);
    if (scales.size() != axes.size()) c.fail(fmt::format("{} scales are given for {} axes", scales.size(), axes.size()));
    for (size_t k = 0; k < axes.size(); ++k) {
      AxisPlan& a = plans[axes[k]];
      if (!(scales[k] > 0) || scales[k] * static_cast<double>(a.in) > 1e15)
        c.fail(fmt::format("{} is not a valid scale", scales[k]));
      a.scale = scales[k];
      a.out = static_cast<int64_t>(std::floor(a.scale * static_cast<double>(a.in)));
    }
  }
  if (m.coordinates == "tf_crop_and_resize") {
    const std::vector<double> roi = c.doubles(1);
    if (roi.size() != 2 * axes.size())
      c.fail(fmt::format("expected a region of two numbers per axis, found {} numbers for {} axes", roi.size(), axes.size()));
    for (size_t k = 0; k < axes.size(); ++k) {
      plans[axes[k]].roi_start = roi[k];
      plans[axes[k]].roi_end = roi[k + axes.size()];
    }
  }
  c.set(0, resized(c, x, plans, m, c.version() < 11 ? 0 : c.float_attr("extrapolation_value", 0)));
}

void Upsample(Call& c) {
  const Array& x = c.in(0);
  ResizeMode m;
  m.interpolation = c.string_attr("mode", "nearest");
  if (m.interpolation == "bilinear") m.interpolation = "linear";
  m.coordinates = "asymmetric";
  m.nearest = "floor";
  std::vector<double> scales;
  if (c.version() >= 9) {
    scales = c.doubles(1);
  } else if (c.version() >= 7) {
    scales = c.floats_attr("scales").value_or(std::vector<double>{});
  } else {
    scales = {1, 1, c.float_attr("height_scale", 1), c.float_attr("width_scale", 1)};
  }
  if (scales.size() != x.rank()) c.fail(fmt::format("{} scales are given for {} axes", scales.size(), x.rank()));
  std::vector<AxisPlan> plans;
  for (size_t d = 0; d < x.rank(); ++d) {
    if (!(scales[d] > 0) || scales[d] * static_cast<double>(x.dim(d)) > 1e15)
      c.fail(fmt::format("{} is not a valid scale", scales[d]));
    plans.push_back({x.dim(d), static_cast<int64_t>(std::floor(scales[d] * static_cast<double>(x.dim(d)))), scales[d]});
  }
  c.set(0, resized(c, x, plans, m, 0));
}

// Samples x at the grid's coordinates, which run from -1 at one edge to 1 at the other. A grid lists
// coordinates from x's last axis backwards.
void GridSample(Call& c) {
  const Array& x = c.in(0);
  const Array& grid = c.in(1);
  const size_t rank = x.rank() - 2;
  c.require(x.rank() >= 3 && grid.rank() == x.rank() && grid.dim(grid.rank() - 1) == static_cast<int64_t>(rank) &&
                grid.dim(0) == x.dim(0),
            "the grid does not fit the images");
  std::string mode = c.string_attr("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  if (mode != "linear" && mode != "cubic" && mode != "nearest") c.fail(fmt::format("unknown mode \"{}\"", mode));
  const std::string padding = c.string_attr("padding_mode", "zeros");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    c.fail(fmt::format("unknown padding mode \"{}\"", padding));
  Grid g{{x.shape().begin() + 2, x.shape().end()},
         padding == "zeros"    ? Padding::kZeros
         : padding == "border" ? Padding::kBorder
                               : Padding::kReflection,
         c.int_attr("align_corners", 0) != 0};
  const std::vector<double> data = c.doubles(0), places = c.doubles(1);
  const int64_t channels = x.dim(1), plane = product(g.size),
                points = product(std::span(grid.shape()).subspan(1)) / static_cast<int64_t>(rank);
  const std::vector<int64_t> strides = dense_strides(g.size);
  std::vector<int64_t> shape{x.dim(0), channels};
  shape.insert(shape.end(), grid.shape().begin() + 1, grid.shape().end() - 1);
  std::vector<double> out(static_cast<size_t>(product(shape)), 0.0);
  std::vector<std::pair<int64_t, double>> sum, next;  // offsets in a plane and their weights
  for (int64_t b = 0; b < x.dim(0); ++b) {
    for (int64_t p = 0; p < points; ++p) {
      sum.assign(1, {0, 1.0});
      for (size_t d = 0; d < rank; ++d) {
        const double v = places[static_cast<size_t>((b * points + p) * static_cast<int64_t>(rank)) + rank - 1 - d];
        const auto n = static_cast<double>(g.size[d]);
        double at = g.align ? (v + 1) / 2 * (n - 1) : ((v + 1) * n - 1) / 2;
        if (!std::isfinite(at)) at = -1;
        if (mode == "nearest") at = std::nearbyint(at);
        if (at < g.low() || at > g.high(d)) {
          // As PyTorch and onnxruntime: of the four elements of a cubic each counts as the border (the
          // standard's own code moves `at`).
          if (g.padding == Padding::kBorder && mode != "cubic" && mode != "bicubic") at = std::clamp(at, 0.0, n - 1);
          if (g.padding == Padding::kReflection) at = reflected(at, g.low(), g.high(d));
        }
        at = std::clamp(at, -1e9, 1e9);
        const double left = std::floor(at), t = at - left;
        const auto base = static_cast<int64_t>(left);
        next.clear();
        auto add = [&](int64_t i, double w) {
          const int64_t k = g.place(d, i);
          if (k < 0 || w == 0) return;
          for (const auto& [offset, weight] : sum) next.emplace_back(offset + k * strides[d], weight * w);
        };
        if (mode == "nearest") {
          add(static_cast<int64_t>(at), 1.0);
        } else if (mode == "linear") {
          add(base, 1 - t);
          add(base + 1, t);
        } else {
          for (int64_t k = -1; k <= 2; ++k) add(base + k, cubic(t - static_cast<double>(k), -0.75));
        }
        sum.swap(next);
      }
      for (int64_t ch = 0; ch < channels; ++ch) {
        double v = 0;
        for (const auto& [offset, weight] : sum) v += weight * data[static_cast<size_t>((b * channels + ch) * plane + offset)];
        out[static_cast<size_t>((b * channels + ch) * points + p)] = v;
      }
    }
  }
  c.set(0, c.of<double>(x.dtype(), shape, out));
}

// Multiplies theta by the homogeneous coordinates of each grid position.
void AffineGrid(Call& c) {
  const Array& theta = c.in(0);
  const std::vector<int64_t> size = c.ints(1);
  c.require(size.size() == 4 || size.size() == 5, "expected a size of four or five axes");
  const size_t rank = size.size() - 2;
  c.require(theta.shape() == std::vector<int64_t>{size[0], static_cast<int64_t>(rank), static_cast<int64_t>(rank) + 1},
            "theta does not fit the size");
  const bool align = c.int_attr("align_corners", 0) != 0;
  const std::vector<double> matrix = c.doubles(0);
  const std::vector<int64_t> spatial(size.begin() + 2, size.end());
  std::vector<int64_t> shape{size[0]};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  shape.push_back(static_cast<int64_t>(rank));
  std::vector<double> out;
  out.reserve(static_cast<size_t>(product(shape)));
  for (int64_t b = 0; b < size[0]; ++b) {
    const double* m = matrix.data() + b * static_cast<int64_t>(rank * (rank + 1));
    for_each_position(spatial, [&](int64_t, const std::vector<int64_t>& at) {
      for (size_t row = 0; row < rank; ++row) {
        double sum = m[row * (rank + 1) + rank];
        for (size_t k = 0; k < rank; ++k) {  // the last spatial axis comes first
          const size_t d = rank - 1 - k;
          const auto n = static_cast<double>(spatial[d]), i = static_cast<double>(at[d]);
          const double coordinate = align ? (n == 1 ? -1 : 2 * i / (n - 1) - 1) : (2 * i + 1) / n - 1;
          sum += m[row * (rank + 1) + k] * coordinate;
        }
        out.push_back(sum);
      }
    });
  }
  c.set(0, c.of<double>(theta.dtype(), shape, out));
}

// Samples each cell of a grid over a region at several points and takes their mean or maximum.
void RoiAlign(Call& c) {
  const Array& x = c.in(0);
  const Array& rois = c.in(1);
  c.require(x.rank() == 4 && rois.rank() == 2 && rois.dim(1) == 4 && c.in(2).size() == rois.dim(0),
            "expected images, regions of four numbers, and a batch for each region");
  const std::vector<double> data = c.doubles(0), regions = c.doubles(1);
  const std::vector<int64_t> batches = c.ints(2);
  const int64_t rows = c.int_attr("output_height", 1), columns = c.int_attr("output_width", 1),
                sampling = c.int_attr("sampling_ratio", 0);
  const int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  const double scale = c.float_attr("spatial_scale", 1);
  const bool half = c.version() >= 16 && c.string_attr("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const bool maximum = c.string_attr("mode", "avg") == "max";
  c.require(rows > 0 && columns > 0 && sampling >= 0, "output sizes must be positive");
  std::vector<double> out;
  for (int64_t r = 0; r < rois.dim(0); ++r) {
    const double* region = regions.data() + r * 4;
    const int64_t b = batches[static_cast<size_t>(r)];
    if (b < 0 || b >= x.dim(0)) c.fail(fmt::format("region {} is in batch {}", r, b));
    const double offset = half ? 0.5 : 0;
    const double x1 = region[0] * scale - offset, y1 = region[1] * scale - offset;
    double w = region[2] * scale - offset - x1, h = region[3] * scale - offset - y1;
    if (!half) w = std::max(w, 1.0), h = std::max(h, 1.0);
    const double cell_h = h / static_cast<double>(rows), cell_w = w / static_cast<double>(columns);
    if (!(std::fabs(cell_h) < 1e6) || !(std::fabs(cell_w) < 1e6)) c.fail("a region is too large");
    const int64_t points_h = sampling > 0 ? sampling : static_cast<int64_t>(std::ceil(cell_h));
    const int64_t points_w = sampling > 0 ? sampling : static_cast<int64_t>(std::ceil(cell_w));
    for (int64_t ch = 0; ch < channels; ++ch) {
      const double* image = data.data() + (b * channels + ch) * height * width;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          double sum = 0, best = 0;
          bool first = true;
          for (int64_t p = 0; p < points_h; ++p) {
            for (int64_t q = 0; q < points_w; ++q) {
              double y =
                  y1 + (static_cast<double>(i) + (static_cast<double>(p) + 0.5) / static_cast<double>(points_h)) * cell_h;
              double z =
                  x1 + (static_cast<double>(j) + (static_cast<double>(q) + 0.5) / static_cast<double>(points_w)) * cell_w;
              double parts[4] = {0, 0, 0, 0};
              if (y >= -1 && y <= static_cast<double>(height) && z >= -1 && z <= static_cast<double>(width)) {
                auto split = [](double& v, int64_t n, int64_t& low, int64_t& high) {
                  v = std::max(v, 0.0);
                  low = static_cast<int64_t>(v);
                  high = low + 1;
                  if (low >= n - 1) low = high = n - 1, v = static_cast<double>(low);
                  return v - static_cast<double>(low);
                };
                int64_t y_low = 0, y_high = 0, z_low = 0, z_high = 0;
                const double u = split(y, height, y_low, y_high), t = split(z, width, z_low, z_high);
                parts[0] = (1 - u) * (1 - t) * image[y_low * width + z_low];
                parts[1] = (1 - u) * t * image[y_low * width + z_high];
                parts[2] = u * (1 - t) * image[y_high * width + z_low];
                parts[3] = u * t * image[y_high * width + z_high];
              }
              sum += parts[0] + parts[1] + parts[2] + parts[3];
              // The standard takes the maximum over the weighted neighbors, not over interpolated points.
              const double high = *std::max_element(parts, parts + 4);
              best = first ? high : std::max(best, high);
              first = false;
            }
          }
          out.push_back(maximum ? best : sum / static_cast<double>(std::max<int64_t>(points_h * points_w, 1)));
        }
      }
    }
  }
  c.set(0, c.of<double>(x.dtype(), {rois.dim(0), channels, rows, columns}, out));
}

// Picks boxes by descending score. A box that overlaps a chosen box of its class too much is dropped. Result
// rows are (batch, class, box).
void NonMaxSuppression(Call& c) {
  const Array& boxes = c.in(0);
  const Array& scores = c.in(1);
  c.require(boxes.rank() == 3 && boxes.dim(2) == 4 && scores.rank() == 3 && scores.dim(0) == boxes.dim(0) &&
                scores.dim(2) == boxes.dim(1),
            "expected boxes [batch, n, 4] and scores [batch, classes, n]");
  const int64_t most = c.has(2) ? c.int_scalar(2) : 0;
  const double limit = c.has(3) ? c.scalar(3) : 0;
  const bool centered = c.int_attr("center_point_box", 0) != 0;
  const std::vector<double> box = c.doubles(0), score = c.doubles(1);
  const int64_t n = boxes.dim(1);
  std::vector<int64_t> out;
  for (int64_t b = 0; b < boxes.dim(0); ++b) {
    for (int64_t k = 0; k < scores.dim(1); ++k) {
      const double* s = score.data() + (b * scores.dim(1) + k) * n;
      std::vector<int64_t> order;
      for (int64_t i = 0; i < n; ++i) {
        if (!c.has(4) || s[i] > c.scalar(4)) order.push_back(i);
      }
      std::ranges::stable_sort(order, [&](int64_t i, int64_t j) { return s[i] > s[j]; });
      std::vector<Box> chosen;
      for (int64_t i : order) {
        if (static_cast<int64_t>(chosen.size()) >= most) break;
        const Box candidate = box_of(box.data() + (b * n + i) * 4, centered);
        if (std::ranges::any_of(chosen, [&](const Box& other) { return overlap(candidate, other) > limit; })) continue;
        chosen.push_back(candidate);
        out.insert(out.end(), {b, k, i});
      }
    }
  }
  c.set(0, c.of<int64_t>(DType::kI64, {static_cast<int64_t>(out.size()) / 3, 3}, out));
}

}  // namespace kernels
}  // namespace sardonyx::eval
