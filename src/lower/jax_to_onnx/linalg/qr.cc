// geqrf a                              =>   R, the reflection vectors below it, and their factors
// householder_product a taus           =>   the first columns of the product of the reflections
// ormqr[left, transpose] a taus c      =>   that product, or its adjoint, times c; or c times it
// qr[full_matrices, pivoting] a        =>   Q and R
//
// With pivoting, each step takes the longest of the remaining columns.
#include "lower/jax_to_onnx/linalg/matrix.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_geqrf(Lowering& ctx) {
  Factored f = qr_factorize(operand(ctx, 0));
  return {result(ctx, f.packed, 0), result(ctx, f.tau, 1)};
}

std::vector<Value*> lower_householder_product(Lowering& ctx) {
  return {result(ctx, qr_orthogonal({operand(ctx, 0), operand(ctx, 1)}, ctx.out_dims().back()))};
}

std::vector<Value*> lower_ormqr(Lowering& ctx) {
  Complex a = operand(ctx, 0), tau = operand(ctx, 1), c = operand(ctx, 2);
  bool left = ctx.bool_param("left"), transposed = ctx.bool_param("transpose");
  Dim k = tau.dim(-1);
  Num last({&ctx}, count(a, ctx.b.dims().sub(k, Dim::of(1))));
  // Q = H_0 H_1 ..: from the left, the last reflection is applied first; from the right, the first one.
  bool from_last = left != transposed;
  std::vector<Complex> s{c};
  s = repeat({&ctx}, count(a, k), std::move(s), [&](const Num& step, std::vector<Complex>& state) {
    Num i = from_last ? last - step : step;
    Num rows = row_numbers(a);
    Complex v = where(rows > i, column(a, i), where(eq(rows, i), Complex(a.re.of(1)), Complex(a.re.of(0))));
    Complex t = unsqueeze(column(tau, i), -1);
    if (transposed) t = conj(t);
    state[0] = left ? reflect_rows(v, t, state[0]) : reflect_columns(v, t, state[0]);
  });
  return {result(ctx, s[0])};
}

namespace {

// Orders the columns of x so that at each step the longest of the remaining ones comes first. Returns the
// columns and their order, i64 [..., 1, n].
std::pair<Complex, Complex> pivoted(const Complex& x) {
  std::vector<Dim> dims(x.dims().begin(), x.dims().end());
  dims[x.rank() - 2] = Dim::of(1);
  Complex order = expand(unsqueeze(iota(x.scope(), DType::kI64, x.dim(-1)), 0), dims);
  // The columns in their order, their remainders after the reflections, and the order.
  std::vector<Complex> s{x, x, order};
  s = repeat(x.scope(), count(x, smaller(x)), std::move(s), [&](const Num& i, std::vector<Complex>& state) {
    Num rows = row_numbers(x), columns = column_numbers(x);
    Num lengths = sum(where(rows >= i, square_of_abs(state[1]), 0), -2, true);
    lengths = where(columns >= i, lengths, -1);
    Num longest = apply("ArgMax", {lengths}, {attr("axis", static_cast<int64_t>(x.rank()) - 1)});
    Num is_longest = eq(columns, longest);
    auto exchange = [&](const Complex& m) {
      Complex here = column(m, i), there = sum(where(is_longest, m, Complex(m.re.of(0))), -1, true);
      return where(eq(columns, i), there, where(is_longest, here, m));
    };
    for (Complex& m : state) m = exchange(m);
    Reflection h = reflection(column(state[1], i), i);
    state[1] = reflect_rows(h.v, conj(h.tau), state[1]);
  });
  return {s[0], s[2]};
}

}  // namespace

std::vector<Value*> lower_qr(Lowering& ctx) {
  Complex a = operand(ctx, 0);
  std::vector<Value*> order;
  if (ctx.bool_param("pivoting", false)) {
    auto [columns, numbers] = pivoted(a);
    a = columns;
    order.push_back(cast(squeeze(numbers.re, -2), ctx.out_dtype(2)).value());
  }
  Factored f = qr_factorize(a);
  Complex q = qr_orthogonal(f, ctx.out_dims(0).back());
  Complex r = upper_triangle(slice(f.packed, -2, Dim::of(0), ctx.out_dims(1)[ctx.out_dims(1).size() - 2]));
  std::vector<Value*> results{result(ctx, q, 0), result(ctx, r, 1)};
  results.insert(results.end(), order.begin(), order.end());
  return results;
}

}  // namespace sardonyx::jax_to_onnx
