"""sardonyx.profile: time in onnxruntime by node, module and source line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from onnx import TensorProto, helper
from sardonyx._models import profile as _profile


@pytest.fixture
def given_times(monkeypatch):
    """A node takes 9 microseconds less its place in the graph, whatever the machine does; events keep their order."""
    counted = _profile._times

    def lengthened(event):
        """A thousand times later; what contains others still ends after them."""
        contains = event["args"]["op_name"] in _profile._CONTAINERS
        length = 1_000 * event["dur"] + 999 if contains else 9 - int(event["args"]["node_index"])
        return event | {"ts": 1_000 * event["ts"], "dur": length}

    monkeypatch.setattr(_profile, "_times", lambda events, *rest: counted([lengthened(e) for e in events], *rest))


def net(x, w):
    def step(carry, row):
        return jnp.tanh(carry @ w + row), carry.sum()

    last, sums = jax.lax.scan(step, x[0], x)
    return last @ w, sums


def exported(tmp_path):
    path = tmp_path / "net.onnx"
    sardonyx.to_onnx(net, [("T", 37), (37, 37)], return_mode="file", output_path=str(path))
    return path


def test_time_by_line_and_operator(tmp_path, given_times):
    path = exported(tmp_path)
    found = sardonyx.profile(path, input_shapes={"x": (53, 37)}, runs=3)
    assert found.runs == 3 and found.seconds > 0 and found.nodes[0].seconds >= found.nodes[-1].seconds
    by_line = found.by("line")
    here = {line.partition(":")[2].split(" ")[0]: line for line in by_line if "net" in line}
    source = open(__file__).read().splitlines()
    inside = str(1 + next(i for i, line in enumerate(source) if "return jnp.tanh" in line))
    assert inside in here, by_line  # the body of the scan
    # The body runs 53 times, so it takes longer than the product behind it.
    after = str(1 + next(i for i, line in enumerate(source) if "return last @" in line))
    assert by_line[here[inside]] > by_line[here[after]]
    assert sum(found.by("operator").values()) == pytest.approx(sum(n.seconds for n in found.nodes))
    assert {"Scan", "MatMul"} <= set(found.by("operator")) or {"Scan", "Gemm"} <= set(found.by("operator"))
    assert all(n.seconds >= 0 for n in found.nodes)
    assert "ms per run" in str(found) and "other ms" in found.table("operator", 3, against=found)


def test_names_that_onnxruntime_changes():
    """onnxruntime fuses Conv and Relu and changes the layout; the time still goes to a node of the model."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 23, 29])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    w = helper.make_tensor("w", TensorProto.FLOAT, [32, 16, 3, 3], np.ones(32 * 16 * 9, np.float32))
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    nodes[0].metadata_props.add(key="namespace", value="Net/conv")
    graph.node[0].CopyFrom(nodes[0])
    found = sardonyx.profile(helper.make_model(graph, opset_imports=model.opset_import, ir_version=10), runs=1)
    slowest = found.nodes[0]
    assert slowest.op == "Conv" and slowest.name in ("conv", "y"), found.nodes
    assert found.by("module").keys() <= {"Net/conv", "(unknown)"}


def test_places_and_results_with_the_same_name(given_times):
    """onnxruntime calls nodes without a name by their place, and results of other nodes may be called so."""
    value = helper.make_tensor_value_info
    first, second = (
        helper.make_node("MatMul", [a, w], [b]) for a, w, b in (("x", "w", "MatMul_1"), ("MatMul_1", "v", "MatMul_0"))
    )
    w = helper.make_tensor("w", TensorProto.FLOAT, [7, 11], np.ones(7 * 11, np.float32))
    v = helper.make_tensor("v", TensorProto.FLOAT, [11, 13], np.ones(11 * 13, np.float32))
    x, y = value("x", TensorProto.FLOAT, [5, 7]), value("MatMul_0", TensorProto.FLOAT, [5, 13])
    graph = helper.make_graph([first, second], "g", [x], [y], [w, v])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    found = sardonyx.profile(model, runs=3)
    assert {n.name: n.seconds for n in found.nodes} == pytest.approx({"MatMul_1": 9e-6, "MatMul_0": 8e-6})  # by result
    assert found._times[0] == pytest.approx([9e-3, 8e-3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_shapes": {"y": (3,)}}, "no input 'y'\n.*its inputs are x, w"),
        ({"input_shapes": ["x:3"]}, "input_shapes are a mapping of inputs to shapes"),
        ({"inputs": {"z": 3}}, "no input 'z'"),
        ({"runs": 0}, "runs=0\n.*at least 1"),
        ({"providers": ["NoSuchProvider"]}, "no NoSuchProvider here\n.*it has: .*CPU"),
        ({"inputs": {"x": np.zeros(3)}}, "does not run the model"),
    ],
)
def test_bad_input(tmp_path, options, message):
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.profile(exported(tmp_path), **options)


def test_command(tmp_path):
    path = exported(tmp_path)
    path_of_python = {"PYTHONPATH": str(Path(sardonyx.__file__).parents[1])}

    def run(*arguments):
        return subprocess.run(arguments, capture_output=True, text=True, check=False, env=os.environ | path_of_python)

    command = [sys.executable, "-m", "sardonyx", "profile", str(path), "--input-shape", "x:5,37", "--runs", "1"]
    table = run(*command, "--by", "operator").stdout
    assert "Scan" in table and "share" in table
    told = json.loads(run(*command, str(path), "--json").stdout)
    assert len(told) == 2 and told[0]["schema"] == 1 and told[1]["nodes"][0]["seconds"] > 0
    before = set(os.listdir(tmp_path))
    lost = run(*command[:4], str(tmp_path / "no.onnx"))
    assert lost.returncode == 1 and "there is no file" in lost.stderr and "Traceback" not in lost.stderr
    assert set(os.listdir(tmp_path)) == before
    text = tmp_path / "a.npz"
    text.write_text("no arrays")
    bad = run(*command, "--input", str(text))
    assert bad.returncode == 1 and "expected an .npz file" in bad.stderr and "Traceback" not in bad.stderr


def test_without_onnxruntime(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = tmp_path / "a.onnx"
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [])), path)
    with pytest.raises(sardonyx.Error, match="onnxruntime is not installed\n.*pip install"):
        sardonyx.profile(path)


def test_fused_nodes_without_names_have_the_lines_of_the_first():
    def net(x, a, b, c):
        h = jax.nn.relu(x @ a + 1)
        h = jax.nn.relu(h @ b + 2)
        return h @ c + 3

    model = sardonyx.to_onnx(net, [("B", 97), (97, 89), (89, 83), (83, 79)])
    assert [n.op_type for n in model.graph.node] == ["Gemm", "Relu", "Gemm", "Relu", "Gemm"]
    found = sardonyx.profile(model, runs=5)
    first = Path(__file__).read_text().splitlines().index("        h = jax.nn.relu(x @ a + 1)") + 1
    lines = {n.name: (n.op, *n.lines) for n in found.nodes}
    place = "test_profile.py:{} "
    named = [r for n in model.graph.node if n.op_type == "Gemm" for r in n.output]
    assert [lines[n][0] for n in named] == ["FusedGemm", "FusedGemm", "Gemm"]
    assert all(any(line.startswith(place.format(first + i)) for line in lines[n]) for i, n in enumerate(named))
