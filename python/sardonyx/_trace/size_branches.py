"""Finds comparisons of sizes with names that decide Python branches.

JAX cannot raise in `==`, so a comparison that holds for some sizes only is false without a word, and a size in
`if` is true: the trace takes one side, and the model is wrong at sizes that take the other.
"""

import contextlib
import contextvars
import os
import re
import sys
import threading
from dataclasses import dataclass
from typing import Any

_lock = threading.RLock()
_users = 0
_originals: dict[str, Any] = {}
_found: contextvars.ContextVar["dict[Branch, None] | None"] = contextvars.ContextVar(
    "sardonyx_size_branches", default=None
)
# JAX knows how its own code compares sizes; the rest compares hashed sizes in its containers.
_PASSED_OVER = {*sys.stdlib_module_names, "jax", "jaxlib", "ml_dtypes", "numpy", "sardonyx"} - {"__main__"}


@dataclass(frozen=True)
class Branch:
    """A comparison of `left == right` that was taken as false, and where."""

    left: Any
    right: Any
    where: str

    def __str__(self):
        return f'"{self.left} == {self.right}" at {self.where}'

    def advice(self) -> str:
        """What to write so that the comparison is decided."""
        left, right = str(self.left), self.right
        if right == 0 and (m := re.fullmatch(r"mod\((\w+), (\d+)\)", left)):
            return f'write "{m[2]}*{m[1]}" in place of {m[1]} in the shapes, or give it a number'
        if re.fullmatch(r"\w+", left) and right == 1:
            return f'state "{left} >= 2" in place of {left} in a shape, or give it a number'
        if re.fullmatch(r"\w+", left) and re.fullmatch(r"[A-Za-z_]\w*", str(right)):
            return f"use one name in the shapes if {left} and {right} are equal, or compute with jnp.where or lax.cond"
        return "give the sizes numbers, or compute with jnp.where or lax.cond"

    def holds(self, sizes) -> bool:
        """Whether it is true at these sizes. Sizes without a value there count as different."""
        try:
            a, b = (d._evaluate(sizes) if hasattr(d, "_evaluate") else d for d in (self.left, self.right))
        except KeyError:
            return False
        return bool(a == b)


@contextlib.contextmanager
def watched():
    """Around traces, in this thread. Yields the comparisons: {Branch: None}."""
    found: dict[Branch, None] = {}
    _install()
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)
        _uninstall()


def warning(fn_name: str, branches) -> str:
    """What is said of the comparisons; "" if there are none."""
    if not branches:
        return ""
    first, *more = branches
    others = f" and {len(more)} more" if more else ""
    return (
        f"{fn_name} compares sizes with names in Python, and the trace takes one side: {first}{others} is taken as false. "
        f"The model is wrong where it holds: {first.advice()}"
    )


def _class():
    from jax._src.export import shape_poly

    return shape_poly._DimExpr


def _install() -> None:
    global _users
    with _lock:
        _users += 1
        if _users > 1:
            return
        cls = _class()
        equal, unequal = cls.__eq__, cls.__ne__
        _originals.update({name: cls.__dict__.get(name) for name in ("__eq__", "__ne__", "__bool__")})

        def __eq__(self, other):
            same = equal(self, other)
            if same is False:
                _note(self, other, sys._getframe(1))
            return same

        def __ne__(self, other):
            differ = unequal(self, other)
            if differ is True:
                _note(self, other, sys._getframe(1))
            return differ

        def __bool__(self):
            _note(self, 0, sys._getframe(1))
            return True

        cls.__eq__, cls.__ne__, cls.__bool__ = __eq__, __ne__, __bool__


def _uninstall() -> None:
    global _users
    with _lock:
        _users -= 1
        if _users:
            return
        cls = _class()
        for name, original in _originals.items():
            if original is None:
                delattr(cls, name)
            else:
                setattr(cls, name, original)
        _originals.clear()


def _note(left, right, frame) -> None:
    found = _found.get()
    if found is None or str(frame.f_globals.get("__name__", "jax")).partition(".")[0] in _PASSED_OVER:
        return
    if not isinstance(right, (int, type(left))) or _is_decided(left, right):
        return
    code = frame.f_code
    where = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} ({code.co_qualname})"
    found[Branch(left, right, where)] = None


def _is_decided(left, right) -> bool:
    """Whether the two differ at all sizes."""
    for ordered in (lambda d: d >= 1, lambda d: d <= -1):
        try:
            if ordered(left - right):
                return True
        except Exception:  # JAX's InconclusiveDimensionOperation
            continue
    return False
