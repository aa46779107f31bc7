"""The commands diff and view, on ONNX models and Core ML packages."""

import json
import os
from pathlib import Path

import command
import numpy as np
import onnx
import pytest
import sardonyx.ir
from onnx import TensorProto, helper


def run(*args):
    return command.sardonyx(*args, ok=False)


def save(path: Path, ops, opset=21, weight=1.0):
    nodes = [helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], name=f"n{i}") for i, op in enumerate(ops)]
    nodes.append(helper.make_node("Mul", [f"v{len(ops)}", "w"], ["y"]))
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["B", 3]) for n in ("v0", "y")]
    w = onnx.numpy_helper.from_array(np.full(3, weight, np.float32), "w")
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


def test_models_that_say_the_same(tmp_path):
    a, b = (save(tmp_path / f"{n}.onnx", ["Relu", "Neg"]) for n in "ab")
    done = run("diff", a, b)
    assert done.returncode == 0 and "the same" in done.stdout
    assert json.loads(run("diff", "--json", a, b).stdout)[0]["same"]


def test_what_tells_models_apart(tmp_path):
    a = save(tmp_path / "a.onnx", ["Relu", "Neg", "Abs"])
    b = save(tmp_path / "b.onnx", ["Relu", "Abs", "Abs"], opset=22)
    done = run("diff", a, b)
    assert done.returncode == 1
    assert "opset of ai.onnx: 21 -> 22" in done.stdout
    told = json.loads(run("diff", "--json", a, b).stdout)[0]
    assert told["ops"] == [{"what": "Abs", "before": "1", "after": "2"}, {"what": "Neg", "before": "1", "after": ""}]
    assert any(line.startswith("- ") and "Neg" in line for line in told["lines"])
    weights = run("diff", a, save(tmp_path / "c.onnx", ["Relu", "Neg", "Abs"], weight=2.0))
    assert weights.returncode == 1 and "+ " in weights.stdout


@pytest.mark.parametrize("seed", range(20))
def test_lines_lead_from_one_text_to_the_other(tmp_path, seed):
    rng = np.random.default_rng(seed)
    names = ["Relu", "Neg", "Abs", "Exp", "Sqrt"]
    a, b = (save(tmp_path / f"{n}.onnx", rng.choice(names, size=rng.integers(1, 30))) for n in "ab")

    def lines(path):
        return str(sardonyx.ir.load(path)).splitlines()

    done = json.loads(run("diff", "--json", a, b).stdout)[0]
    gone = [line[2:] for line in done["lines"] if line[0] == "-"]
    new = [line[2:] for line in done["lines"] if line[0] == "+"]
    first, second = lines(a), lines(b)
    # What is left of either text is the same text.
    for line in gone:
        first.remove(line)
    for line in new:
        second.remove(line)
    assert first == second


def test_packages(tmp_path):
    ct = pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")
    import mil_programs as programs

    source, result = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(programs.resnet(), source, ct.target.iOS15)
    assert run("optimize", source, "-o", result, "--quiet").returncode == 0
    done = run("diff", source, result)
    assert done.returncode == 1 and "batch_norm" in done.stdout
    assert run("diff", source, source).returncode == 0
    assert "conv" in run("info", source).stdout
    text = source.parent / "page.txt"
    assert run("view", source, "-o", text).returncode == 0
    assert "pad_type=" in text.read_text()


def test_a_view_shows_types_that_can_be_inferred(tmp_path):
    path = save(tmp_path / "a.onnx", ["Relu", "Neg"])
    assert "f32[B,3]" in run("view", path).stdout.splitlines()[-4]


def nodes(a, b):
    return json.loads(run("diff", "--json", a, b).stdout)[0]["nodes"]


def labels(list_of):
    return [(n["op"], n["name"]) for n in list_of]


