"""`sardonyx.optimize(precision="int8", calibration=...)`: static models of 8 bits, as onnxruntime runs them."""

from collections import Counter

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import sardonyx
from command import sardonyx as command
from int8_models import MODELS, drawn, inputs, mlp, network, with_weights
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

LEVELS = [onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL]
ALL = {"quantize_values.all": True}


def quantized(name: str, **options) -> onnx.ModelProto:
    given = {"options": ALL} | options
    return sardonyx.optimize(
        MODELS[name][0](), precision="int8", calibration=[inputs(name, seed, 13) for seed in range(3)], **given
    )


def run(proto: onnx.ModelProto | str, feeds: dict, level=LEVELS[1], path=None) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    if path:
        options.optimized_model_filepath = str(path)
    data = proto if isinstance(proto, str) else proto.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def error(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    return max(float(np.linalg.norm(f - w) / np.linalg.norm(w)) for f, w in zip(found, wanted, strict=True))


@pytest.mark.parametrize("batch", [1, 2, 5])
@pytest.mark.parametrize("name", MODELS)
def test_results_are_close_to_those_in_floats(name, batch):
    after, feeds = quantized(name), inputs(name, 7, batch)
    assert 0 < error(run(after, feeds), run(MODELS[name][0](), feeds)) < 0.04


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_and_the_evaluator_agree_within_a_code(name, level):
    after, feeds = quantized(name), inputs(name, 7)
    for found, wanted in zip(run(after, feeds, level), sardonyx.evaluate(after, feeds).values(), strict=True):
        # A value at the middle between two codes may become either, and one code of 255 is less than a hundredth.
        assert np.abs(found - wanted).max() <= 0.01 * np.abs(wanted).max()
        assert np.abs(found - wanted).mean() <= 0.001 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("name", "joined"),
    [
        ("cnn", {"QLinearConv": 6, "QLinearAdd": 1, "QLinearSigmoid": 1, "QLinearMul": 1, "QLinearLeakyRelu": 1,
                 "QLinearGlobalAveragePool": 1, "QGemm": 1, "QuantizeLinear": 1, "NhwcMaxPool": 1}),
        ("block", {"MatMulIntegerToFloat": 5, "QuantizeLinear": 3, "LayerNormalization": 1, "Softmax": 1}),
        ("mlp", {"QGemm": 3, "QuantizeLinear": 1}),
    ],
)  # fmt: skip
def test_onnxruntime_joins_the_nodes(name, joined, tmp_path):
    run(quantized(name), inputs(name, 7), path=tmp_path / "m.onnx")
    ops = Counter(n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node)
    assert {op: ops[op] for op in joined} == joined
    assert not {"Conv", "Gemm"} & ops.keys()


class Reader(CalibrationDataReader):
    def __init__(self, runs):
        self.runs = iter(runs)

    def get_next(self):
        return next(self.runs, None)


