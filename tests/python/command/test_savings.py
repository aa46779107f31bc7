"""What `sardonyx optimize` says that each pass saved."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import sardonyx
from command import sardonyx as command
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))


def model_of(nodes, inputs, outputs, constants, opset=20):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [value(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [value(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def gelu(x, y):
    return [
        helper.make_node("Div", [x, "root"], [f"{y}_scaled"]),
        helper.make_node("Erf", [f"{y}_scaled"], [f"{y}_erf"]),
        helper.make_node("Add", [f"{y}_erf", "one"], [f"{y}_shifted"]),
        helper.make_node("Mul", [x, f"{y}_shifted"], [f"{y}_twice"]),
        helper.make_node("Mul", [f"{y}_twice", "half"], [y]),
    ]


HALVES = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}


def gelu_and_more():
    """A Gelu, a branch of nodes that nothing reads, a multiplication by one, and a weight that nothing reads."""
    nodes = [
        helper.make_node("Exp", ["x"], ["unread"]),
        helper.make_node("Add", ["unread", "bias"], ["unread_too"]),
        *gelu("x", "g"),
        helper.make_node("Mul", ["g", "ones"], ["y"]),
    ]
    constants = HALVES | {"ones": np.ones(13, np.float32), "bias": np.ones(13, np.float32)}
    constants["unread_weight"] = np.arange(7, dtype=np.float32)
    return model_of(nodes, {"x": ["B", 13]}, {"y": ["B", 13]}, constants)


def scan():
    """A body that runs 11 times and has a Gelu of its own."""
    one = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [13]) for name in ("s", "e", "s2", "e2")]
    body = helper.make_graph(
        [*gelu("e", "g"), helper.make_node("Add", ["s", "g"], ["s2"]), helper.make_node("Identity", ["g"], ["e2"])],
        "body",
        one[:2],
        one[2:],
    )
    node = helper.make_node("Scan", ["zero", "x"], ["last", "y"], num_scan_inputs=1, body=body)
    constants = HALVES | {"zero": np.zeros(13, np.float32)}
    return model_of([node], {"x": [11, 13]}, {"last": [13], "y": [11, 13]}, constants)


def at_sizes(flops, sizes):
    """The value of an expression in named sizes."""
    functions = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "max": max, "min": min}
    names = set(re.findall(r"[A-Za-z_]\w*", flops)) - functions.keys()
    values = {name: sizes[sum(map(ord, name)) % len(sizes)] for name in names}
    return eval(flops.replace("^", "**"), {"__builtins__": {}}, functions | values)


def rows_of(told):
    rows = [(p["name"], p["saved"]) for p in told["passes"]] + [(s["what"], s) for s in told["saved_beside"]]
    return [(name, s) for name, s in rows if s["nodes"] or s["tensor_bytes"] or s["flops"] != "0"]


def optimized(path, *arguments, name="optimize"):
    (told,) = json.loads(
        command(*name.split(), path, "-o", path.with_name(f"out{path.suffix}"), *arguments, "--json").stdout
    )
    rows = rows_of(told)
    before, after = told["before"], told["after"]
    for key in ("nodes", "tensor_bytes"):
        assert sum(s[key] for _, s in rows) == before[key] - after[key], (key, rows)
    for sizes in ([1], [2, 3, 5], [17, 19]):
        saved = sum(at_sizes(s["flops"], sizes) for _, s in rows)
        assert saved == at_sizes(before["flops"], sizes) - at_sizes(after["flops"], sizes), rows
    assert sum(s["flops_at"] for _, s in rows) == before["flops_at"] - after["flops_at"]
    return told, dict(rows)


def save(model, path):
    onnx.save(model, path)
    return path


def test_each_saving_goes_to_the_pass_that_made_it(tmp_path):
    told, rows = optimized(save(gelu_and_more(), tmp_path / "m.onnx"))
    assert rows["fuse_gelu"] == {"nodes": 4, "tensor_bytes": 12, "flops": "52*B", "flops_at": 52}
    # What nothing read is no pass's merit: two nodes, their bias, a weight. They are not counted as arithmetic.
    beside = {s["what"]: s for s in told["saved_beside"]}
    assert beside.keys() == {"unused from the start"}
    assert (beside["unused from the start"]["nodes"], beside["unused from the start"]["tensor_bytes"]) == (2, 52 + 28)
    ones = rows.keys() - {"fuse_gelu", "unused from the start"}
    assert len(ones) == 1, rows  # the multiplication by one
    (s,) = (rows[name] for name in ones)
    assert (s["nodes"], s["tensor_bytes"], s["flops"]) == (1, 52, "13*B")
    assert (told["before"]["nodes"], told["after"]["nodes"], told["at"]) == (8, 1, "B=1")
    assert (told["before"]["flops"], told["after"]["flops"]) == ("78*B", "13*B")


def test_passes_of_one_sweep_are_told_apart(tmp_path):
    """Each saves what it saves alone: their rules fire in one walk over the graph."""
    nodes = [
        *gelu("x", "a"),
        *gelu("a", "b"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
    ]
    nodes += [helper.make_node("Cast", ["d"], ["y"], to=TensorProto.FLOAT)]
    path = save(model_of(nodes, {"x": ["B", 13]}, {"y": ["B", 13]}, HALVES), tmp_path / "m.onnx")
    _, together = optimized(path)
    assert together["fuse_gelu"] == {"nodes": 8, "tensor_bytes": 12, "flops": "104*B", "flops_at": 104}
    for name, saved in together.items():
        _, alone = optimized(path, "--passes", name)
        assert alone[name] == saved, name
    assert len(together) == 3


def test_arithmetic_in_a_body_counts_for_each_of_its_runs(tmp_path):
    told, rows = optimized(save(scan(), tmp_path / "m.onnx"))
    assert told["before"]["flops_at"] == 11 * 13 * 6
    assert rows["fuse_gelu"]["flops_at"] == 11 * 13 * 4 and rows["fuse_gelu"]["nodes"] == 4
    assert set(rows) <= {"fuse_gelu", "remove_no_ops", "added by the writer"}


@pytest.mark.parametrize("name", ["torch_encoder", "torch_detector"])
@pytest.mark.parametrize(
    "arguments", [(), ("--opset", "23"), ("--input-shape", "batch")], ids=["plain", "opset", "shape"]
)
def test_rows_are_the_difference(tmp_path, name, arguments):
    from torch_graphs import GRAPHS

    path = save(GRAPHS[name](), tmp_path / "m.onnx")
    if arguments == ("--input-shape", "batch"):
        first = onnx.load(path).graph.input[0]
        shape = [d.dim_value or 7 for d in first.type.tensor_type.shape.dim]
        arguments = ("--input-shape", f"{first.name}:{','.join(map(str, shape))}")
    told, rows = optimized(path, *arguments)
    assert len(rows) >= 5
    assert "types that became known" not in rows or arguments  # conversions to another opset infer anew
    info = json.loads(command("info", path.with_name("out.onnx"), "--json").stdout)[0]
    assert (info["work"]["flops"], info["work"]["flops_at"]) == (told["after"]["flops"], told["after"]["flops_at"])


def test_rows_are_the_difference_for_programs_of_jax(tmp_path):
    jax = pytest.importorskip("jax")

    def forward(x, w):
        for _ in range(3):
            h = jax.nn.gelu(x @ w)
            x = (h - h.mean(-1, keepdims=True)) * jax.lax.rsqrt(h.var(-1, keepdims=True) + 1e-5)
        return jax.lax.cond(x.sum() > 0, lambda a: a * 3 * 1, lambda a: jax.numpy.tanh(a) + 0, x)

    path = tmp_path / "m.onnx"
    sardonyx.to_onnx(forward, ["f32[B,19]", "f32[19,19]"], return_mode="file", output_path=str(path), passes="none")
    _, rows = optimized(path)
    assert rows["fuse_layer_normalization"]["nodes"] > 0 and "types that became known" not in rows


def test_parts_that_are_cut_off_are_a_row(tmp_path):
    told, rows = optimized(save(gelu_and_more(), tmp_path / "m.onnx"), "--outputs", "g_twice")
    assert rows["parts that were cut off"]["nodes"] == 4 and told["after"]["nodes"] >= 1
    told, rows = optimized(tmp_path / "m.onnx", "--outputs", "g_twice", "--passes", "none")
    assert [*rows] == ["parts that were cut off"] and told["after"]["nodes"] == 4
    assert (
        "parts that were cut off"
        in command(
            "optimize", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--outputs", "g_twice", "--passes", "none"
        ).stdout
    )


def test_core_ml_programs(tmp_path):
    (tmp_path / "m.sx").write_text(
        """graph mil(x: f32[2,3]) mil_opset "CoreML7" {
  a: f32[2,3] = add(x, f32 0)
  b: f32[2,3] = mul(f32[3]{1...}, a)
  y: f32[2,3] = relu(b)
  return y
}
"""
    )
    (told,) = json.loads(command("optimize", tmp_path / "m.sx", "-o", tmp_path / "m.mlpackage", "--json").stdout)
    rows = dict(rows_of(told))
    assert sum(s["nodes"] for s in rows.values()) == told["before"]["nodes"] - told["after"]["nodes"]
    assert (
        sum(s["tensor_bytes"] for s in rows.values()) == told["before"]["tensor_bytes"] - told["after"]["tensor_bytes"]
    )
    assert rows["noop_elimination"]["flops"] == "12" and told["before"]["flops"] == "18"


def test_a_model_without_work_for_passes(tmp_path):
    nodes = [helper.make_node("Tanh", ["x"], ["y"])]
    path = save(model_of(nodes, {"x": ["B", 13]}, {"y": ["B", 13]}, {}), tmp_path / "m.onnx")
    told, rows = optimized(path)
    assert rows == {} and told["before"]["flops"] == told["after"]["flops"] == "13*B"
    assert "saved by" not in command("optimize", path, "-o", tmp_path / "out.onnx").stdout
    optimized(path, "--passes", "none")


def test_operators_without_a_count_are_told(tmp_path):
    nodes = [helper.make_node("Wild", ["x"], ["a"], domain="wild"), *gelu("a", "y")]
    model = model_of(nodes, {"x": ["B", 13]}, {"y": ["B", 13]}, HALVES)
    model.opset_import.append(helper.make_opsetid("wild", 1))
    path = save(model, tmp_path / "m.onnx")
    (told,) = json.loads(command("optimize", path, "-o", tmp_path / "out.onnx", "--json").stdout)
    assert told["nodes_without_cost"]["before"] >= 1 and told["nodes_without_cost"]["after"] >= 1
    said = command("optimize", path, "-o", tmp_path / "out.onnx", "--input-shape", "x:3,13").stdout
    assert re.search(r"FLOP +39 +39$", said, re.M) and "without the arithmetic of 5 nodes before and 5 after" in said


def test_flops_of_one_side_are_no_change(tmp_path):
    """The sizes of the product are known once the branch is."""
    body = lambda op, inputs, name: helper.make_graph(  # noqa: E731
        [helper.make_node(op, inputs, [name])], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]
    )
    then, other = body("Reshape", ["x", "row"], "t"), body("Identity", ["x"], "e")
    nodes = [
        helper.make_node("If", ["c"], ["h"], then_branch=then, else_branch=other),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    constants = {"c": np.bool_(True), "row": np.int64([1, 13]), "w": np.ones((13, 7), np.float32)}
    model = model_of(nodes, {"x": [13]}, {"y": None}, constants)
    path = save(model, tmp_path / "m.onnx")
    (told,) = json.loads(command("optimize", path, "-o", tmp_path / "out.onnx", "--json").stdout)
    counted = told["nodes_without_cost"]
    rows = [p["saved"] for p in told["passes"]] + told["saved_beside"]
    said = command("optimize", path, "-o", tmp_path / "out.onnx").stdout
    assert counted["before"] > counted["after"] and not re.search(r"^ *FLOP +\d", said, re.M), said
    assert any(r["flops"] is None and r["flops_at"] is None for r in rows)


def test_the_sizes_of_flops_stand_beside_them(tmp_path):
    said = command("optimize", save(gelu_and_more(), tmp_path / "m.onnx"), "-o", tmp_path / "out.onnx").stdout
    assert re.search(r"^ *FLOP .* at B=1$", said, re.M), said


def test_the_table_and_the_result_file(tmp_path):
    """Counting changes nothing: the file is the same as without."""
    path = save(gelu_and_more(), tmp_path / "m.onnx")
    said = command("optimize", path, "-o", tmp_path / "a.onnx").stdout
    assert re.search(r"FLOP +78 +13 +-83.3 %", said)
    assert re.search(r"saved by +nodes +constants +FLOP at B=1", said)
    assert re.search(r"fuse_gelu +4 +12 B +52$", said, re.M) and re.search(
        r"unused from the start +2 +80 B +-$", said, re.M
    )
    command("optimize", path, "-o", tmp_path / "b.onnx", "--quiet")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_reports_in_python_have_a_chart(tmp_path):
    _, report = sardonyx.optimize(gelu_and_more(), count_savings=True, return_report=True)
    rows = dict(report.savings)
    assert rows["fuse_gelu"] == {"nodes": 4, "tensor_bytes": 12, "flops": "52*B", "flops_at": 52}
    assert sum(s["nodes"] for s in rows.values()) == report.before["nodes"] - report.after["nodes"]
    assert (report.before["flops"], report.after["flops"], report.at) == ("78*B", "13*B", "B=1")
    assert re.search(r"fuse_gelu +4 +12 B +52\n", str(report))
    import xml.etree.ElementTree as ElementTree

    shown = report._repr_html_()
    drawing = ElementTree.fromstring(shown[shown.index("<svg") :])
    bars = [float(e.attrib["width"]) for e in drawing if e.tag.endswith("rect")]
    texts = [e.text for e in drawing if e.tag.endswith("text")]
    assert len(bars) == len(rows) and max(bars) == bars[[*rows].index("fuse_gelu")] == 2 * bars[-1]
    assert "fuse_gelu" in texts and "12 B" in texts
    # Nothing is counted unless it is asked for.
    _, report = sardonyx.optimize(gelu_and_more(), return_report=True)
    assert report.savings == [] and "<svg" not in report._repr_html_()