def test_nodes_match_by_what_they_compute(tmp_path):
    """Another exporter's names, and another order where order does not count."""

    def write(path, names, order):
        value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["B", 3]) for n in ("x", "y")]
        made = [
            helper.make_node("Relu", ["x"], [names[0]], name=names[0]),
            helper.make_node("Exp", ["x"], [names[1]], name=names[1]),
            helper.make_node("Sub", [names[0], names[1]], ["y"], name=names[2]),
        ]
        graph = helper.make_graph([made[i] for i in order], "g", value[:1], value[1:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return path

    a = write(tmp_path / "a.onnx", ["p", "q", "r"], [0, 1, 2])
    told = nodes(a, write(tmp_path / "b.onnx", ["other/a", "other/b", "other/c"], [0, 1, 2]))
    assert told == {"same": 3, "moved": [], "changed": [], "removed": [], "added": []}
    told = nodes(a, write(tmp_path / "c.onnx", ["p", "q", "r"], [1, 0, 2]))
    assert told["same"] == 2 and len(told["moved"]) == 1 and not told["changed"] and not told["removed"]


def test_what_changed_in_a_node(tmp_path):
    def write(path, axis=1, w=(1.0, 2.0, 3.0), second="Relu", more=False):
        value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["B", 3]) for n in ("x", "y")]
        made = [
            helper.make_node(second, ["x"], ["r"], name="act"),
            helper.make_node("Mul", ["r", "w"], ["m"], name="scale"),
        ]
        made += [helper.make_node("Neg", ["m"], ["n"], name="extra")] if more else []
        made.append(helper.make_node("Softmax", ["n" if more else "m"], ["y"], name="soft", axis=axis))
        graph = helper.make_graph(
            made, "g", value[:1], value[1:], [onnx.numpy_helper.from_array(np.array(w, np.float32), "w")]
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return path

    a = write(tmp_path / "a.onnx")
    (change,) = nodes(a, write(tmp_path / "b.onnx", axis=0))["changed"]
    assert labels([change["before"], change["after"]]) == [("Softmax", "soft")] * 2 and change["what"] == [
        "axis: 1 -> 0"
    ]
    (change,) = nodes(a, write(tmp_path / "c.onnx", w=(1.0, 2.5, 2.75)))["changed"]
    assert change["what"] == ["constant B: 2 of 3 elements differ, by up to 0.5"] and change["after"]["name"] == "scale"
    told = nodes(a, write(tmp_path / "d.onnx", second="Tanh"))
    assert labels(told["removed"]) == [("Relu", "act")] and labels(told["added"]) == [("Tanh", "act")]
    (change,) = told["changed"]
    assert change["what"] == ["operand A: Relu act -> Tanh act"] and told["same"] == 1
    told = nodes(a, write(tmp_path / "e.onnx", more=True))
    assert labels(told["added"]) == [("Neg", "extra")] and not told["removed"] and told["same"] == 2
    (change,) = told["changed"]
    assert change["what"] == ["operand input: Mul scale -> Neg extra"]
    text = run("diff", a, tmp_path / "e.onnx").stdout
    assert "nodes: 2 same, 0 moved, 1 changed, 0 removed, 1 added" in text and "+ Neg extra" in text


def test_renamed_constants_are_one_line(tmp_path):
    def write(path, names, second=3.0):
        value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["B", 3]) for n in ("x", "y")]
        made = [helper.make_node("Mul", ["x", names[0]], ["m"]), helper.make_node("Add", ["m", names[1]], ["y"])]
        held = [onnx.numpy_helper.from_array(np.full(3, v, np.float32), n) for n, v in zip(names, (2.0, second))]
        graph = helper.make_graph(made, "g", value[:1], value[1:], held)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return path

    a, b = write(tmp_path / "a.onnx", ["w", "b"]), write(tmp_path / "b.onnx", ["onnx::Mul_7", "onnx::Add_9"])
    done = run("diff", a, b)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "renamed: 2 constants: w -> onnx::Mul_7, b -> onnx::Add_9",
        "nodes: 2 same, 0 moved, 0 changed, 0 removed, 0 added",
    ]
    told = json.loads(run("diff", "--json", a, b).stdout)[0]
    assert told["renamed_constants"] == [["w", "onnx::Mul_7"], ["b", "onnx::Add_9"]] and told["lines"] == []
    import sardonyx

    assert sardonyx.diff(a, b).renamed_constants == [("w", "onnx::Mul_7"), ("b", "onnx::Add_9")]
    other = run(
        "diff", a, write(tmp_path / "c.onnx", ["w2", "b2"], second=5.0)
    ).stdout  # one is renamed, one is another
    assert "renamed: 1 constant: w -> w2" in other and "1 changed" in other and "b2" in other


def test_results_show_themselves_in_notebooks(tmp_path):
    import sardonyx

    a = save(tmp_path / "a.onnx", ["Relu", "Neg", "Abs"])
    model = onnx.load(a)
    model.graph.node[1].op_type = "Exp"
    model.graph.node[2].name = "<b>"
    found = sardonyx.diff(a, model)
    assert found.kept == 2 and found.removed == [("Neg", "n1")] and found.added == [("Exp", "n1")] and found.moved == []
    assert found.changed == [(("Abs", "n2"), ("Abs", "<b>"), ["operand X: Neg n1 -> Exp n1"])]
    shown = found._repr_html_()
    assert "nodes: 2 same, 0 moved, 1 changed, 1 removed, 1 added" in shown
    assert "<td>&lt;b&gt;</td>" in shown and "<b>" not in shown and "<td>Neg</td>" in shown
    assert sardonyx.diff(a, a)._repr_html_() == "<p>the models are the same</p>"
    for result in (sardonyx.info(a), sardonyx.check(a), sardonyx.compare(a, a)):
        shown = result._repr_html_()
        assert shown.startswith("<pre") and str(result).splitlines()[0] in shown.replace("&gt;", ">").replace(
            "&lt;", "<"
        )
    _, report = sardonyx.optimize(onnx.load(a), return_report=True)
    assert "became" in report._repr_html_()


