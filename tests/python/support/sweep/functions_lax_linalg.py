"""`jax.lax.linalg`."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax.numpy as jnp
from jax import lax

from .functions_linalg import positive
from .rows import Rows

linalg = lax.linalg
ROWS = Rows(linalg)
LOOSE = {"tolerance": 2e-4, "because": "a decomposition multiplies rounding by the condition of its matrix"}

ROWS.add("cholesky", lambda a: linalg.cholesky(positive(a)), "f32[B,5,5]", **LOOSE)
ROWS.add("cholesky_update", lambda a, w: linalg.cholesky_update(linalg.cholesky(positive(a)).T, w), "f32[5,5]", "f32[5]", **LOOSE)
ROWS.add("eig", lambda a: jnp.sort(jnp.abs(linalg.eig(a)[0])), "f32[5,5]", **LOOSE)
ROWS.add("eigh", lambda a: linalg.eigh(positive(a))[1], "f32[5,5]", **LOOSE)
ROWS.add("hessenberg", lambda a: jnp.abs(jnp.triu(linalg.hessenberg(a)[0], -1)), "f32[5,5]", **LOOSE)
ROWS.add("householder_product", lambda a, t: linalg.householder_product(a, t), "f32[5,3]", "f32[3]", **LOOSE)
ROWS.add("ormqr", lambda a, t, c: linalg.ormqr(a, t, c), "f32[5,3]", "f32[3]", "f32[5,2]", **LOOSE)
ROWS.add("lu", lambda a: linalg.lu(a), "f32[B,5,5]", **LOOSE)
ROWS.add("lu_pivots_to_permutation", lambda a: linalg.lu_pivots_to_permutation(linalg.lu(a)[1], 5), "f32[5,5]")
ROWS.add("qdwh", lambda a: linalg.qdwh(a)[:2], "f32[5,5]", **LOOSE)
ROWS.add("qr", lambda a: jnp.abs(linalg.qr(a, full_matrices=False)[1]), "f32[7,3]", **LOOSE)
ROWS.add("schur", lambda a: (lambda t, z: z @ t @ z.T)(*linalg.schur(a)), "f32[5,5]", **LOOSE)
ROWS.add("svd", lambda a: linalg.svd(a, compute_uv=False), "f32[B,7,3]", **LOOSE)
ROWS.add("symmetric_product", lambda a, c: linalg.symmetric_product(a, c, symmetrize_output=True), "f32[B,5,7]", "f32[B,5,5]")
ROWS.add("triangular_solve", lambda a, b: linalg.triangular_solve(positive(a), b, left_side=True, lower=True), "f32[B,5,5]", "f32[B,5,2]", **LOOSE)
ROWS.add("tridiagonal", lambda a: jnp.abs(linalg.tridiagonal(positive(a))[1]), "f32[5,5]", **LOOSE)
ROWS.add("tridiagonal_solve", lambda d, b: linalg.tridiagonal_solve(d, jnp.abs(d) + 5, d, b), "f32[5]", "f32[5,2]", **LOOSE)
