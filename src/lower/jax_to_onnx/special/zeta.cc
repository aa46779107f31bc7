// zeta x q         Hurwitz' function, the sum of (q + k)^-x over k >= 0
// polygamma m x    (-1)^(m+1) m! zeta(m + 1, x), and digamma(x) for m = 0
//
// Ten terms, then the Euler-Maclaurin formula with twelve Bernoulli numbers (DLMF 25.11.28), as in S.
// Moshier's Cephes (zeta.c) and in XLA.
#include <array>
#include <limits>

#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// (2 j)! / B_2j for j = 1, 2, ...
constexpr std::array kBernoulli = {12.0,
                                   -720.0,
                                   30240.0,
                                   -1209600.0,
                                   47900160.0,
                                   -1.8924375803183791606e9,
                                   7.47242496e10,
                                   -2.950130727918164224e12,
                                   1.1646782814350067249e14,
                                   -4.5979787224074726105e15,
                                   1.8152105401943546773e17,
                                   -7.1661652561756670113e18};

Num hurwitz_zeta(const Num& x, const Num& q) {
  Num a = q, minus_x = -x;
  Num power = pow(a, minus_x);
  Num head = power;
  for (int i = 0; i < 9; ++i) {
    a = a + 1;
    power = pow(a, minus_x);
    head = head + power;
  }
  // The formula takes half of the last power. head contains it whole, hence - 0.5.
  Num inverse_square = reciprocal(a * a);
  Num tail = x.of(0);
  for (size_t j = kBernoulli.size(); j-- > 0;) {
    double k = 2 * static_cast<double>(j);
    Num factor = j == 0 ? x / a : (x + (k - 1)) * (x + k) * inverse_square;
    tail = (tail + 1 / kBernoulli[j]) * factor;
  }
  Num whole = head + power * (a / (x - 1) - 0.5 + tail);
  Num result = where(abs(power) < abs(head) * epsilon(x), head, whole);
  result = where(x < 1, kNaN, result);
  // Below 0 the bases are negative: only integer powers are defined, and integers are poles.
  Num not_above = q <= 0, is_integer = eq(x, floor(x)), is_pole = not_above & eq(q, floor(q));
  Num is_even = is_integer & eq(floor(x * 0.5) * 2, x);
  result = where(not_above & !is_integer, kNaN, result);
  result = where(is_pole, where(is_even, kInfinity, x.of(kNaN)), result);
  return where(eq(x, 1), kInfinity, result);
}

}  // namespace

std::vector<Value*> lower_zeta(Lowering& ctx) {
  auto xs = wide_operands(ctx);
  return {cast(hurwitz_zeta(xs[0], xs[1]), ctx.out_dtype()).value()};
}

std::vector<Value*> lower_polygamma(Lowering& ctx) {
  auto xs = wide_operands(ctx);
  Num m = xs[0], x = xs[1];
  Num order = m + 1;
  Num is_odd = eq(m - floor(m * 0.5) * 2, 1);
  Num sign = where(is_odd, 1, m.of(-1));
  Num result = sign * exp(log_gamma(order)) * hurwitz_zeta(order, x);
  result = where(eq(m, 0), di_gamma(x), result);
  result = where((m < 0) | ne(m, floor(m)), kNaN, result);
  return {cast(result, ctx.out_dtype()).value()};
}

}  // namespace sardonyx::jax_to_onnx
