"""Checks of arguments, and of packages that are imported on use."""

import difflib
import functools
import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
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


def known_keywords(fn: F, more: Iterable[str] = ()) -> F:
    """`fn`, which answers a keyword that it does not have with the one that was likely meant. `more`: those of its **options."""
    known = [*inspect.signature(fn).parameters, *more]

    @functools.wraps(fn)
    def checked(*args: Any, **keywords: Any) -> Any:
        for name in keywords.keys() - set(known):
            raise unknown_keyword(fn.__name__, name, known)
        return fn(*args, **keywords)

    return checked  # type: ignore[return-value]


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
# Keywords of coremltools' converters, and what says the same of a conversion to Core ML.
_OTHER = {
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
    elif name in _OTHER and "class_labels" in known:
        note = f"help: {_OTHER[name]}"
    return WrongType(f"{function.rpartition('.')[2]} has no keyword '{name}'", notes=[note])
