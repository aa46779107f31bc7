"""`sardonyx.coreml.from_onnx` and `sardonyx.to_coreml`: thin fronts of the native conversion to Core ML."""

from __future__ import annotations

import inspect
import operator
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from sardonyx import _coreml_objects as _objects
from sardonyx._error import Error, WrongType
from sardonyx._optimize import _bytes_of, _names, _option
from sardonyx._require import known_keywords, one_of, warn
from sardonyx._sardonyx import coreml as _native

# The opset that programs are lowered to on the way to Core ML.
_OPSET = 23
# The specification version of iOS 18.
_FIRST_WITH_STATES = 9


@known_keywords
def from_onnx(
    model: Any = None,
    output_path: str | os.PathLike | None = None,
    *,
    functions: Mapping[str, Any] | None = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    minimum_deployment_target: Any = "iOS17",
    compute_precision: Any = "fp16",
    skip_ops: str | Sequence[str] = (),
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    sizes: Sequence[str] = (),
    states: Mapping[Any, str] | None = None,
    default_sizes: Mapping[str, int] | None = None,
    image_inputs: Mapping[str, str | Mapping[str, Any]] | None = None,
    image_outputs: Mapping[str, str] | None = None,
    input_types: str | Mapping[str, str] | None = None,
    output_types: str | Mapping[str, str] | None = None,
    enumerated_shapes: Mapping[str, Sequence[Sequence[int]]] | None = None,
    class_labels: Any = None,
    predicted_feature_name: str = "classLabel",
    predicted_probabilities_output: str | None = None,
    passes: str | Sequence[str] = "coreml",
    skip: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    author: str = "",
    license: str = "",
    version: str = "",
    short_description: str = "",
    user_defined_metadata: Mapping[str, str] | None = None,
    debug_dump: str | os.PathLike | None = None,
    trace: str | os.PathLike | None = None,
):
    """Converts an ONNX model to a Core ML program (.mlpackage), on any system.

    Args:
        model: A path, an `onnx.ModelProto`, its bytes, a `sardonyx.ir.Model`, an `onnx_ir.Model`, or the
            `ONNXProgram` that `torch.onnx.export` returns.
        functions: Several models instead, which become functions of one package (iOS 18) and share equal
            weights: `{"prefill": "prefill.onnx", "decode": "decode.onnx"}`. The first is the default. Keywords
            about single inputs go to the functions that have such an input.
        output_path: The package to write (.mlpackage), or a bare model file (.mlmodel). Weights stream from
            file to file.
        inputs, outputs: coremltools' `TensorType` and `ImageType` objects by name, with `RangeDim` and
            `EnumeratedShapes` in their shapes, in place of the keywords below that say the same.
        minimum_deployment_target: "iOS15" to "iOS18", "iOS26", a system of the same years ("macOS14"), or a
            `coremltools.target`.
        compute_precision: "fp16" casts ops that exist in half precision, as coremltools does; "fp32" keeps
            single precision. Or a `coremltools.precision`.
        skip_ops: Names of ops that stay in single precision, or "auto": those that overflow or vanish in half
            precision, judged by bounds and by runs on random inputs. A warning lists them.
        input_shapes: New shapes of inputs: `{"x": (1, 3, 224, 224)}`. A string is a named size; sizes that
            stay open become flexible shapes. A name in place of a number of the model opens that size, if all
            operators can take another one.
        sizes: What holds for named sizes: `["T <= 512"]`. It bounds the flexible shapes.
        default_sizes: What named sizes are by default: `{"T": 128}`. Others are at the low end of their range.
        states: Inputs that become states (iOS 18), each with the result that it holds after a run:
            `{"past_keys": "present_keys"}`. A state stays on the device between runs; its elements are half
            precision.
        image_inputs: Inputs that take images: `{"x": "rgb"}` ("bgr", "gray", or "gray16" for half precision), or
            with what becomes of the numbers 0 to 255:
            `{"x": {"color": "rgb", "scale": 1 / 128, "bias": [-1, -1, -1]}}`.
        image_outputs: Results that are images, of numbers from 0 to 255: `{"y": "rgb"}`.
        input_types, output_types: Element types of inputs and results of floats, which otherwise have the
            model's: `{"x": "fp16"}`, or "fp16" for all. Half precision needs iOS 16.
        enumerated_shapes: Inputs that take a few shapes, the first the default:
            `{"x": [(1, 3, 224, 224), (1, 3, 384, 384)]}`.
        class_labels: Makes a classifier: the labels of the classes, a file with one a line, or a
            `coremltools.ClassifierConfig`.
        predicted_feature_name: The name of the result that is the label.
        predicted_probabilities_output: The result that has one probability for each class, if several may.
        passes: What runs on the program: a preset (`sardonyx passes coreml` lists this one), or a list of passes.
        skip: Passes to skip.
        options: Options of single passes: `{"add_fp16_cast.skip_ops": "auto"}`.
        author, license, version, short_description, user_defined_metadata: What the package says of itself.
        debug_dump: A folder for the graph as text at each stage.
        trace: A file (.sxt) for the steps of the conversion, which `sardonyx view FILE.sxt -o page.html`
            shows.

    Returns:
        The `sardonyx.coreml.Program`, as the package has it.

    Raises:
        sardonyx.Error: lists every node that cannot be converted. Nothing is written then.
    """
    interface = _objects.Interface()
    interface.add_inputs(inputs)
    interface.add_outputs(outputs)
    wanted = _request(
        interface,
        minimum_deployment_target=minimum_deployment_target,
        compute_precision=compute_precision,
        skip_ops=skip_ops,
        input_shapes=input_shapes,
        sizes=sizes,
        states=states,
        default_sizes=default_sizes,
        image_inputs=image_inputs,
        image_outputs=image_outputs,
        input_types=input_types,
        output_types=output_types,
        enumerated_shapes=enumerated_shapes,
        class_labels=class_labels,
        predicted_feature_name=predicted_feature_name,
        predicted_probabilities_output=predicted_probabilities_output,
        passes=passes,
        skip=skip,
        options=options,
        author=author,
        license=license,
        version=version,
        short_description=short_description,
        user_defined_metadata=user_defined_metadata,
        debug_dump=debug_dump,
        trace=trace,
    )
    if functions is not None:
        if model is not None:
            raise Error("from_onnx takes a model, or functions, and not both")
        parts = [(name, _source(part)) for name, part in _named(functions, "models")]
        return _written(output_path, lambda out: _native.convert_functions(parts, out, wanted))
    source = _source(model)
    if isinstance(source, str):
        return _written(output_path, lambda out: [_native.convert_onnx_file(source, out, wanted)])
    return _written(output_path, lambda out: [_native.convert_onnx_bytes(source, "", out, wanted)])


