"""Checks of arguments, and of packages that are imported on use."""

import difflib
import functools
import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sardonyx._error import Error, WrongType

F = TypeVar("F", bound=Callable[..., Any])


def require(module: str, extra: str):
    """Imports the module; raises an Error that says what to install if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Error(f"{module} is not installed", notes=[f'help: pip install "sardonyx[{extra}]"']) from None


def warn(message: str) -> None:
    """A warning at the line of the caller's own code."""
    package = os.path.dirname(__file__) + os.sep
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise Error(f"{name}={value!r} is not known", notes=["expected " + ", ".join(f'"{a}"' for a in allowed)])


def known_keywords(fn: F, options: Mapping[str, Any] | None = None) -> F:
    """`fn`, which answers a keyword that it does not have with the one that was likely meant. `options`: the defaults of its
    **options, which its signature then has. Names with an underscore are for callers inside."""
    hidden = inspect.Parameter.VAR_KEYWORD if options is not None else None
    shown = [p for p in inspect.signature(fn).parameters.values() if p.name[0] != "_" and p.kind is not hidden]
    shown += [inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=v) for k, v in (options or {}).items()]
    known = [p.name for p in shown]

    @functools.wraps(fn)
    def checked(*args: Any, **keywords: Any) -> Any:
        for name in keywords.keys() - set(known):
            if not name.startswith("_"):
                raise unknown_keyword(fn.__name__, name, known)
        return fn(*args, **keywords)

    checked.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return checked  # type: ignore[return-value]


def with_options(defaults: Mapping[str, Any], doc: str) -> Callable[[F], F]:
    """Decorates a function of **options with the table of its keywords, which its documentation and its signature then have."""

    def decorated(fn: F) -> F:
        fn.__doc__ = (fn.__doc__ or "").replace("        **options:\n", doc)
        return known_keywords(fn, defaults)

    return decorated


# Keywords of other tools, by function: the door that takes them.
_ELSEWHERE = {
    "to_onnx": dict.fromkeys(
        ("record_primitive_calls_file", "stacktrace_metadata", "normalization_mode", "export_mode"),
        "sardonyx.compat.jax2onnx.to_onnx",
    ),
    "to_coreml": dict.fromkeys(
        ("outputs", "classifier_config", "convert_to", "pass_pipeline", "skip_model_load"),
        "sardonyx.compat.coremltools.convert",
    ),
}
# Keywords of coremltools, and what says the same here, by a keyword that a function must have for it.
_OTHER = {
    "minimum_deployment_target": 'target="iOS17"',
    "compute_precision": 'precision="f16"',
    "skip_ops": 'keep_f32=["name", ...]',
    "author": 'metadata={"author": ...}',
    "license": 'metadata={"license": ...}',
    "version": 'metadata={"version": ...}',
    "short_description": 'metadata={"description": ...}',
    "user_defined_metadata": "metadata={...}",
    "predicted_feature_name": "class_labels=sardonyx.Classifier(labels, name=...)",
    "predicted_probabilities_output": "class_labels=sardonyx.Classifier(labels, probabilities=...)",
}


def unknown_keyword(function: str, name: str, known: Iterable[str]) -> WrongType:
    known = list(known)
    meant = difflib.get_close_matches(name, known, n=1)
    note = f"did you mean '{meant[0]}'?" if meant else f"help: help(sardonyx.{function}) lists them"
    if where := _ELSEWHERE.get(function, {}).get(name):
        note = f"help: {where} takes it"
    elif name in _OTHER and _OTHER[name].partition("=")[0] in known:
        note = f"help: {_OTHER[name]}"
    return WrongType(f"{function.rpartition('.')[2]} has no keyword '{name}'", notes=[note])
