"""Comparing an exported model with JAX."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sardonyx import _source, plugins
from sardonyx._check import choices as _choices
from sardonyx._check import diverge as _diverge
from sardonyx._check import interpret as _interpret
from sardonyx._check import values as _compare
from sardonyx._error import Error
from sardonyx._models.comparison import Comparison
from sardonyx._models.session import DISABLED, Session, package_session, release
from sardonyx._trace import inputs as _inputs
from sardonyx._trace import module_state as _module_state
from sardonyx._trace import state as _state
from sardonyx._trace import trace as _trace
from sardonyx._trace.data import shapes as _data_shapes


def compare_with_jax(
    fn: Callable[..., Any],
    model: Any,
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    enable_double_precision: bool = False,
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
) -> Comparison:
    """`sardonyx.compare` of a function and a model."""
    import jax

    session = package_session(model) or Session(model)
    of_largest = session.of_largest if rtol is None and atol is None else 0.0
    params = dict(input_params or {})
    with _trace.x64(enable_double_precision):
        spec = _inputs.normalize(fn, inputs, params, enable_double_precision, lambda text: None)
        args = _compare.draw_values(inputs, spec, {}, enable_double_precision)
        leaves = jax.tree_util.tree_leaves(args)
        try:
            with jax.default_matmul_precision("float32"):
                if any(map(_state.is_reference, leaves)) or len(session.inputs) > len(spec.names):
                    spec.state = _state.without_references(_traced(fn, spec, args, params)[0])[1]
                feeds = _compare.feeds_of(session, _state.snapshot(leaves, spec.state), params, inputs_as_nchw)
                expected = jax.device_get([_compare.as_array(x) for x in _computed(fn, spec, args, params)])
        except Error:
            raise
        except Exception as e:
            return Comparison(False, f"JAX cannot evaluate the function: {_trace.failure(fn, spec, e)}", evaluations=0)

    def compared(found):
        return _compare.compare_results(
            expected,
            found,
            [o.name for o in session.outputs],
            1e-3 if rtol is None else rtol,
            1e-5 if atol is None else atol,
            outputs_as_nchw,
            of_largest,
        )

    found = compared(session.run(feeds, expected))
    given = {name: f"{x.dtype}[{','.join(map(str, x.shape))}]" for name, x in feeds.items()}
    return dataclasses.replace(found, inputs=given, fault="" if found else session.blamed(feeds, compared))


def compare_functions(
    a: Callable[..., Any],
    b: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    enable_double_precision: bool = False,
) -> Comparison:
    """`sardonyx.compare` of two functions, both in JAX."""
    import jax

    params = dict(input_params or {})
    results = []
    with _trace.x64(enable_double_precision), jax.default_matmul_precision("float32"):
        for fn in (a, b):
            spec = _inputs.normalize(fn, inputs, params, enable_double_precision, lambda text: None)
            args = _compare.draw_values(inputs, spec, {}, enable_double_precision)
            results.append(jax.device_get([_compare.as_array(x) for x in _computed(fn, spec, args, params)]))
    rtol, atol = 1e-3 if rtol is None else rtol, 1e-5 if atol is None else atol
    expected, found = results
    return _compare.compare_results(expected, found, [""] * len(expected), rtol, atol, None)


def check_export(fn, model, spec, inputs_as_nchw, outputs_as_nchw, double, export) -> None:
    """For `to_onnx(check=True)`: compares at two sizes of every symbol; raises an Error that names the first
    difference, or that blames onnxruntime's optimizations.

    `export(closed jaxpr, data_sizes=)` exports a part of the program once more, without passes, to find the
    first equation that differs.
    """
    import jax

    session = Session(model.serialize())
    for sizes in _compare.two_rounds(spec):
        where = " at " + ", ".join(f"{k}={v}" for k, v in sizes.items()) if sizes else ""
        with _trace.x64(double):
            args = _compare.draw_values(spec.args, spec, sizes, double)
            params = {**spec.baked, **{k: spec.values[k] for k in spec.kwargs}}
            leaves = _state.snapshot(jax.tree_util.tree_leaves(args), spec.state)
            feeds = _compare.feeds_of(session, leaves, params, inputs_as_nchw)
            try:
                with jax.default_matmul_precision("float32"):
                    expected = jax.device_get([_compare.as_array(x) for x in _computed(fn, spec, args, params)])
            except Exception as e:
                raise Error(
                    f"check: JAX cannot evaluate {_source.callable_name(fn)}{where}: {_source.first_line(e)}",
                    notes=["help: compare at sizes of your own with sardonyx.compare"],
                ) from None
        found = session.run(feeds)
        names = [o.name for o in session.outputs]

        def compared(found, expected=expected, names=names):
            return _compare.compare_results(expected, found, names, None, None, outputs_as_nchw, session.of_largest)

        same, text = compared(found)
        if same:
            continue
        with _trace.x64(double), jax.default_matmul_precision("float32"):
            second = _Second(fn, spec, args, params, export)
            chosen = second.with_choices()
            if chosen is not None:
                compared = functools.partial(compared, expected=chosen)
                same, text = compared(found)
            if not same:
                if session.blamed(feeds, compared):
                    raise Error(
                        f"{release()} changes the exported model's results when it optimizes the graph{where}: {text}",
                        "unsupported",
                        ["without its optimizations they agree with JAX: the model is right", DISABLED],
                    )
                other = [b for b in spec.branches if b.holds(sizes)]
                if other:
                    raise Error(
                        f"the exported model differs from JAX{where}: {text}",
                        notes=[f"the model has the side where {other[0]} is false"],
                    )
                raise Error(
                    f"the exported model differs from JAX{where}: {text}", "internal", second.where_it_differs()
                )


def _computed(fn, spec, args, params) -> list:
    """The function's results, and the final values of the references that it changes. Where JAX refuses sizes
    that depend on data, in jit and loops, the traced equations run one by one."""
    import jax

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

    with contextlib.ExitStack() as stack:
        names = []
        if spec.data_sizes:
            names = stack.enter_context(_data_shapes.active(jax.tree_util.tree_leaves(args))).origins
            fn = _data_shapes.patched(fn)
        with _module_state.kept(fn, params) as modules:
            return modules.trace(lambda args: fn(*spec.with_static(args), **params), args)[0], list(names)


class _Second:
    """Re-examines a program whose results differ: runs its equations one by one on the same values, exported
    without passes."""

    def __init__(self, fn, spec, args, params, export):
        self.fn, self.spec, self.args, self.params, self._export = fn, spec, args, params, export

    @functools.cached_property
    def program(self):
        """(ClosedJaxpr without calls and references, names of the sizes that depend on data, values of its
        inputs)."""
        import jax

        with plugins._active():
            closed, names = _traced(self.fn, self.spec, self.args, self.params)
            closed, state = _state.without_references(closed)
        return _interpret.in_line(closed), names, _state.snapshot(jax.tree_util.tree_leaves(self.args), state)

    def export(self, closed):
        return self._export(closed, data_sizes=self.program[1])

    def _symbolic(self):
        """(The ClosedJaxpr with names for sizes, as in the model; a function that runs such a jaxpr). For
        known sizes a lowering may take another path."""
        import jax

        with plugins._active():
            closed, state = _state.without_references(_trace.trace(self.fn, self.spec)[0], self.spec.references)
        named = _inputs.named_parameters(self.params)
        leaves = jax.tree_util.tree_leaves(self.args) + [named[n] for n in self.spec.names[self.spec.positional :]]
        leaves = _state.snapshot(leaves, state)

        def run(part):
            session = Session(self._export(part, data_sizes=list(self.spec.data_sizes)).serialize(), optimized=False)
            return session.run(_compare.feeds_of(session, leaves, {}, None))

        return _interpret.in_line(closed), run

    def with_choices(self) -> list | None:
        """JAX's results with the model's eigenvectors and similar choices put in. None where there are no
        such choices, or where they are wrong."""
        import jax

        try:
            closed, _, leaves = self.program
            if not _choices.has_choices(closed):
                return None
            chosen = _choices.of_model(*self._symbolic())
            expected = _interpret.evaluate(closed, leaves, choose=_choices.hook(chosen))
        except Exception:
            return None  # where_it_differs() says more
        return jax.device_get([_compare.as_array(x) for x in expected])

    def where_it_differs(self) -> list[str]:
        """The first equation that differs, as a note. This runs only for the message, so its own failures are
        merely reported."""

        def results(model):
            session = Session(model.serialize(), optimized=False)
            return session.run(_compare.feeds_of(session, self.program[2], {}, None))

        def compare(expected, model, leaves):
            for i, (want, got) in enumerate(zip(_diverge.arrays(expected), results(model), strict=True)):
                found = _compare.compare_results([want], [got], [""], None, None, None)
                if not found:
                    return i, found.text.removeprefix("result 0 ")
            return None

        try:
            closed, _, leaves = self.program
            choose = _choices.right_ones(closed, leaves, lambda part: results(self.export(part)))
            found = _diverge.first_divergence(closed, leaves, self.export, compare, choose)
        except Exception as e:
            return [f"the equation was not found: {type(e).__name__}: {_source.first_line(e)}"]
        if found is not None:
            return [str(found)]
        return [
            "each equation agrees as it was lowered: a pass is at fault",
            'help: export with passes="none", and report this',
        ]
