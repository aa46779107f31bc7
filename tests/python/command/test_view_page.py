"""The page of `sardonyx view`, in a real browser: what is drawn is compared with the model."""

import base64
import collections
import json
import os
import random
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from chromium import PROGRAM, Browser  # noqa: E402
from command import BUILD, sardonyx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as b:
        b.resize(1280, 800)
        yield b


def float_value(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def save(nodes, inputs, outputs, path, constants=(), functions=(), name="net"):
    graph = helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(a, n) for n, a in constants])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("custom", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions)), path)
    return path


def node(op, inputs, outputs, name="", metadata=None, **attributes):
    n = helper.make_node(op, inputs, outputs, name=name, **attributes)
    for key, value in (metadata or {}).items():
        n.metadata_props.add(key=key, value=value)
    return n


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """Layers with module paths, a branch, and a function that is called twice."""
    nodes, last = [], "x"
    for i in range(5):
        origin = {"namespace": f"Net/layers.{i}", "pkg.sardonyx.callsite": f"forward:{41 + i}"}
        for op, inputs, out in (
            ("MatMul", [last, "w"], f"h{i}"),
            ("Add", [f"h{i}", "b"], f"s{i}"),
            ("Tanh", [f"s{i}"], f"t{i}"),
        ):
            nodes.append(node(op, inputs, [out], f"{op.lower()}_{i}", origin))
        last = f"t{i}"
    then = helper.make_graph([node("Neg", [last], ["p"])], "then", [], [float_value("p", "B", 7)])
    other = helper.make_graph(
        [node("Abs", [last], ["q0"]), node("Neg", ["q0"], ["q"])], "other", [], [float_value("q", "B", 7)]
    )
    nodes += [
        node("ReduceSum", [last], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["c"]),
        node("If", ["c"], ["y"], "branch", then_branch=then, else_branch=other),
        helper.make_node("twice", ["y"], ["f0"], domain="custom", name="first"),
        helper.make_node("twice", ["f0"], ["f1"], domain="custom", name="second"),
    ]
    twice = helper.make_function("custom", "twice", ["a"], ["r"], [node("Exp", ["a"], ["e"]), node("Mul", ["e", "a"], ["r"])],
                                 [helper.make_opsetid("", 21)])  # fmt: skip
    constants = [
        ("w", np.linspace(-2, 3, 49, dtype=np.float32).reshape(7, 7)),
        ("b", np.array([1, 2, 3, 5, 7, 11, 13], np.float32)),
        ("zero", np.float32(0)),
    ]
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    return save(nodes, [float_value("x", "B", 7)], [float_value("f1", "B", 7)], path, constants, [twice])


def show(browser, model, *arguments, page=None):
    page = page or Path(model).parent / "page.html"
    sardonyx("view", model, "-o", page, *arguments)
    browser.open(page)
    assert browser.run("window.sardonyxError ?? null") is None
    assert browser.exceptions() == []
    return page


def drawn(browser):
    return browser.run("sardonyx.drawn()")


def open_all(browser):
    browser.run("(() => { for (let i = 0; i < 20 && sardonyx.openLevel(); ++i); sardonyx.fit(); })()")


def nodes_of(graph):
    for n in graph.node:
        yield n
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(a.g)


def test_every_node_is_drawn_once_where_it_is(browser, net):
    show(browser, net)
    open_all(browser)
    titles = collections.Counter(d["title"] for d in drawn(browser) if d["kind"] == "node")
    model = onnx.load(net)
    expected = collections.Counter(n.op_type for n in nodes_of(model.graph))
    expected.update({"Exp": 2, "Mul": 2})  # in both calls of the function
    assert titles == expected
    boxes = {d["key"]: d for d in drawn(browser)}
    assert len(boxes) == len(drawn(browser))
    for key, box in boxes.items():  # inside of what holds it
        outer = boxes.get(key.rpartition("/")[0])
        if outer is None:
            continue
        assert outer["x"] <= box["x"] + 0.01 and box["x"] + box["w"] <= outer["x"] + outer["w"] + 0.01, key
        assert outer["y"] <= box["y"] + 0.01 and box["y"] + box["h"] <= outer["y"] + outer["h"] + 0.01, key
    # Siblings do not overlap, and a node is below those that it reads.
    siblings = collections.defaultdict(list)
    for key, box in boxes.items():
        siblings[key.rpartition("/")[0]].append(box)
    for group in siblings.values():
        for i, a in enumerate(group):
            for b in group[i + 1 :]:
                apart = a["x"] + a["w"] <= b["x"] + 0.1 or b["x"] + b["w"] <= a["x"] + 0.1
                apart = apart or a["y"] + a["h"] <= b["y"] + 0.1 or b["y"] + b["h"] <= a["y"] + 0.1
                assert apart, (a, b)


