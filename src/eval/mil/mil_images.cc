// Core ML's resizing, sampling and selection of boxes. Sampling positions follow the ops' definitions.
// Everything is computed in f64 and rounded once.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "eval/mil/mil_kernel.h"

namespace sardonyx::eval::mil_kernels {
namespace {

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

int64_t count(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// The positions of `out` samples on [0, size - 1], by the sampling mode of resize_bilinear. `size` may be
// fractional, as boxes are cropped with it.
Doubles grid(const Mil& m, double size, int64_t out, const std::string& mode) {
  const auto n = static_cast<double>(out);
  double first = 0, spacing = 0;
  if (mode == "strict_align_corners" || mode == "align_corners") {
    spacing = out > 1 ? (size - 1) / (n - 1) : 0;
    if (out == 1 && mode == "align_corners") first = (size - 1) / 2;
  } else if (mode == "default") {
    spacing = size / n;
  } else if (mode == "offset_corners") {
    spacing = std::max(1.0, size - 1) / n;
    first = 0.5 * spacing;
  } else if (mode == "unalign_corners") {
    spacing = size / n;
    first = 0.5 * spacing - 0.5;
  } else {
    m.c.unsupported(fmt::format("the sampling mode {} is not evaluated", mode));
  }
  Doubles at;
  for (int64_t i = 0; i < out; ++i)
    at.push_back(std::clamp(first + static_cast<double>(i) * spacing, 0.0, std::max(0.0, size - 1)));
  return at;
}

// Samples x along one axis, either interpolating between two elements or taking the element before.
Doubles along(const Doubles& x, Ints& shape, size_t axis, const Doubles& at, bool nearest) {
  const int64_t size = shape[axis], outer = count(std::span(shape).first(axis)),
                inner = count(std::span(shape).subspan(axis + 1));
  Doubles y;
  y.reserve(static_cast<size_t>(outer * inner) * at.size());
  for (int64_t o = 0; o < outer; ++o) {
    for (double p : at) {
      const auto low = std::min(static_cast<int64_t>(std::floor(p)), size - 1), high = std::min(low + 1, size - 1);
      const double part = nearest ? 0 : p - static_cast<double>(low);
      for (int64_t i = 0; i < inner; ++i) {
        const double a = x[static_cast<size_t>((o * size + low) * inner + i)];
        const double b = x[static_cast<size_t>((o * size + high) * inner + i)];
        y.push_back(part == 0 ? a : a * (1 - part) + b * part);
      }
    }
  }
  shape[axis] = std::ssize(at);
  return y;
}

// Resizes x on its last axes.
void resized(const Mil& m, const Ints& sizes, const std::string& mode, bool nearest) {
  const Array& x = m.in("x");
  m.c.require(x.rank() >= sizes.size() && product(x.shape()) > 0, "x has too few axes, or no elements");
  Ints shape(x.shape()), out = shape;
  std::copy(sizes.rbegin(), sizes.rend(), out.rbegin());
  m.c.require(std::ranges::all_of(sizes, [](int64_t s) { return s > 0; }), "sizes are positive");
  m.c.run.account->check(product(out), sizeof(double));
  Doubles values = load_all<double>(x);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t axis = shape.size() - sizes.size() + i;
    values = along(values, shape, axis, grid(m, static_cast<double>(shape[axis]), sizes[i], mode), nearest);
  }
  m.set(m.c.of<double>(x.dtype(), shape, values));
}

}  // namespace

void resize_bilinear(Mil m) {
  resized(m, {m.integer("target_size_height", 1), m.integer("target_size_width", 1)}, m.text("sampling_mode", "default"),
          false);
}

void resize_nearest_neighbor(Mil m) {
  resized(m, {m.integer("target_size_height"), m.integer("target_size_width")}, "default", true);
}

void resize(Mil m) {
  const Array& x = m.in("x");
  const Ints shape = m.ints("shape");
  const int64_t dims = m.integer("resized_dims");
  m.c.require(dims >= 0 && dims <= std::ssize(shape) && dims <= static_cast<int64_t>(x.rank()),
              "there are fewer axes to resize");
  Ints sizes(shape.end() - dims, shape.end());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) sizes[i] = x.dim(x.rank() - sizes.size() + i);
  }
  const bool nearest = m.text("interpolation_mode", "linear") == "nearest_neighbor";
  const std::string mode = m.text("sampling_mode", "default");
  if (nearest && mode != "default") m.c.unsupported("nearest neighbors are evaluated with the sampling mode DEFAULT only");
  if (!nearest && !is_float(x.dtype())) m.c.unsupported("interpolation of integers is not evaluated");
  resized(m, sizes, mode, nearest);
}

