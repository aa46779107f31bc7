// Quantized numbers. q stands for (q - zero point) * scale.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "eval/elementwise.h"
#include "eval/onnx/window.h"
#include "eval/products.h"

namespace sardonyx::eval {
namespace {

struct Range {
  double low, high;
};
Range range_of(DType t) {
  const int bits = bit_width(t);
  return is_signed(t) ? Range{-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1} : Range{0, std::ldexp(1.0, bits) - 1};
}

// Broadcasts a parameter to x's shape: one for all, one per index of the axis, or one per block along it.
Array spread(Call& c, const Array& parameter, const Array& x, int64_t axis_attr, int64_t block) {
  if (parameter.size() == 1 && parameter.rank() <= 1) return c.reshaped(parameter, {}).broadcast_to(x.shape());
  const size_t axis = c.axis(axis_attr, x.rank());
  if (block == 0) {
    if (parameter.rank() != 1 || parameter.dim(0) != x.dim(axis)) {
      c.fail(fmt::format("a parameter {} does not fit axis {} of {}", describe(parameter), axis, describe(x)));
    }
    std::vector<int64_t> shape(x.rank(), 1);
    shape[axis] = parameter.size();
    return c.reshaped(parameter, std::move(shape)).broadcast_to(x.shape());
  }
  bool fits = parameter.rank() == x.rank() && block > 0;
  for (size_t d = 0; d < x.rank() && fits; ++d) {
    fits = parameter.dim(d) == (d == axis ? (x.dim(d) == 0 ? 0 : (x.dim(d) - 1) / block + 1) : x.dim(d));
  }
  if (!fits) c.fail(fmt::format("a parameter {} does not fit blocks of {} of {}", describe(parameter), block, describe(x)));
  Array out = c.make(parameter.dtype(), x.shape());
  std::vector<int64_t> shape(x.shape());
  shape[axis] = 1;
  for (int64_t i = 0; i < x.dim(axis); ++i) {
    Array to = out.view(shape, out.strides(), i * out.strides()[axis]);
    copy_elements(parameter.view(shape, parameter.strides(), i / block * parameter.strides()[axis]), to);
  }
  return out;
}

std::vector<double> rounded_to(Call& c, DType t, const std::vector<double>& v) {
  return load_all<double>(c.of<double>(t, {static_cast<int64_t>(v.size())}, v));
}

// Rounds to nearest even, adds the zero point and saturates.
Array quantized(Call& c, const std::vector<double>& v, const std::vector<double>& zero, DType t, std::vector<int64_t> shape) {
  const Range r = range_of(t);
  std::vector<double> out(v.size());
  for (size_t i = 0; i < v.size(); ++i) {
    const double q = std::nearbyint(v[i]) + zero[zero.size() == 1 ? 0 : i];
    out[i] = std::isnan(q) ? 0 : std::clamp(q, r.low, r.high);
  }
  return c.of<double>(t, std::move(shape), out);
}

// Operand `values` minus operand `zero`, as f64. The zero point may have one element per row (of a left
// factor) or column.
Array centered(Call& c, size_t values, size_t zero, bool rows) {
  const Array& x = c.in(values);
  Array z = c.has(zero) ? c.in(zero) : c.full(x.dtype(), {}, 0);
  if (z.size() == 1) {
    z = c.reshaped(z, {});
  } else if (rows && z.rank() == 1) {
    z = c.reshaped(z, {z.size(), 1});
  }
  return map2_as<double, double>(c, x, z.broadcast_to(x.shape()), DType::kF64, [](double a, double b) { return a - b; });
}

// Scales as f32: implementations multiply and divide in f32.
std::vector<float> scales(const Call& c, size_t i) { return load_all<float>(c.in(i)); }

}  // namespace

namespace kernels {

void QuantizeLinear(Call& c) {
  const Array& x = c.in(0);
  const int64_t axis = c.int_attr("axis", 1), block = c.attr("block_size") != nullptr ? c.int_attr("block_size") : 0;
  DType t = c.has(2) ? c.dtype(2) : DType::kU8;
  if (!c.has(2) && c.attr("output_dtype") != nullptr && c.int_attr("output_dtype") != 0)
    t = static_cast<DType>(c.int_attr("output_dtype"));
  DType precision = c.dtype(1);
  if (c.attr("precision") != nullptr && c.int_attr("precision") != 0) precision = static_cast<DType>(c.int_attr("precision"));
  if (c.version() < 13) precision = DType::kF32;
  const std::vector<double> scale = load_all<double>(spread(c, c.in(1), x, axis, block)), all = c.doubles(0);
  std::vector<double> quotient(all.size());
  for (size_t i = 0; i < all.size(); ++i) quotient[i] = all[i] / scale[i];
  quotient = rounded_to(c, precision, quotient);
  if (is_float(t)) {
    const Array wide = c.of<double>(DType::kF64, x.shape(), quotient);
    return c.set(0, cast(c, wide, t, c.int_attr("saturate", 1) != 0));
  }
  std::vector<double> zero{0};
  if (c.has(2)) zero = load_all<double>(spread(c, c.in(2), x, axis, block));
  c.set(0, zero.empty() ? c.make(t, x.shape()) : quantized(c, quotient, zero, t, x.shape()));
}

void DequantizeLinear(Call& c) {
  const Array& x = c.in(0);
  const int64_t axis = c.int_attr("axis", 1), block = c.attr("block_size") != nullptr ? c.int_attr("block_size") : 0;
  DType t = c.dtype(1);
  if (c.attr("output_dtype") != nullptr && c.int_attr("output_dtype") != 0) t = static_cast<DType>(c.int_attr("output_dtype"));
  const std::vector<double> scale = load_all<double>(spread(c, c.in(1), x, axis, block));
  std::vector<double> all = c.doubles(0), zero;
  if (c.has(2)) zero = load_all<double>(spread(c, c.in(2), x, axis, block));
  for (size_t i = 0; i < all.size(); ++i) all[i] = (zero.empty() ? all[i] : all[i] - zero[i]) * scale[i];
  c.set(0, c.of<double>(t, x.shape(), all));
}

// onnxruntime's own: x times a matrix [K,N], each column of which is packed in blocks.
void MatMulNBits(Call& c) {
  const int64_t columns = c.int_attr("N"), rows = c.int_attr("K"), bits = c.int_attr("bits", 4),
                block = c.int_attr("block_size");
  if (bits != 2 && bits != 4 && bits != 8) c.unsupported(fmt::format("weights of {} bits", bits));
  if (c.has(4)) c.unsupported("weights whose rows are in groups (g_idx)");
  c.require(columns > 0 && rows > 0 && block > 0 && block % 8 == 0, "N, K and blocks that are multiples of 8 are expected");
  const int64_t blocks = (rows - 1) / block + 1, each = block / 8 * bits;
  const Array& scale = c.in(2);
  const std::vector<int64_t> packed = c.ints(1);
  const auto bytes = static_cast<int64_t>(packed.size());
  c.require(bytes / columns / blocks == each && bytes % columns == 0 && bytes / columns % blocks == 0 &&
                scale.size() == columns * blocks,
            "weights and scales do not fit N, K and the blocks");
  const std::vector<double> scales = c.doubles(2);
  std::vector<double> zeros(scales.size(), std::ldexp(1.0, static_cast<int>(bits) - 1));
  const auto code = [&](const std::vector<int64_t>& from, int64_t row_bytes, int64_t row, int64_t i) {
    const int64_t byte = from[static_cast<size_t>(row * row_bytes + i * bits / 8)];
    return static_cast<double>(byte >> (i * bits % 8) & ((1 << bits) - 1));
  };
  if (c.has(3) && c.dtype(3) == DType::kU8) {
    const std::vector<int64_t> given = c.ints(3);
    const int64_t row_bytes = (blocks * bits + 7) / 8;
    c.require(static_cast<int64_t>(given.size()) == columns * row_bytes, "zero points do not fit N, K and the blocks");
    for (int64_t i = 0; i < columns * blocks; ++i)
      zeros[static_cast<size_t>(i)] = code(given, row_bytes, i / blocks, i % blocks);
  } else if (c.has(3)) {
    zeros = c.doubles(3);
    c.require(zeros.size() == scales.size(), "zero points do not fit N, K and the blocks");
  }
  std::vector<double> weights(static_cast<size_t>(rows * columns));
  for (int64_t k = 0; k < rows; ++k) {
    for (int64_t n = 0; n < columns; ++n) {
      const auto group = static_cast<size_t>(n * blocks + k / block);
      weights[static_cast<size_t>(k * columns + n)] = (code(packed, blocks * each, n, k) - zeros[group]) * scales[group];
    }
  }
  Array y = matmul(c, c.in(0), c.of<double>(c.dtype(), {rows, columns}, weights), c.dtype());
  if (c.has(5)) {
    const Array bias = c.in(5).broadcast_to(y.shape());
    y = map2_as<double, double>(c, y, bias, c.dtype(), [](double a, double b) { return a + b; });
  }
  c.set(0, y);
}

// onnxruntime's own: Gather from a table in blocks.
void GatherBlockQuantized(Call& c) {
  const Array &data = c.in(0), &indices = c.in(1);
  const size_t rank = data.rank();
  const size_t axis = c.axis(c.int_attr("gather_axis", 0), rank), along = c.axis(c.int_attr("quantize_axis", 1), rank);
  if (axis == along) c.unsupported("blocks along the axis that is gathered from");
  const bool is_bytes = data.dtype() == DType::kU8;
  if (is_bytes && c.int_attr("bits", 4) != 8) c.unsupported("a table whose bytes hold several numbers");
  const std::vector<int64_t> places = load_all<int64_t>(indices);
  const auto gathered = [&](size_t operand) {
    const Array& x = c.in(operand);
    c.require(x.rank() == rank && x.dim(axis) == data.dim(axis), "the table and its scales and zero points differ in size");
    std::vector<int64_t> shape = x.shape(), one = x.shape();
    shape[axis] = static_cast<int64_t>(places.size());
    one[axis] = 1;
    Array out = c.make(x.dtype(), std::move(shape));
    for (size_t i = 0; i < places.size(); ++i) {
      const int64_t at = places[i] < 0 ? places[i] + x.dim(axis) : places[i];
      c.require(at >= 0 && at < x.dim(axis), "an index is outside of the table");
      Array to = out.view(one, out.strides(), static_cast<int64_t>(i) * out.strides()[axis]);
      copy_elements(x.view(one, x.strides(), at * x.strides()[axis]), to);
    }
    return out;
  };
  const auto block = c.int_attr("block_size", 128), by = static_cast<int64_t>(along);
  const Array x = gathered(0);
  const std::vector<double> scale = load_all<double>(spread(c, gathered(2), x, by, block));
  std::vector<double> all = load_all<double>(x), zero(all.size(), is_bytes ? 128 : 0);
  if (c.has(3)) zero = load_all<double>(spread(c, gathered(3), x, by, block));
  for (size_t i = 0; i < all.size(); ++i) all[i] = (all[i] - zero[i]) * scale[i];
  std::vector<int64_t> shape = x.shape();
  const auto at = shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(at, indices.shape().begin(), indices.shape().end());
  c.set(0, c.of<double>(c.dtype(2), std::move(shape), all));
}

void DynamicQuantizeLinear(Call& c) {
  const Array& x = c.in(0);
  const std::vector<float> all = load_all<float>(x);
  float low = 0, high = 0;
  for (float v : all) low = std::min(low, v), high = std::max(high, v);
  const float scale = high == low ? 1.0f / 255 : (high - low) / 255;
  const float zero = std::nearbyint(std::clamp(-low / scale, 0.0f, 255.0f));
  std::vector<double> quotient;
  for (float v : all) quotient.push_back(v / scale);
  c.set(0, quantized(c, quotient, {zero}, DType::kU8, x.shape()));
  const double s = scale, z = zero;
  c.set(1, c.of<double>(DType::kF32, {}, {&s, 1}));
  c.set(2, c.of<double>(DType::kU8, {}, {&z, 1}));
}

void MatMulInteger(Call& c) {
  const Array y = matmul(c, centered(c, 0, 2, true), centered(c, 1, 3, false), DType::kF64);
  c.set(0, map_as<int64_t>(c, y, DType::kI32, [](int64_t v) { return v; }));
}

void QLinearMatMul(Call& c) {
  const Array y = matmul(c, centered(c, 0, 2, true), centered(c, 3, 5, false), DType::kF64);
  // One scale, or one per row of the left and per column of the right factor.
  Array left = c.in(1), right = c.in(4);
  left = left.size() == 1 ? c.reshaped(left, {}) : left.rank() == 1 ? c.reshaped(left, {left.size(), 1}) : left;
  if (right.size() == 1) right = c.reshaped(right, {});
  const Array both = map2_as<float, float>(c, left, right, DType::kF32, [](float a, float b) { return a * b; });
  const Array factor =
      map2_as<float, float>(c, both, c.reshaped(c.in(6), c.in(6).size() == 1 ? std::vector<int64_t>{} : c.in(6).shape()),
                            DType::kF32, [](float a, float b) { return a / b; });
  const Array scaled =
      map2_as<double, double>(c, y, factor.broadcast_to(y.shape()), DType::kF64, [](double a, double b) { return a * b; });
  const Array zero = c.in(7).size() == 1 ? c.reshaped(c.in(7), {}) : c.in(7);
  c.set(0, quantized(c, load_all<double>(scaled), load_all<double>(zero.broadcast_to(y.shape())), c.dtype(7), y.shape()));
}

void QLinearConv(Call& c) {
  const Array x = centered(c, 0, 2, false);
  Array w_zero = c.in(5);
  const Array& w = c.in(3);
  c.require(w.rank() >= 3, "expected weights with spatial axes");
  std::vector<int64_t> per_channel(w.rank(), 1);
  if (w_zero.size() > 1) per_channel[0] = w_zero.size();
  w_zero = c.reshaped(w_zero, std::move(per_channel));
  const Array weights =
      map2_as<double, double>(c, w, w_zero.broadcast_to(w.shape()), DType::kF64, [](double a, double b) { return a - b; });
  const Array y = convolution(c, x, weights);
  const std::vector<float> x_scale = scales(c, 1), w_scale = scales(c, 4), y_scale = scales(c, 6);
  const int64_t channels = y.dim(1), inner = product(std::span(y.shape()).subspan(2));
  c.require(
      x_scale.size() == 1 && y_scale.size() == 1 && (w_scale.size() == 1 || static_cast<int64_t>(w_scale.size()) == channels),
      "the scales do not fit the channels");
  std::vector<double> all = load_all<double>(y), bias;
  if (c.has(8)) bias = c.doubles(8);
  c.require(bias.empty() || static_cast<int64_t>(bias.size()) == channels, "expected one bias per channel");
  for (size_t i = 0; i < all.size(); ++i) {
    const auto k = static_cast<size_t>(static_cast<int64_t>(i) / inner % channels);
    const float factor = x_scale[0] * w_scale[w_scale.size() == 1 ? 0 : k] / y_scale[0];
    all[i] = (all[i] + (bias.empty() ? 0 : bias[k])) * static_cast<double>(factor);
  }
  c.set(0, quantized(c, all, {c.scalar(7)}, c.dtype(7), y.shape()));
}

}  // namespace kernels
}  // namespace sardonyx::eval
