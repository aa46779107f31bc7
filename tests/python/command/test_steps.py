"""Watching a run (trace=, debug_dump=) does not change what it writes, and works with every source."""

from __future__ import annotations

import json

import pytest
import sardonyx as package
from command import sardonyx

onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    path = tmp_path_factory.mktemp("steps") / "net.onnx"
    text = "graph(x: f32[4,7]) { h = Neg(Neg(Sin(x)))  s = Sigmoid(h)  y = Mul(h, s)  return y }"
    path.with_suffix(".sx").write_text(f"opset 18\n{text}\n")
    sardonyx("optimize", path.with_suffix(".sx"), "-o", path, "--passes", "none", "--quiet")
    return path


def files_in(folder):
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def labels_in(steps):
    return [label for label, *_ in json.loads(steps.read_text().partition("\n")[2])["steps"]]


def test_steps_and_a_dump_of_several_functions(net, tmp_path):
    """Both at once, from the command and from Python; the package is that of a conversion without them."""
    functions = ["--target", "iOS18", "--function", f"a={net}", "--function", f"b={net}", "--quiet"]
    watched = ["--trace", tmp_path / "steps.sxt", "--debug-dump", tmp_path / "dump"]
    for more in ([], watched):
        sardonyx("convert", "-o", tmp_path / f"plain{len(more)}" / "m.mlpackage", *functions, *more)
    assert files_in(tmp_path / "plain0") == files_in(tmp_path / "plain4")
    assert {p.parent.name for p in (tmp_path / "dump").rglob("*_lowered.sx")} == {"a", "b"}
    package.to_coreml(
        functions={"a": net, "b": net},
        output_path=tmp_path / "python.mlpackage",
        target="iOS18",
        trace=tmp_path / "python.sxt",
    )
    for steps in ("steps.sxt", "python.sxt"):
        labels = labels_in(tmp_path / steps)
        assert labels[0] == "a: as it was" and labels[-1] == "joined", labels
        assert {"a: lowered to Core ML", "b: as it was", "b: lowered to Core ML"} <= set(labels), labels


def test_steps_of_a_model_from_standard_input(net, tmp_path):
    """The one run that writes the model writes its steps."""
    sardonyx("optimize", net, "-o", tmp_path / "plain.onnx", "--quiet", "--trace", tmp_path / "plain.sxt")
    with open(net, "rb") as file:
        sardonyx(
            "optimize", "-", "-o", tmp_path / "piped.onnx", "--quiet", "--trace", tmp_path / "piped.sxt", stdin=file
        )
    assert (tmp_path / "piped.onnx").read_bytes() == (tmp_path / "plain.onnx").read_bytes()
    assert labels_in(tmp_path / "piped.sxt") == labels_in(tmp_path / "plain.sxt") != ["as it was"]


def test_an_export_with_steps_is_the_same_and_names_no_rules(tmp_path):
    jax = pytest.importorskip("jax")

    def forward(x, w):
        return jax.nn.gelu(x @ w)

    for name, more in (("plain", {}), ("traced", {"trace": tmp_path / "s.sxt", "debug_dump": tmp_path / "dump"})):
        path = str(tmp_path / f"{name}.onnx")
        package.to_onnx(forward, ["f32[B,19]", "f32[19,31]"], return_mode="file", output_path=path, **more)
    assert (tmp_path / "plain.onnx").read_bytes() == (tmp_path / "traced.onnx").read_bytes()
    labels = labels_in(tmp_path / "s.sxt")
    assert labels[:2] == ["traced", "lowered"] and any("fuse_gelu" in s for s in labels), labels
    assert sorted(p.name for p in (tmp_path / "dump").iterdir()) == [
        "0_program.sx",
        "1_lowered.sx",
        "2_optimized.sx",
    ]