@pytest.mark.parametrize("name", MODELS)
def test_the_error_is_not_larger_than_of_quantize_static(name, tmp_path):
    onnx.save(MODELS[name][0](), tmp_path / "m.onnx")
    quantize_static(
        tmp_path / "m.onnx",
        tmp_path / "q.onnx",
        Reader([inputs(name, seed, 13) for seed in range(3)]),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    feeds = inputs(name, 7, 13)
    before = run(MODELS[name][0](), feeds)
    theirs = error(run(str(tmp_path / "q.onnx"), feeds), before)
    assert error(run(quantized(name), feeds), before) < theirs


def test_no_pair_of_products_leaves_sixteen_bits():
    def largest(proto: onnx.ModelProto) -> int:
        sums = []
        for t in proto.graph.initializer:
            if t.data_type != onnx.TensorProto.INT8 or len(t.dims) < 2:
                continue
            codes = numpy_helper.to_array(t).astype(int)
            if codes.ndim == 2:  # by columns or by rows: each is one of them
                codes = codes if t.dims[0] in (19, 23) else codes.T
            orders = codes.reshape(len(codes), -1), np.moveaxis(codes, 1, -1).reshape(len(codes), -1)
            sums += [np.abs(o[:, 1:] + o[:, :-1]).max() for o in orders if o.shape[1] > 1]
        return max(sums)

    for name in "cnn", "mlp":
        assert largest(quantized(name)) == 128
        assert largest(quantized(name, options=ALL | {"quantize_values.full_range": True})) > 160


@pytest.mark.parametrize("name", MODELS)
def test_later_runs_change_nothing(name):
    after = quantized(name)
    runs = [inputs(name, 0)]
    assert sardonyx.optimize(after, precision="int8", calibration=runs, options=ALL) == after
    assert sardonyx.optimize(after) == after


def test_large_biases_of_small_weights():
    proto = mlp()
    w, b = (next(t for t in proto.graph.initializer if t.name == name) for name in ("w1", "b1"))
    small, large = numpy_helper.to_array(w).copy(), numpy_helper.to_array(b).copy()
    small[:, 3] *= 1e-9
    small[:, 5] = 0
    large[3] = large[5] = 7
    w.CopyFrom(numpy_helper.from_array(small, "w1"))
    b.CopyFrom(numpy_helper.from_array(large, "b1"))
    runs = [inputs("mlp", seed) for seed in range(3)]
    after = sardonyx.optimize(proto, precision="int8", calibration=runs, options=ALL)
    for level in LEVELS:
        assert error(run(after, runs[0], level), run(proto, runs[0])) < 0.04


def test_a_grouped_convolution_in_floats_between_codes_stays_one(tmp_path):
    """onnxruntime would quantize its weights with one scale for all, and its kernel for 8 bits is slower."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (float[B,128,29,31] x) => (float[B,128,29,31] y) {
            a = Conv(x, w1)
            r = Relu(a)
            b = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 32>(r, w2)
            s = Relu(b)
            y = Conv(s, w3)
        }""")
    with_weights(proto, w1=(128, 128, 1, 1), w2=(128, 4, 3, 3), w3=(128, 128, 1, 1))
    runs = [{"x": drawn(seed, 1, 128, 29, 31)} for seed in range(2)]
    after = sardonyx.optimize(proto, precision="int8", calibration=runs[:1])
    assert error(run(after, runs[1], path=tmp_path / "m.onnx"), run(proto, runs[1])) < 0.03
    ops = Counter(n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node)
    assert (ops["QLinearConv"], ops["Conv"]) == (2, 1)
    assert sardonyx.optimize(after) == after


def test_a_pool_is_never_between_floats_and_codes(tmp_path):
    """onnxruntime would pool codes there, with a kernel that is a hundred times slower."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (float[B,3,61,67] x) => (float[B,64,31,34] y) {
            a = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w1)
            r = Relu(a)
            p = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(r)
            y = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(p, w2)
        }""")
    with_weights(proto, w1=(64, 3, 3, 3), w2=(64, 64, 3, 3))
    feeds = {"x": drawn(5, 1, 3, 61, 67)}
    run(sardonyx.optimize(proto, precision="int8", calibration=[feeds]), feeds, path=tmp_path / "m.onnx")
    ops = Counter(n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node)
    assert (ops["QLinearConv"], ops["NhwcMaxPool"], ops["MaxPool"]) == (2, 1, 0)


