// Pooling.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "eval/elementwise.h"
#include "eval/onnx/window.h"

namespace sardonyx::eval {
namespace {

std::vector<int64_t> kernel_of(const Call& c) {
  if (c.attr("kernel_shape") == nullptr) c.fail("the attribute 'kernel_shape' is missing");
  return *c.ints_attr("kernel_shape");
}

// Calls reduce(plane, indices that the window covers, number of window elements) for each plane and window
// position, and stores the double it returns. The number includes elements in the padding but not those
// beyond it.
template <class F>
void pool(Call& c, const Window& w, F reduce) {
  const Array& x = c.in(0);
  const std::vector<double> all = c.doubles(0);
  const int64_t plane = product(w.size), planes = x.dim(0) * x.dim(1), positions = w.out_size();
  std::vector<int64_t> shape{x.dim(0), x.dim(1)};
  shape.insert(shape.end(), w.out.begin(), w.out.end());
  Array out = c.make(x.dtype(), shape);
  const std::vector<int64_t> strides = dense_strides(w.size);
  std::vector<int64_t> seen;
  for_each_position(w.out, [&](int64_t p, const std::vector<int64_t>& at) {
    seen.clear();
    int64_t padded = 0;
    for_each_position(w.kernel, [&](int64_t, const std::vector<int64_t>& kernel_at) {
      int64_t from = 0;
      bool inside = true, within_padding = true;
      for (size_t d = 0; d < w.rank(); ++d) {
        const int64_t i = w.place(d, at[d], kernel_at[d]);
        inside = inside && i >= 0 && i < w.size[d];
        within_padding = within_padding && i < w.size[d] + w.pads_end[d];
        from += i * strides[d];
      }
      if (inside) seen.push_back(from);
      if (within_padding) ++padded;
    });
    for (int64_t n = 0; n < planes; ++n) {
      const double v = reduce(all.data() + n * plane, n, n * positions + p, std::span<const int64_t>(seen), padded);
      store<double>(out, n * positions + p, 1, &v);
    }
  });
  c.set(0, out);
}

void require_planes(const Call& c) { c.require(c.in(0).rank() >= 3, "expected an operand of rank 3 or more"); }

template <class F>
void global_pool(Call& c, F reduce) {
  const Array& x = c.in(0);
  c.require(x.rank() >= 2, "expected an operand of rank 2 or more");
  const int64_t planes = x.dim(0) * x.dim(1), plane = product(std::span(x.shape()).subspan(2));
  const std::vector<double> all = c.doubles(0);
  std::vector<double> out;
  for (int64_t n = 0; n < planes; ++n)
    out.push_back(reduce(std::span<const double>(all.data() + n * plane, static_cast<size_t>(plane))));
  std::vector<int64_t> shape(x.rank(), 1);
  shape[0] = x.dim(0);
  shape[1] = x.dim(1);
  c.set(0, c.of<double>(x.dtype(), shape, out));
}

double power(double v, int64_t p) {
  return p == 1 ? std::fabs(v) : p == 2 ? v * v : std::pow(std::fabs(v), static_cast<double>(p));
}
double root(double v, int64_t p) { return p == 1 ? v : p == 2 ? std::sqrt(v) : std::pow(v, 1.0 / static_cast<double>(p)); }

}  // namespace

namespace kernels {

void MaxPool(Call& c) {
  require_planes(c);
  const Array& x = c.in(0);
  const Window w = window_of(c, std::span(x.shape()).subspan(2), kernel_of(c));
  const bool with_places = c.wants(1), columns_first = c.int_attr("storage_order", 0) != 0;
  const int64_t plane = product(w.size);
  std::vector<int64_t> places(with_places ? static_cast<size_t>(x.dim(0) * x.dim(1) * w.out_size()) : 0, 0);
  const double lowest = is_float(x.dtype())    ? -std::numeric_limits<double>::infinity()
                        : is_signed(x.dtype()) ? -std::ldexp(1.0, bit_width(x.dtype()) - 1)
                                               : 0;
  pool(c, w, [&](const double* values, int64_t n, int64_t to, std::span<const int64_t> seen, int64_t) {
    double best = lowest;
    int64_t at = -1;
    for (int64_t i : seen) {
      const double v = values[i];
      if (at < 0 || v > best || (std::isnan(v) && !std::isnan(best))) best = v, at = i;
      if (std::isnan(best)) break;
    }
    if (with_places) {
      int64_t place = std::max<int64_t>(at, 0);
      if (columns_first) {  // indices count down the first spatial axis fastest
        int64_t turned = 0, step = 1, rest = place;
        std::vector<int64_t> index(w.rank());
        for (size_t d = w.rank(); d-- > 0;) index[d] = rest % w.size[d], rest /= w.size[d];
        for (size_t d = 0; d < w.rank(); ++d) turned += index[d] * step, step *= w.size[d];
        place = turned;
      }
      places[static_cast<size_t>(to)] = n * plane + place;
    }
    return best;
  });
  if (with_places) c.set(1, c.of<int64_t>(DType::kI64, c.results[0].array()->shape(), places));
}

void AveragePool(Call& c) {
  require_planes(c);
  const Window w = window_of(c, std::span(c.in(0).shape()).subspan(2), kernel_of(c));
  const bool count_padding = c.attr("count_include_pad") != nullptr && c.int_attr("count_include_pad") != 0;
  pool(c, w, [&](const double* values, int64_t, int64_t, std::span<const int64_t> seen, int64_t padded) {
    double sum = 0;
    for (int64_t i : seen) sum += values[i];
    return sum / static_cast<double>(count_padding ? padded : static_cast<int64_t>(seen.size()));
  });
}

void LpPool(Call& c) {
  require_planes(c);
  const Window w = window_of(c, std::span(c.in(0).shape()).subspan(2), kernel_of(c));
  const int64_t p = c.version() < 2 ? static_cast<int64_t>(c.float_attr("p", 2)) : c.int_attr("p", 2);
  pool(c, w, [&](const double* values, int64_t, int64_t, std::span<const int64_t> seen, int64_t) {
    double sum = 0;
    for (int64_t i : seen) sum += power(values[i], p);
    return root(sum, p);
  });
}

void GlobalAveragePool(Call& c) {
  global_pool(c, [](std::span<const double> v) {
    double sum = 0;
    for (double x : v) sum += x;
    return sum / static_cast<double>(v.size());
  });
}
void GlobalMaxPool(Call& c) {
  global_pool(c, [](std::span<const double> v) {
    double best = -std::numeric_limits<double>::infinity();
    for (double x : v) best = std::isnan(best) || x <= best ? best : x;
    return best;
  });
}
void GlobalLpPool(Call& c) {
  const int64_t p = c.version() < 2 ? static_cast<int64_t>(c.float_attr("p", 2)) : c.int_attr("p", 2);
  global_pool(c, [p](std::span<const double> v) {
    double sum = 0;
    for (double x : v) sum += power(x, p);
    return root(sum, p);
  });
}

// The inverse of MaxPool with indices: zero where nothing was picked.
void MaxUnpool(Call& c) {
  require_planes(c);
  const Array& x = c.in(0);
  const std::vector<int64_t> kernel = kernel_of(c);
  const size_t rank = kernel.size();
  c.require(rank + 2 == x.rank(), "the kernel does not fit the spatial axes");
  auto list = [&](std::string_view name, size_t n, int64_t otherwise) {
    std::vector<int64_t> v(n, otherwise);
    if (c.attr(name) != nullptr && c.ints_attr(name)->size() == n) v = *c.ints_attr(name);
    for (int64_t k : v) c.require(k >= 0 && k < (int64_t{1} << 31), "strides or pads are out of range");
    return v;
  };
  for (int64_t k : kernel) c.require(k > 0 && k < (int64_t{1} << 31), "the kernel is out of range");
  const std::vector<int64_t> strides = list("strides", rank, 1), pads = list("pads", 2 * rank, 0);
  std::vector<int64_t> natural{x.dim(0), x.dim(1)};
  for (size_t d = 0; d < rank; ++d) natural.push_back((x.dim(d + 2) - 1) * strides[d] - pads[d] - pads[d + rank] + kernel[d]);
  const std::vector<int64_t> shape = c.has(2) ? c.ints(2) : natural;
  c.require(shape.size() == x.rank(), "the output shape has the wrong rank");
  const std::vector<int64_t> places = c.ints(1), from = dense_strides(natural), to = dense_strides(shape);
  const std::vector<double> all = c.doubles(0);
  c.require(places.size() == all.size(), "expected one index per element");
  std::vector<double> out(static_cast<size_t>(product(shape)), 0.0);
  const int64_t total = product(natural);
  for (size_t i = 0; i < all.size(); ++i) {
    if (places[i] < 0 || places[i] >= total)
      c.fail(fmt::format("index {} is out of range for the shape {}", places[i], show(natural)));
    int64_t at = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t k = places[i] / from[d] % natural[d];
      if (k >= shape[d]) c.fail(fmt::format("index {} is out of range for the shape {}", places[i], show(shape)));
      at += k * to[d];
    }
    out[static_cast<size_t>(at)] = all[i];
  }
  c.set(0, c.of<double>(x.dtype(), shape, out));
}

// The maximum of each cell of a grid over each region [batch, x1, y1, x2, y2].
void MaxRoiPool(Call& c) {
  const Array& x = c.in(0);
  const std::vector<int64_t> pooled = c.ints_attr("pooled_shape").value_or(std::vector<int64_t>{});
  const std::vector<double> regions = c.doubles(1);
  c.require(x.rank() == 4 && pooled.size() == 2 && c.in(1).rank() == 2 && c.in(1).dim(1) == 5,
            "expected images, regions of five numbers, and a pooled shape of two");
  const double scale = c.float_attr("spatial_scale", 1);
  const int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3), count = c.in(1).dim(0);
  const std::vector<double> all = c.doubles(0);
  std::vector<double> out;
  for (int64_t r = 0; r < count; ++r) {
    const double* region = regions.data() + r * 5;
    const auto b = static_cast<int64_t>(region[0]);
    if (b < 0 || b >= x.dim(0)) c.fail(fmt::format("region {} is in batch {}", r, b));
    auto corner = [&](int i) { return static_cast<int64_t>(std::round(region[i] * scale)); };
    const int64_t x1 = corner(1), y1 = corner(2), x2 = corner(3), y2 = corner(4);
    const auto cell_height = static_cast<double>(std::max<int64_t>(y2 - y1 + 1, 1)) / static_cast<double>(pooled[0]);
    const auto cell_width = static_cast<double>(std::max<int64_t>(x2 - x1 + 1, 1)) / static_cast<double>(pooled[1]);
    for (int64_t ch = 0; ch < channels; ++ch) {
      const double* image = all.data() + (b * channels + ch) * height * width;
      for (int64_t i = 0; i < pooled[0]; ++i) {
        for (int64_t j = 0; j < pooled[1]; ++j) {
          auto bound = [](double v, int64_t offset, int64_t limit) {
            return std::clamp<int64_t>(static_cast<int64_t>(v) + offset, 0, limit);
          };
          const int64_t top = bound(std::floor(static_cast<double>(i) * cell_height), y1, height),
                        bottom = bound(std::ceil(static_cast<double>(i + 1) * cell_height), y1, height);
          const int64_t left = bound(std::floor(static_cast<double>(j) * cell_width), x1, width),
                        end = bound(std::ceil(static_cast<double>(j + 1) * cell_width), x1, width);
          double best = top >= bottom || left >= end ? 0 : -std::numeric_limits<double>::infinity();
          for (int64_t p = top; p < bottom; ++p) {
            for (int64_t q = left; q < end; ++q) best = std::fmax(best, image[p * width + q]);
          }
          out.push_back(best);
        }
      }
    }
  }
  c.set(0, c.of<double>(x.dtype(), {count, channels, pooled[0], pooled[1]}, out));
}

}  // namespace kernels
}  // namespace sardonyx::eval
