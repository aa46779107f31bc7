"""Functions of jax.numpy whose sizes depend on data and that are masks or ranges underneath. See
_data_shapes.py."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from sardonyx._trace.data.calls import LAX_NUMPY, as_number, at_most, bind_arguments, is_traced

# Functions whose sizes may be traced values: the parameters that hold them.
_COUNTS = {
    "jax.numpy.eye": ("N", "M"),
    "jax.numpy.identity": ("n",),
    "jax.numpy.tri": ("N", "M"),
    "jax.numpy.broadcast_to": ("shape",),
    "jax.numpy.tile": ("reps",),
    "jax.nn.one_hot": ("num_classes",),
    "jax.random.uniform": ("shape",),
    "jax.random.normal": ("shape",),
}


def replacements() -> dict[str, Any]:
    """By full name, the function that makes a replacement from the original."""
    jnp = "jax.numpy"
    found = {
        f"{LAX_NUMPY}.bincount": bincount,
        f"{LAX_NUMPY}.delete": delete,
        f"{LAX_NUMPY}.trim_zeros": trim_zeros,
        f"{LAX_NUMPY}._conv": convolution,
        f"{jnp}.indices": indices,
        f"{jnp}.diag_indices": diag_indices,
        f"{jnp}.vander": vander,
        f"{jnp}.searchsorted": searchsorted,
    }
    for name, operation in {"union1d": union, "setdiff1d": difference, "setxor1d": in_one}.items():
        found[f"jax._src.numpy.setops.{name}"] = functools.partial(of_sets, operation=operation)
    for name, shape in _WINDOWS.items():
        found[f"{jnp}.{name}"] = functools.partial(window, shape=shape)
    makers = {name: functools.partial(counted, names=("shape",)) for name in ("zeros", "ones", "empty", "full")}
    spaces = {"linspace": linspace, "logspace": logspace, "geomspace": geomspace}
    found |= {f"{jnp}.{name}": make for name, make in {**makers, **spaces}.items()}
    for path, names in _COUNTS.items():
        found[path] = functools.partial(counted, names=names)
    return found


def replacing(compute):
    """A maker of replacements. Where `compute(original, bound, **options)` returns NotImplemented, the
    original is called.

    `bound.arguments` has the arguments by name with their defaults.
    """

    def make(original, **options):
        def call(*args, **kwargs):
            bound = bind_arguments(original, args, kwargs)
            out = NotImplemented if bound is None else compute(original, bound, **options)
            return original(*args, **kwargs) if out is NotImplemented else out

        return call

    return make


def size_of(count):
    """The symbol for a size of `count` elements, where `count` is an integer value; below 0 the size is 0, as
    in a range. Sizes are returned unchanged."""
    import jax.numpy as jnp

    return jnp.arange(count).shape[0] if _is_count(count) else count


def _is_count(d) -> bool:
    import jax.numpy as jnp

    return is_traced(d) and d.ndim == 0 and jnp.issubdtype(d.dtype, jnp.integer)


def is_open(d) -> bool:
    """Whether a count is a traced value or a symbolic size: JAX requires numbers."""
    return _is_count(d) or hasattr(d, "_get_vars")


@replacing
def counted(original, bound, names):
    """Calls the original with a symbol for each size among its arguments `names` that is a traced value."""
    given = bound.arguments
    found = {}
    for name in names:
        value = given.get(name)
        if _is_count(value):
            found[name] = (size_of(value),) if name == "shape" else size_of(value)
        elif isinstance(value, (tuple, list)) and any(map(_is_count, value)):
            found[name] = tuple(size_of(d) if _is_count(d) else d for d in value)
    if not found:
        return NotImplemented
    given.update(found)
    return original(*bound.args, **bound.kwargs)


@replacing
def linspace(original, bound):
    import jax
    import jax.numpy as jnp

    given = bound.arguments
    if not is_open(given.get("num")):
        return NotImplemented
    start, stop, count = (
        jnp.asarray(given["start"]),
        jnp.asarray(given["stop"]),
        jnp.maximum(as_number(given["num"]), 0),
    )
    endpoint, device = bool(given.get("endpoint", True)), given.get("device")
    dtype, working = _types(original, given)
    start, stop = jnp.broadcast_arrays(start.astype(working), stop.astype(working))
    rank = start.ndim + 1
    axis = given.get("axis", 0) % rank
    start, stop = jnp.expand_dims(start, axis), jnp.expand_dims(stop, axis)
    # As JAX computes it for a number: interpolate between the ends; the last is exact. A single element is
    # the first.
    place = jnp.arange(size_of(given["num"]))
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


def _types(original, given):
    """The dtype of a range between two ends, and the dtype in which JAX computes it: those that two of the ends
    have."""
    import jax.numpy as jnp

    start, stop = jnp.asarray(given["start"]), jnp.asarray(given["stop"])
    dtype = original(start, stop, 2, dtype=given.get("dtype")).dtype
    return dtype, dtype if jnp.issubdtype(dtype, jnp.inexact) else jnp.linspace(jnp.zeros((), dtype), 1, 2).dtype


@replacing
def logspace(original, bound):
    import jax.numpy as jnp

    given = bound.arguments
    if not is_open(given.get("num")):
        return NotImplemented
    dtype, working = _types(original, given)
    start, stop = (jnp.asarray(given[end]).astype(working) for end in ("start", "stop"))
    places = jnp.linspace(start, stop, given["num"], endpoint=given.get("endpoint", True), axis=given.get("axis", 0))
    return jnp.power(given.get("base", 10.0), places).astype(dtype)


@replacing
def geomspace(original, bound):
    import jax.numpy as jnp

    given = bound.arguments
    if not is_open(given.get("num")):
        return NotImplemented
    dtype, working = _types(original, given)
    start, stop = (jnp.asarray(given[end]).astype(working) for end in ("start", "stop"))
    sign = jnp.sign(start)
    ends = jnp.log10(start / sign), jnp.log10(stop / sign)
    out = sign * jnp.logspace(*ends, given["num"], endpoint=given.get("endpoint", True), dtype=working)
    return jnp.moveaxis(out, 0, given.get("axis", 0)).astype(dtype)


@replacing
def indices(original, bound):
    import jax.numpy as jnp
    from jax import dtypes, lax

    given = bound.arguments
    shape, dtype = given.get("dimensions"), given.get("dtype")
    if not isinstance(shape, (tuple, list)) or not any(map(is_open, shape)):
        return NotImplemented
    if not all(is_open(d) or isinstance(d, (int, np.integer)) for d in shape):
        return NotImplemented  # raises the original's error
    shape = tuple(map(size_of, shape))
    dtype = dtypes.canonicalize_dtype(int if dtype is None else dtype)
    if given.get("sparse"):
        alone = [tuple(d if axis == i else 1 for i, d in enumerate(shape)) for axis in range(len(shape))]
        return tuple(lax.broadcasted_iota(dtype, one, axis) for axis, one in enumerate(alone))
    return jnp.stack([lax.broadcasted_iota(dtype, shape, axis) for axis in range(len(shape))])


@replacing
def diag_indices(original, bound):
    import jax.numpy as jnp

    given = bound.arguments
    n, rank = given.get("n"), given.get("ndim")
    if not is_open(n) or not isinstance(rank, int) or rank < 0:
        return NotImplemented
    return (jnp.arange(size_of(n)),) * rank


@replacing
def vander(original, bound):
    import jax.numpy as jnp
    from jax import lax

    given = bound.arguments
    x, count = given.get("x"), given.get("N")
    if np.ndim(x) == 1 and count is None:
        count = np.shape(x)[0]
    if np.ndim(x) != 1 or not is_open(count):
        return NotImplemented
    x, count = jnp.asarray(x), size_of(count)
    power = lax.iota(x.dtype, count)
    if not given.get("increasing"):
        power = jnp.asarray(as_number(count) - 1).astype(x.dtype) - power
    return jnp.power(x[:, None], power[None])


def _kaiser(place, last, beta):
    import jax.numpy as jnp

    half = 0.5 * last
    return jnp.i0(beta * jnp.sqrt(1 - ((place - half) / half) ** 2)) / jnp.i0(beta)


def _wave(place, last, times: int = 2):
    import jax.numpy as jnp

    return jnp.cos(times * np.pi * place / last)


# Windows by the positions of their elements and of the last one, in the order in which JAX computes.
_WINDOWS = {
    "bartlett": lambda place, last: 1 - abs(2 * place - last) / last,
    "blackman": lambda place, last: 0.42 - 0.5 * _wave(place, last) + 0.08 * _wave(place, last, 4),
    "hamming": lambda place, last: 0.54 - 0.46 * _wave(place, last),
    "hanning": lambda place, last: 0.5 * (1 - _wave(place, last)),
    "kaiser": _kaiser,
}


@replacing
def window(original, bound, shape):
    import jax.numpy as jnp
    from jax import lax

    given = bound.arguments
    count = given.pop("M", None)
    if not is_open(count):
        return NotImplemented
    dtype = jnp.result_type(float)
    last = jnp.asarray(as_number(count) - 1)
    out = shape(lax.iota(dtype, size_of(count)), jnp.maximum(last, 1).astype(dtype), **given)
    return jnp.where(last > 0, out, jnp.ones((), dtype))


@replacing
def searchsorted(original, bound):
    import jax.numpy as jnp

    given = bound.arguments
    a, side = given.get("a"), given.get("side")
    if np.ndim(a) != 1 or not is_open(np.shape(a)[0]) or side not in ("left", "right"):
        return NotImplemented
    a = a if given.get("sorter") is None else a[given["sorter"]]
    a, v = jnp.broadcast_arrays(a, jnp.expand_dims(given["v"], -1))
    if jnp.iscomplexobj(a) or jnp.iscomplexobj(v):
        return NotImplemented
    # Halving takes a known number of steps: count the elements before v instead. NaN comes last.
    before = (a < v) | ((v != v) & (a == a)) if side == "left" else (a <= v) | (v != v)
    return jnp.sum(before, axis=-1, dtype=jnp.int32)


@replacing
def convolution(original, bound):
    """`jnp.convolve` and `jnp.correlate`. Moves the shorter array over the other. In mode "full", it may also
    be the longer one."""
    import jax.numpy as jnp
    from jax import lax

    given = bound.arguments
    x, y, op = given.get("x"), given.get("y"), given.get("op")
    sizes = (*np.shape(x), *np.shape(y))
    if np.ndim(x) != 1 or np.ndim(y) != 1 or not any(map(is_open, sizes)) or op not in ("convolve", "correlate"):
        return NotImplemented
    m, n = sizes
    pads = {"full": lambda k: (k - 1, k - 1), "same": lambda k: (k // 2, k - k // 2 - 1), "valid": lambda k: (0, 0)}
    pad, kind = pads.get(given.get("mode")), given.get("preferred_element_type")
    swapped = not at_most(n, m) and (at_most(m, n) or is_open(n))
    if pad is None or (given["mode"] != "full" and not at_most(n, m) and not at_most(m, n)):
        return NotImplemented
    dtype = jnp.result_type(x, y)
    if kind is None and not jnp.issubdtype(dtype, jnp.inexact):
        dtype = jnp.result_type(dtype, float)
    x, y = x.astype(dtype), y.astype(dtype)
    y = jnp.conj(y) if op == "correlate" else y
    x, y = (y, x) if swapped else (x, y)
    y = jnp.flip(y) if op == "convolve" else y
    x = jnp.pad(x[None, None], ((0, 0), (0, 0), pad(y.shape[0])))  # conv_general_dilated requires numbers
    kinds = {"precision": given.get("precision"), "preferred_element_type": kind}
    out = lax.conv_general_dilated(x, y[None, None], (1,), [(0, 0)], **kinds)[0, 0]
    return jnp.flip(out) if swapped and op == "correlate" else out


@replacing
def of_sets(original, bound, operation):
    """Applies `operation` to two flat arrays, with whether each is known to have no duplicates."""
    import jax.numpy as jnp

    given = bound.arguments
    a, b = given.get("ar1"), given.get("ar2")
    if given.get("size") is not None or not (is_traced(a) or is_traced(b)):
        return NotImplemented
    return operation(jnp.ravel(jnp.asarray(a)), jnp.ravel(jnp.asarray(b)), bool(given.get("assume_unique")))


def union(a, b, unique):
    import jax.numpy as jnp

    return jnp.unique(jnp.concatenate([a, b]))


def difference(a, b, unique):
    import jax.numpy as jnp

    a = a if unique else jnp.unique(a)
    return a[jnp.isin(a, b, invert=True)]


def in_one(a, b, unique):
    import jax.numpy as jnp

    return jnp.sort(jnp.concatenate([difference(a, b, unique), difference(b, a, unique)]))


@replacing
def bincount(original, bound):
    import jax.numpy as jnp

    given = bound.arguments
    x = given.get("x")
    if not is_traced(x) or given.get("length") is not None or x.ndim != 1:
        return NotImplemented
    if not jnp.issubdtype(x.dtype, jnp.integer):
        return NotImplemented  # raises the original's error
    # The maximum of an empty array is its initial value; negative numbers count as 0.
    largest = jnp.max(x, initial=0)
    count = jnp.where(as_number(x.shape[0]) > 0, largest.astype("int32") + 1, 0)
    given["length"] = size_of(jnp.maximum(count, given.get("minlength", 0)))
    return original(*bound.args, **bound.kwargs)


@replacing
def delete(original, bound):
    import jax.numpy as jnp

    given = bound.arguments
    obj = given.get("obj")
    if not is_traced(obj) or (given.get("assume_unique_indices") and obj.dtype != bool):
        return NotImplemented
    a, axis = jnp.asarray(given["arr"]), given.get("axis")
    a, axis = (jnp.ravel(a), 0) if axis is None else (a, axis % a.ndim)
    size = a.shape[axis]
    if obj.dtype == bool:
        if obj.shape != (size,):
            return NotImplemented  # raises the original's error
        kept = ~obj
    elif jnp.issubdtype(obj.dtype, jnp.integer):
        kept = jnp.ones(size, bool).at[jnp.ravel(obj)].set(False, mode="drop")
    else:
        return NotImplemented
    return a[(*(slice(None),) * axis, kept)]


@replacing
def trim_zeros(original, bound):
    import jax.numpy as jnp
    from jax import lax

    given = bound.arguments
    x, trim, axes = given.get("filt"), given.get("trim"), given.get("axis")
    if not is_traced(x) or not isinstance(trim, str) or not set(trim.lower()) & {"f", "b"}:
        return NotImplemented
    axes = range(x.ndim) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    if any(not isinstance(a, int) or not -x.ndim <= a < x.ndim for a in axes):
        return NotImplemented  # raises the original's error
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
