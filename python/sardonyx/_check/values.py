"""Values to run a program and its exported model on, and whether their results agree."""

import numpy as np

from sardonyx._error import Error
from sardonyx._models.comparison import Comparison
from sardonyx._models.session import numpy_type
from sardonyx._trace import inputs as _inputs
from sardonyx._trace import state as _state

_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def two_rounds(spec):
    """Two assignments of sizes to symbols that the constraints allow; one when nothing is symbolic."""
    symbols = sorted({v for shape in spec.shapes for d in shape for v in symbols_of(d)})
    if not symbols:
        return [{}]
    tried = ({s: start + n for n, s in enumerate(symbols)} for start in (2, 5, 11, 32, 127, 512, 2048, 1))
    allowed = [sizes for sizes in tried if _inputs.satisfies(spec.constraints, sizes)]
    if not allowed:
        raise Error(
            f"check: no sizes were found that satisfy {', '.join(spec.constraints)}",
            notes=["help: compare at sizes of your own with sardonyx.compare"],
        )
    # At other sizes the program takes another side of a branch than the model.
    same_side = [sizes for sizes in allowed if not any(b.holds(sizes) for b in spec.branches)]
    return (same_side or allowed)[:2]


def as_array(x):
    """Converts a result to JAX's types: Python numbers and NumPy's wide types become JAX's own."""
    import jax

    return x if isinstance(x, jax.Array) else jax.numpy.asarray(x)


def symbols_of(d) -> list[str]:
    return sorted(d._get_vars()) if hasattr(d, "_get_vars") else []


def draw_values(inputs, spec, sizes, double):
    """Concrete arrays: given ones as JAX sees them, the others drawn from a fixed seed."""
    import jax

    rng = np.random.default_rng(0)

    def draw(given, abstract):
        if _state.is_reference(abstract):
            value = _state.array(given) if isinstance(given, jax.Ref) else given
            return jax.new_ref(draw(value, jax.ShapeDtypeStruct(abstract.shape, abstract.dtype)))
        if hasattr(given, "__array__") and not isinstance(given, jax.ShapeDtypeStruct):
            return jax.numpy.asarray(given)
        if isinstance(given, (bool, int, float, complex)):
            return jax.numpy.asarray(given)
        shape = tuple(size_at(d, sizes) for d in abstract.shape)
        if jax.dtypes.issubdtype(abstract.dtype, jax.dtypes.prng_key):
            key = jax.random.key(0, impl=abstract.dtype._impl.name)
            return jax.random.split(key, shape) if shape else key
        dtype = np.dtype(abstract.dtype)
        if dtype.kind == "b":
            return jax.numpy.asarray(rng.integers(0, 2, shape).astype(bool))
        if dtype.kind in "iu":
            return jax.numpy.asarray(rng.integers(0, 2, shape).astype(dtype))  # small: they may be indices
        x = rng.random(shape)
        if dtype.kind == "c":
            x = x + 1j * rng.random(shape)
        return jax.numpy.asarray(np.asarray(x).astype(dtype))

    given = list(inputs)
    out = []
    for item, abstract in zip(given, spec.args, strict=True):
        flat, tree = jax.tree_util.tree_flatten(abstract)
        flat_given = jax.tree_util.tree_leaves(item, is_leaf=_inputs.is_leaf(item))
        flat_given = [g for g in flat_given if g is not None and (g is item or not _inputs.is_static(g))]
        out.append(jax.tree_util.tree_unflatten(tree, [draw(g, a) for g, a in zip(flat_given, flat, strict=True)]))
    return tuple(out)


def size_at(d, sizes) -> int:
    if isinstance(d, (int, np.integer)):
        return int(d)
    values = {name: sizes.get(name, 2) for name in symbols_of(d)}
    return int(d._evaluate(values))


