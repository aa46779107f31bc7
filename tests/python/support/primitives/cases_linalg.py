"""Linear algebra. Factorizations are checked against their defining equations, and against JAX where JAX
fixes the result."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import linalg as la  # some of the primitives have no public name

from .table import Arg, Table

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()
add = TABLE.add

# Factorizations magnify rounding by the matrix's condition, here some tens; all results have a magnitude of
# about 1.
LOOSE = {"tolerance": 1e-4, "because": "rounding, magnified by the condition of a random matrix"}
LOOSE64 = {"tolerance": 1e-11, "because": "rounding, magnified by the condition of a random matrix", "x64": True}


def t(x):
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def positive(x):
    """A positive definite matrix from any."""
    return x @ t(x) + x.shape[-1] * jnp.eye(x.shape[-1], dtype=x.dtype)


def close_to_triangular(x):
    return x + 4 * jnp.eye(x.shape[-1], dtype=x.dtype)


def both(name, fn, *specs, covers):
    """fn in f32 and f64; specs say f32."""
    add(name, fn, *specs, covers=covers, **LOOSE)
    add(f"{name} f64", fn, *(s.replace("f32", "f64") for s in specs), covers=covers, **LOOSE64)


for shape in ("5,5", "2,3,7,7", "1,1", "B,5,5", "T,T"):
    both(f"cholesky [{shape}]", lambda x: jnp.linalg.cholesky(positive(x)), f"f32[{shape}]", covers="cholesky")
add("cholesky of an indefinite matrix", jnp.linalg.cholesky, Arg("f32[2,2,2]", values=(1, 2, 2, 1, 2, 1, 1, 2)), covers="cholesky")
both("cholesky of the upper triangle", lambda x: jnp.linalg.cholesky(positive(x), upper=True), "f32[5,5]", covers="cholesky")
both("cholesky_update", lambda x, w: la.cholesky_update(t(jnp.linalg.cholesky(positive(x))), w), "f32[5,5]", "f32[5]", covers="cholesky_update")
both("cho_solve", lambda x, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(positive(x)), b), "f32[5,5]", "f32[5,3]", covers="cholesky triangular_solve")

for left in (True, False):
    for lower in (True, False):
        for transpose in (True, False):
            both(f"triangular_solve left={left} lower={lower} transpose={transpose}",
                 lambda a, b, o={"left_side": left, "lower": lower, "transpose_a": transpose}: lax.linalg.triangular_solve(close_to_triangular(a), b, **o),
                 "f32[2,5,5]", "f32[2,5,3]" if left else "f32[2,3,5]", covers="triangular_solve")
both("triangular_solve of a unit diagonal", lambda a, b: lax.linalg.triangular_solve(0.3 * a, b, left_side=True, lower=True, unit_diagonal=True), "f32[B,5,5]", "f32[B,5,3]", covers="triangular_solve")
both("triangular_solve over time", lambda a, b: jax.scipy.linalg.solve_triangular(close_to_triangular(a), b, lower=True), "f32[T,T]", "f32[T,3]", covers="triangular_solve")
both("tridiagonal_solve", lambda a, b, c, d: la.tridiagonal_solve(a.at[..., 0].set(0), b, c.at[..., -1].set(0), d), "f32[2,6]", "f32[2,6]", "f32[2,6]", "f32[2,6,3]", covers="tridiagonal_solve")
both("tridiagonal_solve of two", lambda a, b, c, d: la.tridiagonal_solve(a.at[0].set(0), b, c.at[-1].set(0), d), "f32[2]", "f32[2]", "f32[2]", "f32[2,1]", covers="tridiagonal_solve")
both("symmetric_product", lambda a, c: la.symmetric_product(a, c, alpha=2.0, beta=0.5, symmetrize_output=True), "f32[5,3]", "f32[5,5]", covers="symmetric_product")

# Batches whose size is known only at run time.
add("cholesky_update over time", lambda x, w: la.cholesky_update(t(jnp.linalg.cholesky(positive(x))), w), "f32[T,T]", "f32[T]", covers="cholesky_update")
add("tridiagonal_solve of the batch", lambda a, b, c, d: la.tridiagonal_solve(a.at[..., 0].set(0), b, c.at[..., -1].set(0), d), "f32[B,6]", "f32[B,6]", "f32[B,6]", "f32[B,6,3]", covers="tridiagonal_solve")
add("symmetric_product of the batch", lambda a, c: la.symmetric_product(a, c, alpha=2.0, beta=0.5), "f32[B,5,3]", "f32[B,5,5]", covers="symmetric_product")
add("symmetric_product over time", lambda a, c: la.symmetric_product(a, c), "f32[T,3]", "f32[T,T]", covers="symmetric_product")
add("lu_pivots_to_permutation of the batch", lambda p: lax.linalg.lu_pivots_to_permutation(p, 7), Arg("i32[B,3]", values=(3, 1, 6, 0, 5, 2)), covers="lu_pivots_to_permutation")
add("geqrf of the batch", la.geqrf, "f32[B,6,4]", covers="geqrf")
add("householder_product of the batch", lambda x: la.householder_product(*la.geqrf(x)), "f32[B,6,4]", covers="geqrf householder_product")
add("ormqr of the batch", lambda x, c: la.ormqr(*la.geqrf(x), c), "f32[B,6,4]", "f32[B,6,3]", covers="geqrf ormqr")
for shape in ("5,5", "6,4", "4,6", "2,5,5", "B,5,3", "1,1"):
    both(f"lu [{shape}]", lax.linalg.lu, f"f32[{shape}]", covers="lu")
add("lu of a singular matrix", lax.linalg.lu, Arg("f32[3,3]", values=(0, 0, 1, 0, 0, 2, 0, 3, 1)), covers="lu")
add("lu_pivots_to_permutation", lambda p: lax.linalg.lu_pivots_to_permutation(p, 7), Arg("i32[2,3]", values=(3, 1, 6, 0, 5, 2)), covers="lu_pivots_to_permutation")
both("solve", lambda a, b: jnp.linalg.solve(close_to_triangular(a), b), "f32[5,5]", "f32[5,3]", covers="lu triangular_solve custom_linear_solve")
both("solve of the batch", lambda a, b: jnp.linalg.solve(close_to_triangular(a), b), "f32[B,5,5]", "f32[B,5,3]", covers="lu triangular_solve custom_linear_solve")
both("inv", lambda a: jnp.linalg.inv(close_to_triangular(a)), "f32[2,5,5]", covers="lu")
both("det", jnp.linalg.det, "f32[2,5,5]", covers="lu")
both("slogdet", jnp.linalg.slogdet, "f32[2,5,5]", covers="lu")

for shape in ("6,4", "4,6", "2,5,5", "B,5,3", "1,1", "5,1"):
    for full in (True, False):
        both(f"qr [{shape}] full_matrices={full}", lambda x, f=full: lax.linalg.qr(x, full_matrices=f), f"f32[{shape}]", covers="qr")
both("qr with pivoting", lambda x: la.qr(x, pivoting=True, full_matrices=False), "f32[6,4]", covers="qr")
both("qr with pivoting of a batch", lambda x: la.qr(x, pivoting=True, full_matrices=True), "f32[2,4,6]", covers="qr")
add("qr of zeros", lambda x: lax.linalg.qr(0 * x), "f32[4,3]", covers="qr")
both("geqrf", la.geqrf, "f32[2,6,4]", covers="geqrf")
both("householder_product", lambda x: la.householder_product(*la.geqrf(x)), "f32[2,6,4]", covers="geqrf householder_product")
for left in (True, False):
    for transpose in (True, False):
        both(f"ormqr left={left} transpose={transpose}", lambda x, c, o={"left": left, "transpose": transpose}: la.ormqr(*la.geqrf(x), c, **o),
             "f32[6,4]", "f32[6,3]" if left else "f32[3,6]", covers="ormqr")
both("lstsq", lambda a, b: jnp.linalg.lstsq(a, b)[0], "f32[6,4]", "f32[6,2]", covers="svd")


def eigh_facts(x, **options):
    """Properties that eigh guarantees, whatever the signs."""
    a = (x + t(x)) / 2
    v, w = lax.linalg.eigh(a, **options)
    return w, t(v) @ v, a @ v - v * w[..., None, :] + 1


for shape in ("5,5", "2,6,6", "B,7,7", "1,1", "2,2"):
    both(f"eigh [{shape}]", eigh_facts, f"f32[{shape}]", covers="eigh")
both("eigh of the upper triangle", lambda x: eigh_facts(x, lower=False), "f32[5,5]", covers="eigh")
both("eigvalsh of a diagonal matrix", lambda x: jnp.linalg.eigvalsh(jnp.diag(x)), "f32[7]", covers="eigh")
both("eigh of equal eigenvalues", lambda x: eigh_facts(jnp.eye(5, dtype=x.dtype) + x[:, None] * x), "f32[5]", covers="eigh")


def svd_facts(x, full=False):
    u, s, vh = lax.linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    return s, t(u) @ u, vh @ t(vh), (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]


for shape in ("5,5", "2,6,4", "4,7", "B,5,3", "1,1", "5,1", "2,6,6"):
    both(f"svd [{shape}]", svd_facts, f"f32[{shape}]", covers="svd")
    both(f"svd [{shape}] with full matrices", lambda x: svd_facts(x, True), f"f32[{shape}]", covers="svd")
both("singular values", lambda x: jnp.linalg.svd(x, compute_uv=False), "f32[2,5,4]", covers="svd")
both("svd of a matrix of rank one", lambda x: svd_facts(x[:, None] * x[:4], True), "f32[6]", covers="svd")
both("pinv", jnp.linalg.pinv, "f32[6,4]", covers="svd")
both("matrix_rank", lambda x: jnp.linalg.matrix_rank(x[:, :2] @ x[:2]), "f32[5,5]", covers="svd")
both("nuclear norm", lambda x: jnp.linalg.norm(x, "nuc"), "f32[5,4]", covers="svd")
add("svd of zeros", lambda x: svd_facts(0 * x), "f32[4,3]", covers="svd", **LOOSE)
add("large and small columns", lambda x: jnp.linalg.svd(x * 10.0 ** jnp.arange(-6, 6, 3), compute_uv=False), "f32[5,4]", covers="svd", **LOOSE)
add("norms that would overflow", lambda x: lax.linalg.qr(x * 1e30)[1] / 1e30, "f32[5,4]", covers="qr", **LOOSE)
add("multivariate_normal", lambda k, c: jax.random.multivariate_normal(k, jnp.zeros(3), positive(c), (5,)), Arg("u32[2]", values=(0, 7)), "f32[3,3]", covers="cholesky", **LOOSE)
add("expm", jax.scipy.linalg.expm, Arg("f32[4,4]", -0.5, 0.5), covers="lu", **LOOSE)


def below(a, tau, k):
    """The product of the reflections whose vectors are below the k-th subdiagonal."""
    n = a.shape[-1]
    v = jnp.tril(a, -k - 1)[..., :, : n - k] + jnp.eye(n, n - k, -k, dtype=a.dtype)
    q = jnp.eye(n, dtype=a.dtype)
    for i in range(n - k):
        q = q - tau[..., i, None, None] * (q @ v[..., :, i, None]) @ t(v[..., :, i, None])
    return q


def hessenberg_facts(x):
    a, tau = la.hessenberg(x)
    h, q = jnp.triu(a, -1), below(a, tau, 1)
    return q @ h @ t(q), t(q) @ q, h


def tridiagonal_facts(x, lower):
    s = x + t(x)
    a, d, e, tau = la.tridiagonal(s, lower=lower)
    f = jnp.linalg.eigvalsh(jnp.zeros_like(s) + d[..., None] * jnp.eye(d.shape[-1]) + jnp.eye(d.shape[-1], k=1) * jnp.pad(e, [(0, 0)] * (e.ndim - 1) + [(1, 0)])[..., None, :] + jnp.eye(d.shape[-1], k=-1) * jnp.pad(e, [(0, 0)] * (e.ndim - 1) + [(0, 1)])[..., None, :])
    return a, d, e, tau, f


for shape in ("5,5", "2,4,4", "2,2"):
    both(f"hessenberg [{shape}]", hessenberg_facts, f"f32[{shape}]", covers="hessenberg")
    both(f"tridiagonal [{shape}]", lambda x: tridiagonal_facts(x, True), f"f32[{shape}]", covers="tridiagonal")
    both(f"tridiagonal of the upper triangle [{shape}]", lambda x: tridiagonal_facts(x, False), f"f32[{shape}]", covers="tridiagonal")
add("hessenberg of the batch", hessenberg_facts, "f32[B,5,5]", covers="hessenberg", **LOOSE)
add("tridiagonal of the batch", lambda x: tridiagonal_facts(x, True), "f32[B,5,5]", covers="tridiagonal", **LOOSE)
add("complex hessenberg", hessenberg_facts, "c64[2,5,5]", covers="hessenberg", **LOOSE)
add("complex tridiagonal", lambda x: la.tridiagonal(x + t(x), lower=True)[1:3], "c64[2,5,5]", covers="tridiagonal", **LOOSE)


def eig_facts(x):
    """Sums of powers of the eigenvalues, and the equations of both kinds of eigenvectors, independent of
    order and phase."""
    w, left, right = la.eig(x, compute_left_eigenvectors=True, compute_right_eigenvectors=True)
    sums = jnp.stack([jnp.sum(w**k, -1) for k in (1, 2, 3)])
    return (sums, x @ right - right * w[..., None, :] + 1, t(left) @ x - w[..., None] * t(left) + 1, jnp.sum(jnp.abs(right) ** 2, -2), jnp.sum(jnp.abs(left) ** 2, -2),
            jnp.sort(w.real, -1))


for shape in ("5,5", "2,4,4", "B,6,6", "1,1", "2,2"):
    both(f"eig [{shape}]", eig_facts, f"f32[{shape}]", covers="eig")
add("complex eig", eig_facts, "c64[2,5,5]", covers="eig", **LOOSE)
add("eig of a rotation", lambda x: jnp.sort(jnp.linalg.eigvals(x).imag), Arg("f32[3,3]", values=(0, -1, 0, 1, 0, 0, 0, 0, 1)), covers="eig", **LOOSE)
add("eig of a permutation", lambda x: jnp.sort(jnp.linalg.eigvals(x).imag), Arg("f32[5,5]", values=tuple(np.roll(np.eye(5), 1, 0).ravel())), covers="eig", **LOOSE)
add("eig of a symmetric matrix", lambda x: jnp.sort(jnp.linalg.eigvals(x + x.T).real), "f32[7,7]", covers="eig", **LOOSE)
add("eig of a triangular matrix", lambda x: jnp.sort(jnp.linalg.eigvals(jnp.triu(x)).real), "f32[5,5]", covers="eig", **LOOSE)
add("roots", lambda p: jnp.sort(jnp.roots(p, strip_zeros=False).real), Arg("f32[4]", values=(1, -6, 11, -6)), covers="eig", **LOOSE)


def schur_facts(x):
    """In the real case, what is below the diagonal are 2x2 blocks with equal diagonal elements. In the
    complex case it is zero."""
    a, z = la.schur(x)
    c = jnp.diagonal(a, -1, -2, -1)
    d = jnp.diagonal(a, 0, -2, -1)
    return z @ a @ t(z), t(z) @ z, jnp.tril(a, -2) + 1, c[..., 1:] * c[..., :-1] + 1, c * (d[..., 1:] - d[..., :-1]) + 1, c * jnp.diagonal(a, 1, -2, -1) <= 0


for shape in ("5,5", "2,4,4", "B,6,6", "2,2", "9,9"):
    both(f"schur [{shape}]", schur_facts, f"f32[{shape}]", covers="schur")
add("complex schur", lambda x: (lambda a, z: (z @ a @ t(z), jnp.tril(a, -1) + 1))(*la.schur(x)), "c64[2,5,5]", covers="schur", **LOOSE)
add("schur of a rotation", schur_facts, Arg("f32[3,3]", values=(0, -1, 0, 1, 0, 0, 0, 0, 1)), covers="schur", **LOOSE)
add("schur of a permutation", schur_facts, Arg("f32[5,5]", values=tuple(np.roll(np.eye(5), 1, 0).ravel())), covers="schur", **LOOSE)
add("schur of a symmetric matrix", lambda x: jnp.sort(jnp.diagonal(la.schur(x + x.T)[0])), "f32[6,6]", covers="schur", **LOOSE)
add("sqrtm", lambda x: (lambda s: s @ s)(jax.scipy.linalg.sqrtm(positive(x))), "f32[4,4]", covers="schur", **LOOSE)
add("complex cholesky of an indefinite matrix", jnp.linalg.cholesky, Arg("c64[2,2]", values=(1, 2, 2, 1)), covers="cholesky")
add("rsf2csf", lambda x: (lambda a, z: (z @ a @ t(z), jnp.tril(a, -1) + 1))(*jax.scipy.linalg.rsf2csf(*la.schur(x))), "f32[4,4]", covers="schur", **LOOSE)
both("svd of all indices", lambda x: jnp.abs(la.svd(x, full_matrices=False, subset_by_index=(0, 4))[0]), "f32[6,4]", covers="svd")

def perturbed(dl, d, du, b):
    """Three systems, the last with a singular matrix."""
    x = la.tridiagonal_solve(dl, d, du, b, perturb_singular=True)
    return x[:2], jnp.log(jnp.abs(x[2])), jnp.sign(x[2])


DIAGONALS = [Arg("f32[3,3]", values=v) for v in ((0, 1, 2, 0, 0, 0, 0, 1, 1), (4, 1, 3, 4, 0, 2, 1, 1, -3), (1, 2, 0, 8, 0, 0, 1, 1, 0))]
add("tridiagonal_solve of a singular matrix", perturbed, *DIAGONALS, Arg("f32[3,3,2]", values=tuple(range(1, 19))), covers="tridiagonal_solve", **LOOSE)
add("tridiagonal_solve of zeros", lambda a, b: la.tridiagonal_solve(a, a, a, b, perturb_singular=True), Arg("f32[3]", values=(0,)), Arg("f32[3,1]", values=(1, -2, 3)), covers="tridiagonal_solve")
add("tridiagonal_solve of zeros f64", lambda a, b: la.tridiagonal_solve(a, a, a, b, perturb_singular=True), Arg("f64[3]", values=(0,)), Arg("f64[3,1]", values=(1, -2, 3)), covers="tridiagonal_solve", x64=True)
