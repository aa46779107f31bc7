"""What converts to Core ML: nothing is converted wrongly, nine of ten tests of ONNX are right, and the page says so."""

import re

import coreml_reach as reach
import pytest
from judge import OF_JAX

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(OF_JAX < (0, 10), reason="the rows are of newer JAX, the tests of newer onnx"),
]


@pytest.fixture(scope="module")
def newest():
    tests, _ = reach.node_tests()
    return {t.name: reach.outcome(t, reach.NEWEST) for t in tests}


def test_no_operator_converts_wrongly(newest):
    assert {name: o.reason for name, (o, _) in newest.items() if o.kind == "wrong"} == {}


def test_nine_of_ten_tests_are_right(newest):
    right = sum(o.kind == "right" for o, _ in newest.values())
    assert right >= 0.9 * len(newest) and len(newest) > 1500


def test_every_refusal_says_why(newest):
    assert all(o.reason for o, _ in newest.values() if o.kind == "refused")


def test_the_page_has_these_figures(newest):
    (line,) = [x for x in reach.PAGE.read_text().splitlines() if x.startswith(f"| {reach.NEWEST} |")]
    counts = reach.counted(o for o, _ in newest.values())
    found = [int(re.sub(r"[ ,].*", "", cell.strip().replace(",", ""))) for cell in line.split("|")[2:-1]]
    given = sum(o.kind == "right" and not constant for o, constant in newest.values())
    assert found == [given, counts["right"] - given, counts["right"], counts["refused"], counts["wrong"]]


@pytest.mark.slow
@pytest.mark.parametrize("target", reach.TARGETS[:-1])
def test_no_operator_converts_wrongly_for_older_targets(target):
    tests, _ = reach.node_tests()
    outcomes = {t.name: reach.outcome(t, target)[0] for t in tests}
    assert {name: o.reason for name, o in outcomes.items() if o.kind == "wrong"} == {}


@pytest.mark.slow
def test_no_operator_converts_wrongly_at_open_sizes():
    tests, _ = reach.node_tests()
    outcomes = {t.name: reach.outcome_of_open_sizes(t, reach.NEWEST) for t in tests}
    assert {name: o.reason for name, o in outcomes.items() if o is not None and o.kind == "wrong"} == {}


@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_no_function_of_jax_converts_wrongly(precision):
    """A part of the rows; `scripts/pages/coreml_reach_page.py` runs all."""
    rows = {name: o for name, o in reach.sweep_rows(0.04, precision=precision).items() if o is not None}
    wrong = {name: o.reason for name, o in rows.items() if o.kind == "wrong"}
    assert {n: why for n, why in wrong.items() if precision == "f32" or n not in reach.FAR_IN_HALF} == {}
    assert sum(o.kind == "right" for o in rows.values()) > 0.6 * len(rows) > 0


def test_a_wrong_result_is_found():
    import onnx

    test = next(t for t in reach.node_tests()[0] if t.name == "test_add")
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    model.graph.node[0].op_type = "Sub"
    assert reach.run(model, test.inputs, test.results, reach.NEWEST, test.rtol, test.atol).kind == "wrong"