def test_results_are_not_cut_off():
    proto = with_weights(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (float[B,17,211,223] x) => (float[B,17,211,223] y) { a = Conv(x, w1)  r = Relu(a)  y = Conv(r, w2) }"""),
        w1=(17, 17, 1, 1),
        w2=(17, 17, 1, 1),
    )
    feeds = {"x": drawn(5, 1, 17, 211, 223)}
    after = sardonyx.optimize(proto, precision="int8", calibration=[feeds], options=ALL)
    inside = onnx.ModelProto.FromString(proto.SerializeToString())
    inside.graph.output.append(onnx.helper.make_empty_tensor_value_info("r"))
    before, hidden = run(inside, feeds)
    constants = {t.name: numpy_helper.to_array(t) for t in after.graph.initializer}
    rounding = [n for n in after.graph.node if n.op_type == "QuantizeLinear"]
    _, cut, result = (255 * float(constants[n.input[1]]) for n in rounding)
    assert result >= before.max() - before.min()
    assert cut < 0.95 * hidden.max()


def test_ranges_on_request():
    runs = inputs("mlp", 0), inputs("mlp", 1)
    runs[0]["x"][0, 0] = 100
    whole, cut = (
        sardonyx.optimize(
            mlp(), precision="int8", calibration=runs, options=ALL | {"quantize_values.percentile": percent}
        )
        for percent in (100, 99)
    )

    def scale(proto: onnx.ModelProto) -> float:
        node = next(n for n in proto.graph.node if n.op_type == "QuantizeLinear" and n.input[0] == "x")
        return float(numpy_helper.to_array(next(t for t in proto.graph.initializer if t.name == node.input[1])))

    assert scale(whole) > 100 / 255 > 10 * scale(cut)
    with pytest.raises(sardonyx.Error, match="up to 100"):
        sardonyx.optimize(mlp(), precision="int8", calibration=runs, options=ALL | {"quantize_values.percentile": 101})


def test_what_cannot_be_learned_from():
    for value, message in ((np.inf, "infinite or NaN"), (np.nan, "elements that are NaN")):
        bad = inputs("mlp", 0)
        bad["x"][1, 1] = value
        with pytest.raises(sardonyx.Error, match=message):
            sardonyx.optimize(mlp(), precision="int8", calibration=[bad], options=ALL)
    with pytest.raises(sardonyx.Error, match="no input 'z'"):
        sardonyx.optimize(mlp(), precision="int8", calibration=[{"z": inputs("mlp", 0)["x"]}])
    with pytest.raises(sardonyx.Error, match="there are none"):
        sardonyx.optimize(mlp(), passes=["quantize_values"], options=ALL, strict=True)
    empty = {"x": np.zeros((0, 37), np.float32)}
    after = sardonyx.optimize(mlp(), precision="int8", calibration=[empty], options=ALL)
    assert "QuantizeLinear" not in {n.op_type for n in after.graph.node}


def test_old_opsets():
    old = with_weights(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 11]>
            g (float[B,37] x) => (float[B,131] y) { y = Gemm(x, w, b) }"""),
        w=(37, 131),
        b=(131,),
    )
    runs = [inputs("mlp", 0)]
    raised = sardonyx.optimize(old, precision="int8", calibration=runs, options=ALL)
    assert raised.opset_import[0].version == 13
    with pytest.raises(sardonyx.Error, match="need opset 13"):
        sardonyx.optimize(old, precision="int8", calibration=runs, opset=12)


def test_the_command(tmp_path):
    onnx.save(network(), tmp_path / "m.onnx")
    np.savez(tmp_path / "run.npz", **inputs("cnn", 0))
    given = ("--precision", "int8", "--calibrate", tmp_path / "run.npz")
    all_of_it = ("--option", "quantize_values.all=true")
    shown = command("optimize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", *given, *all_of_it)
    assert "quantize_values" in shown.stdout
    assert (tmp_path / "q.onnx").stat().st_size < 0.4 * (tmp_path / "m.onnx").stat().st_size
    feeds = inputs("cnn", 7)
    assert error(run(str(tmp_path / "q.onnx"), feeds), run(network(), feeds)) < 0.05
    told = command(
        "optimize", tmp_path / "m.onnx", "-o", tmp_path / "e.onnx", *given, "--explain", "quantize_values", "--dry-run"
    )
    assert "the graph is faster if it computes on floats\n  at y = Gemm" in told.stdout + told.stderr
