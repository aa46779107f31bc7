"""The benchmarks' own tools: the gate on instructions, the recorded figures, the page and its plots."""

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture(autouse=True)
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))


@pytest.mark.parametrize(("factor", "status"), [(0.9, 0), (1.04, 0), (1.06, 1)])
def test_five_percent_more_instructions_are_a_miss(factor, status, tmp_path, monkeypatch, capsys):
    import instructions

    built = {"compiler": "c", "flags": "f", "machine": "m"}
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps({"built": built, "counts": {"a": 1000, "b": 1000}}))
    monkeypatch.setattr(instructions, "KEPT", kept)
    monkeypatch.setattr(instructions, "paths", lambda tool, folder: {"a": ["a"], "b": ["b"]})
    monkeypatch.setattr(instructions, "count", lambda command: round(1000 * factor) if command == ["a"] else 1000)
    monkeypatch.setattr(instructions, "built_with", lambda tool: built)
    monkeypatch.setattr(instructions.shutil, "which", lambda name: name)
    monkeypatch.setattr(sys, "argv", ["instructions.py", "--out", str(tmp_path)])
    assert instructions.main() == status
    assert ("missed: a: 1,060 instructions" in capsys.readouterr().out) == (status == 1)
    # Counts of another compiler are not compared.
    monkeypatch.setattr(instructions, "built_with", lambda tool: built | {"compiler": "another"})
    assert instructions.main() == 0
    monkeypatch.setattr(sys, "argv", ["instructions.py", "--bless", "--out", str(tmp_path)])
    assert instructions.main() == 0
    assert json.loads(kept.read_text())["counts"] == {"a": round(1000 * factor), "b": 1000}


def test_figures_are_kept_with_what_they_are_of(tmp_path, monkeypatch, capsys):
    import common

    monkeypatch.setattr(sys, "argv", ["/somewhere/scale.py", "--sizes", "3", "--out", "/somewhere/else"])
    assert common.finish(tmp_path, "scale", {"graphs": {}}, ["it is slow"]) == 1
    kept = json.loads((tmp_path / "scale.json").read_text())
    assert kept["command"] == ["scale.py", "--sizes", "3"]
    assert kept["missed"] == ["it is slow"] and kept["commit"] and kept["load"] >= 0
    assert "missed: it is slow" in capsys.readouterr().out


def test_a_process_that_fails_says_why(tmp_path):
    import common

    script = tmp_path / "worker.py"
    script.write_text(
        "import sys, json\nassert sys.argv[2] == 'good', 'a bad one'\nprint('talk')\nprint(json.dumps({'x': 1}))\n"
    )
    assert common.measure(str(script), sys.executable, "good") == {"x": 1}
    assert "a bad one" in common.measure(str(script), sys.executable, "bad")["error"]


def test_a_plot_is_a_picture_of_its_numbers(tmp_path):
    import plots

    groups = {"a & b": {"x": 1.0, "y": 10.0}, "c": {"x": 100.0}}
    shown = plots.bars(tmp_path / "pictures" / "p.svg", "title", "seconds", groups, log=True)
    assert shown == ["![title](pictures/p.svg)", ""]
    root = ElementTree.parse(tmp_path / "pictures" / "p.svg").getroot()
    widths = [
        float(r.get("width")) for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("x") == str(plots.LEFT)
    ]
    bars = sorted(w for w in widths if w != 10)
    assert len(bars) == 3 and bars[2] - bars[1] == pytest.approx(bars[1] - bars[0], abs=0.2)  # each ten times the other
    assert plots.bars(tmp_path / "none.svg", "title", "seconds", {}) == [] and not (tmp_path / "none.svg").exists()
