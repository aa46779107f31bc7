"""`sardonyx.optimize(max_error=)`: types are chosen by the errors that they cause, and the whole stays within."""

import itertools
import json
import time

import numpy as np
import onnx
import onnxruntime
import pytest
import sardonyx
from command import sardonyx as command
from onnx import TensorProto, numpy_helper
from sardonyx._models import optimize

RNG = np.random.default_rng(3)
RUNS = [{"x": RNG.standard_normal((7, 61)).astype(np.float32)} for _ in range(2)]
WEIGHTS = {
    name: RNG.standard_normal(shape).astype(np.float32) / 8
    for name, shape in {"a": (61, 127), "b": (127, 53), "c": (61, 53)}.items()
}


def model() -> onnx.ModelProto:
    """What `c` contributes to the result is small."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[B,61] x) => (float[B,53] y) {
            xa = MatMul(x, a)
            h = Relu(xa)
            hb = MatMul(h, b)
            xc = MatMul(x, c)
            little = Constant<value: tensor = float {0.001}>()
            small = Mul(xc, little)
            y = Add(hb, small)
        }""")
    proto.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in WEIGHTS.items())
    return proto


def results(m: onnx.ModelProto | str, run: dict) -> np.ndarray:
    data = m if isinstance(m, str) else m.SerializeToString()
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, run)[0]


def error(before, after) -> float:
    return max(
        np.abs(results(before, run) - results(after, run)).max() / np.abs(results(before, run)).max() for run in RUNS
    )


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.2])
def test_the_error_holds_and_more_error_costs_fewer_bytes(share):
    before = model()
    after, report = sardonyx.optimize(before, max_error=share, calibration=RUNS, return_report=True)
    chosen = report.precision_curve[report.precision_chosen]
    assert error(before, after) <= share
    assert chosen["error"] == pytest.approx(error(before, after), rel=1e-3, abs=1e-7)
    within = [p for p in report.precision_curve if p["error"] <= report.precision_bound]
    smallest = min(within, key=lambda p: p["bytes"])
    assert report.precision_bound < share and chosen in within
    assert chosen == smallest or (
        chosen["bytes"] <= 1.1 * smallest["bytes"] and chosen["time"] <= 0.8 * smallest["time"]
    )
    tighter, less = sardonyx.optimize(before, max_error=share / 4, calibration=RUNS, return_report=True)
    assert error(before, tighter) <= share / 4
    assert less.precision_curve[less.precision_chosen]["bytes"] >= smallest["bytes"]


def test_weights_that_matter_less_get_fewer_bits():
    after = sardonyx.optimize(model(), max_error=0.01, calibration=RUNS)
    types = {i.name: i.data_type for i in after.graph.initializer}
    assert types["c_quantized"] == TensorProto.UINT4
    assert TensorProto.INT8 in (types.get("a_quantized"), types.get("b_quantized"))


