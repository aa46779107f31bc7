"""`@sardonyx.onnx_function`: parts of a program that become model-local functions of the ONNX file."""

import contextvars
import functools
import inspect
import json
import re
from collections.abc import Callable
from typing import Any

from sardonyx._error import Error

# Set in the thread that traces for an export; elsewhere decorated functions are what they were.
_exporting: contextvars.ContextVar[bool] = contextvars.ContextVar("sardonyx_exporting", default=False)


class exporting:
    """Calls of decorated functions become functions of the model, within."""

    def __enter__(self):
        self._token = _exporting.set(True)

    def __exit__(self, *_):
        _exporting.reset(self._token)


def onnx_function(
    target: Any = None,
    *,
    unique: bool = False,
    namespace: str | None = None,
    name: str | None = None,
    type: str | None = None,  # noqa: A002
):
    """Mark a function, or a class with `__call__`, as a function of the ONNX model.

    Each call becomes one node; its body becomes a `FunctionProto` named after the target. Calls with the same body, shapes and
    captured weights share one function. Outside of an export the target behaves as if it were not decorated.

    Args:
        target: The function or class; leave it out to pass options, as in `@onnx_function(namespace="my.model")`.
        unique: Name the function `{namespace}.{name}.unique` instead of numbering it.
        namespace: What the function's domain begins with; "custom" by default.
        name: Older spelling of `type`.
        type: The operator's name instead of the target's own.
    """

    namespace = _namespace(namespace)

    def decorate(target):
        if not callable(target):
            raise Error(f"@onnx_function needs a function or a class, found {target!r}")
        operator = type or name or target.__name__
        mark = {
            "function": re.sub(r"\W", "_", operator),
            "namespace": namespace,
            "unique": bool(unique),
        }
        if inspect.isclass(target):
            if "__call__" not in vars(target) and not hasattr(target, "__call__"):  # noqa: B004
                raise Error(f"@onnx_function needs a class with __call__, {target.__name__} has none")
            target.__call__ = _marked(target.__call__, mark)
            return target
        return _marked(target, mark)

    return decorate if target is None else decorate(target)


def _namespace(text: str | None) -> str:
    text = "custom" if text is None else text.strip(".")
    if not re.fullmatch(r"[A-Za-z_][\w.\-]*", text):
        raise Error(f"namespace {text!r} is no domain", notes=['expected something like "my.model"'])
    return text


def _marked(fn: Callable, mark: dict) -> Callable:
    if getattr(fn, "__onnx_function__", None) is not None:
        return fn  # decorated already, perhaps through a base class
    label = "onnx_function:" + json.dumps(mark)

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        if not _exporting.get():
            return fn(*args, **kwargs)
        return _call(fn, label, args, kwargs)

    wrapper.__onnx_function__ = mark
    return wrapper


def _call(fn, label, args, kwargs):
    """`fn(*args, **kwargs)` as a jit of that name. Arrays in plain containers are its operands; all else is part of the body."""
    import jax

    def is_leaf(x):
        return not isinstance(x, tuple | list | dict)

    leaves, tree = jax.tree_util.tree_flatten((args, kwargs), is_leaf=is_leaf)
    places = [i for i, x in enumerate(leaves) if _is_array(x)]
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

    body.__name__ = label
    arrays = jax.jit(body)(*(leaves[i] for i in places))
    result_tree, results, kept = shape_of_result
    results = list(results)
    for i, a in zip(kept, arrays, strict=True):
        results[i] = a
    return jax.tree_util.tree_unflatten(result_tree, results)


def _is_array(x) -> bool:
    import jax
    import numpy as np

    return isinstance(x, jax.Array | np.ndarray | np.generic)