namespace {

// An image that can be read between pixels. The padding mode says what lies outside: "constant", "border",
// "reflection" (about the first and the last pixel) or "symmetric" (about their outer edges).
class Image {
 public:
  Image(const Mil& m, const double* pixels, int64_t height, int64_t width, std::string padding, double outside)
      : m_(m), pixels_(pixels), height_(height), width_(width), padding_(std::move(padding)), outside_(outside) {}

  double bilinear(double y, double x) const {
    const double top = std::floor(y), left = std::floor(x), v = y - top, u = x - left;
    const auto row = whole(top), column = whole(left);
    double sum = 0;
    const auto add = [&](int64_t r, int64_t c, double weight) {
      if (weight != 0) sum += weight * pixel(r, c);
    };
    add(row, column, (1 - v) * (1 - u));
    add(row, column + 1, (1 - v) * u);
    add(row + 1, column, v * (1 - u));
    add(row + 1, column + 1, v * u);
    return sum;
  }
  double nearest(double y, double x) const { return pixel(whole(std::nearbyint(y)), whole(std::nearbyint(x))); }

 private:
  static int64_t whole(double v) { return std::isnan(v) ? 0 : static_cast<int64_t>(std::clamp(v, -1e9, 1e9)); }

  std::optional<int64_t> inside(int64_t i, int64_t n) const {
    if (i >= 0 && i < n) return i;
    if (padding_ == "constant") return std::nullopt;
    if (padding_ == "border") return std::clamp<int64_t>(i, 0, n - 1);
    const bool edges = padding_ == "symmetric";
    if (!edges && padding_ != "reflection") m_.c.unsupported(fmt::format("the padding mode {} is not evaluated", padding_));
    const int64_t period = edges ? 2 * n : std::max<int64_t>(2 * n - 2, 1);
    const int64_t at = ((i % period) + period) % period;
    return at < n ? at : period - at - (edges ? 1 : 0);
  }
  double pixel(int64_t row, int64_t column) const {
    const auto r = inside(row, height_), c = inside(column, width_);
    return r && c ? pixels_[*r * width_ + *c] : outside_;
  }

  const Mil& m_;
  const double* pixels_;
  int64_t height_, width_;
  std::string padding_;
  double outside_;
};

// y[b, c, i, j] = x[b, c] at points[b * stride + i, j], which are pairs of a column and a row.
void sampled(const Mil& m, const Doubles& points, int64_t stride, int64_t height, int64_t width) {
  const Array& x = m.in("x");
  const bool nearest = m.text("sampling_mode", "bilinear") == "nearest";
  const Doubles pixels = load_all<double>(x);
  const int64_t plane = x.dim(2) * x.dim(3);
  m.c.run.account->check(x.dim(0) * x.dim(1) * height * width, sizeof(double));
  Doubles y;
  for (int64_t b = 0; b < x.dim(0); ++b) {
    for (int64_t c = 0; c < x.dim(1); ++c) {
      const Image image(m, pixels.data() + (b * x.dim(1) + c) * plane, x.dim(2), x.dim(3), m.text("padding_mode", "constant"),
                        m.number("padding_value"));
      for (int64_t k = 0; k < height * width; ++k) {
        const double* at = points.data() + 2 * (b * stride + k);
        y.push_back(nearest ? image.nearest(at[1], at[0]) : image.bilinear(at[1], at[0]));
      }
    }
  }
  m.set(m.c.of<double>(x.dtype(), {x.dim(0), x.dim(1), height, width}, y));
}

// Converts a coordinate to a position in pixels.
double in_pixels(const Mil& m, double v, int64_t size, const std::string& mode, bool corners) {
  const auto n = static_cast<double>(size);
  if (mode == "unnormalized") return v;
  if (mode == "normalized_minus_one_to_one")
    v = (v + 1) / 2;
  else if (mode != "normalized_zero_to_one")
    m.c.unsupported(fmt::format("the coordinates mode {} is not evaluated", mode));
  return corners ? v * (n - 1) : v * n - 0.5;
}

}  // namespace

void resample(Mil m) {
  const Array &x = m.in("x"), &at = m.in("coordinates");
  m.c.require(x.rank() == 4 && at.rank() == 4 && at.dim(3) == 2 && at.dim(0) == x.dim(0) && product(x.shape()) > 0,
              "x is [batch, channels, height, width], coordinates are [batch, height, width, 2]");
  const std::string mode = m.text("coordinates_mode");
  const bool corners = m.flag("align_corners");
  Doubles points = load_all<double>(at);
  for (size_t i = 0; i < points.size(); ++i) points[i] = in_pixels(m, points[i], x.dim(i % 2 == 0 ? 3 : 2), mode, corners);
  sampled(m, points, at.dim(1) * at.dim(2), at.dim(1), at.dim(2));
}

