"""Handles of sardonyx.ir while the models behind them merge: see python/native/ir/store.h."""

import gc

import numpy as np
import pytest
from sardonyx import ir


def floats(name):
    return ir.val(name, ir.DataType.FLOAT, [7])


def test_handles_follow_through_every_merge():
    """A value moves from the shared model of loose values to the models of its node, a graph and an ir.Model.
    Handles stay valid."""
    x, w = floats("x"), floats("w")
    x.meta["origin"], w.doc_string = "test", "a weight"
    w.const_value = ir.tensor(np.arange(7, dtype=np.float32))
    first = ir.Node("", "Mul", [x, w], name="first")
    second = ir.Node("", "Add", [first.outputs[0], x], name="second")  # joins two loose nodes
    held = [x, w, first, second, first.outputs[0], second.outputs[0]]

    def check():
        assert first.inputs[0] is x and first.inputs[1] is w and second.inputs[1] is x
        assert first.outputs[0] is held[4] and second.inputs[0] is held[4] and held[4].producer() is first
        assert {id(n) for n in x.consumers()} == {id(first), id(second)}
        assert x.meta["origin"] == "test" and w.doc_string == "a weight"

    check()
    graph = ir.Graph(
        [x], [second.outputs[0]], nodes=[first, second], initializers=[w], name="g", opset_imports={"": 20}
    )
    check()
    assert graph[0] is first and graph.inputs[0] is x and graph.initializers["w"] is w
    model = ir.Model(graph, ir_version=10)
    check()
    assert model.graph is graph and list(map(id, model.graph)) == [id(first), id(second)]


def test_a_handle_that_nobody_holds_is_gone_and_its_value_stays():
    x = floats("x")
    node = ir.Node("", "Neg", [x], name="n")
    graph = ir.Graph([x], [node.outputs[0]], nodes=[node], name="g", opset_imports={"": 20})
    del node
    gc.collect()
    again = graph[0]
    assert again.name == "n" and again.inputs[0] is x and again is graph[0]


def test_what_two_models_own_does_not_mix():
    def model(name):
        x = floats("x")
        n = ir.Node("", "Neg", [x], name=name)
        graph = ir.Graph([x], [n.outputs[0]], nodes=[n], name=name, opset_imports={"": 20})
        return ir.Model(graph, ir_version=10)

    a, b = model("a"), model("b")
    with pytest.raises(ValueError, match="two different models"):
        ir.Node("", "Add", [a.graph.inputs[0], b.graph.inputs[0]])
    assert a.graph[0].name == "a" and b.graph[0].name == "b"
