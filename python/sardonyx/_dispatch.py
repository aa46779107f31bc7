"""`sardonyx.convert` and `sardonyx.compare`: what is given decides who does the work."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sardonyx import _convert, _stablehlo
from sardonyx._check import with_jax as _check
from sardonyx._coreml import convert as _to_coreml
from sardonyx._error import Error
from sardonyx._models import inspect as _inspect
from sardonyx._models.comparison import Comparison
from sardonyx._models.optimize import optimize
from sardonyx._models.program import load
from sardonyx._models.sources import is_model, is_program
from sardonyx._require import known_keywords, one_of

_COREML = (".mlpackage", ".mlmodel")


def convert(
    source: Any,
    output: str | os.PathLike | None = None,
    *,
    to: Literal["onnx", "coreml"] | None = None,
    **options: Any,
) -> Any:
    """Converts a JAX function or a model to the format that `output` is named for.

    Args:
        source: A JAX function, with its `inputs` among the options; or a model: a path, an `onnx.ModelProto`,
            a `sardonyx.ir.Model`, a `sardonyx.coreml.Program`, or what else `optimize` takes; or a StableHLO
            module: what `jax.export.export` returns, a path (.mlir, .mlirbc, .stablehlo) or bytes.
        output: The file to write: .onnx, .mlpackage or .mlmodel. None returns the model alone.
        to: "onnx" or "coreml"; needed without `output`.
        options: Those of `to_coreml`, or of `to_onnx`. From ONNX to ONNX those of `optimize`, which runs no
            passes here unless it is given some: `opset=18` converts the operators.

    Returns:
        What `to_onnx`, `to_coreml` or `optimize` returns.

        >>> sardonyx.convert(f, "model.onnx", inputs=[("B", 3)])
        >>> sardonyx.convert("model.onnx", "model.mlpackage", precision="f32")
    """
    to = _format_of(output) if to is None and output is not None else to
    if to is None:
        raise Error("convert needs an output, or the format to convert to", notes=['help: to="onnx" or to="coreml"'])
    one_of("to", to, ("onnx", "coreml"))
    if is_program(source) or (isinstance(source, str | os.PathLike) and _is_package(source)):
        if to == "onnx":
            raise Error("Core ML programs are not converted to ONNX", "unsupported")
        if options or output is None:
            raise Error("the source is a Core ML program", notes=["help: sardonyx.coreml.optimize changes one"])
        program = source if is_program(source) else load(source)
        program.save(output)
        return program
    if _stablehlo.is_module(source):
        if to == "onnx":
            return _stablehlo.to_onnx(source, output, **options)
        source = _stablehlo.to_onnx(source, return_mode="ir")
    if to == "coreml":
        return _to_coreml.to_coreml(source, output_path=output, **options)
    if is_model(source):
        return optimize(source, output, **{"passes": "none", **options})
    if "inputs" not in options:
        raise Error("a function is converted with its inputs", notes=['help: inputs=[("B", 3)]'])
    return _convert.to_onnx(source, output_path=output, **options)


def _format_of(output: str | os.PathLike) -> Literal["onnx", "coreml"]:
    path = os.fspath(output)
    if _is_package(path):
        return "coreml"
    if path.endswith(".onnx"):
        return "onnx"
    raise Error(f"'{path}' does not name a format", notes=["expected .onnx, .mlpackage or .mlmodel, or to="])


def _is_package(path: str | os.PathLike) -> bool:
    return os.fspath(path).rstrip("/").endswith(_COREML)


@known_keywords
def compare(
    a: Any,
    b: Any,
    inputs: Sequence[Any] | None = None,
    input_params: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    numerics: Literal["exact", "rounds", "relaxed"] | None = None,
    target: str | None = None,
    enable_double_precision: bool = False,
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
) -> Comparison:
    """Whether two models compute the same: `assert sardonyx.compare(f, "model.onnx", [("B", 3)])`.

    Each is a JAX function or a model: a path (ONNX or Core ML), an `onnx.ModelProto`, bytes, a
    `sardonyx.ir.Model`, a `coreml.Program`, or what else `optimize` takes. Two models run on Sardonyx's evaluator,
    on the same random inputs. A function runs in JAX, and the model in onnxruntime as it does for users; if
    onnxruntime's own optimizations are to blame for a difference, the result says so. Core ML always runs on the
    evaluator.

    Args:
        a, b: What to compare.
        inputs: Of a function: one entry per argument, as for `to_onnx`. Shapes are filled with random numbers
            from a fixed seed, with 2 for a name; arrays are used as they are.
        input_params: Of a function: the values of keyword arguments.
        rtol, atol: Compare floats by |a - b| <= atol + rtol |a|. Default with a function: 1e-3 and 1e-5, and for Core
            ML in half precision a fiftieth of the largest element of each result. Integers and booleans must be
            equal.
        numerics: What counts as equal between models: "exact" (all bits), "rounds" (up to rounding: the default
            for ONNX), or "relaxed" (up to a thousandth: the default for Core ML). Without it, a fiftieth of the
            largest element of each result where only one of them computes in half precision.
        target: The runtime that must load the second model if it loads the first, such as "ort-1.23"; by
            default the newest.
        enable_double_precision, inputs_as_nchw, outputs_as_nchw: Of a function, as given to `to_onnx`.

    Returns:
        A `Comparison`: true where they compute the same. It prints what differs, and unpacks as (same, text).
    """
    of_functions = {
        "inputs": inputs,
        "input_params": input_params,
        "inputs_as_nchw": inputs_as_nchw,
        "outputs_as_nchw": outputs_as_nchw,
    }
    if is_model(a) and is_model(b):
        for name, value in of_functions.items():
            if value is not None:
                raise Error(f"{name} is for JAX functions, and these are two models")
        return _inspect.compare_models(a, b, numerics, rtol, atol, target)
    for name, text in (("numerics", numerics), ("target", target)):
        if text is not None:
            raise Error(f"{name} is for two models, and one is a function")
    for x in (a, b):
        if not is_model(x) and not callable(x):
            raise Error(f"models and functions can be compared, found {type(x).__name__}")
    if inputs is None:
        raise Error("a function is compared on its inputs", notes=["help: compare(f, model, [(5, 3)])"])
    double = enable_double_precision
    if is_model(a) or is_model(b):
        fn, model = (b, a) if is_model(a) else (a, b)
        layouts = {"inputs_as_nchw": inputs_as_nchw, "outputs_as_nchw": outputs_as_nchw}
        return _check.compare_with_jax(
            fn, model, inputs, input_params, rtol, atol, enable_double_precision=double, **layouts
        )
    return _check.compare_functions(a, b, inputs, input_params, rtol, atol, enable_double_precision=double)
