"""Loops of JAX that carry, take and return random keys, which are 64-bit integers in ONNX: Core ML holds 32 bits."""

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import sardonyx  # noqa: E402


def carried(x):
    def step(key, row):
        key, now = jax.random.split(key)
        return key, row + jax.random.uniform(now, row.shape)

    return jax.lax.scan(step, jax.random.key(7), x)[1]


def carried_on(x):
    def step(key, row):
        key, now = jax.random.split(key)
        return key, row + jax.random.uniform(now, row.shape)

    key, rows = jax.lax.scan(step, jax.random.key(7), x)
    return rows + jax.random.uniform(key, x.shape)


def taken_by_rows(x):
    keys = jax.random.split(jax.random.key(5), 3)
    return jax.lax.scan(lambda c, now: (c, now[0] + jax.random.uniform(now[1], now[0].shape)), 0, (x, keys))[1]


def stacked(x):
    keys = jax.lax.scan(lambda key, _: (jax.random.split(key)[0], key), jax.random.key(3), None, length=3)[1]
    return x + jax.vmap(lambda key: jax.random.uniform(key, (5,)))(keys)


def while_below(x):
    def body(state):
        i, key, total = state
        key = jax.random.fold_in(key, i)
        return i + 1, key, total + jax.random.uniform(key, total.shape)

    return jax.lax.while_loop(lambda s: jnp.sum(s[2]) < 30, body, (0, jax.random.key(11), x))[2]


@pytest.mark.parametrize("fn", [carried, carried_on, taken_by_rows, stacked, while_below])
def test_loops_with_random_keys(fn):
    x = np.random.default_rng(7).random((3, 5)).astype(np.float32)
    program = sardonyx.to_coreml(fn, [(3, 5)], precision="f32")
    (found,) = program.run([x]).values()
    np.testing.assert_allclose(found, np.asarray(jax.jit(fn)(x)), rtol=1e-6, atol=1e-6)
