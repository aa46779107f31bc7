"""Vision Transformer in Flax NNX; the defaults are ViT-B/16 at 224 x 224."""

import jax
import jax.numpy as jnp
from flax import nnx


class EncoderBlock(nnx.Module):
    def __init__(self, features: int, heads: int, hidden: int, *, rngs: nnx.Rngs):
        self.norm1 = nnx.LayerNorm(features, epsilon=1e-6, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(num_heads=heads, in_features=features, decode=False, rngs=rngs)
        self.norm2 = nnx.LayerNorm(features, epsilon=1e-6, rngs=rngs)
        self.up = nnx.Linear(features, hidden, rngs=rngs)
        self.down = nnx.Linear(hidden, features, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(nnx.gelu(self.up(self.norm2(x)), approximate=False))


class VisionTransformer(nnx.Module):
    def __init__(
        self,
        image: int = 224,
        patch: int = 16,
        features: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int = 3072,
        classes: int = 1000,
        *,
        rngs: nnx.Rngs,
    ):
        tokens = (image // patch) ** 2 + 1
        self.patches = nnx.Conv(3, features, (patch, patch), strides=(patch, patch), padding="VALID", rngs=rngs)
        self.cls = nnx.Param(jnp.zeros((1, 1, features)))
        self.pos = nnx.Param(jnp.zeros((1, tokens, features)))
        self.blocks = nnx.List([EncoderBlock(features, heads, hidden, rngs=rngs) for _ in range(depth)])
        self.norm = nnx.LayerNorm(features, epsilon=1e-6, rngs=rngs)
        self.head = nnx.Linear(features, classes, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        x = self.patches(images)
        batch, rows, columns, features = x.shape
        x = x.reshape(batch, rows * columns, features)
        cls = jnp.broadcast_to(self.cls[...], (batch, 1, features))
        x = jnp.concatenate([cls, x], axis=1) + self.pos[...]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])
