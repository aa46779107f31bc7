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


# Keywords of earlier versions and of coremltools.convert, and what says the same.
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
    if name in _OTHER and "class_labels" in known:
        return WrongType(f"{function} has no keyword '{name}'", notes=[f"help: {_OTHER[name]}"])
    meant = difflib.get_close_matches(name, list(known), n=1)
    note = f"did you mean '{meant[0]}'?" if meant else f"help: help(sardonyx.{function}) lists them"
    return WrongType(f"{function} has no keyword '{name}'", notes=[note])
