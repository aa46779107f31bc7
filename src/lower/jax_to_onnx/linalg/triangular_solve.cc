// triangular_solve[left_side, lower, transpose_a, conjugate_a, unit_diagonal] a b
//                               =>   x with op(a) x = b, or x op(a) = b
//     Substitution, one row of x at a time.
// tridiagonal_solve dl d du b   =>   x with the matrix of these diagonals times x = b
//     Elimination that exchanges adjacent rows, as in LAPACK's gtsv, then substitution. With
//     perturb_singular, a pivot whose quotient would overflow is shifted away from zero, by the machine
//     precision times the largest element of the eliminated matrix.
// symmetric_product[alpha, beta] a c   =>   alpha a a^T + beta c
#include <limits>
#include <numbers>
#include <optional>

#include "lower/jax_to_onnx/kernels.h"
#include "lower/jax_to_onnx/linalg/matrix.h"
#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

// x with m x = b. Only the triangle of m counts.
Complex substitute(const Complex& m, const Complex& b, bool is_lower, bool unit_diagonal) {
  Num last(m.scope(), count(m, m.ctx().b.dims().sub(m.dim(-1), Dim::of(1))));
  Complex strict = is_lower ? lower_triangle(m, -1) : upper_triangle(m, 1);
  std::vector<Complex> s{full_like(m.is_real() ? b : Complex(b.re, b.imaginary()), 0)};
  s = repeat(m.scope(), count(m, m.dim(-1)), std::move(s), [&](const Num& step, std::vector<Complex>& state) {
    Num i = is_lower ? step : last - step;
    Complex known = row(b, i) - matmul(row(strict, i), state[0]);
    if (!unit_diagonal) known = known / element(m, i, i);
    state[0] = where(eq(row_numbers(state[0]), i), known, state[0]);
  });
  return s[0];
}

}  // namespace

std::vector<Value*> lower_triangular_solve(Lowering& ctx) {
  const DType own = ctx.out_dtype(), wide = is_complex(own) ? own : kernel_dtype(ctx, {"MatMul", "Div"}, own);
  const auto widened = [&](size_t i) { return wide == own ? operand(ctx, i) : Complex(Num(ctx, ctx.cast(ctx.in(i), wide))); };
  Complex a = widened(0), b = widened(1);
  bool left = ctx.bool_param("left_side"), is_lower = ctx.bool_param("lower"), transposed = ctx.bool_param("transpose_a");
  if (ctx.bool_param("conjugate_a")) a = conj(a);
  // x op(a) = b is op(a)^T x^T = b^T.
  if (transposed == left) {
    a = swap_last_axes(a);
    is_lower = !is_lower;
  }
  if (!left) b = swap_last_axes(b);
  Complex x = substitute(a, b, is_lower, ctx.bool_param("unit_diagonal"));
  Value* solved = result(ctx, left ? x : swap_last_axes(x));
  return {wide == own ? solved : ctx.cast(solved, own)};
}

namespace {

// Row i of vectors, and of matrices whose first matrix axis is the rows.
Complex take(const Complex& x, const Num& i) { return row(x, i); }
Complex put(const Complex& x, const Num& i, const Complex& v) { return where(eq(row_numbers(x), i), v, x); }

// The smallest normal number; its reciprocal is finite.
double smallest(const Lowering& ctx) {
  return ctx.out_dtype() == DType::kF64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}

}  // namespace