def test_weights_learn_from_half_of_the_runs_and_all_measure():
    """The error lies between that of 4 bits with and without calibration."""
    few = RNG.standard_normal((7, 61))
    runs = [{"x": (RNG.standard_normal((101, 7)) @ few).astype(np.float32)} for _ in range(3)]
    before = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[B,61] x) => (float[B,127] y) { y = MatMul(x, a) }""")
    before.graph.initializer.append(numpy_helper.from_array(WEIGHTS["a"], "a"))

    def worst(after):
        return max(
            np.abs(results(before, r) - results(after, r)).max() / np.abs(results(before, r)).max() for r in runs
        )

    alone, learned = (sardonyx.optimize(before, weights="uint4", calibration=c) for c in (None, runs[:1]))
    share = (worst(alone) * worst(learned)) ** 0.5
    assert worst(learned) < 0.5 * worst(alone)
    after, report = sardonyx.optimize(before, max_error=share, precision="f32", calibration=runs, return_report=True)
    assert [i.SerializeToString() for i in after.graph.initializer] == [
        i.SerializeToString() for i in learned.graph.initializer
    ]
    assert report.precision_curve[report.precision_chosen]["error"] == pytest.approx(worst(after), rel=1e-3)
    single = sardonyx.optimize(before, max_error=share, precision="f32", calibration=runs[:1])
    assert TensorProto.UINT4 not in {i.data_type for i in single.graph.initializer}


def test_the_command_measures_on_the_evaluator(tmp_path):
    before = model()
    onnx.save(before, tmp_path / "m.onnx")
    runs = []
    for i, run in enumerate(RUNS):
        np.savez(tmp_path / f"{i}.npz", **run)
        runs += ["--calibrate", tmp_path / f"{i}.npz"]
    args = ["optimize", tmp_path / "m.onnx", "-o", tmp_path / "s.onnx", "--max-error", "2%", *runs]
    (numbers,) = json.loads(command(*args, "--json").stdout)
    assert numbers["precision_curve"][0]["types"] == "f32"
    assert error(before, str(tmp_path / "s.onnx")) <= 0.021, "onnxruntime's kernels round otherwise"
    assert "chosen" in command(*args).stdout
    refused = command(*args, "--weights", "int8", ok=False)
    assert "--max-error chooses the types" in refused.stderr


def test_only_weights_where_single_precision_is_asked_for():
    after, report = sardonyx.optimize(model(), max_error=0.02, precision="f32", calibration=RUNS, return_report=True)
    assert {p["types"][:3] for p in report.precision_curve} == {"f32"}
    types = {i.name: i.data_type for i in after.graph.initializer}
    assert TensorProto.INT8 in types.values()
    assert all(n.input[0] in types for n in after.graph.node if n.op_type == "Cast"), "only weights are rounded"
    assert error(model(), after) <= 0.02


def test_weights_that_nothing_narrows_are_stored_in_half_precision():
    after, report = sardonyx.optimize(model(), max_error=0.001, precision="f32", calibration=RUNS, return_report=True)
    assert report.precision_curve[1]["types"] == "f32, 3 weights f16"
    stored = {i.name: numpy_helper.to_array(i) for i in after.graph.initializer}
    assert (stored["a_f16"] == WEIGHTS["a"].astype(np.float16)).all()
    assert error(model(), after) <= 0.001


def test_each_point_stores_all_weights_in_half_precision_or_less():
    """Although the first point narrows them all."""
    drawn = np.random.default_rng(4)
    before = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[B,61] x) => (float[B,11] y) { p = MatMul(x, a) q = Tanh(p) r = MatMul(q, b) s = Tanh(r) y = MatMul(s, c) }""")
    for name, shape in {"a": (61, 251), "b": (251, 251), "c": (251, 11)}.items():
        weight = drawn.standard_normal(shape).astype(np.float32) / shape[0] ** 0.5
        before.graph.initializer.append(numpy_helper.from_array(weight, name))
    runs = [{"x": drawn.standard_normal((13, 61)).astype(np.float32)} for _ in range(4)]
    _, report = sardonyx.optimize(before, max_error=0.012, precision="f32", calibration=runs, return_report=True)
    whole, *points = report.precision_curve
    assert "f16" not in points[1]["types"], "all are narrower"
    assert any("int8" in p["types"] and "f16" in p["types"] for p in points[2:])
    assert max(p["bytes"] for p in points) < 0.51 * whole["bytes"]


