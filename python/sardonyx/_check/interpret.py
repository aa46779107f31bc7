"""Evaluates a program equation by equation, including sizes that depend on data, which JAX itself cannot run."""

from __future__ import annotations

import functools

from sardonyx import _source
from sardonyx._trace.data import primitives as _data_primitives
from sardonyx._trace.data.sizes import _bodies, scan_counts

# Calls that only name a part of the program.
_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint")


def in_line(closed):
    """The ClosedJaxpr with calls replaced by their equations. Equations without a line of the user's own get
    that of their call."""
    from jax.extend import core

    eqns, constvars, consts = [], [], []

    def add(body, names, caller):
        """`names`: replacements of the variables of `body`."""

        def name(v):
            return v if isinstance(v, core.Literal) else names[v]

        for v, x in zip(body.jaxpr.constvars, body.consts, strict=True):
            names[v] = core.Var(v.aval)
            constvars.append(names[v])
            consts.append(x)
        for eqn in body.jaxpr.eqns:
            if caller is not None and _source.source_frame(eqn) is None:
                eqn = eqn.replace(source_info=caller.source_info)
            operands = list(map(name, eqn.invars))
            if (inner := _called(eqn)) is not None:
                results = add(inner, dict(zip(inner.jaxpr.invars, operands, strict=True)), eqn)
            else:
                results = [core.Var(v.aval) if type(v) is core.Var else v for v in eqn.outvars]  # others are dropped
                eqns.append(eqn.replace(invars=operands, outvars=results))
            names.update(zip(eqn.outvars, results, strict=True))
        return list(map(name, body.jaxpr.outvars))

    outvars = add(closed, {v: v for v in closed.jaxpr.invars}, None)
    return core.ClosedJaxpr(closed.jaxpr.replace(constvars=constvars, eqns=eqns, outvars=outvars), consts)


def evaluate(closed, operands, sizes: dict[str, int] | None = None, choose=None) -> list:
    """Returns the results. `sizes` holds the known symbols; those that depend on data are added as they are
    found.

    `choose(eqn, operands, results)`, if given, returns replacements for the results of an equation.
    """
    from jax.extend import core

    sizes = {} if sizes is None else sizes
    values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(closed.jaxpr.invars, operands, strict=True))

    def value(v):
        return v.val if isinstance(v, core.Literal) else values[v]

    for eqn in closed.jaxpr.eqns:
        with eqn.ctx.manager:
            given = list(map(value, eqn.invars))
            results = _results(eqn, given, sizes)
            results = results if choose is None else choose(eqn, given, results)
        values.update(zip(eqn.outvars, results, strict=True))
    return list(map(value, closed.jaxpr.outvars))


@functools.cache
def sized() -> dict:
    """The primitives whose size depends on data, and the functions that compute them."""
    return {p.primitive(): p.evaluate for p in _data_primitives.BUILT_IN}


def _called(eqn):
    """The body of a call, or None."""
    from jax.extend import core

    if eqn.primitive.name not in _CALLS:
        return None
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = eqn.params.get(name)
        if isinstance(inner, core.Jaxpr) and not inner.constvars:
            inner = core.ClosedJaxpr(inner, [])
        if isinstance(inner, core.ClosedJaxpr) and len(inner.jaxpr.invars) == len(eqn.invars):
            return inner
    return None


def _results(eqn, operands: list, sizes: dict[str, int]) -> list:
    import jax
    import numpy as np

    primitive, params = eqn.primitive, _numbers(eqn.params, sizes)
    if (compute := sized().get(primitive)) is not None:
        out = compute(*operands, **params)
        out = [jax.numpy.asarray(x) for x in (out if primitive.multiple_results else [out])]
        for v, x in zip(eqn.outvars, out, strict=True):
            sizes.update({str(d): n for d, n in zip(v.aval.shape, x.shape, strict=True) if _is_symbol(d)})
        return out
    if primitive.name == "dim_as_value":
        return [np.asarray(params["dim"], eqn.outvars[0].aval.dtype)]
    if (run := _WITH_BODIES.get(primitive.name)) is not None and any(map(_has_symbols, _bodies(eqn))):
        return run(params, operands, sizes)
    if (inner := _called(eqn)) is not None and _has_symbols(inner.jaxpr):
        return evaluate(inner, operands, sizes)
    bound = primitive.get_bind_params(params)
    functions, params = bound if isinstance(bound, tuple) else ((), bound)  # older JAX has functions apart
    out = primitive.bind(*functions, *operands, **params)
    return list(out) if primitive.multiple_results else [out]


def _cond(params, operands, sizes):
    branches, (index, *operands) = params["branches"], operands
    return evaluate(branches[min(max(int(index), 0), len(branches) - 1)], operands, sizes)


def _while(params, operands, sizes):
    n, m = params["cond_nconsts"], params["body_nconsts"]
    of_condition, of_body, state = operands[:n], operands[n : n + m], operands[n + m :]
    while bool(evaluate(params["cond_jaxpr"], [*of_condition, *state], sizes)[0]):
        state = evaluate(params["body_jaxpr"], [*of_body, *state], sizes)
    return state


def _scan(params, operands, sizes):
    import jax.numpy as jnp

    body, (n, m) = params["jaxpr"], scan_counts(params)
    constant, state, rows = operands[:n], operands[n : n + m], operands[n + m :]
    steps = range(params["length"])
    stacked = []
    for i in reversed(steps) if params["reverse"] else steps:
        out = evaluate(body, [*constant, *state, *(x[i] for x in rows)], sizes)
        state = out[:m]
        stacked.append(out[m:])
    if not stacked:
        empty = [(0, *_numbers(v.aval.shape, sizes)) for v in body.jaxpr.outvars[m:]]
        return [*state, *(jnp.zeros(s, v.aval.dtype) for s, v in zip(empty, body.jaxpr.outvars[m:], strict=True))]
    stacked = stacked[::-1] if params["reverse"] else stacked
    return [*state, *(jnp.stack(column) for column in zip(*stacked, strict=True))]


_WITH_BODIES = {"cond": _cond, "while": _while, "scan": _scan}


def _has_symbols(jaxpr) -> bool:
    variables = [v for e in jaxpr.eqns for v in (*e.invars, *e.outvars)] + [*jaxpr.invars, *jaxpr.outvars]
    if any(hasattr(d, "_get_vars") for v in variables for d in getattr(v.aval, "shape", ())):
        return True
    return any(_has_symbols(inner) for e in jaxpr.eqns for inner in _bodies(e))


def _is_symbol(d) -> bool:
    return hasattr(d, "_get_vars") and str(d) in d._get_vars()


def _numbers(x, sizes):
    """Parameters with known symbols replaced by numbers."""
    if hasattr(x, "_get_vars"):
        return int(x._evaluate(sizes)) if x._get_vars() <= sizes.keys() else x
    if type(x) in (tuple, list):
        return type(x)(_numbers(item, sizes) for item in x)
    return {k: _numbers(v, sizes) for k, v in x.items()} if type(x) is dict else x
