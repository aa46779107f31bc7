"""Arithmetic that JAX emits becomes one operator, with the same results in onnxruntime."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
import sardonyx
from flax import nnx
from judge import OF_JAX, RUNTIME

SHAPE = ("B", 5, 12)


def layer_norm(module):
    """A Flax module with parameters other than ones and zeros."""
    module.scale = nnx.Param(jnp.linspace(0.5, 2, 12))
    module.bias = nnx.Param(jnp.linspace(-1, 1, 12))
    return module


def attention(x, causal=False):
    """Dot-product self-attention with three heads."""
    y = x.reshape(x.shape[0], x.shape[1], 3, 4)
    return jax.nn.dot_product_attention(y, y * 0.5, y + 1, is_causal=causal).reshape(x.shape)


CASES = {
    "softmax": (jax.nn.softmax, ["Softmax"]),
    "log_softmax": (jax.nn.log_softmax, ["LogSoftmax"]),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=-1), ["ReduceLogSumExp"]),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), ["Gelu"]),
    "gelu_tanh": (jax.nn.gelu, ["Gelu"]),
    "relu": (jax.nn.relu, ["Relu"]),
    "relu6": (jax.nn.relu6, ["Clip"]),
    "leaky_relu": (jax.nn.leaky_relu, ["LeakyRelu"]),
    "softplus": (jax.nn.softplus, ["Softplus"]),
    "log_sigmoid": (jax.nn.log_sigmoid, ["Neg", "Softplus", "Neg"]),
    "elu": (jax.nn.elu, ["Elu"]),
    "selu": (jax.nn.selu, ["Selu"]),
    "hard_swish": (jax.nn.hard_swish, ["HardSwish"]),
    "mish": (jax.nn.mish, ["Mish"]),
    "soft_sign": (jax.nn.soft_sign, ["Softsign"]),
    "layer_norm": (layer_norm(nnx.LayerNorm(12, rngs=nnx.Rngs(0))), ["LayerNormalization"]),
    "rms_norm": (nnx.RMSNorm(12, rngs=nnx.Rngs(0)), ["RMSNormalization"]),
    "instance_norm": (
        layer_norm(nnx.InstanceNorm(12, rngs=nnx.Rngs(0))),
        ["Transpose", "InstanceNormalization", "Transpose"],
    ),
    "group_norm": (
        nnx.GroupNorm(12, num_groups=3, rngs=nnx.Rngs(0)),
        ["Transpose", "Reshape", "InstanceNormalization", "Reshape", "Transpose"],
    ),
    "length": (lambda x: jnp.linalg.norm(x, axis=-1), ["ReduceL2"]),
    "mean over a size with a name": (lambda x: x.mean(0), ["ReduceMean"]),
    "mean of all": (jnp.mean, ["ReduceMean"]),
    "reflection padding": (lambda x: jnp.pad(x, ((0, 0), (2, 1), (0, 3)), mode="reflect"), ["Pad"]),
    "a flip of a part": (lambda x: jnp.flip(x[:, 1:4], 1), ["Slice"]),
    "variance over a size with a name": (lambda x: x.var(0), ["ReduceMean", "Sub", "Mul", "ReduceMean"]),
}


def ops(model):
    """The operators of a model, in order."""
    return [node.op_type for node in model.graph.node]


def run(model, x):
    """The first result in onnxruntime, without its own optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


@pytest.mark.parametrize("name", CASES)
def test_one_operator(name):
    fn, expected = CASES[name]
    if name == "reflection padding" and OF_JAX < (0, 9):
        pytest.skip("this JAX does not pad by reflection along named sizes")
    model = sardonyx.to_onnx(fn, [SHAPE], return_mode="proto")
    assert ops(model) == expected
    for batch in (1, 3):
        x = np.random.default_rng(batch).normal(size=(batch, *SHAPE[1:])).astype(np.float32)
        np.testing.assert_allclose(run(model, x), fn(x), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    model = sardonyx.to_onnx(lambda x: attention(x, causal), [SHAPE], return_mode="proto")
    assert ops(model).count("Attention") == 1
    assert not {"Softmax", "MatMul"} & set(ops(model))
    x = np.random.default_rng(0).normal(size=(2, *SHAPE[1:])).astype(np.float32)
    np.testing.assert_allclose(run(model, x), attention(x, causal), rtol=2e-5, atol=2e-6)


@pytest.mark.skipif(RUNTIME < (1, 24), reason="its LayerNormalization loses the digits as well")
def test_a_mean_that_is_large_beside_the_deviation():
    """Flax's difference of squares loses its digits there; the operator does not."""
    module = layer_norm(nnx.LayerNorm(12, rngs=nnx.Rngs(0)))
    model = sardonyx.to_onnx(module, [SHAPE], return_mode="proto")
    x = (1000 + np.random.default_rng(0).normal(size=(2, *SHAPE[1:]))).astype(np.float32)
    exact = x.astype(np.float64)
    exact = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-6)
    exact = exact * np.linspace(0.5, 2, 12) + np.linspace(-1, 1, 12)
    assert np.abs(run(model, x) - exact).max() <= np.abs(module(x) - exact).max()


