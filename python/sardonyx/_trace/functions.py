"""`@sardonyx.onnx_function`: parts of a program that become model-local functions of the ONNX file."""

import contextvars
import functools
import inspect
import json
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from sardonyx._error import Error

# Set in the thread that traces for an export; elsewhere decorated functions behave as usual.
_exporting: contextvars.ContextVar["exporting | None"] = contextvars.ContextVar("sardonyx_exporting", default=None)


class exporting:
    """Inside, calls of decorated functions become functions of the model.

    Functions that change outside state as they run, such as the statistics of a normalization in training,
    are the exception. The values they leave behind belong to the program around them, so they are inlined at
    the call, with a warning.
    """

    def __init__(self):
        self._written_out: set[tuple[str, str]] = set()
        self.numbers: dict[str, list[str]] = {}  # by function, the parameters that are attributes of calls

    def __enter__(self):
        self._token = _exporting.set(self)
        return self

    def __exit__(self, *_):
        _exporting.reset(self._token)

    def writes_out(self, mark: dict) -> bool:
        return (mark["namespace"], mark["function"]) in self._written_out

    def write_out(self, mark: dict) -> None:
        if self.writes_out(mark):
            return
        self._written_out.add((mark["namespace"], mark["function"]))
        warnings.warn(
            f"{mark['function']} changes state as it runs: it is written out where it is called, and is not a function of the model",
            UserWarning,
            stacklevel=2,
        )

    def leaves_values_behind(self, closed) -> bool:
        """Whether values of a function's body leaked into the program around it, which must then be traced
        again."""
        import jax

        before = set(self._written_out)
        for value in closed.consts:
            if not isinstance(value, jax.core.Tracer):
                continue
            text = str(jax.errors.TracerArrayConversionError(value))  # only JAX's errors name a value's origin
            mark = re.search(r"onnx_function:(\{.*?\}) ", text)
            if mark is not None:
                self.write_out(json.loads(mark[1]))
            if mark is None or self._written_out == before:
                raise Error(
                    f"a value of type {value.aval} is used outside of the function that computes it",
                    notes=["help: return it from there; jax.checking_leaks() shows where it leaks"],
                )
        return self._written_out != before


def advice_on_numbers() -> str:
    """What to do where Python needs a number that is an attribute; "" if there are none."""
    export = _exporting.get()
    if export is None or not export.numbers:
        return ""
    function, names = next(iter(export.numbers.items()))
    listed = ", ".join(names)
    return f"attributes= makes an array of {listed} in {function}: leave out what decides a shape, an axis or a branch"


def onnx_function(
    target: Any = None,
    *,
    unique: bool = False,
    namespace: str | None = None,
    name: str | None = None,
    type: str | None = None,  # noqa: A002
    attributes: Sequence[str] = (),
):
    """Mark a function, or a class with `__call__`, as a function of the ONNX model.

    Each call becomes one node; its body becomes a `FunctionProto` named after the target. Calls with the same
    body, shapes and captured weights share one function. Outside of an export the target behaves as if it
    were not decorated.

    Args:
        target: The function or class; leave it out to pass options, as in
            `@onnx_function(namespace="my.model")`.
        unique: Name the function `{namespace}.{name}.unique` instead of numbering it.
        namespace: What the function's domain begins with; "custom" by default.
        name: Older spelling of `type`.
        type: The operator's name instead of the target's own.
        attributes: Names of parameters that become attributes of the function where a call gives a number:
            calls that differ only in these share one body, and the number can be changed on each call of the
            finished model. Inside, it is an array: Python cannot branch on it.
    """

    given = {"namespace": namespace, "function": type or name, "unique": unique or None}
    namespace = _namespace(namespace)
    if isinstance(attributes, str) or not all(isinstance(a, str) for a in attributes):
        raise Error(f"attributes takes a list of names, found {attributes!r}")

    def decorate(target):
        if not callable(target):
            raise Error(f"@onnx_function needs a function or a class, found {target!r}")
        operator = type or name or _name_of(target)
        mark = {
            "function": re.sub(r"\W", "_", operator),
            "namespace": namespace,
            "unique": bool(unique),
        }
        if inspect.isclass(target):
            if "__call__" not in vars(target) and not hasattr(target, "__call__"):  # noqa: B004
                raise Error(f"@onnx_function needs a class with __call__, {target.__name__} has none")
            call = target.__call__
            if "__call__" not in vars(target) and getattr(call, "__onnx_function__", None) is not None:
                call = call.__wrapped__  # of a base class, which has its own options
            target.__call__ = _marked(call, mark, attributes, given)
            return target
        return _marked(target, mark, attributes, given)

    return decorate if target is None else decorate(target)


def _name_of(target) -> str:
    """The name of a function or class. For a partial, the function's name; for another object, its class's."""
    while isinstance(target, functools.partial):
        target = target.func
    return getattr(target, "__name__", None) or target.__class__.__name__


def _namespace(text: str | None) -> str:
    text = "custom" if text is None else text.strip(".")
    if not re.fullmatch(r"[A-Za-z_][\w.\-]*", text):
        raise Error(f"namespace {text!r} is not a domain", notes=['expected something like "my.model"'])
    return text


