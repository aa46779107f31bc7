"""Core ML programs, read and written natively, on any system.

    program = sardonyx.coreml.load("in.mlpackage")
    program.save("out.mlpackage")

A program is read from a package (.mlpackage) or a bare model file (.mlmodel). Weights stay where they are until they are
written; whatever is not changed is written as it was.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sardonyx._error import Error
from sardonyx._evaluate import _from_native, _to_native
from sardonyx._sardonyx import coreml as _native

__all__ = ["Program", "load", "save"]


class Program:
    """An ML program: functions of MIL ops, and what the file says about them."""

    __slots__ = ("_native",)

    def __init__(self, native):
        self._native = native

    def save(self, path: str | os.PathLike) -> None:
        """Writes a package if the path ends in .mlpackage, else a bare model file with its weights beside it."""
        self._native.save(os.fspath(path))

    @property
    def specification_version(self) -> int:
        """The version of the format: 6 is iOS 15, 9 is iOS 18."""
        return self._native.specification_version()

    @property
    def functions(self) -> list[str]:
        """The names of the functions, the main one first."""
        return self._native.function_names()

    def op_counts(self) -> dict[str, int]:
        """How many ops there are of each type, nested blocks included."""
        return dict(self._native.op_counts())

    def infer_types(self) -> list[str]:
        """Types of all values by the ops' own rules; returns what is wrong with the program."""
        return self._native.infer()

    def run(self, inputs: Mapping[str, Any] | Sequence[Any], function: str = "") -> dict[str, Any]:
        """Runs a function on Sardonyx's evaluator, on any system: exact and slow, for looking at values.

        Inputs by name or in order, as arrays; results by name.
        """
        if isinstance(inputs, Mapping):
            names = self._native.port_names(function, False)
            if unknown := sorted(set(inputs) - set(names)):
                raise Error(f"there is no input '{unknown[0]}'; the inputs are {', '.join(names)}")
            if missing := [n for n in names if n not in inputs]:
                raise Error(f"input '{missing[0]}' is missing")
            inputs = [inputs[n] for n in names]
        results = self._native.run([_to_native(v) for v in inputs], function)
        return dict(zip(self._native.port_names(function, True), map(_from_native, results), strict=True))

    def text(self, *, full_constants: bool = False) -> str:
        """The program in Sardonyx's text form."""
        return self._native.text(full_constants)

    def __repr__(self) -> str:
        ops = sum(self.op_counts().values())
        return f"<Program with {ops} ops in {', '.join(self.functions)}, specification version {self.specification_version}>"


def load(path: str | os.PathLike, *, mmap: bool = True) -> Program:
    """Reads a package or a bare model file."""
    return Program(_native.load(os.fspath(path), mmap))


def save(program: Program, path: str | os.PathLike) -> None:
    """The same as program.save(path)."""
    program.save(path)
