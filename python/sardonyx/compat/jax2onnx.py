"""jax2onnx's functions: change `from jax2onnx import ...` to `from sardonyx.compat.jax2onnx import ...`."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from sardonyx import _convert
from sardonyx._dispatch import compare
from sardonyx._require import one_of, unknown_keyword
from sardonyx._trace.functions import onnx_function

__all__ = ["allclose", "onnx_function", "to_onnx"]


def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    opset: int | None = None,
    *,
    record_primitive_calls_file: str | os.PathLike | None = None,
    export_mode: Literal["standard", "web"] = "standard",
    normalization_mode: Literal["auto", "prefer_native", "force_decomposed"] = "auto",
    stacktrace_metadata: Literal["off", "line", "full"] | bool | None = None,
    **options: Any,
) -> Any:
    """`jax2onnx.to_onnx`, by `sardonyx.to_onnx`, whose other keywords are `options`.

    Args:
        fn, inputs, input_params, model_name, opset: As of `sardonyx.to_onnx`.
        record_primitive_calls_file: File that lists the program's equations, as text.
        export_mode: "web" always writes a single file, and raises above 2 GiB.
        normalization_mode: How layer and root-mean-square normalizations are written: "prefer_native" as
            ONNX's own operators, "force_decomposed" as the program's own arithmetic, "auto" as the pipeline
            decides (the default pipeline uses ONNX's operators).
        stacktrace_metadata: The name here for `provenance`; takes precedence.
    """
    one_of("export_mode", export_mode, ("standard", "web"))
    one_of("normalization_mode", normalization_mode, ("auto", "prefer_native", "force_decomposed"))
    known = inspect.signature(_convert.to_onnx)
    for name in options.keys() - known.parameters.keys():
        raise unknown_keyword("compat.jax2onnx.to_onnx", name, list(known.parameters))
    if stacktrace_metadata is not None:
        options["provenance"] = stacktrace_metadata
    own = _convert.Jax2onnx(normalization_mode, export_mode == "web", record_primitive_calls_file)
    return _convert.to_onnx(fn, inputs, input_params, model_name, opset, _jax2onnx=own, **options)


def allclose(
    fn: Callable[..., Any],
    onnx_model_path: Any,
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    **options: Any,
) -> tuple[bool, str]:
    """`jax2onnx.allclose`, by `sardonyx.compare`, whose other keywords are `options`: (whether they agree, how they
    differ)."""
    same, text = compare(fn, onnx_model_path, inputs, input_params, rtol=rtol, atol=atol, **options)
    return same, text