def test_operands_users_and_types_are_the_models(browser, net):
    show(browser, net)
    model = onnx.load(net)
    told = browser.run("""(() => { const s = sardonyx.scene; const all = [];
      for (let r = 0; r < s.rows; ++r) all.push({op: s.op(r).name,
        inputs: s.inputs(r).map((v) => v >= 0 ? s.valueNames[v] : v < -1 ? s.constant(v).name : ''),
        results: [...Array(s.firstValue[r + 1] - s.firstValue[r]).keys()].map((i) => [s.valueNames[s.firstValue[r] + i],
          s.type(s.firstValue[r] + i), s.users_of(s.firstValue[r] + i).map((u) => s.op(u).name).sort()])});
      return all; })()""")
    by_result = {n["results"][0][0]: n for n in told}
    users = collections.defaultdict(list)
    for n in nodes_of(model.graph):
        for name in n.input:
            users[name].append(n.op_type)
    for n in nodes_of(model.graph):
        got = by_result[n.output[0]]
        assert got["op"] == n.op_type and got["inputs"] == list(n.input), n
        assert got["results"][0][2] == sorted(users[n.output[0]]), n
    assert by_result["h0"]["results"][0][1] == "f32[B,7]" and by_result["c"]["results"][0][1] == "bool[]"
    w = np.linspace(-2, 3, 49, dtype=np.float32).astype(np.float64)
    bars = np.bincount(np.minimum((w + 2) / 5 * 12, 11).astype(int), minlength=12).tolist()
    assert browser.run("sardonyx.scene.constant(sardonyx.scene.inputs(0)[1])") == {
        "name": "w", "type": "f32[7,7]", "bytes": 196, "text": "-2 to 3, mean 0.5", "histogram": bars,
    }  # fmt: skip


def test_copies_are_drawn_once_until_they_are_opened(browser, net):
    show(browser, net)
    browser.run("sardonyx.closeAll()")
    titles = [d["title"] for d in drawn(browser) if d["kind"] == "group"]
    assert any(t.endswith("layers.0 … layers.4 × 5") for t in titles), titles
    (stack,) = [d for d in drawn(browser) if d["title"].endswith("× 5")]
    browser.click(stack["x"] + stack["w"] / 2, stack["y"] + stack["h"] / 2 + toolbar(browser))
    titles = [d["title"] for d in drawn(browser)]
    assert [t for t in titles if t.startswith("layers.")] == [f"layers.{i}" for i in range(5)]


def toolbar(browser):
    return browser.run("document.getElementById('canvas').getBoundingClientRect().top")


def panel(browser):
    return browser.run("document.getElementById('panel').innerText")


def test_search_finds_names_operators_types_and_lines(browser, net):
    show(browser, net)
    for query, count in (
        ("tanh_3", 1),
        ("matmul", 5),
        ("bool[]", 1),
        ("forward:43", 3),
        ("layers.2 add", 1),
        ("no such", 0),
    ):
        assert len(browser.run(f"sardonyx.search({json.dumps(query)})")) == count, query
    browser.run("sardonyx.search(''); document.activeElement.blur()")
    browser.key("/")
    browser.type("tanh_3")
    browser.key("Enter")
    text = panel(browser)
    assert text.startswith("Tanh") and "tanh_3" in text and "forward:44" in text and "Net/layers.3" in text
    selected = browser.run("sardonyx.painter.selected")
    (box,) = [d for d in drawn(browser) if d["key"] == selected]
    assert 0 < box["x"] and box["x"] + box["w"] < 1280 and 0 < box["y"] < 800
    # Links lead to the producer, and from there to a user.
    browser.run("document.querySelector('#panel button.link').click()")
    assert panel(browser).startswith("Add")
    browser.run("[...document.querySelectorAll('#panel button.link')].at(-1).click()")
    assert panel(browser).startswith("Tanh")


def test_keys_move_open_and_close(browser, net):
    show(browser, net)
    browser.run("sardonyx.closeAll(); document.activeElement.blur()")
    before = len(drawn(browser))
    browser.key("o")
    assert len(drawn(browser)) > before
    browser.key("c")
    assert len(drawn(browser)) == before
    browser.run("sardonyx.reveal(sardonyx.search('greater')[0]); sardonyx.search('')")
    browser.key("ArrowDown")
    assert panel(browser).startswith("If")
    browser.key("Enter")
    assert {"Neg", "Abs"} <= {d["title"] for d in drawn(browser)}
    browser.key("Enter")
    assert "Abs" not in {d["title"] for d in drawn(browser)}
    browser.key("ArrowUp")
    assert panel(browser).startswith("Greater")
    scale = browser.run("sardonyx.painter.camera.scale")
    browser.key("+")
    assert browser.run("sardonyx.painter.camera.scale") == pytest.approx(scale * 1.25)


def test_a_click_selects_what_is_under_it(browser, net):
    show(browser, net)
    open_all(browser)
    top = toolbar(browser)
    boxes = [d for d in drawn(browser) if d["kind"] == "node" and d["title"] in ("Exp", "Greater", "Tanh")]
    assert len(boxes) == 8
    for box in boxes:
        browser.click(box["x"] + box["w"] / 2, box["y"] + box["h"] / 2 + top)
        assert browser.run("sardonyx.painter.selected") == box["key"]
        assert panel(browser).startswith(box["title"])


def test_nothing_is_loaded_from_elsewhere(browser, net):
    show(browser, net)
    assert browser.requests() == []


def test_hostile_texts_stay_texts(browser, tmp_path):
    evil = '</script><img src=x onerror="window.hit=1"><script>window.hit=2</script>\u2028"\\\n'
    nodes = [
        node("Add", [evil + "x", evil + "c"], [evil + "y"], evil, {"namespace": evil + "/a", evil: evil, "pkg.sardonyx.callsite": evil + ":1"}),
        helper.make_node(evil, [evil + "y"], [evil + "z"], domain=evil, name=evil + "2", **{evil: evil}),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, evil, [float_value(evil + "x", 7)], [float_value(evil + "z", 7)],
                              [numpy_helper.from_array(np.ones(7, np.float32), evil + "c")])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(evil, 1)], ir_version=10,
                              producer_name=evil)  # fmt: skip
    onnx.save(model, tmp_path / "evil.onnx")
    show(browser, tmp_path / "evil.onnx")
    open_all(browser)
    browser.run("sardonyx.search('img')")
    for row in range(2):
        browser.run(f"sardonyx.reveal({row})")
        assert "onerror" in panel(browser)
        assert browser.run("[window.hit ?? null, document.querySelectorAll('img, main script').length]") == [None, 0]
    assert browser.requests() == [] and browser.exceptions() == []


