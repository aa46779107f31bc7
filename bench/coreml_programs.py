"""Networks as coremltools programs, in the form that frontends produce, before any fusion.

Weights are noise from a fixed seed. `scale` reduces every channel count and keeps the ops.
"""

import logging
import os

os.environ.setdefault("TQDM_DISABLE", "1")
logging.getLogger("coremltools").setLevel(logging.ERROR)

import coremltools as ct  # noqa: E402
import numpy as np  # noqa: E402
from coremltools.converters.mil.mil import Builder as mb  # noqa: E402
from coremltools.converters.mil.mil import types  # noqa: E402

TARGET = ct.target.iOS17


class Net:
    def __init__(self, scale: float, seed: int = 7):
        self.scale, self.rng = scale, np.random.default_rng(seed)

    def width(self, channels: int, multiple: int = 8) -> int:
        return max(multiple, int(channels * self.scale) // multiple * multiple)

    def w(self, *shape):
        return (self.rng.standard_normal(shape, dtype=np.float32) * 0.05).astype(np.float32)

    # --- images

    def conv(self, x, channels, kernel, stride=1, groups=1, relu="relu"):
        x = mb.conv(
            x=x,
            weight=self.w(channels, x.shape[1] // groups, kernel, kernel),
            strides=[stride, stride],
            pad_type="custom",
            pad=[kernel // 2] * 4,
            groups=groups,
        )
        one = np.abs(self.w(channels)) + 1
        x = mb.batch_norm(x=x, mean=self.w(channels), variance=one, gamma=one, beta=self.w(channels), epsilon=1e-5)
        return {"relu": mb.relu, "relu6": mb.relu6, "": mb.identity}[relu](x=x)

    def head(self, x):
        x = mb.reduce_mean(x=x, axes=[2, 3], keep_dims=True)
        x = mb.reshape(x=x, shape=[1, x.shape[1]])
        return mb.softmax(x=self.linear(x, 1000), axis=-1)

    # --- words

    def linear(self, x, channels):
        """As PyTorch emits it: a product with the transposed weight, then the bias."""
        weight = mb.transpose(x=mb.const(val=self.w(channels, x.shape[-1])), perm=[1, 0])
        return mb.add(x=mb.matmul(x=x, y=weight), y=self.w(channels))

    def layer_norm(self, x):
        mean = mb.reduce_mean(x=x, axes=[-1], keep_dims=True)
        centered = mb.sub(x=x, y=mean)
        variance = mb.reduce_mean(x=mb.square(x=centered), axes=[-1], keep_dims=True)
        y = mb.real_div(x=centered, y=mb.sqrt(x=mb.add(x=variance, y=np.float32(1e-5))))
        return mb.add(x=mb.mul(x=y, y=self.w(x.shape[-1]) + 1), y=self.w(x.shape[-1]))

    def gelu(self, x):
        erf = mb.erf(x=mb.real_div(x=x, y=np.float32(2**0.5)))
        return mb.mul(x=mb.mul(x=x, y=mb.add(x=erf, y=np.float32(1))), y=np.float32(0.5))

    def gelu_tanh(self, x):
        inner = mb.add(x=x, y=mb.mul(x=mb.pow(x=x, y=np.float32(3)), y=np.float32(0.044715)))
        y = mb.tanh(x=mb.mul(x=inner, y=np.float32((2 / np.pi) ** 0.5)))
        return mb.mul(x=mb.mul(x=x, y=np.float32(0.5)), y=mb.add(x=y, y=np.float32(1)))

    def attention(self, x, heads, mask=None):
        _, length, channels = x.shape

        def split(v):
            v = mb.reshape(x=self.linear(v, channels), shape=[1, length, heads, channels // heads])
            return mb.transpose(x=v, perm=[0, 2, 1, 3])

        q, k, v = split(x), split(x), split(x)
        scores = mb.matmul(x=q, y=mb.transpose(x=k, perm=[0, 1, 3, 2]))
        scores = mb.real_div(x=scores, y=np.float32((channels // heads) ** 0.5))
        if mask is not None:
            scores = mb.add(x=scores, y=mask)
        y = mb.matmul(x=mb.softmax(x=scores, axis=-1), y=v)
        y = mb.reshape(x=mb.transpose(x=y, perm=[0, 2, 1, 3]), shape=[1, length, channels])
        return self.linear(y, channels)

    def mlp(self, x, gelu):
        return self.linear(gelu(self.linear(x, 4 * x.shape[-1])), x.shape[-1])


def _image(size):
    return [mb.TensorSpec(shape=(1, 3, size, size))]


def _words(length):
    return [mb.TensorSpec(shape=(1, length), dtype=types.int32)]


def resnet50(net):
    def build(x):
        x = mb.max_pool(x=net.conv(x, net.width(64), 7, 2), kernel_sizes=[3, 3], strides=[2, 2], pad_type="same")
        for stage, (channels, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
            for block in range(blocks):
                stride = 2 if block == 0 and stage > 0 else 1
                y = net.conv(x, net.width(channels), 1)
                y = net.conv(y, net.width(channels), 3, stride)
                y = net.conv(y, net.width(4 * channels), 1, relu="")
                if block == 0:
                    x = net.conv(x, net.width(4 * channels), 1, stride, relu="")
                x = mb.relu(x=mb.add(x=x, y=y))
        return net.head(x)

    return build, _image(224)


def mobilenet(net):
    def build(x):
        x = net.conv(x, net.width(32), 3, 2, relu="relu6")
        for expand, channels, count, stride in [
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ]:
            for i in range(count):
                wide = x.shape[1] * expand
                y = net.conv(x, wide, 1, relu="relu6") if expand > 1 else x
                y = net.conv(y, wide, 3, stride if i == 0 else 1, groups=wide, relu="relu6")
                y = net.conv(y, net.width(channels), 1, relu="")
                x = mb.add(x=x, y=y) if i > 0 else y
        return net.head(net.conv(x, net.width(1280), 1, relu="relu6"))

    return build, _image(224)


def vit_b16(net):
    def build(x):
        channels = net.width(768, 96)
        x = mb.conv(x=x, weight=net.w(channels, 3, 16, 16), bias=net.w(channels), strides=[16, 16])
        x = mb.transpose(x=mb.reshape(x=x, shape=[1, channels, 196]), perm=[0, 2, 1])
        x = mb.add(x=mb.concat(values=(net.w(1, 1, channels), x), axis=1), y=net.w(1, 197, channels))
        for _ in range(12):
            x = mb.add(x=x, y=net.attention(net.layer_norm(x), 12))
            x = mb.add(x=x, y=net.mlp(net.layer_norm(x), net.gelu))
        x = mb.slice_by_index(
            x=net.layer_norm(x), begin=[0, 0, 0], end=[1, 1, channels], squeeze_mask=[False, True, False]
        )
        return net.linear(x, 1000)

    return build, _image(224)


def bert_base(net, length=128):
    def build(ids):
        channels = net.width(768, 96)
        x = mb.gather(x=net.w(net.width(30522), channels), indices=ids, axis=0)
        x = net.layer_norm(mb.add(x=x, y=net.w(1, length, channels)))
        for _ in range(12):
            x = net.layer_norm(mb.add(x=x, y=net.attention(x, 12)))
            x = net.layer_norm(mb.add(x=x, y=net.mlp(x, net.gelu)))
        return x

    return build, _words(length)


def gpt2_small(net, length=128):
    def build(ids):
        channels = net.width(768, 96)
        words = net.w(net.width(50257), channels)
        x = mb.add(x=mb.gather(x=words, indices=ids, axis=0), y=net.w(1, length, channels))
        mask = np.triu(np.full((1, 1, length, length), -1e4, np.float32), 1)
        for _ in range(12):
            x = mb.add(x=x, y=net.attention(net.layer_norm(x), 12, mask))
            x = mb.add(x=x, y=net.mlp(net.layer_norm(x), net.gelu_tanh))
        return mb.matmul(x=net.layer_norm(x), y=words, transpose_y=True)

    return build, _words(length)


def synthetic(net, ops):
    """About this many ops, constants included, in blocks that some passes look at and few change."""

    def build(x):
        weight = net.w(8, 8, 3, 3)
        for _ in range(ops // 18):
            y = mb.add(x=mb.conv(x=x, weight=weight, pad_type="same"), y=net.w(1, 8, 1, 1))
            y = mb.transpose(x=mb.relu(x=y), perm=[0, 2, 3, 1])
            y = mb.mul(x=mb.transpose(x=y, perm=[0, 3, 1, 2]), y=np.float32(0.5))
            x = mb.add(x=x, y=mb.sigmoid(x=y))
        return x

    return build, [mb.TensorSpec(shape=(1, 8, 16, 16))]


NETWORKS = {f.__name__: f for f in (resnet50, mobilenet, vit_b16, bert_base, gpt2_small)}


def program(name: str, scale: float = 1.0):
    """One of NETWORKS, or "synthetic-8000"."""
    mb.name_count.clear()
    net = Net(scale)
    if name.startswith("synthetic-"):
        build, inputs = synthetic(net, int(name.partition("-")[2]))
    else:
        build, inputs = NETWORKS[name](net)
    return mb.program(input_specs=inputs, opset_version=TARGET)(build)
