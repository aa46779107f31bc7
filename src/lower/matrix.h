// What lowerings of linear algebra share: matrices [..., rows, columns], addressed by column and row numbers that are known at run time only.
//
// The batch axes in front go along: a step does the same to all matrices at once, and where they need different rows or columns it
// works with masks. ONNX has no operator of linear algebra beyond products, so all of these are loops of whole-matrix steps.
#pragma once

#include "lower/complex.h"
#include "lower/params.h"

namespace sardonyx {

// Row and column numbers, i64 [rows, 1] and [1, columns].
Num row_numbers(const Complex& x);
Num column_numbers(const Complex& x);
// Column or row i as a matrix of one column, of one row.
inline Complex column(const Complex& x, const Num& i) { return unsqueeze(gather(x, i, -1), -1); }
inline Complex row(const Complex& x, const Num& i) { return unsqueeze(gather(x, i, -2), -2); }
// Element (i, j): [..., 1, 1].
inline Complex element(const Complex& x, const Num& i, const Num& j) { return row(column(x, j), i); }
// x with column i replaced by a matrix of one column.
inline Complex with_column(const Complex& x, const Num& i, const Complex& c) { return where(eq(column_numbers(x), i), c, x); }
// The part on and below (above) the k-th diagonal; zero elsewhere.
Complex lower_triangle(const Complex& x, int64_t k = 0);
Complex upper_triangle(const Complex& x, int64_t k = 0);
// Ones on the diagonal: [rows, columns], as complex as x.
Complex identity_like(const Complex& x, Dim rows, Dim columns);
// The diagonal as a vector [..., n]; n is the smaller size.
Complex diagonal(const Complex& x);
// The Hermitian matrix whose lower triangle is that of x.
Complex from_lower_triangle(const Complex& x);
// The smaller of two sizes: known when both are.
Dim smaller(const Complex& x);

// The reflection H = I - tau v v^H, v = (0.., 1, ..), with H^H x = (.., beta, 0..) below position k of the column x; LAPACK's larfg. beta is real.
// Where nothing is to be annihilated tau is 0.
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

// x = Q R as LAPACK's geqrf leaves it: R on and above the diagonal, below it the vectors of the reflections; tau is [..., k].
struct Factored {
  Complex packed, tau;
};
Factored qr_factorize(const Complex& x);
// The first `columns` columns of Q.
Complex qr_orthogonal(const Factored& f, Dim columns);

// Rotations that make a pair of vectors orthogonal, or a Hermitian 2 x 2 matrix [[a, w], [conj w, b]] diagonal: J = [[c, s], [-conj s, c]].
struct Rotation {
  Num c;
  Complex s;
};
Rotation jacobi_rotation(const Num& a, const Num& b, const Complex& w);

// Jacobi methods rotate all pairs (i, i + n/2) at once, and permute in between so that n - 1 rounds bring every pair together once (R.
// Brent and F. Luk, 1985). n is even.
Num tournament(Scope scope, Dim n);                           // i64 [n]: where each place takes its content from
Complex rotate_columns(const Complex& x, const Rotation& r);  // x J
Complex permute_columns(const Complex& x, const Num& order);

// The columns of x in the order that `numbers` [..., n] names, for each matrix its own.
Complex columns_by_number(const Complex& x, const Num& numbers);
// x with `more` zeros behind an axis; a square matrix with as many rows and columns.
Complex padded(const Complex& x, int64_t axis, Dim more);
inline Complex padded_square(const Complex& x, Dim more) { return padded(padded(x, -1, more), -2, more); }

// How often a loop over all columns runs: i64[].
Value* count(const Complex& x, Dim d);

}  // namespace sardonyx
