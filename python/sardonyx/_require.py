"""Checks of arguments, and of packages that are imported on use."""

import difflib
import functools
import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Sequence
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


def known_keywords(fn: F) -> F:
    """`fn`, which answers a keyword that it does not have with the one that was likely meant."""
    known = inspect.signature(fn).parameters

    @functools.wraps(fn)
    def checked(*args: Any, **keywords: Any) -> Any:
        for name in keywords.keys() - known.keys():
            raise unknown_keyword(fn.__name__, name, list(known))
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


def unknown_keyword(function: str, name: str, known: Sequence[str]) -> WrongType:
    meant = difflib.get_close_matches(name, known, n=1)
    note = f"did you mean '{meant[0]}'?" if meant else f"help: help(sardonyx.{function}) lists them"
    short = function.rpartition(".")[2]
    if where := _ELSEWHERE.get(function, {}).get(name):
        note = f"help: {where} takes it"
    return WrongType(f"{short} has no keyword '{name}'", notes=[note])
