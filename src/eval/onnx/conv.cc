// Convolutions. Each group multiplies its weights by columns of the elements that the window covers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "eval/elementwise.h"
#include "eval/onnx/window.h"
#include "eval/products.h"

namespace sardonyx::eval {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;  // the largest attribute, so that a product of two fits

std::vector<int64_t> list_of(const Call& c, std::string_view name, size_t rank, int64_t otherwise) {
  if (c.attr(name) == nullptr) return std::vector<int64_t>(rank, otherwise);
  std::vector<int64_t> v = *c.ints_attr(name);
  if (v.empty()) return std::vector<int64_t>(rank, otherwise);
  if (v.size() != rank) c.fail(fmt::format("{} has {} entries for {} spatial axes", name, v.size(), rank));
  for (int64_t n : v) {
    if (n < -kLargest || n > kLargest) c.fail(fmt::format("{} holds {}", name, n));
  }
  return v;
}

}  // namespace

Window window_of(Call& c, std::span<const int64_t> size, std::vector<int64_t> kernel) {
  Window w;
  w.size.assign(size.begin(), size.end());
  w.kernel = std::move(kernel);
  const size_t rank = w.size.size();
  if (w.kernel.size() != rank) c.fail(fmt::format("a kernel of {} axes slides over {}", w.kernel.size(), rank));
  w.strides = list_of(c, "strides", rank, 1);
  w.dilations = list_of(c, "dilations", rank, 1);
  const std::vector<int64_t> pads = list_of(c, "pads", 2 * rank, 0);
  w.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  w.pads_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  const std::string automatic = c.string_attr("auto_pad", "NOTSET");
  const bool up = c.attr("ceil_mode") != nullptr && c.int_attr("ceil_mode", 0) != 0;
  for (size_t d = 0; d < rank; ++d) {
    if (w.strides[d] <= 0 || w.dilations[d] <= 0 || w.kernel[d] <= 0 || w.kernel[d] > kLargest)
      c.fail("strides, dilations and kernels must be positive");
    const int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t out = (w.size[d] + w.strides[d] - 1) / w.strides[d];
      const int64_t total = std::max<int64_t>(0, (out - 1) * w.strides[d] + reach - w.size[d]);
      w.pads_begin[d] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.pads_end[d] = total - w.pads_begin[d];
    } else if (automatic == "VALID") {
      w.pads_begin[d] = w.pads_end[d] = 0;
    }
    const int64_t room = w.size[d] + w.pads_begin[d] + w.pads_end[d] - reach;
    int64_t out = room < 0 ? 0 : room / w.strides[d] + 1;
    // Rounded up, unless the last window would begin in the padding at the end. A window may be larger than
    // the padded input.
    const bool part = room < 0 ? -room < w.strides[d] : room % w.strides[d] != 0;
    if (-room > (up ? 2 * w.strides[d] - 1 : w.strides[d]))
      c.fail(fmt::format("the window is larger than axis {} with its pads", d + 2));
    if (up && part && out * w.strides[d] < w.size[d] + w.pads_begin[d]) ++out;
    w.out.push_back(out);
  }
  return w;
}

std::vector<int64_t> sources_of(const Window& w) {
  const int64_t places = w.kernel_size(), positions = w.out_size();
  const std::vector<int64_t> strides = dense_strides(w.size);
  std::vector<int64_t> source(static_cast<size_t>(places * positions));
  for_each_position(w.kernel, [&](int64_t k, const std::vector<int64_t>& kernel_at) {
    for_each_position(w.out, [&](int64_t p, const std::vector<int64_t>& at) {
      int64_t from = 0;
      for (size_t d = 0; d < w.rank() && from >= 0; ++d) {
        const int64_t i = w.place(d, at[d], kernel_at[d]);
        from = i < 0 || i >= w.size[d] ? -1 : from + i * strides[d];
      }
      source[static_cast<size_t>(k * positions + p)] = from;
    });
  });
  return source;
}

