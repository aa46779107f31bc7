"""StableHLO modules: what `jax.export` and other systems save, to ONNX."""

import os
import re
from collections.abc import Sequence
from typing import Any, Literal

from sardonyx import _convert
from sardonyx import _sardonyx as native
from sardonyx import report as reports
from sardonyx._error import Error
from sardonyx._require import known_keywords, one_of
from sardonyx._values import precision_of

_SUFFIXES = (".mlir", ".mlirbc", ".stablehlo")
# How a module begins as text, behind comments; and the first bytes of bytecode.
_TEXT = re.compile(rb'(?:\s|//[^\n]*\n)*(?:module\b|func\.func\b|"builtin\.module"|#\w)')
_BYTECODE = b"ML\xefR"


def is_module(source: Any) -> bool:
    """Whether it is a `jax.export.Exported`, the path of a StableHLO module, or the bytes of one."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source).lower().endswith(_SUFFIXES)
    if isinstance(source, bytes | bytearray | memoryview):
        start = bytes(source[:4096])
        # What Exported.serialize() returns holds bytecode behind a header. ONNX files begin with a field.
        return _TEXT.match(start) is not None or (_BYTECODE in start and not start.startswith(b"\x08"))
    return hasattr(source, "mlir_module_serialized")


@known_keywords
def to_onnx(
    module: Any,
    output_path: str | os.PathLike | None = None,
    *,
    model_name: str = "jax_model",
    opset: int | None = None,
    target: str | None = None,
    passes: str | Sequence[str] = "onnx",
    precision: str | None = None,
    strict: bool = False,
    provenance: Literal["off", "line", "full"] | bool = "line",
    return_mode: Literal["proto", "ir", "file"] | None = None,
):
    """An ONNX model for a module that `is_module`; the options are those of `sardonyx.to_onnx`."""
    if return_mode is None:
        return_mode = "proto" if output_path is None else "file"
    one_of("return_mode", return_mode, ("proto", "ir", "file"))
    if isinstance(provenance, bool):
        provenance = "line" if provenance else "off"
    target, opset = _convert._target(target, opset)
    path = _convert._output_path(output_path, return_mode)
    if path is not None:
        native.require_output_name(path)
    wanted_passes, pass_options = _convert._passes(passes)
    if precision is not None:
        pass_options = [*pass_options, ("precision", precision_of(precision))]
    report = reports.Report(model_name)
    with _convert._one_error("reading the module"):
        program = native.read_stablehlo(_source_of(module))
    model = _convert._lowered(
        report,
        program,
        opset=opset,
        passes=wanted_passes,
        pass_options=pass_options,
        strict=strict,
        provenance=provenance,
        target=target,
    )
    return _convert._written(report, model, return_mode, path, one_file=False)


def _source_of(module: Any) -> str | bytes:
    if isinstance(module, str | os.PathLike):
        return os.fspath(module)
    if isinstance(module, bytes | bytearray | memoryview):
        return bytes(module)
    if not hasattr(module, "mlir_module_serialized"):
        raise Error(f"a StableHLO module was expected, found a {type(module).__name__}")
    return bytes(module.mlir_module_serialized)
