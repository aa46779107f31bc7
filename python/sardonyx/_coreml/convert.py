"""`sardonyx.to_coreml`: a thin front of the native conversion to Core ML."""

from __future__ import annotations

import contextlib
import inspect
import operator
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from sardonyx import _convert
from sardonyx import report as reports
from sardonyx._error import Error, WrongType
from sardonyx._models.optimize import _names, _option
from sardonyx._models.program import Program, load
from sardonyx._models.sources import is_model, source_of
from sardonyx._require import known_keywords, one_of, warn
from sardonyx._sardonyx import coreml as _native

# The opset that programs are lowered to on the way to Core ML.
_OPSET = 23
# The specification version of iOS 18.
_FIRST_WITH_STATES = 9
_ONE_MODEL = "trace takes the steps of one model, and functions are several"
_OBJECTS = "help: sardonyx.compat.coremltools.convert takes coremltools' objects"


@known_keywords
def to_coreml(
    source: Any = None,
    inputs: Sequence[Any] | None = None,
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    *,
    functions: Mapping[str, Any] | None = None,
    output_path: str | os.PathLike | None = None,
    minimum_deployment_target: Any = "iOS17",
    compute_precision: str = "fp16",
    skip_ops: str | Sequence[str] = (),
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    sizes: Sequence[str] = (),
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
    input_names: Sequence[str] | Literal["positional"] | None = None,
    output_names: Sequence[str] | Literal["positional"] | None = None,
    states: Mapping[str, str | int] | None = None,
    default_sizes: Mapping[str, int] | None = None,
    image_inputs: Mapping[str, str | Mapping[str, Any]] | None = None,
    image_outputs: Mapping[str, str] | None = None,
    input_types: str | Mapping[str, str] | None = None,
    output_types: str | Mapping[str, str] | None = None,
    enumerated_shapes: Mapping[str, Sequence[Sequence[int]]] | None = None,
    class_labels: Any = None,
    predicted_feature_name: str = "classLabel",
    predicted_probabilities_output: str | None = None,
    passes: str | Sequence[str] = "default",
    skip: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    author: str = "",
    license: str = "",
    version: str = "",
    short_description: str = "",
    user_defined_metadata: Mapping[str, str] | None = None,
    debug_dump: str | os.PathLike | None = None,
    trace: str | os.PathLike | None = None,
    return_report: bool = False,
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
        minimum_deployment_target: "iOS15" to "iOS18", "iOS26", or a system of the same years ("macOS14").
        compute_precision: "fp16" casts ops that exist in half precision, as coremltools does; "fp32" keeps
            single precision.
        skip_ops: Names of ops that stay in single precision, or "auto": those that overflow or vanish in half
            precision, judged by bounds and by runs on random inputs. A warning lists them.
        input_shapes: New shapes of inputs: `{"x": (1, 3, 224, 224)}`. A string is a named size; sizes that
            stay open become flexible shapes. A name in place of a number of the model opens that size, if all
            operators can take another one.
        sizes: What holds for named sizes: `["T <= 512"]`. It bounds the flexible shapes.
        default_sizes: What named sizes are by default: `{"T": 128}`. Others are at the low end of their range.
        states: Inputs that become states (iOS 18), each with the result that it holds after a run:
            `{"past_keys": "present_keys"}`. A state stays on the device between runs; its elements are half
            precision. Of a JAX function, the result may also be a position, `{"cache": 1}`; and references
            that it changes are states if they hold floats and their sizes are known.
        image_inputs: Inputs that take images: `{"x": "rgb"}` ("bgr", "gray", or "gray16" for half precision), or
            with what becomes of the numbers 0 to 255:
            `{"x": {"color": "rgb", "scale": 1 / 128, "bias": [-1, -1, -1]}}`.
        image_outputs: Results that are images, of numbers from 0 to 255: `{"y": "rgb"}`.
        input_types, output_types: Element types of inputs and results of floats, which otherwise have the
            model's: `{"x": "fp16"}`, or "fp16" for all. Half precision needs iOS 16.
        enumerated_shapes: Inputs that take a few shapes, the first the default:
            `{"x": [(1, 3, 224, 224), (1, 3, 384, 384)]}`.
        class_labels: Makes a classifier: the labels of the classes, or a file with one a line.
        predicted_feature_name: The name of the result that is the label.
        predicted_probabilities_output: The result that has one probability for each class, if several may.
        passes: What runs on the program: a preset of coremltools' passes, or a list of them.
        skip: Passes to skip.
        options: Options of single passes: `{"add_fp16_cast.skip_ops": "auto"}`.
        author, license, version, short_description, user_defined_metadata: What the package says of itself.
        debug_dump: A folder for the graph as text at each stage.
        trace: A file (.sxt) for the steps of the conversion of one model, which `sardonyx view FILE.sxt -o page.html`
            shows.
        return_report: Return (program, report): seconds by stage, ops by type.

    Returns:
        The `sardonyx.coreml.Program`, as the package has it.

    Raises:
        sardonyx.Error: lists every equation or node that cannot be converted, with its line. Nothing is
            written then.
    """
    given = locals()
    if functions is not None and (source is not None or inputs is not None or input_params is not None):
        raise Error("to_coreml takes one source, or functions, and not both")
    if functions is not None and trace is not None:
        raise Error(_ONE_MODEL)
    alone = source if is_model(source) else (source, inputs, input_params)
    parts = [(model_name, alone)] if functions is None else _named(functions)
    traced = {name: given[name] for name in ("inputs_as_nchw", "outputs_as_nchw", "input_names", "output_names")}
    if all(is_model(part) for _, part in parts):
        _refuse({"inputs": inputs, "input_params": input_params, **traced}, "is for JAX functions, and this is a model")
    else:
        _refuse(
            {"input_shapes": input_shapes}, "is for ONNX models: a JAX function is traced with the shapes of its inputs"
        )
    wanted = _request(**{name: given[name] for name in inspect.signature(_checked).parameters})
    report = reports.Report(model_name)
    models, programs, pairs = _read(parts, dict(states or {}), functions is None, wanted["target"], report, traced)
    wanted["states"] = list(dict.fromkeys(pairs))
    if programs:
        wanted["user_defined"] += _source_lines([(name, part[0]) for name, part in parts if not is_model(part)])
    program = _written(output_path, report, lambda out: _converted(models, programs, functions, out, wanted))
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


def _converted(models, programs, functions, out: str, wanted) -> list[dict[str, Any]]:
    """Writes the package. Returns a report for each function."""
    if functions is not None:
        return _native.convert_functions(models, out, wanted)
    first = models[0][1]
    if programs:
        return [first.save_coreml(out, wanted, programs[0])]
    if isinstance(first, str):
        return [_native.convert_onnx_file(first, out, wanted)]
    if isinstance(first, bytes):
        return [_native.convert_onnx_bytes(first, "", out, wanted)]
    return [_native.convert_onnx_model(first, out, wanted)]


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


def _request(**given: Any) -> dict[str, Any]:
    """The options of the native conversion, from the keywords of to_coreml."""
    for keyword in ("compute_precision", "class_labels"):
        if type(given[keyword]).__module__.partition(".")[0] == "coremltools":
            raise WrongType(f"{keyword} is an object of coremltools", notes=[_OBJECTS])
    return _checked(**given)


def _checked(
    *,
    minimum_deployment_target,
    compute_precision,
    skip_ops,
    input_shapes,
    sizes,
    default_sizes,
    states,
    image_inputs,
    image_outputs,
    input_types,
    output_types,
    enumerated_shapes,
    class_labels,
    predicted_feature_name,
    predicted_probabilities_output,
    passes,
    skip,
    options,
    author,
    license,
    version,
    short_description,
    user_defined_metadata,
    debug_dump,
    trace,
) -> dict[str, Any]:
    if compute_precision is not None:
        one_of("compute_precision", compute_precision, ("fp16", "fp32"))
    if options is not None and not isinstance(options, Mapping):
        raise WrongType(f"options are a mapping of names to values, not {options!r}")
    for keyword, value in (
        ("author", author),
        ("license", license),
        ("version", version),
        ("short_description", short_description),
    ):
        if not isinstance(value, str):
            raise WrongType(f"{keyword} is a string, not {value!r}")
    return {
        "target": _target(minimum_deployment_target),
        "half": compute_precision == "fp16",
        "input_shapes": [f"{name}:{','.join(map(str, shape))}" for name, shape in (input_shapes or {}).items()],
        "sizes": [sizes] if isinstance(sizes, str) else list(_names("sizes", sizes)),
        "default_sizes": [(str(name), operator.index(size)) for name, size in (default_sizes or {}).items()],
        "image_inputs": [_image(name, how) for name, how in (image_inputs or {}).items()],
        "image_outputs": [_image(name, how) for name, how in (image_outputs or {}).items()],
        "input_types": _types(input_types),
        "output_types": _types(output_types),
        "enumerated_shapes": _enumerated(enumerated_shapes or {}),
        "classifier": _classifier(class_labels, predicted_feature_name, predicted_probabilities_output),
        "states": [(str(name), str(result)) for name, result in dict(states or {}).items()],
        "passes": [passes] if isinstance(passes, str) else list(_names("passes", passes)),
        "skip": list(_names("skip", skip)),
        "options": [_option(k, v) for k, v in (options or {}).items()] + _skipped(skip_ops),
        "dump": "" if debug_dump is None else os.fspath(debug_dump),
        "trace": "" if trace is None else os.fspath(trace),
        "author": author,
        "license": license,
        "version": version,
        "description": short_description,
        "user_defined": [(str(k), str(v)) for k, v in (user_defined_metadata or {}).items()],
    }


def _types(given: str | Mapping[str, str] | None) -> list[str]:
    """As the command takes them: "fp16" for all, "x=fp16" for one."""
    if given is None or isinstance(given, str):
        return [given] if given else []
    return [f"{name}={kind}" if name else kind for name, kind in given.items()]


def _skipped(ops: str | Sequence[str]) -> list[tuple[str, str]]:
    names = [ops] if isinstance(ops, str) else list(_names("skip_ops", ops))
    return [("add_fp16_cast.skip_ops", ",".join(names))] if names else []


def _enumerated(given: Mapping[str, Sequence[Sequence[int]]]) -> list[tuple[str, list[list[int]]]]:
    if not isinstance(given, Mapping):
        raise WrongType(f"enumerated_shapes are a mapping of inputs to lists of shapes, not {given!r}")
    found = []
    for name, shapes in given.items():
        try:
            found.append((str(name), [[operator.index(size) for size in shape] for shape in shapes]))
        except TypeError:
            raise WrongType(
                f"the enumerated shapes of '{name}' are a list of shapes of whole numbers, not {shapes!r}"
            ) from None
    return found


def _classifier(labels, name, result) -> dict[str, Any] | None:
    if labels is None:
        if name != "classLabel" or result is not None:
            raise Error("predicted_feature_name and predicted_probabilities_output need class_labels")
        return None
    for keyword, value in (("predicted_feature_name", name), ("predicted_probabilities_output", result or "")):
        if not isinstance(value, str):
            raise WrongType(f"{keyword} is a string, not {value!r}")
    found = {"file": None, "texts": [], "numbers": [], "label": name, "probabilities": result or ""}
    if isinstance(labels, str | os.PathLike):
        return found | {"file": os.fspath(labels)}
    listed: list[Any] = list(labels) if isinstance(labels, Iterable) else [None]
    if not listed:
        raise Error("the list of class labels is empty")
    if all(isinstance(one, str) for one in listed):
        return found | {"texts": listed}
    if all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in listed):
        numbers = [int(one) for one in listed]
        if all(-(2**63) <= n < 2**63 for n in numbers):
            return found | {"numbers": numbers}
    raise WrongType(f"class_labels are strings, or numbers of 64 bits, or a file of them, not {labels!r:.200}")


def _image(name: str, how: str | Mapping[str, Any]) -> str:
    """As the command takes it: "x:rgb:0.0078125:-1.0,-1.0,-1.0"."""
    if isinstance(how, str):
        return f"{name}:{how}"
    if not isinstance(how, Mapping) or not set(how) <= {"color", "scale", "bias"} or "color" not in how:
        raise WrongType(f'an image input is described by its color or by {{"color", "scale", "bias"}}, not by {how!r}')
    bias = how.get("bias", ())
    bias = bias if isinstance(bias, Sequence) else [bias] * (1 if how["color"] == "gray" else 3)
    added = ",".join(repr(float(b)) for b in bias)
    return f"{name}:{how['color']}:{float(how.get('scale', 1))!r}" + (f":{added}" if added else "")


def _target(target: Any) -> str:
    """A name, or an AvailableTarget of coremltools."""
    name = target if isinstance(target, str) else getattr(target, "name", None)
    if not isinstance(name, str):
        raise WrongType(f'minimum_deployment_target is a name such as "iOS17", not {target!r}')
    return name


def _written(output_path, report: reports.Report, write: Callable[[str], list[dict[str, Any]]]) -> Program:
    with contextlib.ExitStack() as stack:
        if output_path is None:
            path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "model.mlpackage")
        else:
            report.path = path = os.fspath(output_path)
        done = write(path)
        program = load(path, mmap=output_path is not None)
    for one in done:
        _warn_of(one)
        _add_stages(report, one["stages"])
    if report.equations == 0:
        report.before = {"nodes": sum(one["nodes"] for one in done)}
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
            'wants an end; state yours, as "T <= 512"'
        )
