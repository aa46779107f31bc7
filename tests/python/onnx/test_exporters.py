"""What onnxruntime's quantizer and optimizer write, optimized: the same results, no more nodes than onnxruntime leaves, done in one run.

The part of `make test-exporters` that needs no environment of its own, with onnxruntime as the only rival.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from judge import RUNTIME

EXPORTERS = Path(__file__).resolve().parents[2] / "exporters"
sys.path.append(str(EXPORTERS))
import compare  # noqa: E402
import make_runtime  # noqa: E402
from kept import Folder  # noqa: E402

PAIRS = [(g, w) for g, w in make_runtime.pairs() if w != "blocked" and "fused" not in w]  # these need PyTorch


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    logging.disable(logging.ERROR)
    return Folder(tmp_path_factory.mktemp("exporters"), "runtime")


@pytest.mark.skipif(RUNTIME < (1, 24), reason="its tools write other operators")
@pytest.mark.parametrize(("graph", "way"), PAIRS)
@pytest.mark.filterwarnings("ignore")
def test_what_onnxruntime_writes(folder: Folder, graph: str, way: str) -> None:
    name = f"{graph}.{way}"
    folder.make(name, lambda target: make_runtime.export(graph, way, target))
    assert name not in folder.refused, folder.refused[name]
    tools = {"onnxruntime": compare.Tool("onnxruntime")}
    try:
        row = compare.examine(name, folder.path / f"{name}.onnx", tools, {})
    finally:
        tools["onnxruntime"].stop()
    assert not row.faults and not row.newer and "error" not in row.before
    rival = row.rivals["onnxruntime"]
    assert "error" in rival or row.ours["nodes"] <= rival["nodes"]


def test_lists_name_each_model_once() -> None:
    for path in (EXPORTERS / f"{n}.txt" for n in ("exceptions", "narrow", "newer", "refused")):
        lines = [line.partition(":")[0] for line in path.read_text().splitlines() if line and not line.startswith("#")]
        assert len(lines) == len(set(lines)) and all("/" in line for line in lines)
