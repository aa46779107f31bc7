"""Loops and collectives whose number of steps is symbolic or a traced value, where JAX requires a number. See
_data_shapes.py."""

from __future__ import annotations

from typing import Any

from sardonyx._trace.data.calls import as_number, is_traced
from sardonyx._trace.data.functions import is_open, replacing, size_of

# More doublings than any axis has.
_MOST_DOUBLINGS = 31


def replacements() -> dict[str, Any]:
    """By full name, the function that makes a replacement from the original."""
    return {
        "jax.lax.scan": scan,
        "jax.lax.associative_scan": associative_scan,
        "jax.lax.psum": psum,
    }


@replacing
def scan(original, bound):
    """Without arrays to iterate over, the loop iterates over its step numbers."""
    import jax
    import jax.numpy as jnp

    given = bound.arguments
    if not is_open(given.get("length")):
        return NotImplemented
    length, given["length"] = size_of(given["length"]), None
    rows = jax.tree_util.tree_leaves(given["xs"])
    if rows:
        if any(x.shape[0] != length for x in rows):
            raise ValueError(
                f"scan got `length` {length}, and arrays of {', '.join(str(x.shape[0]) for x in rows)} rows"
            )
    else:
        body, nothing = given["f"], given["xs"]
        given["f"] = lambda carry, _: body(carry, nothing)
        given["xs"] = jnp.arange(length)
    return original(*bound.args, **bound.kwargs)


@replacing
def associative_scan(original, bound):
    """Doubles: after k steps each element combines the 2^k before it. JAX halves the axis instead, which
    needs its size."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    given = bound.arguments
    elements, tree = jax.tree_util.tree_flatten(given["elems"])
    axis = given["axis"] % elements[0].ndim
    size = elements[0].shape[axis]
    if not hasattr(size, "_get_vars") or any(x.shape[axis] != size for x in elements):
        return NotImplemented
    flip = (lambda x: jnp.flip(x, axis)) if given["reverse"] else (lambda x: x)
    place = lax.iota("int32", size)

    def doubled(state):
        width, now = state
        before = (slice(None),) * axis + (jnp.maximum(place - width, 0),)
        earlier = [x.at[before].get(mode="promise_in_bounds") for x in now]
        both = jax.tree_util.tree_leaves(given["fn"](tree.unflatten(earlier), tree.unflatten(now)))

        def chosen(x, new):
            has_earlier = (place >= width).reshape([size if i == axis else 1 for i in range(x.ndim)])
            return jnp.where(has_earlier, new, x).astype(x.dtype)

        return width * 2, [chosen(x, new) for x, new in zip(now, both, strict=True)]

    def step(state, _):
        # A while loop would have no gradient.
        return lax.cond(state[0] < as_number(size), doubled, lambda state: state, state), None

    state = (jnp.int32(1), [flip(jnp.asarray(x)) for x in elements])
    (_, found), _ = lax.scan(step, state, None, length=_MOST_DOUBLINGS)
    return tree.unflatten([flip(x) for x in found])


@replacing
def psum(original, bound):
    """The sum of a constant is a multiple of the axis's size, which is symbolic."""
    import math

    import jax
    from jax._src import core

    given = bound.arguments
    names = given["axis_name"] if isinstance(given["axis_name"], (tuple, list)) else (given["axis_name"],)
    leaves = jax.tree_util.tree_leaves(given["x"])
    if (
        given.get("axis_index_groups") is not None
        or any(map(is_traced, leaves))
        or any(isinstance(n, int) for n in names)
    ):
        return NotImplemented
    size = math.prod(core.get_axis_env().axis_size(n) for n in names)
    if not hasattr(size, "_get_vars"):
        return NotImplemented

    def one(x):
        return (
            size * x
            if isinstance(x, int)
            else jax.numpy.asarray(x) * as_number(size).astype(jax.numpy.asarray(x).dtype)
        )

    return jax.tree_util.tree_map(one, given["x"])