void affine(Mil m) {
  const Array &x = m.in("x"), &matrix = m.in("transform_matrix");
  const int64_t height = m.integer("output_height"), width = m.integer("output_width");
  m.c.require(x.rank() == 4 && matrix.rank() == 2 && matrix.dim(1) == 6 && product(x.shape()) > 0 &&
                  (matrix.dim(0) == 1 || matrix.dim(0) == x.dim(0)) && height > 0 && width > 0,
              "x is [batch, channels, height, width], transform_matrix [batch or 1, 6]");
  const std::string mode = m.text("coordinates_mode");
  const bool corners = m.flag("align_corners", true);
  if (mode != "normalized_minus_one_to_one" || !corners) m.c.unsupported("other coordinates are not evaluated");
  const Doubles all = load_all<double>(matrix);
  m.c.run.account->check(matrix.dim(0) * height * width, 2 * sizeof(double));
  Doubles points;
  const auto from = [](int64_t i, int64_t n) {
    return n > 1 ? 2.0 * static_cast<double>(i) / static_cast<double>(n - 1) - 1 : -1.0;
  };
  for (int64_t b = 0; b < matrix.dim(0); ++b) {
    const double* t = all.data() + 6 * b;
    for (int64_t i = 0; i < height; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        const double h = from(i, height), w = from(j, width);
        points.push_back(in_pixels(m, t[0] * w + t[1] * h + t[2], x.dim(3), mode, corners));
        points.push_back(in_pixels(m, t[3] * w + t[4] * h + t[5], x.dim(2), mode, corners));
      }
    }
  }
  sampled(m, points, matrix.dim(0) == 1 ? 0 : height * width, height, width);
}

