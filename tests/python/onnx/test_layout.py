"""Image models written for NHWC keep transposes only at their ends, and compute the same."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
import sardonyx
from flax import nnx


class Residual(nnx.Module):
    """Convolutions with batch norms around a residual sum, a strided projection, pooling, a head."""

    def __init__(self, rngs: nnx.Rngs):
        self.stem = nnx.Conv(3, 7, (3, 3), rngs=rngs)
        self.norms = nnx.List([nnx.BatchNorm(n, rngs=rngs) for n in (7, 7, 11, 11)])
        self.inner = nnx.Conv(7, 7, (3, 3), rngs=rngs)
        self.wide = nnx.Conv(7, 11, (3, 3), strides=(2, 2), rngs=rngs)
        self.project = nnx.Conv(7, 11, (1, 1), strides=(2, 2), rngs=rngs)
        self.head = nnx.Linear(11, 5, rngs=rngs)

    def __call__(self, x):
        x = nnx.max_pool(nnx.relu(self.norms[0](self.stem(x))), (3, 3), strides=(2, 2), padding="SAME")
        x = nnx.relu(self.norms[1](self.inner(x)) + x)
        x = nnx.relu(self.norms[2](self.wide(x)) + self.norms[3](self.project(x)))
        return self.head(jnp.mean(x, axis=(1, 2)))


class Mobile(nnx.Module):
    """Depthwise convolutions, hard activations, squeeze and excitation."""

    def __init__(self, rngs: nnx.Rngs):
        self.stem = nnx.Conv(3, 6, (3, 3), strides=(2, 2), rngs=rngs)
        self.widen = nnx.Conv(6, 18, (1, 1), use_bias=False, rngs=rngs)
        self.depthwise = nnx.Conv(18, 18, (3, 3), feature_group_count=18, rngs=rngs)
        self.norm = nnx.BatchNorm(18, rngs=rngs)
        self.squeeze, self.excite = nnx.Conv(18, 5, (1, 1), rngs=rngs), nnx.Conv(5, 18, (1, 1), rngs=rngs)
        self.narrow = nnx.Conv(18, 6, (1, 1), rngs=rngs)
        self.head = nnx.Linear(6, 5, rngs=rngs)

    def __call__(self, x):
        x = nnx.hard_swish(self.stem(x))
        y = nnx.relu6(self.norm(self.depthwise(nnx.relu6(self.widen(x)))))
        gate = nnx.relu(self.squeeze(jnp.mean(y, axis=(1, 2), keepdims=True)))
        y = y * nnx.hard_sigmoid(self.excite(gate))
        return self.head(jnp.mean(self.narrow(y) + x, axis=(1, 2)))


class UNet(nnx.Module):
    """Two levels down by pooling, up by a transposed convolution and by resizing, joined by concatenation; images out."""

    def __init__(self, rngs: nnx.Rngs):
        def conv(a, b):
            return nnx.Conv(a, b, (3, 3), rngs=rngs)

        self.down1, self.down2, self.bottom = conv(3, 5), conv(5, 7), conv(7, 11)
        self.up2 = nnx.ConvTranspose(11, 7, (2, 2), strides=(2, 2), rngs=rngs)
        self.join2, self.join1, self.out = conv(14, 7), conv(12, 5), conv(5, 2)

    def __call__(self, x):
        a = nnx.relu(self.down1(x))
        b = nnx.relu(self.down2(nnx.max_pool(a, (2, 2), strides=(2, 2))))
        c = nnx.relu(self.bottom(nnx.avg_pool(b, (2, 2), strides=(2, 2))))
        b = nnx.relu(self.join2(jnp.concatenate([b, self.up2(c)], axis=-1)))
        n, h, w, d = b.shape
        b = jax.image.resize(b, (n, 2 * h, 2 * w, d), "nearest")
        a = nnx.relu(self.join1(jnp.concatenate([a, b], axis=-1)))
        return nnx.softmax(self.out(a), axis=-1)


def transposes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [n for n in model.graph.node if n.op_type == "Transpose"]


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


@pytest.mark.parametrize(("module", "at_ends"), [(Residual, 1), (Mobile, 1), (UNet, 2)])
@pytest.mark.parametrize("batch", [2, "B"])
def test_only_the_ends_are_transposed(module, at_ends, batch):
    model = module(nnx.Rngs(0))
    model.eval()
    spec = [jax.ShapeDtypeStruct((batch, 20, 28, 3), jnp.float32)]
    before = sardonyx.to_onnx(model, spec, passes="none")
    after = sardonyx.to_onnx(model, spec)
    assert len(transposes(before)) > 8

    # One before the first convolution and one after the last. Elementwise nodes may follow the latter.
    assert len(transposes(after)) <= at_ends, collections.Counter(n.op_type for n in after.graph.node)

    for size in (1, 3) if batch == "B" else (2,):
        x = np.random.default_rng(size).standard_normal((size, 20, 28, 3)).astype(np.float32)
        want, got = run(before, x), run(after, x)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * np.abs(want).max())


class Step(nnx.Module):
    """A residual step: the loop carries a value that is used directly and by a convolution."""

    def __init__(self, rngs: nnx.Rngs):
        self.inner = nnx.Conv(3, 3, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(3, rngs=rngs)

    def __call__(self, x):
        return x + nnx.relu(self.norm(self.inner(x)))


class Denoiser(nnx.Module):
    """A U-Net with a time embedding."""

    def __init__(self, rngs: nnx.Rngs):
        def conv(a, b):
            return nnx.Conv(a, b, (3, 3), rngs=rngs)

        self.down, self.bottom, self.join, self.out = conv(3, 5), conv(5, 7), conv(12, 5), conv(5, 3)
        self.time = nnx.Linear(4, 5, rngs=rngs)

    def __call__(self, x, t):
        a = nnx.relu(self.down(x) + self.time(jnp.sin(t * jnp.arange(1.0, 5.0))))
        b = nnx.relu(self.bottom(nnx.max_pool(a, (2, 2), strides=(2, 2))))
        n, h, w, _ = a.shape
        b = jax.image.resize(b, (n, h, w, 7), "nearest")
        return self.out(nnx.relu(self.join(jnp.concatenate([a, b], axis=-1))))


class Recurrent(nnx.Module):
    """The cell of a convolutional LSTM."""

    def __init__(self, rngs: nnx.Rngs):
        self.read, self.again = nnx.Conv(3, 12, (3, 3), rngs=rngs), nnx.Conv(3, 12, (3, 3), rngs=rngs)

    def __call__(self, carry, x):
        h, c = carry
        i, f, g, o = jnp.split(self.read(x) + self.again(h), 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h


def refined(step, x):
    return jax.lax.fori_loop(0, 7, lambda _, s: step(s), x)


def until_large(step, x):
    def go_on(state):
        return state[0] < 7

    return jax.lax.while_loop(go_on, lambda state: (state[0] + 1, step(state[1])), (0, x))[1]


def tracked(step, x):
    def body(s, e):
        s = step(s) + e
        return s, jnp.mean(s, axis=(1, 2))

    last, means = jax.lax.scan(body, x, jnp.stack([x, -x, x]))
    return jnp.sum(means) + last


def diffused(unet, x):
    return jax.lax.fori_loop(0, 5, lambda i, s: s - 0.1 * unet(s, jnp.float32(i)), x)


def remembered(cell, x):
    xs = jnp.stack([x, x * 2, x * 3])
    return jnp.concatenate(list(jax.lax.scan(cell, (jnp.zeros_like(x), x), xs)[1]), axis=-1)


def inside_of_loops(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """All nodes of all bodies."""
    found = []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += [*attribute.g.node, *inside_of_loops(attribute.g)]
    return found


@pytest.mark.parametrize(
    ("module", "loop"),
    [(Step, refined), (Step, until_large), (Step, tracked), (Denoiser, diffused), (Recurrent, remembered)],
)
@pytest.mark.parametrize("batch", [2, "B"])
def test_what_a_loop_carries_is_transposed_outside(module, loop, batch):
    model = module(nnx.Rngs(0))
    model.eval()
    spec = [jax.ShapeDtypeStruct((batch, 12, 20, 3), jnp.float32)]

    def looped(x):
        return loop(model, x)

    before = sardonyx.to_onnx(looped, spec, passes="none")
    after = sardonyx.to_onnx(looped, spec)
    assert any(n.op_type == "Transpose" for n in inside_of_loops(before.graph))
    inside = collections.Counter(n.op_type for n in inside_of_loops(after.graph))
    assert inside["Conv"] > 0
    assert inside["Transpose"] == 0, inside
    assert len(transposes(after)) <= 3

    for size in (1, 3) if batch == "B" else (2,):
        x = np.random.default_rng(size).standard_normal((size, 12, 20, 3)).astype(np.float32)
        want, got = run(before, x), run(after, x)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * np.abs(want).max())