def offset_model() -> onnx.ModelProto:
    """Half precision loses what is added to 3000."""
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[B,61] x) => (float[B,53] y) {
            xa = MatMul(x, a)
            large = Constant<value: tensor = float {3000}>()
            h = Relu(xa)
            far = Add(h, large)
            back = Sub(far, large)
            hb = MatMul(back, b)
            xc = MatMul(x, c)
            y = Add(hb, xc)
        }""")
    proto.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in WEIGHTS.items())
    return proto


def test_what_half_precision_spoils_stays_in_single_precision(tmp_path):
    """The command measures no times, so the smallest point is chosen."""
    onnx.save(offset_model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "run.npz", **RUNS[0])
    args = ["optimize", tmp_path / "m.onnx", "-o", tmp_path / "s.onnx", "--max-error", "0.2%"]
    (numbers,) = json.loads(command(*args, "--calibrate", tmp_path / "run.npz", "--json").stdout)
    types = [p["types"] for p in numbers["precision_curve"]]
    assert types[:3] == ["f32", "f16", "f16 but for 2 nodes"]
    assert numbers["precision_curve"][1]["error"] > 0.01
    assert types[numbers["precision_chosen"]].startswith("f16 but for 2 nodes")
    after = onnx.load(tmp_path / "s.onnx")
    found = {v.name: v.type.tensor_type.elem_type for v in onnx.shape_inference.infer_shapes(after).graph.value_info}
    made = {n.op_type: found.get(n.output[0]) for n in after.graph.node if n.op_type in ("Sub", "Relu")}
    assert made == {"Sub": TensorProto.FLOAT, "Relu": TensorProto.FLOAT16}
    products = {found[n.output[0]] for n in after.graph.node if n.op_type == "MatMul"}
    assert products == {TensorProto.FLOAT16}
    assert error(offset_model(), after) <= 0.002
    for rows in (1, 11):
        x = {"x": RNG.standard_normal((rows, 61)).astype(np.float32)}
        want = results(offset_model(), x)
        assert np.abs(results(after, x) - want).max() <= 0.002 * np.abs(want).max()


def slowed(monkeypatch, is_slow) -> None:
    """Runs of these models take 3 ms more of the processor."""
    prepare = optimize._runner()

    def slow(data):
        run = prepare(data)
        delay = 0.003 * is_slow({n.op_type for n in onnx.load_from_string(data).graph.node})

        def slowly(values):
            end = time.process_time() + delay
            while time.process_time() < end:
                pass
            return run(values)

        return slowly

    monkeypatch.setattr(optimize, "_runner", lambda: slow)


@pytest.mark.parametrize("slow", ["floats", "integers"])
def test_a_model_with_a_tenth_more_bytes_is_chosen_if_it_is_faster(monkeypatch, slow):
    slowed(monkeypatch, lambda ops: ("QuantizeLinear" in ops) == (slow == "integers"))
    drawn = np.random.default_rng(5)
    sizes = (127, 509, 131)
    layers = [drawn.standard_normal(s).astype(np.float32) / 12 for s in itertools.pairwise(sizes)]
    before = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[B,127] x) => (float[B,131] y) {
            xa = MatMul(x, a)
            h = Relu(xa)
            y = MatMul(h, b)
        }""")
    before.graph.initializer.extend(numpy_helper.from_array(w, n) for w, n in zip(layers, "ab", strict=True))
    runs = [{"x": drawn.standard_normal((31, 127)).astype(np.float32)} for _ in range(4)]
    after, report = sardonyx.optimize(before, max_error=0.15, opset=20, calibration=runs, return_report=True)
    chosen = report.precision_curve[report.precision_chosen]
    in_integers = [p for p in report.precision_curve if p["types"].startswith("static int8")]
    assert in_integers and all(p["error"] <= report.precision_bound for p in in_integers)
    smallest = min(p["bytes"] for p in report.precision_curve if p["error"] <= report.precision_bound)
    assert chosen["bytes"] <= 1.1 * smallest
    assert ("QuantizeLinear" in {n.op_type for n in after.graph.node}) == (slow == "floats")
    assert (chosen["time"] < 0.8) == (slow == "floats")
    for run in runs:
        want = results(before, run)
        assert np.abs(results(after, run) - want).max() <= 0.15 * np.abs(want).max()


