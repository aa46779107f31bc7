"""onnxslim's `slim`: change `from onnxslim import slim` to `from sardonyx.compat.onnxslim import slim`."""

import inspect
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx._error import Error
from sardonyx._require import require, unknown_keyword
from sardonyx.compat._models import agree, all_passes, load, optimized, save, skipped

__all__ = ["slim"]


def slim(
    model: Any,
    output_model: str | os.PathLike | None = None,
    *,
    model_check: bool = False,
    input_shapes: Sequence[str] | str | None = None,
    inputs: Sequence[str] | str | None = None,
    outputs: Sequence[str] | str | None = None,
    no_shape_infer: bool = False,
    skip_optimizations: Sequence[str] | None = None,
    dtype: str | None = None,
    skip_fusion_patterns: Sequence[str] | None = None,
    size_threshold: int | None = None,
    save_as_external_data: bool = False,
    model_check_inputs: Sequence[str] | None = None,
    verbose: bool = False,
    **others: Any,
) -> Any:
    """`onnxslim.slim`, by `sardonyx.optimize`: change the import and keep the call.

    Args:
        model: An `onnx.ModelProto`, or the path of one.
        output_model: Where to write the result. None returns it.
        model_check: Compare the result with the model on random inputs; None is returned where they differ.
        input_shapes: "NAME:1,3,224,224", each.
        inputs, outputs: Keep only what lies between these values: "NAME" or "NAME:fp32".
        skip_optimizations, skip_fusion_patterns: Names of onnxslim's optimizations and patterns, or of passes
            of Sardonyx.
        dtype: "fp16" computes in half precision but for what that would make wrong; others are refused.
        save_as_external_data: Write weights to a file beside `output_model`.
        model_check_inputs: "NAME:1,3" or "NAME:file.npy" for `model_check`.
        no_shape_infer, verbose: Taken, without effect.
        size_threshold: Taken, without effect: folding here adds 1 % to a file at most.

    Returns:
        The `onnx.ModelProto`, or None where `output_model` is given or the results differ.

    Raises:
        sardonyx.Error: damaged models, and keywords that ask for what Sardonyx does not do.
    """
    wanted = {
        "dtype": None if dtype == "fp16" else dtype,
        **{k: v for k, v in others.items() if k in ("inspect", "dump_to_disk")},
    }
    if unknown := [k for k in others if k not in ("inspect", "dump_to_disk")]:
        raise unknown_keyword("compat.onnxslim.slim", unknown[0], [*inspect.signature(slim).parameters])
    for name, value in wanted.items():
        if value:
            help_ = (
                "convert the model before"
                if name == "dtype"
                else "the command `sardonyx info` shows what a model holds"
            )
            raise Error(f"slim has no counterpart of onnxslim’s {name}", "unsupported", [f"help: {help_}"])
    proto, folder = load(model)
    if inputs or outputs:
        proto = _between(proto, _names(inputs), _names(outputs))
    skip_optimizations = list(skip_optimizations or ())
    skip = skipped([*(o for o in skip_optimizations if o != "graph_fusion"), *(skip_fusion_patterns or ())])
    if "graph_fusion" in skip_optimizations:
        skip += [name for name in all_passes() if name.startswith("fuse_")]
    after = optimized(
        proto,
        folder,
        skip=list(dict.fromkeys(skip)),
        input_shapes=_shapes(input_shapes) or None,
        precision="f16" if dtype == "fp16" else None,
    )
    if model_check:
        shapes, data = {}, {}
        for entry in model_check_inputs or ():
            name, _, text = entry.rpartition(":")
            if text.endswith((".npy", ".npz")):
                data[name] = np.load(text)
            else:
                shapes[name] = [int(n) for n in text.split(",")]
        bounds = (1e-2, 1e-2) if dtype == "fp16" else (1e-3, 1e-4)
        if not agree(proto, after, 1, shapes, data, "random", *bounds):
            return None
    if output_model is None:
        return after
    save(after, output_model, save_as_external_data)
    return None


def _shapes(entries: Sequence[str] | str | None) -> dict[str, list[int | str]]:
    shapes = {}
    for entry in [entries] if isinstance(entries, str) else entries or ():
        name, colon, text = entry.rpartition(":")
        if not colon:
            raise Error(f"an input's shape is written NAME:1,3,224,224, found {entry!r}", "invalid_argument")
        shapes[name] = [int(n) if n.lstrip("-").isdigit() else n for n in text.split(",")]
    return shapes


def _names(entries: Sequence[str] | str | None) -> list[str]:
    names = []
    for entry in [entries] if isinstance(entries, str) else entries or ():
        name, _, dtype = entry.rpartition(":")
        names.append(name if dtype in ("fp16", "fp32", "int32") and name else entry)
    return names


def _between(proto, inputs: list[str], outputs: list[str]):
    onnx = require("onnx", "onnx")
    held = {t.name for t in proto.graph.initializer}
    inputs = inputs or [i.name for i in proto.graph.input if i.name not in held]
    outputs = outputs or [o.name for o in proto.graph.output]
    try:
        inferred = onnx.shape_inference.infer_shapes(proto)
        return onnx.utils.Extractor(inferred).extract_model(inputs, outputs)
    except Exception as e:
        raise Error(
            f"cannot cut the model between {', '.join(inputs)} and {', '.join(outputs)}: {e}", "invalid_argument"
        ) from None
