"""The page of `sardonyx view`, colored by types and by errors, in a real browser."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from chromium import PROGRAM, Browser  # noqa: E402
from command import sardonyx  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from test_view_page import drawn, open_all, panel, show  # noqa: E402

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs Chromium")
ROOT = Path(__file__).parents[3]
SIZES = {"v": (127, 131), "b": (131,), "w": (131, 67)}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as b:
        b.resize(1280, 800)
        yield b


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        net (float[N, 127] x) => (float[N, 67] y) {
            h = MatMul(x, v)
            s = Add(h, b)
            a = Tanh(s)
            t = MatMul(a, w)
            r = Neg(t)
            k = Shape(r)
            f = Cast<to = 1>(k)
            m = ReduceSum<keepdims = 0>(f)
            y = Add(r, m)
        }""")
    drawn = np.random.default_rng(5)
    for name, shape in SIZES.items():
        weight = (drawn.standard_normal(shape) / 11).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    path = tmp_path_factory.mktemp("precision") / "net.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def run(net):
    """Inputs of one run."""
    path = net.parent / "run.npz"
    np.savez(path, x=np.random.default_rng(7).standard_normal((5, 127)).astype(np.float32))
    return path


def colored(browser, mode):
    """What the legend calls the color of each node, by the name of its first result; and the legend."""
    browser.run(f"sardonyx.setColor({json.dumps(mode)})")
    open_all(browser)
    legend = browser.run("Object.fromEntries(sardonyx.colors.legend().map((l) => [l.color, l.label]))")
    names = browser.run("[...Array(sardonyx.scene.rows).keys()].map((r) => sardonyx.scene.label(r))")
    found = {}
    for box in drawn(browser):
        if box["kind"] == "node":
            found[names[int(box["key"].rpartition("r")[2])]] = legend.get(box["color"], box["color"])
    assert len(found) == len(names)
    return found, list(legend.values())


def test_types_of_results_and_weights(browser, net, tmp_path):
    show(browser, net, page=tmp_path / "net.html")
    assert colored(browser, "dtype")[0] == {
        **dict.fromkeys(["h", "s", "a", "t", "r", "f", "m", "y"], "f32"), "k": "integers",
    }  # fmt: skip
    assert colored(browser, "stored")[0] == {
        **dict.fromkeys(["a", "r", "k", "f", "m", "y"], "none"), "h": "f32", "s": "f32", "t": "f32",
    }  # fmt: skip
    for weights, label in {
        "int8": "int8", "uint8": "int8", "int4": "int4", "uint4": "int4", "f16": "f16", "bf16": "bf16",
    }.items():  # fmt: skip
        small = tmp_path / f"{weights}.onnx"
        sardonyx("optimize", net, "-o", small, "--passes", "none", "--weights", weights, "--quiet")
        show(browser, small, page=tmp_path / "small.html")
        stored, legend = colored(browser, "stored")
        assert stored["h"] == stored["t"] == label and stored["a"] == "none" and stored["s"] == "f32"
        assert label in legend
        results, _ = colored(browser, "dtype")
        assert results["h"] == results["t"] == "f32"
        browser.run("sardonyx.reveal(sardonyx.search('tanh')[0]); sardonyx.search('')")
        assert "weights stored as" not in panel(browser)
        stored_as = weights.replace("uint", "u").replace("int", "i")
        assert f"weights stored as\t{stored_as}\n" in panel_of(browser, "t")


def row_of(browser, result):
    names = browser.run(
        "[...Array(sardonyx.scene.rows).keys()].map((r) => sardonyx.scene.valueNames[sardonyx.scene.firstValue[r]])"
    )
    return names.index(result)


def panel_of(browser, result):
    browser.run(f"sardonyx.reveal({row_of(browser, result)})")
    return panel(browser)


