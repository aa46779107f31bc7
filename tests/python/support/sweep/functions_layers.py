"""Layers: of Flax (NNX and Linen), Equinox and Haiku."""

# One line per row.
# fmt: off
# ruff: noqa: B008

from collections.abc import Callable
from functools import cache

import equinox as eqx
import flax.linen as linen
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import lax, random
from primitives.table import SIZES, Arg

from .rows import Rows

ROWS = Rows()
LOOSE = {"tolerance": 2e-5, "because": "sums of many products"}
TOKENS = Arg("i32[B,T]", 0, 11)


def layer(name: str, make: Callable, *inputs: str | Arg, call: Callable | None = None) -> None:
    """A row for the result of `make`, called on first use: a sweep over other rows should not wait for
    weights."""

    @cache
    def built():
        with jax.ensure_compile_time_eval():
            return make()

    ROWS.add(name, lambda *x: call(built(), *x) if call else built()(*x), *inputs, **LOOSE)


def linen_layer(name: str, make: Callable, *inputs: str | Arg, mutable=False, rngs: bool = False, **kinds) -> None:
    args = [a if isinstance(a, Arg) else Arg(a) for a in inputs]

    def parts():
        module = make()
        examples = [jnp.asarray(a.draw(np.random.default_rng(1), SIZES[0])) for a in args]
        return module, module.init({"params": random.key(0), "dropout": random.key(1)}, *examples, **kinds)

    streams = {"dropout": random.key(3)} if rngs else None
    layer(f"linen {name}", parts, *inputs, call=lambda p, *x: p[0].apply(p[1], *x, mutable=mutable, rngs=streams, **kinds))


def haiku_layer(name: str, fn: Callable, *inputs: str | Arg) -> None:
    args = [a if isinstance(a, Arg) else Arg(a) for a in inputs]

    def parts():
        made = hk.transform_with_state(fn)
        examples = [jnp.asarray(a.draw(np.random.default_rng(1), SIZES[0])) for a in args]
        return made, *made.init(random.PRNGKey(0), *examples)

    layer(f"haiku {name}", parts, *inputs, call=lambda p, *x: p[0].apply(p[1], p[2], random.PRNGKey(1), *x))


V, IMAGE, SEQUENCE = "f32[B,7]", "f32[B,9,7,4]", "f32[B,T,8]"
linen_layer("Dense", lambda: linen.Dense(5), V)
linen_layer("DenseGeneral", lambda: linen.DenseGeneral((5, 2), axis=(-2, -1)), "f32[B,3,7]")
linen_layer("Einsum", lambda: linen.Einsum((8, 2, 5), "bth,hnd->btnd"), SEQUENCE)
linen_layer("BatchNorm training", lambda: linen.BatchNorm(use_running_average=False), "f32[B,5,7]", mutable=["batch_stats"])
linen_layer("BatchNorm", lambda: linen.BatchNorm(use_running_average=True), "f32[B,5,7]")
for name, make in {
    "LayerNorm": linen.LayerNorm,
    "RMSNorm": linen.RMSNorm,
    "GroupNorm": lambda: linen.GroupNorm(num_groups=2),
    "InstanceNorm": linen.InstanceNorm,
    "WeightNorm": lambda: linen.WeightNorm(linen.Dense(5)),
}.items():
    linen_layer(name, make, "f32[B,5,8]")
