"""`sardonyx.coreml.from_onnx` and `sardonyx.to_coreml`: thin fronts of the native conversion to Core ML."""

from __future__ import annotations

import inspect
import operator
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, Unpack

import numpy as np

from sardonyx import _coreml_objects as _objects
from sardonyx._coreml_options import DEFAULTS, DOC, FIELDS, CoremlOptions
from sardonyx._error import Error, WrongType
from sardonyx._optimize import _bytes_of, _names, _option
from sardonyx._require import known_keywords, one_of, unknown_keyword, warn
from sardonyx._sardonyx import coreml as _native
from sardonyx._values import Classifier, Image, Metadata

F = TypeVar("F", bound=Callable[..., Any])

# The opset that programs are lowered to on the way to Core ML.
_OPSET = 23
# The specification version of iOS 18.
_FIRST_WITH_STATES = 9
_ONE_MODEL = "trace takes the steps of one model, and functions are several"


def _with_options(fn: F) -> F:
    """`fn` with the table of keywords in its documentation, which answers keywords that it does not have."""
    fn.__doc__ = (fn.__doc__ or "").replace("        **options:\n", DOC)
    return known_keywords(fn, DEFAULTS)


@_with_options
def from_onnx(
    model: Any = None,
    output_path: str | os.PathLike | None = None,
    *,
    functions: Mapping[str, Any] | None = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    trace: str | os.PathLike | None = None,
    **options: Unpack[CoremlOptions],
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
        trace: A file (.sxt) for the steps of the conversion of one model, which `sardonyx view FILE.sxt -o page.html`
            shows.
        **options:

    Returns:
        The `sardonyx.coreml.Program`, as the package has it.

    Raises:
        sardonyx.Error: lists every node that cannot be converted. Nothing is written then.
    """
    interface = _objects.Interface()
    interface.add_inputs(inputs)
    interface.add_outputs(outputs)
    wanted = _request(interface, options, trace)
    if functions is not None:
        if model is not None:
            raise Error("from_onnx takes a model, or functions, and not both")
        if trace is not None:
            raise Error(_ONE_MODEL)
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


@_with_options
def to_coreml(
    fn: Callable[..., Any] | None = None,
    inputs: Sequence[Any] | None = None,
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    *,
    functions: Mapping[str, Sequence[Any]] | None = None,
    output_path: str | os.PathLike | None = None,
    outputs: Sequence[Any] = (),
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
    input_names: Sequence[str] | Literal["positional"] | None = None,
    output_names: Sequence[str] | Literal["positional"] | None = None,
    trace: str | os.PathLike | None = None,
    **options: Unpack[CoremlOptions],
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
    if functions is not None and trace is not None:
        raise Error(_ONE_MODEL)
    given: list[tuple[str, Any]] = [("main", (fn, inputs, input_params))]
    parts = given if functions is None else _named(functions, "functions and inputs")
    interface = _objects.Interface()
    parts = [(name, _with_shapes(part, interface)) for name, part in parts]
    interface.add_outputs(outputs)
    for name in ("input_shapes", "sizes"):
        if name in options:
            raise unknown_keyword("to_coreml", name, DEFAULTS)
    named = _objects.states(options.pop("states", None))
    wanted = _request(interface, options, trace)
    names = {
        "inputs_as_nchw": inputs_as_nchw,
        "outputs_as_nchw": outputs_as_nchw,
        "input_names": input_names,
        "output_names": output_names,
    }
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
    if wanted["provenance"]:
        wanted["metadata"][-1].extend(_source_lines([(name, part[0]) for name, part in parts]))
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


def _request(interface: _objects.Interface, options: Mapping[str, Any], trace: Any) -> dict[str, Any]:
    """The options of the native conversion, by the names of their fields."""
    given = {**DEFAULTS, **options}
    given |= _objects.joined({name: given[name] for name in _OF_OBJECTS}, interface.keywords())
    wanted = {field: _AS_NATIVE.get(keyword, _same)(given[keyword]) for field, keyword in FIELDS.items()}
    wanted["pass_options"] += _skipped(given["skip_ops"])
    return wanted | {"trace": "" if trace is None else os.fspath(trace)}


def _same(value: Any) -> Any:
    return value


def _precision(precision: Any) -> str:
    precision = _objects.precision(precision)
    if precision not in (None, "f16", "f32", "fp16", "fp32"):
        one_of("compute_precision", precision, ("f16", "f32"))
    return "f16" if precision in ("f16", "fp16") else "f32"


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


def _classifier(given: Any) -> tuple[str, list[str], list[int], str, str] | None:
    """A file, or texts and numbers; the names of the label and of the probabilities."""
    if given is None:
        return None
    if _objects.is_a(given, "ClassifierConfig"):
        given = _objects.classifier(given)
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


def _shapes(given: Mapping[str, Sequence[int | str]] | None) -> list[str]:
    return [f"{name}:{','.join(map(str, shape))}" for name, shape in (given or {}).items()]


def _target(target: Any) -> str:
    """A name, or an AvailableTarget of coremltools."""
    name = target if isinstance(target, str) else getattr(target, "name", None)
    if not isinstance(name, str):
        raise WrongType(f'minimum_deployment_target is a name such as "iOS17", not {target!r}')
    return name


_AS_NATIVE: dict[str, Callable[[Any], Any]] = {
    "minimum_deployment_target": _target,
    "compute_precision": _precision,
    "input_shapes": _shapes,
    "sizes": lambda given: [given] if isinstance(given, str) else list(_names("sizes", given)),
    "default_sizes": lambda given: [(str(name), operator.index(size)) for name, size in (given or {}).items()],
    "image_inputs": _images,
    "image_outputs": _images,
    "input_types": _types,
    "output_types": _types,
    "enumerated_shapes": lambda given: _enumerated(given or {}),
    "class_labels": _classifier,
    "states": lambda given: [(name, str(result)) for name, result in _objects.states(given).items()],
    "passes": lambda given: [given] if isinstance(given, str) else list(_names("passes", given)),
    "skip": lambda given: list(_names("skip", given)),
    "options": _options,
    "metadata": _metadata,
    "debug_dump": lambda given: "" if given is None else os.fspath(given),
}


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
