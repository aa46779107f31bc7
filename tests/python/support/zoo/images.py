"""Image models: MLP, CNN, ResNet, U-Net, ViT."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx
from models import resnet
from models.weights import fill, nnx_module

from . import Model, f32

BATCH = ({"B": 2}, {"B": 3}, {"B": 1})


def linen(module: nn.Module, *examples, **keywords):
    """`module` with drawn weights, as a function of its inputs."""
    variables = fill(jax.eval_shape(lambda *x: module.init(jax.random.key(0), *x, **keywords), *examples))
    return lambda *x: module.apply(variables, *x, **keywords)


def haiku(function, *examples):
    """The result of `function`, which uses Haiku modules, with drawn weights and state."""
    import haiku as hk

    transformed = hk.without_apply_rng(hk.transform_with_state(function))
    parameters, state = fill(jax.eval_shape(lambda *x: transformed.init(jax.random.key(0), *x), *examples))
    return lambda *x: transformed.apply(parameters, state, *x)[0]


def equinox(make):
    """The module that `make(key)` makes, with drawn weights, in inference mode."""
    return eqx.nn.inference_mode(fill(eqx.filter_eval_shape(make, jax.random.key(0))))


def mlp_haiku():
    import haiku as hk

    def network(x):
        x = hk.nets.MLP([13, 11], activation=jax.nn.gelu, activate_final=True)(x)
        x = hk.LayerNorm(-1, create_scale=True, create_offset=True)(x)
        return jax.nn.softmax(hk.Linear(5)(x))

    return haiku(network, f32(2, 7))


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x):
        for features in (7, 11):
            x = nn.Conv(features, (3, 3))(x)
            x = nn.relu(nn.BatchNorm(use_running_average=True)(x))
            x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.gelu(nn.Conv(13, (3, 3), feature_group_count=1, kernel_dilation=2)(x), approximate=False)
        x = nn.Dropout(0.5, deterministic=True)(x.reshape(x.shape[0], -1))
        return nn.log_softmax(nn.Dense(5)(x))


def resnet_nnx():
    return nnx_module(lambda: resnet.ResNet((1, 2), width=4, classes=5, rngs=nnx.Rngs(0)))


def resnet_haiku():
    import haiku as hk

    def network(x):
        net = hk.nets.ResNet((1, 2, 1, 1), 5, bottleneck=False, channels_per_group=(6, 10, 14, 22))
        return net(x, is_training=True) if hk.running_init() else net(x, is_training=False)

    return haiku(network, f32(2, 40, 56, 3))


class Double(nnx.Module):
    def __init__(self, a, b, rngs):
        self.first, self.second = nnx.Conv(a, b, (3, 3), rngs=rngs), nnx.Conv(b, b, (3, 3), rngs=rngs)
        self.norm1, self.norm2 = nnx.BatchNorm(b, rngs=rngs), nnx.BatchNorm(b, rngs=rngs)

    def __call__(self, x):
        return nnx.relu(self.norm2(self.second(nnx.relu(self.norm1(self.first(x))))))


class UNet(nnx.Module):
    def __init__(self, rngs):
        self.down1, self.down2, self.bottom = Double(3, 5, rngs), Double(5, 7, rngs), Double(7, 11, rngs)
        self.up2 = nnx.ConvTranspose(11, 7, (2, 2), strides=(2, 2), rngs=rngs)
        self.up1 = nnx.ConvTranspose(7, 5, (3, 3), strides=(2, 2), rngs=rngs)
        self.join2, self.join1 = Double(14, 7, rngs), Double(10, 5, rngs)
        self.out = nnx.Conv(5, 2, (1, 1), rngs=rngs)

    def __call__(self, x):
        a = self.down1(x)
        b = self.down2(nnx.max_pool(a, (2, 2), strides=(2, 2)))
        c = self.bottom(nnx.max_pool(b, (2, 2), strides=(2, 2)))
        b = self.join2(jnp.concatenate([b, self.up2(c)], axis=-1))
        a = self.join1(jnp.concatenate([a, self.up1(b)], axis=-1))
        return nnx.sigmoid(self.out(a))


class EquinoxUNet(eqx.Module):
    down: eqx.nn.Conv2d
    norm: eqx.nn.GroupNorm
    bottom: eqx.nn.Conv2d
    up: eqx.nn.ConvTranspose2d
    out: eqx.nn.Conv2d

    def __init__(self, key):
        k = jax.random.split(key, 4)
        self.down = eqx.nn.Conv2d(3, 6, 3, padding=1, key=k[0])
        self.norm = eqx.nn.GroupNorm(3, 6)
        self.bottom = eqx.nn.Conv2d(6, 11, 3, padding=1, key=k[1])
        self.up = eqx.nn.ConvTranspose2d(11, 6, 3, stride=2, padding=1, output_padding=1, key=k[2])
        self.out = eqx.nn.Conv2d(12, 2, 3, padding=1, key=k[3])

    def __call__(self, x):
        a = jax.nn.silu(self.norm(self.down(x)))
        b = jax.nn.silu(self.bottom(eqx.nn.MaxPool2d(2, 2)(a)))
        return self.out(jnp.concatenate([a, self.up(b)], axis=0))


class Vit(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(12, (8, 8), strides=(8, 8), padding="VALID")(x)
        x = x.reshape(x.shape[0], -1, 12)
        cls = self.param("cls", nn.initializers.zeros, (1, 1, 12))
        x = jnp.concatenate([jnp.broadcast_to(cls, (x.shape[0], 1, 12)), x], axis=1)
        x = x + self.param("pos_embedding", nn.initializers.zeros, (1, x.shape[1], 12))
        for _ in range(2):
            x = x + nn.MultiHeadDotProductAttention(3, deterministic=True)(nn.LayerNorm()(x))
            y = nn.gelu(nn.Dense(29)(nn.LayerNorm()(x)), approximate=False)
            x = x + nn.Dense(12)(y)
        return nn.Dense(5)(nn.LayerNorm()(x)[:, 0])


MODELS = [
    Model(
        "mlp, Haiku",
        mlp_haiku,
        (f32("B", 7),),
        BATCH,
        ops={"Gemm": 3, "Gelu": 2, "LayerNormalization": 1, "Softmax": 1},
    ),
    Model(
        "mlp, Equinox",
        lambda: jax.vmap(equinox(lambda key: eqx.nn.MLP(7, 5, 13, 2, activation=jax.nn.silu, key=key))),
        (f32("B", 7),),
        BATCH,
        ops={"Gemm": 3},
    ),
    Model(
        "cnn, Linen",
        lambda: linen(Cnn(), f32(2, 20, 28, 3)),
        (f32("B", 20, 28, 3),),
        BATCH,
        ops={"Conv": 3, "MaxPool": 2, "BatchNormalization": 0, "Gelu": 1, "LogSoftmax": 1, "Transpose": 2},
    ),
    Model(
        "resnet, NNX",
        resnet_nnx,
        (f32("B", 32, 48, 3),),
        BATCH,
        ops={"Conv": 12, "BatchNormalization": 0, "Transpose": 1},
    ),
    Model("resnet of one size, NNX", resnet_nnx, (f32(2, 32, 48, 3),), ops={"Conv": 12, "Shape": 0, "Transpose": 1}),
    Model("resnet, Haiku", resnet_haiku, (f32("B", 40, 56, 3),), BATCH, ops={"BatchNormalization": 0, "Transpose": 1}),
    Model(
        "u-net, NNX",
        lambda: nnx_module(lambda: UNet(nnx.Rngs(0))),
        (f32("B", 20, 28, 3),),
        BATCH,
        ops={"Conv": 11, "ConvTranspose": 2, "BatchNormalization": 0, "Transpose": 2},
    ),
    Model(
        "u-net of any size, NNX",
        lambda: nnx_module(lambda: UNet(nnx.Rngs(0))),
        (f32("B", "4*H", "4*W", 3),),
        ({"B": 2, "4*H": 12, "4*W": 20}, {"B": 1, "4*H": 8, "4*W": 4}),
        ops={"Conv": 11, "ConvTranspose": 2, "BatchNormalization": 0, "Transpose": 2},
    ),
    Model(
        "u-net, Equinox",
        lambda: jax.vmap(equinox(EquinoxUNet)),
        (f32("B", 3, 20, 28),),
        BATCH,
        ops={"Conv": 3, "ConvTranspose": 1, "Transpose": 0},
    ),
    Model(
        "vit, Linen",
        lambda: linen(Vit(), f32(2, 24, 40, 3)),
        (f32("B", 24, 40, 3),),
        BATCH,
        ops={"Conv": 1, "Attention": 2, "LayerNormalization": 5, "Gelu": 2},
    ),
]