linen_layer("SpectralNorm", lambda: linen.SpectralNorm(linen.Dense(5)), "f32[B,8]", update_stats=True, mutable=["batch_stats"])
linen_layer("Conv", lambda: linen.Conv(6, (3, 3), strides=2, feature_group_count=2), IMAGE)
linen_layer("Conv circular", lambda: linen.Conv(5, (3, 3), kernel_dilation=2, padding="CIRCULAR"), IMAGE)
linen_layer("Conv reflect", lambda: linen.Conv(5, (3, 3), padding="REFLECT"), IMAGE)
linen_layer("Conv causal", lambda: linen.Conv(5, (3,), padding="CAUSAL"), SEQUENCE)
linen_layer("ConvLocal", lambda: linen.ConvLocal(5, (3,)), "f32[B,7,3]")
linen_layer("ConvTranspose", lambda: linen.ConvTranspose(5, (3, 3), strides=(2, 2)), IMAGE)
linen_layer("ConvTranspose circular", lambda: linen.ConvTranspose(5, (3,), strides=(2,), padding="CIRCULAR"), "f32[B,5,3]")
linen_layer("ConvTranspose kernel", lambda: linen.ConvTranspose(5, (4, 4), strides=(2, 2), transpose_kernel=True, padding="VALID"), IMAGE)
linen_layer("Embed", lambda: linen.Embed(11, 5), TOKENS)
linen_layer("Dropout", lambda: linen.Dropout(0.5, deterministic=False), V, rngs=True)
linen_layer("MultiHeadDotProductAttention", lambda: linen.MultiHeadDotProductAttention(num_heads=2), SEQUENCE, SEQUENCE)
linen_layer("SelfAttention", lambda: linen.SelfAttention(num_heads=2), SEQUENCE)
for name in "LSTMCell OptimizedLSTMCell GRUCell MGUCell SimpleCell".split():
    linen_layer(f"RNN {name}", lambda c=getattr(linen, name): linen.RNN(c(5), reverse=True, keep_order=True), "f32[B,T,3]")
    linen_layer(f"RNN {name} carry", lambda c=getattr(linen, name): linen.RNN(c(5), return_carry=True, unroll=2), "f32[B,7,3]")
linen_layer("RNN lengths", lambda: linen.RNN(linen.LSTMCell(5)), "f32[B,7,3]", seq_lengths=np.array([3]))
linen_layer("Bidirectional", lambda: linen.Bidirectional(linen.RNN(linen.LSTMCell(4)), linen.RNN(linen.GRUCell(4))), "f32[B,T,3]")
linen_layer("ConvLSTMCell", lambda: linen.RNN(linen.ConvLSTMCell(4, (3, 3))), "f32[B,3,6,7,3]")
linen_layer("PReLU", linen.PReLU, V)
linen_layer("Sequential remat", lambda: linen.Sequential([linen.remat(linen.Dense)(5), linen.gelu, linen.Dense(3)]), V)
linen_layer("vmap", lambda: linen.vmap(linen.Dense, variable_axes={"params": 0}, split_rngs={"params": True})(5), "f32[3,B,7]")
for name in "avg_pool max_pool".split():
    ROWS.add(f"linen {name}", lambda x, f=getattr(linen, name): f(x, (2, 3), (2, 2), "SAME"), IMAGE, **LOOSE)
ROWS.add("linen avg_pool without pads", lambda x: linen.avg_pool(x, (3, 3), (2, 2), "SAME", count_include_pad=False), IMAGE, **LOOSE)
ROWS.add("linen make_causal_mask", lambda x: linen.combine_masks(linen.make_causal_mask(x), linen.make_attention_mask(x > 0, x > 0)), V)


def nnx_layer(name: str, make: Callable, *inputs: str | Arg, call: Callable = lambda m, *x: m(*x)) -> None:
    """The module is built where it is called: counters of random streams may only change there."""
    layer(f"nnx {name}", lambda: nnx.split(make(nnx.Rngs(0))), *inputs, call=lambda parts, *x: call(nnx.merge(*jax.tree.map(lambda a: a, parts)), *x))


nnx_layer("Linear", lambda r: nnx.Linear(7, 5, rngs=r), V)
nnx_layer("LinearGeneral", lambda r: nnx.LinearGeneral((3, 7), (5, 2), axis=(-2, -1), rngs=r), "f32[B,3,7]")
nnx_layer("Einsum", lambda r: nnx.Einsum("abc,cde->abde", (8, 2, 5), (2, 5), rngs=r), SEQUENCE)
nnx_layer("LoRA", lambda r: nnx.LoRA(7, 2, 5, rngs=r), V)
nnx_layer("LoRALinear", lambda r: nnx.LoRALinear(7, 5, lora_rank=2, rngs=r), V)
nnx_layer("MultiHeadAttention", lambda r: nnx.MultiHeadAttention(2, 8, decode=False, rngs=r), SEQUENCE)
nnx_layer("MultiHeadAttention mask", lambda r: nnx.MultiHeadAttention(2, 8, decode=False, normalize_qk=True, rngs=r), "f32[B,7,8]", call=lambda m, x: m(x, mask=nnx.make_causal_mask(jnp.ones((x.shape[0], 7)))))
for name in "BatchNorm LayerNorm RMSNorm InstanceNorm".split():
    nnx_layer(name, lambda r, c=getattr(nnx, name): c(8, rngs=r), "f32[B,5,6,8]", call=lambda m, x: nnx.view(m, use_running_average=True, raise_if_not_found=False)(x) if hasattr(nnx, "view") else m(x))
