"""`sardonyx info` and `sardonyx.explain`, and what the command takes as inputs."""

import json
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from command import sardonyx as command

MODULE = """
import jax
import jax.numpy as jnp

def layer(x, w):
    return jnp.tanh(x @ w)

def net(x):
    x = jax.lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c), x)
    return jax.nn.softmax(x)

def noise(key, x):
    return x + jax.random.normal(key, x.shape)

def strange(x):
    return jax.pure_callback(lambda v: v, x, x)
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "explained.py").write_text(MODULE)

    def there(*arguments):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        return subprocess.run(
            [sys.executable, "-m", "sardonyx", *map(str, arguments)],
            cwd=tmp_path, capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip

    return there


def test_every_primitive_is_counted_with_its_lines():
    def net(x):
        for _ in range(3):
            x = jnp.sin(x)
        return jax.lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) * 2, x)

    found = sardonyx.explain(net, ["f32[B,3]"])
    assert found.missing == []
    assert found.primitives["sin"].count == 4  # the loop's body, too
    lines = found.primitives["sin"].lines
    assert len(lines) == 2 and all(re.fullmatch(r".*test_explain\.py:\d+ \(.*\)", line) for line in lines)
    assert all(p.lowering for p in found.primitives.values())
    assert list(found.primitives)[0] == "sin"  # the most frequent first
    assert "sin" in str(found) and "equations of" in str(found)


def test_what_has_no_lowering_is_said_before_exporting():
    def fn(x):
        return jax.pure_callback(lambda v: v, x, x) + jnp.sin(x)

    found = sardonyx.explain(fn, ["f32[3]"])
    assert found.missing == ["pure_callback"] and "MISSING" in str(found)
    assert found.primitives["pure_callback"].lowering is None and found.primitives["sin"].lowering == "elementwise Sin"
    with pytest.raises(sardonyx.Error, match="pure_callback"):
        sardonyx.to_onnx(fn, ["f32[3]"])


def test_what_would_be_refused_is_said_with_its_line(run, tmp_path):
    """Types and opsets are only refused where a program is lowered."""
    done = run("info", "explained:strange", "-i", "x:3", "--json")
    (told,) = json.loads(done.stdout)
    assert done.returncode == 1 and told["ok"] is False
    assert any("pure_callback of f32[3]" in line and "explained.py:16" in line for line in told["refused"]), told[
        "refused"
    ]
    done = run("info", "explained:strange", "-i", "x:3")
    assert re.search(r"^refused:\n.*\n +pure_callback of f32\[3\].*explained\.py:16", done.stdout, re.MULTILINE), (
        done.stdout
    )
    # The same for a lowering that exists, by the message of the export.
    (tmp_path / "explained.py").write_text(MODULE.replace("jnp.tanh(x @ w)", "jnp.cumsum(x @ w, 0)"))
    wanted = ["explained:layer", "-i", "x:7,3", "-i", "w:3,5"]
    assert run("info", *wanted).returncode == 0
    told = run("info", *wanted, "--opset", "7")
    refusal = run("convert", *wanted, "--opset", "7", "-o", "x.onnx")
    assert told.returncode == refusal.returncode == 1
    for line in refusal.stderr.removeprefix("error: ").splitlines():
        assert line.strip() in told.stdout, line
    assert run("info", *wanted, "--opset", "3").returncode == 1
    assert not list(tmp_path.glob("*.onnx"))


def test_the_command(run):
    done = run("info", "explained:layer", "-i", "x:B,3", "-i", "w:3,5")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  dot_general +1  lower_dot_general +explained\.py:6 \(layer\)$", done.stdout, re.MULTILINE)
    told = json.loads(run("info", "explained:layer", "-i", "x:B,3", "-i", "w:3,5", "--json").stdout)[0]
    assert told["primitives"]["tanh"] == {
        "count": 1,
        "lowering": "elementwise Tanh",
        "lines": ["explained.py:6 (layer)"],
    }
    done = run("info", "explained:strange", "-i", "f32[3]")
    assert done.returncode == 1 and re.search(r"pure_callback +1  MISSING +explained\.py:\d+", done.stdout)
    assert run("info", "explained:nothing").returncode == 1


def test_shapes_as_optimize_takes_them(run, tmp_path):
    done = run("convert", "explained:layer", "-i", "x:B,3", "-i", "w:3,5", "-o", "m.onnx")
    assert done.returncode == 0, done.stderr
    inputs = onnx.load(tmp_path / "m.onnx").graph.input
    shapes = {i.name: [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in inputs}
    assert shapes == {"x": ["B", 3], "w": [3, 5]}
    assert sardonyx.to_onnx(jnp.sin, ["x:max(B, 2),3"]).graph.input[0].name == "x"
    bare = sardonyx.to_onnx(jnp.sin, ["B,3"]).graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in bare] == ["B", 3]
    for wrong in ("x:f32", "x:", "x:1,3]"):
        with pytest.raises(sardonyx.Error, match="is not understood"):
            sardonyx.to_onnx(jnp.sin, [wrong])


def test_typed_keys_in_words(run, tmp_path):
    done = run("convert", "explained:noise", "-i", "key[]", "-i", "x=f32[7]", "-o", "m.onnx")
    assert done.returncode == 0, done.stderr
    key = jax.random.key(5)
    bits = np.asarray(jax.random.key_data(key))
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    got = sardonyx.evaluate(onnx.load(tmp_path / "m.onnx"), {"key": bits, "x": x})
    want = x + jax.random.normal(key, x.shape)
    np.testing.assert_allclose(
        next(iter(got.values())) if isinstance(got, dict) else got[0], want, rtol=1e-5, atol=1e-6
    )
    keys = sardonyx.to_onnx(lambda ks: jax.vmap(jax.random.bits)(ks), ["key[5]"])
    assert [d.dim_value for d in keys.graph.input[0].type.tensor_type.shape.dim] == [5, 2]


def test_the_native_command_lists_it():
    assert "or a JAX function" in " ".join(command("--help").stdout.split())
