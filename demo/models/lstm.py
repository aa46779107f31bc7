"""A two-layer LSTM over `jax.lax.scan` in plain JAX; the second layer reads the sequence backwards."""

import jax
import jax.numpy as jnp

from .weights import draw


def layer(parameters, inputs, reverse: bool):
    """inputs [T, B, features] to hidden states [T, B, units]."""

    def step(carry, x):
        hidden, cell = carry
        gates = x @ parameters["w"] + hidden @ parameters["u"] + parameters["bias"]
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    units = parameters["u"].shape[0]
    start = jnp.zeros((inputs.shape[1], units), inputs.dtype)
    _, hidden = jax.lax.scan(step, (start, start), inputs, reverse=reverse)
    return hidden


def make(features: int = 128, units: int = 512, classes: int = 64):
    def parameters(name, n):
        shapes = {"w": (n, 4 * units), "u": (units, 4 * units), "bias": (4 * units,)}
        return {k: draw(f"{name}.{k}", shape, jnp.float32) for k, shape in shapes.items()}

    forward, backward = parameters("forward", features), parameters("backward", units)
    head = draw("head.kernel", (units, classes), jnp.float32)

    def classify(sequence: jax.Array) -> jax.Array:
        """sequence [B, T, features] to scores [B, T, classes]."""
        x = jnp.swapaxes(sequence, 0, 1)
        x = layer(forward, x, reverse=False)
        x = layer(backward, x, reverse=True)
        return jnp.swapaxes(x @ head, 0, 1)

    return classify
