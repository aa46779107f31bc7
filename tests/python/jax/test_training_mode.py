"""Modules that are left in training mode: what they bake into a model is named in a warning."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sardonyx


def told(fn, inputs=("f32[B,7]",)):
    """The warning of an export; "" where there is none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sardonyx.to_onnx(fn, list(inputs))
    texts = [str(w.message) for w in caught if "training mode" in str(w.message) or "baked in" in str(w.message)]
    assert len(texts) <= 1
    return texts[0] if texts else ""


def test_nnx():
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.dense = nnx.Linear(7, 11, rngs=rngs)
            self.norm = nnx.BatchNorm(11, rngs=rngs)
            self.drop = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x):
            return self.drop(self.norm(self.dense(x)))

    net = Net(nnx.Rngs(0))
    text = told(net)
    assert "norm normalizes by statistics of the batch" in text and "random numbers come from a key" in text
    assert "Net/drop at test_training_mode.py:" in text and "model.eval()" in text
    net.eval()
    assert told(net) == ""
    net.train()
    assert told(lambda x: net.norm(x, use_running_average=True), ["f32[B,11]"]) == ""
    assert "norm" in told(lambda x: net.norm(x), ["f32[B,11]"]).lower()


def test_linen():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = nn.BatchNorm(use_running_average=not train, name="norm")(nn.Dense(11)(x))
            return nn.Dropout(0.5, deterministic=not train, name="drop")(x)

    net = Net()
    variables = net.init(jax.random.key(0), np.zeros((2, 7), np.float32), train=False)
    key = jax.random.key(1)

    def training(x):
        y, _ = net.apply(variables, x, train=True, rngs={"dropout": key}, mutable=["batch_stats"])
        return y

    text = told(training)
    assert "norm normalizes by statistics of the batch" in text and "drop" in text and "deterministic=True" in text
    assert told(lambda x: net.apply(variables, x, train=False)) == ""


def test_equinox():
    eqx = pytest.importorskip("equinox")

    class Net(eqx.Module):
        dense: eqx.nn.Linear
        drop: eqx.nn.Dropout

        def __init__(self, key):
            self.dense = eqx.nn.Linear(7, 11, key=key)
            self.drop = eqx.nn.Dropout(0.5)

        def __call__(self, x):
            return self.drop(self.dense(x), key=jax.random.key(3))

    net = Net(jax.random.key(0))
    text = told(net, ["f32[7]"])
    assert "random numbers come from a key" in text and "eqx.nn.inference_mode" in text
    assert told(eqx.nn.inference_mode(net), ["f32[7]"]) == ""


def test_equinox_statistics():
    eqx = pytest.importorskip("equinox")

    def net(inference):
        norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(7, axis_name="batch", mode="batch", inference=inference)
        return lambda x: jax.vmap(norm, in_axes=(0, None), out_axes=(0, None), axis_name="batch")(x, state)[0]

    text = told(net(False), ["f32[5,7]"])
    assert "eqx.nn.BatchNorm normalizes by statistics of the batch" in text
    assert told(net(True), ["f32[5,7]"]) == ""


def test_haiku():
    hk = pytest.importorskip("haiku")

    def forward(x, training):
        x = hk.BatchNorm(True, True, 0.9, name="norm")(hk.Linear(11)(x), is_training=training)
        return hk.dropout(hk.next_rng_key(), 0.5, x) if training else x

    net = hk.transform_with_state(forward)
    params, state = net.init(jax.random.key(0), np.zeros((2, 7), np.float32), True)
    text = told(lambda x: net.apply(params, state, jax.random.key(1), x, True)[0])
    assert "norm normalizes by statistics of the batch" in text and "is_training=False" in text
    assert "random numbers come from a key" in text
    assert told(lambda x: net.apply(params, state, None, x, False)[0]) == ""


@pytest.mark.parametrize("jitted", [False, True])
def test_keys_that_are_made_inside(jitted):
    def noisy(x):
        return x + jax.random.normal(jax.random.key(0), (7,))

    text = told(jax.jit(noisy) if jitted else noisy)
    assert "noisy has random numbers baked in" in text and "test_training_mode.py:" in text and "key[]" in text


def test_keys_that_are_inputs():
    def noisy(key, x):
        a, b = jax.random.split(key)
        return x + jax.random.normal(a, (7,)) * jax.random.bernoulli(b, 0.5, (7,))

    assert told(noisy, ["key[]", "f32[B,7]"]) == ""

    def in_a_loop(key, x):
        def step(carry, _):
            key, x = carry
            key, own = jax.random.split(key)
            return (key, x + jax.random.normal(own, (7,))), None

        return jax.lax.scan(step, (key, x), None, length=3)[0][1]

    assert told(in_a_loop, ["key[]", "f32[7]"]) == ""
    assert "baked in" in told(lambda x: in_a_loop(jax.random.key(0), x), ["f32[7]"])


def test_programs_without_randomness():
    assert told(lambda x: jnp.tanh(x).mean()) == ""
