// regularized_incomplete_beta a b x   =>   x^a (1 - x)^b / (a B(a, b)) times a continued fraction
//
// The continued fraction is that of DLMF 8.17.22, by the modified Lentz method (Thompson and Barnett 1986),
// with the same number of terms and the same threshold as JAX. The fraction converges fast for x < (a + 1) /
// (a + b + 2); for larger x the symmetry I(a, b, x) = 1 - I(b, a, 1 - x) reduces to that case (DLMF 8.17.4).
#include <cmath>
#include <limits>

#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_regularized_incomplete_beta(Lowering& ctx) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  auto xs = wide_operands(ctx);
  Num first = xs[0], second = xs[1], given = xs[2];
  bool is_f64 = given.dtype() == DType::kF64;

  Num direct = given < (first + 1) / (first + second + 2);
  Num a = where(direct, first, second), b = where(direct, second, first), x = where(direct, given, 1 - given);
  Num one = full_like(x, 1);
  double tiny = epsilon(x) / 2;

  // Numerators: 1 for term 1, those of the cited equation for terms 2, 4, ... and 3, 5, ... Denominators: 1,
  // except that of term 0.
  Num terms(ctx, ctx.b.i64(is_f64 ? 600 : 200));
  auto away_from_zero = [&](const Num& v) { return where(abs(v) < tiny, tiny, v); };
  Num start = full_like(x, tiny);
  std::vector<Num> s{start, full_like(x, 0), start};
  s = loop({&ctx}, terms.value(), {}, std::move(s), [&](const Num& i, std::vector<Num>& state) {
    Num &c = state[0], &d = state[1], &h = state[2];
    Num half = i / 2;  // term i + 1
    Num m = cast(half, x.dtype());
    Num twice = m * 2;
    Num even_term = -(a + m) * (a + b + m) * x / ((a + twice) * (a + twice + 1));
    Num odd_term = m * (b - m) * x / ((a + twice - 1) * (a + twice));
    Num first_even = -(a + b) * x / (a + 1);
    Num is_even = eq(half * 2 + 1, i);
    Num numerator = where(is_even, where(eq(half, 0), first_even, even_term), odd_term);
    numerator = where(eq(i, 0), one, numerator);
    c = away_from_zero(numerator / c + 1);
    d = reciprocal(away_from_zero(numerator * d + 1));
    Num step = c * d;
    h = h * step;
    return any(abs(step - 1) >= tiny);
  });

  // a Gamma(a) is 1 for the least a, although 1 / a is infinite.
  Num log_rest = log_gamma(b) - log_gamma(a + b);
  Num decay = log1p(-x) * b;
  Num tiny_a = exp(decay - log_rest);
  Num usual = exp(log(x) * a + decay - (log_gamma(a) + log_rest)) / a;
  double least = is_f64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  Num value = s[2] * where(a < least * 2, tiny_a, usual);
  value = where(direct, value, 1 - value);

  Num a_vanishes = eq(first, 0) | eq(second, kInfinity), b_vanishes = eq(second, 0) | eq(first, kInfinity);
  Num at_zero = eq(given, 0), at_one = eq(given, 1);
  value = where((b_vanishes & !at_one) | (a_vanishes & at_zero), 0, value);
  value = where((a_vanishes & !at_zero) | (b_vanishes & at_one), 1, value);
  Num outside = (first < 0) | (second < 0) | (given < 0) | (given > 1) | (a_vanishes & b_vanishes);
  value = where(outside | is_nan(first) | is_nan(second) | is_nan(given), kNaN, value);
  return {cast(value, ctx.out_dtype()).value()};
}

}  // namespace sardonyx::jax_to_onnx