namespace {

// Fills columns[(channel, kernel element)][window position] from `channels` planes of x, each of `plane`
// elements. Padding reads as `outside`.
template <class T>
void columns_of(const T* x, int64_t channels, int64_t plane, const std::vector<int64_t>& source, T outside,
                std::vector<T>& columns) {
  columns.resize(static_cast<size_t>(channels) * source.size());
  T* to = columns.data();
  for (int64_t ch = 0; ch < channels; ++ch) {
    for (int64_t from : source) *to++ = from < 0 ? outside : x[ch * plane + from];
  }
}

struct ConvShape {
  int64_t batch, groups, in_channels, out_channels;  // channels per group
};

ConvShape conv_shape(Call& c, const Array& x, const Array& weights, int64_t groups, bool transposed) {
  c.require(x.rank() >= 3 && weights.rank() == x.rank(),
            "expected x [batch, channels, spatial axes...] and weights of the same rank");
  ConvShape s{x.dim(0), groups, 0, 0};
  c.require(groups > 0 && x.dim(1) % groups == 0 && weights.dim(0) % groups == 0, "the channels do not divide into groups");
  s.in_channels = x.dim(1) / groups;
  s.out_channels = transposed ? weights.dim(1) : weights.dim(0) / groups;
  if ((transposed ? weights.dim(0) / groups : weights.dim(1)) != s.in_channels) {
    c.fail(fmt::format("{} in {} groups does not fit weights {}", describe(x), groups, describe(weights)));
  }
  return s;
}

std::vector<int64_t> kernel_shape(const Call& c, const Array& weights) {
  std::vector<int64_t> kernel(weights.shape().begin() + 2, weights.shape().end());
  if (c.attr("kernel_shape") != nullptr && *c.ints_attr("kernel_shape") != kernel) {
    c.fail(fmt::format("kernel_shape {} does not fit weights {}", show(*c.ints_attr("kernel_shape")), describe(weights)));
  }
  return kernel;
}

template <class T>
Array conv_as(Call& c, const Array& x, const Array& weights, const std::vector<T>* bias, DType out_type) {
  const ConvShape s = conv_shape(c, x, weights, c.int_attr("group", 1), false);
  const Window w = window_of(c, std::span(x.shape()).subspan(2), kernel_shape(c, weights));
  std::vector<int64_t> shape{s.batch, s.groups * s.out_channels};
  shape.insert(shape.end(), w.out.begin(), w.out.end());
  Array out = c.make(out_type, shape);
  const std::vector<T> data = load_all<T>(x), kernel = load_all<T>(weights);
  const int64_t plane = product(w.size), positions = w.out_size(), depth = s.in_channels * w.kernel_size();
  const std::vector<int64_t> source = sources_of(w);
  std::vector<T> columns, result(static_cast<size_t>(s.out_channels * positions));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t g = 0; g < s.groups; ++g) {
      columns_of<T>(data.data() + (b * s.groups + g) * s.in_channels * plane, s.in_channels, plane, source, T{0}, columns);
      product_of(c, kernel.data() + g * s.out_channels * depth, columns.data(), result.data(), s.out_channels, depth,
                 positions);
      if (bias != nullptr) {
        for (int64_t k = 0; k < s.out_channels; ++k) {
          for (int64_t p = 0; p < positions; ++p) {
            result[static_cast<size_t>(k * positions + p)] += (*bias)[static_cast<size_t>(g * s.out_channels + k)];
          }
        }
      }
      store<T>(out, (b * s.groups + g) * s.out_channels * positions, s.out_channels * positions, result.data());
    }
  }
  return out;
}