def test_a_slider_shows_what_each_step_did(browser, net, tmp_path):
    show(browser, net, "--passes", "onnx", page=tmp_path / "steps.html")
    open_all(browser)
    steps = browser.run("sardonyx.scene.steps")
    assert len(steps) > 1 and steps[0]["label"] == "as it was"
    alive = "[...Array(sardonyx.scene.rows).keys()].filter((r) => sardonyx.scene.isAlive(r)).map((r) => sardonyx.scene.op(r).name)"
    sardonyx("optimize", net, "-o", tmp_path / "small.onnx", "--quiet")
    small = onnx.load(tmp_path / "small.onnx")
    places = {}
    for i, step in enumerate(steps):
        browser.run(f"sardonyx.setStep({i})")
        ops = browser.run(alive)
        assert len(ops) == step["nodes"]
        status = "(r) => sardonyx.scene.status(r)"
        counts = collections.Counter(browser.run(f"[...Array(sardonyx.scene.rows).keys()].map({status})"))
        if i > 0:
            assert [counts[s] for s in ("added", "removed", "changed")] == [
                step[s] for s in ("added", "removed", "changed")
            ]
            assert step["added"] + step["removed"] + step["changed"] > 0 and step["label"]
        for d in drawn(browser):  # what stays does not move
            if d["kind"] == "node":
                assert places.setdefault(d["key"], (d["x"], d["y"])) == (d["x"], d["y"])
    final = [n.op_type for n in nodes_of(small.graph)] + [n.op_type for f in small.functions for n in f.node]
    assert sorted(ops) == sorted(final)
    rules = browser.run(
        "[...Array(sardonyx.scene.rows).keys()].flatMap((r) => sardonyx.scene.origin(r).filter(([k]) => k === 'rule'))"
    )
    assert any(rule.startswith("fuse_gemm") for _, rule in rules), rules
    # By hand: the buttons, and what is written beside the slider.
    browser.run("document.getElementById('earlier').click()")
    assert f"{len(steps) - 1}/{len(steps)}" in browser.run("document.getElementById('what').textContent")


def test_steps_from_a_file_are_those_of_the_passes(browser, net, tmp_path):
    sardonyx("optimize", net, "-o", tmp_path / "small.onnx", "--trace", tmp_path / "steps.sxt", "--json")
    sardonyx("optimize", net, "-o", tmp_path / "plain.onnx", "--quiet")
    assert (tmp_path / "small.onnx").read_bytes() == (tmp_path / "plain.onnx").read_bytes()
    state = """(() => { const s = sardonyx.scene; return s.steps.map((_, i) => { sardonyx.setStep(i); return [s.steps[i].label,
      [...Array(s.rows).keys()].map((r) => [s.status(r), s.op(r).name, s.origin(r)])]; }); })()"""
    show(browser, tmp_path / "steps.sxt", page=tmp_path / "a.html")
    of_file = browser.run(state)
    show(browser, net, "--passes", "onnx", page=tmp_path / "b.html")
    assert of_file == browser.run(state) and len(of_file) > 1
    # In place: the steps are those of the model as it was.
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(net.read_bytes())
    sardonyx("optimize", copy, "-o", copy, "--trace", tmp_path / "again.sxt", "--quiet")
    show(browser, tmp_path / "again.sxt", page=tmp_path / "c.html")
    assert [label for label, _ in browser.run(state)] == [label for label, _ in of_file]
    assert copy.read_bytes() == (tmp_path / "plain.onnx").read_bytes()


def test_steps_of_an_export(browser, tmp_path):
    """From the traced program over nodes to the file, with source lines."""
    jax = pytest.importorskip("jax")
    import sardonyx as package

    def forward(x, w):
        with jax.named_scope("block"):
            h = jax.nn.gelu(x @ w)
        return jax.numpy.tanh(h)

    shapes = ["f32[B,19]", "f32[19,31]"]
    for name, more in (("plain", {}), ("traced", {"trace": tmp_path / "new" / "steps.sxt"})):
        package.to_onnx(forward, shapes, return_mode="file", output_path=str(tmp_path / f"{name}.onnx"), **more)
    assert (tmp_path / "plain.onnx").read_bytes() == (tmp_path / "traced.onnx").read_bytes()
    show(browser, tmp_path / "new" / "steps.sxt", page=tmp_path / "page.html")
    steps = browser.run("sardonyx.scene.steps.map((s) => s.label)")
    assert steps[:2] == ["traced", "lowered"] and any("fuse_gelu" in s for s in steps[2:]), steps
    alive = "[...Array(sardonyx.scene.rows).keys()].filter((r) => sardonyx.scene.isAlive(r)).map((r) => sardonyx.scene.op(r).name)"
    browser.run("sardonyx.setStep(0)")
    assert {"dot_general", "tanh"} <= set(browser.run(alive)) and "Gelu" not in browser.run(alive)
    browser.run("sardonyx.setStep(1)")
    assert "MatMul" in browser.run(alive) and "dot_general" not in browser.run(alive)
    browser.run(f"sardonyx.setStep({len(steps) - 1})")
    assert sorted(browser.run(alive)) == sorted(n.op_type for n in onnx.load(tmp_path / "plain.onnx").graph.node)
    lines = browser.run(
        "[...Array(sardonyx.scene.rows).keys()].map((r) => [sardonyx.scene.op(r).name, sardonyx.scene.origin(r).filter(([k]) => k === 'line').map(([, t]) => t)])"
    )
    here = {op: " ".join(found) for op, found in lines}
    assert re.search(r"test_view_page\.py:\d+ \(.*forward\)", here["dot_general"]), here["dot_general"]
    with pytest.raises(package.Error, match=r"does not end in \.sxt"):
        package.to_onnx(
            forward, shapes, return_mode="file", output_path=str(tmp_path / "x.onnx"), trace=tmp_path / "x.html"
        )
    assert not (tmp_path / "x.onnx").exists() and not (tmp_path / "x.html").exists()


