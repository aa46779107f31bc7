"""ResNet-50 (v1.5: the stride is in the 3x3 convolution) in Flax NNX, images as NHWC."""

import jax
import jax.numpy as jnp
from flax import nnx


class Bottleneck(nnx.Module):
    def __init__(self, features_in: int, width: int, stride: int, *, rngs: nnx.Rngs):
        def conv(a, b, size, step=1):
            return nnx.Conv(a, b, (size, size), strides=(step, step), use_bias=False, rngs=rngs)

        def norm(features):
            return nnx.BatchNorm(features, rngs=rngs)

        self.conv1, self.norm1 = conv(features_in, width, 1), norm(width)
        self.conv2, self.norm2 = conv(width, width, 3, stride), norm(width)
        self.conv3, self.norm3 = conv(width, 4 * width, 1), norm(4 * width)
        self.project = nnx.Sequential()
        if stride != 1 or features_in != 4 * width:
            self.project = nnx.Sequential(conv(features_in, 4 * width, 1, stride), norm(4 * width))

    def __call__(self, x):
        y = nnx.relu(self.norm1(self.conv1(x)))
        y = nnx.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        return nnx.relu(y + self.project(x))


class ResNet(nnx.Module):
    def __init__(self, depths=(3, 4, 6, 3), width: int = 64, classes: int = 1000, *, rngs: nnx.Rngs):
        self.stem = nnx.Conv(3, width, (7, 7), strides=(2, 2), use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        blocks, features = [], width
        for stage, depth in enumerate(depths):
            for i in range(depth):
                stride = 2 if stage > 0 and i == 0 else 1
                blocks.append(Bottleneck(features, width * 2**stage, stride, rngs=rngs))
                features = 4 * width * 2**stage
        self.blocks = nnx.List(blocks)
        self.head = nnx.Linear(features, classes, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        x = nnx.relu(self.norm(self.stem(images)))
        x = nnx.max_pool(x, window_shape=(3, 3), strides=(2, 2), padding="SAME")
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(x, axis=(1, 2)))
