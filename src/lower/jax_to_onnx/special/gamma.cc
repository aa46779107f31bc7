// lgamma x    log |gamma(x)|             digamma x    its derivative
//
// Lanczos' approximation with g = 7 and nine terms (P. Godfrey's coefficients, which XLA uses too) for x >=
// 1/2. Below, the reflection gamma(x) gamma(1 - x) = pi / sin(pi x); the argument of the sine is first
// reduced to [0, 1/2], where it is exact near its zeros.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kG = 7;
constexpr double kBase = 0.99999999999980993227684700473478;
constexpr std::array kTerms = {676.520368121885098567009190444019, -1259.13921672240287047156078755283,
                               771.3234287776530788486528258894,   -176.61502916214059906584551354,
                               12.507343278686904814458936853,     -0.13857109526572011689554707,
                               9.984369578019570859563e-6,         1.50563273514931155834e-7};

struct Lanczos {
  Value* reflected;  // x < 1/2
  Value* z;          // -x there, else x - 1
  Value* t;          // z + g + 1/2
  Value* log_t;
};

Lanczos prepare(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Lanczos l{};
  l.reflected = b.Less(x, ctx.like(x, 0.5));
  l.z = b.Where(l.reflected, b.Neg(x), b.Sub(x, ctx.like(x, 1)));
  l.t = b.Add(l.z, ctx.like(x, kG + 0.5));
  l.log_t = b.Add(log1p(ctx, b.Mul(l.z, ctx.like(x, 1 / (kG + 0.5)))), ctx.like(x, std::log(kG + 0.5)));
  return l;
}

// Adds the terms / (z + i)^power to `sum`.
Value* series(Lowering& ctx, Value* z, int power, Value* sum) {
  OnnxBuilder& b = ctx.b;
  for (size_t i = 0; i < kTerms.size(); ++i) {
    Value* shifted = b.Add(z, ctx.like(z, static_cast<double>(i + 1)));
    if (power == 2) shifted = b.Mul(shifted, shifted);
    Value* term = b.Div(ctx.like(z, kTerms[i]), shifted);
    sum = sum == nullptr ? term : b.Add(sum, term);
  }
  return sum;
}

}  // namespace

Value* log_gamma(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  auto c = [&](double v) { return ctx.like(x, v); };
  Lanczos l = prepare(ctx, x);
  Value* sum = series(ctx, l.z, 1, c(kBase));
  // (z + 1/2) log t - t, with its two large terms written as one.
  Value* large = b.Mul(b.Sub(b.Add(l.z, c(0.5)), b.Div(l.t, l.log_t)), l.log_t);
  Value* upper = b.Add(b.Add(large, c(std::log(2 * kPi) / 2)), b.Log(sum));
  Value* a = b.Abs(x);
  Value* fraction = b.Sub(a, b.Floor(a));
  Value* reduced = b.Where(b.Greater(fraction, c(0.5)), b.Sub(c(1), fraction), fraction);
  // At 0, -1, -2, ... the sine is 0, and the result is minus its logarithm.
  Value* log_sine = b.Log(b.Sin(b.Mul(reduced, c(kPi))));
  Value* lower = b.Sub(b.Sub(c(std::log(kPi)), log_sine), upper);
  Value* result = b.Where(l.reflected, b.Where(b.Equal(reduced, c(0)), b.Neg(log_sine), lower), upper);
  return b.Where(b.Equal(a, c(kInfinity)), c(kInfinity), result);
}

Value* di_gamma(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  auto c = [&](double v) { return ctx.like(x, v); };
  Lanczos l = prepare(ctx, x);
  Value* ratio = b.Div(series(ctx, l.z, 2, nullptr), series(ctx, l.z, 1, c(kBase)));
  Value* upper = b.Sub(b.Sub(l.log_t, ratio), b.Div(c(kG), l.t));
  // pi / tan(pi x), with x reduced by its nearest integer
  Value* angle = b.Mul(b.Sub(x, b.Round(x)), c(kPi));
  Value* lower = b.Sub(upper, b.Div(b.Mul(b.Cos(angle), c(kPi)), b.Sin(angle)));
  Value* result = b.Where(l.reflected, lower, upper);
  Value* is_pole = b.And(b.LessOrEqual(x, c(0)), b.Equal(x, b.Floor(x)));
  return b.Where(is_pole, c(std::numeric_limits<double>::quiet_NaN()), result);
}

std::vector<Value*> lower_lgamma(Lowering& ctx) {
  return {ctx.via({"Log", "Sin", "Where"}, ctx.operands()[0], [&](Value* x) { return log_gamma(ctx, x); })};
}

std::vector<Value*> lower_digamma(Lowering& ctx) {
  return {ctx.via({"Log", "Sin", "Where"}, ctx.operands()[0], [&](Value* x) { return di_gamma(ctx, x); })};
}

}  // namespace sardonyx::jax_to_onnx
