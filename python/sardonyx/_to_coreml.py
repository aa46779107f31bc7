"""`sardonyx.coreml.from_onnx` and `sardonyx.to_coreml`: thin fronts of the native conversion to Core ML."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from sardonyx._error import Error, WrongType
from sardonyx._optimize import _bytes_of, _names, _option
from sardonyx._require import one_of
from sardonyx._sardonyx import coreml as _native

# The opset that programs are lowered to on the way to Core ML.
_OPSET = 23
# The specification version of iOS 18.
_FIRST_WITH_STATES = 9


def from_onnx(
    model: Any,
    output_path: str | os.PathLike | None = None,
    *,
    minimum_deployment_target: Any = "iOS17",
    compute_precision: Literal["fp16", "fp32"] | None = "fp16",
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    sizes: Sequence[str] = (),
    states: Mapping[str, str] | None = None,
    image_inputs: Mapping[str, str | Mapping[str, Any]] | None = None,
    passes: str | Sequence[str] = "default",
    skip: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    author: str = "",
    license: str = "",
    version: str = "",
    short_description: str = "",
    user_defined_metadata: Mapping[str, str] | None = None,
    debug_dump: str | os.PathLike | None = None,
):
    """Converts an ONNX model to a Core ML program (.mlpackage), on any system.

    Args:
        model: A path, an `onnx.ModelProto`, its bytes, a `sardonyx.ir.Model`, an `onnx_ir.Model`, or the
            `ONNXProgram` that `torch.onnx.export` returns.
        output_path: The package to write (.mlpackage), or a bare model file (.mlmodel). Weights stream from
            file to file.
        minimum_deployment_target: "iOS15" to "iOS18", a system of the same years ("macOS14"), or a
            `coremltools.target`.
        compute_precision: "fp16" casts ops that exist in half precision, as coremltools does; "fp32" keeps
            single precision.
        input_shapes: New shapes of inputs: `{"x": (1, 3, 224, 224)}`. A string is a named size; sizes that
            stay open become flexible shapes.
        sizes: What holds for named sizes: `["T <= 512"]`. It bounds the flexible shapes.
        states: Inputs that become states (iOS 18), each with the result that it holds after a run:
            `{"past_keys": "present_keys"}`. A state stays on the device between runs; its elements are half
            precision.
        image_inputs: Inputs that take images: `{"x": "rgb"}` ("bgr", "gray"), or with what becomes of the
            numbers 0 to 255: `{"x": {"color": "rgb", "scale": 1 / 128, "bias": [-1, -1, -1]}}`.
        passes: What runs on the program: a preset of coremltools' passes, or a list of them.
        skip: Passes to skip.
        options: Options of single passes: `{"add_fp16_cast.skip_ops": "auto"}`.
        author, license, version, short_description, user_defined_metadata: What the package says of itself.
        debug_dump: A folder for the graph as text at each stage.

    Returns:
        The `sardonyx.coreml.Program`, as the package has it.

    Raises:
        sardonyx.Error: lists every node that cannot be converted. Nothing is written then.
    """
    wanted = _request(
        minimum_deployment_target=minimum_deployment_target,
        compute_precision=compute_precision,
        input_shapes=input_shapes,
        sizes=sizes,
        states=states,
        image_inputs=image_inputs,
        passes=passes,
        skip=skip,
        options=options,
        author=author,
        license=license,
        version=version,
        short_description=short_description,
        user_defined_metadata=user_defined_metadata,
        debug_dump=debug_dump,
    )
    if isinstance(model, str | os.PathLike):
        return _written(output_path, lambda out: _native.convert_onnx_file(os.fspath(model), out, wanted))
    data, _ = _bytes_of(model)
    return _written(output_path, lambda out: _native.convert_onnx_bytes(data, "", out, wanted))


def to_coreml(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    *,
    output_path: str | os.PathLike | None = None,
    minimum_deployment_target: Any = "iOS17",
    compute_precision: Literal["fp16", "fp32"] | None = "fp16",
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
    input_names: Sequence[str] | Literal["positional"] | None = None,
    output_names: Sequence[str] | Literal["positional"] | None = None,
    states: Mapping[str, str | int] | None = None,
    image_inputs: Mapping[str, str | Mapping[str, Any]] | None = None,
    passes: str | Sequence[str] = "default",
    skip: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    author: str = "",
    license: str = "",
    version: str = "",
    short_description: str = "",
    user_defined_metadata: Mapping[str, str] | None = None,
    debug_dump: str | os.PathLike | None = None,
):
    """Converts a JAX function to a Core ML program (.mlpackage), on any system.

    `fn`, `inputs`, `input_params` and the names are as of `sardonyx.to_onnx`; everything else is as of
    `sardonyx.coreml.from_onnx`. Names in shapes become flexible shapes of the package, with the bounds that
    `"T <= 512"` states. `states` may also name a result by its position: `{"cache": 1}`. References that the
    function changes are states from iOS 18 on, if they hold floats and their sizes are known.

    Returns:
        The `sardonyx.coreml.Program`, as the package has it.

    Raises:
        sardonyx.Error: lists every equation or node that cannot be converted, with its line. Nothing is
            written then.
    """
    from sardonyx import _convert
    from sardonyx import report as reports

    if not callable(fn):
        raise Error(f"fn must be callable, found {type(fn).__name__}")
    wanted = _request(
        minimum_deployment_target=minimum_deployment_target,
        compute_precision=compute_precision,
        input_shapes=None,
        sizes=(),
        states=None,
        image_inputs=image_inputs,
        passes=passes,
        skip=skip,
        options=options,
        author=author,
        license=license,
        version=version,
        short_description=short_description,
        user_defined_metadata=user_defined_metadata,
        debug_dump=debug_dump,
    )
    report = reports.Report(model_name)
    program, spec, lowerings = _convert._read_program(
        report,
        fn,
        inputs,
        input_params,
        inputs_as_nchw=inputs_as_nchw,
        outputs_as_nchw=outputs_as_nchw,
        input_names=input_names,
        output_names=output_names,
    )
    model = _convert._lowered(report, program, opset=_OPSET, lowerings=lowerings)
    del program
    wanted["states"] = _states(states or {}, spec.state, wanted["target"])
    return _written(output_path, lambda out: model.save_coreml(out, wanted))


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


def _request(
    *,
    minimum_deployment_target,
    compute_precision,
    input_shapes,
    sizes,
    states,
    image_inputs,
    passes,
    skip,
    options,
    author,
    license,
    version,
    short_description,
    user_defined_metadata,
    debug_dump,
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
        "images": [_image(name, how) for name, how in (image_inputs or {}).items()],
        "states": [(str(name), str(result)) for name, result in (states or {}).items()],
        "passes": [passes] if isinstance(passes, str) else list(_names("passes", passes)),
        "skip": list(_names("skip", skip)),
        "options": [_option(k, v) for k, v in (options or {}).items()],
        "dump": "" if debug_dump is None else os.fspath(debug_dump),
        "author": author,
        "license": license,
        "version": version,
        "description": short_description,
        "user_defined": [(str(k), str(v)) for k, v in (user_defined_metadata or {}).items()],
    }


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


def _written(output_path, write: Callable[[str], dict[str, Any]]):
    from sardonyx import coreml

    if output_path is not None:
        path = os.fspath(output_path)
        _warn(write(path))
        return coreml.load(path)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.mlpackage")
        _warn(write(path))
        return coreml.load(path, mmap=False)


def _warn(report: dict[str, Any]) -> None:
    for old, new in report["renamed"]:
        warnings.warn(f"'{old}' is called '{new}' in the Core ML model", stacklevel=4)
    if sizes := report["open_sizes"]:
        warnings.warn(
            f'sizes without an upper bound ({"; ".join(sizes)}): Core ML allocates and optimizes better with one, such as "T <= 512"',
            stacklevel=4,
        )