def _source(model: Any) -> str | bytes:
    """The path or the bytes of an ONNX model."""
    return os.fspath(model) if isinstance(model, str | os.PathLike) else _bytes_of(model)[0]


def _named(functions: Any, of: str) -> list[tuple[str, Any]]:
    if not isinstance(functions, Mapping) or not all(isinstance(name, str) for name in functions):
        raise WrongType(f"functions are a mapping of names to {of}, not {functions!r:.200}")
    return list(functions.items())


@known_keywords
def to_coreml(
    fn: Callable[..., Any] | None = None,
    inputs: Sequence[Any] | None = None,
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    *,
    functions: Mapping[str, Sequence[Any]] | None = None,
    output_path: str | os.PathLike | None = None,
    minimum_deployment_target: Any = "iOS17",
    compute_precision: Any = "fp16",
    skip_ops: str | Sequence[str] = (),
    outputs: Sequence[Any] = (),
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
    input_names: Sequence[str] | Literal["positional"] | None = None,
    output_names: Sequence[str] | Literal["positional"] | None = None,
    states: Mapping[Any, str | int] | None = None,
    default_sizes: Mapping[str, int] | None = None,
    image_inputs: Mapping[str, str | Mapping[str, Any]] | None = None,
    image_outputs: Mapping[str, str] | None = None,
    input_types: str | Mapping[str, str] | None = None,
    output_types: str | Mapping[str, str] | None = None,
    enumerated_shapes: Mapping[str, Sequence[Sequence[int]]] | None = None,
    class_labels: Any = None,
    predicted_feature_name: str = "classLabel",
    predicted_probabilities_output: str | None = None,
    passes: str | Sequence[str] = "coreml",
    skip: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    author: str = "",
    license: str = "",
    version: str = "",
    short_description: str = "",
    user_defined_metadata: Mapping[str, str] | None = None,
    debug_dump: str | os.PathLike | None = None,
    trace: str | os.PathLike | None = None,
):
    """Converts a JAX function to a Core ML program (.mlpackage), on any system.

    `fn`, `inputs`, `input_params` and the names are as of `sardonyx.to_onnx`; everything else is as of
    `sardonyx.coreml.from_onnx`. `functions` are several functions of one package, each with its inputs:
    `{"prefill": (prefill, [(1, "T <= 512")]), "decode": (decode, [(1, 1)])}`. Names in shapes become flexible
    shapes of the package, with the bounds that `"T <= 512"` states. `states` may also name a result by its
    position: `{"cache": 1}`. References that the function changes are states from iOS 18 on, if they hold
    floats and their sizes are known.

    Returns:
        The `sardonyx.coreml.Program`, as the package has it.

    Raises:
        sardonyx.Error: lists every equation or node that cannot be converted, with its line. Nothing is
            written then.
    """
    if functions is not None and (fn is not None or inputs is not None or input_params is not None):
        raise Error("to_coreml takes a function and its inputs, or functions, and not both")
    given: list[tuple[str, Any]] = [("main", (fn, inputs, input_params))]
    parts = given if functions is None else _named(functions, "functions and inputs")
    interface = _objects.Interface()
    parts = [(name, _with_shapes(part, interface)) for name, part in parts]
    interface.add_outputs(outputs)
    wanted = _request(
        interface,
        minimum_deployment_target=minimum_deployment_target,
        compute_precision=compute_precision,
        skip_ops=skip_ops,
        input_shapes=None,
        sizes=(),
        states=None,
        default_sizes=default_sizes,
        image_inputs=image_inputs,
        image_outputs=image_outputs,
        input_types=input_types,
        output_types=output_types,
        enumerated_shapes=enumerated_shapes,
        class_labels=class_labels,
        predicted_feature_name=predicted_feature_name,
        predicted_probabilities_output=predicted_probabilities_output,
        passes=passes,
        skip=skip,
        options=options,
        author=author,
        license=license,
        version=version,
        short_description=short_description,
        user_defined_metadata=user_defined_metadata,
        debug_dump=debug_dump,
        trace=trace,
    )
    names = {
        "inputs_as_nchw": inputs_as_nchw,
        "outputs_as_nchw": outputs_as_nchw,
        "input_names": input_names,
        "output_names": output_names,
    }
    named = _objects.states(states)
    models, programs, pairs = [], [], []
    for name, part in parts:
        if not isinstance(part, Sequence) or not 2 <= len(part) <= 3:
            raise WrongType(f"the function '{name}' is given as (function, inputs), not as {part!r:.200}")
        model, program, references = _traced(model_name if functions is None else name, *part, **names)
        models.append((name, model))
        programs.append(program)
        mentioned = named if functions is None else _of_results(named, references.results)
        pairs += _states(mentioned, references, wanted["target"])
    if unknown := set(named) - {name for name, _ in pairs}:
        raise Error(f"no function has the results of the states {', '.join(sorted(unknown))}")
    wanted["states"] = list(dict.fromkeys(pairs))
    wanted["user_defined"] += _source_lines([(name, part[0]) for name, part in parts])
    if functions is None:
        return _written(output_path, lambda out: [models[0][1].save_coreml(out, wanted, programs[0])])
    return _written(output_path, lambda out: _native.convert_functions(models, out, wanted))


