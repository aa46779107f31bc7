"""Every model of the onnx package, optimized and converted to a newer opset: same results in onnxruntime
without its own optimizations."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import sardonyx
from judge import RUNTIME
from onnx import helper
from test_roundtrip import MODELS, RANDOM, backend_models, random_inputs, run

# Shares of a result's largest magnitude. Passes that round are bounded by a few units in its last place.
TOLERANCE = {
    np.dtype(np.float32): 2e-6,
    np.dtype(np.float64): 1e-14,
    np.dtype(np.float16): 2e-3,
    np.dtype(ml_dtypes.bfloat16): 2e-2,
}
NEWEST = 24  # the newest opset with kernels in onnxruntime
REFUSED = {"test_scan_sum"}  # Scan had a batch axis until opset 9
FEW = {"pytorch-converted", "pytorch-operator"}  # most of these are of opset 6, which cannot be raised


def difference(before: object, after: object) -> str | None:
    """The difference, if any: integers and strings exactly, floats up to rounding."""
    if isinstance(before, list | tuple):
        if not isinstance(after, list | tuple) or len(before) != len(after):
            return f"{len(before)} values became {after!r:.40}"
        return next((found for a, b in zip(before, after, strict=True) if (found := difference(a, b))), None)
    if not isinstance(before, np.ndarray):
        return None if repr(before) == repr(after) else f"{before!r:.40} became {after!r:.40}"
    if not isinstance(after, np.ndarray) or (before.dtype, before.shape) != (after.dtype, after.shape):
        return f"{before.dtype}{before.shape} became {getattr(after, 'dtype', after)}{getattr(after, 'shape', '')}"
    bound = TOLERANCE.get(before.dtype)
    if bound is None or before.size == 0:
        return None if before.tolist() == after.tolist() else "other elements"
    a, b = before.astype(np.float64), after.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "other infinities or NaNs"
    largest = np.abs(a[finite]).max(initial=0)
    far = np.abs(a[finite] - b[finite]).max(initial=0)
    return None if far <= bound * largest else f"off by {far:.3g} of {largest:.3g}"


def is_declared(model: onnx.ModelProto, results: list[object]) -> bool:
    """Whether results have the sizes that the model declares: random operands of Expand may give others."""
    for value, result in zip(model.graph.output, results, strict=True):
        stated = value.type.tensor_type.shape.dim
        if isinstance(result, np.ndarray) and any(
            d.HasField("dim_value") and d.dim_value != n for d, n in zip(stated, result.shape, strict=False)
        ):
            return False
    return True


def opset_of(model: onnx.ModelProto) -> int:
    return next((i.version for i in model.opset_import if i.domain in ("", "ai.onnx")), NEWEST)


@pytest.mark.skipif(RUNTIME < (1, 24), reason="it divides integers by zero, and the process ends")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # onnx makes its cases with NumPy
@pytest.mark.parametrize("how", ["optimized", "raised"])
@pytest.mark.parametrize("kind", MODELS)
def test_results_stay(kind: str, how: str) -> None:
    compared, wrong = 0, []
    for name, model in backend_models(kind).items():
        feeds = random_inputs(model)
        if feeds is None or RANDOM & {node.op_type for node in model.graph.node}:
            continue
        if how == "raised" and not 7 <= opset_of(model) < NEWEST:
            continue
        before = run(model, feeds)
        if before is None or not is_declared(model, before):
            continue
        try:
            changed = (
                sardonyx.optimize(model, passes="none", opset=NEWEST) if how == "raised" else sardonyx.optimize(model)
            )
        except sardonyx.Error as error:
            if name not in REFUSED or how == "optimized":
                wrong.append(f"{name}: {error}")
            continue
        compared += 1
        after = run(changed, feeds)
        found = "it does not run" if after is None else difference(before, after)
        if found:
            wrong.append(f"{name}: {found}")
    assert not wrong, f"{len(wrong)} of {compared}:\n" + "\n".join(wrong[:20])
    assert compared >= (1 if how == "raised" and kind in FEW else MODELS[kind] // 2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", MODELS)
def test_no_result_is_only_larger(kind: str, tmp_path: Path) -> None:
    """Never more nodes, and more bytes only where the table shows which operators they saved; but for averages that
    onnxruntime 1.23 computes wrongly, before which a Pad is written."""
    source, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    wrong = []
    for name, model in backend_models(kind).items():
        onnx.save(model, source)
        _, report = sardonyx.optimize(source, target, return_report=True)
        assert report.bytes == target.stat().st_size
        if any(p["name"] == "guard_fusions" and p["counts"].get("average", 0) for p in report.passes):
            continue
        more_bytes = report.bytes > source.stat().st_size
        if report.nodes > report.before["nodes"] or (more_bytes and report.ops == report.before["ops"]):
            wrong.append(f"{name}: {report.before} became {report.bytes} bytes, {report.ops}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:20])


def test_what_is_only_spelled_longer_comes_out_as_it_came_in(tmp_path: Path) -> None:
    """An initializer of small numbers in protobuf's varint form, which is shorter than raw bytes."""
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", [30]), ("y", [2, 3, 5]))]
    shape = helper.make_tensor("shape", onnx.TensorProto.INT64, [3], [2, 3, 5])
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])], "g", values[:1], values[1:], [shape]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    source, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    sardonyx.optimize(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert sardonyx.optimize(source.read_bytes()) == source.read_bytes()
    assert sardonyx.optimize(model) == model
