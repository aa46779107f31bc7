"""Penzai, Orbax."""

import os

import jax
import jax.numpy as jnp
import orbax.checkpoint
import penzai.pz as pz
from catalog import normal, program


@program("penzai")
def penzai_named_arrays():
    model = pz.nn.Sequential([
        pz.nn.Linear.from_config("a", jax.random.key(0), {"features": 5}, {"features": 7}),
        pz.nn.Elementwise(jnp.tanh),
        pz.nn.LayerNorm.from_config("n", jax.random.key(1), across_axes={"features": 7}),
        pz.nn.Softmax("features"),
    ]) if hasattr(pz.nn.Linear, "from_config") else None  # fmt: skip
    model = pz.unbind_params(model)[0] if model is None else model
    return lambda x: model(pz.nx.wrap(x).tag("batch", "features")).unwrap("batch", "features"), [normal(3, 5)]


@program("orbax")
def orbax_restored_weights(tmp="build/libraries/checkpoint"):
    path = os.path.abspath(tmp)
    weights = {"w": jnp.asarray(normal(5, 3)), "b": jnp.asarray(normal(3, seed=1))}
    with orbax.checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, weights, force=True)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(path)
    return lambda x: jnp.tanh(x @ restored["w"] + restored["b"]), [normal(7, 5)]