nnx_layer("GroupNorm", lambda r: nnx.GroupNorm(8, num_groups=2, rngs=r), "f32[B,5,6,8]")
nnx_layer("Conv 3d", lambda r: nnx.Conv(3, 5, (2, 3, 3), strides=(1, 2, 1), rngs=r), "f32[B,4,7,6,3]")
nnx_layer("Conv groups", lambda r: nnx.Conv(4, 8, (3, 3), feature_group_count=2, padding="CIRCULAR", rngs=r), IMAGE)
nnx_layer("ConvTranspose", lambda r: nnx.ConvTranspose(4, 5, (3, 3), strides=2, padding="CIRCULAR", rngs=r), IMAGE)
nnx_layer("Embed", lambda r: nnx.Embed(11, 5, rngs=r), TOKENS, call=lambda m, i: m.attend(m(i)))
for name in "LSTMCell OptimizedLSTMCell GRUCell SimpleCell".split():
    nnx_layer(f"RNN {name}", lambda r, c=getattr(nnx, name): nnx.RNN(c(3, 5, rngs=r)), "f32[B,T,3]")
    nnx_layer(f"RNN {name} lengths", lambda r, c=getattr(nnx, name): nnx.RNN(c(3, 5, rngs=r), return_carry=True), "f32[B,7,3]", Arg("i32[B]", 1, 8), call=lambda m, x, s: m(x, seq_lengths=s))
nnx_layer("Bidirectional", lambda r: nnx.Bidirectional(nnx.RNN(nnx.LSTMCell(3, 5, rngs=r)), nnx.RNN(nnx.GRUCell(3, 5, rngs=r)), rngs=r), "f32[B,T,3]")
nnx_layer("Sequential", lambda r: nnx.Sequential(nnx.Linear(8, 8, rngs=r), nnx.relu, nnx.Dropout(0.5, deterministic=True, rngs=r), nnx.Linear(8, 3, rngs=r)), "f32[B,8]")
nnx_layer("Dropout", lambda r: nnx.Dropout(0.5), "f32[B,8]", call=lambda m, x: m(x, deterministic=False, rngs=nnx.Rngs(1)))
nnx_layer("PReLU", lambda r: nnx.PReLU(), V)
nnx_layer("WeightNorm", lambda r: nnx.WeightNorm(nnx.Linear(7, 5, rngs=r), rngs=r), V)
for name in "avg_pool max_pool min_pool".split():
    ROWS.add(f"nnx {name}", lambda x, f=getattr(nnx, name): f(x, (2, 3), (2, 2), "SAME"), IMAGE, **LOOSE)


