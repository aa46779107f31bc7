"""Comparing an exported model with JAX."""

import contextlib
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx._error import Error

_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def allclose(
    fn: Callable[..., Any],
    model: Any,
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    *,
    enable_double_precision: bool = False,
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
) -> tuple[bool, str]:
    """Whether `fn` in JAX and `model` in onnxruntime agree: (answer, what differs).

    Args:
        fn: What was exported.
        model: A path, an `onnx.ModelProto`, bytes, or a `sardonyx.ir.Model`.
        inputs: One entry per argument of `fn`, as for `to_onnx`. Shapes are filled with random numbers from a fixed
            seed, with 2 for a name; arrays are used as they are.
        input_params: The values of keyword arguments.
        rtol, atol: As in `numpy.allclose`, for floats. Integers and booleans must be equal.
        enable_double_precision, inputs_as_nchw, outputs_as_nchw: As given to `to_onnx`.
    """
    import jax

    from sardonyx import _inputs, _state, _trace
    from sardonyx._run import Session

    session = Session(model)
    params = dict(input_params or {})
    with _trace.x64(enable_double_precision):
        spec = _inputs.normalize(fn, inputs, params, enable_double_precision, lambda text: None)
        args = _values(inputs, spec, {}, enable_double_precision)
        leaves = jax.tree_util.tree_leaves(args)
        try:
            with jax.default_matmul_precision("float32"):
                if any(map(_state.is_reference, leaves)) or len(session.inputs) > len(spec.names):
                    spec.state = _state.without_references(_traced(fn, spec, args, params)[0])[1]
                feeds = _feeds(session, _state.snapshot(leaves, spec.state), params, inputs_as_nchw)
                expected = jax.device_get([_array(x) for x in _computed(fn, spec, args, params)])
        except Error:
            raise
        except Exception as e:
            return False, f"JAX cannot evaluate the function: {_trace.failure(fn, spec, e)}"
    return _compare(expected, session.run(feeds), [o.name for o in session.outputs], rtol, atol, outputs_as_nchw)


def check_export(fn, model, spec, inputs_as_nchw, outputs_as_nchw, double, export) -> None:
    """For `to_onnx(check=True)`: at two sizes of every symbol; raises an Error that says what differs, and where.

    `export(closed jaxpr, data_sizes=)` exports a part of the program once more, without passes, to find the first equation that differs.
    """
    import jax

    from sardonyx import _state, _trace
    from sardonyx._run import Session

    session = Session(model.serialize())
    for sizes in _two_rounds(spec):
        where = " at " + ", ".join(f"{k}={v}" for k, v in sizes.items()) if sizes else ""
        with _trace.x64(double):
            args = _values(spec.args, spec, sizes, double)
            params = {**spec.baked, **{k: spec.values[k] for k in spec.kwargs}}
            leaves = _state.snapshot(jax.tree_util.tree_leaves(args), spec.state)
            feeds = _feeds(session, leaves, params, inputs_as_nchw)
            try:
                with jax.default_matmul_precision("float32"):
                    expected = jax.device_get([_array(x) for x in _computed(fn, spec, args, params)])
            except Exception as e:
                raise Error(
                    f"check: JAX cannot evaluate {_trace.callable_name(fn)}{where}: {_trace.first_line(e)}",
                    notes=["help: compare at sizes of your own with sardonyx.allclose"],
                ) from None
        found = session.run(feeds)
        names = [o.name for o in session.outputs]
        same, text = _compare(expected, found, names, None, None, outputs_as_nchw)
        if same:
            continue
        with _trace.x64(double), jax.default_matmul_precision("float32"):
            second = _Second(fn, spec, args, params, export)
            expected = second.with_choices()
            if expected is not None:
                same, text = _compare(expected, found, names, None, None, outputs_as_nchw)
            if not same:
                raise Error(
                    f"the exported model differs from JAX{where}: {text}", "internal", second.where_it_differs()
                )


def _computed(fn, spec, args, params) -> list:
    """What the function returns, and what the references hold that it has changed. JAX refuses sizes that depend on data within jit and loops: there the
    equations that were traced run one by one."""
    import jax

    from sardonyx import _interpret, _module_state, _state, plugins

    leaves = jax.tree_util.tree_leaves(args)
    try:
        with _module_state.kept(fn, params), _state.restored(spec.state):
            results = jax.tree_util.tree_leaves(fn(*spec.with_static(args), **params))
            references = [*leaves, *spec.names[len(leaves) :], *spec.state.captured]  # keyword arguments are none
            return [*results, *(_state.array(references[i]) for i in spec.state.changed)]
    except Exception:
        if not spec.data_sizes:
            raise
        with plugins._active():
            closed, _ = _traced(fn, spec, args, params)
        closed, state = _state.without_references(closed)
        return _interpret.evaluate(closed, _state.snapshot(leaves, state))


