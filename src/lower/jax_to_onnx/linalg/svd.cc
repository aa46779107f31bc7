// svd[compute_uv, full_matrices, subset_by_index] a   =>   singular values; with compute_uv also U, V^H
//
// The singular values are descending. One-sided Jacobi (Hestenes 1958): rotations from the right make the
// columns of a orthogonal, pair by pair, all pairs of one round at once (matrix.h). Then a V = U S. Its QR
// factorization gives U, which is orthogonal even if singular values vanish, and a diagonal that is S up to
// signs. A matrix with more columns than rows is replaced by its adjoint. If the order of the two sizes is
// unknown, columns that vanish at run time come last.
#include "lower/jax_to_onnx/linalg/matrix.h"
#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr int64_t kSweeps = 20;

// The matrix with orthogonal columns, and the accumulated rotations.
struct Orthogonalized {
  Complex columns, v;
};

// Requires an even number of columns.
Orthogonalized orthogonalize(const Complex& a) {
  Scope outer = a.scope();
  Dims& dims = a.ctx().b.dims();
  Dim n = a.dim(-1), half = dims.floordiv(n, Dim::of(2));
  std::vector<Dim> square(a.dims().begin(), a.dims().end());
  square[square.size() - 2] = n;
  Complex identity = expand(identity_like(a, n, n), square);
  Num limit(outer, a.ctx().b.i64(kSweeps));
  Num rounds(outer, count(a, dims.max(dims.sub(n, Dim::of(1)), Dim::of(1))));
  // Columns no longer than the rounding errors of the whole matrix count as zero: nothing needs to be
  // orthogonal to them.
  double eps = epsilon(a.re);
  Num negligible = unsqueeze(reduce("ReduceSum", square_of_abs(a), {-2, -1}), -1) * (eps * eps);
  Num worst = full_like(unsqueeze(reduce("ReduceSum", square_of_abs(a), {-2, -1}), -1), 0);
  std::vector<Complex> s{a, identity, Complex(worst)};
  s = loop(outer, limit.value(), {}, std::move(s), [&](const Num& sweep, std::vector<Complex>& swept) -> std::optional<Num> {
    swept[2] = Complex(full_like(worst, 0));
    swept = repeat(sweep.scope(), rounds.value(), swept, [&](const Num& round, std::vector<Complex>& state) {
      Num order = tournament(round.scope(), n);
      Complex p = slice(state[0], -1, Dim::of(0), half), q = slice(state[0], -1, half, n);
      Num pp = sum(square_of_abs(p), -2), qq = sum(square_of_abs(q), -2);
      Complex pq = sum(conj(p) * q, -2);
      Num scale = sqrt(pp) * sqrt(qq);
      Num counts = (pp > negligible) & (qq > negligible);
      Num cosine = where(counts, abs(pq) / where(counts, scale, 1), 0);
      state[2] = Complex(max(state[2].re, reduce("ReduceMax", cosine, {-1}, true)));
      Rotation r = jacobi_rotation(pp, qq, pq);
      state[0] = permute_columns(rotate_columns(state[0], r), order);
      state[1] = permute_columns(rotate_columns(state[1], r), order);
    });
    return any(swept[2].re > 4 * eps);
  });
  return {s[0], s[1]};
}

}  // namespace

std::vector<Value*> lower_svd(Lowering& ctx) {
  Dims& dims = ctx.b.dims();
  Complex a = operand(ctx, 0);
  bool is_tall = dims.less_equal(a.dim(-1), a.dim(-2)), is_wide = !is_tall && dims.less_equal(a.dim(-2), a.dim(-1));
  if (is_wide) a = adjoint(a);
  Dim m = a.dim(-2), n = a.dim(-1), k = is_tall || is_wide ? n : smaller(a);

  Dim even = dims.mul(dims.ceildiv(n, Dim::of(2)), Dim::of(2));
  bool is_padded = !(even == n);
  Orthogonalized o = orthogonalize(is_padded ? padded(a, -1, dims.sub(even, n)) : a);
  if (is_padded) {
    o.columns = slice(o.columns, -1, Dim::of(0), n);
    o.v = slice(slice(o.v, -1, Dim::of(0), n), -2, Dim::of(0), n);
  }
  Num lengths = sqrt(sum(square_of_abs(o.columns), -2));
  auto axis = static_cast<int64_t>(lengths.rank()) - 1;
  Node& sorted = ctx.b.TopK(lengths.value(), ctx.shape({&n, 1}), {.axis = axis});
  Dim first = Dim::of(0), stop = k;  // the requested singular values
  if (ctx.find_param("subset_by_index") != nullptr) {
    auto range = ctx.dims_param("subset_by_index");
    first = range.at(0);
    stop = range.at(1);
  }
  bool is_subset = !first.is(0) || !(stop == k);
  auto chosen = [&](const auto& x, int64_t along) { return is_subset ? slice(x, along, first, stop) : x; };
  if (!ctx.bool_param("compute_uv", true)) {
    Num values(ctx, sorted.result(0));
    return {chosen(k == n ? values : slice(values, -1, Dim::of(0), k), -1).value()};
  }

  Num order(ctx, sorted.result(1));
  Complex v = columns_by_number(o.v, order);
  Factored f = qr_factorize(columns_by_number(o.columns, order));
  bool is_full = ctx.bool_param("full_matrices", true);
  Complex u = qr_orthogonal(f, is_full ? m : k);
  if (!is_full && !(k == n)) v = slice(v, -1, Dim::of(0), k);
  // R's diagonal holds the singular values up to signs, which move to the columns of U.
  Num main = diagonal(f.packed).re;
  Num signs = where(main < 0, -1, main.of(1));
  if (is_full && !(m == k)) {
    std::vector<Dim> rest(signs.dims().begin(), signs.dims().end());
    rest.back() = dims.sub(m, k);
    signs = concat({signs, Num(ctx, ctx.full(signs.dtype(), rest, 1))}, -1);
  }
  u = u * Complex(unsqueeze(signs, -2));
  Complex left = is_wide ? v : u, right = adjoint(is_wide ? u : v);
  return {chosen(abs(main), -1).value(), result(ctx, chosen(left, -1), 1), result(ctx, chosen(right, -2), 2)};
}

}  // namespace sardonyx::jax_to_onnx
