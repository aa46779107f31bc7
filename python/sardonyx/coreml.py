"""Core ML programs, read and written natively, on any system.

    program = sardonyx.coreml.load("in.mlpackage")
    program.save("out.mlpackage")

A program is read from a package (.mlpackage) or a bare model file (.mlmodel). Weights stay where they are
until they are written; whatever is not changed is written as it was.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from sardonyx import ir
from sardonyx._error import Error, WrongType
from sardonyx._evaluate import _from_native, _to_native
from sardonyx._optimize import _names, _option, _request
from sardonyx._optimize import _pipeline as _pipeline_of
from sardonyx._progress import shown
from sardonyx._require import known_keywords, one_of
from sardonyx._sardonyx import coreml as _native
from sardonyx._to_coreml import from_onnx

__all__ = ["Program", "apply_pass", "fp16_report", "from_onnx", "load", "native_passes", "optimize", "save"]


def __dir__():
    return __all__


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


@known_keywords
def save(program: Program, path: str | os.PathLike) -> None:
    """The same as program.save(path)."""
    program.save(path)


@known_keywords
def fp16_report(
    model: str | os.PathLike | Program,
    inputs: Sequence[Mapping[str, Any] | Sequence[Any]] = (),
    *,
    runs: int = 2,
    seed: int = 0,
) -> dict[str, Any]:
    """Finds the ops of all functions that would overflow in half precision, or vanish.

    Combines bounds that hold for all inputs with runs on the evaluator: one for each of `inputs` (a mapping
    by name, or a sequence), or `runs` random ones without any. The inputs are the main function's; other
    functions run on them where they fit, and otherwise use the values seen under the same names.
    `report["ops"]` has those that are not safe, in program order: {"function", "op", "name", "verdict",
    "value", "low", "high", "seen"}, where the verdict is "overflows", "vanishes", "may overflow" (by bounds;
    no run reached it) or "unknown". `report["safe"]` counts the others; `report["ranges"]`, {name: (lowest,
    highest)}, is an option of add_fp16_cast.
    """
    program = model if isinstance(model, Program) else load(model)
    report = program._native.half_report([program._in_order(i) for i in inputs], int(runs), int(seed))
    lines = (line.split(" ", 2) for line in report["ranges"].splitlines())
    report["ranges"] = {name: (float(low), float(high)) for low, high, name in lines}
    return report


@known_keywords
def optimize(
    model: str | os.PathLike | bytes,
    output_path: str | os.PathLike | None = None,
    *,
    passes: Any = "default",
    skip: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    compute_precision: str | None = None,
    calibration: Sequence[Mapping[str, Any] | Sequence[Any]] | None = None,
    strict: bool = False,
    verify: str = "off",
    link_weights: bool = False,
    count_savings: bool = False,
    progress: bool | Callable[[str, int, int], Any] = False,
) -> dict[str, Any] | Program:
    """Runs passes on a package or model file, or on the bytes of one, and writes another (or the same).

    `passes` is a preset by coremltools' name ("default", "cleanup", ...), a pass by any spelling, a list of
    these, or a `PassPipeline` of coremltools, whose options count as well (and whose add_fp16_cast and
    add_int16_cast run with `compute_precision="fp16"`, as in presets); options are
    `{"common::const_elimination.skip_const_by_size": 1e6}`, or `{"common::const_elimination":
    {"skip_const_by_size": 1e6}}`. With `compute_precision="fp16"` presets end in half precision;
    `calibration` has the inputs of runs, and ops that overflow in these runs keep single precision. `verify`
    is as of `sardonyx.optimize`. With `link_weights`, both packages share an unchanged weights file (a hard
    link, where the file system can) instead of a copy: writing into it changes both. `count_savings` and
    `progress` are as of `sardonyx.optimize`. Returns a report: ops before and after, each pass and its time;
    without `output_path`, the program.
    """
    if not isinstance(model, (str, os.PathLike, bytes, bytearray, memoryview)):
        raise WrongType(
            f"passes run on a path or on bytes of a model file, not on {type(model).__name__}",
            notes=(
                "help: apply_pass and native_passes run passes on a Program of coremltools; a converted model is saved before, "
                "with model.save(path)",
            ),
        )
    if isinstance(model, (bytes, bytearray, memoryview)) or output_path is None:
        return _optimize_there(
            model,
            output_path,
            passes=passes,
            skip=skip,
            options=options,
            compute_precision=compute_precision,
            calibration=calibration,
            strict=strict,
            verify=verify,
            link_weights=link_weights,
            count_savings=count_savings,
            progress=progress,
        )
    one_of("verify", verify, ("off", "model", "pass"))
    if options is not None and not isinstance(options, Mapping):
        raise WrongType(f"options are a mapping of names to values, not {options!r}")
    if compute_precision is not None:
        one_of("compute_precision", compute_precision, ("fp16", "fp32"))
    skip = _names("skip", skip)
    if not isinstance(passes, str) and hasattr(passes, "get_all_options"):
        passes, own = _pipeline(passes, skip, compute_precision == "fp16")
        options = own | dict(_flat(options or {}))
    options = dict(options or {})
    if compute_precision is not None:
        options["compute_precision"] = compute_precision
    if calibration is not None:
        options["add_fp16_cast.skip_ops"] = "auto"
        options["add_fp16_cast.ranges"] = fp16_report(model, calibration, runs=0)["ranges"]
    names, of_file = _pipeline_of("passes", passes)
    request = _request(
        passes=names,
        skip=skip,
        options=[*of_file, *(_option(k, v) for k, v in _flat(options))],
        strict=bool(strict),
        verify=verify,
        link_weights=bool(link_weights),
        count_savings=bool(count_savings),
    )
    with shown(progress, os.path.basename(os.fspath(model))) as report:
        return _native.optimize_file(os.fspath(model), os.fspath(output_path), request | {"progress": report})


# Passes of a conversion to half precision. On files they run only with compute_precision="fp16".
_HALF = ("add_fp16_cast", "add_int16_cast")


def _pipeline(pipeline: Any, skip: Sequence[str], half: bool) -> tuple[list[str], dict[str, Any]]:
    """Names of the passes of a coremltools `PassPipeline`, and their options."""
    pipeline.validate()

    def bare(name: str) -> str:
        return name.split("::")[-1]

    left_out = {bare(name) for name in skip} | (set() if half else set(_HALF))
    names = [name for name in pipeline.passes if half or bare(name) not in _HALF]
    if not names and pipeline.passes:
        raise Error(
            f"the pipeline has nothing but {', '.join(pipeline.passes)}, and half precision is asked for",
            notes=('help: compute_precision="fp16"',),
        )
    options = {}
    for name, chosen in pipeline.get_all_options().items():
        for option in chosen if bare(name) not in left_out else ():
            if callable(option.option_val):
                raise Error(
                    f"option '{option.option_name}' of {name} is a function of coremltools' ops, which files do not have",
                    notes=("help: skip_ops_by_type and skip_ops name ops; apply_pass takes the function",),
                )
            options[f"{name}.{option.option_name}"] = option.option_val
    return names, options


def _flat(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in options.items():
        if isinstance(value, Mapping) and "." not in str(key):
            yield from ((f"{key}.{k}", v) for k, v in value.items())
        else:
            yield str(key), value


def _optimize_there(model, output_path, **what) -> dict[str, Any] | Program:
    """optimize() through temporary files: for bytes, or without an output path."""
    with tempfile.TemporaryDirectory() as folder:
        source: str | os.PathLike
        if isinstance(model, (bytes, bytearray, memoryview)):
            _native.check_bytes(bytes(model))  # weights are in other files
            source = os.path.join(folder, "in.mlmodel")
            with open(source, "wb") as f:
                f.write(model)
        else:
            source = model
        if output_path is not None:
            return optimize(source, output_path, **what)
        made = os.path.join(folder, "out.mlpackage" if os.path.isdir(source) else "out.mlmodel")
        optimize(source, made, **what)
        return load(made, mmap=False)


def apply_pass(prog: Any, name: str, **options: Any) -> None:
    """Runs one pass on a coremltools `Program` in memory, instead of coremltools' own pass of that name.

    The program, its functions and inputs, and all ops and variables that the pass does not change keep their
    identity. add_fp16_cast also takes `op_selector`, a predicate: ops for which it is false keep single
    precision.
    """
    from sardonyx import _coreml_program

    _coreml_program.require_program(prog)
    if not isinstance(name, str):
        raise WrongType(f"the name of a pass is a string, not {name!r}", notes=("help: one pass at a time",))
    if prog.skip_all_passes:
        return
    usual = []
    if name.split("::")[-1] == "remove_symbolic_reshape" and "two_symbols" not in options:
        usual = [(f"{name}.two_symbols", "error")]  # pipelines skip it; a pass that is run by name raises
    _coreml_program.run(prog, [name], [(f"{name}.{k}", v) for k, v in options.items()], usual)


def native_passes():
    """`with sardonyx.coreml.native_passes():` lets coremltools run Sardonyx's passes, also inside
    `coremltools.convert`.

    This affects all threads, since coremltools has one registry of passes. Blocks may nest and overlap.
    """
    from sardonyx import _coreml_registry

    return _coreml_registry.native_passes()
