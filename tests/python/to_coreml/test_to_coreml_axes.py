"""JAX functions on six axes, where Core ML's tensors have five: blocks, windows, unfolding, repetition."""

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import sardonyx  # noqa: E402


def repeated(x):
    n, h, w, c = x.shape
    return jnp.broadcast_to(x[:, :, None, :, None, :], (n, h, 2, w, 2, c)).reshape(n, h * 2, w * 2, c)


def tiled(x):
    n, h, w, c = x.shape
    return jnp.tile(x[:, :, None, :, None, :], (1, 1, 2, 1, 3, 1)).reshape(n, h * 2, w * 3, c)


def means_of_blocks(x):
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 4, 4, c).mean((2, 4))


def largest_of_blocks(x):
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 4, 4, c).max((2, 4))


def normalized_blocks(x):
    n, h, w, c = x.shape
    y = x.reshape(n, 2, h // 2, 4, w // 4, c)
    centered = y - y.mean((1, 3), keepdims=True)
    variance = (centered**2).mean((1, 3), keepdims=True)
    return (centered * jax.lax.rsqrt(variance + 1e-5)).reshape(n, h, w, c)


def attention_in_windows(x):
    n, h, w, c = x.shape
    y = x.reshape(n, h // 2, 2, w // 4, 4, c).transpose(0, 1, 3, 2, 4, 5)
    y = y.reshape(n, h // 2, w // 4, 8, 2, c // 2).transpose(0, 1, 2, 4, 3, 5)
    scores = jax.nn.softmax(jnp.einsum("nabhtd,nabhsd->nabhts", y, y), -1)
    z = jnp.einsum("nabhts,nabhsd->nabhtd", scores, y).transpose(0, 1, 2, 4, 3, 5)
    return z.reshape(n, h // 2, w // 4, 2, 4, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)


def unfolded(x):
    n, h, w, c = x.shape
    rows = jnp.arange(3)[:, None] + jnp.arange(h - 2)
    columns = jnp.arange(3)[:, None] + jnp.arange(w - 2)
    y = x.transpose(0, 3, 1, 2)[:, :, rows][:, :, :, :, columns]
    return y.transpose(0, 1, 2, 4, 3, 5).reshape(n, c * 9, (h - 2) * (w - 2))


@pytest.mark.parametrize("batch", [3, "B"])
@pytest.mark.parametrize(
    "fn",
    [
        repeated,
        tiled,
        means_of_blocks,
        largest_of_blocks,
        normalized_blocks,
        attention_in_windows,
        unfolded,
    ],
)
@pytest.mark.filterwarnings("ignore:sizes without an upper bound")
def test_six_axes(fn, batch):
    x = np.random.default_rng(7).standard_normal((3, 4, 8, 6)).astype(np.float32)
    program = sardonyx.to_coreml(fn, [(batch, 4, 8, 6)], precision="f32")
    (found,) = program.run([x]).values()
    wanted = np.asarray(jax.jit(fn)(x))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_inputs_and_results_of_six_axes_are_named():
    with pytest.raises(sardonyx.Error, match="the input 'x' is f32\\[1,2,3,2,5,2\\]"):
        sardonyx.to_coreml(lambda x: x + 1, [(1, 2, 3, 2, 5, 2)], precision="f32")
    with pytest.raises(sardonyx.Error, match="the result .* is f32\\[1,2,3,2,5,2\\]"):
        sardonyx.to_coreml(lambda x: x.reshape(1, 2, 3, 2, 5, 2), [(2, 3, 20)], precision="f32")
