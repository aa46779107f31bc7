// cholesky a            =>   L, lower triangular, with L L^H = a
// cholesky_update R w   =>   the upper triangular factor of R^T R + w w^T: rotations of each row of R with w
//
// cholesky subtracts each column from those that remain (right-looking). It reads the lower triangle of a. As
// in JAX, the result is NaN everywhere if a matrix is not positive definite.
#include <limits>

#include "lower/jax_to_onnx/linalg/matrix.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_cholesky(Lowering& ctx) {
  Complex a = operand(ctx, 0);
  std::vector<Complex> s{a, full_like(a, 0)};
  s = repeat(a.scope(), count(a, a.dim(-1)), std::move(s), [&](const Num& i, std::vector<Complex>& state) {
    Num rows = row_numbers(a);
    Num pivot = sqrt(element(state[0], i, i).re);
    Complex c = column(state[0], i) / Complex(pivot);
    c = where(rows > i, c, where(eq(rows, i), Complex(pivot), Complex(a.re.of(0))));
    state[0] = state[0] - matmul(c, adjoint(c));
    state[1] = with_column(state[1], i, c);
  });
  // A zero pivot makes its column infinite or NaN; the root of a negative pivot is NaN.
  Num pivots = diagonal(s[1]).re;
  Num is_bad = reduce("ReduceMin", pivots, {-1}) <= 0;
  Num total = sum(pivots, -1);
  is_bad = is_bad | is_nan(total);
  is_bad = unsqueeze(unsqueeze(is_bad, -1), -1);
  return {
      result(ctx, each_part(s[1], [&](const Num& v) { return where(is_bad, std::numeric_limits<double>::quiet_NaN(), v); }))};
}

std::vector<Value*> lower_cholesky_update(Lowering& ctx) {
  Num r(ctx, ctx.operands()[0]), w = unsqueeze(Num(ctx, ctx.in(1)), -2);
  std::vector<Num> s{r, w};
  s = repeat(r.scope(), count(r, r.dim(-1)), std::move(s), [&](const Num& i, std::vector<Num>& state) {
    Complex all(state[0]);
    Num line = row(all, i).re, x = gather(state[1], i, -1), diagonal = gather(line, i, -1);
    x = unsqueeze(x, -1), diagonal = unsqueeze(diagonal, -1);
    Num radius = abs(Complex(diagonal, x));
    Num is_zero = eq(radius, 0);
    Num safe = where(is_zero, 1, radius);
    Num c = where(is_zero, 1, diagonal / safe), sine = x / safe;
    Num rotated = line * c + state[1] * sine;
    state[1] = state[1] * c - line * sine;
    state[0] = where(eq(row_numbers(all), i), rotated, state[0]);
  });
  return {upper_triangle(s[0]).re.value()};
}

}  // namespace sardonyx::jax_to_onnx
