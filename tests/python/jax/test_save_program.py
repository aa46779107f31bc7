"""A traced program is saved as text with its weights beside it, and converted later."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from command import BUILD
from judge import compare, outputs
from sardonyx import _sardonyx as native

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((7, 11)).astype(np.float32)
TABLE = RNG.integers(0, 255, (3, 41)).astype(np.uint8)


def network(x):
    def step(carry, row):
        return carry + row, jnp.tanh(carry * row)

    wide = jax.random.key_data(jax.random.split(jax.random.key(5, impl="rbg"), 3))
    y = jax.nn.gelu(x @ WEIGHT)
    _, rows = jax.lax.scan(step, y[0], y)
    rows = jax.lax.cond(rows.sum() > 0, jnp.sin, jnp.cos, rows)
    return {
        "rows": rows,
        "noise": jax.random.uniform(jax.random.key(3), (5,)),
        "table": jnp.asarray(TABLE),
        "wide": wide,
    }


def converted(program):
    return native.convert(program, provenance="off").serialize()


@pytest.mark.parametrize("spec", [("B >= 1", 7), (4, 7)])
def test_the_saved_program_converts_to_the_same_bytes(tmp_path, spec):
    path = tmp_path / "network.sx"
    assert sardonyx.save_program(network, [spec], path) == str(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["network.sx", "network.sxw"]
    direct = sardonyx.to_onnx(network, [spec], provenance="off", passes="none").SerializeToString()
    loaded = native.load_program(str(path))
    assert converted(loaded) == direct
    assert loaded.text() == path.read_text()


def test_weights_lie_beside_the_text_once(tmp_path):
    sardonyx.save_program(lambda x: x @ WEIGHT + x @ jnp.asarray(WEIGHT.copy()), [(2, 7)], tmp_path / "m.sx")
    content = (tmp_path / "m.sxw").read_bytes()
    assert content.startswith(b"SXW1") and content.count(WEIGHT.tobytes()) == 1


def test_a_small_program_needs_no_sidecar(tmp_path):
    sardonyx.save_program(lambda x: x + 1, [(3,)], tmp_path / "m.sx")
    assert [p.name for p in tmp_path.iterdir()] == ["m.sx"]
    assert native.load_program(str(tmp_path / "m.sx")).op_counts() == {"add": 1}


def test_without_the_sidecar_weights_are_missed_by_name(tmp_path):
    sardonyx.save_program(lambda x: x @ WEIGHT, [(2, 7)], tmp_path / "m.sx")
    (tmp_path / "m.sxw").unlink()
    program = native.load_program(str(tmp_path / "m.sx"))
    with pytest.raises(sardonyx.Error, match="sidecar"):
        converted(program)


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b"XXXX" + b[4:], lambda b: b[:50], lambda b: b[:-1]])
def test_a_damaged_sidecar_is_refused(tmp_path, damage):
    sardonyx.save_program(lambda x: x @ WEIGHT, [(2, 7)], tmp_path / "m.sx")
    sidecar = tmp_path / "m.sxw"
    sidecar.write_bytes(damage(sidecar.read_bytes()))
    with pytest.raises(sardonyx.Error, match="is not a sidecar of constants"):
        native.load_program(str(tmp_path / "m.sx"))


def test_an_unwritable_place_is_an_error(tmp_path):
    with pytest.raises(sardonyx.Error, match="is a folder"):
        sardonyx.save_program(lambda x: x, [(3,)], tmp_path)


TOOL = BUILD / "sardonyx"


@pytest.mark.skipif(not TOOL.exists(), reason="the command is not built")
def test_the_command_lowers_without_python(tmp_path):
    sardonyx.save_program(network, [("B >= 1", 7)], tmp_path / "network.sx")
    command = [TOOL, "convert", "network.sx", "-o", "network.onnx"]
    subprocess.run(command, cwd=tmp_path, check=True, env={"PATH": "/nonexistent"})
    model = onnx.load(tmp_path / "network.onnx")
    x = RNG.standard_normal((4, 7)).astype(np.float32)
    compare(network(jnp.asarray(x)), outputs(model, [x]), 1e-5)
    command[-1] = "lowered.sx"  # text, as `sardonyx optimize` writes it under such a name
    subprocess.run(command, cwd=tmp_path, check=True, env={"PATH": "/nonexistent"})
    assert 'graph "jax_model"(x: f32[B,7])' in (tmp_path / "lowered.sx").read_text()


@pytest.mark.skipif(not TOOL.exists(), reason="the command is not built")
def test_the_command_exports_through_python(tmp_path):
    (tmp_path / "toy.py").write_text("def f(x):\n  return x + 1\n")
    environment = {"PYTHONPATH": str(Path(sardonyx.__file__).parent.parent), "SARDONYX_PYTHON": sys.executable}
    command = [TOOL, "convert", "toy:f", "--input", "f32[B,3]", "-o", "m.onnx"]
    subprocess.run(command, cwd=tmp_path, check=True, env=environment)
    assert [n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node] == ["Add"]
    environment["SARDONYX_PYTHON"] = "/nonexistent/python"
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "cannot start /nonexistent/python" in done.stderr
