"""`sardonyx.to_coreml`: a thin front of the native conversion to Core ML."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Unpack

import numpy as np

from sardonyx import _convert
from sardonyx import report as reports
from sardonyx._coreml.options import DEFAULTS, DOC, FIELDS, CoremlOptions
from sardonyx._error import Error, WrongType
from sardonyx._models.optimize import _names, _option, _runs
from sardonyx._models.program import Program, load
from sardonyx._models.sources import is_model, source_of
from sardonyx._require import warn, with_options
from sardonyx._sardonyx import coreml as _native
from sardonyx._values import Classifier, Image, Metadata, precision_of, shapes

# The opset that programs are lowered to on the way to Core ML.
_OPSET = 23
# The specification version of iOS 18.
_FIRST_WITH_STATES = 9
_OBJECTS = "help: sardonyx.compat.coremltools.convert takes coremltools' objects"


@with_options(DEFAULTS, DOC)
def to_coreml(
    source: Any = None,
    inputs: Sequence[Any] | None = None,
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    *,
    functions: Mapping[str, Any] | None = None,
    output_path: str | os.PathLike | None = None,
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
    input_names: Sequence[str] | Literal["positional"] | None = None,
    output_names: Sequence[str] | Literal["positional"] | None = None,
    trace: str | os.PathLike | None = None,
    return_report: bool = False,
    **options: Unpack[CoremlOptions],
):
    """Converts an ONNX model or a JAX function to a Core ML program (.mlpackage), on any system.

    Args:
        source: A JAX function; or a model: a path, an `onnx.ModelProto`, its bytes, a `sardonyx.ir.Model`, an
            `onnx_ir.Model`, or the `ONNXProgram` that `torch.onnx.export` returns.
        inputs, input_params, model_name, inputs_as_nchw, outputs_as_nchw, input_names, output_names: Of a
            function, as of `sardonyx.to_onnx`. Names in shapes become flexible shapes of the package, with the
            bounds that `"T <= 512"` states.
        functions: Several models, or functions with their inputs, instead. They become functions of one package
            (iOS 18) and share equal weights: `{"prefill": "prefill.onnx", "decode": (decode, [(1, 1)])}`. The
            first is the default. Keywords about single inputs go to the functions that have such an input.
        output_path: The package to write (.mlpackage), or a bare model file (.mlmodel). Weights stream from
            file to file.
        trace: A file (.sxt) for the steps of the conversion, which `sardonyx view FILE.sxt -o page.html`
            shows.
        return_report: Return (program, report): seconds by stage, ops by type.
        **options:

    Of a JAX function, `states` may also name a result by its position: `{"cache": 1}`. References that the function
    changes are states from iOS 18 on, if they hold floats and their sizes are known.

    Returns:
        The `sardonyx.coreml.Program`, as the package has it.

    Raises:
        sardonyx.Error: lists every equation or node that cannot be converted, with its line. Nothing is
            written then.
    """
    if functions is not None and (source is not None or inputs is not None or input_params is not None):
        raise Error("to_coreml takes one source, or functions, and not both")
    alone = source if is_model(source) else (source, inputs, input_params)
    parts = [(model_name, alone)] if functions is None else _named(functions)
    traced = {
        "inputs_as_nchw": inputs_as_nchw,
        "outputs_as_nchw": outputs_as_nchw,
        "input_names": input_names,
        "output_names": output_names,
    }
    if all(is_model(part) for _, part in parts):
        _refuse({"inputs": inputs, "input_params": input_params, **traced}, "is for JAX functions, and this is a model")
    else:
        _refuse(
            {"input_shapes": options.get("input_shapes")},
            "is for ONNX models: a JAX function is traced with the shapes of its inputs",
        )
    states = dict(options.pop("states", None) or {})
    wanted = _request(options, trace)
    report = reports.Report(model_name)
    models, programs, pairs = _read(parts, states, functions is None, wanted["target"], report, traced)
    wanted["states"] = list(dict.fromkeys(pairs))
    if programs and wanted["provenance"]:
        wanted["metadata"][-1].extend(_source_lines([(name, part[0]) for name, part in parts if not is_model(part)]))
    jax = programs[0] if programs and functions is None else None
    program = _converted(models, functions is not None, output_path, wanted, jax, report)
    return reports.Reported(program, reports.finished(report)) if return_report else program


def _read(parts, states: Mapping[str, str | int], is_alone: bool, target: str, report, traced):
    """The models as native code takes them, the programs that functions were lowered from, and pairs of a state and its
    result."""
    models: list[tuple[str, Any]] = []
    programs, pairs = [], []
    for name, part in parts:
        if is_model(part):
            models.append((name, source_of(part)))
            pairs += [(str(state), str(result)) for state, result in states.items()]
            continue
        if not isinstance(part, Sequence) or not 2 <= len(part) <= 3:
            raise WrongType(f"the function '{name}' is given as (function, inputs), not as {part!r:.200}")
        model, program, references = _traced(reports.Report(name), report, *part, **traced)
        models.append((name, model))
        programs.append(program)
        mentioned = states if is_alone else _of_results(states, references.results)
        pairs += _states(mentioned, references, target)
    if unknown := {str(state) for state in states} - {name for name, _ in pairs}:
        raise Error(f"no function has the results of the states {', '.join(sorted(unknown))}")
    return models, programs, pairs


def _refuse(given: Mapping[str, Any], why: str) -> None:
    for keyword, value in given.items():
        if value is not None:
            raise Error(f"{keyword} {why}")


def _named(functions: Any) -> list[tuple[str, Any]]:
    if not isinstance(functions, Mapping) or not all(isinstance(name, str) for name in functions):
        raise WrongType(
            f"functions are a mapping of names to models, or to functions and inputs, not {functions!r:.200}"
        )
    return list(functions.items())


def _traced(own, report, fn, inputs, input_params=None, **names):
    """A JAX function as a native ONNX model, the program that it was lowered from, and the references that it takes. Adds
    its `own` report to that of all functions."""
    if not callable(fn):
        raise Error(f"fn must be callable, found {type(fn).__name__}", notes=["expected a JAX function or a model"])
    program, spec, lowerings = _convert._read_program(own, fn, inputs, input_params, **names)
    model = _convert._lowered(own, program, opset=_OPSET, lowerings=lowerings)
    report.equations += own.equations
    _add_stages(report, own.stages)
    return model, program, spec.state


def _of_results(states: Mapping[str, str | int], results: Sequence[str]) -> dict[str, str | int]:
    """The states whose result a function has."""
    return {
        name: result
        for name, result in states.items()
        if (-len(results) <= result < len(results) if isinstance(result, int) else result in results)
    }


def _source_lines(functions: Sequence[tuple[str, Callable[..., Any]]]) -> list[tuple[str, str]]:
    """Where the functions are defined, as metadata. Files are named without their folders."""
    import jax

    found = [("com.github.sardonyx.source", f"jax=={jax.__version__}"), ("com.github.sardonyx.source_dialect", "JAX")]
    for name, fn in functions:
        code = getattr(inspect.unwrap(fn), "__code__", None) or getattr(type(fn).__call__, "__code__", None)
        if code is None:
            continue
        end = "" if len(functions) == 1 else f".{name}"
        found.append((f"com.github.sardonyx.source_file{end}", os.path.basename(code.co_filename)))
        found.append((f"com.github.sardonyx.source_line{end}", str(code.co_firstlineno)))
    return found


def _states(given: Mapping[str, str | int], references, target: str) -> list[tuple[str, str]]:
    """Pairs of an input and a result: those given, and the references that the program changes."""
    results, pairs = references.results, {}
    for name, result in given.items():
        if isinstance(result, int):
            if not -len(results) <= result < len(results):
                raise Error(f"there is no result {result} for the state '{name}': the results are {', '.join(results)}")
            result = results[result]
        pairs[str(name)] = str(result)
    if _native.specification_version(target) >= _FIRST_WITH_STATES:
        for name, result, value in references.pairs:
            if value.dtype.kind == "f" and all(isinstance(d, int) for d in value.shape):
                pairs.setdefault(name, result)
    return list(pairs.items())


def _request(options: Mapping[str, Any], trace: Any) -> dict[str, Any]:
    """The options of the native conversion, by the names of their fields."""
    given = {**DEFAULTS, **options}
    for keyword in ("precision", "class_labels"):
        if type(given[keyword]).__module__.partition(".")[0] == "coremltools":
            raise WrongType(f"{keyword} is an object of coremltools", notes=[_OBJECTS])
    wanted = {field: _AS_NATIVE.get(keyword, _same)(given[keyword]) for field, keyword in FIELDS.items()}
    wanted["pass_options"] += _kept(given["keep_f32"])
    if given["weights"] is not None:
        wanted["passes"] = [*wanted["passes"], "compress_weights"]
        wanted["pass_options"].append(_option("compress_weights.type", given["weights"]))
    paths = {"dump": given["debug_dump"], "trace": trace}
    return wanted | {name: "" if path is None else os.fspath(path) for name, path in paths.items()}


def _same(value: Any) -> Any:
    return value


def _options(given: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if given is not None and not isinstance(given, Mapping):
        raise WrongType(f"options are a mapping of names to values, not {given!r}")
    return [_option(k, v) for k, v in (given or {}).items()]


def _metadata(given: Metadata | Mapping[str, str] | None) -> list[Any]:
    """author, license, version, description, and the others as pairs."""
    if isinstance(given, Metadata):
        given = {"author": given.author, "license": given.license, "version": given.version,
                 "description": given.description, **given.user}  # fmt: skip
    if given is not None and not isinstance(given, Mapping):
        raise WrongType(f"metadata is a mapping of texts, not {given!r}")
    texts = dict(given or {})
    for keyword, value in texts.items():
        if not isinstance(value, str):
            raise WrongType(f"{keyword} is a string, not {value!r}")
    known = [texts.pop(key, "") for key in ("author", "license", "version", "description")]
    return [*known, [(str(k), v) for k, v in texts.items()]]


def _types(given: str | Mapping[str, str] | None) -> list[tuple[str, bool]]:
    """Whether each is half precision; of all, the name is empty."""
    named = {"": given} if isinstance(given, str) else given or {}
    for name, kind in named.items():
        if kind not in ("f16", "f32", "fp16", "fp32"):
            raise Error(
                f"'{name}={kind}' gives no element type" if name else f"'{kind}' gives no element type",
                "invalid_argument",
                ['expected "f16" or "f32"'],
            )
    return [(name, kind in ("f16", "fp16")) for name, kind in named.items()]


def _kept(ops: str | Sequence[str]) -> list[tuple[str, str]]:
    names = [ops] if isinstance(ops, str) else list(_names("keep_f32", ops))
    return [("add_fp16_cast.skip_ops", ",".join(names))] if names else []


def _enumerated(given: Mapping[str, Sequence[Sequence[int]]]) -> list[tuple[str, list[list[int]]]]:
    if not isinstance(given, Mapping):
        raise WrongType(f"enumerated_shapes are a mapping of inputs to lists of shapes, not {given!r}")
    found = []
    for name, listed in given.items():
        try:
            found.append((str(name), [[operator.index(size) for size in shape] for shape in listed]))
        except TypeError:
            raise WrongType(
                f"the enumerated shapes of '{name}' are a list of shapes of whole numbers, not {listed!r}"
            ) from None
    return found


def _bounds(given: Mapping[str, tuple[int | None, int | None]]) -> dict[str, tuple[int | None, int | None]]:
    """The lowest and the highest number of each named size."""
    try:
        return {str(name): (_end(low), _end(high)) for name, (low, high) in given.items()}
    except (AttributeError, TypeError, ValueError):
        raise WrongType(
            f"sizes are a mapping of names to a lowest and a highest number, not {given!r:.200}",
            notes=['help: sizes={"T": (1, 512)}; None leaves an end open'],
        ) from None


def _end(number: int | None) -> int | None:
    return None if number is None else operator.index(number)


def _classifier(given: Any) -> tuple[str, list[str], list[int], str, str] | None:
    """A file, or texts and numbers; the names of the label and of the probabilities."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        given = Classifier(**given)
    c = given if isinstance(given, Classifier) else Classifier(given)
    names = (c.name, c.probabilities or "")
    for what, value in zip(("name", "probabilities"), names, strict=True):
        if not isinstance(value, str):
            raise WrongType(f"the {what} of a classifier is a string, not {value!r}")
    labels = c.labels
    if isinstance(labels, str | os.PathLike):
        return os.fspath(labels), [], [], *names
    listed: list[Any] = list(labels) if isinstance(labels, Iterable) else [None]
    if not listed:
        raise Error("the list of class labels is empty")
    if all(isinstance(one, str) for one in listed):
        return "", listed, [], *names
    if all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in listed):
        numbers = [int(one) for one in listed]
        if all(-(2**63) <= n < 2**63 for n in numbers):
            return "", [], numbers, *names
    raise WrongType(f"class_labels are strings, or numbers of 64 bits, or a file of them, not {labels!r:.200}")