def files_in(folder):
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_steps_to_core_ml(browser, net, tmp_path):
    """From the traced program over ONNX to Core ML; the package is that of a conversion without steps."""
    jax = pytest.importorskip("jax")
    import sardonyx as package

    def forward(x, w):
        return jax.nn.gelu(x @ w)

    inputs, to = [("B", 19), (19, 31)], {"target": "iOS16", "precision": "f32"}
    for name, more in (("plain", {}), ("traced", {"trace": tmp_path / "new" / "steps.sxt"})):
        package.to_coreml(forward, inputs, output_path=tmp_path / name / "m.mlpackage", **to, **more)
    assert files_in(tmp_path / "plain") == files_in(tmp_path / "traced")
    show(browser, tmp_path / "new" / "steps.sxt", page=tmp_path / "page.html")
    steps = browser.run("sardonyx.scene.steps.map((s) => s.label)")
    assert steps[:2] == ["traced", "lowered to ONNX"] and "lowered to Core ML" in steps, steps
    alive = "[...Array(sardonyx.scene.rows).keys()].filter((r) => sardonyx.scene.isAlive(r)).map((r) => sardonyx.scene.op(r).name)"
    for step, op in ((0, "dot_general"), (1, "MatMul"), (steps.index("lowered to Core ML"), "matmul")):
        browser.run(f"sardonyx.setStep({step})")
        assert op in browser.run(alive), (step, op)
    browser.run(f"sardonyx.setStep({len(steps) - 1})")
    counted = package.coreml.load(tmp_path / "plain" / "m.mlpackage").op_counts()
    assert sorted(browser.run(alive)) == sorted(op for op, n in counted.items() for _ in range(n) if op != "const")
    # From a file: the same package, and its own steps.
    for more in ((), ("--trace", tmp_path / "file.sxt")):
        sardonyx("convert", net, "-o", tmp_path / f"file{len(more)}" / "m.mlpackage", "--quiet", *more)
    assert files_in(tmp_path / "file0") == files_in(tmp_path / "file2")
    show(browser, tmp_path / "file.sxt", page=tmp_path / "file.html")
    steps = browser.run("sardonyx.scene.steps.map((s) => s.label)")
    assert steps[0] == "as it was" and "lowered to Core ML" in steps and len(steps) > 3, steps
    for more, message in (
        (("--trace", tmp_path / "x.html"), "does not end in .sxt"),
        (("--trace", tmp_path / "x.sxt", "--target", "iOS9"), "iOS9"),
    ):
        done = sardonyx("convert", net, "-o", tmp_path / "x.mlpackage", *more, ok=False)
        assert message in done.stderr and not (tmp_path / "x.mlpackage").exists() and not (tmp_path / "x.sxt").exists()


