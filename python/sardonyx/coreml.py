"""Core ML programs, read and written natively, on any system.

    program = sardonyx.coreml.load("in.mlpackage")
    program.save("out.mlpackage")

A program is read from a package (.mlpackage) or a bare model file (.mlmodel). Weights stay where they are
until they are written; whatever is not changed is written as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sardonyx import report as reports
from sardonyx._coreml import registry as _coreml_registry
from sardonyx._coreml import session as _coreml_program
from sardonyx._error import Error, WrongType
from sardonyx._models.optimize import _names, _option, request
from sardonyx._models.program import Program, load
from sardonyx._progress import shown
from sardonyx._require import known_keywords
from sardonyx._sardonyx import coreml as _native
from sardonyx._values import precision_of

__all__ = ["Program", "apply_pass", "fp16_report", "load", "native_passes", "optimize", "save"]


def __dir__():
    return __all__


def __getattr__(name: str) -> Any:
    if name == "from_onnx":
        raise AttributeError("sardonyx.coreml.from_onnx is sardonyx.to_coreml: it takes ONNX models, too")
    raise AttributeError(f"module 'sardonyx.coreml' has no attribute '{name}'")


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
    highest, least magnitude that is not zero, or 0)}, is an option of add_fp16_cast.
    """
    program = model if isinstance(model, Program) else load(model)
    report = program._native.half_report([program._in_order(i) for i in inputs], int(runs), int(seed))
    lines = (line.split(" ", 2) for line in report["ranges"].splitlines())
    report["ranges"] = {}
    for low, ends, name in lines:
        high, _, least = ends.partition("/")
        report["ranges"][name] = (float(low), float(high), float(least or 0))
    return report


@known_keywords
def optimize(
    model: str | os.PathLike | bytes | Program,
    output_path: str | os.PathLike | None = None,
    *,
    passes: Any = "default",
    skip: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    precision: str | None = None,
    weights: str | None = None,
    calibration: Sequence[Mapping[str, Any] | Sequence[Any]] | None = None,
    strict: bool = False,
    verify: str = "off",
    link_weights: bool = False,
    count_savings: bool = False,
    progress: bool | Callable[[str, int, int], Any] = False,
    return_report: bool = False,
) -> Any:
    """Runs passes on a package or model file, on the bytes of one, or on a `Program`. Returns the program; with
    `output_path`, which may be the same, it is written there first.

    `passes` is a preset by coremltools' name ("default", "cleanup", ...), a pass by any spelling, a list of
    these, or a `PassPipeline` of coremltools, whose options count as well (and whose add_fp16_cast and
    add_int16_cast run with `precision="f16"`, as in presets); options are
    `{"common::const_elimination.skip_const_by_size": 1e6}`, or `{"common::const_elimination":
    {"skip_const_by_size": 1e6}}`. With `precision="f16"` presets end in half precision;
    `weights` is as of `sardonyx.to_coreml`: "int8", "palette4" and others store weights in fewer bits, last of all.
    `calibration` has the inputs of runs, and ops that overflow in these runs keep single precision. With
    `precision="int8"` (iOS 17) they tell ranges instead: convolutions and products with constant weights, and what
    lies between them, compute in integers of 8 bits, and the rest in the program's floats. `verify`
    is as of `sardonyx.optimize`. With `link_weights`, both packages share an unchanged weights file (a hard
    link, where the file system can) instead of a copy: writing into it changes both. `count_savings`,
    `progress` and `return_report` are as of `sardonyx.optimize`.
    """
    if not isinstance(model, (str, os.PathLike, bytes, bytearray, memoryview, Program)):
        raise WrongType(
            f"passes run on a path or on bytes of a model file, not on {type(model).__name__}",
            notes=(
                "help: apply_pass and native_passes run passes on a Program of coremltools; a converted model is saved before, "
                "with model.save(path)",
            ),
        )
    source: Any = model._native if isinstance(model, Program) else model
    if isinstance(model, (str, os.PathLike)):
        source = os.fspath(model)
    elif not isinstance(model, Program):
        source = bytes(model)
    if options is not None and not isinstance(options, Mapping):
        raise WrongType(f"options are a mapping of names to values, not {options!r}")
    in_integers = precision == "int8"
    half = None if precision is None or in_integers else precision_of(precision, more=("int8",)) == "f16"
    skip = _names("skip", skip)
    if not isinstance(passes, str) and hasattr(passes, "get_all_options"):
        passes, own = pipeline_of(passes, skip, bool(half))
        options = own | dict(_flat(options or {}))
    options = dict(options or {})
    if half is not None:
        options["precision"] = "f16" if half else "f32"
    if in_integers and not calibration:
        raise Error(
            'precision="int8" learns ranges from runs of the program', notes=["help: calibration=[{name: array}]"]
        )
    of: Any = Program(_native.load_bytes(source)) if isinstance(source, bytes) else model
    if calibration is not None and not in_integers:
        options["add_fp16_cast.skip_ops"] = "auto"
        options["add_fp16_cast.ranges"] = fp16_report(of, calibration, runs=0)["ranges"]
    asked = {"passes": passes, "skip": skip, "strict": strict, "verify": verify, "count_savings": count_savings}
    wanted = request(asked, [_option(k, v) for k, v in _flat(options)]) | {"link_weights": bool(link_weights)}
    if weights is not None:
        wanted["request.passes"] = [*wanted["request.passes"], "compress_weights"]
        wanted["request.options"].append(_option("compress_weights.type", weights))
    if in_integers:
        wanted["request.passes"] = [*wanted["request.passes"], "quantize_activations"]
        wanted["calibrate"] = _named_runs(of if isinstance(of, Program) else load(of), calibration or ())
    name = os.path.basename(source) if isinstance(source, str) else "program"
    out = "" if output_path is None else os.fspath(output_path)
    with shown(progress, name) as step:
        numbers, made = _native.optimize(source, out, wanted | {"progress": step})
    report = reports.finished(reports.of_optimization(name, numbers, output_path))
    program = load(out) if made is None else Program(made)
    return reports.Reported(program, report) if return_report else program


def _named_runs(program: Program, runs: Sequence[Any]) -> list[dict[str, Any]]:
    """The inputs of each run by name, in the types that the program takes."""
    names = program._native.port_names("", False)
    ordered = [zip(names, program._in_order(run), strict=True) for run in runs]
    return [{name: value for name, value in run if value is not None} for run in ordered]


# Passes of a conversion to half precision. On files they run only with precision="f16".
_HALF = ("add_fp16_cast", "add_int16_cast")


def pipeline_of(pipeline: Any, skip: Sequence[str] = (), half: bool = True) -> tuple[list[str], dict[str, Any]]:
    """Names of the passes of a coremltools `PassPipeline`, and their options."""
    pipeline.validate()

    def bare(name: str) -> str:
        return name.split("::")[-1]

    left_out = {bare(name) for name in skip} | (set() if half else set(_HALF))
    names = [name for name in pipeline.passes if half or bare(name) not in _HALF]
    if not names and pipeline.passes:
        raise Error(
            f"the pipeline has nothing but {', '.join(pipeline.passes)}, and half precision is asked for",
            notes=('help: precision="f16"',),
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


def apply_pass(prog: Any, name: str, **options: Any) -> None:
    """Runs one pass on a coremltools `Program` in memory, instead of coremltools' own pass of that name.

    The program, its functions and inputs, and all ops and variables that the pass does not change keep their
    identity. add_fp16_cast also takes `op_selector`, a predicate: ops for which it is false keep single
    precision.
    """
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
    return _coreml_registry.native_passes()
