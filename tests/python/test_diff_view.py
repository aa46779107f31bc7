"""The commands diff and view, on ONNX models and Core ML packages."""

import json
from html.parser import HTMLParser
from pathlib import Path

import command
import numpy as np
import onnx
import pytest
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
        return run("info", "--text", path).stdout.splitlines()

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


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.targets = set(), set()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.add(attrs["id"])
        if tag == "a":
            self.targets.add(attrs["href"].removeprefix("#"))


def test_a_page(tmp_path):
    a = save(tmp_path / "a.onnx", ["Relu", "Neg"])
    page = tmp_path / "a.html"
    assert run("view", a, "-o", page).returncode == 0
    text = page.read_text()
    links = Links()
    links.feed(text)
    assert links.targets and links.targets <= links.ids
    assert "[1, 1, 1]" in text and "f32[B,3]" in text
    assert "Relu(" in run("view", a).stdout


def test_packages(tmp_path):
    ct = pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")
    import mil_programs as programs

    source, result, page = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage", tmp_path / "page.html"
    programs.save(programs.resnet(), source, ct.target.iOS15)
    assert run("coreml", "optimize", source, "-o", result, "--quiet").returncode == 0
    done = run("coreml", "diff", source, result)
    assert done.returncode == 1 and "batch_norm" in done.stdout
    assert run("coreml", "diff", source, source).returncode == 0
    assert "conv" in run("coreml", "info", source).stdout
    assert run("coreml", "view", source, "-o", page).returncode == 0
    links = Links()
    links.feed(page.read_text())
    assert links.targets <= links.ids and "pad_type=" in page.read_text()


def test_a_page_shows_types_that_can_be_inferred(tmp_path):
    path = save(tmp_path / "a.onnx", ["Relu", "Neg"])
    assert "f32[B,3]" in run("view", path).stdout.splitlines()[-4]
    run("view", path, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert 'class="t">?' not in page and page.count("f32[B,3]") == 4