def _traced(fn, spec, args, params):
    """(ClosedJaxpr, names of the sizes that depend on data), for inputs of these sizes."""
    import jax

    from sardonyx import _data_shapes, _module_state

    with contextlib.ExitStack() as stack:
        names = []
        if spec.data_sizes:
            names = stack.enter_context(_data_shapes.active(jax.tree_util.tree_leaves(args))).origins
            fn = _data_shapes.patched(fn)
        with _module_state.kept(fn, params) as modules:
            return modules.trace(lambda args: fn(*spec.with_static(args), **params), args)[0], list(names)


class _Second:
    """A closer look at a program whose results differ: its equations one by one, on the same values, exported without passes."""

    def __init__(self, fn, spec, args, params, export):
        self.fn, self.spec, self.args, self.params, self._export = fn, spec, args, params, export

    @functools.cached_property
    def program(self):
        """(ClosedJaxpr without calls and references, names of the sizes that depend on data, values of its inputs)"""
        import jax

        from sardonyx import _interpret, _state, plugins

        with plugins._active():
            closed, names = _traced(self.fn, self.spec, self.args, self.params)
            closed, state = _state.without_references(closed)
        return _interpret.in_line(closed), names, _state.snapshot(jax.tree_util.tree_leaves(self.args), state)

    def export(self, closed):
        return self._export(closed, data_sizes=self.program[1])

    def _symbolic(self):
        """(the ClosedJaxpr with names for sizes, as the model has them, a function that runs one like it): for known sizes a lowering may choose otherwise."""
        import jax

        from sardonyx import _inputs, _interpret, _run, _state, _trace, plugins

        with plugins._active():
            closed, state = _state.without_references(_trace.trace(self.fn, self.spec)[0], self.spec.references)
        named = _inputs.named_parameters(self.params)
        leaves = jax.tree_util.tree_leaves(self.args) + [named[n] for n in self.spec.names[self.spec.positional :]]
        leaves = _state.snapshot(leaves, state)

        def run(part):
            session = _run.Session(self._export(part, data_sizes=list(self.spec.data_sizes)).serialize())
            return session.run(_feeds(session, leaves, {}, None))

        return _interpret.in_line(closed), run

    def with_choices(self) -> list | None:
        """JAX's results where it is given the model's eigenvectors and the like; None where there are none, or where they are wrong."""
        import jax

        from sardonyx import _choices, _interpret

        try:
            closed, _, leaves = self.program
            if not _choices.has_choices(closed):
                return None
            chosen = _choices.of_model(*self._symbolic())
            expected = _interpret.evaluate(closed, leaves, choose=_choices.hook(chosen))
        except Exception:
            return None  # where_it_differs() says more
        return jax.device_get([_array(x) for x in expected])

    def where_it_differs(self) -> list[str]:
        """The first equation that differs, as a note; what runs here is only for the message, so its own failures are told and no more."""
        from sardonyx import _choices, _diverge, _run, _trace

        def results(model):
            session = _run.Session(model.serialize())
            return session.run(_feeds(session, self.program[2], {}, None))

        def compare(expected, model, leaves):
            for i, (want, got) in enumerate(zip(_diverge.arrays(expected), results(model), strict=True)):
                same, text = _compare([want], [got], [""], None, None, None)
                if not same:
                    return i, re.sub(r"^result 0 \(''\) ", "", text)
            return None

        try:
            closed, _, leaves = self.program
            choose = _choices.right_ones(closed, leaves, lambda part: results(self.export(part)))
            found = _diverge.first_divergence(closed, leaves, self.export, compare, choose)
        except Exception as e:
            return [f"the equation was not found: {type(e).__name__}: {_trace.first_line(e)}"]
        if found is not None:
            return [str(found)]
        return [
            "each equation agrees as it was lowered: a pass is at fault",
            'help: export with passes="none", and report this',
        ]


