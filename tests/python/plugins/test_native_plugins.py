"""Plugins in a shared object: `sardonyx convert --plugin lib.so`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from judge import outputs

ROOT = Path(__file__).resolve().parents[3]
COMMAND = Path(sardonyx.__file__).parents[2] / "sardonyx"  # of the build folder


@pytest.fixture(scope="module")
def plugin(tmp_path_factory) -> Path:
    library = tmp_path_factory.mktemp("plugin") / "plugin.so"
    compiler = shutil.which("c++")
    assert compiler, "a C++ compiler is needed"
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{ROOT / 'include'}"]
    subprocess.run([compiler, *flags, ROOT / "tests" / "plugin" / "plugin.cc", "-o", library], check=True)
    return library


def lower(fn, plugins, folder):
    sardonyx.save_program(fn, [("B", 3)], folder / "program.sx")
    options = [f"--plugin={p}" for p in plugins]
    command = [COMMAND, "convert", *options, folder / "program.sx", "-o", folder / "program.onnx"]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_a_lowering(plugin, tmp_path):
    told = lower(lambda x: jnp.sin(x) + jnp.cos(x), [plugin], tmp_path)
    assert told.returncode == 0, told.stderr
    model = onnx.load(tmp_path / "program.onnx")
    assert "Sin" not in {n.op_type for n in model.graph.node}
    x = np.linspace(0, 3, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(outputs(model, [x])[0], np.sin(x) + np.cos(x), atol=1e-3)
    assert any("plugin.so" in p.value for n in model.graph.node for p in n.metadata_props)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (jnp.exp, "exponentials are not wanted here"),
        (lambda x: jnp.cumsum(x, 1), "as result 0, but the equation says"),
        (jnp.tanh, "gave result 0 of 'tanh' twice"),
        (jnp.log, "asked for axis 5 of a value of rank 2"),
        (lambda x: jnp.flip(x, 0), "only axis 1"),
        (jnp.arccosh, "set the attribute 'axis' late on a value that no node computes"),
    ],
)
def test_failures_are_told(plugin, tmp_path, fn, message):
    told = lower(fn, [plugin], tmp_path)
    assert told.returncode != 0 and message in told.stderr
    assert not (tmp_path / "program.onnx").exists()


@pytest.fixture
def loaded(plugin):
    lowered = ["acosh", "asinh", "atanh", "cumsum", "exp", "log", "rev", "sin", "tanh", "top_k"]
    assert sorted(sardonyx.plugins.load(plugin)) == lowered
    yield
    sardonyx.plugins.unload(plugin)


def test_a_lowering_from_python(plugin, loaded):
    model = sardonyx.to_onnx(lambda x: jnp.sin(x) + jnp.cos(x), [("B", 3)], check=False)
    assert "Sin" not in {n.op_type for n in model.graph.node}
    x = np.linspace(0, 3, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(outputs(model, [x])[0], np.sin(x) + np.cos(x), atol=1e-3)
    with pytest.raises(sardonyx.Error, match="cannot convert 1 equation") as caught:
        sardonyx.to_onnx(jnp.exp, [("B", 3)])
    assert "exponentials are not wanted here" in str(caught.value)
    sardonyx.plugins.unload(plugin)
    assert [n.op_type for n in sardonyx.to_onnx(jnp.sin, [("B", 3)]).graph.node] == ["Sin"]


def test_several_results_and_constants(loaded):
    model = sardonyx.to_onnx(lambda x: jax.lax.top_k(x, 2), [("B", 3)])
    assert [n.op_type for n in model.graph.node] == ["TopK", "Cast"]
    x = np.float32([[3, 1, 2], [4, 6, 5]])
    largest, places = outputs(model, [x])
    np.testing.assert_array_equal(largest, [[3, 2], [6, 5]])
    np.testing.assert_array_equal(places, [[0, 2], [1, 2]])
    assert places.dtype == np.int32


def test_types_sizes_and_other_domains(loaded):
    model = sardonyx.to_onnx(lambda x: jnp.flip(x, 1), [("B", 3)])
    assert [n.op_type for n in model.graph.node] == ["Shape", "Squeeze", "Cast", "Scale"]
    assert model.graph.node[-1].domain == "my.ops" and "my.ops" in {o.domain for o in model.opset_import}


def alpha(model):
    return [a.f for n in model.graph.node if n.op_type == "LeakyRelu" for a in n.attribute]


def test_attributes_are_set_after_the_passes(plugin, loaded, tmp_path):
    model = sardonyx.to_onnx(lambda x: jnp.arcsinh(x) + 1, [("B", 3)], debug_dump=tmp_path)
    assert alpha(model) == [0.5] and "alpha=0.25" in (tmp_path / "1_lowered.sx").read_text()
    assert lower(jnp.arcsinh, [plugin], tmp_path).returncode == 0
    assert alpha(onnx.load(tmp_path / "program.onnx")) == [0.5]


def test_late_attributes_that_change_types_are_refused(loaded):
    with pytest.raises(sardonyx.Error, match=r"after the plugin plugin\.so had set attributes of this Transpose late"):
        sardonyx.to_onnx(jnp.arctanh, [(2, 3)], passes="none")
    assert [n.op_type for n in sardonyx.to_onnx(jnp.arctanh, [(2, 3)]).graph.node] == ["Exp"]


def test_lowerings_in_python_win(loaded):
    @sardonyx.lowering("sin")
    def lower_sin(ctx, eqn):
        return ctx.builder.Cos(ctx.get_value_for_var(eqn.invars[0]))

    try:
        assert [n.op_type for n in sardonyx.to_onnx(jnp.sin, [("B", 3)]).graph.node] == ["Cos"]
    finally:
        sardonyx.plugins.unregister("sin")


@pytest.mark.parametrize("place", [1, 2])
def test_exporting_from_the_command_line(plugin, tmp_path, place):
    (tmp_path / "program.py").write_text("import jax.numpy as jnp\n\n\ndef fn(x):\n    return jnp.sin(x)\n")
    arguments = ["convert", "program:fn", "-i", "f32[B,3]", "-o", "out.onnx"]
    arguments[place:place] = ["--plugin", str(plugin)]
    environment = os.environ | {
        "SARDONYX_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(sardonyx.__file__).parents[1]),
    }
    told = subprocess.run(
        [COMMAND, *arguments], check=False, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert told.returncode == 0, told.stderr
    assert "Sqrt" in {n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node}


def test_what_is_no_plugin_from_python(tmp_path):
    with pytest.raises(sardonyx.Error, match="cannot load the plugin"):
        sardonyx.plugins.load(tmp_path / "missing.so")


def test_what_is_no_plugin(tmp_path):
    told = lower(jnp.sin, [tmp_path / "missing.so"], tmp_path)
    assert told.returncode != 0 and "cannot load the plugin" in told.stderr
    told = lower(jnp.sin, ["/usr/lib/x86_64-linux-gnu/libm.so.6"], tmp_path)
    assert told.returncode != 0 and "it has no function sardonyx_plugin" in told.stderr
