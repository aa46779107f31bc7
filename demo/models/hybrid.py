"""A convolutional front with an attention tail in Equinox, written for one image and mapped over the batch."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp


class AttentionBlock(eqx.Module):
    norm1: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    norm2: eqx.nn.LayerNorm
    mlp: eqx.nn.MLP

    def __init__(self, features: int, heads: int, *, key):
        first, second = jax.random.split(key)
        self.norm1 = eqx.nn.LayerNorm(features)
        self.attention = eqx.nn.MultiheadAttention(heads, features, key=first)
        self.norm2 = eqx.nn.LayerNorm(features)
        self.mlp = eqx.nn.MLP(features, features, 4 * features, depth=1, activation=jax.nn.silu, key=second)

    def __call__(self, x):
        y = jax.vmap(self.norm1)(x)
        x = x + self.attention(y, y, y)
        return x + jax.vmap(self.mlp)(jax.vmap(self.norm2)(x))


class Hybrid(eqx.Module):
    convs: list
    norms: list
    pool: eqx.nn.MaxPool2d
    blocks: list
    head: eqx.nn.Linear

    def __init__(self, widths=(3, 64, 128, 256), depth: int = 4, classes: int = 100, *, key):
        keys = iter(jax.random.split(key, len(widths) + depth))
        self.convs = [eqx.nn.Conv2d(a, b, 3, padding=1, key=next(keys)) for a, b in pairwise(widths)]
        self.norms = [eqx.nn.GroupNorm(8, width) for width in widths[1:]]
        self.pool = eqx.nn.MaxPool2d(2, 2)
        self.blocks = [AttentionBlock(widths[-1], 8, key=next(keys)) for _ in range(depth)]
        self.head = eqx.nn.Linear(widths[-1], classes, key=next(keys))

    def __call__(self, image):
        x = image
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = self.pool(jax.nn.elu(norm(conv(x))))
        x = x.reshape(x.shape[0], -1).T
        for block in self.blocks:
            x = block(x)
        return jax.nn.log_softmax(self.head(jnp.max(x, axis=0)))
