// Shared by the lowerings of linear algebra: matrices [..., rows, columns], indexed by row and column numbers
// that are known only at run time.
//
// Each step handles all matrices of the batch at once; if they need different rows or columns, it uses masks.
// Products are ONNX's only operators of linear algebra, so these are loops of whole-matrix steps.
#pragma once

#include "lower/jax_to_onnx/lib/complex.h"
#include "lower/jax_to_onnx/params.h"

namespace sardonyx::jax_to_onnx {

// Row and column numbers, i64 [rows, 1] and [1, columns].
Num row_numbers(const Complex& x);
Num column_numbers(const Complex& x);
// Column i as a matrix of one column, row i as a matrix of one row.
inline Complex column(const Complex& x, const Num& i) { return unsqueeze(gather(x, i, -1), -1); }
inline Complex row(const Complex& x, const Num& i) { return unsqueeze(gather(x, i, -2), -2); }
// Element (i, j): [..., 1, 1].
inline Complex element(const Complex& x, const Num& i, const Num& j) { return row(column(x, j), i); }
// x with column i replaced by c, a matrix of one column.
inline Complex with_column(const Complex& x, const Num& i, const Complex& c) { return where(eq(column_numbers(x), i), c, x); }
// The part on and below (above) the k-th diagonal; the rest becomes zero.
Complex lower_triangle(const Complex& x, int64_t k = 0);
Complex upper_triangle(const Complex& x, int64_t k = 0);
// Ones on the diagonal: [rows, columns]; complex if x is.
Complex identity_like(const Complex& x, Dim rows, Dim columns);
// The diagonal as a vector [..., n]; n is the smaller size.
Complex diagonal(const Complex& x);
// The Hermitian matrix with the lower triangle of x.
Complex from_lower_triangle(const Complex& x);
// The smaller of the two sizes, if both are known.
Dim smaller(const Complex& x);

// The reflection H = I - tau v v^H, v = (0.., 1, ..), for which H^H x = (.., beta, 0..) below position k of
// the column x; LAPACK's larfg. beta is real. tau is 0 if there is nothing to annihilate.
struct Reflection {
  Complex v;     // [..., n, 1]
  Complex tau;   // [..., 1, 1]
  Complex beta;  // [..., 1, 1]
};
Reflection reflection(const Complex& x, const Num& k);
// (I - tau v v^H) x and x (I - tau v v^H).
inline Complex reflect_rows(const Complex& v, const Complex& tau, const Complex& x) {
  return x - tau * matmul(v, matmul(adjoint(v), x));
}
inline Complex reflect_columns(const Complex& v, const Complex& tau, const Complex& x) {
  return x - tau * matmul(matmul(x, v), adjoint(v));
}

// x = Q R in the form of LAPACK's geqrf: R on and above the diagonal, the reflection vectors below; tau is
// [..., k].
struct Factored {
  Complex packed, tau;
};
Factored qr_factorize(const Complex& x);
// The first `columns` columns of Q.
Complex qr_orthogonal(const Factored& f, Dim columns);

// A rotation J = [[c, s], [-conj s, c]] that makes two vectors orthogonal, or a Hermitian 2 x 2 matrix [[a,
// w], [conj w, b]] diagonal.
struct Rotation {
  Num c;
  Complex s;
};
Rotation jacobi_rotation(const Num& a, const Num& b, const Complex& w);

// Jacobi methods rotate all pairs (i, i + n/2) at once and permute in between, so that n - 1 rounds bring
// every pair together once (R. Brent and F. Luk, 1985). n is even.
Num tournament(Scope scope, Dim n);                           // i64 [n]: the position from which each one takes its content
Complex rotate_columns(const Complex& x, const Rotation& r);  // x J
Complex permute_columns(const Complex& x, const Num& order);

// The columns of x in the order `numbers` [..., n], which may differ per matrix.
Complex columns_by_number(const Complex& x, const Num& numbers);
// x with `more` zeros appended to an axis; a square matrix with as many rows and columns appended.
Complex padded(const Complex& x, int64_t axis, Dim more);
inline Complex padded_square(const Complex& x, Dim more) { return padded(padded(x, -1, more), -2, more); }

// The trip count of a loop over all columns: i64[].
Value* count(const Complex& x, Dim d);

}  // namespace sardonyx::jax_to_onnx