template <class T>
Array conv_transpose_as(Call& c, const Array& x, const Array& weights) {
  const ConvShape s = conv_shape(c, x, weights, c.int_attr("group", 1), true);
  const std::vector<int64_t> kernel = kernel_shape(c, weights);
  const size_t rank = kernel.size();
  const std::vector<int64_t> strides = list_of(c, "strides", rank, 1), dilations = list_of(c, "dilations", rank, 1),
                             extra = list_of(c, "output_padding", rank, 0), pads = list_of(c, "pads", 2 * rank, 0);
  const std::string automatic = c.string_attr("auto_pad", "NOTSET");
  const bool fixed = c.attr("output_shape") != nullptr && !c.ints_attr("output_shape")->empty();
  std::vector<int64_t> wanted;
  if (fixed) {
    wanted = *c.ints_attr("output_shape");
    if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
    if (wanted.size() != rank) c.fail(fmt::format("output_shape has {} entries for {} spatial axes", wanted.size(), rank));
  }
  // The result is the input of a convolution whose output is x.
  Window w;
  w.kernel = kernel;
  w.strides = strides;
  w.dilations = dilations;
  w.out.assign(x.shape().begin() + 2, x.shape().end());
  for (size_t d = 0; d < rank; ++d) {
    const int64_t n = w.out[d], reach = (kernel[d] - 1) * dilations[d] + 1;
    const int64_t whole = strides[d] * (n - 1) + extra[d] + reach;
    int64_t begin = pads[d], end = pads[d + rank];
    if (fixed || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t target = fixed ? wanted[d] : n * strides[d];
      const int64_t total = std::max<int64_t>(whole - target, 0);
      begin = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      if (fixed && automatic == "NOTSET") begin = total - total / 2;
      end = total - begin;
      w.size.push_back(target);
    } else {
      if (automatic == "VALID") begin = end = 0;
      w.size.push_back(whole - begin - end);
    }
    w.pads_begin.push_back(begin);
    w.pads_end.push_back(end);
    if (w.size[d] < 0) c.fail("the result has a negative size");
  }
  std::vector<int64_t> shape{s.batch, s.groups * s.out_channels};
  shape.insert(shape.end(), w.size.begin(), w.size.end());
  Array out = c.make(x.dtype(), shape);
  const std::vector<T> data = load_all<T>(x), kernels_all = load_all<T>(weights);
  const int64_t places = w.kernel_size(), positions = w.out_size(), plane = product(w.size);
  const std::vector<int64_t> size_strides = dense_strides(w.size);
  std::vector<double> bias;
  if (c.has(2)) bias = c.doubles(2);
  c.require(bias.empty() || static_cast<int64_t>(bias.size()) == s.groups * s.out_channels, "expected one bias per channel");
  const int64_t rows = s.out_channels * places;
  std::vector<T> turned(static_cast<size_t>(rows * s.in_channels)), columns(static_cast<size_t>(rows * positions));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t g = 0; g < s.groups; ++g) {
      const T* kernel_group = kernels_all.data() + g * s.in_channels * rows;
      for (int64_t i = 0; i < s.in_channels; ++i) {
        for (int64_t r = 0; r < rows; ++r) turned[static_cast<size_t>(r * s.in_channels + i)] = kernel_group[i * rows + r];
      }
      product_of(c, turned.data(), data.data() + (b * s.groups + g) * s.in_channels * positions, columns.data(), rows,
                 s.in_channels, positions);
      std::vector<double> sum(static_cast<size_t>(s.out_channels * plane), 0.0);
      for (int64_t ch = 0; ch < s.out_channels; ++ch) {
        for_each_position(w.kernel, [&](int64_t k, const std::vector<int64_t>& kernel_at) {
          const T* from = columns.data() + (ch * places + k) * positions;
          for_each_position(w.out, [&](int64_t p, const std::vector<int64_t>& at) {
            int64_t to = 0;
            for (size_t d = 0; d < rank && to >= 0; ++d) {
              const int64_t i = w.place(d, at[d], kernel_at[d]);
              to = i < 0 || i >= w.size[d] ? -1 : to + i * size_strides[d];
            }
            if (to >= 0) sum[static_cast<size_t>(ch * plane + to)] += static_cast<double>(from[p]);
          });
        });
        if (bias.empty()) continue;
        for (int64_t p = 0; p < plane; ++p)
          sum[static_cast<size_t>(ch * plane + p)] += bias[static_cast<size_t>(g * s.out_channels + ch)];
      }
      store<double>(out, (b * s.groups + g) * s.out_channels * plane, s.out_channels * plane, sum.data());
    }
  }
  return out;
}

// f16 and narrower dtypes are convolved in f64 like f64 itself; f32 is convolved in f32 with sums in f64.
bool in_double(DType t) { return t != DType::kF32; }

}  // namespace

Array convolution(Call& c, const Array& x, const Array& weights) {
  return conv_as<double>(c, x, weights, nullptr, DType::kF64);
}

