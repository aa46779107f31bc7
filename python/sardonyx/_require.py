"""What entry points ask of their arguments and of other packages."""

import importlib
from collections.abc import Sequence
from typing import Any

from sardonyx._error import Error


def require(module: str, extra: str):
    """The module, imported now; an Error that says what to install when it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Error(f"{module} is not installed", notes=[f'help: pip install "sardonyx[{extra}]"']) from None


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise Error(f"{name}={value!r} is not known", notes=["expected " + ", ".join(f'"{a}"' for a in allowed)])