def test_unseen_inputs_have_a_margin():
    drawn = np.random.default_rng(11)
    many = [{"x": drawn.standard_normal((7, 61)).astype(np.float32)} for _ in range(9)]
    bounds = []
    for runs in (many[:1], many):
        after, report = sardonyx.optimize(model(), max_error=0.02, calibration=runs, return_report=True)
        assert report.precision_curve[report.precision_chosen]["error"] <= report.precision_bound
        bounds.append(report.precision_bound)
    assert bounds[0] == pytest.approx(0.02 / (1 + 0.25 * 2**0.5)) and bounds[0] < bounds[1] < 0.02
    for _ in range(20):
        x = {"x": drawn.standard_normal((7, 61)).astype(np.float32)}
        want = results(model(), x)
        assert np.abs(results(after, x) - want).max() <= 0.02 * np.abs(want).max()


def test_single_weights_are_halved_where_all_are_too_much():
    after, report = sardonyx.optimize(model(), max_error=0.0003, precision="f32", calibration=RUNS, return_report=True)
    assert report.precision_curve[1]["types"] == "f32, 3 weights f16"
    assert report.precision_curve[1]["error"] > report.precision_bound
    types = [i.data_type for i in after.graph.initializer if len(i.dims) == 2]
    assert TensorProto.FLOAT in types and TensorProto.FLOAT16 in types
    assert error(model(), after) <= 0.0003


def test_weights_of_bf16_become_narrower():
    """onnxruntime's CPU does not make bf16 of integers, so a Cast follows."""
    before = sardonyx.optimize(model(), weights="bf16")
    assert TensorProto.BFLOAT16 in {i.data_type for i in before.graph.initializer}
    after, report = sardonyx.optimize(before, max_error=0.2, calibration=RUNS, return_report=True)
    assert not report.warnings
    assert TensorProto.BFLOAT16 not in {i.data_type for i in after.graph.initializer}
    assert error(before, after) <= 0.2


def test_names_of_weights_that_were_narrow_before():
    """`c` is as if it had been narrowed, and another constant has its name."""
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[B,61] x) => (float[B,53] y) {
            c_floats = DequantizeLinear(c_quantized, scale, c)
            xc = MatMul(x, c_floats)
            xa = MatMul(x, a)
            h = Relu(xa)
            hb = MatMul(h, b)
            y = Add(hb, xc)
        }""")
    given = {"a": WEIGHTS["a"], "b": WEIGHTS["b"], "scale": np.float32(0.01), "c": np.int8(3)}
    given["c_quantized"] = RNG.integers(-99, 99, (61, 53)).astype(np.int8)
    proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(w), name) for name, w in given.items())
    after, report = sardonyx.optimize(proto, max_error=0.02, calibration=RUNS, return_report=True)
    assert report.precision_curve[report.precision_chosen]["bytes"] < report.precision_curve[0]["bytes"]
    assert error(proto, after) <= 0.02


def test_infinite_values_have_no_ranges():
    drawn = np.random.default_rng(0)
    before = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[B,61] x) => (float[B,53] y, float[B,53] z) {
            zero = Constant<value: tensor = float {0}>()
            xa = MatMul(x, a)
            far = Div(xa, zero)
            y = MatMul(far, b)
            z = MatMul(x, c)
        }""")
    for name, shape in {"a": (61, 509), "b": (509, 53), "c": (61, 53)}.items():
        before.graph.initializer.append(numpy_helper.from_array(drawn.standard_normal(shape).astype(np.float32), name))
    runs = [{"x": drawn.standard_normal((303, 61)).astype(np.float32)} for _ in range(2)]
    after, report = sardonyx.optimize(before, max_error=0.1, calibration=runs, return_report=True)
    assert any("static int8" in w and "infinite" in w for w in report.warnings)
    want, found = (onnxruntime.InferenceSession(m.SerializeToString()).run(["z"], runs[0])[0] for m in (before, after))
    assert 0 < np.abs(want - found).max() <= 0.1 * np.abs(want).max()


