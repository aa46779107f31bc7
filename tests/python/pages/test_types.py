"""Type hints: the package has them for its users, and the stubs of the native module are those of the module."""

import importlib
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import sardonyx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[3]


def script_of(name, monkeypatch):
    for room in ("checks", "tables"):
        monkeypatch.syspath_prepend(ROOT / "scripts" / room)
    return importlib.import_module(name)


def test_stubs_are_fresh(monkeypatch):
    pytest.importorskip("nanobind")
    script = script_of("stubs", monkeypatch)
    kept = {p.name: p.read_text() for p in script.STUBS.glob("*.pyi")}
    assert kept == script.stubs(), "run scripts/tables/stubs.py"


def test_no_imports_go_in_circles(tmp_path, monkeypatch, capsys):
    lint = script_of("lint", monkeypatch)
    assert lint.python_layers(ROOT / "python" / "sardonyx")
    package = tmp_path / "p"
    for folder in (package, package / "one", package / "two"):
        folder.mkdir()
        (folder / "__init__.py").touch()
    for name, text in {
        "one/a.py": "from p.two import b\n",
        "one/c.py": "import typing\nif typing.TYPE_CHECKING:\n    from p.one import a\n",
        "two/b.py": "",
        "two/d.py": "def late():\n    from p.one.c import x\n",
    }.items():
        (package / name).write_text(text)
    assert not lint.python_layers(package) and "p.one" in capsys.readouterr().out  # packages: one -> two -> one
    (package / "two/d.py").write_text("def late():\n    from p.two.e import x\n")
    (package / "two/e.py").write_text("from p.two import d\n")
    assert not lint.python_layers(package) and "p.two.d <- p.two.e" in capsys.readouterr().out
    (package / "two/e.py").write_text("")
    assert lint.python_layers(package)


def test_the_package_is_typed(tmp_path):
    assert (Path(sardonyx.__file__).parent / "py.typed").exists()
    pytest.importorskip("mypy")
    program = tmp_path / "use.py"
    program.write_text(
        "import sardonyx\n"
        "reveal_type(sardonyx.info('a.onnx').nodes)\n"
        "reveal_type(sardonyx.compare('a', 'b').largest_error)\n"
        "sardonyx.optimize('a.onnx', opset='x')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--no-incremental", program],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert 'Revealed type is "int"' in done.stdout or 'Revealed type is "builtins.int"' in done.stdout, done.stdout
    assert 'Revealed type is "float"' in done.stdout or 'Revealed type is "builtins.float"' in done.stdout
    assert 'Argument "opset" to "optimize" has incompatible type "str"' in done.stdout


def test_runs_are_logged(caplog):
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [7]) for n in "xy"]
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Abs", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with caplog.at_level(logging.INFO, logger="sardonyx"):
        sardonyx.optimize(model)
    assert any("2 nodes became 1" in r.getMessage() for r in caplog.records)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="sardonyx"):
        sardonyx.optimize(model)
    assert any("remove_no_ops" in r.getMessage() for r in caplog.records)
    assert np.array_equal(sardonyx.evaluate(model, [np.full(7, -1, np.float32)])["y"], np.ones(7))
    assert onnx.checker.check_model(model) is None


def test_objects_say_what_they_are(tmp_path):
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [7]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert "nodes=1" in repr(sardonyx.info(model)) and "faults=[]" in repr(sardonyx.check(model))
    assert "on 5 inputs" in repr(sardonyx.compare(model, model))
    _, report = sardonyx.optimize(model, return_report=True)
    assert "nodes=1" in repr(report)
