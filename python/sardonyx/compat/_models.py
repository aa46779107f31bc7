"""What `compat.onnxsim` and `compat.onnxslim` share.

Keywords that change what the optimizer may do are translated; those that ask for something that it does not
have are refused by name, unless they are at their default. After the documentation of onnxsim 0.8 and
onnxslim 0.1.
"""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sardonyx import _sardonyx as native
from sardonyx._error import Error
from sardonyx._models.evaluate import evaluate
from sardonyx._models.optimize import optimize_bytes, request
from sardonyx._models.session import Session
from sardonyx._require import require

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


def load(model):
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


def optimized(proto, folder: str, **options):
    # Their callers read the types of inner values from value_info.
    data = optimize_bytes(proto.SerializeToString(), folder, request({"declare_types": True, **options}))
    return type(proto).FromString(data)


def save(proto, path, beside: bool) -> None:
    onnx = require("onnx", "onnx")
    path = os.fspath(path)
    beside = beside or proto.ByteSize() >= 2**31 - 1
    if beside:  # onnx appends to a file that is there
        Path(f"{path}.data").unlink(missing_ok=True)
    onnx.save(proto, path, save_as_external_data=beside, location=f"{os.path.basename(path)}.data" if beside else None)


def skipped(names: Sequence[str]) -> list[str]:
    known = set(all_passes())
    skip = []
    for name in [names] if isinstance(names, str) else names:
        if name not in _SKIPS and name not in known:
            raise Error(
                f"nothing to skip is called {name!r}",
                notes=["help: `sardonyx passes` lists the passes; their names can be skipped as well"],
            )
        skip += _SKIPS.get(name, [name])
    return skip


def all_passes() -> list[str]:
    return [p["name"] for p in native.list_passes()]


def agree(before, after, count, shapes, data, fill, rtol, atol) -> bool:
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
            return all(_is_close(expected[name], x, rtol, atol) for name, x in zip(names, found, strict=True))

        found = _results(after, session_after, feeds)
        if not compare([found[name] for name in names]):
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
    return Session(proto, optimized)


def _results(proto, session, feeds) -> dict[str, np.ndarray]:
    if session is None:
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
