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
import sardonyx  # noqa: E402
from mil_programs import mb  # noqa: E402
from sardonyx import coreml  # noqa: E402

SIDE = 4096  # a weight has 64 MB

# Limits memory to this many megabytes more than the process has now.
LIMIT = """
import re, resource
def limit(megabytes):
    with open("/proc/self/status") as status:
        now = int(re.search(r"VmData:\\s+(\\d+)", status.read()).group(1)) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (now + (megabytes << 20),) * 2)
"""


def network():
    """Two large weights that are used unchanged, between ops that passes merge."""
    weights = np.ones((SIDE, SIDE), np.float32), np.full((SIDE, SIDE), 0.5, np.float32)

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, SIDE))], opset_version=ct.target.iOS17)
    def prog(x):
        for w in weights:
            x = mb.linear(x=mb.relu(x=mb.relu(x=x)), weight=w, bias=np.ones(SIDE, np.float32))
        return x

    return prog


def transposing_network():
    """The same weights as PyTorch writes them: transposed, for a product with a bias."""
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
    # The limit is effective: a copy does not fit.
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


def made(tmp_path, name="in.mlpackage"):
    """A small package that merge_consecutive_relus changes, its weights not among it; and the place of these."""

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 64))], opset_version=ct.target.iOS17)
    def prog(x):
        return mb.linear(
            x=mb.relu(x=mb.relu(x=x)), weight=np.eye(64, dtype=np.float32), bias=np.ones(64, np.float32), name="y"
        )

    package = tmp_path / name
    programs.save(prog, str(package), ct.target.iOS17)
    return package, weights_of(package)


def weights_of(package):
    return package / WEIGHT_FILE


def relus(package):
    return coreml.load(package).op_counts()["relu"]


def test_weights_are_shared_on_request_only(tmp_path):
    source, weights = made(tmp_path)
    before = {p: p.read_bytes() for p in source.rglob("*") if p.is_file()}
    copied, linked = tmp_path / "copied.mlpackage", tmp_path / "linked.mlpackage"
    coreml.optimize(source, copied, passes=["merge_consecutive_relus"])
    assert not weights.samefile(weights_of(copied))
    coreml.optimize(source, linked, passes=["merge_consecutive_relus"], link_weights=True)
    assert weights.samefile(weights_of(linked))
    assert relus(source) == 2 and relus(linked) == relus(copied) == 1
    x = {"x": np.ones((1, 64), np.float32)}
    np.testing.assert_array_equal(coreml.load(linked).run(x)["y"], coreml.load(source).run(x)["y"])
    assert {p: p.read_bytes() for p in source.rglob("*") if p.is_file()} == before


def test_shared_weights_are_not_changed_by_a_later_run(tmp_path):
    source, weights = made(tmp_path)
    linked = tmp_path / "linked.mlpackage"
    coreml.optimize(source, linked, passes=["noop_elimination"], link_weights=True)
    before = weights.read_bytes()
    coreml.optimize(linked, linked, precision="f16")  # different weights, in place
    assert weights.read_bytes() == before and not weights.samefile(weights_of(linked))


def test_weights_that_change_are_written_anew(tmp_path):
    source, weights = made(tmp_path)
    out = tmp_path / "out.mlpackage"
    coreml.optimize(source, out, precision="f16", link_weights=True)
    assert weights_of(out).stat().st_size < weights.stat().st_size and weights.stat().st_nlink == 1


@pytest.mark.parametrize("kind", ["a package", "a model file"])
def test_in_place_only_the_model_is_written(tmp_path, kind):
    package, weights = made(tmp_path)
    model = package / "Data/com.apple.CoreML/model.mlmodel"
    target = package if kind == "a package" else model
    was, old_model = weights.stat(), model.read_bytes()
    coreml.optimize(target, target, passes=["merge_consecutive_relus"])
    assert weights.stat().st_ino == was.st_ino and weights.stat().st_nlink == 1
    assert model.read_bytes() != old_model and relus(package) == 1
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == [
        "Manifest.json",
        "model.mlmodel",
        "weight.bin",
    ]


@pytest.mark.parametrize("dead", [False, True])
def test_a_file_of_weights_is_copied_in_as_few_pieces_as_it_can_be(tmp_path, dead):
    """Weights of all sizes. The passes drop one: the others move, and the gaps between them change."""
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


def test_bytes_that_name_weights_say_what_they_lack(tmp_path):
    source, weights = made(tmp_path)
    (model,) = source.rglob("*.mlmodel")
    for place in (None, tmp_path / "out.mlpackage"):
        with pytest.raises(
            sardonyx.Error, match="was given as bytes, without its data in 'weights/weight.bin'"
        ) as error:
            coreml.optimize(model.read_bytes(), place)
        assert "/tmp" not in str(error.value)


def test_a_layout_that_is_unknown_is_said(tmp_path):
    source, _ = made(tmp_path)
    with pytest.raises(sardonyx.Error, match="'foo' is not an image layout"):
        options = {"image_input_preprocess.inputs": "x:foo"}
        coreml.optimize(
            source, tmp_path / "out.mlpackage", passes=["image_input_preprocess"], options=options, strict=True
        )


def test_sparse_weights_stay_sparse(tmp_path):
    """Also if they move within the file."""
    zeros = 64 << 20
    source, weights = made(tmp_path)
    big = tmp_path / "big.mlpackage"

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 4096))], opset_version=ct.target.iOS17)
    def prog(x):
        x = mb.linear(
            x=mb.relu(x=mb.relu(x=x)), weight=np.zeros((4096, 4096), np.float32), bias=np.ones(4096, np.float32)
        )
        return mb.add(
            x=x, y=mb.add(x=mb.const(val=np.ones(4096, np.float32)), y=np.full(4096, 2, np.float32)), name="y"
        )

    programs.save(prog, str(big), ct.target.iOS17)
    subprocess.run(["fallocate", "--dig-holes", weights_of(big)], check=True)
    if weights_of(big).stat().st_blocks * 512 > zeros // 2:
        pytest.skip("this file system has no holes")
    for passes in (["merge_consecutive_relus"], "default"):
        out = tmp_path / "out.mlpackage"
        coreml.optimize(big, out, passes=passes)
        assert weights_of(out).stat().st_size > zeros and weights_of(out).stat().st_blocks * 512 < 2 << 20
