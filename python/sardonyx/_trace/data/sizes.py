"""Sizes that depend on data: a symbol for each, and the values that determine it."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
from typing import Any

import numpy as np

from sardonyx._error import Error

_current: contextvars.ContextVar[Sizes | None] = contextvars.ContextVar("sardonyx_sizes", default=None)
# Part of JAX's cache key for traces, never used twice: a function that is traced again must get its own
# symbols.
_mark = itertools.count()


class Sizes:
    """The sizes of one program that depend on data, and the values that determine them."""

    def __init__(self, scope=None, taken=(), primitives=()):
        from jax import export

        self.scope = scope or export.SymbolicScope()
        self.primitives = list(primitives)  # their parameter `size` is one of these symbols
        self.least = 0  # lower bound of each of them
        self.origins: dict[str, str] = {}  # by symbol: "nonzero of bool[B], model.py:12 (loss)"
        self._taken = set(taken)
        self._by_value: dict[Any, Any] = {}
        self._numbers: dict[
            int, tuple[int, Any]
        ] = {}  # by id of a tracer: its number, and the tracer itself, so that its id is not reused
        self._by_formula: dict[Any, int] = {}
        self._context = None

    def of(self, function: str, values, *facts):
        """The symbol for `function` of these values: the same one whenever they are the same."""
        from jax import export

        key = (function, facts, tuple(self._number(v) for v in values))
        if key not in self._by_value:
            name = next(n for n in (f"{function}_{i}" for i in itertools.count()) if n not in self._taken)
            self._taken.add(name)
            self.origins[name] = f"{function} of {', '.join(map(type_text, values))}"
            (self._by_value[key],) = export.symbolic_shape(name, scope=self.scope)
            self._renew()
        return self._by_value[key]

    @contextlib.contextmanager
    def active(self):
        token = _current.set(self)
        try:
            with contextlib.ExitStack() as stack:
                self._context = stack
                self._renew()
                yield self
        finally:
            self._context = None
            _current.reset(token)

    def _renew(self) -> None:
        """Discards JAX's cached traces: the sizes in them belong to one call."""
        from jax.experimental.xla_metadata import set_xla_metadata

        self._context.enter_context(set_xla_metadata(sardonyx_sizes=str(next(_mark))))

    def check(self, closed) -> None:
        """Raises an Error where one symbol would denote several sizes."""
        self._check(closed.jaxpr, set(), {})

    def _check(self, jaxpr, known: set[str], callers: dict) -> None:
        for eqn in jaxpr.eqns:
            for inner in _bodies(eqn):
                if callers.setdefault(id(inner), eqn) is not eqn and self._defined(inner):
                    raise Error(
                        f"'{eqn.params.get('name', eqn.primitive.name)}' is called twice, and JAX traced it once: the sizes in it that "
                        "depend on data have one name for both calls",
                        "unsupported",
                        ["help: take jax.jit off this function, or call it through two functions"],
                    )
                self._check(inner, set(known), callers)
            if eqn.primitive.name == "scan":
                stacked = {n for v in eqn.outvars[scan_counts(eqn.params)[1] :] for n in self._names(v.aval.shape)}
                if changing := stacked - known - self._same_in_all_steps(eqn):
                    raise Error(
                        f"a loop stacks results of size {min(changing)} ({self.origins[min(changing)]}), which differs from step to step",
                        "unsupported",
                        ["help: reduce them inside of the loop, or give size="],
                    )
            for v in (*eqn.invars, *eqn.outvars):
                known |= self._names(getattr(v.aval, "shape", ()))

    def _names(self, shape) -> set[str]:
        return {n for d in shape if hasattr(d, "_get_vars") for n in d._get_vars() if n in self.origins}

    def _defined(self, jaxpr) -> set[str]:
        """The symbols that our equations in this jaxpr or a nested one define."""
        own = {n for e in jaxpr.eqns if e.primitive in self.primitives for n in self._names((e.params["size"],))}
        return own.union(*(self._defined(b) for e in jaxpr.eqns for b in _bodies(e)))

    def _same_in_all_steps(self, scan) -> set[str]:
        """Symbols of a loop body that depend only on values that the loop does not change."""
        body = scan.params["jaxpr"].jaxpr
        steady = {*body.constvars, *body.invars[: scan_counts(scan.params)[0]]}
        found: set[str] = set()
        for e in body.eqns:
            deciding = e.invars[1:] if e.primitive.name == "compress" else e.invars
            if all(hasattr(v, "val") or v in steady for v in deciding) and e.primitive in self.primitives:
                found |= self._names((e.params["size"],))
            if all(hasattr(v, "val") or v in steady for v in e.invars):
                steady.update(e.outvars)
        return found

    def _number(self, value, depth: int = 0) -> int:
        """Equal for the same tracer, and for values computed in the same way from equal ones, such as `x > 0`
        twice."""
        if id(value) in self._numbers:
            return self._numbers[id(value)][0]
        formula = self._formula(value, depth)
        number = self._by_formula.setdefault(formula, len(self._by_formula))
        self._numbers[id(value)] = number, value
        return number

    def _formula(self, value, depth: int):
        import jax

        if not isinstance(value, jax.core.Tracer):
            array = np.asarray(value)
            return ("constant", array.dtype.str, array.shape, array.tobytes() if array.size <= 16 else id(value))
        equation = getattr(value, "parent", None)
        operands = getattr(equation, "in_tracers", None)
        known = getattr(getattr(value, "val", None), "val", None)  # of a literal
        if equation is None and known is not None:
            return ("literal", str(value.aval), np.asarray(known).tobytes())
        if operands is None or equation.effects or depth > 8:
            return ("itself", id(value))
        try:
            params = tuple(sorted((k, v) for k, v in equation.params.items()))
            hash(params)
            position = [i for i, v in enumerate(equation.outvars) if v is value.val]
        except Exception:
            return ("itself", id(value))
        if len(position) != 1:
            return ("itself", id(value))
        numbers = tuple(self._number(v, depth + 1) for v in operands)
        return (equation.primitive, position[0], params, str(value.aval), numbers)


def scan_counts(params) -> tuple[int, int]:
    """How many operands of a scan are constants, and how many its state: two numbers until JAX 0.11, then a
    tree."""
    if "ft_in" not in params:
        return params["num_consts"], params["num_carry"]
    constants, state, _ = params["ft_in"].unpack()
    return len(constants), len(state)


def _bodies(eqn):
    """The jaxprs that an equation holds."""
    from jax.extend import core

    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, (core.Jaxpr, core.ClosedJaxpr)):
                yield getattr(item, "jaxpr", item)


def sizes() -> Sizes:
    return _current.get()


def type_text(value) -> str:
    return f"{getattr(value, 'dtype', type(value).__name__)}[{','.join(map(str, np.shape(value)))}]"


def inputs_scope(leaves):
    """(scope, names) of the symbolic dimensions in these abstract values; (None, ()) when there are none."""
    scope, names = None, set()
    for leaf in leaves:
        for d in getattr(leaf, "shape", ()):
            if hasattr(d, "_get_vars"):
                scope = d.scope
                names |= d._get_vars()
    return scope, names