def test_time_as_color(browser, net, tmp_path):
    pytest.importorskip("onnxruntime")
    import sardonyx as package

    heavy = [
        node("MatMul", ["x", "w"], ["h"], "product"),
        node("Tanh", ["h"], ["t"], "small"),
        node("Relu", ["t"], ["y"]),
    ]
    model = save(heavy, [float_value("x", 211, 997)], [float_value("y", 211, 499)], tmp_path / "heavy.onnx",
                 [("w", np.ones((997, 499), np.float32))])  # fmt: skip
    found = package.profile(model, runs=3)
    found.page().save(tmp_path / "time.html")
    browser.open(tmp_path / "time.html")
    assert browser.run("window.sardonyxError ?? null") is None and browser.exceptions() == []
    assert browser.run("document.getElementById('color').value") == "=milliseconds"
    times = browser.run(
        "Object.fromEntries([...Array(sardonyx.scene.rows).keys()].map((r) => [sardonyx.scene.op(r).name, sardonyx.scene.measures.milliseconds[r]]))"
    )
    assert times == pytest.approx({n.op: n.seconds * 1e3 for n in found.nodes})
    # Times that do not depend on what else the machine does.
    found._times[0][:] = [5.0, 2.0, 0.5]
    found.page().save(tmp_path / "time.html")
    browser.open(tmp_path / "time.html")
    open_all(browser)
    browser.run("sardonyx.reveal(sardonyx.search('product')[0]); sardonyx.search('')")
    assert "milliseconds" in panel(browser)
    colors = {d["title"]: d["color"] for d in drawn(browser) if d["kind"] == "node"}
    assert len({colors["MatMul"], colors["Tanh"], colors["Relu"]}) == 3
    # Beside another model, and by the command.
    heavy[1].op_type = "Sigmoid"
    other = save(heavy, [float_value("x", 211, 997)], [float_value("y", 211, 499)], tmp_path / "other.onnx",
                 [("w", np.ones((997, 499), np.float32))])  # fmt: skip
    arguments = ["profile", model, other, "-o", tmp_path / "new" / "both.html", "--runs", 1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(["", *map(str, [BUILD / "python"])]).strip(os.pathsep)}
    done = subprocess.run(
        [sys.executable, "-m", "sardonyx", *map(str, arguments)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    browser.open(tmp_path / "new" / "both.html")
    measures = browser.run("Object.keys(sardonyx.scene.measures)")
    assert len(measures) == 2 and all(m.startswith("milliseconds, ") for m in measures)
    assert {"Tanh", "Sigmoid"} <= {d["title"] for d in drawn(browser)}
    wrong = subprocess.run([sys.executable, "-m", "sardonyx", "profile", model, "-o", tmp_path / "page.txt"], env=environment,
                           capture_output=True, text=True)  # fmt: skip
    assert wrong.returncode != 0 and "page.txt.html" in wrong.stderr and not (tmp_path / "page.txt").exists()


def damaged_steps(good):
    """Name -> bytes that no page must come from, and what the error says."""
    line, _, scene = good.partition(b"\n")
    evil = scene.replace(b'"title":"', b'"title":"<script>')
    xxhash = pytest.importorskip("xxhash")

    def named(content, version=1):
        return f"sardonyx steps {version} {len(content)} {xxhash.xxh3_64_hexdigest(content)}\n".encode() + content

    return {
        "empty": (b"", "does not hold the steps"),
        "an ONNX model": (b"\x08\x0a\x12\x04", "does not hold the steps"),
        "cut off": (good[:-7], "is damaged: it has"),
        "only the line": (line + b"\n", "is damaged: it has 0 bytes"),
        "longer": (good + b" ", "is damaged: it has"),
        "one other byte": (good[:-9] + bytes([good[-9] ^ 1]) + good[-8:], "does not have its hash"),
        "no size": (b"sardonyx steps 1\n" + scene, "no size and hash"),
        "no version": (b"sardonyx steps x\n" + scene, "does not hold the steps"),
        "newer": (named(scene, 2), "has version 2 of its format"),
        "huge": (b"sardonyx steps 1 99999999999 0000000000000000\n" + scene, "the limit is 1000000000"),
        "markup": (named(evil), "does not hold the steps"),
        "other JSON": (named(b'{"title": "x"}'), "does not hold the steps"),
        "no JSON": (named(scene[:-1]), "does not hold the steps"),
    }


def test_damaged_steps_are_one_error(net, tmp_path):
    sardonyx("optimize", net, "-o", tmp_path / "small.onnx", "--trace", tmp_path / "steps.sxt", "--quiet")
    good = (tmp_path / "steps.sxt").read_bytes()
    path, page = tmp_path / "bad.sxt", tmp_path / "page.html"
    for name, (content, message) in damaged_steps(good).items():
        path.write_bytes(content)
        done = sardonyx("view", path, "-o", page, ok=False)
        assert done.returncode == 1 and message in done.stderr and done.stderr.count("error:") == 1, (name, done.stderr)
        assert not page.exists(), name
    for arguments, message in (
        (("view", tmp_path / "gone.sxt", "-o", page), "gone.sxt"),
        (("view", tmp_path / "steps.sxt"), "add -o page.html"),
        (("view", tmp_path / "steps.sxt", "-o", page, "--passes", "onnx"), "--passes is for models"),
        (("optimize", net, "-o", tmp_path / "x.onnx", "--trace", tmp_path / "x.html"), "does not end in .sxt"),
        (
            ("optimize", net, tmp_path / "small.onnx", "-o", f"{tmp_path}/many/", "--trace", tmp_path / "x.sxt"),
            "takes one model",
        ),
    ):
        done = sardonyx(*arguments, ok=False)
        assert done.returncode != 0 and message in done.stderr, (arguments, done.stderr)
        assert not page.exists() and not (tmp_path / "x.sxt").exists() and not (tmp_path / "x.onnx").exists()
    with net.open("rb") as stdin:
        sardonyx("optimize", "-", "-o", tmp_path / "x.onnx", "--trace", tmp_path / "x.sxt", stdin=stdin)
    sardonyx("view", tmp_path / "x.sxt", "-o", page)
    for made in (page, tmp_path / "x.sxt", tmp_path / "x.onnx"):
        made.unlink()
    # Of a model that is refused, nothing is written.
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x0a\x12\x04")
    sardonyx("optimize", tmp_path / "bad.onnx", "-o", tmp_path / "x.onnx", "--trace", tmp_path / "x.sxt", ok=False)
    assert not (tmp_path / "x.sxt").exists() and not (tmp_path / "x.onnx").exists()


def test_two_models_in_one_drawing(browser, net, tmp_path):
    model = onnx.load(net)
    model.graph.node[4].op_type = "Sub"
    model.graph.node[5].name = "renamed"
    del model.graph.node[0].metadata_props[:]
    onnx.save(model, tmp_path / "other.onnx")
    done = sardonyx("diff", net, tmp_path / "other.onnx", "-o", tmp_path / "diff.html", "--json", ok=False)
    assert done.returncode == 1, done.stderr
    (told,) = json.loads(done.stdout)
    assert [n["op"] for n in told["nodes"]["removed"]] == ["Add"] and [n["op"] for n in told["nodes"]["added"]] == [
        "Sub"
    ]
    browser.open(tmp_path / "diff.html")
    assert browser.run("window.sardonyxError ?? null") is None
    open_all(browser)
    step = browser.run("sardonyx.scene.steps[1]")
    assert [step["added"], step["removed"], step["changed"]] == [1, 1, len(told["nodes"]["changed"])] == [1, 1, 1]
    colors = {d["title"]: d["color"] for d in drawn(browser) if d["title"] == "Sub"}
    assert colors["Sub"] == "#9fdda0"
    assert "#f2a49c" in {d["color"] for d in drawn(browser) if d["title"] == "Add"}
    browser.run("sardonyx.setStep(0)")
    assert "Sub" not in {d["title"] for d in drawn(browser)}
    assert collections.Counter(d["title"] for d in drawn(browser))["Add"] == 5


def test_programs_of_other_dialects(browser, tmp_path):
    (tmp_path / "j.sx").write_text(
        "graph jax (x: f32[3,5]) {\n  y: f32[3,5] = sin(x)\n  z: f32[3] = reduce_sum<axes=[1]>(y)\n  return z\n}\n"
    )
    show(browser, tmp_path / "j.sx")
    open_all(browser)
    assert {"sin", "reduce_sum"} == {d["title"] for d in drawn(browser) if d["kind"] == "node"}
    save([node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["y"])], [float_value("x", 2, 3, 7, 7)], [float_value("y", 2, 5, 5, 5)],
         tmp_path / "m.onnx", [("w", np.ones((5, 3, 3, 3), np.float32))])  # fmt: skip
    sardonyx("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.mlpackage")
    show(browser, tmp_path / "m.mlpackage", page=tmp_path / "mil.html")
    open_all(browser)
    shown = [d["title"] for d in drawn(browser) if d["kind"] == "node"]
    assert "conv" in shown and "relu" in shown and "const" not in shown
    browser.run("sardonyx.reveal(sardonyx.search('conv')[0])")
    assert "weight" in panel(browser) and "strides" in panel(browser)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """Four layers as JAX writes them, before any pass."""
    jax = pytest.importorskip("jax")
    import sardonyx

    def forward(x, w, v):
        for i in range(4):
            with jax.named_scope(f"layer{i}"):
                h = jax.nn.gelu(x @ w)
                x = x + h @ v
                x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        return jax.lax.cond(x.sum() > 0, lambda a: a * 3, lambda a: jax.numpy.tanh(a), x)

    path = tmp_path_factory.mktemp("decoder") / "decoder.onnx"
    shapes = ["f32[B,19]", "f32[19,31]", "f32[31,19]"]
    sardonyx.to_onnx(forward, shapes, return_mode="file", output_path=str(path), passes="none", model_name="decoder")
    return path


def test_pictures_of_the_documentation(browser, decoder, tmp_path):
    """SARDONYX_BLESS=1 makes those in docs/images anew."""
    folder = ROOT / "docs" / "images" if os.environ.get("SARDONYX_BLESS") else tmp_path
    browser.resize(1200, 640)
    try:
        show(browser, decoder, "--passes", "onnx", page=tmp_path / "steps.html")
        steps = browser.run("sardonyx.scene.steps")
        gelu = browser.run("sardonyx.search('gelu')[0]")
        browser.run(f"sardonyx.search(''); sardonyx.reveal({gelu}); sardonyx.pan(0, 20)")
        browser.picture(folder / "seeing_steps.png")
        text = panel(browser)
        assert text.startswith("Gelu") and "added" in text and "fuse_gelu/tanh" in text and "layer0" in text
        shown = {d["title"]: d["color"] for d in drawn(browser) if d["kind"] == "node"}
        assert shown["Gelu"] == shown["LayerNormalization"] == "#9fdda0" and shown["Tanh"] == "#f2a49c"
        assert steps[-1]["removed"] > steps[-1]["added"] > 0
        sardonyx("optimize", decoder, "-o", tmp_path / "small.onnx", "--quiet")
        show(browser, tmp_path / "small.onnx")
        browser.run(
            "sardonyx.reveal(sardonyx.search('gemm')[1]); sardonyx.search(''); sardonyx.setColor(sardonyx.colors.modes().at(-1)[0])"
        )
        assert panel(browser).startswith("Gemm") and "FLOPs" in panel(browser)
        browser.picture(folder / "seeing_model.png")
        pytest.importorskip("onnxruntime")
        import sardonyx as package

        sizes = {"x": (997, 19), "w": (19, 31), "v": (31, 19)}
        package.profile(tmp_path / "small.onnx", input_shapes=sizes, runs=50, threads=1).page().save(
            tmp_path / "time.html"
        )
        browser.open(tmp_path / "time.html")
        browser.run("sardonyx.openLevel(); sardonyx.reveal(sardonyx.search('gelu')[1]); sardonyx.search('')")
        assert panel(browser).startswith("Gelu") and "milliseconds" in panel(browser)
        browser.picture(folder / "seeing_time.png")
    finally:
        browser.resize(1280, 800)
    for name in ("seeing_steps.png", "seeing_model.png", "seeing_time.png"):
        assert (ROOT / "docs" / "images" / name).exists() and name in (
            ROOT / "docs" / "guide" / "inspect.md"
        ).read_text()
        assert 10_000 < (folder / name).stat().st_size < 200_000


def strokes_of(pdf):
    """What a PDF draws, as the operators of its page."""
    for part in re.finditer(rb"stream\r?\n", pdf):
        try:
            text = zlib.decompressobj().decompress(pdf[part.end() :])
        except zlib.error:
            continue
        if re.search(rb"^[\d. -]+ re$", text, re.MULTILINE):
            return text
    return b""


def test_print(browser, net, tmp_path):
    """The drawing is on paper, in light colors, and the page is as before afterwards."""
    printed = {}
    state = "[sardonyx.painter.isDark, sardonyx.canvas.width, sardonyx.canvas.height, sardonyx.painter.camera.scale]"
    try:
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            show(browser, net, page=tmp_path / "page.html")
            open_all(browser)
            before = browser.run(state)
            assert before[0] == (scheme == "dark")
            pdf = base64.b64decode(
                browser.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]
            )
            assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1
            printed[scheme] = strokes_of(pdf)
            assert browser.run(state) == before
    finally:
        browser.prefer("light")
    boxes = [d for d in drawn(browser) if d["w"] > 5]
    assert len(re.findall(rb"^f\*?$", printed["light"], re.MULTILINE)) >= len(boxes) > 20
    assert printed["dark"] == printed["light"]
    browser.run("sardonyx.reveal(sardonyx.search('tanh_3')[0]); sardonyx.search('')")  # near enough for titles
    pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
    assert strokes_of(pdf).count(b"\nBT\n") > 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_looks(browser, net, tmp_path, scheme):
    browser.prefer(scheme)
    try:
        show(browser, net)
        dark = scheme == "dark"
        assert browser.run("sardonyx.painter.isDark") is dark
        browser.run("sardonyx.paint()")  # on a busy machine, the first frame may not be drawn yet
        pixel = "[...document.getElementById('canvas').getContext('2d').getImageData(2, 2, 1, 1).data]"
        assert (sum(browser.run(pixel)[:3]) < 150) is dark
        assert (
            browser.run("new Set(document.getElementById('map').getContext('2d').getImageData(0, 0, 30, 60).data).size")
            > 5
        )
        for width, height in ((1280, 800), (420, 800)):
            browser.resize(width, height)
            browser.run(
                "new Promise((told) => requestAnimationFrame(() => requestAnimationFrame(told)))"
            )  # of its size
            browser.run("sardonyx.fit()")
            sizes = browser.run(
                "['canvas', 'panel'].map((i) => document.getElementById(i).getBoundingClientRect().toJSON())"
            )
            canvas, side = sizes
            assert (side["top"] >= canvas["bottom"] - 1) is (width < 700), (
                "the panel is below where there is no room beside"
            )
            assert browser.run("document.documentElement.scrollWidth") <= width
            inside = [d for d in drawn(browser) if 0 <= d["x"] and d["x"] + d["w"] <= canvas["width"] + 1]
            assert len(inside) == len(drawn(browser))
            browser.picture(tmp_path / f"{scheme}_{width}.png")
            assert (tmp_path / f"{scheme}_{width}.png").stat().st_size > 5000
    finally:
        browser.prefer("light")
        browser.resize(1280, 800)


