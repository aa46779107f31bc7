"""Failures around a run: full disks, missing rights, kills, interrupts, little memory, concurrent runs on one
output, threads."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
import sardonyx
from command import BUILD
from onnx import TensorProto, helper, numpy_helper

PROGRAM = BUILD / "sardonyx"
LAYERS, SIZE = 12, 1024  # 48 MB of weights, each transposed on the way: they are computed while they are written


def chain(layers: int, size: int) -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    nodes, weights, last = [], [], "x"
    for k in range(layers):
        weights.append(numpy_helper.from_array(rng.standard_normal((size, size)).astype(np.float32), f"w{k}"))
        nodes.append(helper.make_node("Transpose", [f"w{k}"], [f"t{k}"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", [last, f"t{k}"], [f"m{k}"]))
        nodes.append(helper.make_node("Relu", [f"m{k}"], [f"r{k}"]))
        last = f"r{k}"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", size])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["B", size])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "chain.onnx"
    onnx.save(chain(LAYERS, SIZE), path)
    return path


@pytest.fixture(scope="module")
def result(model) -> bytes:
    """The result of an undisturbed run."""
    out = model.parent / "undisturbed" / "out.onnx"
    out.parent.mkdir()
    subprocess.run([PROGRAM, "optimize", model, "-o", out], check=True, capture_output=True)
    return out.read_bytes()


def start(model: Path, out: Path, **more) -> subprocess.Popen:
    return subprocess.Popen(
        [PROGRAM, "optimize", model, "-o", out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


@pytest.fixture
def out(tmp_path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "out.onnx"
    path.write_bytes(b"old")
    return path


def names(out: Path) -> list[str]:
    return sorted(p.name for p in out.parent.iterdir())


def test_a_disk_that_fills_up_leaves_the_old_file(model, out):
    def limits():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    run = start(model, out, preexec_fn=limits)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 1 and f"cannot write '{out}': File too large" in errors
    assert out.read_bytes() == b"old" and names(out) == ["out.onnx"]


def test_a_small_file_system_leaves_the_old_file(model, tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("no file system can be mounted here")
    try:
        out = folder / "out.onnx"
        out.write_bytes(b"old")
        run = start(model, out)
        _, errors = run.communicate(timeout=60)
        assert run.returncode == 1 and f"cannot write '{out}': No space left on device" in errors
        assert out.read_bytes() == b"old" and names(out) == ["out.onnx"]
    finally:
        subprocess.run(["umount", folder], check=True)


def test_missing_rights_are_told(model, result):
    """Runs as a user without write permission; root, which may always write, first becomes another user."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody who has no rights")
    with tempfile.TemporaryDirectory(prefix="sardonyx-faults-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        program, source = folder / "sardonyx", folder / "in.onnx"
        shutil.copy(PROGRAM, program)
        shutil.copy(model, source)
        secret, out = folder / "secret.onnx", folder / "out.onnx"
        shutil.copy(model, secret)
        secret.chmod(0o600)
        out.write_bytes(b"old")
        for arguments, said in ((source, out), "cannot write"), ((secret, folder / "new.onnx"), "cannot"):
            run = subprocess.run(
                [program, "optimize", arguments[0], "-o", arguments[1]],
                user=65534,
                capture_output=True,
                text=True,
                check=False,
            )
            assert run.returncode == 1, run.stderr
            assert said in run.stderr and "Permission denied" in run.stderr
        assert out.read_bytes() == b"old" and not (folder / "new.onnx").exists()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_run_that_ends_midway_leaves_the_old_file(model, result, out, how):
    def listens():  # shells make background processes ignore interrupts
        signal.signal(how, signal.SIG_DFL)

    listening = {} if how == signal.SIGKILL else {"preexec_fn": listens}
    begin = time.monotonic()
    run = start(model, out, **listening)
    run.communicate(timeout=60)
    whole = time.monotonic() - begin
    assert out.read_bytes() == result
    cut_short = 0
    for part in 4 * (0.1, 0.3, 0.5, 0.7, 0.9):
        out.write_bytes(b"old")
        run = start(model, out, **listening)
        time.sleep(part * whole)
        run.send_signal(how)
        sent = time.monotonic()
        run.communicate(timeout=60)
        assert time.monotonic() - sent < 5  # promptly, even on a busy machine
        if run.returncode == 0:
            assert out.read_bytes() == result
            whole /= 1.5  # the first run was slow
        else:
            assert run.returncode == -how
            assert out.read_bytes() in (b"old", result)
            cut_short += 1
        assert names(out) == ["out.onnx"]
        if cut_short == 4:
            break
    assert cut_short > 0


def test_little_memory_is_an_error(model, out):
    def limits():
        resource.setrlimit(resource.RLIMIT_AS, (40_000_000, 40_000_000))

    run = start(model, out, preexec_fn=limits)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 1 and "memory" in errors, errors
    assert out.read_bytes() == b"old" and names(out) == ["out.onnx"]


def test_runs_on_one_output_do_not_mix(model, result, out):
    runs = [start(model, out) for _ in range(4)]
    for run in runs:
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
    assert out.read_bytes() == result and names(out) == ["out.onnx"]


def test_threads_optimize_evaluate_and_write_alone(tmp_path):
    """Eight concurrent runs write the same bytes as one."""
    protos = [chain(2 + k % 3, 8 + k) for k in range(8)]

    def work(k: int) -> bytes:
        proto = protos[k]
        optimized = sardonyx.optimize(proto)
        path = tmp_path / f"{k}-{time.monotonic_ns()}.onnx"
        onnx.save(optimized, path)
        x = np.ones((3, 8 + k), np.float32)
        (y,) = sardonyx.evaluate(optimized, {"x": x}).values()
        assert path.stat().st_size > 0
        return optimized.SerializeToString(deterministic=True) + np.asarray(y).tobytes()

    alone = [work(k) for k in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert list(pool.map(work, range(8))) == alone


def test_ctrl_c_ends_a_python_run_promptly(model, out):
    code = f"import sardonyx; print('up', flush=True); sardonyx.optimize({str(model)!r}, {str(out)!r}); print('done')"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert run.stdout.readline() == "up\n"
    run.send_signal(signal.SIGINT)
    sent = time.monotonic()
    output, errors = run.communicate(timeout=60)
    assert time.monotonic() - sent < 10
    if "done" not in output:
        assert "KeyboardInterrupt" in errors
        assert out.read_bytes() == b"old"
    assert names(out) == ["out.onnx"]
