"""Weights for the demonstration models: fixed seeds, made by NumPy in a second or two.

The modules are the libraries' own. Only their initializers are left out: compiling and running one
initializer per parameter takes longer than everything else that the demo does.
"""

import zlib

import jax
import jax.numpy as jnp
import numpy as np


def draw(name: str, shape: tuple[int, ...], dtype, seed: int = 0) -> jax.Array:
    """One parameter, decided by its name, its shape and the seed alone.

    Scales, variances and shifts are near their neutral values yet never equal to them, so that no
    exporter can drop them unnoticed. Matrices keep the size of what passes through them.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    noise = rng.standard_normal(shape, dtype=np.float32)
    if "scale" in name or "norm" in name and "weight" in name:
        value = 1 + 0.1 * noise
    elif "var" in name:
        value = 1 + 0.2 * np.abs(noise)
    elif "mean" in name or "bias" in name or "cls" in name:
        value = 0.05 * noise
    elif "embedding" in name or "pos" in name:
        value = 0.02 * noise
    else:
        # What comes out is the last axis of a Flax kernel, the first of an Equinox weight; the rest is summed over.
        fan_out = 1 if not shape else shape[0] if "weight" in name else shape[-1]
        fan_in = max(1, noise.size // max(fan_out, 1))
        value = noise * np.float32(fan_in**-0.5)
    return jnp.asarray(np.asarray(value, dtype=dtype))


def fill(tree, seed: int = 0):
    """The same tree with every float leaf (an array or only its shape) drawn by `draw`; others become zero."""

    def leaf(path, x):
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            return x
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return jnp.zeros(x.shape, x.dtype)
        return draw(jax.tree_util.keystr(path).lower(), x.shape, x.dtype, seed)

    return jax.tree_util.tree_map_with_path(leaf, tree)


def nnx_module(make, seed: int = 0):
    """An NNX module in evaluation mode: built by `make` as shapes only, then filled."""
    from flax import nnx

    graph, state = nnx.split(nnx.eval_shape(make))
    module = nnx.merge(graph, fill(state, seed))
    module.eval()
    return module
