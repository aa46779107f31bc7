"""Replaces functions whose results have a size that depends on data while Sardonyx traces.

JAX refuses to trace them. When it has refused, the program is traced once more with replacements (`active`).
Each unknown size becomes a symbol like those of the inputs, one per array that determines it, so that
`x[mask] + y[mask]` has a shape. These symbols may be 0, which JAX does not assume of others.

Calls with `size=`, with known values, or in other forms go to the original. Replacements act in the thread that
traces and are undone afterwards. The symbols are part of JAX's cache key, so that no trace is used again outside.

tests/python/jax/test_jax_internals.py names every function that is replaced and the private names of JAX that are
used: run it first on a new JAX. A function that a release of JAX lacks is left alone, and JAX's error remains.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from typing import Any

from sardonyx import plugins
from sardonyx._error import Error
from sardonyx._trace.data import functions as _data_functions
from sardonyx._trace.data import loops as _data_loops
from sardonyx._trace.data.bounds import Bounds
from sardonyx._trace.data.primitives import BUILT_IN
from sardonyx._trace.data.sizes import Sizes, inputs_scope, sizes
from sardonyx.plugins import _patches


def _aliases(replacements: dict[str, Any]):
    """Patches for every module that holds one of these functions, under whatever name, including the user's
    own modules. By full name, the function that makes the replacement.

    Names that this JAX does not have are skipped: JAX itself reports that it cannot trace the functions it
    has instead.
    """
    wanted = {}
    for path, make_value in replacements.items():
        try:
            original = _patches.resolve(path)
        except (Error, AttributeError, ImportError):
            continue
        wanted.setdefault(id(_unpatched(original)), _guarded(make_value))
    specs = []
    for owner in list(sys.modules.values()):
        members = getattr(owner, "__dict__", None)
        for alias, held in list(members.items()) if isinstance(members, dict) else ():
            original = _unpatched(held) if isinstance(held, types.FunctionType) else held
            if (make_value := wanted.get(id(original))) is not None:
                specs.append(_patches.MonkeyPatchSpec(owner, alias, make_value))
    return specs


def _guarded(make_value):
    def make(original):
        replacement = make_value(original)

        @functools.wraps(original)
        def call(*args, **kwargs):
            # Another thread may be tracing with its patches in place.
            return (original if sizes() is None else replacement)(*args, **kwargs)

        return call

    return make


def _unpatched(function):
    """The original, if another thread has patched it."""
    return getattr(function, "__sardonyx_original__", function)


def patched(function):
    """The replacement of a function that the user passed directly."""
    if isinstance(function, functools.partial):
        return functools.partial(patched(function.func), *function.args, **function.keywords)
    with _patches.lock:
        for entry in _patches.installed.values():
            held = getattr(entry.target, entry.attr, None)
            if _unpatched(held) is function:
                return held
    return function


class Functions(plugins.Plugin):
    """All replaced functions, found in one search of all modules. A user's plugin for the same primitive
    takes precedence."""

    jaxpr_primitive = "_sardonyx_functions"

    @classmethod
    def binding_specs(cls):
        found = _data_functions.replacements() | _data_loops.replacements()
        for built_in in BUILT_IN:
            if built_in.jaxpr_primitive not in plugins._plugins:
                found |= built_in.replacements()
        return _aliases(found)


@functools.cache
def _plugins() -> tuple[plugins.Plugin, ...]:
    return (Functions(), Bounds())


@contextlib.contextmanager
def active(leaves):
    """Around a second trace, of a program with these inputs. Yields its Sizes."""
    primitives = [p.primitive() for p in BUILT_IN]
    with Sizes(*inputs_scope(leaves), primitives).active() as found, _patches.patched(_plugins(), remembered=True):
        yield found