def test_colors_follow_the_measure(browser, net):
    show(browser, net)
    open_all(browser)
    modes = browser.run("sardonyx.colors.modes().map(([m]) => m)")
    assert "=FLOPs, open sizes as 1" in modes
    for mode in modes:
        browser.run(f"sardonyx.setColor({json.dumps(mode)})")
        colors = collections.defaultdict(set)
        for d in drawn(browser):
            if d["kind"] == "node":
                colors[d["title"]].add(d["color"])
        if mode in ("kind", "parameters"):  # products have weights of 196 bytes, Tanh has none
            assert colors["MatMul"] != colors["Tanh"] and len(colors["MatMul"]) == 1
        if mode.startswith("=FLOPs"):
            rows = browser.run("Object.values(sardonyx.scene.measures)[0]")
            assert rows[0] == 2 * 7 * 7 and rows[1] == rows[2] == 7, "MatMul, Add and Tanh of [1,7]"
        if mode == "dtype":
            assert colors["Greater"] != colors["MatMul"]


def thousands(path, wild):
    """100,000 nodes: copies of a layer, or without any order."""
    nodes, last = [], "x"
    if wild:
        draw = random.Random(1)
        values = ["x"]
        for i in range(100_000):
            op = draw.choice(["Add", "Mul", "Sub", "Relu", "Sigmoid", "Tanh", "Max"])
            inputs = [
                values[-1 - min(len(values) - 1, int(draw.expovariate(0.1)))]
                for _ in range(1 if op in ("Relu", "Sigmoid", "Tanh") else 2)
            ]
            nodes.append(helper.make_node(op, inputs, [f"v{i}"]))
            values.append(f"v{i}")
        last = values[-1]
    else:
        for layer in range(1000):
            for k in range(100):
                op = ("MatMul", "Add", "Relu", "Mul", "Sigmoid", "Sub")[k % 6]
                name = f"/model/layers.{layer}/block.{k // 10}/{op}_{k}"
                nodes.append(
                    helper.make_node(
                        op, [last] if op in ("Relu", "Sigmoid") else [last, "w"], [f"{name}_output_0"], name=name
                    )
                )
                last = f"{name}_output_0"
    return save(
        nodes, [float_value("x", "B", 7)], [float_value(last, "B", 7)], path, [("w", np.eye(7, dtype=np.float32))]
    )