void crop_resize(Mil m) {
  const Array& x = m.in("x");
  const bool newest = m.c.version() >= 8;
  const Array& boxes = m.in(newest ? "boxes" : "roi");
  m.c.require(x.rank() == 4 && product(x.shape()) > 0, "x is [batch, channels, height, width]");
  const int64_t n = boxes.rank() > 0 ? boxes.dim(0) : 0, each = n > 0 ? boxes.size() / n : 0;
  m.c.require(n > 0 && (each == 4 || (each == 5 && !newest)), "a box has four coordinates");
  m.c.require(each == 4 || x.dim(0) == 1,
              "boxes with indices into a batch are not evaluated: the op does not define what the batch axis becomes");
  const int64_t height = m.integer("target_height", 1), width = m.integer("target_width", 1);
  m.c.require(height > 0 && width > 0, "sizes are positive");
  const bool normalized = m.flag("normalized_coordinates");
  const double scale = m.number("spatial_scale", 1), outside = m.number("pad_value", 0);
  const std::string order = m.text("box_coordinate_mode", "corners_height_first"), mode = m.text("sampling_mode", "default");
  const Doubles all = load_all<double>(boxes), pixels = load_all<double>(x);
  const Ints of = newest && m.has("box_indices") ? m.ints("box_indices") : Ints();
  m.c.require(of.empty() || std::ssize(of) == n, "there is an index for each box");
  const int64_t batch = x.dim(0), channels = x.dim(1), plane = x.dim(2) * x.dim(3), per_box = newest ? 1 : batch;
  m.c.run.account->check(n * per_box * channels * height * width, sizeof(double));
  Doubles y;
  for (int64_t i = 0; i < n; ++i) {
    const double* box = all.data() + i * each + (each - 4);
    std::array<double, 4> b{box[0], box[1], box[2], box[3]};
    if (order.ends_with("width_first")) b = {box[1], box[0], box[3], box[2]};
    if (order.starts_with("center")) b = {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
    for (size_t k = 0; k < 4; ++k) {
      b[k] *= scale;
      if (normalized) b[k] *= static_cast<double>(x.dim(k % 2 == 0 ? 2 : 3) - 1);
    }
    const Doubles rows = grid(m, b[2] - b[0] + 1, height, mode), columns = grid(m, b[3] - b[1] + 1, width, mode);
    for (int64_t p = 0; p < per_box; ++p) {
      const int64_t index = each == 5    ? static_cast<int64_t>(all[static_cast<size_t>(i * 5)])
                            : !newest    ? p
                            : of.empty() ? i
                                         : of[static_cast<size_t>(i)];
      m.c.require(index >= 0 && index < batch, "the index of a box is out of range for the batch");
      for (int64_t c = 0; c < channels; ++c) {
        const Image image(m, pixels.data() + (index * channels + c) * plane, x.dim(2), x.dim(3), "constant", outside);
        for (double r : rows) {
          for (double col : columns) {
            const double v = b[0] + r, u = b[1] + col;
            const bool in =
                v >= 0 && u >= 0 && v <= static_cast<double>(x.dim(2) - 1) && u <= static_cast<double>(x.dim(3) - 1);
            y.push_back(in ? image.bilinear(v, u) : outside);
          }
        }
      }
    }
  }
  const Ints shape = newest ? Ints{n, channels, height, width} : Ints{n, per_box, channels, height, width};
  m.set(m.c.of<double>(x.dtype(), shape, y));
}

// Lists boxes by descending score and drops those that overlap a box already taken. Unused result elements
// hold zeros, with index -1.
void non_maximum_suppression(Mil m) {
  const Array &boxes = m.in("boxes"), &scores = m.in("scores");
  const bool newest = m.c.version() >= 8;  // boxes are the last axis
  m.c.require(boxes.rank() == 3 && scores.rank() == 3 && boxes.dim(newest ? 1 : 2) == 4 && boxes.dim(0) == scores.dim(0) &&
                  boxes.dim(newest ? 2 : 1) == scores.dim(newest ? 2 : 1),
              "expected boxes of four numbers each, with scores");
  const int64_t batch = boxes.dim(0), n = boxes.dim(newest ? 2 : 1), classes = scores.dim(newest ? 1 : 2);
  const int64_t most = m.integer("max_boxes");
  m.c.require(most >= 0 && classes > 0, "max_boxes is not negative, and there are classes");
  m.c.run.account->check(batch * most * (classes + 4), sizeof(double));
  const double overlap = m.number("iou_threshold");
  const double lowest = newest ? -std::numeric_limits<double>::infinity() : m.number("score_threshold");
  const bool per_class = m.flag("per_class_suppression");
  const Doubles corners = load_all<double>(boxes), values = load_all<double>(scores);
  Doubles out_boxes(static_cast<size_t>(batch * most * 4), 0), out_scores(static_cast<size_t>(batch * most * classes), 0);
  Ints out_indices(static_cast<size_t>(batch * most), -1), counts;
  for (int64_t b = 0; b < batch; ++b) {
    const auto box = [&](int64_t i, int64_t k) {
      return corners[static_cast<size_t>(newest ? (b * 4 + k) * n + i : (b * n + i) * 4 + k)];
    };
    const auto score = [&](int64_t i, int64_t k) {
      return values[static_cast<size_t>(newest ? (b * classes + k) * n + i : (b * n + i) * classes + k)];
    };
    Ints order(static_cast<size_t>(n)), best(static_cast<size_t>(n), 0);
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 1; k < classes; ++k) {
        if (score(i, k) > score(i, best[static_cast<size_t>(i)])) best[static_cast<size_t>(i)] = k;
      }
    }
    const auto top = [&](int64_t i) { return score(i, best[static_cast<size_t>(i)]); };
    std::ranges::stable_sort(order, [&](int64_t i, int64_t j) { return top(i) > top(j); });
    const auto shared = [&](int64_t i, int64_t j) {  // intersection over union
      double both = 1, one = 1, other = 1;
      for (int64_t k = 0; k < 2; ++k) {
        const double low = std::max(box(i, k) - box(i, k + 2) / 2, box(j, k) - box(j, k + 2) / 2);
        const double high = std::min(box(i, k) + box(i, k + 2) / 2, box(j, k) + box(j, k + 2) / 2);
        both *= std::max(0.0, high - low);
        one *= box(i, k + 2);
        other *= box(j, k + 2);
      }
      return both / (one + other - both);
    };
    Ints taken;
    for (int64_t i : order) {
      if (std::ssize(taken) >= most) break;
      if (top(i) < lowest) continue;
      const bool hidden = std::ranges::any_of(taken, [&](int64_t j) {
        return (!per_class || best[static_cast<size_t>(i)] == best[static_cast<size_t>(j)]) && shared(i, j) > overlap;
      });
      if (!hidden) taken.push_back(i);
    }
    for (int64_t t = 0; t < std::ssize(taken); ++t) {
      const int64_t i = taken[static_cast<size_t>(t)];
      out_indices[static_cast<size_t>(b * most + t)] = i;
      for (int64_t k = 0; k < 4; ++k)
        out_boxes[static_cast<size_t>(newest ? (b * 4 + k) * most + t : (b * most + t) * 4 + k)] = box(i, k);
      for (int64_t k = 0; k < classes; ++k)
        out_scores[static_cast<size_t>(newest ? (b * classes + k) * most + t : (b * most + t) * classes + k)] = score(i, k);
    }
    counts.push_back(std::ssize(taken));
  }
  m.set(m.c.of<double>(boxes.dtype(), newest ? Ints{batch, 4, most} : Ints{batch, most, 4}, out_boxes), 0);
  m.set(m.c.of<double>(scores.dtype(), newest ? Ints{batch, classes, most} : Ints{batch, most, classes}, out_scores), 1);
  m.set(m.c.of<int64_t>(DType::kI32, {batch, most}, out_indices), 2);
  if (!newest) m.set(m.c.of<int64_t>(DType::kI32, {batch}, counts), 3);
}

}  // namespace sardonyx::eval::mil_kernels
