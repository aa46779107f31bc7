#include "lower/jax_to_onnx/linalg/matrix.h"

#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

Num below_diagonal(const Complex& x, int64_t k) {
  Num rows = row_numbers(x), columns = column_numbers(x);
  return k == 0 ? rows >= columns : rows + static_cast<double>(k) >= columns;
}

Complex zero(const Complex& x) { return x.re.of(0); }

}  // namespace

Num row_numbers(const Complex& x) { return unsqueeze(iota(x.scope(), DType::kI64, x.dim(-2)), 1); }
Num column_numbers(const Complex& x) { return unsqueeze(iota(x.scope(), DType::kI64, x.dim(-1)), 0); }

Complex lower_triangle(const Complex& x, int64_t k) { return where(below_diagonal(x, k), x, zero(x)); }
Complex upper_triangle(const Complex& x, int64_t k) { return where(below_diagonal(x, k - 1), zero(x), x); }

Complex identity_like(const Complex& x, Dim rows, Dim columns) {
  Num i = unsqueeze(iota(x.scope(), DType::kI64, rows), 1), j = unsqueeze(iota(x.scope(), DType::kI64, columns), 0);
  Num one = cast(eq(i, j), x.re.dtype());
  return x.is_real() ? Complex(one) : Complex(one, full_like(one, 0));
}

Dim smaller(const Complex& x) {
  Dims& dims = x.ctx().b.dims();
  return dims.less_equal(x.dim(-2), x.dim(-1))   ? x.dim(-2)
         : dims.less_equal(x.dim(-1), x.dim(-2)) ? x.dim(-1)
                                                 : dims.min(x.dim(-2), x.dim(-1));
}

Complex diagonal(const Complex& x) {
  Num on = eq(row_numbers(x), column_numbers(x));
  Complex all = sum(where(on, x, zero(x)), -2);
  return slice(all, -1, Dim::of(0), smaller(x));
}

Complex from_lower_triangle(const Complex& x) {
  Complex strict = lower_triangle(x, -1);
  Num on = eq(row_numbers(x), column_numbers(x));
  return strict + adjoint(strict) + Complex(where(on, x.re, x.re.of(0)));
}

Reflection reflection(const Complex& x, const Num& k) {
  Num rows = row_numbers(x);
  Complex alpha = row(x, k);
  Complex rest = where(rows > k, x, zero(x));
  // The norm, scaled so that its squares do not overflow.
  Num size = abs(rest);
  Num largest = reduce("ReduceMax", size, {-2}, /*keepdims=*/true);
  Num scaled = where(eq(largest, 0), size, size / largest);
  Num tail = sqrt(sum(scaled * scaled, -2, true)) * largest;
  Num norm = abs(Complex(abs(alpha), tail));
  Num is_done = eq(tail, 0);
  if (alpha.im) is_done = is_done & eq(*alpha.im, 0);
  Num beta = where(is_done, alpha.re, where(alpha.re >= 0, -norm, norm));
  Complex tau = where(is_done, zero(x),
                      Complex(beta - alpha.re, alpha.im ? std::optional<Num>(-*alpha.im) : std::nullopt) / Complex(beta));
  Complex v = where(is_done, zero(x), rest / where(is_done, Complex(x.re.of(1)), alpha - beta));
  v = where(eq(rows, k), Complex(x.re.of(1)), v);
  return {v, tau, Complex(beta)};
}

Factored qr_factorize(const Complex& x) {
  Dim k = smaller(x);
  std::vector<Dim> dims(x.dims().begin(), x.dims().end() - 2);
  dims.push_back(k);
  Complex tau = each_part(x, [&](const Num& v) { return v.with(v.ctx().zeros(v.dtype(), dims)); });
  std::vector<Complex> s{x, tau};
  s = repeat(x.scope(), count(x, k), std::move(s), [&](const Num& i, std::vector<Complex>& state) {
    Complex a = state[0];
    Complex old = column(a, i);
    Reflection h = reflection(old, i);
    Num rows = row_numbers(a), columns = column_numbers(a);
    a = where(columns > i, reflect_rows(h.v, conj(h.tau), a), a);
    Complex kept = where(rows > i, h.v, where(eq(rows, i), h.beta, old));
    state[0] = with_column(a, i, kept);
    state[1] = where(eq(iota(i.scope(), DType::kI64, k), i), squeeze(h.tau, -1), state[1]);
  });
  return {s[0], s[1]};
}

