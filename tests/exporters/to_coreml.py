"""Convert a kept model to Core ML, and hold what the evaluator computes to onnxruntime's results."""

from __future__ import annotations

import functools
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from kept import Feeds

SINGLE = 1e-4  # of the largest magnitude: what precision `fp32` promises
TARGET = "iOS18"
# QLinearSoftmax of rows of one element gives 0 in onnxruntime 1.31, and the largest number from 1.32 on. (Model, size)
WRONG_IN_ONNXRUNTIME = {("runtime/encoder.qoperator", 2)}


@dataclass(frozen=True)
class Outcome:
    kind: str  # right, refused, wrong
    reason: str = ""


@functools.cache
def saturates() -> bool:
    """Whether onnxruntime adds products of u8 and s8 in 16 bits here, as it does on x86 without VNNI: sums beyond 32767 are cut off."""
    import onnxruntime
    from onnx import TensorProto, helper

    ports = (
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 1])],
    )
    weights = helper.make_tensor("b", TensorProto.INT8, [8, 1], [127] * 8)
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], "product", *ports, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"a": np.full((1, 8), 255, np.uint8)})
    return int(found[0, 0]) != 8 * 127 * 255


def by_reference(source: Path, feeds: list[Feeds]) -> list[list]:
    """The results of the onnx package's reference evaluator, which sums products in 32 bits."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.ops.op_dequantize_linear import DequantizeLinear_19

    class DequantizeLinear(DequantizeLinear_19):
        """That of opset 19: the evaluator has none of the opsets before, and gives attributes of the newest."""

        op_domain = ""

        def _run(self, *operands: np.ndarray, axis: int = 1, **newer: int) -> tuple[np.ndarray]:
            return super()._run(*operands, axis=axis)

    evaluator = ReferenceEvaluator(str(source), new_ops=[DequantizeLinear])
    return [evaluator.run(None, dict(one)) for one in feeds]


def given(x: np.ndarray) -> np.ndarray:
    """An input as Core ML takes it: rank 1 and more, f32, f16 or i32."""
    x = np.asarray(x)
    if x.dtype.kind in "iu":
        x = x.astype(np.int64).astype(np.int32)
    elif x.dtype != np.float16:
        x = x.astype(np.float32)
    return x.reshape(1) if x.ndim == 0 else x


def apart(want: object, got: np.ndarray, bound: float) -> str | None:
    """Why a result is another one; integers of 64 bits come as 32, f64 as f32."""
    want = np.asarray(want)
    if want.shape != got.shape:
        return f"shape {list(want.shape)} became {list(got.shape)}"
    if want.dtype.kind in "iub":
        same = np.array_equal(want.astype(np.int64).astype(np.int32), got.astype(np.int64).astype(np.int32))
        return None if same else "other elements"
    a, b = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "other infinities or NaNs"
    largest, far = np.abs(a[finite]).max(initial=0), np.abs(a[finite] - b[finite]).max(initial=0)
    return None if far <= bound * largest else f"off by {far / largest if largest else far:.1e}"


def refusal(text: str) -> str:
    """The operators that are refused, or the first line of another error."""
    found = re.findall(r"^  (\S+) of .*?: (?=[A-Za-z])(.*)$", text, re.MULTILINE)
    if not found:
        return text.splitlines()[0]
    reasons: dict[str, set[str]] = {}
    for op, why in found:
        reasons.setdefault(re.sub(r"unk__\d+", "unk", why.rpartition("', ")[2]), set()).add(op)
    none = "Core ML has no such operator, and there is no lowering for it"
    return "; ".join(
        ", ".join(sorted(ops)) + ("" if why.endswith(none) else f" ({why})") for why, ops in sorted(reasons.items())
    )


def converted(source: Path, want: list[list | None], feeds: list[Feeds], bound: float | None) -> Outcome:
    """`want`: onnxruntime's results for each size, None where it has none; `bound`: as a share of the largest.

    Where this processor cuts off sums of quantized products, the reference evaluator of the onnx package gives the results instead.
    """
    import onnx
    import sardonyx

    names = [i.name for i in onnx.load(source, load_external_data=False).graph.input]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = sardonyx.to_coreml(str(source), target=TARGET, precision="f32")
        except sardonyx.Error as error:
            return Outcome("refused", refusal(str(error)))
    if source.stem.endswith("_s8") and saturates():
        want = by_reference(source, feeds)
    for size, (results, one) in enumerate(zip(want, feeds, strict=True)):
        if results is None or (f"{source.parent.name}/{source.stem}", size) in WRONG_IN_ONNXRUNTIME:
            continue
        try:
            found = program.run([given(one[name]) for name in names if name in one])
        except sardonyx.Error as error:
            return Outcome("wrong", f"size {size} does not run: {str(error)[:1000]}")
        for number, (a, b) in enumerate(zip(results, found.values(), strict=True)):
            if why := apart(a, np.asarray(b), max(bound or 0, SINGLE)):
                return Outcome("wrong", f"size {size}, result {number}: {why}")
    return Outcome("right")
