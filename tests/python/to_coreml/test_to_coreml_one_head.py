"""Attention with one head, at every target: the axis of heads has size one, and moves to where products of transposes meet it."""

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import flax.linen as nn  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import onnxruntime  # noqa: E402
import sardonyx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

TARGETS = ["iOS15", "iOS16", "iOS17", "iOS18"]
CHANNELS = 11


# That passes did not converge would be another warning.
pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.filterwarnings("ignore:sizes without an upper bound")]


def of_pytorch(batch, reduced):
    """SegFormer's attention; `reduced`: keys and values are those of a grid half as large."""
    rng = np.random.default_rng(7)
    nodes, constants = [], []

    def weight(*shape):
        return constant((rng.standard_normal(shape) / 3).astype(np.float32))

    def constant(values):
        constants.append(numpy_helper.from_array(np.asarray(values), f"c{len(constants)}"))
        return constants[-1].name

    def node(op, *inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def dense(x):
        return node("Add", node("MatMul", x, weight(CHANNELS, CHANNELS)), weight(CHANNELS))

    def heads(x, perm):
        return node("Transpose", node("Reshape", x, constant([0, -1, 1, CHANNELS])), perm=perm)

    memory = "x"
    if reduced:
        grid = node("Reshape", node("Transpose", "x", perm=[0, 2, 1]), constant([0, CHANNELS, 5, 7]))
        grid = node("Conv", grid, weight(CHANNELS, CHANNELS, 2, 2), weight(CHANNELS), strides=[2, 2])
        memory = node("Transpose", node("Reshape", grid, constant([0, CHANNELS, -1])), perm=[0, 2, 1])
    q, k = heads(dense("x"), [0, 2, 1, 3]), heads(dense(memory), [0, 2, 3, 1])
    scores = node("Div", node("MatMul", q, k), constant(np.float32(CHANNELS**0.5)))
    mixed = node("MatMul", node("Softmax", scores, axis=-1), heads(dense(memory), [0, 2, 1, 3]))
    rows = node("Reshape", node("Transpose", mixed, perm=[0, 2, 1, 3]), constant([0, -1, CHANNELS]))
    nodes.append(helper.make_node("Add", [dense(rows), "x"], ["y"]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 35, CHANNELS]) for name in "xy"]
    graph = helper.make_graph(nodes, "attention", ports[:1], ports[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("reduced", [False, True])
@pytest.mark.parametrize("batch", [3, "B"])
def test_attention_of_pytorch_with_one_head_converts(tmp_path, batch, reduced, target):
    model = of_pytorch(batch, reduced)
    path = str(tmp_path / "attention.mlpackage")
    program = sardonyx.to_coreml(model, output_path=path, target=target, precision="f32")
    x = np.random.default_rng(0).standard_normal((3, 35, CHANNELS), np.float32)
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (got,) = program.run([x]).values()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


class Middle(nn.Module):
    """The middle of an image autoencoder: channels last, groups, attention over all pixels with one head, twice the size."""

    @nn.compact
    def __call__(self, x):
        n, h, w, c = x.shape
        y = nn.Conv(c, (3, 3))(nn.silu(nn.GroupNorm(2)(x)))
        flat = nn.GroupNorm(2)(y).reshape(n, h * w, c)
        y = y + nn.MultiHeadDotProductAttention(num_heads=1)(flat).reshape(n, h, w, c)
        return nn.Conv(3, (3, 3))(jax.image.resize(y, (n, 2 * h, 2 * w, c), "nearest"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [3, "B"])
def test_an_autoencoder_of_images_converts(size, target):
    model = Middle()
    x = np.random.default_rng(0).standard_normal((3, 5, 7, 22), np.float32)
    parameters = model.init(jax.random.key(0), jnp.asarray(x))
    program = sardonyx.to_coreml(
        lambda x: model.apply(parameters, x),
        [(size, 5, 7, 22)],
        target=target,
        precision="f32",
    )
    (got,) = program.run([x]).values()
    np.testing.assert_allclose(got, jax.jit(model.apply)(parameters, x), rtol=1e-4, atol=1e-4)
