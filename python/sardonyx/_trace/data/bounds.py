"""Lower bounds of symbols. JAX assumes 1, but sizes that depend on data may be 0. See _data_shapes.py."""

from __future__ import annotations

import functools
import sys
import sysconfig

from sardonyx import plugins
from sardonyx._trace.data.sizes import sizes


class _Truth:
    """`bool(n)`: JAX treats every size as true. A descriptor and not a function, so that assigning it does
    not wrap it."""

    def __get__(self, size, cls):
        def truth():
            if sizes() is not None:
                _decide(size, f"bool({size})")
            return True

        return truth


def _inconclusive() -> type[Exception]:
    """JAX's error for a comparison of sizes that has no answer."""
    import jax

    module = jax.errors if hasattr(jax.errors, "InconclusiveDimensionOperation") else jax.core  # newer and older JAX
    return module.InconclusiveDimensionOperation


def _decide(difference, text: str) -> None:
    """Raises JAX's error if user code compares a size with 0 that may be 0."""
    mine = sizes()
    if not hasattr(difference, "_get_vars") or not mine.origins.keys() & difference._get_vars():
        return
    path = _asker()
    if path.startswith(_PACKAGE) or "-packages/" in path or path.startswith(("<", sysconfig.get_path("stdlib"))):
        return  # libraries rely on JAX's answer
    lower, upper = _bounds(difference)
    if lower <= 0 <= upper:
        raise _inconclusive()(f"Symbolic dimension comparison '{text}' is inconclusive.")


def _bounds(size) -> tuple[float, float]:
    from jax._src.export import shape_poly

    return shape_poly._bounds_decision(size, shape_poly.BoundsPrecision.BEST)


class Bounds(plugins.Plugin):
    """JAX assumes that every symbol is at least 1. The symbols made here are at least 0.

    So `max(n, 1)` and `x[:1]` keep their meaning. But where JAX's rules check operands, for instance that a
    maximum is taken over something, these symbols count as at least 1 like all others. Programs cannot test
    whether one is 0: JAX answers no to `n == 0` and yes to `if n`.
    """

    jaxpr_primitive = "_sardonyx_bounds"

    @classmethod
    def binding_specs(cls):
        shapes = "jax._src.export.shape_poly"
        decisions = f"{shapes}_decision._DecisionByElimination"
        patch = functools.partial(plugins.MonkeyPatchSpec, in_abstract_eval=True)
        return [
            patch(decisions, "add_implicit_constraints_term", cls.bounded),
            patch(shapes, "_geq_decision", cls.compared),
            patch(f"{shapes}._DimExpr", "__eq__", cls.equal),
            patch(f"{shapes}._DimExpr", "max", cls.larger),
            patch(f"{shapes}._DimExpr", "rmax", cls.larger),
            plugins.AssignSpec(f"{shapes}._DimExpr", "__bool__", _Truth()),
        ]

    @staticmethod
    def larger(original):
        def max(self, other):  # noqa: A001
            found = original(self, other)
            mine = sizes()
            if mine is None or not hasattr(found, "_get_vars") or not mine.origins.keys() & found._get_vars():
                return found
            # Use the minimum, so that x[1:] and x[:-1] have the same size: n - min(n, 1) instead of max(n -
            # 1, 0).
            difference = self - other
            lower, upper = _bounds(difference)
            if lower >= 0 or upper <= 0:
                return found
            constant = sum(k for t, k in difference._sorted_terms if t.is_constant)
            return self + constant * -1 - (difference - constant).min(-constant)

        return max

    @staticmethod
    def equal(original):
        def __eq__(self, other):
            same = original(self, other)
            if not same and isinstance(other, int) and sizes() is not None:
                _decide(self - other, f"{self} == {other}")
            return same

        return __eq__

    @staticmethod
    def compared(original):
        def _geq_decision(*args, **kwargs):
            mine = sizes()
            try:
                return original(*args, **kwargs)
            except _inconclusive():
                if mine is None or mine.least == 1 or not _asked_by_rules():
                    raise
            mine.scope._bounds_cache.clear()
            mine.least = 1
            try:
                return original(*args, **kwargs)
            finally:
                mine.least = 0
                mine.scope._bounds_cache.clear()

        return _geq_decision

    @staticmethod
    def bounded(original):
        def add_implicit_constraints_term(self, t):
            factor = t.to_factor()
            name = factor.to_var() if factor is not None else None
            mine = sizes()
            if mine is None or self.scope is not mine.scope or name not in mine.origins:
                return original(self, t)
            if t not in self._processed_for_internal_constraints:
                from jax._src.export import shape_poly

                self._processed_for_internal_constraints.add(t)
                symbol = shape_poly._DimExpr._from_term(t, 1, self.scope)
                self.combine_and_add_constraint(shape_poly.Comparator.GEQ, symbol, mine.least)
            return None

        return add_implicit_constraints_term


def _asker() -> str:
    """The file whose code asked for the comparison."""
    frame = sys._getframe(1)
    between = ("/jax/_src/export/shape_poly.py", "/jax/_src/core.py", "/sardonyx/plugins/_patches.py")
    while frame is not None:
        path = frame.f_code.co_filename.replace("\\", "/")
        if not path.endswith(between) and (path != _HERE or frame.f_code.co_name not in _COMPARING):
            return path
        frame = frame.f_back
    return ""


_HERE = __file__.replace("\\", "/")
_PACKAGE = _HERE[: _HERE.rindex("/sardonyx/")] + "/sardonyx/"
_COMPARING = ("_asker", "_asked_by_rules", "_decide", "_geq_decision", "__eq__", "truth")


def _asked_by_rules() -> bool:
    """Whether one of JAX's rules for operands asks, which raises an error if the condition does not hold."""
    path = _asker()
    return "/jax/_src/lax/" in path or path.endswith("/jax/_src/numpy/reductions.py")
