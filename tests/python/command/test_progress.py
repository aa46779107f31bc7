"""Bars for long work in Python: shown only where they are asked for."""

import io
import sys

import numpy as np
import onnx
import pytest
import sardonyx
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture
def path(tmp_path):
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Exp", ["x"], ["v0"])]
    nodes += [helper.make_node("Identity" if i % 2 else "Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(101)]
    x, y = value("x", TensorProto.FLOAT, [3, 7]), value("v101", TensorProto.FLOAT, [3, 7])
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_nothing_is_printed_unasked(path, capfd):
    sardonyx.optimize(path, path.with_name("out.onnx"), verify="model", count_savings=True)
    sardonyx.profile(path, runs=1)
    sardonyx.info(path), sardonyx.check(path), sardonyx.diff(path, path), sardonyx.compare(path, path)
    sardonyx.to_onnx(lambda x: x + 1, ["f32[3]"])
    sardonyx.explain(lambda x: x + 1, ["f32[3]"])
    assert capfd.readouterr() == ("", "")


def test_a_function_is_told_each_step(path):
    told = []
    sardonyx.optimize(path, path.with_name("out.onnx"), progress=lambda *step: told.append(step))
    assert len(told) > 10 and {total for _, _, total in told} == {told[0][2]}
    assert all(isinstance(what, str) and 0 <= done <= total for what, done, total in told)
    assert "remove_no_ops" in {what for what, _, _ in told} or any("remove" in what for what, _, _ in told)
    told.clear()
    sardonyx.profile(path, runs=3, progress=lambda *step: told.append(step))
    assert told == [("running", i, 5) for i in range(5)]


def test_core_ml_programs_tell_their_steps_and_what_passes_saved(tmp_path, capfd):
    value, weights = helper.make_tensor_value_info, np.random.default_rng(7).standard_normal((7, 11)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    x, y = value("x", TensorProto.FLOAT, [3, 5, 7]), value("y", TensorProto.FLOAT, [3, 5, 11])
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(weights[0], "b")]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], constants), opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )
    package, out = tmp_path / "m.mlpackage", tmp_path / "out.mlpackage"
    sardonyx.to_coreml(model, output_path=package, passes="empty", precision="f32")
    told = []
    _, report = sardonyx.coreml.optimize(
        package, out, count_savings=True, progress=lambda *step: told.append(step), return_report=True
    )
    assert len(told) > 10 and {total for _, _, total in told} == {told[0][2]}
    assert "fuse_matmul_weight_bias" in {what for what, _, _ in told}
    saved = {p["name"]: p["saved"]["nodes"] for p in report.passes if p["saved"]["nodes"]}
    assert saved == {"fuse_matmul_weight_bias": 2, "const_elimination": 2}  # ops and constants
    assert "saved" not in sardonyx.coreml.optimize(package, out, return_report=True).report.passes[0]
    without_path = sardonyx.coreml.optimize(package, progress=lambda *step: told.append(step))
    assert without_path.op_counts()["linear"] == 1
    assert capfd.readouterr() == ("", "")
    with pytest.raises(sardonyx.Error, match="expected True, False, or a function"):
        sardonyx.coreml.optimize(package, tmp_path / "none.mlpackage", progress="yes")
    assert not (tmp_path / "none.mlpackage").exists()


def test_tqdm_shows_the_bar(path, capfd):
    pytest.importorskip("tqdm")
    sardonyx.optimize(path, path.with_name("out.onnx"), progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "m.onnx" in err and "%" in err


def test_without_tqdm_a_line_is_written_over(path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    sardonyx.optimize(path, path.with_name("out.onnx"), progress=True)
    shown = sys.stderr.getvalue()
    assert "m.onnx:" in shown and "%" in shown and "\n" not in shown and shown.endswith("\x1b[2K")
    # Logs and pipes stay clean for work of less than five seconds.
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    sardonyx.optimize(path, path.with_name("out.onnx"), progress=True)
    assert sys.stderr.getvalue() == ""


def test_what_a_function_raises_stops_the_work(path):
    class Enough(Exception):
        pass

    def stop(what, done, total):
        if done > 2:
            raise Enough(what)

    for _ in range(3):
        with pytest.raises(Enough):
            sardonyx.optimize(path, path.with_name("none.onnx"), progress=stop)
        with pytest.raises(Enough):
            sardonyx.profile(path, runs=3, progress=stop)
    assert not path.with_name("none.onnx").exists()
    sardonyx.optimize(path, path.with_name("out.onnx"))


@pytest.mark.parametrize("wrong", ["yes", 1, [print]])
def test_other_values_are_refused(path, wrong):
    with pytest.raises(sardonyx.Error, match="expected True, False, or a function"):
        sardonyx.optimize(path, path.with_name("none.onnx"), progress=wrong)
    assert not path.with_name("none.onnx").exists()
