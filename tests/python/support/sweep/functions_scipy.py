"""The smaller modules of `jax.scipy`: linalg, signal, fft, ndimage, cluster, integrate, interpolate, optimize, spatial, sparse."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import jax.scipy.cluster.vq
import jax.scipy.interpolate
import jax.scipy.ndimage
import jax.scipy.optimize
import jax.scipy.sparse.linalg
import jax.scipy.spatial.transform
from jax.scipy import linalg
from primitives.table import Arg

from .functions_linalg import positive
from .rows import Rows

ROWS = Rows(linalg)
SQUARE = "f32[5,5]"
LOOSE = {"tolerance": 2e-4, "because": "a decomposition multiplies rounding by the condition of its matrix"}

for name in "inv det cholesky".split():
    ROWS.add(name, lambda a, f=getattr(linalg, name): f(positive(a)), SQUARE, **LOOSE)
ROWS.add("block_diag", linalg.block_diag, "f32[3,5]", "f32[2,7]")
ROWS.add("cho_factor", lambda a: jnp.tril(linalg.cho_factor(positive(a), lower=True)[0]), SQUARE, **LOOSE)
ROWS.add("cho_solve", lambda a, b: linalg.cho_solve(linalg.cho_factor(positive(a)), b), SQUARE, "f32[5,2]", **LOOSE)
ROWS.each("circulant fiedler", "f32[5]")
ROWS.each("companion fiedler_companion", Arg("f32[5]", 1, 2))
ROWS.each("toeplitz hankel", "f32[5]", "f32[7]")
ROWS.each("leslie", "f32[5]", "f32[4]")
ROWS.add("convolution_matrix", lambda a: linalg.convolution_matrix(a, 7, mode="same"), "f32[5]")
for name in "dft hadamard hilbert invhilbert invpascal pascal".split():
    ROWS.add(name, lambda x, f=getattr(linalg, name): f(4) @ x, "f32[4,3]")
ROWS.add("helmert", lambda x: linalg.helmert(4) @ x, "f32[4,3]")
ROWS.add("eigh", lambda a: linalg.eigh(positive(a), eigvals_only=True), SQUARE, **LOOSE)
ROWS.add("eigh_tridiagonal", lambda d, e: linalg.eigh_tridiagonal(d, e, eigvals_only=True), "f32[7]", "f32[6]", **LOOSE)
ROWS.add("expm", linalg.expm, SQUARE, **LOOSE)
ROWS.add("expm_frechet", lambda a, b: linalg.expm_frechet(a * 0.2, b), SQUARE, SQUARE, **LOOSE)
ROWS.add("funm", lambda a: jnp.abs(linalg.funm(positive(a), jnp.sin, disp=False)[0]), SQUARE, **LOOSE)
ROWS.add("hessenberg", lambda a: jnp.abs(linalg.hessenberg(a)), SQUARE, **LOOSE)
ROWS.add("lu", linalg.lu, SQUARE, **LOOSE)
ROWS.add("lu_factor", linalg.lu_factor, SQUARE, **LOOSE)
ROWS.add("lu_solve", lambda a, b: linalg.lu_solve(linalg.lu_factor(positive(a)), b, trans=1), SQUARE, "f32[5]", **LOOSE)
ROWS.add("polar", linalg.polar, SQUARE, **LOOSE)
ROWS.add("qr", lambda a: (lambda q, r: q @ r)(*linalg.qr(a, mode="economic")), "f32[7,3]", **LOOSE)
ROWS.add("qr_multiply", lambda a, c: jnp.abs(linalg.qr_multiply(a, c, mode="right")[0]), "f32[5,3]", "f32[2,5]", **LOOSE)
ROWS.add("schur", lambda a: (lambda t, z: z @ t @ z.T)(*linalg.schur(a)), SQUARE, **LOOSE)
ROWS.add("rsf2csf", lambda a: (lambda t, z: jnp.real(z @ t @ z.conj().T))(*linalg.rsf2csf(*linalg.schur(a))), SQUARE, **LOOSE)
ROWS.add("solve", lambda a, b: linalg.solve(positive(a), b, assume_a="pos"), SQUARE, "f32[5,2]", **LOOSE)
ROWS.add("solve_sylvester", lambda a, b, c: linalg.solve_sylvester(positive(a), positive(b), c), "f32[3,3]", SQUARE, "f32[3,5]", **LOOSE)
ROWS.add("solve_triangular", lambda a, b: linalg.solve_triangular(positive(a), b, lower=True, trans=1), SQUARE, "f32[5,2]", **LOOSE)
ROWS.add("sqrtm", lambda a: linalg.sqrtm(positive(a)), SQUARE, **LOOSE)
ROWS.add("svd", lambda a: linalg.svd(a, compute_uv=False), "f32[7,3]", **LOOSE)

signal = jsp.signal
SIGNAL = {"tolerance": 1e-4, "because": "sums of many products, and straight lines fitted to noise"}
for mode in "full same valid".split():
    for name in "convolve correlate convolve2d correlate2d fftconvolve".split():
        ROWS.add(f"signal.{name} {mode}", lambda x, y, f=getattr(signal, name), m=mode: f(x, y, mode=m), "f32[9,11]", "f32[3,5]", **SIGNAL)
ROWS.add("signal.detrend", lambda x: (signal.detrend(x), signal.detrend(x, type="constant")), "f32[3,11]", **SIGNAL)
ROWS.add("signal.stft", lambda x: signal.stft(x, nperseg=16)[2], "f32[3,64]", **SIGNAL)
ROWS.add("signal.istft", lambda x: signal.istft(signal.stft(x, nperseg=16)[2], nperseg=16)[1], "f32[3,64]", **SIGNAL)
ROWS.add("signal.welch", lambda x: signal.welch(x, nperseg=16)[1], "f32[64]", **SIGNAL)
ROWS.add("signal.csd", lambda x, y: signal.csd(x, y, nperseg=16)[1], "f32[64]", "f32[64]", **SIGNAL)
for name in "dct idct dctn idctn".split():
    ROWS.add(f"fft.{name}", lambda x, f=getattr(jsp.fft, name): f(x, norm="ortho"), "f32[7,12]", **SIGNAL)
for mode in "nearest constant wrap mirror reflect".split():
    for order in (0, 1):
        ROWS.add(f"ndimage.map_coordinates {mode} {order}", lambda x, c, m=mode, o=order: jsp.ndimage.map_coordinates(x, [c[0], c[1]], order=o, mode=m, cval=0.5), "f32[5,7]", Arg("f32[2,B]", -4, 11))
ROWS.add("cluster.vq", jsp.cluster.vq.vq, "f32[B,3]", "f32[5,3]")
ROWS.add("integrate.trapezoid", lambda x: jsp.integrate.trapezoid(x, dx=0.5), "f32[B,7]")
for method in "linear nearest".split():
    ROWS.add(f"interpolate.RegularGridInterpolator {method}", lambda v, x, m=method: jsp.interpolate.RegularGridInterpolator((jnp.arange(3.0), jnp.arange(5.0)), v, method=m, bounds_error=False, fill_value=-1.0)(x), "f32[3,5]", Arg("f32[B,2]", -1, 4))
ROWS.add("optimize.minimize", lambda x: jsp.optimize.minimize(lambda v: ((v - 2) ** 2).sum(), x, method="BFGS").x, "f32[3]", tolerance=1e-3, because="a minimum is flat")
for name in "cg gmres bicgstab".split():
    ROWS.add(f"sparse.linalg.{name}", lambda a, b, f=getattr(jsp.sparse.linalg, name): f(lambda v: positive(a) @ v, b, maxiter=20)[0], SQUARE, "f32[5]", tolerance=1e-3, because="the solution of an iteration")

TURN = jax.scipy.spatial.transform.Rotation
ROWS.add("spatial.Rotation", lambda q, v: TURN.from_quat(q).apply(v), "f32[5,4]", "f32[5,3]", tolerance=1e-5, because="products of products")
ROWS.add("spatial.Rotation kinds", lambda q: (TURN.from_quat(q).as_matrix(), TURN.from_quat(q).as_rotvec(), TURN.from_quat(q).magnitude(), TURN.from_quat(q).inv().as_quat()), "f32[4]", tolerance=2e-5, because="products of products")
ROWS.add("spatial.Rotation from", lambda m, r: (TURN.from_matrix(TURN.from_rotvec(r).as_matrix()).as_quat(canonical=True), (TURN.from_rotvec(r) * TURN.from_mrp(m)).as_mrp()), Arg("f32[3]", -0.3, 0.3), Arg("f32[3]", -0.3, 0.3), tolerance=2e-5, because="products of products")
ROWS.add("spatial.Rotation euler", lambda e: TURN.from_euler("xyz", e).as_euler("zyx"), Arg("f32[3]", -0.5, 0.5), tolerance=2e-5, because="products of products")
ROWS.add("spatial.Slerp", lambda q, t: jax.scipy.spatial.transform.Slerp.init(jnp.arange(3.0), TURN.from_quat(q))(t).as_quat(), "f32[3,4]", Arg("f32[5]", 0, 2), tolerance=2e-5, because="products of products")
ROWS.add("grad minimize", jax.grad(lambda a: jsp.sparse.linalg.cg(lambda v: positive(a) @ v, jnp.ones(5))[0].sum()), SQUARE, tolerance=1e-3, because="the solution of an iteration")