def _two_rounds(spec):
    """Two assignments of sizes to symbols that the constraints allow; one when nothing is symbolic."""
    from sardonyx import _inputs

    symbols = sorted({v for shape in spec.shapes for d in shape for v in _symbols(d)})
    if not symbols:
        return [{}]
    tried = ({s: start + n for n, s in enumerate(symbols)} for start in (2, 5, 11, 32, 127, 512, 2048, 1))
    allowed = [sizes for sizes in tried if _inputs.satisfies(spec.constraints, sizes)]
    if not allowed:
        raise Error(
            f"check: no sizes were found that satisfy {', '.join(spec.constraints)}",
            notes=["help: compare at sizes of your own with sardonyx.allclose"],
        )
    return allowed[:2]


def _array(x):
    """A result as JAX has it: Python's numbers and NumPy's wide types become JAX's own."""
    import jax

    return x if isinstance(x, jax.Array) else jax.numpy.asarray(x)


def _symbols(d) -> list[str]:
    return sorted(d._get_vars()) if hasattr(d, "_get_vars") else []


def _values(inputs, spec, sizes, double):
    """Concrete arrays: given ones as JAX sees them, the others drawn from a fixed seed."""
    import jax

    from sardonyx import _inputs, _state

    rng = np.random.default_rng(0)

    def draw(given, abstract):
        if _state.is_reference(abstract):
            value = _state.array(given) if isinstance(given, jax.Ref) else given
            return jax.new_ref(draw(value, jax.ShapeDtypeStruct(abstract.shape, abstract.dtype)))
        if hasattr(given, "__array__") and not isinstance(given, jax.ShapeDtypeStruct):
            return jax.numpy.asarray(given)
        if isinstance(given, (bool, int, float, complex)):
            return jax.numpy.asarray(given)
        shape = tuple(_size(d, sizes) for d in abstract.shape)
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


def _size(d, sizes) -> int:
    if isinstance(d, (int, np.integer)):
        return int(d)
    values = {name: sizes.get(name, 2) for name in _symbols(d)}
    return int(d._evaluate(values))


def _feeds(session, leaves, params, nchw) -> dict[str, np.ndarray]:
    import jax

    from sardonyx import _inputs

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
        from sardonyx._run import numpy_type

        want = numpy_type(meta)
        feeds[meta.name] = x.astype(want) if want is not None and x.dtype != want else np.asarray(x, order="C")
    if next(positional, None) is not None:
        raise Error(f"more inputs were given than the model's {len(session.inputs)}")
    return feeds


def tolerances(dtype) -> tuple[float, float]:
    """(rtol, atol) for results of `to_onnx(check=True)`."""
    return (1e-9, 1e-9) if np.dtype(dtype) in (np.float64, np.complex128) else (1e-3, 1e-5)


def _compare(expected, found, names, rtol, atol, nchw) -> tuple[bool, str]:
    """Where `rtol` is None, the tolerances are those of each result's type."""
    import jax

    if len(expected) != len(found):
        return False, f"{len(found)} results, JAX has {len(expected)}"
    worst = 0.0
    for i, (want, got, name) in enumerate(zip(expected, found, names, strict=True)):
        if hasattr(want, "dtype") and jax.dtypes.issubdtype(want.dtype, jax.dtypes.prng_key):
            want = jax.random.key_data(want)
        want, got = np.asarray(want), np.asarray(got)
        if i in (nchw or ()):
            got = np.transpose(got, _TO_NHWC)
        if want.dtype.kind == "c" and got.shape == (*want.shape, 2):
            got = (got[..., 0] + 1j * got[..., 1]).astype(want.dtype)
        if want.shape != got.shape:
            return False, f"result {i} ('{name}') has shape {got.shape}, JAX has {want.shape}"
        if want.dtype != got.dtype:
            return False, f"result {i} ('{name}') is {got.dtype}, JAX has {want.dtype}"
        if jax.numpy.issubdtype(want.dtype, np.inexact):
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            a, b = got.astype(wide), want.astype(wide)
            r, t = tolerances(want.dtype) if rtol is None else (rtol, atol)
            if not np.allclose(b, a, rtol=r, atol=t, equal_nan=True):
                with np.errstate(invalid="ignore"):
                    off = np.nanmax(np.abs(a - b)) if a.size else 0.0
                return False, f"result {i} ('{name}') differs by up to {off:.6g} (rtol={r:g}, atol={t:g})"
            with np.errstate(invalid="ignore"):
                difference = np.abs(a - b)
            if a.size and np.isfinite(difference).any():
                worst = max(worst, float(np.nanmax(difference[np.isfinite(difference)])))
        elif not np.array_equal(want, got):
            return False, f"result {i} ('{name}') differs in {int((want != got).sum())} of {want.size} elements"
    return True, f"all {len(found)} results agree; the largest difference is {worst:.3g}"