def test_rotary_embedding():
    """Heads after positions, with angles per example."""

    def turn(x, positions):
        angles = positions[..., None] / jnp.array([1, 10, 100, 1000], jnp.float32)
        sine, cosine = jnp.sin(angles)[:, :, None, :], jnp.cos(angles)[:, :, None, :]
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)

    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 3, 8)).astype(np.float32)
    positions = rng.integers(0, 90, (2, 5)).astype(np.float32)
    model = sardonyx.to_onnx(turn, [("B", "T", 3, 8), ("B", "T")])
    assert ops(model)[-3:] == ["Reshape", "RotaryEmbedding", "Reshape"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    got = session.run(None, dict(zip(names, (x, positions), strict=True)))[0]
    np.testing.assert_allclose(got, turn(x, positions), rtol=1e-5, atol=1e-6)


def test_rotary_embedding_of_shared_angles():
    """The positions are the same for all examples and known when exporting."""

    def turn(x):
        angles = jnp.arange(x.shape[1])[:, None] / jnp.array([1, 10, 100, 1000], jnp.float32)
        sine, cosine = jnp.sin(angles)[None, :, None, :], jnp.cos(angles)[:, None, :]
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)

    x = np.random.default_rng(0).standard_normal((2, 5, 3, 8)).astype(np.float32)
    for shape in (("B", "T", 3, 8), ("B", 5, 3, 8), (2, 5, 3, 8)):
        model = sardonyx.to_onnx(turn, [shape])
        assert ops(model)[-2:] == ["RotaryEmbedding", "Reshape"] and ops(model).count("Reshape") >= 2
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        got = session.run(None, {session.get_inputs()[0].name: x})[0]
        np.testing.assert_allclose(got, turn(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["plain", "causal", "mask"])
@pytest.mark.parametrize("heads", [1, 2])
def test_attention_of_grouped_queries(kind, heads):
    """jax.nn gives the groups a separate axis between the products; Attention handles them itself."""

    def attend(q, k, v, *mask):
        return jax.nn.dot_product_attention(q, k, v, mask=mask[0] if mask else None, is_causal=kind == "causal")

    rng = np.random.default_rng(0)
    shapes = [(2, 5, 6, 8), (2, 5, heads, 8), (2, 5, heads, 8)]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    inputs = [("B", "T", 6, 8), *[("B", "T", heads, 8)] * 2]
    if kind == "mask":
        arrays.append(rng.integers(0, 2, (2, 1, 5, 5)).astype(bool) | np.eye(5, dtype=bool))
        inputs.append(jax.ShapeDtypeStruct(("B", 1, "T", "T"), bool))
    model = sardonyx.to_onnx(attend, inputs)
    assert ops(model).count("Attention") == 1 and "MatMul" not in ops(model) and len(ops(model)) <= 12
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    got = session.run(None, dict(zip(names, arrays, strict=True)))[0]
    np.testing.assert_allclose(got, attend(*arrays), rtol=1e-5, atol=1e-6)


IDS = np.array([0, 6, -1, -7, 3, 7, -8, -100], np.int32)
OUTSIDE = np.array([0, 6, 7, -7, -8], np.int32)
ROWS = {
    "of a list": (lambda x, i: x[i], IDS, ["Clip", "Gather"]),
    "that may be missing": (
        lambda x, i: jnp.take(x, i, axis=0),
        OUTSIDE,
        ["GreaterOrEqual", "LessOrEqual", "And", "Unsqueeze", "Clip", "Gather", "Where"],
    ),
    "moved inside": (lambda x, i: jnp.take(x, i, axis=0, mode="clip"), OUTSIDE, ["Cast", "Clip", "Gather"]),
    "one": (lambda x, i: x[i], np.int32(-2), ["Cast", "Clip", "Gather"]),
    "one before the first": (lambda x, i: x[i], np.int32(-11), ["Cast", "Clip", "Gather"]),
    "one behind the last": (lambda x, i: x[i], np.int32(11), ["Cast", "Clip", "Gather"]),
    "one column": (lambda x, i: x[:, i], np.int32(-5), ["Cast", "Clip", "Gather"]),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_by_numbers_that_count_from_the_end(name):
    fn, ids, operators = ROWS[name]
    model = sardonyx.to_onnx(fn, [(7, 5), jax.ShapeDtypeStruct(ids.shape, ids.dtype)])
    assert [n.op_type for n in model.graph.node] == operators
    same, text = sardonyx.compare(fn, model, [(7, 5), ids], rtol=0, atol=0)
    assert same, text


ONE_MEAN = {
    "layer_norm of a batch of one": (nnx.LayerNorm(13, rngs=nnx.Rngs(0)), (1, 13), ["LayerNormalization"]),
    "layer_norm of a vector": (nnx.LayerNorm(13, rngs=nnx.Rngs(0)), (13,), ["LayerNormalization"]),
    "rms_norm of Equinox": (eqx.nn.RMSNorm(13), (13,), ["RMSNormalization"]),
    "batched rms_norm of Equinox": (jax.vmap(eqx.nn.RMSNorm(13)), ("B", 13), ["RMSNormalization"]),
    "layer_norm of Equinox": (eqx.nn.LayerNorm(13), (13,), ["LayerNormalization"]),
    "softmax of a vector": (jax.nn.softmax, (13,), ["Softmax"]),
}


@pytest.mark.parametrize("name", ONE_MEAN)
def test_a_statistic_that_is_one_number(name):
    fn, shape, operators = ONE_MEAN[name]
    model = sardonyx.to_onnx(fn, [shape])
    assert [n.op_type for n in model.graph.node] == operators
    same, text = sardonyx.compare(fn, model, [shape])
    assert same, text
