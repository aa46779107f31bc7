"""What a file says about where its nodes come from stays with what `optimize` makes of them."""

import json

import numpy as np
import onnx
import pytest
from command import sardonyx as command
from onnx import TensorProto, helper, numpy_helper

TORCH = """File "/home/me/net.py", line {line}, in forward
    return self.act(x)
  File "/usr/lib/python3/site-packages/torch/nn/modules/activation.py", line 712, in forward
    return F.gelu(input, approximate=self.approximate)"""


def gelu(metadata):
    """A Gelu of five nodes, each with metadata(i), then a Tanh with metadata(5)."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Div", ["x", "root"], ["scaled"]),
        helper.make_node("Erf", ["scaled"], ["erf"]),
        helper.make_node("Add", ["erf", "one"], ["shifted"]),
        helper.make_node("Mul", ["x", "shifted"], ["twice"]),
        helper.make_node("Mul", ["twice", "half"], ["g"]),
        helper.make_node("Tanh", ["g"], ["y"]),
    ]
    for i, n in enumerate(nodes):
        for key, text in metadata(i).items():
            n.metadata_props.add(key=key, value=text)
    constants = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    x, y = value("x", TensorProto.FLOAT, ["B", 13]), value("y", TensorProto.FLOAT, ["B", 13])
    graph = helper.make_graph(
        nodes, "net", [x], [y], [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def optimized(tmp_path, metadata, *arguments):
    onnx.save(gelu(metadata), tmp_path / "m.onnx")
    command("optimize", tmp_path / "m.onnx", "-o", tmp_path / "small.onnx", "--quiet", *arguments)
    return onnx.load(tmp_path / "small.onnx")


def where(path, *arguments):
    return json.loads(command("info", path, *arguments, "--json").stdout)[0]["nodes"]


def sardonyx_writes(i):
    return {
        "namespace": "Net/act" if i < 5 else "Net/last",
        "pkg.sardonyx.callsite": f"forward:{41 + i // 2}",
        "pkg.sardonyx.source": f"net.py:{41 + i // 2}",
        "pkg.sardonyx.plugin": "lower_erf" if i == 1 else "lower_elementwise",
        "pkg.sardonyx.rules": "older_pass",
    }


def test_lines_modules_and_lowerings_of_replaced_nodes(tmp_path):
    small = optimized(tmp_path, sardonyx_writes)
    assert [n.op_type for n in small.graph.node] == ["Gelu", "Tanh"]
    (of_gelu,) = where(tmp_path / "small.onnx", "--node", "g")
    assert of_gelu["op"] == "Gelu" and of_gelu["module"] == "Net/act" and of_gelu["rules"] == ["older_pass"]
    assert {(s["file"], s["line"], s["function"]) for s in of_gelu["lines"]} == {
        ("net.py", n, "forward") for n in (41, 42, 43)
    }
    assert set(of_gelu["lowerings"]) == {"lower_erf", "lower_elementwise"}
    assert {n["op"] for n in where(tmp_path / "small.onnx", "--line", "net.py:42")} == {"Gelu"}
    # A node that stays is written as it was, and optimizing again changes nothing.
    metadata = {m.key: m.value for m in small.graph.node[1].metadata_props}
    assert metadata == sardonyx_writes(5)
    command("optimize", tmp_path / "small.onnx", "-o", tmp_path / "again.onnx", "--quiet")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "small.onnx").read_bytes()


def test_stack_traces_of_pytorch(tmp_path):
    optimized(tmp_path, lambda i: {"namespace": "Net/act", "pkg.torch.onnx.stack_trace": TORCH.format(line=41 + i % 2)})
    (of_gelu,) = where(tmp_path / "small.onnx", "--node", "g")
    assert {(s["file"], s["line"], s["function"]) for s in of_gelu["lines"]} == {
        ("net.py", n, "forward") for n in (41, 42)
    }
    assert {n["op"] for n in where(tmp_path / "m.onnx", "--line", "net.py:42")} == {"Erf", "Mul", "Tanh"}
    # Where all frames are PyTorch's, they are told.
    inside = "\n".join(TORCH.format(line=0).splitlines()[2:])
    optimized(tmp_path, lambda i: {"pkg.torch.onnx.stack_trace": inside})
    (of_gelu,) = where(tmp_path / "small.onnx", "--node", "g")
    assert [(s["file"], s["line"]) for s in of_gelu["lines"]] == [("activation.py", 712)]


@pytest.mark.parametrize(
    "text",
    ["", "File", 'File "', 'File "x.py', 'File "x.py", line ', 'File "x.py", line x, in f', 'File "", line 99999999999999, in f',
     "File \"x\", line 1\n" * 10000, "\x00\xff"],
)  # fmt: skip
def test_metadata_that_says_nothing(tmp_path, text):
    """Nothing that stands there stops the passes, and nodes that stay keep it."""
    keys = (
        "pkg.torch.onnx.stack_trace",
        "pkg.sardonyx.callsite",
        "pkg.sardonyx.source",
        "pkg.sardonyx.rules",
        "namespace",
    )
    small = optimized(tmp_path, lambda i: dict.fromkeys(keys, text))
    assert [n.op_type for n in small.graph.node] == ["Gelu", "Tanh"]
    assert {m.key: m.value for m in small.graph.node[1].metadata_props} == dict.fromkeys(keys, text)


def test_other_metadata_makes_no_difference(tmp_path):
    small = optimized(tmp_path, lambda i: {"color": "red"})
    assert not small.graph.node[0].metadata_props and len(small.graph.node[1].metadata_props) == 1