Complex qr_orthogonal(const Factored& f, Dim columns) {
  const Complex& a = f.packed;
  std::vector<Dim> dims(a.dims().begin(), a.dims().end());
  dims.back() = columns;
  Complex q = expand(identity_like(a, a.dim(-2), columns), dims);
  Dim k = f.tau.dim(-1);
  Num last(a.scope(), count(a, a.ctx().b.dims().sub(k, Dim::of(1))));
  std::vector<Complex> s{q};
  s = repeat(a.scope(), count(a, k), std::move(s), [&](const Num& step, std::vector<Complex>& state) {
    Num i = last - step;
    Num rows = row_numbers(a);
    Complex v = where(rows > i, column(a, i), where(eq(rows, i), Complex(a.re.of(1)), zero(a)));
    Complex tau = unsqueeze(column(f.tau, i), -1);
    state[0] = reflect_rows(v, tau, state[0]);
  });
  return s[0];
}

// Returns the smaller of the two angles. W. Ford, "Numerical linear algebra"; Golub and Van Loan, 8.5.
Rotation jacobi_rotation(const Num& a, const Num& b, const Complex& w) {
  Num size = abs(w);
  Num is_zero = eq(size, 0);
  Num safe = where(is_zero, 1, size);
  Num tau = (b - a) / (safe * 2);
  Num t = 1 / (abs(tau) + sqrt(tau * tau + 1));
  t = where(is_zero, 0, where(tau >= 0, t, -t));
  Num c = 1 / sqrt(t * t + 1);
  // The sine carries the phase of w.
  Num s = t * c;
  return {c, Complex(w / Complex(safe)) * Complex(s)};
}

// Maps the upper row t0 t1 .. and the lower row b0 b1 .. to t0 b0 t1 .. t(h-2) above and b1 .. b(h-1) t(h-1)
// below.
Num tournament(Scope scope, Dim n) {
  Lowering& ctx = *scope.ctx;
  if (n.is_int()) {
    int64_t h = n.value() / 2;
    std::vector<int64_t> from;
    for (int64_t i = 0; i < h; ++i) from.push_back(i == 0 ? 0 : i == 1 ? h : i - 1);
    for (int64_t i = h; i < n.value(); ++i) from.push_back(h == 1 ? i : i == n.value() - 1 ? h - 1 : i + 1);
    return {scope, ctx.b.i64s(from)};
  }
  Num i = iota(scope, DType::kI64, n);
  Num h(scope, ctx.dim(ctx.b.dims().floordiv(n, Dim::of(2))));
  Num upper = where(eq(i, 0), 0, where(eq(i, 1), h, i - 1));
  Num lower = where(eq(i, h * 2 - 1), h - 1, i + 1);
  return where(h > 1, where(i < h, upper, lower), i);
}

Complex rotate_columns(const Complex& x, const Rotation& r) {
  Dims& dims = x.ctx().b.dims();
  Dim n = x.dim(-1), half = dims.floordiv(n, Dim::of(2));
  Complex p = slice(x, -1, Dim::of(0), half), q = slice(x, -1, half, n);
  Complex c = unsqueeze(r.c, -2), s = unsqueeze(r.s, -2);
  return concat({c * p - conj(s) * q, s * p + c * q}, -1);
}

Complex permute_columns(const Complex& x, const Num& order) {
  return each_part(
      x, [&](const Num& v) { return apply("Gather", {v, order}, {attr("axis", static_cast<int64_t>(v.rank()) - 1)}); });
}

Complex columns_by_number(const Complex& x, const Num& numbers) {
  Num index = expand(unsqueeze(numbers, -2), x.dims());
  return each_part(
      x, [&](const Num& v) { return apply("GatherElements", {v, index}, {attr("axis", static_cast<int64_t>(v.rank()) - 1)}); });
}

Complex padded(const Complex& x, int64_t axis, Dim more) {
  std::vector<Dim> dims(x.dims().begin(), x.dims().end());
  dims[dims.size() - static_cast<size_t>(-axis)] = more;
  return each_part(x, [&](const Num& v) { return concat({v, v.with(v.ctx().zeros(v.dtype(), dims))}, axis); });
}

Value* count(const Complex& x, Dim d) { return x.ctx().dim(d); }

}  // namespace sardonyx::jax_to_onnx
