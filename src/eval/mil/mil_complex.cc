// Ops of Core ML's frontends on complex numbers, which lower_complex_dialect_ops decomposes. Transforms
// follow torch.fft and torch.stft, as coremltools documents the ops.
#include <fmt/format.h>

#include <cmath>

#include "eval/mil/mil_kernel.h"

namespace sardonyx::eval::mil_kernels {
namespace {

using Ints = std::vector<int64_t>;

// Converts between complex numbers and pairs along one more axis. A real number stands alone on that axis.
Array pairs(const Mil& m, const Array& x) {
  const bool complex = x.dtype() == DType::kC64;
  Ints shape(x.shape());
  shape.push_back(complex ? 2 : 1);
  if (!complex) return m.reshape(x, shape);
  const Array d = m.c.dense(x);
  return {DType::kF32, shape, const_cast<std::byte*>(d.data()), d.owner()};
}
Array numbers(const Mil& m, const Array& x) {
  Ints shape(x.shape());
  const bool complex = shape.back() == 2;
  shape.pop_back();
  if (!complex) return m.reshape(x, shape);
  const Array d = m.c.dense(x);
  return {DType::kC64, shape, const_cast<std::byte*>(d.data()), d.owner()};
}

const Array& complex_in(const Mil& m, std::string_view slot) {
  const Array& x = m.in(slot);
  m.c.require(x.dtype() == DType::kC64, "the operand is not complex");
  return x;
}

// Part 0 (real) or 1 (imaginary) of each number.
Array part(const Mil& m, const Array& x, int64_t which) {
  const Array y = m.onnx("Gather", {pairs(m, x), m.i64s({which})}, {attr("axis", -1)});
  return m.reshape(y, x.shape());
}

struct Axes {
  std::vector<size_t> axes;
  Ints lengths;
};

// `to_real`: without a given length, the last axis holds half of the frequencies.
Axes axes_of(const Mil& m, const Array& x, bool to_real) {
  Axes out;
  if (m.c.node.op().name.ends_with("n")) {
    const bool sized = m.has("shapes");
    const Ints shapes = sized ? m.ints("shapes") : Ints{};
    Ints dims;
    if (m.has("dims")) {
      dims = m.ints("dims");
    } else {
      const int64_t count = sized ? std::ssize(shapes) : static_cast<int64_t>(x.rank());
      for (int64_t i = -count; i < 0; ++i) dims.push_back(i);
    }
    m.c.require(!dims.empty() && (!sized || shapes.size() == dims.size()), "there is a length for each axis");
    for (size_t i = 0; i < dims.size(); ++i) {
      out.axes.push_back(m.c.axis(dims[i], x.rank()));
      out.lengths.push_back(sized && shapes[i] != -1 ? shapes[i] : x.dim(out.axes.back()));
    }
    if (to_real && !sized) out.lengths.back() = 2 * (out.lengths.back() - 1);
    return out;
  }
  out.axes = {m.c.axis(m.integer("dim", -1), x.rank())};
  const int64_t size = x.dim(out.axes[0]);
  out.lengths = {m.has("n") ? m.integer("n") : to_real ? 2 * (size - 1) : size};
  return out;
}

// Transforms one axis of pairs. `onesided`: half of the frequencies suffices, as the other side is real.
Array along(const Mil& m, const Array& x, size_t axis, int64_t length, bool inverse, bool onesided) {
  m.c.require(length > 0, "a length is positive");
  const Array n = m.reshape(m.i64s({length}), {}), at = m.reshape(m.i64s({static_cast<int64_t>(axis)}), {});
  Array y = m.onnx("DFT", {x, n, at}, {attr("inverse", inverse ? 1 : 0), attr("onesided", onesided ? 1 : 0)});
  // ONNX's operator divides in the inverse direction.
  const std::string norm = m.text("norm", "backward");
  m.c.require(norm == "backward" || norm == "forward" || norm == "ortho", "norm is forward, backward or ortho");
  if (norm == "backward") return y;
  const double divisor = norm == "ortho" ? std::sqrt(static_cast<double>(length)) : static_cast<double>(length);
  return m.onnx("Mul", {y, m.like(y, inverse ? divisor : 1 / divisor)});
}

void transform(Mil m, bool inverse) {
  const Array& x = m.in("data");
  const Axes t = axes_of(m, x, false);
  Array y = pairs(m, x);
  for (size_t i = 0; i < t.axes.size(); ++i) y = along(m, y, t.axes[i], t.lengths[i], inverse, false);
  m.set(numbers(m, y));
}

void transform_real(Mil m) {
  const Array& x = m.in("data");
  const Axes t = axes_of(m, x, false);
  Array y = along(m, pairs(m, x), t.axes.back(), t.lengths.back(), false, true);
  for (size_t i = 0; i + 1 < t.axes.size(); ++i) y = along(m, y, t.axes[i], t.lengths[i], false, false);
  m.set(numbers(m, y));
}

void restore_real(Mil m) {
  const Array& x = complex_in(m, "data");
  const Axes t = axes_of(m, x, true);
  Array y = pairs(m, x);
  for (size_t i = 0; i + 1 < t.axes.size(); ++i) y = along(m, y, t.axes[i], t.lengths[i], true, false);
  m.set(numbers(m, along(m, y, t.axes.back(), t.lengths.back(), true, true)));
}

}  // namespace

void complex(Mil m) {
  const Array &re = m.in("real_data"), &im = m.in("imag_data");
  m.c.require(re.dtype() == DType::kF32 && im.dtype() == DType::kF32, "the parts are f32");
  const Array y = m.onnx("Concat", {pairs(m, re), pairs(m, im)}, {attr("axis", -1)});
  m.set(numbers(m, y));
}

void complex_real(Mil m) { m.set(part(m, complex_in(m, "data"), 0)); }
void complex_imag(Mil m) { m.set(part(m, complex_in(m, "data"), 1)); }

void complex_shape(Mil m) {
  const Ints& shape = complex_in(m, "x").shape();
  m.set(m.c.of<int64_t>(DType::kI32, {std::ssize(shape)}, shape));
}

void complex_abs(Mil m) {
  const Array& x = complex_in(m, "x");
  const Array y = m.onnx("ReduceL2", {pairs(m, x), m.i64s({-1})}, {attr("keepdims", 0)});
  m.set(m.reshape(y, x.shape()));
}

void complex_fft(Mil m) { transform(m, false); }
void complex_fftn(Mil m) { transform(m, false); }
void complex_ifft(Mil m) { transform(m, true); }
void complex_ifftn(Mil m) { transform(m, true); }
void complex_rfft(Mil m) { transform_real(m); }
void complex_rfftn(Mil m) { transform_real(m); }
void complex_irfft(Mil m) { restore_real(m); }
void complex_irfftn(Mil m) { restore_real(m); }

// Frames of n_fft numbers, hop_length apart. A shorter window is centered in each frame.
void complex_stft(Mil m) {
  const Array& x = m.in("input");
  m.c.require(x.rank() == 1 || x.rank() == 2, "a signal, or several");
  const int64_t n = m.integer("n_fft"), hop = m.integer("hop_length", n / 4), length = m.integer("win_length", n);
  m.c.require(n > 0 && hop > 0 && length > 0 && length <= n, "the window is as long as n_fft at most");
  const bool half = m.flag("onesided", true);
  m.c.require(!half || x.dtype() == DType::kF32, "half of the frequencies is enough for real signals only");
  Array signal = pairs(m, x);
  if (x.rank() == 1) signal = m.reshape(signal, {1, x.dim(0), signal.dim(1)});
  std::vector<double> window(static_cast<size_t>(n), 0);
  const std::vector<double> given =
      m.has("window") ? load_all<double>(m.in("window")) : std::vector<double>(static_cast<size_t>(length), 1);
  m.c.require(given.size() <= window.size(), "the window is as long as n_fft at most");
  std::copy(given.begin(), given.end(), window.begin() + static_cast<std::ptrdiff_t>((window.size() - given.size()) / 2));
  const Array weights = m.c.of<double>(DType::kF32, {n}, window);
  const Array step = m.reshape(m.i64s({hop}), {});
  Array y = m.onnx("STFT", {signal, step, weights, m.reshape(m.i64s({n}), {})}, {attr("onesided", half ? 1 : 0)});
  y = m.c.dense(y.transposed(Ints{0, 2, 1, 3}));
  if (m.flag("normalized")) y = m.onnx("Div", {y, m.like(y, std::sqrt(static_cast<double>(n)))});
  y = numbers(m, y);
  m.set(x.rank() == 1 ? m.reshape(y, {y.dim(1), y.dim(2)}) : y);
}

}  // namespace sardonyx::eval::mil_kernels