class Block(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.norm = nnx.Linear(8, 8, rngs=rngs), nnx.LayerNorm(8, rngs=rngs)

    def __call__(self, x):
        return x + nnx.gelu(self.linear(self.norm(x)))


def stacked(rngs):
    return nnx.vmap(lambda k: Block(nnx.Rngs(k)))(random.split(random.key(0), 3))


nnx_layer("scan", stacked, "f32[B,8]", call=lambda m, x: nnx.scan(lambda v, b: b(v), in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)(x, m))


def training(x, y):
    model = Block(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    loss, gradient = nnx.value_and_grad(lambda m: ((m(x) - y) ** 2).mean())(model)
    optimizer.update(model, gradient)
    return loss, jax.tree.leaves(nnx.state(model))


ROWS.add("nnx Optimizer", training, "f32[B,8]", "f32[B,8]", **LOOSE)


def eqx_layer(name: str, make: Callable, *inputs: str | Arg) -> None:
    layer(f"equinox {name}", lambda: make(random.key(0)), *inputs, call=lambda m, *x: jax.vmap(m)(*x))


E = eqx.nn
CHANNELS = "f32[B,3,7,9]"
eqx_layer("Linear", lambda k: E.Linear(7, 5, key=k), V)
eqx_layer("MLP", lambda k: E.MLP(7, 5, 9, 2, key=k), V)
eqx_layer("Conv1d", lambda k: E.Conv1d(3, 5, 3, padding=1, padding_mode="REFLECT", key=k), "f32[B,3,7]")
eqx_layer("Conv2d", lambda k: E.Conv2d(3, 5, 3, stride=2, padding="SAME", key=k), CHANNELS)
eqx_layer("Conv3d", lambda k: E.Conv3d(3, 5, 2, key=k), "f32[B,3,4,5,6]")
eqx_layer("ConvTranspose1d", lambda k: E.ConvTranspose1d(3, 5, 3, stride=2, key=k), "f32[B,3,7]")
eqx_layer("ConvTranspose2d", lambda k: E.ConvTranspose2d(3, 5, 3, stride=2, output_padding=1, dilation=2, key=k), CHANNELS)
eqx_layer("ConvTranspose3d", lambda k: E.ConvTranspose3d(3, 5, 2, key=k), "f32[B,3,4,5,6]")
for kind in "Avg Max".split():
    eqx_layer(f"{kind}Pool1d", lambda k, c=getattr(E, f"{kind}Pool1d"): c(3, 2), "f32[B,3,7]")
    eqx_layer(f"{kind}Pool2d", lambda k, c=getattr(E, f"{kind}Pool2d"): c(3, 2, padding=1, use_ceil=True), CHANNELS)
    eqx_layer(f"{kind}Pool3d", lambda k, c=getattr(E, f"{kind}Pool3d"): c(2, 2), "f32[B,3,4,5,6]")
    eqx_layer(f"Adaptive{kind}Pool1d", lambda k, c=getattr(E, f"Adaptive{kind}Pool1d"): c(3), "f32[B,3,7]")
    eqx_layer(f"Adaptive{kind}Pool2d", lambda k, c=getattr(E, f"Adaptive{kind}Pool2d"): c((3, 4)), CHANNELS)
    eqx_layer(f"Adaptive{kind}Pool3d", lambda k, c=getattr(E, f"Adaptive{kind}Pool3d"): c((2, 2, 3)), "f32[B,3,4,5,6]")
eqx_layer("LayerNorm", lambda k: E.LayerNorm((5, 7)), "f32[B,5,7]")
eqx_layer("GroupNorm", lambda k: E.GroupNorm(2, 8), "f32[B,8,5]")
eqx_layer("RMSNorm", lambda k: E.RMSNorm(8), "f32[B,8]")
eqx_layer("Embedding", lambda k: E.Embedding(11, 5, key=k), Arg("i32[B]", 0, 11))
eqx_layer("PReLU", lambda k: E.PReLU(), V)
eqx_layer("Lambda Identity Sequential", lambda k: E.Sequential([E.Lambda(jax.nn.relu), E.Identity(), E.Linear(7, 5, key=k)]), V)
eqx_layer("WeightNorm", lambda k: E.WeightNorm(E.Linear(7, 5, key=k)), V)
eqx_layer("MultiheadAttention", lambda k: E.MultiheadAttention(2, 8, key=k), "f32[B,7,8]", "f32[B,7,8]", "f32[B,7,8]")
eqx_layer("RotaryPositionalEmbedding", lambda k: E.RotaryPositionalEmbedding(8), "f32[B,7,8]")
layer("equinox MultiheadAttention length", lambda: E.MultiheadAttention(2, 8, key=random.key(0)), "f32[T,8]", "f32[T,8]", "f32[T,8]")
layer("equinox Dropout", lambda: E.Dropout(0.5), V, call=lambda m, x: m(x, key=random.key(1)))
layer("equinox GRUCell", lambda: E.GRUCell(3, 5, key=random.key(0)), "f32[B,T,3]", call=lambda m, x: jax.vmap(lambda s: lax.scan(lambda h, v: (m(v, h), h), jnp.zeros(5), s))(x))
layer("equinox LSTMCell", lambda: E.LSTMCell(3, 5, key=random.key(0)), "f32[T,3]", call=lambda m, x: lax.scan(lambda h, v: (m(v, h), h[0]), (jnp.zeros(5), jnp.zeros(5)), x, reverse=True))
layer("equinox BatchNorm", lambda: eqx.nn.make_with_state(E.BatchNorm)(7, axis_name="b", mode="batch"), "f32[5,7]", call=lambda p, x: jax.vmap(p[0], axis_name="b", in_axes=(0, None), out_axes=(0, None))(x, p[1])[0])
layer("equinox BatchNorm inference", lambda: eqx.nn.make_with_state(E.BatchNorm)(7, axis_name="b", mode="ema"), V, call=lambda p, x: jax.vmap(eqx.nn.inference_mode(p[0]), axis_name="b", in_axes=(0, None), out_axes=(0, None))(x, p[1])[0])
layer("equinox SpectralNorm", lambda: eqx.nn.make_with_state(E.SpectralNorm)(E.Linear(7, 5, key=random.key(0)), "weight", key=random.key(0)), V, call=lambda p, x: jax.vmap(p[0], in_axes=(0, None), out_axes=(0, None))(x, p[1])[0])
layer("equinox filter_grad", lambda: E.MLP(7, 5, 9, 1, key=random.key(0)), V, call=lambda m, x: eqx.filter_grad(lambda m: (jax.vmap(m)(x) ** 2).sum())(m).layers[0].weight)
ROWS.add("equinox error_if", lambda x: eqx.error_if(x, jnp.any(x > 1e9), "too big") * 2, V)
ROWS.add("equinox while_loop", lambda x: eqx.internal.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.1), (0, x), max_steps=8, kind="bounded")[1], "f32[7]")

