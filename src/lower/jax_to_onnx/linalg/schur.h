// Hessenberg and Schur forms, from which the eigenvalues of general matrices come.
#pragma once

#include "lower/jax_to_onnx/linalg/matrix.h"

namespace sardonyx::jax_to_onnx {

// x = Q H Q^H in the form of LAPACK's gehrd: H on and above the first subdiagonal, the reflection vectors
// below; tau is [..., n - 1].
Factored hessenberg(const Complex& x);
Complex hessenberg_orthogonal(const Factored& f);

// x = Z T Z^H with an upper triangular T and a unitary Z.
struct Schur {
  Complex t, z;
};
// For complex matrices.
Schur schur(const Complex& x);

}  // namespace sardonyx::jax_to_onnx
