"""Weights that no pass changes are never copied: the default pipeline runs where there is no memory for a copy."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")
pytest.importorskip("resource", reason="there are no limits of memory here")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
from mil_programs import mb  # noqa: E402
from sardonyx import coreml  # noqa: E402

SIDE = 4096  # a weight has 64 MB

# Allows so many megabytes beyond what the process has now.
LIMIT = """
import re, resource
def limit(megabytes):
    with open("/proc/self/status") as status:
        now = int(re.search(r"VmData:\\s+(\\d+)", status.read()).group(1)) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (now + (megabytes << 20),) * 2)
"""


def network():
    """Two large weights that are read as they are, between ops that passes merge."""
    weights = np.ones((SIDE, SIDE), np.float32), np.full((SIDE, SIDE), 0.5, np.float32)

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, SIDE))], opset_version=ct.target.iOS17)
    def prog(x):
        for w in weights:
            x = mb.linear(x=mb.relu(x=mb.relu(x=x)), weight=w, bias=np.ones(SIDE, np.float32))
        return x

    return prog


def transposing_network():
    """The same weights in PyTorch's spelling: transposed, for a product with a bias."""
    weights = np.ones((SIDE, SIDE), np.float32), np.full((SIDE, SIDE), 0.5, np.float32)

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, SIDE))], opset_version=ct.target.iOS17)
    def prog(x):
        for w in weights:
            y = mb.transpose(x=mb.const(val=w), perm=[1, 0])
            x = mb.add(x=mb.matmul(x=mb.relu(x=mb.relu(x=x)), y=y), y=np.ones(SIDE, np.float32))
        return x

    return prog


def run(code):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run(
        [sys.executable, "-c", LIMIT + code], capture_output=True, text=True, timeout=300, env=environment
    )


IN_MEMORY = """
import sys
sys.path.insert(0, {folder!r})
import test_coreml_weights as here
from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipeline, PassPipelineManager
prog = here.{network}()
pipeline = PassPipeline()
pipeline.remove_passes({{"common::add_fp16_cast", "common::add_int16_cast"}})
here.coreml.apply_pass(prog, "dead_code_elimination")
limit({megabytes})
def weights():
    return [op.weight.val for op in prog.functions["main"].operations if op.op_type == "linear"]
before = weights() or [op.x.val for op in prog.functions["main"].operations if op.op_type == "transpose"]
with here.coreml.native_passes():
    PassPipelineManager.apply_pipeline(prog, pipeline)
assert sum(op.op_type == "relu" for op in prog.functions["main"].operations) == 2
assert all(a is b for a, b in zip(before, weights(), strict=True))
{more}
"""


@pytest.mark.parametrize("network", ["network", "transposing_network"])
def test_in_memory(request, network):
    folder = str(request.path.parent)
    done = run(IN_MEMORY.format(folder=folder, network=network, megabytes=40, more=""))
    assert done.returncode == 0, done.stderr[-2000:]
    # The limit is one: a copy does not fit.
    done = run(IN_MEMORY.format(folder=folder, network=network, megabytes=40, more="weights()[0].copy()"))
    assert done.returncode != 0 and "MemoryError" in done.stderr


ON_FILES = """
from sardonyx import coreml
limit({megabytes})
coreml.optimize({source!r}, {target!r}, passes={passes!r})
"""


@pytest.mark.parametrize("make", [network, transposing_network])
def test_on_files(tmp_path, make):
    source, target = str(tmp_path / "in.mlpackage"), str(tmp_path / "out.mlpackage")
    programs.save(make(), source, ct.target.iOS17)
    done = run(ON_FILES.format(source=source, target=target, passes="default", megabytes=20))
    assert done.returncode == 0, done.stderr[-2000:]
    assert coreml.load(target).op_counts()["relu"] == 2
    assert (tmp_path / "out.mlpackage/Data/com.apple.CoreML/weights/weight.bin").stat().st_size > 8 * SIDE * SIDE


WEIGHT_FILE = "Data/com.apple.CoreML/weights/weight.bin"


@pytest.mark.parametrize("dead", [False, True])
def test_a_file_of_weights_is_copied_in_as_few_pieces_as_it_can_be(tmp_path, dead):
    """Weights of all sizes, of which the passes drop one: the others move, and what stands between them changes."""
    rng = np.random.default_rng(4)
    weights = [rng.standard_normal((8, n), dtype=np.float32) for n in (40_000, 7, 333, 20_011, 5)]

    @mb.program(input_specs=[mb.TensorSpec(shape=(8, 1))], opset_version=ct.target.iOS17)
    def prog(x):
        if dead:
            mb.mul(x=x, y=rng.standard_normal((8, 1001), dtype=np.float32))
        return tuple(mb.mul(x=mb.relu(x=x), y=mb.relu(x=w)) for w in weights)

    source, target = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(prog, str(source), ct.target.iOS17)
    coreml.optimize(source, target, passes=["dead_code_elimination"])
    before, after = (source / WEIGHT_FILE).read_bytes(), (target / WEIGHT_FILE).read_bytes()
    assert (before == after) == (not dead)
    assert len(after) == len(before) - (dead and 64 + 8 * 1001 * 4 + 32)
    x = rng.standard_normal((8, 1), dtype=np.float32)
    results = coreml.load(str(target)).run({"x": x})
    results = list(results.values()) if isinstance(results, dict) else list(results)
    for result, w in zip(results, weights, strict=True):
        np.testing.assert_array_equal(np.asarray(result), np.maximum(x, 0) * np.maximum(w, 0))
