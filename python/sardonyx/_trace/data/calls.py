"""Helpers on the arguments of replaced JAX functions: see _data_shapes.py."""

from __future__ import annotations

import inspect

import numpy as np

LAX_NUMPY = "jax._src.numpy.lax_numpy"


def is_traced(x) -> bool:
    import jax
    from jax._src import core

    return isinstance(x, jax.core.Tracer) and not core.is_concrete(x)


def computed_now(original, *args, **kwargs):
    """Calls the original on known values now, so that the model does not compute it."""
    import jax

    with jax.ensure_compile_time_eval():
        return original(*args, **kwargs)


def bind_arguments(original, args, kwargs) -> inspect.BoundArguments | None:
    """The arguments by name with their defaults; None where they do not fit the signature."""
    try:
        bound = inspect.signature(original).bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return bound


def int_type():
    import jax

    return jax.dtypes.canonicalize_dtype(np.int64)


def product(dims):
    out = 1
    for d in dims:
        out = out * d
    return out


def at_most(a, b) -> bool:
    """a <= b, proven."""
    try:
        return bool(a <= b)
    except Exception:  # JAX cannot decide
        return False


def as_number(v):
    """A symbolic dimension as an array; other values unchanged."""
    import jax.numpy as jnp

    return jnp.asarray(v) if hasattr(v, "dimension_as_value") else v