def feeds_of(session, leaves, params, nchw) -> dict[str, np.ndarray]:
    import jax

    params = _inputs.named_parameters(params)
    positional = iter(enumerate(leaves))
    feeds = {}
    for meta in session.inputs:
        if meta.name in params:
            value, index = params[meta.name], None
        else:
            try:
                index, value = next(positional)
            except StopIteration:
                raise Error(f"the model has the input '{meta.name}' and no value for it was given") from None
        if hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        x = np.asarray(value)
        if x.dtype.kind == "c":
            x = np.stack([x.real, x.imag], axis=-1)
        if index is not None and index in (nchw or ()):
            x = np.transpose(x, _TO_NCHW)
        want = numpy_type(meta)
        feeds[meta.name] = x.astype(want) if want is not None and x.dtype != want else np.asarray(x, order="C")
    if next(positional, None) is not None:
        raise Error(f"more inputs were given than the model's {len(session.inputs)}")
    return feeds


def tolerances(dtype) -> tuple[float, float]:
    """(rtol, atol) for results of `to_onnx(check=True)`."""
    return (1e-9, 1e-9) if np.dtype(dtype) in (np.float64, np.complex128) else (1e-3, 1e-5)


def compare_results(expected, found, names, rtol, atol, nchw, of_largest=0.0) -> Comparison:
    """If `rtol` is None, each result's dtype sets the tolerances. `of_largest`: a share of the largest element that is
    allowed as well."""
    import jax

    if len(expected) != len(found):
        return Comparison(False, f"{len(found)} results, JAX has {len(expected)}")
    worst, worst_at = 0.0, ""
    for i, (want, got, name) in enumerate(zip(expected, found, names, strict=True)):
        if hasattr(want, "dtype") and jax.dtypes.issubdtype(want.dtype, jax.dtypes.prng_key):
            want = jax.random.key_data(want)
        want, got = np.asarray(want), np.asarray(got)
        which = f"result {i} ('{name}')" if name else f"result {i}"
        if i in (nchw or ()):
            got = np.transpose(got, _TO_NHWC)
        if want.dtype.kind == "c" and got.shape == (*want.shape, 2):
            got = (got[..., 0] + 1j * got[..., 1]).astype(want.dtype)
        if want.shape != got.shape:
            return Comparison(False, f"{which} has shape {got.shape}, JAX has {want.shape}")
        if want.dtype != got.dtype:
            return Comparison(False, f"{which} is {got.dtype}, JAX has {want.dtype}")
        if jax.numpy.issubdtype(want.dtype, np.inexact):
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            a, b = got.astype(wide), want.astype(wide)
            r, t = tolerances(want.dtype) if rtol is None else (rtol, atol)
            if of_largest and (finite := np.abs(b[np.isfinite(b)])).size:
                t = max(t, of_largest * float(finite.max()))
            with np.errstate(invalid="ignore"):
                difference = np.abs(a - b)
            if not np.allclose(b, a, rtol=r, atol=t, equal_nan=True):
                off = np.nanmax(difference) if a.size else 0.0
                text = f"{which} differs by up to {off:.6g} (rtol={r:g}, atol={t:g})"
                return Comparison(False, text, float(off), _element(name, difference))
            finite = np.where(np.isfinite(difference), difference, 0.0)
            if a.size and finite.max() > worst:
                worst, worst_at = float(finite.max()), _element(name, finite)
        elif not np.array_equal(want, got):
            text = f"{which} differs in {int((want != got).sum())} of {want.size} elements"
            return Comparison(False, text)
    agree = f"all {len(found)} results agree" if len(found) != 1 else "the result agrees"
    return Comparison(True, f"{agree}; the largest difference is {worst:.3g}", worst, worst_at)


def _element(name: str, difference: np.ndarray) -> str:
    """The element that differs most, as "y[0,3]"."""
    if difference.size == 0 or np.isnan(difference).all():
        return ""
    at = np.unravel_index(np.nanargmax(difference), difference.shape)
    return f"{name}[{','.join(map(str, at))}]"
