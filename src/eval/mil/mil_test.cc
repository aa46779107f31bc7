// MIL ops on complex numbers, which no package holds. They are compared with sums that follow the definition.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "sardonyx/eval.h"

namespace sardonyx {
namespace {

using Complex = std::complex<double>;

Array f32(std::vector<int64_t> shape, std::vector<float> values) {
  return Array::of(Tensor::of<float>(DType::kF32, std::move(shape), values));
}

std::vector<Array> run(std::string_view body, std::vector<EvalValue> inputs, std::string_view signature) {
  const auto model = parse(fmt::format("graph mil({}) mil_opset \"CoreML7\" {{ {} }}", signature, body));
  std::vector<Array> out;
  for (const EvalValue& v : evaluate(model->graph(), inputs)) out.push_back(*v.array());
  return out;
}

void expect_near(const Array& re, const Array& im, const std::vector<Complex>& want) {
  ASSERT_EQ(re.size(), std::ssize(want));
  for (int64_t i = 0; i < re.size(); ++i) {
    EXPECT_NEAR(re.double_at(i), want[static_cast<size_t>(i)].real(), 2e-5) << i;
    EXPECT_NEAR(im.double_at(i), want[static_cast<size_t>(i)].imag(), 2e-5) << i;
  }
}

// Sum of x[j] e^(sign 2 pi i j k / n) for k below `bins`.
std::vector<Complex> transform(const std::vector<Complex>& x, int sign, size_t bins) {
  std::vector<Complex> y(bins);
  for (size_t k = 0; k < bins; ++k) {
    for (size_t j = 0; j < x.size(); ++j)
      y[k] += x[j] * std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(j * k) / static_cast<double>(x.size()));
  }
  return y;
}

constexpr std::string_view kTwo = "a: f32[5], b: f32[5]";
const std::vector<float> kReal{1, -2, 0.5f, 3, 7}, kImag{0.25f, 4, -1, 2, -3};

std::vector<Complex> signal() {
  std::vector<Complex> x;
  for (size_t i = 0; i < kReal.size(); ++i) x.emplace_back(kReal[i], kImag[i]);
  return x;
}

TEST(MilEval, PartsAndLengthsOfComplexNumbers) {
  const auto out =
      run("c: c64[5] = complex(a, b)  x: f32[5] = complex_real(c)  y: f32[5] = complex_imag(c)  n: i32[1] = complex_shape(c)  "
          "m: f32[5] = complex_abs(c)  return x, y, n, m",
          {f32({5}, kReal), f32({5}, kImag)}, kTwo);
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(out[0].double_at(i), kReal[static_cast<size_t>(i)]);
    EXPECT_EQ(out[1].double_at(i), kImag[static_cast<size_t>(i)]);
    EXPECT_NEAR(out[3].double_at(i), std::abs(signal()[static_cast<size_t>(i)]), 1e-6);
  }
  EXPECT_EQ(out[2].int_at(0), 5);
}

TEST(MilEval, FourierTransformsWithLengthsAndNorms) {
  for (const auto& [norm, forward, backward] :
       {std::tuple{"backward", 1.0, 1.0 / 4}, {"forward", 1.0 / 4, 1.0}, {"ortho", 0.5, 0.5}}) {
    for (const bool inverse : {false, true}) {
      const auto out =
          run(fmt::format("c: c64[5] = complex(a, b)  d: c64[4] = complex_{}fft(c, n=i32 4, dim=i32 0, norm=str \"{}\")  "
                          "x: f32[4] = complex_real(d)  y: f32[4] = complex_imag(d)  return x, y",
                          inverse ? "i" : "", norm),
              {f32({5}, kReal), f32({5}, kImag)}, kTwo);
      std::vector<Complex> x = signal();
      x.resize(4);
      std::vector<Complex> want = transform(x, inverse ? 1 : -1, 4);
      for (Complex& v : want) v *= inverse ? backward : forward;
      expect_near(out[0], out[1], want);
    }
  }
}

TEST(MilEval, RealSignalsHaveHalfOfTheFrequencies) {
  const auto out =
      run("c: c64[4] = complex_rfft(a, n=i32 7)  x: f32[4] = complex_real(c)  y: f32[4] = complex_imag(c)  "
          "r: f32[7] = complex_irfft(c, n=i32 7)  s: f32[6] = complex_irfft(c)  return x, y, r, s",
          {f32({5}, kReal)}, "a: f32[5]");
  std::vector<Complex> x(kReal.begin(), kReal.end());
  x.resize(7);
  expect_near(out[0], out[1], transform(x, -1, 4));
  for (int64_t i = 0; i < 7; ++i) EXPECT_NEAR(out[2].double_at(i), x[static_cast<size_t>(i)].real(), 1e-5);
  // Without a length, the length is even: the last frequency counts once, by its real part.
  std::vector<Complex> half = transform(x, -1, 4);
  half[3] = half[3].real();
  half.push_back(std::conj(half[2]));
  half.push_back(std::conj(half[1]));
  const std::vector<Complex> want = transform(half, 1, 6);
  for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(out[3].double_at(i), want[static_cast<size_t>(i)].real() / 6, 1e-5);
}