std::vector<Value*> lower_tridiagonal_solve(Lowering& ctx) {
  const bool perturbs = ctx.bool_param("perturb_singular", false);
  if (perturbs && is_complex(ctx.out_dtype())) ctx.unsupported("perturb_singular of complex numbers");
  auto as_column = [&](size_t i) { return unsqueeze(operand(ctx, i), -1); };
  Complex below = as_column(0), main = as_column(1), above = as_column(2), b = operand(ctx, 3);
  Dim n = main.dim(-2);
  Lowering& here = ctx;
  Num one(here, here.b.i64(1));
  Num last(here, count(main, here.b.dims().sub(n, Dim::of(1))));
  // Rows i and i + 1 have columns i, i + 1, i + 2; the row with the larger leading element becomes row i.
  std::vector<Complex> s{main, above, full_like(above, 0), b};
  s = repeat(main.scope(), last.value(), std::move(s), [&](const Num& i, std::vector<Complex>& state) {
    Num next = i + 1;
    Complex first = take(state[0], i), second = take(state[1], i), right = take(state[3], i);
    Complex lead = take(below, next), middle = take(state[0], next), end = take(state[1], next),
            right_next = take(state[3], next);
    Num swap = abs(lead) > abs(first);
    auto upper = [&](const Complex& x, const Complex& y) { return where(swap, y, x); };
    auto under = [&](const Complex& x, const Complex& y) { return where(swap, x, y); };
    Complex zero(first.re.of(0));
    Complex pivot = upper(first, lead), factor = under(first, lead) / pivot;
    // If both are zero there is nothing to eliminate.
    if (perturbs) factor = where(eq(pivot.re, 0), 0, factor);
    Complex u1 = upper(second, middle), u2 = upper(zero, end), u3 = upper(right, right_next);
    state[0] = put(put(state[0], i, pivot), next, under(second, middle) - factor * u1);
    state[1] = put(put(state[1], i, u1), next, under(zero, end) - factor * u2);
    state[2] = put(state[2], i, u2);
    state[3] = put(put(state[3], i, u3), next, under(right, right_next) - factor * u3);
  });
  // How far to shift a pivot that is too small to divide by away from zero.
  std::optional<Num> step_aside;
  if (perturbs) {
    auto largest_of = [](const Num& v) { return reduce("ReduceMax", abs(v), {-2, -1}, true); };
    Num inside = where(row_numbers(s[1]) < last, s[1].re, 0);
    step_aside = max(max(max(largest_of(s[0].re), largest_of(inside)), largest_of(s[2].re)) * epsilon(s[0].re), smallest(ctx));
  }
  std::vector<Complex> x{s[3]};
  Num top(here, here.dim(n));
  x = repeat(main.scope(), top.value(), std::move(x), [&](const Num& step, std::vector<Complex>& state) {
    Num i = last - step;
    // Rows beyond the end do not exist: a factor of zero removes them.
    Num j = min(i + 1, last), k = min(i + 2, last);
    Complex zero(state[0].re.of(0));
    Complex a1 = where(i < last, take(s[1], i), zero), a2 = where(i + 1 < last, take(s[2], i), zero);
    Complex value = take(state[0], i) - a1 * take(state[0], j) - a2 * take(state[0], k);
    Complex pivot = take(s[0], i);
    if (perturbs) {
      // LAPACK's lagts adds the step, twice the step, ... until the quotient is finite: 2^k - 1 steps.
      // Rounding may put the logarithm above a whole number; 1e-6 allows for that.
      Num size = abs(pivot.re), limit = abs(value.re) * smallest(ctx);
      Num overflows = eq(size, 0) | ((size < 1) & (limit > size));
      Num doublings = -floor(1e-6 - log((limit - size) / *step_aside + 1) * std::numbers::log2e);
      Num way = (pow(2, max(doublings, 1)) - 1) * *step_aside;
      Num shifted = where(pivot.re.with(sign_bit(pivot.ctx(), pivot.re.value())), pivot.re - way, pivot.re + way);
      pivot = where(overflows, shifted, pivot.re);
    }
    state[0] = put(state[0], i, value / pivot);
  });
  return {result(ctx, x[0])};
}

std::vector<Value*> lower_symmetric_product(Lowering& ctx) {
  Num a(ctx, ctx.operands()[0]), c(ctx, ctx.in(1));
  double alpha = ctx.float_param("alpha"), beta = ctx.float_param("beta");
  Num product = matmul(a, swap_last_axes(a));
  if (alpha != 1) product = product * alpha;
  return {(beta == 0 ? product : product + c * beta).value()};
}

}  // namespace sardonyx::jax_to_onnx
