// igamma a x          P(a, x) = gamma(a, x) / Gamma(a)
// igammac a x         Q = 1 - P
// igamma_grad_a a x   dP/da
//
// Both are f(a, x) = x^a e^-x / Gamma(a) times a sum: for small x the power series of gamma(a, x) (DLMF
// 8.11.4), else the continued fraction of Gamma(a, x) (DLMF 8.9.2) by its convergents, which are scaled down
// before they overflow. The bounds between the two, the convergence tests and the derivatives by a, updated
// term by term, are those of XLA, which took them from S. Moshier's Cephes (igam.c, igamc.c). Each element
// keeps its result once its own terms are small; the loop ends with the slowest element.
#include <cmath>
#include <limits>

#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A sum and its derivative by a.
struct Sum {
  Num value, by_a;
};

// 1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...
Sum power_series(const Num& a, const Num& x, const Num& enabled, bool with_derivative) {
  Num one = full_like(a, 1), zero = full_like(a, 0);
  std::vector<Num> s{enabled, a, one, one};
  if (with_derivative) s.insert(s.end(), {zero, zero});
  s = loop(a.scope(), nullptr, any(enabled), std::move(s), [&](const Num&, std::vector<Num>& state) {
    Num &going = state[0], &r = state[1], &term = state[2], &total = state[3];
    r = r + 1;
    Num ratio = x / r;
    if (with_derivative) {
      Num &term_by_a = state[4], &total_by_a = state[5];
      term_by_a = term_by_a * ratio - term * x / (r * r);
      Num more = total_by_a + term_by_a;
      term = term * ratio;
      total = where(going, total + term, total);
      Num goes_on = going & (abs(term_by_a / more) > epsilon(x));
      total_by_a = where(going, more, total_by_a);
      going = goes_on;
    } else {
      term = term * ratio;
      total = where(going, total + term, total);
      going = going & (term / total > epsilon(x));
    }
    return any(going);
  });
  return {s[3], with_derivative ? s[5] : zero};
}

// Numerator and denominator of a convergent; next() is one step of the recurrence.
struct Convergent {
  Num p, q;
};
Convergent next(const Convergent& one, const Convergent& two, const Num& z, const Num& yc) {
  return {one.p * z - two.p * yc, one.q * z - two.q * yc};
}

Sum continued_fraction(const Num& a, const Num& x, const Num& enabled, bool with_derivative) {
  Num one = full_like(x, 1), zero = full_like(x, 0);
  Num y = one - a, z = x + y + 1;
  Num p = x + 1, q = z * x;
  Num start = p / q;
  // State: 0 active, 1 answer, 2 y, 3 z; then p and q of the last convergent and of the one before; then
  // their derivatives by a, and the answer's.
  std::vector<Num> s{enabled, start, y, z, p, q, one, x};
  if (with_derivative) s.insert(s.end(), {zero, -x, zero, zero, start * x / q});
  Num limit(x.scope(), x.ctx().b.i64(2000));
  s = loop(x.scope(), limit.value(), any(enabled), std::move(s), [&](const Num& i, std::vector<Num>& state) {
    Num going = state[0], answer = state[1];
    Convergent last{state[4], state[5]}, before{state[6], state[7]};
    Num c = cast(i, x.dtype()) + 1;
    state[2] = state[2] + 1;
    state[3] = state[3] + 2;
    Num yc = state[2] * c;
    Convergent now = next(last, before, state[3], yc);
    Num is_number = ne(now.q, 0);
    Num r = now.p / now.q;
    Num change = where(is_number, abs((answer - r) / r), 1);
    Num better = where(is_number, r, answer);
    Num again = going & (change > epsilon(x));
    Num too_large = abs(now.p) > 1 / epsilon(x);
    auto scaled = [&](const Num& v) { return where(too_large, v * epsilon(x), v); };
    if (with_derivative) {
      Convergent last_by_a{state[8], state[9]}, before_by_a{state[10], state[11]};
      Num known = state[12];
      Convergent by_a = next(last_by_a, before_by_a, state[3], yc);
      by_a = {by_a.p - last.p + before.p * c, by_a.q - last.q + before.q * c};
      Num found = where(is_number, (by_a.p - better * by_a.q) / now.q, known);
      again = going & (where(is_number, abs(found - known), 1) > epsilon(x));
      state[12] = where(going, found, known);
      state[8] = scaled(by_a.p), state[9] = scaled(by_a.q);
      state[10] = scaled(last_by_a.p), state[11] = scaled(last_by_a.q);
    }
    state[1] = where(going, better, answer);
    state[0] = again;
    state[4] = scaled(now.p), state[5] = scaled(now.q);
    state[6] = scaled(last.p), state[7] = scaled(last.q);
    return any(again);
  });
  return {s[1], with_derivative ? s[12] : zero};
}

