"""Ctrl-C ends long native work within a second and leaves no files behind."""

import os
import signal
import time

import numpy as np
import onnx
import pytest
import sardonyx
from onnx import TensorProto, helper, numpy_helper

F32 = TensorProto.FLOAT
AFTER = 0.4  # seconds of the process's own time, so that the machine's load does not matter


def model(nodes, x, y, weights=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", F32, x)],
        [helper.make_tensor_value_info(nodes[-1].output[0], F32, y)],
        [numpy_helper.from_array(w, name) for name, w in weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def an_endless_loop():
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]), helper.make_node("Add", ["s", "s"], ["t"])],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("s", F32, [])],
        [info("go", TensorProto.BOOL, []), info("t", F32, [])],
    )
    proto = model([helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)], [], [], [("yes", np.array(True))])
    return lambda: sardonyx.evaluate(proto, {"x": np.float32(1)})


def a_large_product():
    proto = model([helper.make_node("MatMul", ["x", "x"], ["y"])], [4001, 4001], [4001, 4001])
    x = np.ones((4001, 4001), np.float32)
    return lambda: sardonyx.evaluate(proto, {"x": x})


def many_elements():
    proto = model([helper.make_node("Asinh", ["x"], ["y"])], [200_000_000], [200_000_000])
    x = np.ones(200_000_000, np.float32)
    return lambda: sardonyx.evaluate(proto, {"x": x})


def passes_over_a_long_chain():
    names = ["x", *(f"v{i}" for i in range(200_000))]
    kinds = ("Relu", "Neg", "Tanh")
    nodes = [helper.make_node(kinds[i % 3], [names[i]], [names[i + 1]]) for i in range(200_000)]
    onnx.save(model(nodes, [2, 3], [2, 3]), "in.onnx")
    return lambda: sardonyx.optimize("in.onnx", "out.onnx", passes=20 * ["onnx-spec"])


def weights_that_are_computed_while_they_are_written():
    weights = [(f"w{k}", np.full((1999, 1999), k, np.float32)) for k in range(3)]
    nodes, last = [], "x"
    for k in range(3):
        nodes.append(helper.make_node("MatMul", [f"w{k}", f"w{k}"], [f"p{k}"]))
        nodes.append(helper.make_node("Add", [last, f"p{k}"], [f"s{k}"]))
        last = f"s{k}"
    onnx.save(model(nodes, [1999, 1999], [1999, 1999], weights), "in.onnx")
    return lambda: sardonyx.optimize("in.onnx", "out.onnx")


def an_evaluation_beside_passes():
    nodes, last = [], "x"
    for k in range(20):
        nodes += [helper.make_node("Neg", [last], [f"a{k}"]), helper.make_node("Neg", [f"a{k}"], [f"b{k}"])]
        nodes.append(helper.make_node("MatMul", [f"b{k}", "w"], [f"c{k}"]))
        last = f"c{k}"
    onnx.save(model(nodes, [997, 997], [997, 997], [("w", np.ones((997, 997), np.float32))]), "in.onnx")
    return lambda: sardonyx.optimize("in.onnx", "out.onnx", verify="model")


def an_export():
    import jax
    import jax.numpy as jnp

    def program(x):
        for _ in range(2000):
            x = jnp.sin(x) + jnp.cos(x)
        return x

    closed = jax.make_jaxpr(program)(jax.ShapeDtypeStruct((3,), np.float32))
    return lambda: [sardonyx._sardonyx.convert(sardonyx._sardonyx.import_jaxpr(closed)) for _ in range(1000)]


@pytest.mark.parametrize(
    "what",
    [
        an_endless_loop,
        a_large_product,
        many_elements,
        passes_over_a_long_chain,
        weights_that_are_computed_while_they_are_written,
        an_evaluation_beside_passes,
        an_export,
    ],
    ids=lambda f: f.__name__,
)
def test_ctrl_c_ends(what, tmp_path, monkeypatch):
    """Sends the signal by the process's own clock, with Python's handler for Ctrl-C."""
    monkeypatch.chdir(tmp_path)
    work = what()
    (tmp_path / "out.onnx").write_bytes(b"old")
    before = sorted(os.listdir())
    old = signal.signal(signal.SIGPROF, signal.default_int_handler)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, AFTER)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        took = time.process_time() - start
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
    assert took < AFTER + 1
    assert sorted(os.listdir()) == before and (tmp_path / "out.onnx").read_bytes() == b"old"
    # The interrupted object can be used again.
    small = model([helper.make_node("Neg", ["x"], ["y"])], [3], [3])
    assert sardonyx.evaluate(sardonyx.optimize(small), {"x": np.ones(3, np.float32)})["y"].tolist() == [-1, -1, -1]
