"""Calls of local functions: each call is typed by its own operands."""

import onnx
import onnx.parser
from sardonyx._sardonyx import infer_types

CALLS = """
<ir_version: 9, opset_import: ["": 18, "f": 1]>
main (float[B,3] x, int64[4,5] i) => (y, z, w) {
    y = f.twice (x)
    z = f.twice (i)
    w = f.soft <axis = 0> (x)
}
<domain: "f", opset_import: ["": 18, "f": 1]>
twice (a) => (c) { b = f.again (a) c = Concat <axis = 0> (b, b) }
<domain: "f", opset_import: ["": 18]>
again (a) => (b) { b = Add (a, a) }
<domain: "f", opset_import: ["": 18]>
soft <axis> (a) => (b) { b = ArgMax <axis: int = @axis, keepdims = 0> (a) }
"""


def infer(text):
    return infer_types(onnx.parser.parse_model(text).SerializeToString())


def test_each_call_has_its_own_types():
    types, messages = infer(CALLS)
    assert messages == []
    assert types["y"] == ("tensor", 1, ["2*B", 3])
    assert types["z"] == ("tensor", 7, [8, 5])


def test_references_stand_for_the_attributes_of_the_call():
    types, _ = infer(CALLS)
    assert types["w"] == ("tensor", 7, [3])
    types, _ = infer(CALLS.replace("axis = 0> (x)", "axis = 1> (x)"))
    assert types["w"] == ("tensor", 7, ["B"])


def test_a_function_that_calls_itself_is_refused():
    _, messages = infer(CALLS.replace("b = Add (a, a)", "b = f.twice (a)"))
    assert any("calls itself" in m for m in messages)


def test_ill_typed_nodes_are_reported_and_the_rest_is_typed():
    types, messages = infer("""
        <ir_version: 9, opset_import: ["": 18]>
        main (float[2,3] x, float[5] b) => (y, z) { y = Add (x, b) z = Relu (x) }
        """)
    assert types["z"] == ("tensor", 1, [2, 3])
    assert types["y"] is None
    assert len(messages) == 1 and messages[0].startswith("Add: shapes do not broadcast: 3 against 5")


def test_sizes_that_overflow_are_reported():
    types, messages = infer("""
        <ir_version: 9, opset_import: ["": 18]>
        main (float[1152921504606846975,1152921504606846975] x) => (y) { y = Flatten <axis = 0> (x) }
        """)
    assert types["y"] is None
    assert len(messages) == 1 and "Flatten" in messages[0]


def test_optional_and_sequence_types_pass_through():
    types, messages = infer("""
        <ir_version: 9, opset_import: ["": 18]>
        main (float[N,3] x, float[2,3] y) => (s, e, c, o, g) {
            s = SequenceConstruct (x, y)
            p = Constant <value = int64 {0}> ()
            e = SequenceAt (s, p)
            c = ConcatFromSequence <axis = 0> (s)
            o = Optional (x)
            g = OptionalGetElement (o)
        }
        """)
    assert messages == []
    assert types["s"] == ("sequence", ("tensor", 1, [None, 3]))
    assert types["e"] == ("tensor", 1, [None, 3])
    assert types["c"] == ("tensor", 1, [None, 3])
    assert types["o"] == ("optional", ("tensor", 1, ["N", 3]))
    assert types["g"] == ("tensor", 1, ["N", 3])