def _marked(fn: Callable, mark: dict, attributes: Sequence[str], given: dict) -> Callable:
    if (known := getattr(fn, "__onnx_function__", None)) is not None:
        for key, value in given.items():
            if value is not None and mark[key] != known[key]:
                raise Error(
                    f"{known['function']} is decorated twice: its {'type' if key == 'function' else key} is {known[key]!r}, and {mark[key]!r} was asked for",
                    notes=["help: decorate once, or a function that calls it"],
                )
        return fn
    signature = inspect.signature(fn) if attributes else None
    if missing := [a for a in attributes if a not in signature.parameters]:
        raise Error(f"attributes: {mark['function']} has no parameter {missing[0]!r}")

    @functools.wraps(fn, updated=())
    def wrapper(*args, **kwargs):
        export = _exporting.get()
        if export is None or export.writes_out(mark):
            return fn(*args, **kwargs)
        if signature is None:
            return _call(fn, mark, args, kwargs, {})
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = {a: bound.arguments[a] for a in attributes if _is_number(bound.arguments[a])}
        for a in values:
            bound.arguments[a] = _Number(a)
        if values:
            export.numbers[mark["function"]] = list(values)
        values = _as_floats(fn, bound, values)
        return _call(fn, mark, bound.args, bound.kwargs, values)

    wrapper.__onnx_function__ = mark
    return wrapper


class _Number:
    """Placeholder for a number that is an attribute, among the arguments of a call."""

    def __init__(self, name: str):
        self.name = name


def _is_number(x) -> bool:
    """Whether x is a Python number or an array of one element, such as an attribute of an enclosing function."""
    return (isinstance(x, int | float) and not isinstance(x, bool)) or (_is_array(x) and x.ndim == 0)


def _as_floats(fn, bound, numbers: dict) -> dict:
    """`numbers` with floats for integers that the function only converts to floats, so that 3 and 3.0 call
    the same body."""
    import jax

    integers = {a: n for a, n in numbers.items() if isinstance(n, int)}
    if not integers:
        return numbers
    leaves, tree = jax.tree_util.tree_flatten((bound.args, bound.kwargs), is_leaf=lambda x: isinstance(x, _Number))
    places = [i for i, x in enumerate(leaves) if isinstance(x, _Number) and x.name in integers]

    def body(*values):
        full = [numbers[x.name] if isinstance(x, _Number) else x for x in leaves]
        for i, v in zip(places, values, strict=True):
            full[i] = v
        args, kwargs = jax.tree_util.tree_unflatten(tree, full)
        results = jax.tree_util.tree_leaves(fn(*args, **kwargs))
        return [r for r in results if _is_array(r)]

    try:
        jaxpr = jax.make_jaxpr(body)(*(integers[leaves[i].name] for i in places)).jaxpr
    except Exception:  # the call itself raises a better error
        return numbers
    floats = {}
    for place, var in zip(places, jaxpr.invars, strict=True):
        users = [e for e in jaxpr.eqns if any(v is var for v in e.invars)]
        converted = all(
            e.primitive.name == "convert_element_type"
            and jax.numpy.issubdtype(e.params["new_dtype"], jax.numpy.floating)
            for e in users
        )
        if users and converted and not any(v is var for v in jaxpr.outvars):
            floats[leaves[place].name] = float(integers[leaves[place].name])
    return numbers | floats


def _call(fn, mark, args, kwargs, numbers):
    """Calls `fn(*args, **kwargs)` as a jit that carries `mark`. Its operands are the arrays in plain
    containers, and `numbers`; everything else is part of the body."""
    import jax

    def is_leaf(x):
        return not isinstance(x, tuple | list | dict)

    leaves, tree = jax.tree_util.tree_flatten((args, kwargs), is_leaf=is_leaf)
    places = [i for i, x in enumerate(leaves) if _is_array(x) or isinstance(x, _Number)]
    operands = [numbers[leaves[i].name] if isinstance(leaves[i], _Number) else leaves[i] for i in places]
    named = {leaves[i].name: n for n, i in enumerate(places) if isinstance(leaves[i], _Number)}
    shape_of_result = []

    def body(*arrays):
        full = list(leaves)
        for i, a in zip(places, arrays, strict=True):
            full[i] = a
        inner_args, inner_kwargs = jax.tree_util.tree_unflatten(tree, full)
        results, result_tree = jax.tree_util.tree_flatten(fn(*inner_args, **inner_kwargs))
        kept = [i for i, r in enumerate(results) if _is_array(r)]
        shape_of_result[:] = [result_tree, [None if i in kept else r for i, r in enumerate(results)], kept]
        return [results[i] for i in kept]

    body.__name__ = "onnx_function:" + json.dumps(mark | {"attributes": named} if named else mark)
    try:
        arrays = jax.jit(body)(*operands)
    except Exception as e:
        # Flax NNX refuses to change a variable of the program around the function.
        if type(e).__name__ != "TraceContextError":
            raise
        _exporting.get().write_out(mark)
        full = [numbers[x.name] if isinstance(x, _Number) else x for x in leaves]
        inner_args, inner_kwargs = jax.tree_util.tree_unflatten(tree, full)
        return fn(*inner_args, **inner_kwargs)
    result_tree, results, kept = shape_of_result
    results = list(results)
    for i, a in zip(kept, arrays, strict=True):
        results[i] = a
    return jax.tree_util.tree_unflatten(result_tree, results)


def _is_array(x) -> bool:
    import jax
    import numpy as np

    return isinstance(x, jax.Array | np.ndarray | np.generic)