def test_random_inputs_are_named():
    _, report = sardonyx.optimize(model(), max_error="1%", return_report=True)
    assert any("random inputs" in w for w in report.warnings)


def test_nothing_that_helps_leaves_single_precision():
    after, report = sardonyx.optimize(model(), max_error=1e-9, calibration=RUNS, return_report=True)
    assert report.precision_chosen == 0
    (said,) = [w for w in report.warnings if "nothing smaller" in w]
    needed = said.split("; ")[1].split(" would")[0].replace(" ", "")
    _, met = sardonyx.optimize(model(), max_error=needed, calibration=RUNS, return_report=True)
    assert met.precision_chosen != 0
    assert {i.data_type for i in after.graph.initializer} == {TensorProto.FLOAT}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_error": 0}, "is not a share between 0 and 1"),
        ({"max_error": "1 %%"}, "is not a share between 0 and 1"),
        ({"max_error": 1.5}, "is not a share between 0 and 1"),
        ({"max_error": 0.01, "precision": "f16"}, "max_error chooses the types"),
        ({"max_error": 0.01, "weights": "int8"}, "max_error chooses the types"),
        ({"max_error": 0.01, "calibration": [{"z": RUNS[0]["x"]}]}, "no input 'z'"),
        ({"max_error": 0.01, "calibration": [{"x": RUNS[0]["x"][:, :5]}]}, "x"),
    ],
)
def test_what_cannot_be(options, said):
    with pytest.raises(sardonyx.Error, match=said):
        sardonyx.optimize(model(), **options)


def test_a_model_without_floats_has_no_error():
    chosen = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[7,61] x) => (int64[7,1] i) { i = ArgMax<axis = 1>(x) }""")
    with pytest.raises(sardonyx.Error, match="no result of floats"):
        sardonyx.optimize(chosen, max_error=0.01)


def test_a_metric_of_ones_own_decides():
    """Only the first column counts, and counts in units of its own."""
    seen = []

    def metric(expected, found):
        seen.append((type(expected), expected[0].shape))
        return 100 * np.abs(expected[0][:, 0] - found[0][:, 0]).max()

    before = model()
    after, report = sardonyx.optimize(before, max_error=5, metric=metric, calibration=RUNS, return_report=True)
    chosen = report.precision_curve[report.precision_chosen]
    errors = [100 * np.abs(results(before, r)[:, 0] - results(after, r)[:, 0]).max() for r in RUNS]
    assert max(errors) == pytest.approx(chosen["error"], rel=1e-3) and max(errors) <= 5
    assert report.precision_bound == 5
    assert chosen["bytes"] < report.precision_curve[0]["bytes"] and set(seen) == {(list, (7, 53))}
    assert " %" not in str(report).partition("chosen")[2].splitlines()[0]


def test_bad_metrics():
    with pytest.raises(sardonyx.Error, match="metric is for max_error"):
        sardonyx.optimize(model(), metric=lambda a, b: 0.0)
    with pytest.raises(sardonyx.Error, match="is a function"):
        sardonyx.optimize(model(), max_error=1, metric=3)
    with pytest.raises(sardonyx.Error, match="not a share"):
        sardonyx.optimize(model(), max_error=5)
    with pytest.raises(ZeroDivisionError):
        sardonyx.optimize(model(), max_error=5, metric=lambda a, b: 1 / 0, calibration=RUNS)
    unchanged = sardonyx.optimize(model(), max_error=5, metric=lambda a, b: float("nan"), calibration=RUNS)
    assert {i.data_type for i in unchanged.graph.initializer} == {TensorProto.FLOAT}


def test_reports_draw_the_errors():
    shown = sardonyx.optimize(model(), max_error=0.01, calibration=RUNS, return_report=True)[1]._repr_html_()
    assert shown.count("<circle") > 2 and shown.count("#59a14f") == 1 and "of constants" in shown
    exact = sardonyx.optimize(model(), return_report=True)[1]._repr_html_()
    assert "<circle" not in exact