for name, fn in {
    "Linear": lambda x: hk.Linear(5)(x),
    "LayerNorm": lambda x: hk.LayerNorm(-1, True, True)(x),
    "RMSNorm": lambda x: hk.RMSNorm(-1)(x),
    "BatchNorm": lambda x: hk.BatchNorm(True, True, 0.9)(x, is_training=True),
    "MLP": lambda x: hk.nets.MLP([9, 5])(x),
    "Bias": lambda x: hk.Bias()(x),
    "Flatten": lambda x: hk.Flatten()(x[:, :, None]),
    "dropout": lambda x: hk.dropout(hk.next_rng_key(), 0.5, x),
    "SpectralNorm": lambda x: hk.SpectralNorm()(hk.get_parameter("w", (7, 5), init=hk.initializers.RandomNormal())) @ jnp.ones((5,)) * x,
    "ExponentialMovingAverage": lambda x: hk.ExponentialMovingAverage(0.9)(x.mean(0)),
    "VectorQuantizer": lambda x: hk.nets.VectorQuantizer(7, 5, 0.25)(x, is_training=False),
    "layer_stack": lambda x: hk.layer_stack(3)(lambda v: jnp.tanh(hk.Linear(7)(v)))(x),
}.items():
    haiku_layer(name, fn, V)
for name, fn in {
    "Conv2D": lambda x: hk.Conv2D(5, 3, 2)(x),
    "Conv2DTranspose": lambda x: hk.Conv2DTranspose(4, 3, 2)(x),
    "DepthwiseConv2D": lambda x: hk.DepthwiseConv2D(2, 3)(x),
    "SeparableDepthwiseConv2D": lambda x: hk.SeparableDepthwiseConv2D(2, 3)(x),
    "GroupNorm": lambda x: hk.GroupNorm(2)(x),
    "InstanceNorm": lambda x: hk.InstanceNorm(True, True)(x),
    "max_pool": lambda x: hk.max_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"),
    "avg_pool": lambda x: hk.avg_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"),
}.items():
    haiku_layer(name, fn, IMAGE)
haiku_layer("Embed", lambda i: hk.Embed(11, 5)(i), TOKENS)
haiku_layer("MultiHeadAttention", lambda x: hk.MultiHeadAttention(2, 4, w_init=hk.initializers.RandomNormal())(x, x, x), "f32[B,7,8]")
for name in "LSTM GRU VanillaRNN".split():
    haiku_layer(name, lambda x, c=getattr(hk, name): hk.dynamic_unroll(c(5), x, c(5).initial_state(3))[0], "f32[7,3,4]")
haiku_layer("Conv1DLSTM", lambda x: hk.dynamic_unroll(hk.Conv1DLSTM((7,), 4, 3), x, hk.Conv1DLSTM((7,), 4, 3).initial_state(2))[0], "f32[3,2,7,4]")
