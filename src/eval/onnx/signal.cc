// Fourier transforms, windows, mel weights.
#include <fmt/format.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "eval/elementwise.h"

namespace sardonyx::eval {
namespace {

using Complex = std::complex<double>;
using Signal = std::vector<Complex>;

// e^(2 pi i k / n), with the angle reduced to the first eighth of the circle. Exact at the corners of the
// eighths.
Complex root_of_one(int64_t k, int64_t n) {
  k %= n;
  if (k < 0) k += n;
  const int64_t eighth = 8 * k / n;
  const double a = 2 * std::numbers::pi / static_cast<double>(n);
  auto angle = [&](int64_t from, int64_t parts) {  // the distance from `from` / parts of the circle
    return a * (static_cast<double>(k) - static_cast<double>(from) * static_cast<double>(n) / static_cast<double>(parts));
  };
  switch (eighth) {
    case 0: return {std::cos(angle(0, 4)), std::sin(angle(0, 4))};
    case 1:
    case 2: return {-std::sin(angle(1, 4)), std::cos(angle(1, 4))};
    case 3:
    case 4: return {-std::cos(angle(2, 4)), -std::sin(angle(2, 4))};
    case 5:
    case 6: return {std::sin(angle(3, 4)), -std::cos(angle(3, 4))};
    default: return {std::cos(angle(4, 4)), std::sin(angle(4, 4))};
  }
}

// y[k] = sum of x[j * step] * e^(sign 2 pi i j k / n). Splits off the smallest prime factor of n each time; a
// prime length is summed directly.
Signal transform(const Complex* x, int64_t step, int64_t n, int sign) {
  Signal y(static_cast<size_t>(n));
  int64_t factor = n;
  for (int64_t p = 2; p * p <= n; ++p) {
    if (n % p == 0) {
      factor = p;
      break;
    }
  }
  if (factor == n) {
    for (int64_t k = 0; k < n; ++k) {
      Complex sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += x[j * step] * root_of_one(sign * (j * k % n), n);
      y[static_cast<size_t>(k)] = sum;
    }
    return y;
  }
  const int64_t rest = n / factor;
  std::vector<Signal> parts;
  for (int64_t r = 0; r < factor; ++r) parts.push_back(transform(x + r * step, step * factor, rest, sign));
  for (int64_t k = 0; k < n; ++k) {
    Complex sum = 0;
    for (int64_t r = 0; r < factor; ++r) {
      sum += parts[static_cast<size_t>(r)][static_cast<size_t>(k % rest)] * root_of_one(sign * (r * k % n), n);
    }
    y[static_cast<size_t>(k)] = sum;
  }
  return y;
}

// Visits signals along an axis of x, whose last axis holds 1 (real) or 2 (complex) numbers. Calls f(signal)
// and stores what it returns: `length` complex numbers, or their real parts.
template <class F>
Array along(Call& c, const Array& x, size_t axis, int64_t length, bool real, F f) {
  const size_t rank = x.rank();
  std::vector<int64_t> shape(x.shape());
  const int64_t n = shape[axis], width = shape[rank - 1];
  if (width != 1 && width != 2) c.fail(fmt::format("the last axis of {} must have size 1 or 2", describe(x)));
  shape[axis] = length;
  shape[rank - 1] = real ? 1 : 2;
  Array out = c.make(x.dtype(), shape);
  const Array d = c.dense(x);
  std::vector<int64_t> outer(x.shape());
  outer[axis] = outer[rank - 1] = 1;
  const int64_t in_step = d.strides()[axis], out_step = out.strides()[axis];
  std::vector<double> numbers(2);
  walk<2>(outer, {d.strides(), out.strides()}, [&](int64_t count, std::array<int64_t, 2> at, std::array<int64_t, 2> step) {
    for (int64_t i = 0; i < count; ++i) {
      Signal s(static_cast<size_t>(n));
      for (int64_t k = 0; k < n; ++k) {
        const double* v = load<double>(d, at[0] + i * step[0] + k * in_step, 1, width, numbers.data());
        s[static_cast<size_t>(k)] = {v[0], width == 2 ? v[1] : 0};
      }
      const Signal y = f(std::move(s));
      for (int64_t k = 0; k < length; ++k) {
        const double v[2] = {y[static_cast<size_t>(k)].real(), y[static_cast<size_t>(k)].imag()};
        store<double>(out, at[1] + i * step[1] + k * out_step, real ? 1 : 2, v);
      }
    }
  });
  return out;
}

void refuse_f64_folding(const Call& c) {
  if (c.run.folding && c.dtype() == DType::kF64) c.unsupported("f64 functions differ in their last bits between machines");
}

void window(Call& c, double a0, double a1, double a2) {
  const int64_t n = c.int_scalar(0);
  c.require(n >= 0, "a window has a negative length");
  const auto t = static_cast<DType>(c.int_attr("output_datatype", static_cast<int64_t>(DType::kF32)));
  if (c.run.folding && t == DType::kF64) c.unsupported("f64 functions differ in their last bits between machines");
  const auto period = static_cast<double>(c.int_attr("periodic", 1) != 0 ? n : n - 1);
  Array out = c.make(t, {n});
  for (int64_t i = 0; i < n; ++i) {
    const double x = 2 * std::numbers::pi * static_cast<double>(i) / period;
    const double v = a0 - a1 * std::cos(x) + a2 * std::cos(2 * x);  // a symmetric window of one element divides 0 by 0
    store<double>(out, i, 1, &v);
  }
  c.set(0, out);
}

}  // namespace

namespace kernels {

void DFT(Call& c) {
  refuse_f64_folding(c);
  const Array& x = c.in(0);
  c.require(x.rank() >= 2, "a signal needs two axes at least");
  const int64_t given_axis = c.version() < 20 ? c.int_attr("axis", 1) : c.has(2) ? c.int_scalar(2) : -2;
  const size_t axis = c.axis(given_axis, x.rank());
  c.require(axis + 1 < x.rank(), "the last axis holds real and imaginary parts");
  const bool inverse = c.int_attr("inverse", 0) != 0, onesided = c.int_attr("onesided", 0) != 0;
  const bool back_to_real = inverse && onesided;
  const int64_t length = c.has(1) ? c.int_scalar(1) : back_to_real ? 2 * (x.dim(axis) - 1) : x.dim(axis);
  c.require(length > 0, "the length must be positive");
  const int64_t kept = onesided && !inverse ? length / 2 + 1 : length;
  c.set(0, along(c, x, axis, kept, back_to_real, [&](Signal s) {
          s.resize(static_cast<size_t>(back_to_real ? length / 2 + 1 : length));
          if (back_to_real) {  // the missing half is the conjugate of the given one
            s.resize(static_cast<size_t>(length));
            for (int64_t k = length / 2 + 1; k < length; ++k)
              s[static_cast<size_t>(k)] = std::conj(s[static_cast<size_t>(length - k)]);
            s[0] = s[0].real();
            if (length % 2 == 0) s[static_cast<size_t>(length / 2)] = s[static_cast<size_t>(length / 2)].real();
          }
          Signal y = transform(s.data(), 1, length, inverse ? 1 : -1);
          if (inverse) {
            for (Complex& v : y) v /= static_cast<double>(length);
          }
          return y;
        }));
}

void STFT(Call& c) {
  refuse_f64_folding(c);
  Array x = c.in(0);
  if (x.rank() == 2) x = c.reshaped(x, {x.dim(0), x.dim(1), 1});
  c.require(x.rank() == 3, "expected signals of shape [batch, length, 1 or 2]");
  const int64_t step = c.int_scalar(1);
  c.require(step > 0, "the step must be positive");
  const std::vector<double> weights = c.has(2) ? c.doubles(2) : std::vector<double>{};
  const int64_t length = c.has(3) ? c.int_scalar(3) : weights.empty() ? x.dim(1) : static_cast<int64_t>(weights.size());
  if (length <= 0 || length > x.dim(1)) c.fail(fmt::format("a frame of {} does not fit a signal of {}", length, x.dim(1)));
  c.require(weights.empty() || static_cast<int64_t>(weights.size()) == length, "the window is not as long as a frame");
  const int64_t frames = 1 + (x.dim(1) - length) / step;
  const int64_t kept = c.int_attr("onesided", 1) != 0 ? length / 2 + 1 : length;
  // Frames overlap: make a view with the step as stride.
  const Array d = c.dense(x);
  const Array framed = d.view({x.dim(0), frames, length, x.dim(2)}, {d.strides()[0], step * d.strides()[1], d.strides()[1], 1});
  c.set(0, along(c, framed, 2, kept, false, [&](Signal s) {
          for (size_t k = 0; k < weights.size(); ++k) s[k] *= weights[k];
          return transform(s.data(), 1, length, -1);
        }));
}

void HannWindow(Call& c) { window(c, 0.5, 0.5, 0); }
void HammingWindow(Call& c) { window(c, 25.0 / 46, 21.0 / 46, 0); }
void BlackmanWindow(Call& c) { window(c, 0.42, 0.5, 0.08); }

void MelWeightMatrix(Call& c) {
  const int64_t bins = c.int_scalar(0), length = c.int_scalar(1), rate = c.int_scalar(2);
  const double low = c.scalar(3), high = c.scalar(4);
  c.require(bins >= 0 && length >= 0 && rate > 0, "sizes must be positive");
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const int64_t spectrum = length / 2 + 1;
  std::vector<int64_t> edges;
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (mel(low) + static_cast<double>(i) * step) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
    c.require(edges.back() >= 0 && edges.back() < spectrum, "the frequencies are out of range for the spectrum");
  }
  std::vector<double> out(static_cast<size_t>(product(std::vector<int64_t>{spectrum, bins})), 0.0);
  auto at = [&](int64_t row, int64_t column) -> double& { return out[static_cast<size_t>(row * bins + column)]; };
  for (int64_t i = 0; i < bins; ++i) {  // a triangle over three edges
    const int64_t left = edges[static_cast<size_t>(i)], middle = edges[static_cast<size_t>(i) + 1],
                  right = edges[static_cast<size_t>(i) + 2];
    if (left == middle) at(middle, i) = 1;
    for (int64_t j = left; j <= middle && left != middle; ++j)
      at(j, i) = static_cast<double>(j - left) / static_cast<double>(middle - left);
    for (int64_t j = middle; j < right; ++j) at(j, i) = static_cast<double>(right - j) / static_cast<double>(right - middle);
  }
  const auto t = static_cast<DType>(c.int_attr("output_datatype", static_cast<int64_t>(DType::kF32)));
  c.set(0, c.of<double>(t, {spectrum, bins}, out));
}

}  // namespace kernels
}  // namespace sardonyx::eval