def _images(given: Mapping[str, Any] | None) -> list[tuple[str, str, float, list[float]]]:
    return [(name, *_image(how)) for name, how in (given or {}).items()]


def _image(how: str | Image | Mapping[str, Any]) -> tuple[str, float, list[float]]:
    if isinstance(how, str):
        how = Image(how)
    if isinstance(how, Mapping) and set(how) <= {"color", "scale", "bias"} and "color" in how:
        how = Image(**how)
    if not isinstance(how, Image):
        raise WrongType(f"an image is described by its color or by a sardonyx.Image, not by {how!r}")
    bias = how.bias
    if not isinstance(bias, Sequence):
        bias = [bias] * (1 if how.color.startswith("gray") else 3)
    return how.color, float(how.scale), [float(b) for b in bias]


def _target(target: Any) -> str:
    """A name, or an AvailableTarget of coremltools."""
    name = target if isinstance(target, str) else getattr(target, "name", None)
    if not isinstance(name, str):
        raise WrongType(f'target is a name such as "iOS17", not {target!r}')
    return name


_AS_NATIVE: dict[str, Callable[[Any], Any]] = {
    "target": _target,
    "precision": lambda given: "f32" if given is None else precision_of(given, more=("int8",)),
    "calibration": _runs,
    "input_shapes": shapes,
    "sizes": lambda given: _bounds(given or {}),
    "default_sizes": lambda given: {str(name): operator.index(size) for name, size in (given or {}).items()},
    "image_inputs": _images,
    "image_outputs": _images,
    "input_types": _types,
    "output_types": _types,
    "enumerated_shapes": lambda given: _enumerated(given or {}),
    "class_labels": _classifier,
    "states": lambda given: [(str(name), str(result)) for name, result in (given or {}).items()],
    "passes": lambda given: [given] if isinstance(given, str) else list(_names("passes", given)),
    "skip": lambda given: list(_names("skip", given)),
    "options": _options,
    "metadata": _metadata,
}