def test_bodies_are_compared(tmp_path):
    def write(path, op):
        value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("x", "y", "t", "e")]
        then = helper.make_graph([helper.make_node(op, ["x"], ["t"], name="inner")], "t", [], [value[2]])
        other = helper.make_graph([helper.make_node("Abs", ["x"], ["e"])], "e", [], [value[3]])
        graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=other)], "g",
                                  [value[0], helper.make_tensor_value_info("c", TensorProto.BOOL, [])], [value[1]])  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return path

    told = nodes(write(tmp_path / "a.onnx", "Neg"), write(tmp_path / "b.onnx", "Exp"))
    assert labels(told["removed"]) == [("Neg", "inner")] and labels(told["added"]) == [("Exp", "inner")]
    assert told["same"] == 2 and not told["changed"]


def test_large_models_are_compared_in_seconds(tmp_path):
    ops = ["Relu", "Neg", "Abs", "Tanh", "Exp"] * 20_000
    a = save(tmp_path / "a.onnx", ops)
    ops[50_000] = "Sin"
    b = save(tmp_path / "b.onnx", ops)
    before = os.times().children_user
    told = nodes(a, b)
    seconds = os.times().children_user - before
    assert len(told["removed"]) == len(told["added"]) == 1 and len(told["changed"]) == 1 and told["same"] == 99_999
    assert seconds < 20  # half a second; the square of 100,000 would be minutes


def test_the_source_line_of_a_node(tmp_path):
    metadata = {"namespace": "Net/layer.0", "pkg.sardonyx.callsite": "forward:41; call:7", "pkg.sardonyx.source": "model.py:41; net.py:7",
                "pkg.sardonyx.plugin": "lower_tanh", "pkg.sardonyx.rules": "fuse_a; fuse_b/c"}  # fmt: skip
    path = save(tmp_path / "a.onnx", ["Relu", "Tanh"])
    model = onnx.load(path)
    for key, value in metadata.items():
        model.graph.node[1].metadata_props.add(key=key, value=value)
    onnx.save(model, path)
    (told,) = json.loads(run("info", path, "--node", "n1", "--json").stdout)
    (node,) = told["nodes"]
    lines = [("model.py", 41, "forward"), ("net.py", 7, "call")]
    assert [(s["file"], s["line"], s["function"]) for s in node["lines"]] == lines
    assert (
        node["module"] == "Net/layer.0"
        and node["lowerings"] == ["lower_tanh"]
        and node["rules"] == ["fuse_a", "fuse_b/c"]
    )
    assert node["op"] == "Tanh" and node["results"] == [{"name": "v2", "type": "f32[B,3]"}]
    assert run("info", path, "--node", "v2").stdout.splitlines()[:2] == [
        "n1: Tanh  f32[B,3]",
        "  line      model.py:41 (forward)",
    ]
    for query, count in (("model.py:41", 1), ("src/net.py:7", 1), ("model.py", 1), ("forward:41", 1), (":7", 1)):
        (told,) = json.loads(run("info", path, "--line", query, "--json").stdout)
        assert [n["name"] for n in told["nodes"]] == ["n1"] * count, query
    assert run("info", path, "--line", "model.py").stdout.startswith("n1 ")
    assert "  model.py:41 (forward), net.py:7 (call)" in run("info", path, "--line", "net.py:7").stdout
    done = run("info", path, "--line", "model.py:42")
    assert done.returncode == 1 and "no node comes from model.py:42" in done.stderr
    for query in ("model.py:42", "odel.py:41", "call:41", "Relu"):
        done = run("info", path, "--line", query)
        assert done.returncode == 1 and "no node comes from" in done.stderr and done.stdout == "", query
    assert "does not say where" in run("info", path, "--node", "n0").stdout
    done = run("info", path, "--node", "n11")
    assert (
        done.returncode == 2 and "no node and no result is named 'n11'" in done.stderr and "did you mean" in done.stderr
    )
    for wrong in (["--node"], ["--node", "n1", "--line", "a:1"], ["--line", "a:b"], ["--line", ":"]):
        assert run("info", path, *wrong).returncode == 2, wrong


def test_an_export_tells_the_lines_of_its_nodes(tmp_path):
    pytest.importorskip("jax")
    import jax
    import sardonyx

    def forward(x):
        with jax.named_scope("block"):
            y = jax.numpy.sin(x)
        return jax.numpy.cos(y)

    first = forward.__code__.co_firstlineno
    path = tmp_path / "m.onnx"
    sardonyx.to_onnx(forward, ["f32[3]"], return_mode="file", output_path=str(path))
    for line, op in ((first + 2, "Sin"), (first + 3, "Cos")):
        (told,) = json.loads(run("info", path, "--line", f"{Path(__file__).name}:{line}", "--json").stdout)
        assert [n["op"] for n in told["nodes"]] == [op]
    (node,) = json.loads(run("info", path, "--line", f":{first + 2}", "--json").stdout)[0]["nodes"]
    assert node["module"] == "block" and node["lines"][0]["file"] == Path(__file__).name
