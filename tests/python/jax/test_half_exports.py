"""Functions exported in half precision: `to_onnx(precision="f16")`, and the command."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from command import sardonyx as command
from onnx import TensorProto

W = jnp.asarray(np.random.default_rng(5).standard_normal((11, 53)) / 4, jnp.float32)
V = jnp.asarray(np.random.default_rng(7).standard_normal((53, 13)) / 4, jnp.float32)


def layer(x):
    mean = x.mean(-1, keepdims=True)
    x = (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-12)
    return jax.nn.softmax(jax.nn.gelu(x @ W) @ V)


def test_weights_and_computation_are_halves_and_the_interface_is_not():
    model = sardonyx.to_onnx(layer, [("B", 11)], precision="f16", check=True)
    assert {i.data_type for i in model.graph.initializer if len(i.dims) == 2} == {TensorProto.FLOAT16}
    ports = [*model.graph.input, *model.graph.output]
    assert [p.type.tensor_type.elem_type for p in ports] == [TensorProto.FLOAT] * 2
    same = sardonyx.compare(layer, model, [(7, 11)])
    assert same, same.text
    assert not sardonyx.compare(lambda x: 1.1 * layer(x), model, [(7, 11)]), "a fiftieth of the largest is allowed"


def test_half_exports_of_functions_in_half_have_no_wider_bound():
    def halves(x):
        return (x.astype(jnp.float16) @ W.astype(jnp.float16)).astype(jnp.float16)

    model = sardonyx.to_onnx(halves, [("B", 11)])
    assert not sardonyx.compare(lambda x: halves(x) * jnp.float16(1.015), model, [(7, 11)])


def test_unknown_precision():
    with pytest.raises(sardonyx.Error, match="precision='f8' is not known"):
        sardonyx.to_onnx(layer, [("B", 11)], precision="f8")


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("SARDONYX_PYTHON", sys.executable)
    (tmp_path / "layers.py").write_text(
        "import jax.numpy as jnp\n\n\ndef layer(x):\n    return jnp.tanh(x @ jnp.ones((11, 53)) / 7)\n"
    )
    function = f"{tmp_path / 'layers.py'}:layer"
    command(
        "convert", function, "-o", tmp_path / "m.onnx", "--input", "B,11", "--precision", "f16", "--verify", "model"
    )
    types = {i.data_type for i in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert TensorProto.FLOAT16 in types
    refused = command("convert", function, "-o", tmp_path / "m.sx", "--input", "B,11", "--precision", "f16", ok=False)
    assert "keeps the precision of the function" in refused.stderr
    assert not (tmp_path / "m.sx").exists()