@pytest.mark.parametrize("wild", [False, True], ids=["layers", "wild"])
def test_large_models_open_at_once(browser, tmp_path, wild):
    model = thousands(tmp_path / "large.onnx", wild)
    seconds = []
    for command in ("view", "optimize"):
        before = os.times()
        sardonyx(command, model, "-o", tmp_path / ("large.html" if command == "view" else "small.onnx"))
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert seconds[0] < 10 * seconds[1]  # as long as optimizing; the square of 100,000 would be minutes
    page = tmp_path / "large.html"
    frame = (ROOT / "viewer" / "page.html").stat().st_size
    assert frame <= 600_000
    assert (page.stat().st_size - frame) / 100_000 <= 150
    opened = []
    for _ in range(3):
        browser.open(page)
        assert browser.run("window.sardonyxError ?? null") is None
        opened.append(browser.seconds())
    assert 0 < min(opened) < 1, opened
    assert browser.run("sardonyx.scene.rows") == 100_000
    browser.run("sardonyx.openLevel(); sardonyx.openLevel(); sardonyx.fit(); sardonyx.zoom(8)")
    frames = browser.run("""new Promise((done) => { const start = performance.now(); let n = 0;
      const next = () => { sardonyx.pan(7, 5); sardonyx.paint(); if (++n < 60) requestAnimationFrame(next);
        else done(1000 * n / (performance.now() - start)); };
      requestAnimationFrame(next); })""")
    assert frames >= 30
    most = browser.run("Math.max(...sardonyx.scene.functions.map(function size(g) { const level = sardonyx.layout.level(g).items; "
                       "return Math.max(level.length, ...level.filter((i) => i.kind === 'group').slice(0, 3).map((i) => size(i.group))); }))")  # fmt: skip
    assert most <= 48 + 32, "no group has more children than a person can follow"


