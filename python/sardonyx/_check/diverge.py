"""Finds the first equation whose exported result differs from JAX, by making every equation a result."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sardonyx import _source
from sardonyx._check import interpret as _interpret
from sardonyx._trace.state import no_debug


@dataclass
class Divergence:
    primitive: str
    types: str
    source: str  # "model.py:41 (loss)", or ""
    text: str  # the difference; "" where nothing could be compared

    def __str__(self) -> str:
        at = f", at {self.source}" if self.source else ""
        if not self.text:
            return f"what comes before it agrees; {self.primitive} of {self.types}{at}, cannot be compared: its plugin has no impl(*arrays, **params)"
        return f"the first equation that differs is {self.primitive} of {self.types}{at}: {self.text}"


def first_divergence(closed, leaves: list, export: Callable, compare: Callable, choose=None) -> Divergence | None:
    """The first equation of `closed` whose results differ when each one is a result of the exported program.
    Calls are looked into.

    `leaves` are the values of its inputs, `export(closed)` gives a model without passes, and
    `compare(expected, model, leaves)` says None or what differs, and where: (position, text). None when all
    equations agree. `choose` is that of `_interpret.evaluate`.
    """
    from jax.extend import core

    closed = _interpret.in_line(closed)
    jaxpr, hidden = _computable(closed.jaxpr)
    places = [
        (eqn, v)
        for eqn in jaxpr.eqns
        for v in eqn.outvars
        if type(v) is core.Var  # it is used
        and getattr(v.aval, "dtype", None) is not None
        and v.aval.dtype.name != "float0"
    ]
    found = None
    if places:
        every = core.ClosedJaxpr(with_outputs(jaxpr, [v for _, v in places]), closed.consts)
        expected = _interpret.evaluate(every, leaves, choose=choose)
        found = compare(expected, export(every), leaves)
    if found is None and hidden is None:
        return None
    position, text = found or (None, "")
    eqn = hidden if found is None else places[position][0]
    return Divergence(eqn.primitive.name, _source.types_text(eqn), _source.source_text(eqn), text)


def _computable(jaxpr):
    """The jaxpr without the equations that need a primitive JAX cannot evaluate (a plugin's, without impl),
    and the first such equation or None."""
    from jax.extend import core

    dark, first, kept = set(), None, []
    for eqn in jaxpr.eqns:
        opaque = _is_opaque(eqn)
        if opaque or any(not isinstance(v, core.Literal) and v in dark for v in eqn.invars):
            dark.update(eqn.outvars)
            first = first or (eqn if opaque else None)
        else:
            kept.append(eqn)
    return (jaxpr if first is None else jaxpr.replace(eqns=kept, outvars=[], debug_info=no_debug(jaxpr))), first


def _is_opaque(eqn) -> bool:
    from jax.extend import core

    primitive = eqn.primitive
    if primitive in _interpret.sized():
        return False
    if type(primitive).impl is core.Primitive.impl and "impl" not in vars(primitive):
        return True
    bodies = [x for p in eqn.params.values() for x in (p if isinstance(p, tuple | list) else [p])]
    bodies = [x.jaxpr if isinstance(x, core.ClosedJaxpr) else x for x in bodies]
    return any(_is_opaque(e) for x in bodies if isinstance(x, core.Jaxpr) for e in x.eqns)


def with_outputs(jaxpr, outvars):
    """The jaxpr with other results."""
    return jaxpr.replace(outvars=outvars, debug_info=no_debug(jaxpr))


def arrays(values) -> list[np.ndarray]:
    import jax

    return jax.device_get([x if isinstance(x, jax.Array) else jax.numpy.asarray(x) for x in values])
