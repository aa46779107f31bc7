"""`sardonyx.optimize(precision="int8")`: large products in integers of 8 bits, as onnxruntime runs them."""

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import sardonyx
from command import sardonyx as command
from onnx import numpy_helper
from onnxruntime.quantization import quantize_dynamic

RNG = np.random.default_rng(11)
LEVELS = [onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL]
W = (RNG.standard_t(5, (257, 307)) / 16).astype(np.float32)
V = (RNG.standard_t(5, (331, 307)) / 16).astype(np.float32)
C = RNG.standard_normal(331).astype(np.float32)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(13).standard_normal(shape).astype(np.float32)


def model(batch: str = "B") -> onnx.ModelProto:
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{batch},257] x) => (float[{batch},331] y) {{
            xw = MatMul(x, w)
            h = Tanh(xw)
            y = Gemm<transB = 1>(h, v, c)
        }}""")
    weights = {"w": W, "v": V, "c": C}
    proto.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in weights.items())
    return proto


def run(proto: onnx.ModelProto, x: np.ndarray, level=LEVELS[1]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("rows", [1, 7, 13])
@pytest.mark.parametrize("level", LEVELS)
def test_results_are_within_half_a_step_of_both_operands(rows, level):
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[B,257] x) => (float[B,307] y) { y = MatMul(x, w) }""")
    proto.graph.initializer.append(numpy_helper.from_array(W, "w"))
    after = sardonyx.optimize(proto, precision="int8")
    assert "MatMulInteger" in [n.op_type for n in after.graph.node]
    x = normal(rows, 257)
    of_x = (max(x.max(), 0) - min(x.min(), 0)) / 255
    of_w = numpy_helper.to_array(next(t for t in after.graph.initializer if t.name == "w_scale"))
    bound = np.abs(x).sum(1, keepdims=True) * of_w / 2 + (np.abs(W).sum(0) + 257 * of_w / 2) * of_x * 0.51
    assert (np.abs(run(after, x, level) - x @ W) <= bound + 1e-4).all()
    assert (np.abs(run(after, x, level) - x @ W) > 0.01 * bound).any()
    evaluated = sardonyx.evaluate(after, {"x": x})["y"]
    np.testing.assert_allclose(run(after, x, level), evaluated, rtol=1e-4, atol=1e-4)


def test_the_error_is_not_larger_than_of_quantize_dynamic(tmp_path):
    x = normal(13, 257)
    onnx.save(model(), tmp_path / "m.onnx")
    quantize_dynamic(tmp_path / "m.onnx", tmp_path / "q.onnx")
    theirs = run(onnx.load(tmp_path / "q.onnx"), x)
    ours = run(sardonyx.optimize(model(), precision="int8"), x)
    before = run(model(), x)
    assert np.square(ours - before).sum() <= np.square(theirs - before).sum()


def test_no_pair_of_products_leaves_sixteen_bits():
    after = sardonyx.optimize(model(), precision="int8")
    codes = [numpy_helper.to_array(t).astype(int) for t in after.graph.initializer if t.name.endswith("_quantized")]
    assert [c.shape for c in codes] == [(257, 307), (307, 331)]
    for c in codes:
        for signed in (np.maximum(c, 0), np.minimum(c, 0)):
            assert np.abs(255 * (signed[1:] + signed[:-1])).max() <= 2**15 - 1
    full = sardonyx.optimize(
        model(), passes=["onnx", "quantize_products"], options={"quantize_products.full_range": True}
    )
    largest = max(np.abs(numpy_helper.to_array(t)).max() for t in full.graph.initializer if "_quantized" in t.name)
    assert largest == 127


def test_a_second_run_changes_nothing_and_weights_may_follow():
    after = sardonyx.optimize(model(), precision="int8")
    assert sardonyx.optimize(after, precision="int8") == after
    small = sardonyx.optimize(model(), precision="int8", options={"quantize_products.min_elements": 100_000})
    assert [n.op_type for n in small.graph.node].count("MatMulInteger") == 1
    both = sardonyx.optimize(
        model(), precision="int8", weights="int8", options={"quantize_products.min_elements": 100_000}
    )
    assert {"MatMulInteger", "DequantizeLinear"} <= {n.op_type for n in both.graph.node}


def test_zeros_and_old_opsets():
    after = sardonyx.optimize(model(), precision="int8")
    np.testing.assert_allclose(
        run(after, np.zeros((3, 257), np.float32)), run(model(), np.zeros((3, 257), np.float32)), atol=1e-6
    )
    old = model()
    old.opset_import[0].version = 10
    raised = sardonyx.optimize(old, precision="int8")
    assert next(i.version for i in raised.opset_import if not i.domain) == 11
    with pytest.raises(sardonyx.Error, match="need opset 11"):
        sardonyx.optimize(old, precision="int8", opset=10)


def test_the_command(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx")
    shown = command("optimize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--precision", "int8").stdout
    assert "quantize_products" in shown
    assert (tmp_path / "q.onnx").stat().st_size < 0.3 * (tmp_path / "m.onnx").stat().st_size
    refused = command("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.mlpackage", "--precision", "int8", ok=False)
    assert "learns ranges from runs" in refused.stderr and not (tmp_path / "m.mlpackage").exists()


def test_options_of_half_precision():
    with pytest.raises(sardonyx.Error, match="for half precision"):
        sardonyx.optimize(model(), precision="int8", keep_f32="y")