namespace kernels {

void Conv(Call& c) {
  require_same_dtype(c, 0, 1);
  c.require(is_float(c.dtype()), "expected floats");
  auto go = [&]<class T>(T) {
    std::vector<T> bias;
    if (c.has(2)) {
      bias = load_all<T>(c.in(2));
      c.require(static_cast<int64_t>(bias.size()) == c.in(1).dim(0), "expected one bias per channel");
    }
    c.set(0, conv_as<T>(c, c.in(0), c.in(1), c.has(2) ? &bias : nullptr, c.dtype()));
  };
  in_double(c.dtype()) ? go(double{}) : go(float{});
}

void ConvTranspose(Call& c) {
  require_same_dtype(c, 0, 1);
  c.set(0,
        in_double(c.dtype()) ? conv_transpose_as<double>(c, c.in(0), c.in(1)) : conv_transpose_as<float>(c, c.in(0), c.in(1)));
}

// Convolves integers minus their zero points. The weights may have one zero point per output channel. Sums
// are exact in f64.
void ConvInteger(Call& c) {
  const Array x = map_as<double>(c, c.in(0), DType::kF64, [zero = c.has(2) ? c.scalar(2) : 0](double v) { return v - zero; });
  Array weights = c.in(1);
  c.require(weights.rank() >= 3, "expected weights with spatial axes");
  Array zero = c.has(3) ? c.in(3) : c.full(weights.dtype(), {}, 0);
  c.require(zero.size() == 1 || zero.size() == weights.dim(0), "w_zero_point is one number, or one for each result channel");
  if (zero.size() > 1) {
    std::vector<int64_t> shape(weights.rank(), 1);
    shape[0] = zero.size();
    zero = c.reshaped(zero, std::move(shape));
  } else {
    zero = c.reshaped(zero, {});
  }
  weights = map2_as<double, double>(c, weights, zero, DType::kF64, [](double v, double z) { return v - z; });
  c.set(0, conv_as<double>(c, x, weights, nullptr, DType::kI32));
}

// A causal depthwise convolution over one axis, which returns its last elements as the next state.
void CausalConvWithState(Call& c) {
  const Array& x = c.in(0);
  const Array& weights = c.in(1);
  c.require(x.rank() == 3 && weights.rank() == 3 && weights.dim(0) == x.dim(1) && weights.dim(1) == 1,
            "expected x [B,C,L] and weights [C,1,k]");
  const int64_t batch = x.dim(0), channels = x.dim(1), k = weights.dim(2);
  const std::string activation = c.string_attr("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    c.fail(fmt::format("unknown activation \"{}\"", activation));
  const Array before = c.has(3) ? c.in(3) : c.full(x.dtype(), {batch, channels, k - 1}, 0);
  c.require(before.rank() == 3 && before.dim(2) == k - 1, "the state does not fit the kernel");
  const Array padded = joined(c, std::vector<Array>{before, x}, 2);
  const std::vector<double> all = load_all<double>(padded), kernel = load_all<double>(weights);
  std::vector<double> bias;
  if (c.has(2)) bias = c.doubles(2);
  const int64_t length = padded.dim(2), kept = length - (k - 1);
  std::vector<double> out;
  for (int64_t row = 0; row < batch * channels; ++row) {
    const int64_t ch = row % channels;
    for (int64_t i = 0; i < kept; ++i) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(ch)];
      for (int64_t j = 0; j < k; ++j)
        sum += all[static_cast<size_t>(row * length + i + j)] * kernel[static_cast<size_t>(ch * k + j)];
      out.push_back(activation == "none" ? sum : sum / (1 + std::exp(-sum)));
    }
  }
  c.set(0, c.of<double>(x.dtype(), {batch, channels, kept}, out));
  c.set(1, padded.view({batch, channels, k - 1}, padded.strides(), length - (k - 1)));
}

// Adds blocks of columns back into images; overlapping elements add up.
void Col2Im(Call& c) {
  const Array& x = c.in(0);
  const std::vector<int64_t> image = c.ints(1), block = c.ints(2);
  const size_t rank = image.size();
  c.require(block.size() == rank && (x.rank() == 3 || x.rank() == 2), "expected columns of shape [N, C * block, L]");
  Window w = window_of(c, image, block);
  const int64_t batch = x.rank() == 3 ? x.dim(0) : 1, places = w.kernel_size(), positions = w.out_size();
  const int64_t channels = x.dim(x.rank() - 2) / places;
  c.require(x.dim(x.rank() - 1) == positions && x.dim(x.rank() - 2) % places == 0, "the columns do not fit image and block");
  std::vector<int64_t> shape{batch, channels};
  shape.insert(shape.end(), image.begin(), image.end());
  const int64_t plane = product(image);
  const std::vector<int64_t> strides = dense_strides(image);
  const std::vector<double> all = c.doubles(0);
  std::vector<double> out(static_cast<size_t>(product(shape)), 0.0);
  for (int64_t n = 0; n < batch * channels; ++n) {
    for_each_position(w.kernel, [&](int64_t k, const std::vector<int64_t>& kernel_at) {
      for_each_position(w.out, [&](int64_t p, const std::vector<int64_t>& at) {
        int64_t to = 0;
        for (size_t d = 0; d < rank && to >= 0; ++d) {
          const int64_t i = w.place(d, at[d], kernel_at[d]);
          to = i < 0 || i >= w.size[d] ? -1 : to + i * strides[d];
        }
        if (to >= 0) out[static_cast<size_t>(n * plane + to)] += all[static_cast<size_t>((n * places + k) * positions + p)];
      });
    });
  }
  c.set(0, c.of<double>(x.dtype(), shape, out));
}

