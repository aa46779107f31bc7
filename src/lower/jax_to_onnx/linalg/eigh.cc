// eigh[lower, subset_by_index] a   =>   eigenvectors and ascending eigenvalues of a Hermitian matrix
//
// Jacobi's method, all pairs of one round at once (matrix.h): rotations zero the elements (i, i + n/2) until
// the off-diagonal norm is below the last bit of the norm of the matrix. It converges quadratically; no
// matrix needs more than a dozen sweeps.
#include "lower/jax_to_onnx/linalg/matrix.h"
#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr int64_t kSweeps = 16;

struct Decomposition {
  Num values;       // [..., n]
  Complex vectors;  // [..., n, n]
};

// Requires an even n.
Decomposition diagonalize(const Complex& a) {
  Scope outer = a.scope();
  Dims& dims = a.ctx().b.dims();
  Dim n = a.dim(-1), half = dims.floordiv(n, Dim::of(2));
  Complex identity = expand(identity_like(a, n, n), a.dims());
  double eps = epsilon(a.re);
  auto squares_off_diagonal = [&](const Complex& x) {
    Num on = eq(row_numbers(x), column_numbers(x));
    return reduce("ReduceSum", where(on, 0, square_of_abs(x)), {-2, -1});
  };
  Num whole = reduce("ReduceSum", square_of_abs(a), {-2, -1});
  Num limit(outer, a.ctx().b.i64(kSweeps));
  Num rounds(outer, count(a, dims.max(dims.sub(n, Dim::of(1)), Dim::of(1))));
  std::vector<Complex> s{a, identity};
  s = loop(outer, limit.value(), any(squares_off_diagonal(a) > 0), std::move(s),
           [&](const Num& sweep, std::vector<Complex>& swept) {
             swept = repeat(sweep.scope(), rounds.value(), swept, [&](const Num& round, std::vector<Complex>& state) {
               Num order = tournament(round.scope(), n);
               Num main = diagonal(state[0]).re;
               // The elements that the pairs share: the diagonal of the upper right quarter.
               Complex quarter = slice(slice(state[0], -1, half, n), -2, Dim::of(0), half);
               Rotation r = jacobi_rotation(slice(main, -1, Dim::of(0), half), slice(main, -1, half, n), diagonal(quarter));
               Complex rotated = permute_columns(rotate_columns(state[0], r), order);
               // The result is Hermitian: rotating the columns of the adjoint rotates its rows.
               state[0] = permute_columns(rotate_columns(adjoint(rotated), r), order);
               state[1] = permute_columns(rotate_columns(state[1], r), order);
             });
             return any(squares_off_diagonal(swept[0]) > whole * (eps * eps));
           });
  return {diagonal(s[0]).re, s[1]};
}

}  // namespace

std::vector<Value*> lower_eigh(Lowering& ctx) {
  Complex a = operand(ctx, 0);
  if (!ctx.bool_param("lower", true)) a = adjoint(a);
  a = from_lower_triangle(a);
  Dim n = a.dim(-1);
  Dims& dims = ctx.b.dims();
  // An odd size gets a row and a column of zeros. No rotation changes them, and they return to their position
  // after a sweep.
  Dim even = dims.mul(dims.ceildiv(n, Dim::of(2)), Dim::of(2));
  bool is_padded = !(even == n);
  if (is_padded) a = padded_square(a, dims.sub(even, n));
  Decomposition d = diagonalize(a);
  if (is_padded) {
    d.values = slice(d.values, -1, Dim::of(0), n);
    d.vectors = slice(slice(d.vectors, -1, Dim::of(0), n), -2, Dim::of(0), n);
  }
  auto axis = static_cast<int64_t>(d.values.rank()) - 1;
  Node& sorted = ctx.b.TopK(d.values.value(), ctx.shape({&n, 1}), {.axis = axis, .largest = false});
  Complex values(Num(ctx, sorted.result(0)));
  Complex vectors = columns_by_number(d.vectors, Num(ctx, sorted.result(1)));
  if (const Attr* subset = ctx.find_param("subset_by_index")) {
    auto bounds = ints_of(ctx, *subset, "subset_by_index");
    values = slice(values, -1, Dim::of(bounds[0]), Dim::of(bounds[1]));
    vectors = slice(vectors, -1, Dim::of(bounds[0]), Dim::of(bounds[1]));
  }
  return {result(ctx, vectors, 0), values.re.value()};
}

}  // namespace sardonyx::jax_to_onnx
