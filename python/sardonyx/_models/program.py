"""`sardonyx.coreml.Program`: a program of Core ML, read, run and written natively."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from sardonyx import ir
from sardonyx._error import Error, WrongType
from sardonyx._models.evaluate import _from_native, _to_native
from sardonyx._require import known_keywords
from sardonyx._sardonyx import coreml as _native


def _as_taken(value: Any, dtype: ir.DataType) -> Any:
    """A number or an array of numbers in the element type that the program takes, where no number gets lost in that."""
    if value is None or dtype == ir.DataType.UNDEFINED or isinstance(value, ir.Tensor):
        return value
    array, taken = np.asarray(value), ir.DataType(dtype).numpy()
    is_float = np.issubdtype(taken, np.floating)
    kinds = "biuf" if is_float else "biu" if np.issubdtype(taken, np.integer) else ""
    if array.dtype == taken or array.dtype.kind not in kinds:
        return value
    if not is_float and array.size and (array.min() < np.iinfo(taken).min or array.max() > np.iinfo(taken).max):
        return value
    return array.astype(taken)


class Program:
    """An ML program: functions of MIL ops, and the description of their inputs and outputs."""

    __slots__ = ("_native",)

    def __init__(self, native):
        self._native = native

    def save(self, path: str | os.PathLike) -> None:
        """Writes a package if the path ends in .mlpackage, or a bare model file (.mlmodel) with its weights
        beside it."""
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
        """Infers the types of all values by the ops' rules. Returns the type errors."""
        return self._native.infer()

    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        function: str = "",
        state: MutableMapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Runs a function on Sardonyx's evaluator, on any system: exact and slow, for inspecting values.

        Inputs by name or in order, as arrays; results by name. `state` has the initial values of the
        states and receives the final ones; without it they start with zeros. As in Core ML's own
        prediction, numbers and booleans become floats where the program takes floats, and integers
        become those of its width.
        """
        results = self._native.run(self._in_order(inputs, function, state or {}), function)
        names = self._native.port_names(function, True)
        if state is not None:
            kept = [name for name, _, _ in self._native.states(function)]
            state.update(zip(kept, map(_from_native, results[len(names) :]), strict=True))
        return dict(zip(names, map(_from_native, results[: len(names)]), strict=True))

    def make_state(self, function: str = "") -> dict[str, Any]:
        """Initial states of a function by name: zeros."""
        out = {}
        for name, dtype, shape in self._native.states(function):
            if -1 in shape:
                raise Error(f"state '{name}' has a size that the program leaves open: give it an array")
            out[name] = np.zeros(shape, ir.DataType(dtype).numpy())
        return out

    def _in_order(
        self, inputs: Mapping[str, Any] | Sequence[Any], function: str = "", state: Mapping[str, Any] | None = None
    ) -> list:
        if not isinstance(inputs, Mapping | Sequence) or isinstance(inputs, str | bytes):
            raise WrongType(
                f"the inputs are {type(inputs).__name__}, and a mapping by name or a list in order was expected",
                notes=[f"help: run({{{', '.join(f'{n!r}: ...' for n in self._native.port_names('', False))}}})"],
            )
        if not isinstance(function, str):
            raise WrongType(
                f"the second argument is the name of a function, not {type(function).__name__}",
                notes=["help: give the inputs as one list, or as a mapping by name"],
            )
        state = state or {}
        states = [name for name, _, _ in self._native.states(function)]
        if unknown := sorted(set(state) - set(states)):
            raise Error(f"there is no state '{unknown[0]}'; the states are {', '.join(states) or 'none'}")
        ports = self._native.port_names(function, False)
        if isinstance(inputs, Mapping):
            names = [n for n in ports if n not in states]
            if unknown := sorted(set(inputs) - set(names)):
                raise Error(f"there is no input '{unknown[0]}'; the inputs are {', '.join(names)}")
            if missing := [n for n in names if n not in inputs]:
                raise Error(f"input '{missing[0]}' is missing")
            inputs = [inputs[n] for n in names]
        elif len(inputs) != (wanted := len([n for n in ports if n not in states])):
            raise Error(f"{len(inputs)} inputs are given, and the function has {wanted}: {', '.join(ports)}")
        values = list(inputs)
        if states:
            given = iter(inputs)
            values = [state.get(n) if n in states else next(given, None) for n in ports]
            values += given
        dtypes = [ir.DataType(d) for d in self._native.input_dtypes(function)]
        return [_to_native(_as_taken(v, d)) for v, d in zip(values, dtypes, strict=True)]

    def text(self, *, full_constants: bool = False) -> str:
        """The program in Sardonyx's text form."""
        return self._native.text(full_constants)

    def __repr__(self) -> str:
        ops = sum(self.op_counts().values())
        return f"<Program with {ops} ops in {', '.join(self.functions)}, specification version {self.specification_version}>"


@known_keywords
def load(path: str | os.PathLike, *, mmap: bool = True) -> Program:
    """Reads a package or a bare model file."""
    return Program(_native.load(os.fspath(path), mmap))