def test_types_in_packages(browser, net, tmp_path):
    """Core ML: weights behind the operators that expand them."""
    for weights, label in {"int8": "int8", "int4": "int4", "palette3": "1 to 6 bits", "sparse": "f16"}.items():
        package = tmp_path / f"{weights}.mlpackage"
        how = ["--weights", weights, "--target", "iOS18", "--size", "N <= 7", "--quiet"]
        sardonyx("convert", net, "-o", package, *how)
        show(browser, package, page=tmp_path / "small.html")
        stored, _ = colored(browser, "stored")
        results, _ = colored(browser, "dtype")
        ops = browser.run(
            "[...Array(sardonyx.scene.rows).keys()].map((r) => [sardonyx.scene.label(r), sardonyx.scene.op(r).name])"
        )
        for name, op in ops:
            if op in ("linear", "matmul"):
                assert stored[name] == label and results[name] == "f16", name
            if op == "tanh":
                assert stored[name] == "none" and results[name] == "f16"


def values_in(path, names, x):
    """What onnxruntime computes for values inside, without its own optimizations."""
    model = onnx.load(path)
    known = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(list(names), {"x": x}), strict=True))


def test_errors_are_those_of_onnxruntime(browser, net, run, tmp_path):
    small = tmp_path / "small.onnx"
    sardonyx("optimize", net, "-o", small, "--passes", "none", "--weights", "int4", "--quiet")
    page = tmp_path / "errors.html"
    command = ["view", small, "--against", net, "--input", run, "-o", page, "--json"]
    (told,) = json.loads(sardonyx(*command).stdout)
    names = ["h", "s", "a", "t", "r", "k", "f", "m", "y"]
    assert set(told["errors"]) == set(names)
    x = np.load(run)["x"]
    before, after = values_in(net, names, x), values_in(small, names, x)
    for name in names:
        expected = np.abs(after[name].astype(float) - before[name]).max() / np.abs(before[name]).max()
        assert told["errors"][name] == pytest.approx(expected, rel=0.02), name
    assert told["errors"]["k"] == 0 < 0.01 < told["errors"]["t"]
    first = page.read_bytes()
    sardonyx(*command)
    assert page.read_bytes() == first

    browser.open(page)
    assert browser.run("window.sardonyxError ?? null") is None and browser.exceptions() == []
    assert browser.run("document.getElementById('color').value") == "error"
    assert "errors against\tnet.onnx" in panel(browser)
    shown = panel_of(browser, "t")
    assert f"error {100 * told['errors']['t']:.2g} %" in shown and "f32[N,67]" in shown
    assert "error 0 %" in panel_of(browser, "k")
    labels, legend = colored(browser, "error")
    assert legend == ["0 %", "0.0001 %", "0.01 %", "1 %", "100 %", "not in the other model"]
    assert labels["k"] == labels["f"] == labels["m"] == "0 %"
    assert all(labels[n] == "not in the other model" for n in labels if n.startswith("DequantizeLinear"))
    assert len([n for n in labels if n.startswith("DequantizeLinear")]) == 2
    shares = [browser.run(f"sardonyx.colors.errorColor({e})") for e in (0, 1e-9, 1e-6, 1e-3, 1, 7, "Infinity")]
    assert len(set(shares)) == 5 and shares[-3:] == [shares[-1]] * 3
    rows = browser.run("sardonyx.scene.rows")
    assert browser.run(
        f"sardonyx.colors.ofRows(0, {rows}) === sardonyx.colors.errorColor({max(told['errors'].values())})"
    )


def test_errors_of_packages(net, run, tmp_path):
    """The same numbers as the evaluator gives for both; against the ONNX model as well."""
    for name, options in {"wide": [], "small": ["--weights", "int4"]}.items():
        how = ["--precision", "f32", "--target", "iOS18", "--size", "N <= 7", "--quiet"]
        sardonyx("convert", net, "-o", tmp_path / f"{name}.mlpackage", *how, *options)
    found = {}
    for against in (tmp_path / "wide.mlpackage", net):
        command = ["view", tmp_path / "small.mlpackage", "--against", against, "--input", run, "--json"]
        (told,) = json.loads(sardonyx(*command, "-o", tmp_path / "page.html").stdout)
        found[str(against)] = told["errors"]
    wide, whole = found.values()
    assert {"s", "a", "t", "y"} <= set(whole)
    for name in ("s", "a", "t", "y"):
        assert wide[name] == pytest.approx(whole[name], rel=1e-3) and wide[name] > 0.001


