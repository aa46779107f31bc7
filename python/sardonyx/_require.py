"""Checks of arguments, and of packages that are imported on use."""

import importlib
from collections.abc import Sequence
from typing import Any

from sardonyx._error import Error


def require(module: str, extra: str):
    """Imports the module; raises an Error that says what to install if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Error(f"{module} is not installed", notes=[f'help: pip install "sardonyx[{extra}]"']) from None


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise Error(f"{name}={value!r} is not known", notes=["expected " + ", ".join(f'"{a}"' for a in allowed)])
