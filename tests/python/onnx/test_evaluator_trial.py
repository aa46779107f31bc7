"""The evaluator's functions are rounded once, and its operators agree with onnxruntime, in every element type, but for a list."""

import collections

import evaluator_trial as trial
import numpy as np
import onnx
import onnxruntime
import pytest
import sardonyx
from judge import RUNTIME
from onnx import helper

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # onnx makes its cases with NumPy


@pytest.fixture(scope="module")
def table():
    return trial.ulp_table()


def test_functions_of_narrow_types_are_rounded_once(table):
    """Computed in f64 and rounded: the error exceeds half a unit by f64's own error."""
    wrong = {(op, t): row[t][0] for op, row in table.items() for t in ("f16", "bf16", "f32") if row[t][0] > 0.5 + 1e-5}
    assert not wrong
    assert min(row["f32"][0] for row in table.values()) > 0.4  # the points make rounding visible


def test_functions_in_double_precision_are_the_systems(table):
    # Gelu's tails are the complement of erf, whose relative error grows with the square of its operand.
    wrong = {op: row["f64"][0] for op, row in table.items() if row["f64"][0] > (200 if op.startswith("Gelu") else 4)}
    assert not wrong


def test_what_counts_units_sees_one():
    x = np.array([1.0, 3.0], np.float32)
    want = [trial.mpmath.mpf(1), trial.mpmath.mpf(3)]
    assert trial.ulps(x, want, x.dtype) == 0
    assert trial.ulps(np.nextafter(x, np.float32(9)), want, x.dtype) == 1


@pytest.fixture(scope="module")
def found():
    return trial.beside_onnxruntime()


def test_nothing_is_refused_that_onnxruntime_runs(found):
    refused = {k: what for k, (answer, what) in found.items() if answer == "refused by the evaluator"}
    assert not refused


def test_operators_agree_with_onnxruntime_in_every_type(found):
    different = {k: what for k, (answer, what) in found.items() if answer == "different"}
    if onnxruntime.__version__ not in trial.LISTED_FOR:
        pytest.skip(f"the disagreements are listed for onnxruntime {' and '.join(trial.LISTED_FOR)}")
    unknown = {k: what for k, what in different.items() if k not in trial.disagreements()}
    assert not unknown
    assert set(different) == trial.disagreements(), "a disagreement is gone: take it from the list"
    counts = collections.Counter(answer for answer, _ in found.values())
    assert counts["same"] > 800 and len({op for op, _ in found}) > 150


def test_the_page_is_fresh(table):
    """The evaluator's figures only; those of onnxruntime depend on release and machine."""
    text = trial.PAGE.read_text()
    functions = text.partition("## Operators")[0].splitlines()
    for op, row in table.items():
        (line,) = [line for line in functions if line.startswith(f"| {op} | ")]
        cells = [cell.split()[0] for cell in line.split("|")[2:-1]]
        assert cells[:3] == [f"{row[t][0]:.2f}" for t in ("f16", "bf16", "f32")]
    for (op, types), verdict in trial.DISAGREEMENTS.items():
        assert f"| {op} | {', '.join(types)} | {verdict} |" in text


SPECIAL = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    3.0,
    -3.0,
    1e-40,
    -1e-40,
    3e38,
    -3e38,
    100.0,
    -100.0,
]
# Functions of one operand, with attributes at which they degenerate.
FUNCTIONS = [
    (op, {})
    for op in "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Gelu HardSwish IsInf IsNaN Log".split()
]
FUNCTIONS += [
    (op, {}) for op in "Mish Neg Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh".split()
]
FUNCTIONS += [
    (op, {"alpha": a})
    for op in ("Celu", "Elu", "HardSigmoid", "LeakyRelu", "Selu", "ThresholdedRelu")
    for a in (1.0, -1.0, 0.0)
]
FUNCTIONS += [
    ("Gelu", {"approximate": "tanh"}),
    ("Selu", {"gamma": 0.0}),
    ("Shrink", {"lambd": 0.0, "bias": 1.0}),
    ("Shrink", {"lambd": -1.0}),
]


def beside_onnxruntime(op, attributes, value):
    port = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], **attributes)], "g", [port], [onnx.ValueInfoProto(name="y")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return sardonyx.evaluate(model, {"x": value})["y"], session.run(None, {"x": value})[0]


@pytest.mark.parametrize(("op", "attributes"), FUNCTIONS, ids=str)
def test_functions_of_nan_infinities_and_zeros_are_those_of_onnxruntime(op, attributes):
    special = np.array(SPECIAL, np.float32)
    if op == "Erf" and RUNTIME < (1, 27):  # there, it is 1 of NaN
        special = special[~np.isnan(special)]
    ours, theirs = beside_onnxruntime(op, attributes, special)
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_short_windows_are_those_of_onnxruntime(op, periodic):
    for size in (1, 2, 3):
        ours, theirs = beside_onnxruntime(op, {"periodic": periodic}, np.array(size))
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
