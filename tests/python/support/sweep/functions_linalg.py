"""`jax.numpy.linalg`."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax.numpy as jnp

from .rows import Rows

ROWS = Rows(jnp.linalg)
SQUARE, TALL = "f32[5,5]", "f32[7,3]"
LOOSE = {"tolerance": 2e-4, "because": "a decomposition multiplies rounding by the condition of its matrix"}


def positive(a):
    """A well-conditioned matrix that is symmetric and positive definite."""
    return a @ jnp.swapaxes(a, -1, -2) + 3 * jnp.eye(a.shape[-1], dtype=a.dtype)


for name in "cholesky inv det eigvalsh slogdet cond matrix_rank pinv svdvals".split():
    ROWS.add(name, lambda a, f=getattr(jnp.linalg, name): f(positive(a)), SQUARE, **LOOSE)
    ROWS.add(f"{name} batch", lambda a, f=getattr(jnp.linalg, name): f(positive(a)), "f32[B,3,3]", **LOOSE)
ROWS.add("pinv tall", jnp.linalg.pinv, TALL, **LOOSE)
ROWS.add("eigh", lambda a: (lambda w, v: (w, (v * w) @ v.T))(*jnp.linalg.eigh(positive(a))), SQUARE, **LOOSE)
ROWS.add("svd", lambda a: (lambda u, s, v: (s, (u * s) @ v))(*jnp.linalg.svd(a, full_matrices=False)), TALL, **LOOSE)
ROWS.add("qr", lambda a: (lambda q, r: (q @ r, jnp.abs(r)))(*jnp.linalg.qr(a)), TALL, **LOOSE)
ROWS.add("qr r", lambda a: jnp.abs(jnp.linalg.qr(a, mode="r")), TALL, **LOOSE)
ROWS.add("eig", lambda a: jnp.sort(jnp.abs(jnp.linalg.eig(a)[0])), SQUARE, **LOOSE)
ROWS.add("eigvals", lambda a: jnp.sort(jnp.abs(jnp.linalg.eigvals(a))), SQUARE, **LOOSE)
ROWS.add("solve", lambda a, b: jnp.linalg.solve(positive(a), b), "f32[B,5,5]", "f32[B,5,2]", **LOOSE)
ROWS.add("lstsq", lambda a, b: jnp.linalg.lstsq(a, b)[:2], TALL, "f32[7,2]", **LOOSE)
ROWS.add("cross", jnp.linalg.cross, "f32[B,3]", "f32[B,3]")
ROWS.each("diagonal matrix_norm norm trace", "f32[5,7]")
ROWS.each("matrix_transpose vector_norm", "f32[B,7]")
ROWS.add("norm axis", lambda a: [jnp.linalg.norm(a, ord=p, axis=1) for p in (1, 2, 3, jnp.inf)], "f32[B,7]")
ROWS.add("matrix_norm kinds", lambda a: [jnp.linalg.matrix_norm(a, ord=p) for p in (1, -1, jnp.inf, 2, "nuc")], TALL, **LOOSE)
ROWS.each("matmul", "f32[B,7]", "f32[7,5]")
ROWS.add("matrix_power", lambda a: (jnp.linalg.matrix_power(a, 5), jnp.linalg.matrix_power(positive(a), -2)), SQUARE, **LOOSE)
ROWS.add("multi_dot", lambda a, b, c: jnp.linalg.multi_dot([a, b, c]), "f32[B,5]", "f32[5,7]", "f32[7,2]")
ROWS.each("outer", "f32[B]", "f32[7]")
ROWS.add("tensordot", lambda a, b: jnp.linalg.tensordot(a, b, axes=1), "f32[B,7]", "f32[7,5]")
ROWS.add("tensorinv", lambda a: jnp.linalg.tensorinv(positive(a).reshape(6, 2, 3), ind=1), "f32[6,6]", **LOOSE)
ROWS.add("tensorsolve", lambda a, b: jnp.linalg.tensorsolve(positive(a).reshape(2, 3, 6), b), "f32[6,6]", "f32[2,3]", **LOOSE)
ROWS.each("vecdot", "f32[B,7]", "f32[B,7]")
