"""A decoder of GPT-2's shape in Flax NNX; the defaults are the 124M-parameter one, embedding tied to the head."""

import jax
import jax.numpy as jnp
from flax import nnx


class DecoderBlock(nnx.Module):
    def __init__(self, features: int, heads: int, *, rngs: nnx.Rngs):
        self.heads = heads
        self.norm1 = nnx.LayerNorm(features, epsilon=1e-5, rngs=rngs)
        self.qkv = nnx.Linear(features, 3 * features, rngs=rngs)
        self.out = nnx.Linear(features, features, rngs=rngs)
        self.norm2 = nnx.LayerNorm(features, epsilon=1e-5, rngs=rngs)
        self.up = nnx.Linear(features, 4 * features, rngs=rngs)
        self.down = nnx.Linear(4 * features, features, rngs=rngs)

    def attend(self, x):
        batch, time, features = x.shape
        q, k, v = jnp.split(self.qkv(x), 3, axis=-1)
        split = (batch, time, self.heads, features // self.heads)
        y = jax.nn.dot_product_attention(q.reshape(split), k.reshape(split), v.reshape(split), is_causal=True)
        return self.out(y.reshape(batch, time, features))

    def __call__(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class Decoder(nnx.Module):
    def __init__(
        self,
        vocabulary: int = 50257,
        context: int = 1024,
        features: int = 768,
        depth: int = 12,
        heads: int = 12,
        *,
        rngs: nnx.Rngs,
    ):
        self.tokens = nnx.Embed(vocabulary, features, rngs=rngs)
        self.positions = nnx.Embed(context, features, rngs=rngs)
        self.blocks = nnx.List([DecoderBlock(features, heads, rngs=rngs) for _ in range(depth)])
        self.norm = nnx.LayerNorm(features, epsilon=1e-5, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) + self.positions(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.tokens.attend(self.norm(x))
