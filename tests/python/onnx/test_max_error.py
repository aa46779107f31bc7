"""`sardonyx.optimize(max_error=)`: types are chosen by the errors that they cause, and the whole stays within."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import sardonyx
from command import sardonyx as command
from onnx import TensorProto, numpy_helper

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
    assert chosen["bytes"] == min(p["bytes"] for p in report.precision_curve if p["error"] <= share)
    tighter, less = sardonyx.optimize(before, max_error=share / 4, calibration=RUNS, return_report=True)
    assert error(before, tighter) <= share / 4
    assert less.precision_curve[less.precision_chosen]["bytes"] >= chosen["bytes"]


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
    after, report = sardonyx.optimize(model(), max_error=0.01, precision="f32", calibration=RUNS, return_report=True)
    assert "f16" not in {p["types"][:3] for p in report.precision_curve}
    types = {i.data_type for i in after.graph.initializer}
    assert TensorProto.FLOAT16 not in types and TensorProto.INT8 in types
    assert error(model(), after) <= 0.01


def test_random_inputs_are_named():
    _, report = sardonyx.optimize(model(), max_error="1%", return_report=True)
    assert any("random inputs" in w for w in report.warnings)


def test_nothing_that_helps_leaves_single_precision():
    after, report = sardonyx.optimize(model(), max_error=1e-9, calibration=RUNS, return_report=True)
    assert report.precision_chosen == 0
    assert error(model(), after) >= 0
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