struct Parts {
  Num a, x;
  Num factor;  // x^a e^-x / Gamma(a)
  Num is_nan, is_outside, underflows;
};

Parts prepare(Lowering& ctx) {
  auto xs = wide_operands(ctx);
  Num a = xs[0], x = xs[1];
  Num exponent = a * log(x) - x - log_gamma(a);
  return {a, x, exp(exponent), is_nan(a) | is_nan(x), (x < 0) | (a < 0), exponent < -std::log(largest(x))};
}

std::vector<Value*> narrow(Lowering& ctx, const Num& x) { return {cast(x, ctx.out_dtype()).value()}; }

}  // namespace

std::vector<Value*> lower_igamma(Lowering& ctx) {
  auto [a, x, factor, nan, outside, underflows] = prepare(ctx);
  Num error = outside | (eq(a, 0) & eq(x, 0)) | nan;
  Num by_fraction = (x >= 1) & (x > a);
  Num enabled = !(eq(x, 0) | error | underflows | eq(x, kInfinity));
  Num upper = continued_fraction(a, x, enabled & by_fraction, false).value * factor;
  Num lower = power_series(a, x, enabled & !by_fraction, false).value * factor / a;
  Num result = where(by_fraction, 1 - upper, lower);
  result = where(eq(x, kInfinity), 1, where(eq(x, 0), 0, result));
  return narrow(ctx, where(error, kNaN, result));
}

std::vector<Value*> lower_igammac(Lowering& ctx) {
  auto [a, x, factor, nan, outside, underflows] = prepare(ctx);
  Num error = outside | (eq(a, 0) & eq(x, 0)) | nan;
  Num by_series = (x < 1) | (x < a);
  Num is_zero = eq(x, kInfinity) | eq(a, 0);
  Num enabled = !(error | underflows | is_zero);
  Num lower = power_series(a, x, enabled & by_series, false).value * factor / a;
  Num upper = continued_fraction(a, x, enabled & !by_series, false).value * factor;
  Num result = where(is_zero, 0, where(by_series, 1 - lower, upper));
  return narrow(ctx, where(error, kNaN, result));
}

std::vector<Value*> lower_igamma_grad_a(Lowering& ctx) {
  auto [a, x, factor, nan, outside, underflows] = prepare(ctx);
  Num error = outside | eq(a, 0) | nan;
  Num by_fraction = (x > 1) & (x > a);
  Num enabled = !(eq(x, 0) | error | underflows);
  Sum upper = continued_fraction(a, x, enabled & by_fraction, true);
  Sum lower = power_series(a, x, enabled & !by_fraction, true);
  // The logarithmic derivative of the factor, divided by Gamma(a); and by Gamma(a + 1) = a Gamma(a) for the
  // series.
  Num slope_upper = log(x) - di_gamma(a), slope_lower = log(x) - di_gamma(a + 1);
  Num by_upper = -(factor * (upper.value * slope_upper + upper.by_a));
  Num by_lower = factor * (lower.value * slope_lower + lower.by_a) / a;
  Num result = where(eq(x, 0), 0, where(by_fraction, by_upper, by_lower));
  return narrow(ctx, where(error, kNaN, result));
}

}  // namespace sardonyx::jax_to_onnx
