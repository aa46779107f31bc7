"""The documentation site: its parts, and the whole, built strictly, where `make docs` has made its environment."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts" / "pages"))

import build_site  # noqa: E402
from docs_site import catalogues, check, drawing, graphs, interfaces  # noqa: E402

BEFORE = """graph(x: f32[B,3], c: bool[]) {
  w = f32[3]{0.5...}
  %0 = Neg(x)  // f32[B,3]
  y, z = If<then_branch=graph() {
    a = Add(%0, w)  // f32[B,3]
    return a, x
  }, else_branch=graph() {
    d = Sin(x)  // f32[B,3]
    return d, d
  }>(c)  // f32[B,3], f32[B,3]
  t = concat(axis=i32 0, values=(y, z))  // f32[B,3]
  %"a//b" = Cast<to=10>(t)  // f16[B,3]
  return out: f16[B,3] = %"a//b", x
}
"""
AFTER = "graph(x: f32[B,3], c: bool[]) {\n  %0 = Neg(x)  // f32[B,3]\n  return %0\n}\n"


def test_graphs_are_read():
    graph, functions = graphs.read_model(BEFORE + "\nfunction custom::twice(a) {\n  b = Mul(a, a)\n  return b\n}\n")
    assert graph.inputs == [("x", "f32[B,3]"), ("c", "bool[]")] and graph.constants == {"w": "f32[3]{0.5...}"}
    assert [n.op for n in graph.nodes] == ["Neg", "If", "concat", "Cast"]
    branch = graph.nodes[1]
    assert branch.results == ["y", "z"] and branch.types == ["f32[B,3]", "f32[B,3]"]
    assert [(name, [n.op for n in b.nodes]) for name, b in branch.bodies] == [
        ("then_branch", ["Add"]),
        ("else_branch", ["Sin"]),
    ]
    assert drawing.operands_of(graph.nodes[2]) == ["y", "z"] and drawing.captured(graph) == {"%0", "w", "a", "x", "d"}
    assert graph.results == [("out", '%"a//b"'), ("x", "x")]
    assert [n.op for n in functions["custom::twice"].nodes] == ["Mul"]


def test_boxes_say_what_a_node_does():
    graph, _ = graphs.read_model(BEFORE)
    neg, branch, concat, cast = graph.nodes
    assert drawing.lines_of(neg, {}) == [] and drawing.lines_of(concat, {}) == ["axis 0, values ·"]
    assert drawing.lines_of(cast, {}) == ["to f16"]
    assert drawing.lines_of(branch.bodies[0][1].nodes[0], graph.constants) == ["·, [0.5...]"]
    for constant, short in (("i64[2]{-1,2}", "[-1,2]"), ("f32 0.5", "0.5"), ("f32[7,5]{1,2,3,4,5,6,7}", "f32[7,5]")):
        assert drawing.shortened(constant) == short


@pytest.mark.parametrize(
    "before, after, marked",
    [
        (
            "a = Neg(x)\n  b = Exp(a)\n  return b",
            "a = Exp(x)\n  b = Neg(a)\n  return b",
            ["Neg", "Exp"],
        ),  # as they are wired
        ("a = Neg(x)\n  return a", "b = Neg(x)\n  return a = b", ["= a"]),
        ("a = Neg(x)\n  return a", "a = Neg(x)\n  info a: f32[3]\n  return a", ["= a"]),
        ("a = Neg(x)\n  b = Exp(x)\n  return a, b", "b = Exp(x)\n  a = Neg(x)\n  return a, b", ["no. 1", "no. 2"]),
        ("a = Neg(x)\n  return a", "a = Neg(x)\n  return a", []),
    ],
)
def test_changes_that_no_operator_shows_are_marked(before, after, marked):
    (picture, _), _ = drawing.dots(*(f"graph(x: f32[3]) {{\n  {body}\n}}\n" for body in (before, after)))
    lines = [line for line in picture.splitlines() if "class=changed" in line]
    assert len(lines) == len(marked) and all(word in line for word, line in zip(marked, lines, strict=True))


def test_inputs_that_go_are_marked():
    texts = (
        "graph(x: f32[3], y: f32[3]) {\n  a = Neg(x)\n  return a\n}\n",
        "graph(x: f32[3]) {\n  a = Neg(x)\n  return a\n}\n",
    )
    (before, after), _ = drawing.dots(*texts)
    assert [line for line in before.splitlines() if "class=lost" in line] == [
        line for line in before.splitlines() if "label=<y" in line
    ]
    assert "class=lost" not in after and "class=lost" not in drawing.dots(*texts, mark=False)[0][0]


def test_only_what_changed_is_marked():
    (before, after), sizes = drawing.dots(BEFORE, AFTER)
    assert sizes == [6, 1]
    marked = Counter(line.partition("class=")[2].split(",")[0] for line in before.splitlines() if "label=<" in line)
    assert marked["kept"] == 1 and marked["changed"] == 5  # Neg stays
    assert "class=changed" not in after and "class=kept" in after
    # No edge is written within a cluster: it would draw its ends into it.
    assert "->" not in before[: before.rindex("}", 0, before.index("->"))]
    assert before.index("->") > before.rindex("subgraph")


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_drawings_follow_the_colors_of_the_page():
    texts = drawing.dots(BEFORE, AFTER)[0]
    before, after = drawing.svgs(texts)
    for svg in (before, after):
        assert svg.startswith("<svg viewBox=") and "\n" not in svg
        assert not any(word in svg for word in (" id=", " fill=", " stroke=", "font-family", "<title", "<!--"))
    assert before.count('class="node') == 10  # six nodes, two inputs, two results
    assert "then_branch" in before and "Neg" in after and 'class="node changed"' in before


def test_links_of_a_page_are_rewritten(monkeypatch):
    staged = {"docs/guide/jax.md": "guide/jax.md", "CONTRIBUTING.md": "contributing.md"}
    sources = {"src/passes/onnx/fuse/fuse_gelu.cc": "passes/onnx/fuse_gelu.md"}
    text = (
        "[a](guide/jax.md#modules) [jax.md](guide/jax.md) [b](../CONTRIBUTING.md) `[c](none.md)` [d](https://x/y)\n"
        "[e](../src/passes/onnx/fuse/fuse_gelu.cc) [f](../Makefile)\n```\n[g](none.md)\n```\n"
    )
    for name in ("SARDONYX_REPOSITORY", "GITHUB_REPOSITORY", "GITHUB_SHA"):
        monkeypatch.delenv(name, raising=False)
    got = build_site.Links(staged, sources).rewrite(text, "docs/README.md", "index.md")
    assert got == (
        "[a](guide/jax.md#modules) [Exporting JAX functions](guide/jax.md) [b](contributing.md) `[c](none.md)` [d](https://x/y)\n"
        "[e](passes/onnx/fuse_gelu.md) f\n```\n[g](none.md)\n```\n"
    )
    monkeypatch.setenv("SARDONYX_REPOSITORY", "https://host/owner/name")
    assert "[f](https://host/owner/name/blob/main/Makefile)" in build_site.Links(staged, sources).rewrite(
        text, "docs/README.md", "index.md"
    )
    with pytest.raises(ValueError, match="there is no docs/none.md"):
        build_site.Links(staged, sources).rewrite("[a](none.md)", "docs/README.md", "index.md")


def test_the_navigation_is_the_list_of_pages():
    index = "# A\n\n## Start\n\n- [From JAX](start/jax.md): five minutes.\n\n## Inside\n\nText.\n\n- [Changes](../CHANGELOG.md)\n"
    tabs = build_site.navigation(index, {"docs/start/jax.md": "start/jax.md", "CHANGELOG.md": "changelog.md"})
    assert tabs == (
        "  - Start:\n      - index.md\n      - From JAX: start/jax.md\n  - Inside:\n      - Changes: changelog.md\n"
    )


def test_help_texts_become_lists():
    text = (
        "Make it smaller\nUsage: sardonyx optimize [OPTIONS] models...\n\nPositionals:\n  models TEXT ... REQUIRED    ONNX models\n\n"
        "Options:\n  -h,--help                   Print this\n  --verify TEXT:{off,model}=off\n"
        "                              Evaluate <x>\n                              and `compare`\n"
    )
    lines = "\n".join(catalogues.help_lines(text))
    assert "Make it smaller." in lines and "sardonyx optimize [OPTIONS] models..." in lines
    assert "<dt><code>-h,--help</code></dt><dd>Print this</dd>" in lines
    assert (
        "<dt><code>--verify TEXT:{off,model}=off</code></dt><dd>Evaluate &lt;x&gt; and <code>compare</code></dd>"
        in lines
    )
    after = catalogues.help_lines(
        "Usage: x\n\nOptions:\n  -h         Print this\n\nExit codes: 0 done; 1\nnot.\nMore.\n"
    )
    assert after[-7:] == [
        "<dt><code>-h</code></dt><dd>Print this</dd>",
        "</dl>",
        "",
        "Exit codes: 0 done; 1 not.",
        "",
        "More.",
        "",
    ]
    parsed = "\n".join(
        catalogues.help_lines(
            "usage: sardonyx convert [-h]\n                f\n\noptions:\n  -i SPEC, --input SPEC\n                        one\n"
        )
    )
    assert "<dt><code>-i SPEC, --input SPEC</code></dt><dd>one</dd>" in parsed


def test_headers_become_pages():
    text = (
        "// About it.\n#pragma once\n\n#include <string>\n\nnamespace sardonyx {\n\n// -----\n// Graphs\n\n// Two words.\nclass A {\n public:\n"
        "  int f() { return 1; }\n\n private:\n  int secret_;\n};\n\n// Adds.\nint add(int a, int b);\n\n}  // namespace sardonyx\n"
    )
    page = interfaces.header_page("a", text, "About it.")
    assert "## Graphs" in page and "### A\n\nTwo words." in page and "### add\n\nAdds." in page
    assert "secret_" not in page and "namespace" not in page and "int f() { return 1; }" in page


@pytest.mark.parametrize("header", interfaces.headers(ROOT))
def test_every_public_type_has_a_heading(header):
    path = ROOT / "include" / "sardonyx" / f"{header}.h"
    page = interfaces.header_page(header, path.read_text(), catalogues.comment_of(path))
    types = [line.split()[1].rstrip("{") for line in path.read_text().splitlines() if line.startswith(("class ", "struct ")) and line.endswith("{")]  # fmt: skip
    missing = [t for t in types if f"### {t}\n" not in page and " final " not in t]
    assert not missing


PAGE = "<html><body><article>{} one two three four five six seven eight nine ten</article></body></html>"


@pytest.mark.parametrize(
    "content, fault",
    [
        ('<a href="b.html#there">b</a><a id="x" href="#x"></a><img src="c.svg">', ""),
        ('<a href="none.html">b</a>', "links to none.html, which is not there"),
        ('<a href="b.html#gone">b</a>', "links to b.html#gone: no such place"),
        ('<a href="#gone">b</a>', "links to #gone: no such place"),
        ('<img src="none.svg">', "loads none.svg, which is not there"),
        ('<img src="https://elsewhere/a.png">', "loads https://elsewhere/a.png"),
        ('<script src="//elsewhere/a.js"></script>', "loads //elsewhere/a.js"),
        ('<link rel="stylesheet" href="https://elsewhere/a.css">', "loads https://elsewhere/a.css"),
        ('<i id="x"></i><i id="x"></i>', "has the id 'x' twice"),
    ],
)
def test_faults_of_a_site_are_found(content, fault, tmp_path):
    (tmp_path / "a.html").write_text(PAGE.format(content))
    (tmp_path / "b.html").write_text(PAGE.format('<h2 id="there">t</h2>'))
    (tmp_path / "c.svg").write_text("<svg/>")
    assert check.faults(tmp_path) == ([f"a.html {fault}"] if fault else [])
    (tmp_path / "a.css").write_text("@import 'https://elsewhere/b.css'; a { background: url(data:x) }")
    assert "a.css loads https://elsewhere/b.css" in check.faults(tmp_path)


def test_pages_without_text_are_faults(tmp_path):
    assert check.faults(tmp_path) == [f"there are no pages in {tmp_path}"]
    (tmp_path / "a.html").write_text(
        "<article><script>one two three four five six seven eight nine ten</script></article>"
    )
    assert check.faults(tmp_path) == ["a.html has no text without scripts"]


def test_the_site_is_whole(tmp_path):
    """Strict, so every link and anchor leads somewhere and nothing comes from elsewhere; every pass and primitive has its page and drawing."""
    python, command = ROOT / "build/docs-venv/bin/python", ROOT / "build/release/sardonyx"
    if not python.exists() or not command.exists() or shutil.which("dot") is None:
        pytest.skip("needs what `make docs` sets up")
    done = subprocess.run(
        [python, ROOT / "scripts/pages/build_site.py", "--out", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = catalogues.passes_told(command)
    for about in told["passes"]:
        page = (tmp_path / "passes" / about["dialect"] / f"{about['name']}.html").read_text()
        assert page.count("<figure><figcaption>") == 2 and page.count("<svg viewBox=") == 2, about["name"]
    assert '<span class="k">graph</span>' in (tmp_path / "reference" / "text_form.html").read_text()
    catalogue = (tmp_path / "generated" / "catalogue.html").read_text()
    assert all(f'href="../passes/{p["dialect"]}/{p["name"]}.html"' in catalogue for p in told["passes"])
    primitives = (tmp_path / "generated" / "primitives.html").read_text()
    made = catalogues.lowerings(ROOT).keys()
    for name in {
        n for n in catalogues.primitive_rows(ROOT).keys() | made if "_" not in n or n.replace("_", "-") not in made
    }:
        assert (tmp_path / "primitives" / f"{name}.html").exists() and f'href="../primitives/{name}.html"' in primitives
    assert (
        "<strong>JAX</strong> 1 node" in (tmp_path / "primitives/sqrt.html").read_text()
    )  # no case: it stands alone in a program
    options = (tmp_path / "options.html").read_text()
    assert all(
        word in options
        for word in (
            "--fold-budget",
            "--precision",
            "--provenance",
            "outline_functions</a>.min_nodes",
        )
    )
    operators = (tmp_path / "operators.html").read_text()
    assert all(
        f"<td>{op}</td>" in operators for op in ("LayerNormalization", "TreeEnsemble", "conv", "coreml_update_state")
    )
    assert '<a href="passes/onnx/fuse_gelu.html">' in operators
    python_page = (tmp_path / "python/index.html").read_text()
    assert all(name in python_page for name in ("sardonyx.to_onnx", "sardonyx.optimize", "sardonyx.compare"))
    compat_page = (tmp_path / "python/compat.html").read_text()
    functions = ("jax2onnx.to_onnx", "onnxsim.simplify", "onnxslim.slim", "coremltools.convert")
    assert all(f'id="sardonyx.compat.{name}"' in compat_page for name in functions)
    index = json.loads((tmp_path / "search/search_index.json").read_text())
    assert any("fuse_gelu" in d["location"] for d in index["docs"])
    # The search of pages that are opened as files: its data as a script, and what stands for the worker.
    assert (tmp_path / "search/search_index.js").exists()
    assert "assets/iframe-worker.js" in (tmp_path / "passes/onnx/fuse_gelu.html").read_text()