def test_errors_of_half_precision(tmp_path):
    """Names are spelled as Core ML wants them, and end in _cast_fp16."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        net (float[7] x) => (float[7] y) { z = Relu(x)  w = Mul(z, x)  y = Add(w, x) }""")
    names = {"z": "/a/Relu_output_0", "w": "2/Mul"}
    for node in model.graph.node:
        node.input[:] = [names.get(n, n) for n in node.input]
        node.output[:] = [names.get(n, n) for n in node.output]
    onnx.save(model, tmp_path / "m.onnx")
    sardonyx("convert", tmp_path / "m.onnx", "-o", tmp_path / "half.mlpackage", "--precision", "f16", "--quiet")
    against = ["--against", tmp_path / "m.onnx", "--json", "-o", tmp_path / "page.html"]
    (told,) = json.loads(sardonyx("view", tmp_path / "half.mlpackage", *against).stdout)
    assert {"_a_Relu_output_0_cast_fp16", "var_2_Mul_cast_fp16"} <= set(told["errors"])
    assert all(0 < e < 0.01 for e in told["errors"].values())


def test_what_is_not_finite(browser, tmp_path):
    for name, op in {"a": "Abs", "b": "Neg"}.items():
        model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]>
            net (float[7] x) => (float[7] y) {{ z = {op}(x)  y = Sqrt(z) }}""")
        onnx.save(model, tmp_path / f"{name}.onnx")
    page = tmp_path / "page.html"
    command = ["view", tmp_path / "b.onnx", "--against", tmp_path / "a.onnx", "--input", "x=[1, 2, 3, 4, 5, 6, 7]"]
    (told,) = json.loads(sardonyx(*command, "-o", page, "--json").stdout)
    assert told["errors"] == {"y": None, "z": 2.0}
    browser.open(page)
    assert "error not finite" in panel_of(browser, "y") and "error 200 %" in panel_of(browser, "z")


def test_the_curve_of_max_error(browser, net, run, tmp_path):
    small, report = tmp_path / "small.onnx", tmp_path / "report.json"
    command = ["optimize", net, "-o", small, "--max-error", "1%", "--calibrate", run, "--json"]
    report.write_text(sardonyx(*command).stdout)
    (told,) = json.loads(report.read_text())
    points, chosen = told["precision_curve"], told["precision_chosen"]
    assert len(points) >= 3 and chosen > 0
    show(browser, small, "--report", report, page=tmp_path / "page.html")
    text = panel(browser)
    assert all(p["types"] in text for p in points)
    circles = browser.run("""[...document.querySelectorAll('.curve circle')].map((c) =>
        [Number(c.getAttribute('cx')), Number(c.getAttribute('cy')), c.getAttribute('class'), c.textContent])""")
    assert [c[2] for c in circles] == ["chosen" if i == chosen else "" for i in range(len(points))]
    for (x, y, _, title), p in zip(circles, points, strict=True):
        assert title.startswith(p["types"])
        assert x == pytest.approx(60 + 210 * p["bytes"] / max(q["bytes"] for q in points), abs=0.06)
        assert y == pytest.approx(10 + 120 * (1 - p["error"] / max(q["error"] for q in points)), abs=0.06)
    assert browser.run("document.querySelectorAll('tr.chosen th')[0].textContent") == points[chosen]["types"]
    # Beside the errors of values, which lead to that of the chosen point.
    command = [
        "view",
        small,
        "--against",
        net,
        "--input",
        run,
        "--report",
        report,
        "-o",
        tmp_path / "page.html",
        "--json",
    ]
    (errors,) = json.loads(sardonyx(*command).stdout)
    assert errors["errors"]["y"] == pytest.approx(points[chosen]["error"], rel=1e-3)
    # Without a report there is no drawing.
    show(browser, small, page=tmp_path / "page.html")
    assert browser.run("document.querySelectorAll('.curve').length") == 0


def test_reports_of_several_models(browser, net, tmp_path):
    point = {"types": "f32 <b>", "bytes": 13, "error": 0.5}
    objects = [
        {"output": str(tmp_path / f"{name}.onnx"), "precision_curve": [point, point | {"types": name, "error": None}],
         "precision_chosen": 0} for name in "ab"
    ]  # fmt: skip
    report = tmp_path / "report.json"
    (tmp_path / "b.onnx").write_bytes(net.read_bytes())
    report.write_text(json.dumps(objects))
    show(browser, tmp_path / "b.onnx", "--report", report, page=tmp_path / "page.html")
    assert "f32 <b>" in panel(browser) and "not finite" in panel(browser)
    assert browser.run("document.querySelectorAll('.curve circle').length") == 1  # the other one is infinite
    assert browser.run("document.querySelectorAll('.curve b').length") == 0
    report.write_text(json.dumps(objects[0]))  # one object, as a program may write it
    show(browser, net, "--report", report, page=tmp_path / "page.html")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--against", "NET"], "--against is about a page, and no page is written"),
        (["--report", "REPORT"], "--report is about a page, and no page is written"),
        (["-o", "PAGE", "--seed", "3"], "--seed is for --against"),
        (["-o", "PAGE", "--input", "x=[1]"], "--input is for --against"),
        (["-o", "PAGE", "--against", "NET", "--passes", "onnx"], "leave one out"),
        (["-o", "PAGE", "--against", "NET", "--input", "z=[1]"], "the model has no input 'z'"),
        (["-o", "PAGE", "--against", "NET", "--input", "x=[[1, 2]]"], "expected"),
        (["-o", "PAGE", "--against", "OTHER"], "the model has 1 input, and"),
        (["-o", "PAGE", "--report", "NET"], "is not the JSON that `optimize --json` prints"),
        (["-o", "PAGE", "--report", "REPORT"], "has no errors of an optimization with --max-error"),
        (["-o", "PAGE", "--report", "nowhere.json"], "nowhere.json"),
    ],
)
def test_refused(net, arguments, message, tmp_path):
    other = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        other (float[7] p, float[7] q) => (float[7] y) { y = Add(p, q) }""")
    onnx.save(other, tmp_path / "other.onnx")
    (tmp_path / "report.json").write_text('[{"precision_curve": [{"types": 3}], "precision_chosen": 0}, 5]')
    files = {
        "NET": net,
        "PAGE": tmp_path / "page.html",
        "OTHER": tmp_path / "other.onnx",
        "REPORT": tmp_path / "report.json",
    }
    done = sardonyx("view", net, *[files.get(a, a) for a in arguments], ok=False)
    assert done.returncode in (1, 2) and message in done.stderr and not (tmp_path / "page.html").exists()
    assert done.stderr.startswith("error: ") and done.stderr.count("error: ") == 1


