"""onnxsim's `simplify`: change `from onnxsim import simplify` to `from sardonyx.compat.onnxsim import simplify`."""

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx._error import Error
from sardonyx._require import require, unknown_keyword
from sardonyx.compat._models import agree, load, optimized, save, skipped

__all__ = ["simplify"]

# Keywords of onnxsim.simplify without a counterpart, with their defaults.
_ONLY_ONNXSIM = {
    "custom_lib": None,
    "extra_optimizers": None,
    "custom_rewriter": None,
    "function_rewrite_rules": None,
    "providers": None,
    "profile": None,
    "ort_profile": None,
    "merge_ort_profile": False,
    "range_opt": False,
    "check_hazards": False,
    "check_gradients": False,
}
# Keywords that ask for what always holds here, or that have no meaning here.
_ALWAYS_SO = {
    "dynamic_input_shape", "include_subgraph", "import_custom_schemas", "gemm_fusion_backend", "certify", "gradient_precision",
    "external_data_threshold",
}  # fmt: skip


def simplify(
    model: Any,
    check_n: int = 0,
    perform_optimization: bool = True,
    skip_fuse_bn: bool = False,
    overwrite_input_shapes: Mapping[str, Sequence[int]] | None = None,
    test_input_shapes: Mapping[str, Sequence[int]] | None = None,
    skipped_optimizers: Sequence[str] | None = None,
    skip_constant_folding: bool = False,
    skip_shape_inference: bool = False,
    input_data: Mapping[str, np.ndarray] | None = None,
    dynamic_input_shape: bool = False,
    custom_lib: str | None = None,
    include_subgraph: bool = False,
    unused_output: Sequence[str] | None = None,
    tensor_size_threshold: int | str = "1.5GB",
    mutable_initializer: bool = False,
    *,
    initializers_as_constants: bool = True,
    inline_functions: bool = False,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    target_opset_version: int | str | None = None,
    check_rtol: float = 1e-4,
    check_atol: float = 1e-5,
    input_fill: str = "random",
    output_path: str | os.PathLike | None = None,
    **others: Any,
) -> tuple[Any, bool]:
    """`onnxsim.simplify`, by `sardonyx.optimize`: change the import and keep the call.

    Args:
        model: An `onnx.ModelProto`, or the path of one.
        check_n: How often the result is compared with the model on random inputs, in onnxruntime (without it,
            by Sardonyx's evaluator).
        perform_optimization: False folds constants and removes dead nodes, and does nothing else.
        skip_fuse_bn: Leave batch normalizations beside convolutions.
        overwrite_input_shapes, input_shapes: Sizes to give to inputs, by name; -1 leaves a size as it is.
        test_input_shapes, input_data, input_fill: What `check_n` runs: sizes of dynamic inputs (1 where none
            is given), arrays, or "random", "ones", "zeros", "arange".
        skipped_optimizers: Names of onnxsim's optimizers, or of passes of Sardonyx.
        skip_constant_folding: Leave nodes whose operands are all constant.
        unused_output: Results to drop, by name.
        tensor_size_threshold: Taken, without effect: folding here adds 1 % to a file at most.
        mutable_initializer: Initializers that are also inputs stay inputs. False: they become constants.
        initializers_as_constants: False leaves all initializers as they are (no folding, no fusion into
            weights).
        inline_functions: Write out calls of model-local functions.
        target_opset_version: Convert the model to this opset first; "latest" for the newest.
        check_rtol, check_atol: As in `numpy.allclose`, for `check_n`.
        output_path: Also write the result there. Sardonyx writes weights beside it where the model has them
            beside itself.
        others: Keywords of onnxsim without a counterpart; anything but their default is an error.

    Returns:
        (the simplified `onnx.ModelProto`, whether all comparisons agreed; True without any).

    Raises:
        sardonyx.Error: damaged models, and keywords that ask for what Sardonyx does not do.
    """
    others |= {"custom_lib": custom_lib}
    for name, value in others.items():
        if name in _ALWAYS_SO or (name in _ONLY_ONNXSIM and value == _ONLY_ONNXSIM[name]):
            continue
        if name not in _ONLY_ONNXSIM:
            raise unknown_keyword("compat.onnxsim.simplify", name, [*inspect.signature(simplify).parameters])
        raise Error(
            f"simplify has no counterpart of onnxsim’s {name} (found {value!r})",
            "unsupported",
            ["help: sardonyx.optimize has options of its own"],
        )
    proto, folder = load(model)
    before = proto
    if unused_output or not mutable_initializer:
        proto = type(proto).FromString(proto.SerializeToString())
        _drop_outputs(proto, unused_output or ())
        if not mutable_initializer:
            _close_initializers(proto.graph)
    skip = skipped(skipped_optimizers or ())
    if skip_fuse_bn:
        skip.append("fuse_affine_into_conv")
    if skip_constant_folding or not initializers_as_constants:
        skip.append("fold_constants")
    if not initializers_as_constants:
        skip += [
            "fuse_affine_into_conv",
            "fuse_affine_into_products",
            "fuse_scale_into_columns",
            "fuse_batch_normalization",
        ]
    opset = target_opset_version
    if opset == "latest":
        opset = _newest_opset()
    after = optimized(
        proto,
        folder,
        passes="onnx" if perform_optimization else ["simplify_shapes", "fold_constants", "remove_dead_nodes"],
        skip=[s for s in dict.fromkeys(skip) if perform_optimization or s == "fold_constants"],
        input_shapes={**dict(overwrite_input_shapes or {}), **dict(input_shapes or {})} or None,
        opset=opset,
        inline=inline_functions,
    )
    ok = agree(before, after, check_n, test_input_shapes or {}, input_data or {}, input_fill, check_rtol, check_atol)
    if output_path is not None:
        save(after, output_path, False)
    return after, ok


def _newest_opset() -> int:
    onnx = require("onnx", "onnx")
    return onnx.defs.onnx_opset_version()


def _drop_outputs(proto, names: Sequence[str]) -> None:
    kept = [o for o in proto.graph.output if o.name not in set(names)]
    if missing := [n for n in names if n not in {o.name for o in proto.graph.output}]:
        raise Error(
            f"the model has no result '{missing[0]}'",
            "invalid_argument",
            [f"its results: {', '.join(o.name for o in proto.graph.output)}"],
        )
    if not kept:
        raise Error("unused_output names every result of the model", "invalid_argument")
    del proto.graph.output[:]
    proto.graph.output.extend(kept)


def _close_initializers(graph) -> None:
    """Removes inputs that are also initializers. Otherwise callers could override them; without the input
    they are constant."""
    names = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    kept = [i for i in graph.input if i.name not in names]
    if len(kept) < len(graph.input):
        del graph.input[:]
        graph.input.extend(kept)