TEST(MilEval, TransformsOfSeveralAxes) {
  std::vector<float> values;
  for (int i = 0; i < 6; ++i) values.push_back(static_cast<float>(i * i) - 3.5f * static_cast<float>(i));
  const auto out = run(
      "c: c64[2,2] = complex_rfftn(a)  d: c64[2,3] = complex_fftn(a, norm=str \"ortho\")  e: c64[2,3] = complex_ifftn(d, "
      "norm=str \"ortho\")  "
      "r: f32[2,3] = complex_irfftn(c, shapes=i32[2]{2,3})  x: f32[2,2] = complex_real(c)  y: f32[2,2] = complex_imag(c)  "
      "u: f32[2,3] = complex_real(d)  v: f32[2,3] = complex_imag(d)  w: f32[2,3] = complex_real(e)  return x, y, u, v, w, r",
      {f32({2, 3}, values)}, "a: f32[2,3]");
  std::vector<Complex> all;
  for (int p = 0; p < 2; ++p) {
    for (int q = 0; q < 3; ++q) {
      Complex sum = 0;
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 3; ++j)
          sum += static_cast<double>(values[static_cast<size_t>(i) * 3 + static_cast<size_t>(j)]) *
                 std::polar(1.0, -2 * std::numbers::pi * (p * i / 2.0 + q * j / 3.0));
      }
      all.push_back(sum);
    }
  }
  expect_near(out[0], out[1], {all[0], all[1], all[3], all[4]});
  std::vector<Complex> ortho;
  for (const Complex& v : all) ortho.push_back(v / std::sqrt(6.0));
  expect_near(out[2], out[3], ortho);
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(out[4].double_at(i), values[static_cast<size_t>(i)], 1e-5);
    EXPECT_NEAR(out[5].double_at(i), values[static_cast<size_t>(i)], 1e-5);
  }
}

TEST(MilEval, FramesOfASignal) {
  std::vector<float> values;
  for (int i = 0; i < 11; ++i) values.push_back(static_cast<float>((i * 7) % 5) - 1.5f);
  const auto out =
      run("c: c64[3,3] = complex_stft(a, n_fft=i32 5, hop_length=i32 3, win_length=i32 3, window=f32[3]{0.5,1,2}, "
          "normalized=bool true, "
          "onesided=bool true)  x: f32[3,3] = complex_real(c)  y: f32[3,3] = complex_imag(c)  return x, y",
          {f32({11}, values)}, "a: f32[11]");
  std::vector<Complex> want(9);
  for (size_t frame = 0; frame < 3; ++frame) {
    const double window[5] = {0, 0.5, 1, 2, 0};
    std::vector<Complex> x;
    for (size_t i = 0; i < 5; ++i) x.push_back(values[frame * 3 + i] * window[i]);
    const auto y = transform(x, -1, 3);
    for (size_t k = 0; k < 3; ++k) want[k * 3 + frame] = y[k] / std::sqrt(5.0);
  }
  expect_near(out[0], out[1], want);
}

TEST(MilEval, StatesAreGivenAsTensorsAndFollowTheResults) {
  const auto model = parse(
      "graph mil(x: f32[2], s: state(f32[2])) mil_opset \"CoreML8\" { a: f32[2] = read_state(s)  b: f32[2] = add(a, x)  "
      "c: f32[2] = coreml_update_state(s, b)  return a }");
  const Array begin = f32({2}, {10, 20});
  const std::vector<EvalValue> inputs{f32({2}, {1, 2}), begin};
  for (int again = 0; again < 2; ++again) {
    const auto out = evaluate(model->graph(), inputs, {.states_too = true});
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(out[0].array()->double_at(1), 20);
    EXPECT_EQ(out[1].array()->double_at(1), 22);
    EXPECT_EQ(begin.double_at(1), 20);
  }
  EXPECT_EQ(evaluate(model->graph(), std::span(inputs).first(1), {.states_too = true})[1].array()->double_at(0), 1);
  EXPECT_EQ(evaluate(model->graph(), inputs).size(), 1u);
}

}  // namespace
}  // namespace sardonyx
