// lu a   =>   L and U in one matrix, the row exchanged with row i at step i, and the permutation of all rows
// lu_pivots_to_permutation[permutation_size] pivots   =>   0, 1, 2, .. after the same exchanges
//
// Gaussian elimination. The pivot is the largest element of the column; a column of zeros stays as it is.
#include "lower/jax_to_onnx/linalg/matrix.h"

namespace sardonyx::jax_to_onnx {
namespace {

// Exchanges rows i and j of x; j is [..., 1, 1], one row per matrix of the batch.
Complex exchange_rows(const Complex& x, const Num& i, const Num& j) {
  Num rows = row_numbers(x);
  Num is_j = eq(rows, j);
  Complex at_i = row(x, i);
  Complex at_j = sum(where(is_j, x, Complex(x.re.of(0))), -2, true);
  return where(eq(rows, i), at_j, where(is_j, at_i, x));
}

// 0, 1, 2, .. as columns of i64, one per matrix.
Complex counting(Lowering& ctx, std::span<const Dim> batch, Dim n) {
  std::vector<Dim> dims(batch.begin(), batch.end());
  dims.insert(dims.end(), {n, Dim::of(1)});
  Num rows = unsqueeze(iota({&ctx}, DType::kI64, n), 1);
  return expand(rows, dims);
}

}  // namespace

std::vector<Value*> lower_lu(Lowering& ctx) {
  Complex a = operand(ctx, 0);
  Dim steps = smaller(a);
  auto batch = a.dims().first(a.rank() - 2);
  // The matrix, the pivots, the permutation.
  std::vector<Complex> s{a, counting(ctx, batch, steps), counting(ctx, batch, a.dim(-2))};
  s = repeat(a.scope(), count(a, steps), std::move(s), [&](const Num& i, std::vector<Complex>& state) {
    Num rows = row_numbers(a), columns = column_numbers(a);
    Complex candidates = column(state[0], i);
    Num sizes = candidates.im ? abs(candidates.re) + abs(*candidates.im) : abs(candidates.re);
    sizes = where(rows >= i, sizes, -1);
    Num pivot = apply("ArgMax", {sizes}, {attr("axis", static_cast<int64_t>(sizes.rank()) - 2)});
    Complex m = exchange_rows(state[0], i, pivot);
    state[2] = exchange_rows(state[2], i, pivot);
    state[1] = where(eq(row_numbers(state[1]), i), Complex(pivot), state[1]);

    Complex first = column(m, i), line = row(m, i), lead = row(first, i);
    Num is_zero = eq(abs(lead), 0);
    Complex factors = where((rows > i) & !is_zero, first / where(is_zero, Complex(a.re.of(1)), lead), Complex(a.re.of(0)));
    m = m - matmul(factors, where(columns > i, line, Complex(a.re.of(0))));
    state[0] = with_column(m, i, where((rows > i) & !is_zero, factors, first));
  });
  auto numbers = [&](const Complex& x) { return cast(squeeze(x.re, -1), DType::kI32).value(); };
  return {result(ctx, s[0]), numbers(s[1]), numbers(s[2])};
}

std::vector<Value*> lower_lu_pivots_to_permutation(Lowering& ctx) {
  Num pivots(ctx, ctx.cast(ctx.in(0), DType::kI64));
  pivots = unsqueeze(pivots, -1);
  auto batch = ctx.in_dims(0).first(ctx.in_rank(0) - 1);
  std::vector<Complex> s{counting(ctx, batch, ctx.out_dims().back())};
  s = repeat({&ctx}, ctx.dim(ctx.in_dims(0).back()), std::move(s),
             [&](const Num& i, std::vector<Complex>& state) { state[0] = exchange_rows(state[0], i, row(pivots, i).re); });
  return {cast(squeeze(s[0].re, -1), ctx.out_dtype()).value()};
}

}  // namespace sardonyx::jax_to_onnx
