// Hessenberg and Schur forms, on which eigenvalues of general matrices rest.
#pragma once

#include "lower/matrix.h"

namespace sardonyx {

// x = Q H Q^H as LAPACK's gehrd leaves it: H on and above the first subdiagonal, below it the vectors of the reflections; tau is [..., n - 1].
Factored hessenberg(const Complex& x);
Complex hessenberg_orthogonal(const Factored& f);

// x = Z T Z^H with T upper triangular and Z unitary.
struct Schur {
  Complex t, z;
};
// Of a complex matrix.
Schur schur(const Complex& x);

}  // namespace sardonyx