// A convolution whose window elements are moved by offsets and weighted by a mask. It interpolates between
// elements.
void DeformConv(Call& c) {
  const Array& x = c.in(0);
  const Array& weights = c.in(1);
  c.require(x.rank() == 4, "expected x of rank 4: other ranks are not supported");
  const ConvShape s = conv_shape(c, x, weights, c.int_attr("group", 1), false);
  const Window w = window_of(c, std::span(x.shape()).subspan(2), kernel_shape(c, weights));
  const int64_t offset_groups = c.int_attr("offset_group", 1), places = w.kernel_size(), positions = w.out_size();
  const int64_t channels = x.dim(1), plane = product(w.size), height = w.size[0], width = w.size[1];
  c.require(offset_groups > 0 && channels % offset_groups == 0, "the channels do not divide into offset groups");
  const std::vector<double> data = c.doubles(0), kernel = load_all<double>(weights), offsets = c.doubles(2);
  c.require(static_cast<int64_t>(offsets.size()) == s.batch * offset_groups * places * 2 * positions,
            "the offsets do not fit the windows");
  std::vector<double> bias, mask;
  if (c.has(3)) bias = c.doubles(3);
  if (c.has(4)) mask = c.doubles(4);
  c.require(mask.empty() || static_cast<int64_t>(mask.size()) == s.batch * offset_groups * places * positions,
            "the mask does not fit the windows");
  std::vector<int64_t> shape{s.batch, s.groups * s.out_channels, w.out[0], w.out[1]};
  Array out = c.make(x.dtype(), shape);
  std::vector<double> columns(static_cast<size_t>(channels * places * positions)),
      result(static_cast<size_t>(s.out_channels * positions));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t ch = 0; ch < channels; ++ch) {
      const int64_t og = b * offset_groups + ch / (channels / offset_groups);
      const double* image = data.data() + (b * channels + ch) * plane;
      auto pixel = [&](int64_t i, int64_t j) {
        return i < 0 || j < 0 || i >= height || j >= width ? 0.0 : image[i * width + j];
      };
      for_each_position(w.kernel, [&](int64_t k, const std::vector<int64_t>& kernel_at) {
        for_each_position(w.out, [&](int64_t p, const std::vector<int64_t>& at) {
          const double* move = offsets.data() + (og * places + k) * 2 * positions;
          const double y = static_cast<double>(w.place(0, at[0], kernel_at[0])) + move[p];
          const double z = static_cast<double>(w.place(1, at[1], kernel_at[1])) + move[positions + p];
          double v = 0;
          if (y > -1 && z > -1 && y < static_cast<double>(height) && z < static_cast<double>(width)) {
            const double i = std::floor(y), j = std::floor(z), u = y - i, t = z - j;
            const auto ii = static_cast<int64_t>(i), jj = static_cast<int64_t>(j);
            v = (1 - u) * ((1 - t) * pixel(ii, jj) + t * pixel(ii, jj + 1)) +
                u * ((1 - t) * pixel(ii + 1, jj) + t * pixel(ii + 1, jj + 1));
          }
          if (!mask.empty()) v *= mask[static_cast<size_t>((og * places + k) * positions + p)];
          columns[static_cast<size_t>((ch * places + k) * positions + p)] = v;
        });
      });
    }
    const int64_t depth = s.in_channels * places;
    for (int64_t g = 0; g < s.groups; ++g) {
      product_of(c, kernel.data() + g * s.out_channels * depth, columns.data() + g * depth * positions, result.data(),
                 s.out_channels, depth, positions);
      for (int64_t k = 0; k < s.out_channels * positions && !bias.empty(); ++k) {
        result[static_cast<size_t>(k)] += bias[static_cast<size_t>(g * s.out_channels + k / positions)];
      }
      store<double>(out, (b * s.groups + g) * s.out_channels * positions, s.out_channels * positions, result.data());
    }
  }
  c.set(0, out);
}

}  // namespace kernels
}  // namespace sardonyx::eval
