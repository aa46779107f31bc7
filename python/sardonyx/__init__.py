"""Sardonyx: a native graph compiler for machine-learning models."""

from sardonyx._error import Error
from sardonyx._sardonyx import version as _version

__all__ = ["Error"]
__version__ = _version()