def _converted(models, are_functions: bool, output_path, wanted, jax, report: reports.Report) -> Program:
    out = "" if output_path is None else os.fspath(output_path)
    done, made = _native.convert(models, are_functions, out, wanted, jax)
    if output_path is not None:
        report.path = out
    program = load(out) if made is None else Program(made)
    for one in done:
        _warn_of(one)
        _add_stages(report, one["stages"])
    if report.equations == 0:
        report.before = {"nodes": sum(one["nodes"] for one in done)}
    report.integers = dict(done[0]["integers"])
    report.ops = program.op_counts()
    report.nodes = sum(n for op, n in report.ops.items() if op != "const")
    return program


def _add_stages(report: reports.Report, stages: Mapping[str, float]) -> None:
    for stage, seconds in stages.items():
        report.stages[stage] = report.stages.get(stage, 0.0) + seconds


def _warn_of(report: dict[str, Any]) -> None:
    for old, new in report["renamed"]:
        warn(f"'{old}' is called '{new}' in the Core ML model")
    for text in report["not_converged"]:
        warn(text)
    if ops := report["single"]:
        warn("these ops stay in single precision:\n  " + "\n  ".join(ops))
    if sizes := report["open_sizes"]:
        warn(
            f"sizes without an upper bound ({'; '.join(sizes)}): the model takes up to {report['assumed_upper_bound']}, as Core ML "
            'wants an end; state yours: sizes={"T": (1, 512)}, or "T <= 512" in the inputs of a function'
        )
