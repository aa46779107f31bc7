"""Equations whose results JAX leaves open: signs of eigenvectors, phases of singular vectors, the order of
eigenvalues.

An exported model makes its own choice of them, by another algorithm (see src/lower/jax_to_onnx/linalg/eigh.cc, svd.cc, eig.cc
and schur.cc). The choice is right if its results satisfy the defining equation, and if the rest of the
program, given these results, agrees with JAX.
"""

from collections.abc import Callable

import numpy as np

from sardonyx._check import diverge as _diverge
from sardonyx._check import interpret as _interpret
from sardonyx._check.values import tolerances
from sardonyx._trace import state as _state


class Wrong(Exception):
    """The model's results do not satisfy the equation; the message says why."""


def _adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def _eigh(params, given, vectors, values):
    triangle, strict = (np.tril, -1) if params["lower"] else (np.triu, 1)
    a = triangle(given, strict)  # of the diagonal, only real parts count
    a = a + _adjoint(a) + _diagonal(given)
    yield "A V - V W", a @ vectors - vectors * values[..., None, :], a
    yield from _orthonormal("V", vectors)


def _diagonal(a):
    return np.real(np.einsum("...ii->...i", a))[..., None] * np.eye(a.shape[-1])


def _svd(params, a, s, u=None, vh=None):
    if u is None:
        return
    k = s.shape[-1]
    yield "A V - U S", a @ _adjoint(vh)[..., :k] - u[..., :k] * s[..., None, :], a
    yield from _orthonormal("U", u)
    yield from _orthonormal("V", _adjoint(vh))


def _eig(params, a, values, *vectors):
    sides = ("left", "right") if params["compute_left_eigenvectors"] else ("right",)
    for side, v in zip(sides, vectors, strict=False):
        matrix, w = (_adjoint(a), np.conj(values)) if side == "left" else (a, values)
        yield f"A V - V W of the {side} eigenvectors", matrix @ v - v * w[..., None, :], a
        yield f"the length of {side} eigenvectors", np.linalg.norm(v, axis=-2) - 1, np.ones(1)


def _schur(params, a, t, z=None):
    yield "what T has below its diagonal", np.tril(t, -1 if np.iscomplexobj(t) else -2), a
    if z is not None:
        yield "A Z - Z T", a @ z - z @ t, a
        yield from _orthonormal("Z", z)


def _orthonormal(name, v):
    yield f"V^H V - 1 of {name}", _adjoint(v) @ v - np.eye(v.shape[-1]), np.ones(1)


# By primitive: (name, array that must vanish, array that sets the scale); and the results without a choice.
_LAWS = {"eigh": (_eigh, [1]), "svd": (_svd, [0]), "eig": (_eig, []), "schur": (_schur, [])}


def has_choices(closed) -> bool:
    return any(eqn.primitive.name in _LAWS for eqn in closed.jaxpr.eqns)


def of_model(closed, run: Callable) -> list[list]:
    """The exported model's results of each equation of `closed` that has a choice. `run(closed)` returns the
    results that the model computes for a program."""
    from jax.extend import core

    eqns, outvars = [], []
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive.name in _LAWS:
            eqn = eqn.replace(outvars=[v if type(v) is core.Var else core.Var(v.aval) for v in eqn.outvars])
            outvars.append(eqn.outvars)
        eqns.append(eqn)
    every = closed.jaxpr.replace(eqns=eqns, debug_info=_state.no_debug(closed.jaxpr))
    flat = [v for vs in outvars for v in vs]
    results = iter(run(core.ClosedJaxpr(_diverge.with_outputs(every, flat), closed.consts)))
    return [[next(results) for _ in vs] for vs in outvars]


def hook(chosen: list[list]) -> Callable:
    """For one `_interpret.evaluate`: puts the model's choices in place of JAX's, if they satisfy their
    equations. Raises Wrong."""
    left = iter(chosen)

    def choose(eqn, operands, results):
        import jax.numpy as jnp

        if eqn.primitive.name not in _LAWS:
            return results
        law, determined = _LAWS[eqn.primitive.name]
        rtol, atol = tolerances(operands[0].dtype)
        ours = [_as(x, r) for x, r in zip(next(left), results, strict=True)]
        wide = [np.asarray(x, np.complex128 if np.iscomplexobj(x) else np.float64) for x in (operands[0], *ours)]
        for i in determined:
            if not np.allclose(ours[i], results[i], rtol=rtol, atol=atol + rtol * np.max(np.abs(wide[0]), initial=0)):
                raise Wrong(f"result {i} of {eqn.primitive.name} differs")
        for name, rest, beside in law(eqn.params, *wide):
            limit = atol + rtol * np.max(np.abs(beside), initial=0)
            if not (off := np.max(np.abs(rest), initial=0)) <= limit:
                raise Wrong(f"{name} of {eqn.primitive.name} is {off:.3g}, more than {limit:.3g}")
        return [jnp.asarray(x) for x in ours]

    return choose


def right_ones(closed, leaves: list, run: Callable) -> Callable | None:
    """The hook with the exported model's choices. None where there are no choices, or where one is wrong."""
    if not has_choices(closed):
        return None
    chosen = of_model(closed, run)
    try:
        _interpret.evaluate(closed, leaves, choose=hook(chosen))
    except Wrong:
        return None
    return hook(chosen)


def _as(found, like):
    """The model's result in JAX's type: complex numbers have a last axis of 2 there."""
    like = np.asarray(like)
    if like.dtype.kind == "c" and found.shape == (*like.shape, 2):
        found = found[..., 0] + 1j * found[..., 1]
    return found.astype(like.dtype)