def _with_shapes(part: Any, interface: _objects.Interface) -> Any:
    """(function, inputs, ...) with shapes in place of coremltools' objects."""
    if not isinstance(part, Sequence) or len(part) < 2:
        return part
    return (part[0], _objects.jax_inputs(part[1], interface), *part[2:])


def _traced(name, fn, inputs, input_params=None, **names):
    """A JAX function as a native ONNX model, the program that it was lowered from, and the references that it takes."""
    from sardonyx import _convert
    from sardonyx import report as reports

    if not callable(fn):
        raise Error(f"fn must be callable, found {type(fn).__name__}")
    report = reports.Report(name)
    program, spec, lowerings = _convert._read_program(report, fn, inputs, input_params, **names)
    return _convert._lowered(report, program, opset=_OPSET, lowerings=lowerings), program, spec.state


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


# The keywords that coremltools' objects stand for, too.
_OF_OBJECTS = (
    "input_shapes",
    "sizes",
    "default_sizes",
    "enumerated_shapes",
    "image_inputs",
    "image_outputs",
    "input_types",
    "output_types",
)


def _request(interface: _objects.Interface, **given: Any) -> dict[str, Any]:
    """The options of the native conversion, from the keywords of from_onnx."""
    if _objects.is_a(given["class_labels"], "ClassifierConfig"):
        given |= _objects.classifier(given["class_labels"])
    given |= _objects.joined({name: given[name] for name in _OF_OBJECTS}, interface.keywords())
    given["compute_precision"] = _objects.precision(given["compute_precision"])
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
        "states": [(name, str(result)) for name, result in _objects.states(states).items()],
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


def _written(output_path, write: Callable[[str], list[dict[str, Any]]]):
    from sardonyx import coreml

    if output_path is not None:
        path = os.fspath(output_path)
        _warn(write(path))
        return coreml.load(path)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.mlpackage")
        _warn(write(path))
        return coreml.load(path, mmap=False)


def _warn(reports: Sequence[dict[str, Any]]) -> None:
    for report in reports:
        _warn_of(report)


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