class Frame(HTMLParser):
    inside = None

    def handle_starttag(self, tag, attrs):
        assert tag == "iframe" and self.inside is None
        self.inside = dict(attrs)["srcdoc"]


def test_notebooks_show_models(browser, net, tmp_path):
    import sardonyx

    page = sardonyx.show(net, passes="onnx")
    page.save(tmp_path / "steps.html")
    browser.open(tmp_path / "steps.html")
    assert browser.run("sardonyx.scene.steps.length") > 1 and browser.run("sardonyx.scene.title") == "net.onnx"
    frame = Frame()
    frame.feed(page._repr_html_())
    assert frame.inside == page.html and len(repr(page)) < 100
    model = sardonyx.ir.load(net)
    frame = Frame()
    frame.feed(model._repr_html_())
    (tmp_path / "ir.html").write_text(frame.inside)
    browser.open(tmp_path / "ir.html")
    assert browser.run("sardonyx.scene.rows") == len(list(nodes_of(onnx.load(net).graph))) + 2
    sardonyx.show(net, against=onnx.load(net)).save(tmp_path / "same.html")
    browser.open(tmp_path / "same.html")
    step = browser.run("sardonyx.scene.steps[1]")
    assert (step["added"], step["removed"], step["changed"]) == (0, 0, 0)
    with pytest.raises(sardonyx.Error, match="exclude each other"):
        sardonyx.show(net, passes="onnx", against=net)
    with pytest.raises(sardonyx.Error, match="no pass"):
        sardonyx.show(net, passes="no_such_pass")


def test_a_damaged_model_is_refused_as_check_refuses_it(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x0a\x3a\xff\xff")
    page = sardonyx("view", tmp_path / "bad.onnx", "-o", tmp_path / "p.html", ok=False)
    check = sardonyx("check", tmp_path / "bad.onnx", ok=False)
    assert page.returncode == check.returncode == 1 and page.stderr == check.stderr
    assert not (tmp_path / "p.html").exists()


def test_a_build_without_the_viewer_has_an_empty_page(tmp_path):
    """cmake/embed_page.cmake: with a page, without one, and with the same one again."""
    script = [
        "cmake",
        f"-DTO={tmp_path / 'p.cc'}",
        f"-DPAGE={tmp_path / 'page.html'}",
        "-P",
        ROOT / "cmake" / "embed_page.cmake",
    ]
    main = '#include "view/page_text.h"\n#include <cstdio>\nint main() { std::printf("%zu", sardonyx::view::page_text().size()); }\n'
    (tmp_path / "main.cc").write_text(main)

    def size():
        subprocess.run(script, check=True)
        build = [
            "c++",
            "-std=c++20",
            f"-I{ROOT / 'src'}",
            tmp_path / "main.cc",
            tmp_path / "p.cc",
            "-o",
            tmp_path / "a",
        ]
        subprocess.run(build, check=True)
        return int(subprocess.run([tmp_path / "a"], capture_output=True, check=True).stdout)

    assert size() == 0
    (tmp_path / "page.html").write_bytes(bytes(range(256)))
    assert size() == 256
    before = (tmp_path / "p.cc").stat().st_mtime_ns
    subprocess.run(script, check=True)
    assert (tmp_path / "p.cc").stat().st_mtime_ns == before


def test_passes_need_a_page(net):
    done = sardonyx("view", net, "--passes", "onnx", ok=False)
    assert done.returncode == 2 and "add -o page.html" in done.stderr
    assert BUILD.exists()