def test_a_report_without_its_model(net, tmp_path):
    point = {"types": "f32", "bytes": 13, "error": 0.5}
    curve = {"precision_curve": [point], "precision_chosen": 0}
    for content in (
        [curve, curve],
        [curve | {"precision_chosen": 1}],
        [curve | {"precision_curve": [point | {"error": "x"}]}],
    ):
        (tmp_path / "report.json").write_text(json.dumps(content))
        done = sardonyx("view", net, "-o", tmp_path / "page.html", "--report", tmp_path / "report.json", ok=False)
        assert (
            done.returncode == 1 and "help: `sardonyx optimize" in done.stderr and not (tmp_path / "page.html").exists()
        )


def test_the_picture_of_the_documentation(browser, net, run, tmp_path):
    """SARDONYX_BLESS=1 makes that in docs/images anew."""
    folder = ROOT / "docs" / "images" if os.environ.get("SARDONYX_BLESS") else tmp_path
    small, report = tmp_path / "small.onnx", tmp_path / "report.json"
    command = ["optimize", net, "-o", small, "--max-error", "1%", "--calibrate", run, "--json"]
    report.write_text(sardonyx(*command).stdout)
    browser.resize(1200, 640)
    try:
        page = tmp_path / "page.html"
        show(browser, small, "--against", net, "--input", run, "--report", report, page=page)
        browser.picture(folder / "seeing_error.png")
    finally:
        browser.resize(1280, 800)
    assert "seeing_error.png" in (ROOT / "docs" / "guide" / "inspect.md").read_text()
    assert (ROOT / "docs" / "images" / "seeing_error.png").exists()
    assert 10_000 < (folder / "seeing_error.png").stat().st_size < 200_000
