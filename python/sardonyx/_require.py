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


def supported_jax() -> None:
    """Raises an Error for a JAX that is newer than those that Sardonyx reads."""
    import jax

    if jax.__version_info__ >= (0, 12):
        raise Error(
            f"JAX {jax.__version__} is newer than what Sardonyx can read: 0.12 joined jaxprs and their constants",
            notes=['help: pip install "jax>=0.8,<0.12"'],
        )
