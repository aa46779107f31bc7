// hessenberg a            =>   H with the reflection vectors below its first subdiagonal, and their factors
// tridiagonal[lower] a    =>   the same for a Hermitian matrix, with its diagonal and subdiagonal
//
// The results are those of LAPACK's gehrd, sytrd and hetrd.
#include "lower/jax_to_onnx/linalg/schur.h"

namespace sardonyx::jax_to_onnx {

Factored hessenberg(const Complex& x) {
  Dim steps = x.ctx().b.dims().sub(x.dim(-1), Dim::of(1));
  std::vector<Dim> dims(x.dims().begin(), x.dims().end() - 2);
  dims.push_back(steps);
  Complex tau = each_part(x, [&](const Num& v) { return v.with(v.ctx().zeros(v.dtype(), dims)); });
  std::vector<Complex> s{x, tau};
  s = repeat(x.scope(), count(x, steps), std::move(s), [&](const Num& i, std::vector<Complex>& state) {
    Complex a = state[0];
    Num rows = row_numbers(a), columns = column_numbers(a), next = i + 1;
    Complex old = column(a, i);
    Reflection h = reflection(old, next);
    // Columns before i hold reflection vectors. v is zero in their rows, so the product from the right does
    // not change them.
    a = where(columns > i, reflect_rows(h.v, conj(h.tau), a), a);
    a = reflect_columns(h.v, h.tau, a);
    state[0] = with_column(a, i, where(rows > next, h.v, where(eq(rows, next), h.beta, old)));
    state[1] = where(eq(iota(i.scope(), DType::kI64, steps), i), squeeze(h.tau, -1), state[1]);
  });
  return {s[0], s[1]};
}

// Q: the product of the reflections, which act on all rows but the first.
Complex hessenberg_orthogonal(const Factored& f) {
  const Complex& a = f.packed;
  Dims& dims = a.ctx().b.dims();
  Dim n = a.dim(-1), steps = f.tau.dim(-1);
  Complex q = expand(identity_like(a, n, n), a.dims());
  Num last(a.scope(), count(a, dims.sub(steps, Dim::of(1))));
  std::vector<Complex> s{q};
  s = repeat(a.scope(), count(a, steps), std::move(s), [&](const Num& step, std::vector<Complex>& state) {
    Num i = last - step;
    Num rows = row_numbers(a), next = i + 1;
    Complex zero(a.re.of(0));
    Complex v = where(rows > next, column(a, i), where(eq(rows, next), Complex(a.re.of(1)), zero));
    state[0] = reflect_rows(v, unsqueeze(column(f.tau, i), -1), state[0]);
  });
  return s[0];
}

std::vector<Value*> lower_hessenberg(Lowering& ctx) {
  Factored f = hessenberg(operand(ctx, 0));
  return {result(ctx, f.packed, 0), result(ctx, f.tau, 1)};
}

namespace {

Complex reversed(const Complex& x, std::initializer_list<int64_t> axes) {
  std::vector<int64_t> at_axes, backwards, ends;
  for (int64_t axis : axes) {
    at_axes.push_back(axis);
    backwards.push_back(-1);
    ends.push_back(INT64_MIN);
  }
  return each_part(x, [&](const Num& v) {
    OnnxBuilder& b = v.ctx().b;
    return v.with(b.Slice(v.value(), b.i64s(backwards), b.i64s(ends), b.i64s(at_axes), b.i64s(backwards)));
  });
}

}  // namespace

// The upper triangle of a matrix is the lower triangle of the reversed matrix.
std::vector<Value*> lower_tridiagonal(Lowering& ctx) {
  bool is_lower = ctx.bool_param("lower");
  Complex given = operand(ctx, 0);
  Complex a = is_lower ? given : reversed(given, {-1, -2});
  Factored f = hessenberg(from_lower_triangle(a));
  Complex main = diagonal(f.packed);
  Dim n = a.dim(-1), steps = ctx.b.dims().sub(n, Dim::of(1));
  Complex below = diagonal(slice(slice(f.packed, -2, Dim::of(1), n), -1, Dim::of(0), steps));
  // Keeps the contents of the other triangle.
  Complex packed = where(row_numbers(a) >= column_numbers(a), f.packed, a), tau = f.tau;
  if (!is_lower) {
    packed = reversed(packed, {-1, -2});
    main = reversed(main, {-1}), below = reversed(below, {-1}), tau = reversed(tau, {-1});
  }
  return {result(ctx, packed, 0), main.re.value(), below.re.value(), result(ctx, tau, 3)};
}

}  // namespace sardonyx::jax_to_onnx
