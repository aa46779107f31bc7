"""`sardonyx.simplify` and `sardonyx.slim`: `optimize` under the names and keywords of onnxsim and onnxslim.

Keywords that change what the optimizer may do are translated; those that ask for something that it does not
have are refused by name, unless they are at their default. After the documentation of onnxsim 0.8 and
onnxslim 0.1.
"""

import inspect
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx._error import Error
from sardonyx._optimize import optimize_bytes, request
from sardonyx._require import require, unknown_keyword

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
# Names of their optimizers and patterns that users skip, and the corresponding passes here.
_SKIPS = {
    "fuse_bn_into_conv": ["fuse_affine_into_conv"],
    "fuse_add_bias_into_conv": ["fuse_affine_into_conv"],
    "fuse_pad_into_conv": ["fuse_pad"],
    "fuse_pad_into_pool": ["fuse_pad"],
    "fuse_matmul_add_bias_into_gemm": ["fuse_gemm"],
    "eliminate_common_subexpression": ["common_subexpression_elimination"],
    "eliminate_duplicate_initializer": ["common_subexpression_elimination"],
    "eliminate_deadend": ["remove_dead_nodes"],
    "eliminate_nop_cast": ["remove_redundant_casts"],
    "eliminate_shape_gather": ["simplify_shapes"],
    "eliminate_shape_op": ["simplify_shapes"],
    "FusionConvBN": ["fuse_affine_into_conv"],
    "FusionConvAdd": ["fuse_affine_into_conv"],
    "FusionConvMul": ["fuse_affine_into_conv"],
    "FusionConvTransposeAdd": ["fuse_affine_into_conv"],
    "FusionConvTransposeBN": ["fuse_affine_into_conv"],
    "FusionConvTransposeMul": ["fuse_affine_into_conv"],
    "FusionGemm": ["fuse_gemm"],
    "FusionGemmMul": ["fuse_affine_into_products"],
    "FusionGemmAdd": ["fuse_affine_into_products"],
    "FusionPadConv": ["fuse_pad"],
    "FusionReduce": ["fuse_reductions"],
    "EliminationReshape": ["merge_reshapes", "remove_identity_reshapes"],
    "EliminationTranspose": ["merge_views", "move_transposes"],
    "EliminationUnsqueeze": ["merge_reshapes"],
    "EliminationSlice": ["merge_consecutive"],
    "EliminationConcat": ["merge_consecutive"],
    "constant_folding": ["fold_constants"],
    "dead_node_elimination": ["remove_dead_nodes"],
    "subexpression_elimination": ["common_subexpression_elimination"],
    "weight_tying": ["common_subexpression_elimination"],
}


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
            raise unknown_keyword("simplify", name, [*inspect.signature(simplify).parameters])
        raise Error(
            f"simplify has no counterpart of onnxsim’s {name} (found {value!r})",
            "unsupported",
            ["help: sardonyx.optimize has options of its own"],
        )
    proto, folder = _load(model)
    before = proto
    if unused_output or not mutable_initializer:
        proto = type(proto).FromString(proto.SerializeToString())
        _drop_outputs(proto, unused_output or ())
        if not mutable_initializer:
            _close_initializers(proto.graph)
    skip = _skipped(skipped_optimizers or ())
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
    after = _optimized(
        proto,
        folder,
        passes="onnx" if perform_optimization else ["simplify_shapes", "fold_constants", "remove_dead_nodes"],
        skip=[s for s in dict.fromkeys(skip) if perform_optimization or s == "fold_constants"],
        input_shapes={**dict(overwrite_input_shapes or {}), **dict(input_shapes or {})} or None,
        opset=opset,
        inline=inline_functions,
    )
    ok = _agree(before, after, check_n, test_input_shapes or {}, input_data or {}, input_fill, check_rtol, check_atol)
    if output_path is not None:
        _save(after, output_path, False)
    return after, ok


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
        dtype: Refused, unless None.
        save_as_external_data: Write weights to a file beside `output_model`.
        model_check_inputs: "NAME:1,3" or "NAME:file.npy" for `model_check`.
        no_shape_infer, verbose: Taken, without effect.
        size_threshold: Taken, without effect: folding here adds 1 % to a file at most.

    Returns:
        The `onnx.ModelProto`, or None where `output_model` is given or the results differ.

    Raises:
        sardonyx.Error: damaged models, and keywords that ask for what Sardonyx does not do.
    """
    wanted = {"dtype": dtype, **{k: v for k, v in others.items() if k in ("inspect", "dump_to_disk")}}
    if unknown := [k for k in others if k not in ("inspect", "dump_to_disk")]:
        raise unknown_keyword("slim", unknown[0], [*inspect.signature(slim).parameters])
    for name, value in wanted.items():
        if value:
            help_ = (
                "convert the model before"
                if name == "dtype"
                else "the command `sardonyx info` shows what a model holds"
            )
            raise Error(f"slim has no counterpart of onnxslim’s {name}", "unsupported", [f"help: {help_}"])
    proto, folder = _load(model)
    if inputs or outputs:
        proto = _between(proto, _names(inputs), _names(outputs))
    skip_optimizations = list(skip_optimizations or ())
    skip = _skipped([*(o for o in skip_optimizations if o != "graph_fusion"), *(skip_fusion_patterns or ())])
    if "graph_fusion" in skip_optimizations:
        skip += [name for name in _all_passes() if name.startswith("fuse_")]
    after = _optimized(
        proto,
        folder,
        skip=list(dict.fromkeys(skip)),
        input_shapes=_shapes(input_shapes) or None,
    )
    if model_check:
        shapes, data = {}, {}
        for entry in model_check_inputs or ():
            name, _, text = entry.rpartition(":")
            if text.endswith((".npy", ".npz")):
                data[name] = np.load(text)
            else:
                shapes[name] = [int(n) for n in text.split(",")]
        if not _agree(proto, after, 1, shapes, data, "random", 1e-3, 1e-4):
            return None
    if output_model is None:
        return after
    _save(after, output_model, save_as_external_data)
    return None


def _load(model):
    """The message without its external weights, and the folder that holds them."""
    onnx = require("onnx", "onnx")
    if not isinstance(model, str | os.PathLike):
        return model, ""
    path = os.fspath(model)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as e:
        raise Error(f"cannot read {path}: {e.strerror or e}", "io") from None
    from google.protobuf.message import DecodeError

    try:
        return onnx.ModelProto.FromString(data), os.path.dirname(path) or "."
    except DecodeError:
        raise Error(f"{path} is no ONNX model", "invalid_argument") from None


def _optimized(proto, folder: str, **options):
    # Their callers read the types of inner values from value_info.
    data = optimize_bytes(proto.SerializeToString(), folder, request(declare_types=True, **options))
    return type(proto).FromString(data)


def _save(proto, path, beside: bool) -> None:
    onnx = require("onnx", "onnx")
    path = os.fspath(path)
    beside = beside or proto.ByteSize() >= 2**31 - 1
    if beside:  # onnx appends to a file that is there
        Path(f"{path}.data").unlink(missing_ok=True)
    onnx.save(proto, path, save_as_external_data=beside, location=f"{os.path.basename(path)}.data" if beside else None)


def _skipped(names: Sequence[str]) -> list[str]:
    known = set(_all_passes())
    skip = []
    for name in [names] if isinstance(names, str) else names:
        if name not in _SKIPS and name not in known:
            raise Error(
                f"nothing to skip is called {name!r}",
                notes=["help: `sardonyx passes` lists the passes; their names can be skipped as well"],
            )
        skip += _SKIPS.get(name, [name])
    return skip


def _all_passes() -> list[str]:
    from sardonyx import _sardonyx as native

    return [p["name"] for p in native.list_passes()]


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


def _agree(before, after, count, shapes, data, fill, rtol, atol) -> bool:
    if fill not in ("random", "ones", "zeros", "arange"):
        raise Error(f"input_fill is 'random', 'ones', 'zeros' or 'arange', found {fill!r}", "invalid_argument")
    if count <= 0:
        return True
    # The model before runs as it is written, which is what it means: onnxruntime's optimizations may break it.
    session_before, session_after = _session(before, optimized=False), _session(after)
    rng = np.random.default_rng(0)
    held = {t.name for t in before.graph.initializer}
    kept = {i.name for i in after.graph.input}
    names = [o.name for o in after.graph.output]
    for _ in range(count):
        feeds = {
            i.name: np.asarray(data[i.name]) if i.name in data else _filled(i, shapes.get(i.name), fill, rng)
            for i in before.graph.input
            if i.name not in held
        }
        expected = _results(before, session_before, feeds)
        feeds = {k: v for k, v in feeds.items() if k in kept}

        def compare(found, expected=expected):
            same = all(_is_close(expected[name], x, rtol, atol) for name, x in zip(names, found, strict=True))
            return same, ""

        found = _results(after, session_after, feeds)
        if not compare([found[name] for name in names])[0]:
            if session_after is not None and (fault := session_after.blamed(feeds, compare)):
                warnings.warn(f"the results differ: {fault}", stacklevel=3)
            return False
    return True


def _session(proto, optimized=True):
    """None without onnxruntime."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return None
    from sardonyx._run import Session

    return Session(proto, optimized)


def _results(proto, session, feeds) -> dict[str, np.ndarray]:
    if session is None:
        from sardonyx._evaluate import evaluate

        return evaluate(proto, feeds)
    return dict(zip([o.name for o in session.outputs], session.run(feeds), strict=True))


def _is_close(a, b, rtol, atol) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "f" or a.dtype.name == "bfloat16":
        return np.allclose(a.astype(np.float64), b.astype(np.float64), rtol, atol, equal_nan=True)
    return np.array_equal(a, b)


def _filled(info, shape, fill: str, rng) -> np.ndarray:
    onnx = require("onnx", "onnx")
    tensor = info.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if shape is None:
        shape = [d.dim_value if d.HasField("dim_value") else 1 for d in tensor.shape.dim]
    if fill == "ones":
        return np.ones(shape, dtype)
    if fill == "zeros":
        return np.zeros(shape, dtype)
    if fill == "arange":
        return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 2, shape).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.random(shape).astype(dtype)
