"""Plain JAX with a `while_loop` and `jax.random`: a randomly started, noisy power iteration, the key an input."""

import jax
import jax.numpy as jnp


def dominant_direction(matrix: jax.Array, key: jax.Array):
    """The leading eigenpair of matrix @ matrix.T, and how many rounds it took.

    Each round shakes the vector a little, less every time, so that a bad start cannot trap it.
    """

    def unit(v):
        return v / jnp.linalg.norm(v)

    def unfinished(state):
        _, _, change, rounds = state
        return (change > 1e-3) & (rounds < 200)

    def advance(state):
        vector, key, _, rounds = state
        key, sub = jax.random.split(key)
        noise = jax.random.normal(sub, vector.shape) * 0.01 * 0.8**rounds
        moved = unit(matrix @ (matrix.T @ (vector + noise)))
        return moved, key, jnp.linalg.norm(moved - vector), rounds + 1

    key, sub = jax.random.split(key)
    start = unit(jax.random.uniform(sub, (matrix.shape[0],), minval=-1.0, maxval=1.0))
    state = (start, key, jnp.float32(jnp.inf), jnp.int32(0))
    vector, _, _, rounds = jax.lax.while_loop(unfinished, advance, state)
    return {"value": jnp.sum((matrix.T @ vector) ** 2), "vector": vector, "rounds": rounds}
