"""Functions of jax.numpy whose sizes depend on data and that are masks or ranges underneath: see _data_shapes.py."""

from __future__ import annotations

import functools

from sardonyx import plugins
from sardonyx._data_shapes import _aliases, _bound, _is_traced, _number

_LAX_NUMPY = "jax._src.numpy.lax_numpy"


class Composed(plugins.Plugin):
    jaxpr_primitive = "_sardonyx_composed"

    @classmethod
    def binding_specs(cls):
        specs = [
            *_aliases(_LAX_NUMPY, "bincount", bincount),
            *_aliases(_LAX_NUMPY, "delete", delete),
            *_aliases(_LAX_NUMPY, "trim_zeros", trim_zeros),
        ]
        for name in ("zeros", "ones", "empty", "full"):
            for module in ("jax._src.numpy.array_creation", _LAX_NUMPY):  # newer and older JAX
                if found := _aliases(module, name, made_of_shape):
                    specs += found
                    break
        return specs


def size_of(count):
    """The symbol of as many as `count`, an integer that is a value; below 0 there are none, as in a range."""
    import jax.numpy as jnp

    return jnp.arange(count).shape[0]


def made_of_shape(original):
    @functools.wraps(original)
    def make(*args, **kwargs):
        import jax.numpy as jnp

        bound = _bound(original, args, kwargs)
        shape = bound.arguments.get("shape") if bound else None

        def is_count(d):
            return _is_traced(d) and d.ndim == 0 and jnp.issubdtype(d.dtype, jnp.integer)

        if is_count(shape):
            shape = (shape,)
        if not isinstance(shape, (tuple, list)) or not any(map(is_count, shape)):
            return original(*args, **kwargs)
        bound.arguments["shape"] = tuple(size_of(d) if is_count(d) else d for d in shape)
        return original(*bound.args, **bound.kwargs)

    return make


def bincount(original):
    def bincount(*args, **kwargs):
        import jax.numpy as jnp

        bound = _bound(original, args, kwargs)
        given = bound.arguments if bound else {}
        x = given.get("x")
        if not _is_traced(x) or given.get("length") is not None or x.ndim != 1:
            return original(*args, **kwargs)
        if not jnp.issubdtype(x.dtype, jnp.integer):
            return original(*args, **kwargs)  # and its error
        # Of nothing the maximum is what it starts from; negative numbers count as 0.
        largest = jnp.max(x, initial=0)
        count = jnp.where(_number(x.shape[0]) > 0, largest.astype("int32") + 1, 0)
        given["length"] = size_of(jnp.maximum(count, given.get("minlength", 0)))
        return original(*bound.args, **bound.kwargs)

    return bincount


def delete(original):
    def delete(*args, **kwargs):
        import jax.numpy as jnp

        bound = _bound(original, args, kwargs)
        given = bound.arguments if bound else {}
        obj = given.get("obj")
        if not _is_traced(obj) or (given.get("assume_unique_indices") and obj.dtype != bool):
            return original(*args, **kwargs)
        a, axis = jnp.asarray(given["arr"]), given.get("axis")
        a, axis = (jnp.ravel(a), 0) if axis is None else (a, axis % a.ndim)
        size = a.shape[axis]
        if obj.dtype == bool:
            if obj.shape != (size,):
                return original(*args, **kwargs)  # and its error
            kept = ~obj
        elif jnp.issubdtype(obj.dtype, jnp.integer):
            kept = jnp.ones(size, bool).at[jnp.ravel(obj)].set(False, mode="drop")
        else:
            return original(*args, **kwargs)
        return a[(*(slice(None),) * axis, kept)]

    return delete


def trim_zeros(original):
    def trim_zeros(*args, **kwargs):
        import jax.numpy as jnp
        from jax import lax

        bound = _bound(original, args, kwargs)
        given = bound.arguments if bound else {}
        x, trim = given.get("filt"), given.get("trim")
        if not _is_traced(x) or x.ndim != 1 or not isinstance(trim, str) or not set(trim.lower()) & {"f", "b"}:
            return original(*args, **kwargs)
        wanted = (x != 0).astype(jnp.int32)
        kept = jnp.ones_like(wanted)
        if "f" in trim.lower():
            kept &= lax.cummax(wanted)
        if "b" in trim.lower():
            kept &= lax.cummax(wanted, reverse=True)
        return x[kept != 0]

    return trim_zeros
