"""Primitives whose results have a size that depends on data: what they compute, and the JAX functions that
they replace."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from sardonyx import plugins
from sardonyx._error import Error
from sardonyx._trace.data.calls import (
    LAX_NUMPY,
    as_number,
    at_most,
    bind_arguments,
    computed_now,
    int_type,
    is_traced,
    product,
)
from sardonyx._trace.data.sizes import sizes, type_text


class _BuiltIn(plugins.Plugin):
    """Lowered natively: a program with these primitives can be saved and converted without Python.

    `evaluate` computes their results for `check=True`. An `impl` would also give JAX their gradients and
    batching rules. `replacements()` lists the functions that they replace: by full name, the function that
    makes a replacement from the original.
    """

    @classmethod
    def primitive(cls):
        fresh = cls.__dict__.get("_PRIM") is None
        primitive = super().primitive()
        if fresh:
            cls.differentiate(primitive)
            from jax.interpreters import batching

            batching.primitive_batchers[primitive] = cls.batch
        return primitive

    @classmethod
    def differentiate(cls, primitive):
        pass

    @classmethod
    def batch(cls, operands, axes, **params):
        raise Error(
            f"jax.vmap over {cls.called}: each example would have a size of its own",
            "unsupported",
            ["help: give size=, keep the mask outside of vmap, or use jnp.where(mask, x, 0)"],
        )


class NonZero(_BuiltIn):
    """`jnp.nonzero` of an array as one array of indices, a row per axis."""

    jaxpr_primitive = "nonzero"
    called = "jnp.nonzero"

    @classmethod
    def replacements(cls):
        return {f"{LAX_NUMPY}.nonzero": cls.nonzero, f"{LAX_NUMPY}.argwhere": cls.argwhere}

    @staticmethod
    def abstract_eval(x, *, dtype, size, fitted=False):
        import jax

        return jax.core.ShapedArray((x.ndim, size), dtype)

    @staticmethod
    def evaluate(x, *, dtype, size, fitted=False):
        found = np.stack(np.nonzero(np.asarray(x))).astype(dtype)
        return np.broadcast_to(found, (x.ndim, size)) if fitted else found

    @classmethod
    def of(cls, array, fitted=None):
        """i[rank, n], or i[rank, fitted] with `fitted`. Then there are that many, or one that is broadcast,
        or the model fails at run time."""
        import jax
        import jax.numpy as jnp

        array = jnp.asarray(array)
        if jnp.issubdtype(array.dtype, jnp.complexfloating):
            array = array != 0
        if jnp.issubdtype(array.dtype, jnp.floating):
            array = jax.lax.stop_gradient(array)
        if fitted is not None:
            return cls.primitive().bind(array, dtype=int_type(), size=fitted, fitted=True)
        return cls.primitive().bind(array, dtype=int_type(), size=sizes().of("nonzero", [array]))

    @classmethod
    def rows(cls, array, fitted=None):
        """One array of indices per axis."""
        import jax

        indices = cls.of(array, fitted)
        return tuple(jax.lax.index_in_dim(indices, i, 0, keepdims=False) for i in range(indices.shape[0]))

    @classmethod
    def nonzero(cls, original):
        def nonzero(*args, **kwargs):
            bound = bind_arguments(original, args, kwargs)
            a = bound and bound.arguments.get("a")
            if bound is None or bound.arguments.get("size") is not None or a is None:
                return original(*args, **kwargs)
            if not is_traced(a):
                return computed_now(original, *args, **kwargs)
            # A fill value fills the excess of `size`: there is none here.
            return cls.rows(a) if a.ndim else original(*args, **kwargs)

        return nonzero

    @classmethod
    def argwhere(cls, original):
        def argwhere(*args, **kwargs):
            bound = bind_arguments(original, args, kwargs)
            a = bound and bound.arguments.get("a")
            if bound is None or bound.arguments.get("size") is not None or not is_traced(a) or not a.ndim:
                return original(*args, **kwargs)
            return cls.of(a).T

        return argwhere


# ----------------------------------------------------------------------------------------------------------------------
# Compress


class Compress(_BuiltIn):
    """The slices of an array along an axis where a mask is true: `x[mask]`, `jnp.compress`, `jnp.extract`."""

    jaxpr_primitive = "compress"
    called = "a boolean mask"

    @classmethod
    def replacements(cls):
        return {
            f"{LAX_NUMPY}.compress": cls.compress,
            "jax._src.numpy.indexing.rewriting_take": cls.take,
            "jax._src.ops.scatter._scatter_update": cls.update,
        }

    @staticmethod
    def abstract_eval(x, mask, *, axis, size):
        import jax

        return jax.core.ShapedArray((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype, weak_type=x.weak_type)

    @staticmethod
    def evaluate(x, mask, *, axis, size):
        import jax.numpy as jnp

        return jnp.take(x, np.flatnonzero(mask), axis)

    @classmethod
    def differentiate(cls, primitive):
        from jax.interpreters import ad

        def jvp(primals, tangents, **params):
            x, mask = primals
            out = primitive.bind(x, mask, **params)
            if type(tangents[0]) is ad.Zero:
                return out, ad.Zero.from_primal_value(out)
            return out, primitive.bind(tangents[0], mask, **params)

        def transpose(cotangent, x, mask, *, axis, size):
            import jax.numpy as jnp
            from jax import lax

            if type(cotangent) is ad.Zero:
                return [ad.Zero(x.aval), None]
            indices = NonZero.primitive().bind(mask, dtype=int_type(), size=size)
            numbers = lax.ScatterDimensionNumbers(
                update_window_dims=tuple(i for i in range(cotangent.ndim) if i != axis),
                inserted_window_dims=(axis,),
                scatter_dims_to_operand_dims=(axis,),
            )
            spread = lax.scatter_add(
                jnp.zeros(x.aval.shape, cotangent.dtype),
                indices.T,
                cotangent,
                numbers,
                indices_are_sorted=True,
                unique_indices=True,
                mode="promise_in_bounds",
            )
            return [spread, None]

        ad.primitive_jvps[primitive] = jvp
        ad.primitive_transposes[primitive] = transpose

    @classmethod
    def batch(cls, operands, axes, *, axis, size):
        x, mask = operands
        if axes[1] is not None:
            return super().batch(operands, axes)
        import jax.numpy as jnp

        return cls.primitive().bind(jnp.moveaxis(x, axes[0], 0), mask, axis=axis + 1, size=size), 0

    @classmethod
    def of(cls, x, mask, axis: int):
        """x with the axes of `mask`, from `axis` on, replaced by one axis that holds the elements where it is
        true."""
        import jax.numpy as jnp

        size = sizes().of("nonzero", [mask])
        rank = mask.ndim
        if rank != 1:
            whole = int(np.prod(mask.shape)) if all(isinstance(d, int) for d in mask.shape) else product(mask.shape)
            x = jnp.reshape(x, (*x.shape[:axis], whole, *x.shape[axis + rank :]))
            mask = jnp.reshape(mask, (whole,))
        return cls.primitive().bind(x, mask, axis=axis, size=size)

    @classmethod
    def compress(cls, original):
        def compress(*args, **kwargs):
            import jax.numpy as jnp

            bound = bind_arguments(original, args, kwargs)
            given = bound.arguments if bound else {}
            condition, a, axis = given.get("condition"), given.get("a"), given.get("axis")
            if bound is None or given.get("size") is not None or given.get("out") is not None:
                return original(*args, **kwargs)
            if not is_traced(condition) and not is_traced(a):
                return computed_now(original, *args, **kwargs)
            mask = condition if is_traced(condition) else np.asarray(condition)
            if mask.ndim != 1:
                return original(*args, **kwargs)  # raises the original's error
            a = jnp.asarray(a)
            a, axis = (jnp.ravel(a), 0) if axis is None else (a, axis % a.ndim)
            mask = mask.astype(bool)
            if not at_most(mask.shape[0], a.shape[axis]):
                if is_traced(mask) or mask[a.shape[axis] :].any():
                    return original(*args, **kwargs)  # entries beyond the end may be true: raises the original's error
                mask = mask[: a.shape[axis]]
            before = (slice(None),) * axis
            return a[(*before, slice(mask.shape[0]))][(*before, mask)]

        return compress

    @classmethod
    def take(cls, original):
        def rewriting_take(arr, idx, *args, **kwargs):
            parts = _parts_in(idx)
            if parts and not args and kwargs.get("out_sharding") is None:
                arr, idx = _without_parts(arr, idx, parts)
                return rewriting_take(arr, idx, **kwargs)
            masks = _masks_in(idx)
            if not masks:
                return original(arr, idx, *args, **kwargs)
            arr, idx, _ = _without_flags(arr, idx)
            masks = _masks_in(idx)
            place = _only_mask(arr, idx, masks)
            if place is not None and kwargs.get("out_sharding") is None and not args:
                return cls.of(arr, *place)
            return _call_in_bounds(original, idx, (arr, _as_indices(arr, idx), *args), kwargs)

        return rewriting_take

    @classmethod
    def update(cls, original):
        def _scatter_update(x, idx, y, scatter_op, *args, **kwargs):
            import jax.numpy as jnp
            from jax import lax

            parts = _parts_in(idx)
            if parts:
                items = list(idx) if isinstance(idx, tuple) else [idx]
                if len(parts) > 1 or any(np.ndim(i) or _is_mask(i) for i in items if not isinstance(i, slice)):
                    return original(x, idx, y, scatter_op, *args, **kwargs)  # raises the original's error
                (n,) = parts
                items[n] = _range_of(items[n], jnp.shape(x)[_positions(jnp.asarray(x), items)[n]])
                return original(x, tuple(items), y, scatter_op, *args, **kwargs)
            masks = _masks_in(idx)
            if not masks:
                return original(x, idx, y, scatter_op, *args, **kwargs)
            x, idx, added = _without_flags(jnp.asarray(x), idx)
            if added:
                return jnp.squeeze(_scatter_update(x, idx, y, scatter_op, *args, **kwargs), added)
            place = _only_mask(x, idx, masks)
            plain = {
                lax.scatter: lambda x, y: y,
                lax.scatter_add: jnp.add,
                lax.scatter_sub: jnp.subtract,
                lax.scatter_mul: jnp.multiply,
                lax.scatter_min: jnp.minimum,
                lax.scatter_max: jnp.maximum,
            }
            combine = plain.get(scatter_op)
            if combine is None and getattr(scatter_op, "__name__", "") == "_scatter_apply":  # x.at[mask].apply(func)
                func = inspect.getclosurevars(scatter_op).nonlocals.get("func")
                combine = func and (lambda x, y: func(x))
            if place is not None and np.ndim(y) == 0 and combine is not None and kwargs.get("out_sharding") is None:
                mask, axis = place
                mask = lax.broadcast_in_dim(mask, x.shape, tuple(range(axis, axis + mask.ndim)))
                y = jnp.asarray(y)
                if not _safe_to_cast(y, x):
                    y = y.astype(x.dtype)
                return jnp.where(mask, combine(x, y).astype(x.dtype), x)
            indices = _as_indices(x, idx)
            return _call_in_bounds(original, idx, (x, indices, y, scatter_op, *args), kwargs)

        return _scatter_update


def _safe_to_cast(y, x) -> bool:
    import jax.numpy as jnp

    return jnp.promote_types(y.dtype, x.dtype) == x.dtype


def _shapes_agree(mask, of) -> bool:
    return len(mask.shape) <= len(of) and all(m == d or m == 0 for m, d in zip(mask.shape, of, strict=False))


def _is_mask(i) -> bool:
    return is_traced(i) and i.dtype == bool


def _without_flags(arr, idx) -> tuple[Any, Any, tuple[int, ...]]:
    """Treats each single boolean as a mask over a new axis of size one. Returns the array and the index with
    these axes and masks inserted, and the axes.

    A single boolean selects none or one of what follows.
    """
    import jax.numpy as jnp

    items = list(idx) if isinstance(idx, tuple) else [idx]
    flags = [n for n, i in enumerate(items) if _is_mask(i) and i.ndim == 0]
    if not flags:
        return arr, idx, ()
    places = _positions(arr, items)
    added = tuple(places[n] + before for before, n in enumerate(flags))
    for n in flags:
        items[n] = items[n][None]
    return jnp.expand_dims(arr, added), tuple(items), added


def _parts_in(idx) -> list[int]:
    """The positions of slices that have traced ends and positive steps."""
    items = idx if isinstance(idx, tuple) else (idx,)
    slices = [(n, i) for n, i in enumerate(items) if isinstance(i, slice)]
    return [n for n, i in slices if (is_traced(i.start) or is_traced(i.stop)) and _goes_forward(i.step)]


def _goes_forward(step) -> bool:
    return step is None or (isinstance(step, int) and step > 0)


def _range_of(part: slice, size):
    """The indices that a slice of an axis of that size selects."""
    import jax.numpy as jnp
    from jax import lax

    def end(value, default):
        if not is_traced(value):
            value = jnp.asarray(as_number(default if value is None else value), int_type())
        value, n = value.astype(int_type()), jnp.asarray(as_number(size), int_type())
        return lax.clamp(jnp.zeros((), n.dtype), lax.select(value < 0, value + n, value), n)

    return jnp.arange(end(part.start, 0), end(part.stop, size), part.step or 1)


def _without_parts(arr, idx, parts: list[int]):
    """The array cut by slices that have traced ends, and the index with whole axes in their place."""
    items = list(idx) if isinstance(idx, tuple) else [idx]
    for n in parts:
        axis = _positions(arr, items)[n]
        places = _range_of(items[n], arr.shape[axis])
        arr = arr.at[(*(slice(None),) * axis, places)].get(mode="promise_in_bounds")
        items[n] = slice(None)
    return arr, tuple(items)


def _masks_in(idx) -> list:
    return [i for i in (idx if isinstance(idx, tuple) else (idx,)) if _is_mask(i)]


def _consumed(i) -> int:
    if i is None or i is Ellipsis:
        return 0
    is_bool = isinstance(i, (bool, np.bool_)) or getattr(i, "dtype", None) == np.dtype(bool)
    return np.ndim(i) if is_bool else 1


def _positions(arr, items) -> list[int]:
    """The axis at which each item begins."""
    rest = arr.ndim - sum(map(_consumed, items))
    axis, out = 0, []
    for i in items:
        out.append(axis)
        axis += rest if i is Ellipsis else _consumed(i)
    return out


def _check_masks(arr, items) -> None:
    for position, (i, axis) in enumerate(zip(items, _positions(arr, items), strict=True)):
        if _is_mask(i) and not _shapes_agree(i, arr.shape[axis:]):
            raise IndexError(
                f"boolean index did not match shape of indexed array in index {position}: "
                f"got {i.shape}, expected {arr.shape[axis : axis + i.ndim]}"
            )


def _only_mask(arr, idx, masks):
    """(mask, axis) when the index is one mask among whole axes."""
    items = idx if isinstance(idx, tuple) else (idx,)
    if len(masks) != 1 or any(not _is_mask(i) and i is not Ellipsis and i != slice(None) for i in _plain(items)):
        return None
    _check_masks(arr, items)
    at = next(n for n, i in enumerate(items) if _is_mask(i))
    return items[at], _positions(arr, items)[at]


def _plain(items) -> list:
    """The items in a comparable form: arrays become the string "array"."""
    return [i if _is_mask(i) or i is None or i is Ellipsis or isinstance(i, slice) else "array" for i in items]


def _call_in_bounds(original, idx, args, kwargs):
    """Calls the original. Indices that come only from masks are declared in bounds."""
    items = idx if isinstance(idx, tuple) else (idx,)
    bound = bind_arguments(original, args, kwargs)
    if bound is None or any(not _is_mask(i) and i is not Ellipsis and i != slice(None) for i in _plain(items)):
        return original(*args, **kwargs)
    given = bound.arguments
    if "normalize_indices" in given and given.get("mode", "") is None:
        given.update(normalize_indices=False, mode="promise_in_bounds")
    return original(*bound.args, **bound.kwargs)


def _as_indices(arr, idx) -> tuple:
    """The index with each mask replaced by its arrays of indices, sized like the other arrays of the index
    where these have a row."""
    items = idx if isinstance(idx, tuple) else (idx,)
    _check_masks(arr, items)
    row = next((i.shape[-1] for i in items if _is_array(i) and not _is_one(i.shape[-1])), None)
    out: list[Any] = []
    for i in items:
        if _is_mask(i):
            rows = NonZero.rows(i, row)
            row = rows[0].shape[0] if row is None else row
            out.extend(rows)
        else:
            out.append(i)
    return tuple(out)


def _is_array(i) -> bool:
    return not _is_mask(i) and bool(getattr(i, "ndim", 0))


def _is_one(d) -> bool:
    return isinstance(d, int) and d == 1


# ----------------------------------------------------------------------------------------------------------------------
# Range


class Range(_BuiltIn):
    """`jnp.arange` with bounds that are values."""

    jaxpr_primitive = "range"
    called = "jnp.arange"

    @classmethod
    def replacements(cls):
        return {f"{LAX_NUMPY}.arange": cls.arange, f"{LAX_NUMPY}.repeat": cls.repeat}

    @staticmethod
    def abstract_eval(start, stop, step, *, dtype, size):
        import jax

        return jax.core.ShapedArray((size,), dtype)

    @staticmethod
    def evaluate(start, stop, step, *, dtype, size):
        return np.arange(start, stop, step).astype(dtype)

    @classmethod
    def arange(cls, original):
        def arange(*args, **kwargs):
            import jax
            import jax.numpy as jnp

            bound = bind_arguments(original, args, kwargs)
            given = dict(bound.arguments) if bound else {}
            names = ("start", "stop", "step")
            values = [given.pop(n, None) for n in names]
            dtype = given.pop("dtype", None)
            device = given.pop("device", None)
            if (
                not any(map(is_traced, values))
                or any(v is not None for v in given.values())
                or any(v is not None and np.ndim(v) for v in values)
            ):
                return original(*args, **kwargs)
            start, stop, step = values
            if stop is None:
                start, stop = 0, start
            out = cls._values(start, stop, 1 if step is None else step, dtype, values)
            return out if device is None else jax.device_put(jnp.asarray(out), device)

        return arange

    @classmethod
    def repeat(cls, original):
        def repeat(*args, **kwargs):
            import jax.numpy as jnp

            bound = bind_arguments(original, args, kwargs)
            given = bound.arguments if bound else {}
            repeats = given.get("repeats")
            if bound is None or given.get("total_repeat_length") is not None or not is_traced(repeats):
                return original(*args, **kwargs)
            a, axis = jnp.asarray(given["a"]), given.get("axis")
            length = product(a.shape) if axis is None else a.shape[axis]
            total = jnp.sum(jnp.broadcast_to(jnp.ravel(repeats), (length,)), dtype=int_type())
            # As many as a range of that length has. One more, because jnp.repeat scatters into them when it gets
            # a total.
            size = jnp.arange(total).shape[0]
            more = original(a, repeats, axis=axis, total_repeat_length=size + 1)
            return more[(slice(None),) * (0 if axis is None else axis % more.ndim) + (slice(size),)]

        return repeat

    @classmethod
    def _values(cls, start, stop, step, dtype, given):
        import jax
        import jax.numpy as jnp

        # JAX treats the bounds as numbers and does not differentiate with respect to them.
        start, stop, step = (jax.lax.stop_gradient(v) if is_traced(v) else v for v in (start, stop, step))
        if dtype is None:
            dtype = jnp.result_type(*(as_number(v) for v in given if v is not None))
        dtype = jax.dtypes.canonicalize_dtype(dtype)
        start, stop, step = map(as_number, (start, stop, step))
        whole = all(jnp.issubdtype(jnp.result_type(v), np.integer) for v in (start, stop, step))
        kind = jnp.result_type(start, stop, step)
        if whole and jnp.issubdtype(dtype, np.integer):
            bounds = [jnp.asarray(v, kind) for v in (start, stop, step)]
            return cls.primitive().bind(*bounds, dtype=dtype, size=sizes().of("arange", bounds))
        # The count as JAX computes it, then start + i * step.
        number = int_type()
        if whole:
            bounds = [jnp.asarray(v, kind) for v in (start, stop, step)]
        else:
            count = jnp.asarray(jnp.ceil((stop - start) / step))
            bounds = [jnp.asarray(0, number), count, jnp.asarray(1, number)]
        working = np.dtype(np.float32) if jnp.issubdtype(dtype, np.floating) and jnp.finfo(dtype).bits < 32 else dtype
        size = sizes().of("arange", bounds)
        if whole:
            return cls.primitive().bind(*bounds, dtype=number, size=size).astype(dtype)
        i = cls.primitive().bind(*bounds, dtype=number, size=size).astype(working)
        out = jnp.asarray(start).astype(working) + jnp.asarray(step).astype(working) * i
        return out.astype(dtype)


# ----------------------------------------------------------------------------------------------------------------------
# Unique


class Unique(_BuiltIn):
    """`jnp.unique` of integers: ONNX's Unique. Floats are sorted and compared instead, since ONNX does not
    define Unique of NaN."""

    jaxpr_primitive = "unique"
    multiple_results = True
    called = "jnp.unique"

    @classmethod
    def replacements(cls):
        return {"jax._src.numpy.setops.unique": cls.unique}

    @staticmethod
    def abstract_eval(x, *, axis, dtype, size):
        import jax

        n = jax.core.ShapedArray((size,), dtype)
        values = jax.core.ShapedArray((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
        return [values, n, jax.core.ShapedArray((x.shape[axis],), dtype), n]

    @staticmethod
    def evaluate(x, *, axis, dtype, size):
        values, *places = np.unique(np.asarray(x), True, True, True, axis=axis)
        return [values, *(np.ravel(p).astype(dtype) for p in places)]

    @classmethod
    def unique(cls, original):
        def unique(*args, **kwargs):
            import jax.numpy as jnp

            bound = bind_arguments(original, args, kwargs)
            given = bound.arguments if bound else {}
            ar = given.get("ar")
            if bound is None or given.get("size") is not None or ar is None:
                return original(*args, **kwargs)
            if not is_traced(ar):
                return computed_now(original, *args, **kwargs)
            axis = given.get("axis")
            flat = jnp.ravel(ar) if axis is None else ar
            axis = 0 if axis is None else axis % ar.ndim
            if 0 in [d for d in flat.shape if isinstance(d, int)]:
                return original(*args, **kwargs)
            values, index, inverse, counts = cls._parts(flat, axis, bool(given.get("equal_nan", True)))
            if given.get("axis") is None:
                inverse = inverse.reshape(ar.shape)
            wanted = [given.get("return_index"), given.get("return_inverse"), given.get("return_counts")]
            out = [p for p, w in zip((index, inverse, counts), wanted, strict=True) if w]
            return (values, *out) if out else values

        return unique

    @classmethod
    def _parts(cls, x, axis: int, equal_nan: bool):
        import jax.numpy as jnp

        if x.dtype == bool:
            values, *rest = cls._parts(x.astype(np.int8), axis, equal_nan)
            return values.astype(bool), *rest
        if jnp.issubdtype(x.dtype, np.integer) and x.dtype != np.uint64:
            size = sizes().of("unique", [x], axis)
            return cls.primitive().bind(x, axis=axis, dtype=int_type(), size=size)
        return cls._sorted_parts(x, axis, equal_nan)

    @staticmethod
    def _sorted_parts(x, axis: int, equal_nan: bool):
        """The sorted elements, and whether each differs from the one before."""
        import jax
        import jax.numpy as jnp

        rows = jnp.moveaxis(x, axis, 0)
        size, *rest = rows.shape
        columns = product(rest)
        if not isinstance(columns, int):
            raise Error(
                f"jnp.unique along an axis needs slices of a known size, found {type_text(x)}",
                "unsupported",
                ["help: give the other axes numbers"],
            )
        if jnp.issubdtype(rows.dtype, jnp.complexfloating):
            rows = jnp.where(jnp.isnan(rows), jnp.asarray(np.nan, rows.dtype), rows)
        table = rows.reshape((size, columns)) if rest else rows
        keys = [table[:, i] for i in range(columns)] if rest else [rows]
        place = jax.lax.iota(int_type(), size)
        *ordered, order = jax.lax.sort((*keys, place), num_keys=columns)
        before = jnp.maximum(place - 1, 0)
        starts = place == 0
        for key in ordered:
            previous = key.at[before].get(mode="promise_in_bounds")
            differs = key != previous
            if jnp.issubdtype(key.dtype, jnp.inexact) and equal_nan:
                differs &= ~(jnp.isnan(key) & jnp.isnan(previous))
            starts |= differs
        size_found = sizes().of("unique", [x], axis, equal_nan)
        bind = Compress.primitive().bind
        index = bind(order, starts, axis=0, size=size_found)
        if not rest:
            values = bind(ordered[0], starts, axis=0, size=size_found)
        else:
            values = rows.at[index].get(mode="promise_in_bounds")
        first = NonZero.primitive().bind(starts, dtype=int_type(), size=size_found).reshape(size_found)
        ends = jnp.concatenate([first, jnp.asarray(size, int_type())[None]])
        group = jnp.cumsum(starts.astype(int_type())) - 1
        inverse = jnp.zeros(size, int_type()).at[order].set(group, mode="promise_in_bounds", unique_indices=True)
        return jnp.moveaxis(values, 0, axis), index, inverse, ends[1:] - ends[:-1]


BUILT_IN = (NonZero, Compress, Range, Unique)
