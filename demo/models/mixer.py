"""MLP-Mixer in Flax Linen; the defaults are Mixer-S/16 at 224 x 224."""

import flax.linen as nn
import jax.numpy as jnp


class Mlp(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x):
        y = nn.gelu(nn.Dense(self.hidden)(x))
        return nn.Dense(x.shape[-1])(y)


class MixerBlock(nn.Module):
    across_tokens: int
    across_channels: int

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        y = Mlp(self.across_tokens, name="tokens")(jnp.swapaxes(y, 1, 2))
        x = x + jnp.swapaxes(y, 1, 2)
        return x + Mlp(self.across_channels, name="channels")(nn.LayerNorm()(x))


class Mixer(nn.Module):
    patch: int = 16
    features: int = 512
    depth: int = 8
    across_tokens: int = 256
    across_channels: int = 2048
    classes: int = 1000

    @nn.compact
    def __call__(self, images):
        patch = (self.patch, self.patch)
        x = nn.Conv(self.features, patch, strides=patch, name="stem")(images)
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        for _ in range(self.depth):
            x = MixerBlock(self.across_tokens, self.across_channels)(x)
        x = nn.LayerNorm()(x).mean(axis=1)
        return nn.Dense(self.classes, name="head")(x)
