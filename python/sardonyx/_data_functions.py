"""Functions of jax.numpy whose sizes depend on data and that are masks or ranges underneath: see _data_shapes.py."""

from __future__ import annotations

import functools

from sardonyx import plugins
from sardonyx._data_shapes import _aliases, _bound, _is_traced, _number

_LAX_NUMPY = "jax._src.numpy.lax_numpy"


# Functions whose sizes may be values, by module: the parameters that hold them.
_COUNTS = {
    "jax.numpy": {
        "eye": ("N", "M"),
        "identity": ("n",),
        "tri": ("N", "M"),
        "broadcast_to": ("shape",),
        "tile": ("reps",),
    },
    "jax.nn": {"one_hot": ("num_classes",)},
    "jax.random": {"uniform": ("shape",), "normal": ("shape",)},
}
_MAKERS = ("jax._src.numpy.array_creation", _LAX_NUMPY)  # newer and older JAX


class Composed(plugins.Plugin):
    jaxpr_primitive = "_sardonyx_composed"

    @classmethod
    def binding_specs(cls):
        specs = [
            *_aliases(_LAX_NUMPY, "bincount", bincount),
            *_aliases(_LAX_NUMPY, "delete", delete),
            *_aliases(_LAX_NUMPY, "trim_zeros", trim_zeros),
        ]
        makers = {name: functools.partial(counted, names=("shape",)) for name in ("zeros", "ones", "empty", "full")}
        for name, make in {**makers, "linspace": linspace}.items():
            specs += next(filter(None, (_aliases(module, name, make) for module in _MAKERS)), [])
        for module, functions in _COUNTS.items():
            for name, names in functions.items():
                specs += _aliases(module, name, functools.partial(counted, names=names))
        return specs


def size_of(count):
    """The symbol of as many as `count`, an integer that is a value; below 0 there are none, as in a range."""
    import jax.numpy as jnp

    return jnp.arange(count).shape[0]


def _is_count(d) -> bool:
    import jax.numpy as jnp

    return _is_traced(d) and d.ndim == 0 and jnp.issubdtype(d.dtype, jnp.integer)


def counted(original, names):
    """The original with a symbol for each size among its arguments `names` that is a value."""

    @functools.wraps(original)
    def make(*args, **kwargs):
        bound = _bound(original, args, kwargs)
        given = bound.arguments if bound else {}
        found = {}
        for name in names:
            value = given.get(name)
            if _is_count(value):
                found[name] = (size_of(value),) if name == "shape" else size_of(value)
            elif isinstance(value, (tuple, list)) and any(map(_is_count, value)):
                found[name] = tuple(size_of(d) if _is_count(d) else d for d in value)
        if not found:
            return original(*args, **kwargs)
        given.update(found)
        return original(*bound.args, **bound.kwargs)

    return make


def linspace(original):
    @functools.wraps(original)
    def linspace(*args, **kwargs):
        import jax
        import jax.numpy as jnp

        bound = _bound(original, args, kwargs)
        given = dict(bound.arguments) if bound else {}
        if not _is_count(given.get("num")):
            return original(*args, **kwargs)
        start, stop, count = jnp.asarray(given["start"]), jnp.asarray(given["stop"]), jnp.maximum(given["num"], 0)
        endpoint, device = bool(given.get("endpoint", True)), given.get("device")
        dtype = original(start, stop, 2, dtype=given.get("dtype")).dtype
        working = dtype if jnp.issubdtype(dtype, jnp.inexact) else original(jnp.zeros((), dtype), 1, 2).dtype
        start, stop = jnp.broadcast_arrays(start.astype(working), stop.astype(working))
        rank = start.ndim + 1
        axis = given.get("axis", 0) % rank
        start, stop = jnp.expand_dims(start, axis), jnp.expand_dims(stop, axis)
        # As JAX computes it for a number: between the ends, whose last is exact; a single one is the first.
        place = jnp.arange(count)
        place = place.reshape([place.shape[0] if a == axis else 1 for a in range(rank)])
        real = jnp.finfo(working).dtype
        parts = jnp.maximum(count - endpoint, 1)
        step = (place.astype(real) / parts.astype(real)).astype(working)
        out = start * (1 - step) + stop * step
        if endpoint:
            out = jnp.where((place == count - 1) & (count > 1), stop, out)
        if jnp.issubdtype(dtype, jnp.integer):
            out = jnp.floor(out)
        out = out.astype(dtype) if device is None else jax.device_put(out.astype(dtype), device)
        if not given.get("retstep"):
            return out
        apart = jnp.squeeze(stop - start, axis) / parts.astype(working)
        return out, jnp.where(count > endpoint, apart, jnp.nan)

    return linspace


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
        x, trim, axes = given.get("filt"), given.get("trim"), given.get("axis")
        if not _is_traced(x) or not isinstance(trim, str) or not set(trim.lower()) & {"f", "b"}:
            return original(*args, **kwargs)
        axes = range(x.ndim) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
        if any(not isinstance(a, int) or not -x.ndim <= a < x.ndim for a in axes):
            return original(*args, **kwargs)  # and its error
        out = x
        for axis in {a % x.ndim for a in axes}:
            wanted = (x != 0).any([a for a in range(x.ndim) if a != axis]).astype(jnp.int32)
            kept = jnp.ones_like(wanted)
            if "f" in trim.lower():
                kept &= lax.cummax(wanted)
            if "b" in trim.lower():
                kept &= lax.cummax(wanted, reverse=True)
            out = out[(*(slice(None),) * axis, kept != 0)]
        return out

    return trim_zeros
