"""Sequence models: decoders with a cache, encoder-decoder, state spaces, mixtures of experts, recurrent networks."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from models.weights import draw, fill, nnx_module

from . import Model, f32, i32
from .images import equinox, haiku, linen

SIZES = ({"B": 2, "T": 5}, {"B": 3, "T": 7}, {"B": 1, "T": 1})
BATCH = ({"B": 2}, {"B": 3}, {"B": 1})

# ---- a decoder in the manner of Llama: rotary positions, grouped heads, a gated feed-forward network


def rotate(x, positions):
    """Rotary embedding: x [B, T, heads, size], positions [T]."""
    half = x.shape[-1] // 2
    angles = positions[:, None].astype(jnp.float32) * (100.0 ** (-jnp.arange(half) / half))
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


class LlamaBlock(nnx.Module):
    def __init__(self, features, heads, groups, rngs):
        size = features // heads
        self.heads, self.groups = heads, groups
        self.norm1, self.norm2 = nnx.RMSNorm(features, rngs=rngs), nnx.RMSNorm(features, rngs=rngs)
        self.q = nnx.Linear(features, heads * size, use_bias=False, rngs=rngs)
        self.k = nnx.Linear(features, groups * size, use_bias=False, rngs=rngs)
        self.v = nnx.Linear(features, groups * size, use_bias=False, rngs=rngs)
        self.o = nnx.Linear(heads * size, features, use_bias=False, rngs=rngs)
        self.gate = nnx.Linear(features, 29, use_bias=False, rngs=rngs)
        self.up = nnx.Linear(features, 29, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(29, features, use_bias=False, rngs=rngs)

    def project(self, x, positions):
        b, t, _ = x.shape
        q = rotate(self.q(x).reshape(b, t, self.heads, -1), positions)
        k = rotate(self.k(x).reshape(b, t, self.groups, -1), positions)
        return q, k, self.v(x).reshape(b, t, self.groups, -1)

    def feed(self, x):
        y = self.norm2(x)
        return x + self.down(nnx.silu(self.gate(y)) * self.up(y))


class Llama(nnx.Module):
    def __init__(self, rngs):
        self.tokens = nnx.Embed(31, 24, rngs=rngs)
        self.blocks = nnx.List([LlamaBlock(24, 6, 2, rngs) for _ in range(2)])
        self.norm = nnx.RMSNorm(24, rngs=rngs)
        self.head = nnx.Linear(24, 31, use_bias=False, rngs=rngs)

    def __call__(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            q, k, v = block.project(block.norm1(x), jnp.arange(tokens.shape[1]))
            y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
            x = block.feed(x + block.o(y.reshape(*x.shape)))
        return self.head(self.norm(x))

    def step(self, token, keys, values, position):
        """One token [B] at `position`; keys and values [layers, B, length, groups, size] hold the earlier
        ones."""
        x = self.tokens(token)[:, None]
        new_keys, new_values = [], []
        seen = (jnp.arange(keys.shape[2]) <= position)[None, None, None]
        for block, old_k, old_v in zip(self.blocks, keys, values, strict=True):
            q, k, v = block.project(block.norm1(x), position[None])
            k = jax.lax.dynamic_update_slice(old_k, k, (0, position, 0, 0))
            v = jax.lax.dynamic_update_slice(old_v, v, (0, position, 0, 0))
            y = jax.nn.dot_product_attention(q, k, v, mask=seen)
            x = block.feed(x + block.o(y.reshape(*x.shape)))
            new_keys.append(k)
            new_values.append(v)
        return self.head(self.norm(x))[:, 0], jnp.stack(new_keys), jnp.stack(new_values)


def llama():
    return nnx_module(lambda: Llama(nnx.Rngs(0)))


def cached(rng, sizes):
    cache = [rng.standard_normal((2, sizes["B"], 11, 2, 4)).astype(np.float32) for _ in range(2)]
    return [rng.integers(0, 31, sizes["B"]).astype(np.int32), *cache, np.int32(sizes["at"])]


class LinenStep(nn.Module):
    """Linen keeps the cache itself: one more position per call."""

    @nn.compact
    def __call__(self, x):
        x = x + nn.MultiHeadDotProductAttention(3, decode=True, deterministic=True)(nn.LayerNorm()(x))
        return x + nn.Dense(12)(nn.gelu(nn.Dense(29)(nn.LayerNorm()(x))))


def linen_step():
    module = LinenStep()
    variables = jax.eval_shape(module.init, jax.random.key(0), f32(2, 11, 12))
    parameters = fill(variables["params"])

    def step(x, key, value, index):
        cache = {"cached_key": key, "cached_value": value, "cache_index": index}
        y, state = module.apply(
            {"params": parameters, "cache": {"MultiHeadDotProductAttention_0": cache}}, x, mutable=["cache"]
        )
        cache = state["cache"]["MultiHeadDotProductAttention_0"]
        return y, cache["cached_key"], cache["cached_value"], cache["cache_index"]

    return step


def linen_cached(rng, sizes):
    x, *cache = [rng.standard_normal(s).astype(np.float32) for s in ((2, 1, 12), (2, 11, 3, 4), (2, 11, 3, 4))]
    return [x, *cache, np.int32(sizes["at"])]


# ---- an encoder-decoder in the manner of Whisper


class Layer(nnx.Module):
    def __init__(self, features, heads, rngs, crosses=False):
        def attention():
            return nnx.MultiHeadAttention(heads, features, decode=False, rngs=rngs)

        self.norm1, self.own = nnx.LayerNorm(features, rngs=rngs), attention()
        self.norm2, self.cross = (nnx.LayerNorm(features, rngs=rngs), attention()) if crosses else (None, None)
        self.norm3 = nnx.LayerNorm(features, rngs=rngs)
        self.up, self.down = nnx.Linear(features, 29, rngs=rngs), nnx.Linear(29, features, rngs=rngs)

    def __call__(self, x, memory=None, mask=None):
        x = x + self.own(self.norm1(x), mask=mask)
        if self.cross is not None:
            x = x + self.cross(self.norm2(x), memory)
        return x + self.down(nnx.gelu(self.up(self.norm3(x)), approximate=False))


class Whisper(nnx.Module):
    def __init__(self, rngs):
        self.conv1 = nnx.Conv(7, 12, (3,), rngs=rngs)
        self.conv2 = nnx.Conv(12, 12, (3,), strides=(2,), rngs=rngs)
        self.encoder = nnx.List([Layer(12, 3, rngs) for _ in range(2)])
        self.norm = nnx.LayerNorm(12, rngs=rngs)
        self.tokens, self.positions = nnx.Embed(31, 12, rngs=rngs), nnx.Embed(19, 12, rngs=rngs)
        self.decoder = nnx.List([Layer(12, 3, rngs, crosses=True) for _ in range(2)])
        self.last = nnx.LayerNorm(12, rngs=rngs)

    def __call__(self, mel, tokens):
        x = nnx.gelu(self.conv2(nnx.gelu(self.conv1(mel))))
        angles = jnp.arange(x.shape[1])[:, None] * jnp.exp(-jnp.arange(6) / 5 * jnp.log(10000.0))
        x = x + jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)
        for layer in self.encoder:
            x = layer(x)
        memory = self.norm(x)
        y = self.tokens(tokens) + self.positions(jnp.arange(tokens.shape[1]))
        mask = nnx.make_causal_mask(tokens)
        for layer in self.decoder:
            y = layer(y, memory, mask)
        return self.tokens.attend(self.last(y))


# ---- a state space model in the manner of Mamba


class Mamba(eqx.Module):
    inner: eqx.nn.Linear
    conv: eqx.nn.Conv1d
    parameters: eqx.nn.Linear
    step: eqx.nn.Linear
    log_a: jax.Array
    skip: jax.Array
    out: eqx.nn.Linear
    parallel: bool = eqx.field(static=True)

    def __init__(self, key, parallel):
        k = jax.random.split(key, 5)
        self.inner = eqx.nn.Linear(7, 2 * 11, use_bias=False, key=k[0])
        self.conv = eqx.nn.Conv1d(11, 11, 3, groups=11, padding=((2, 0),), key=k[1])
        self.parameters = eqx.nn.Linear(11, 2 + 2 * 5, use_bias=False, key=k[2])
        self.step = eqx.nn.Linear(2, 11, key=k[3])
        self.log_a, self.skip = jnp.zeros((11, 5)), jnp.ones(11)
        self.out = eqx.nn.Linear(11, 7, use_bias=False, key=k[4])
        self.parallel = parallel

    def __call__(self, x):
        x, gate = jnp.split(jax.vmap(self.inner)(x), 2, axis=-1)
        x = jax.nn.silu(self.conv(x.T).T)
        step, b, c = jnp.split(jax.vmap(self.parameters)(x), [2, 7], axis=-1)
        step = jax.nn.softplus(jax.vmap(self.step)(step))
        a = jnp.exp(step[:, :, None] * -jnp.exp(self.log_a))
        bx = (step * x)[:, :, None] * b[:, None]
        if self.parallel:
            _, states = jax.lax.associative_scan(lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (a, bx))
        else:

            def advance(state, inputs):
                state = inputs[0] * state + inputs[1]
                return state, state

            _, states = jax.lax.scan(advance, jnp.zeros((11, 5)), (a, bx))
        y = jnp.einsum("tds,ts->td", states, c) + self.skip * x
        return jax.vmap(self.out)(y * jax.nn.silu(gate))


# ---- mixtures of experts


class Experts(nnx.Module):
    def __init__(self, rngs):
        self.router = nnx.Linear(7, 5, use_bias=False, rngs=rngs)
        self.up, self.down = nnx.Param(jnp.zeros((5, 7, 13))), nnx.Param(jnp.zeros((5, 13, 7)))

    def __call__(self, x):
        """Every expert sees every token; the gates of those not chosen are zero."""
        weights, chosen = jax.lax.top_k(nnx.softmax(self.router(x)), 2)
        weights = weights / weights.sum(-1, keepdims=True)
        gates = (jax.nn.one_hot(chosen, 5) * weights[..., None]).sum(-2)
        hidden = nnx.silu(jnp.einsum("btf,efh->bteh", x, self.up[...]))
        return jnp.einsum("bteh,ehf,bte->btf", hidden, self.down[...], gates)

    def sorted(self, x):
        """Tokens [N, features] sorted by expert, one ragged product for all."""
        weights, chosen = jax.lax.top_k(nnx.softmax(self.router(x)), 2)
        flat = chosen.reshape(-1)
        order = jnp.argsort(flat)
        sizes = jnp.bincount(flat, length=5)
        hidden = nnx.silu(jax.lax.ragged_dot(x[order // 2], self.up[...], sizes))
        y = jax.lax.ragged_dot(hidden, self.down[...], sizes)
        y = jnp.zeros_like(y).at[order].set(y).reshape(x.shape[0], 2, -1)
        return (y * weights[..., None]).sum(1)


# ---- recurrent networks


class Bidirectional(nn.Module):
    @nn.compact
    def __call__(self, x, lengths):
        x = nn.Bidirectional(nn.RNN(nn.LSTMCell(5)), nn.RNN(nn.LSTMCell(5)))(x, seq_lengths=lengths)
        forward, backward = nn.RNN(nn.GRUCell(7)), nn.RNN(nn.GRUCell(7), reverse=True, keep_order=True)
        x = jnp.concatenate([forward(x), backward(x)], axis=-1)
        return nn.Dense(3)(x)


def padded(rng, sizes):
    x = rng.standard_normal((sizes["B"], sizes["T"], 3)).astype(np.float32)
    return [x, rng.integers(1, sizes["T"] + 1, sizes["B"]).astype(np.int32)]


def recurrent_haiku():
    import haiku as hk

    def network(x):
        core = hk.DeepRNN([hk.LSTM(5), jax.nn.relu, hk.GRU(7)])
        y, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
        backward = hk.GRU(5)
        z, _ = hk.dynamic_unroll(backward, x, backward.initial_state(x.shape[1]), reverse=True)
        return hk.Linear(3)(jnp.concatenate([y, z], axis=-1))

    return haiku(network, f32(4, 2, 3))


def recurrent_equinox():
    cells = equinox(lambda key: [eqx.nn.GRUCell(3, 5, key=key), eqx.nn.LSTMCell(3, 5, key=key)])
    head = draw("head.kernel", (5, 2), jnp.float32)

    def network(x):
        def gru(h, x):
            return cells[0](x, h), None

        def lstm(state, x):
            return cells[1](x, state), None

        h, _ = jax.lax.scan(gru, jnp.zeros(5), x)
        (g, _), _ = jax.lax.scan(lstm, (jnp.zeros(5), jnp.zeros(5)), x, reverse=True)
        return (h * g) @ head

    return jax.vmap(network)


MODELS = [
    Model(
        "llama, NNX",
        llama,
        (i32("B", "T"),),
        SIZES,
        below=31,
        ops={"RMSNormalization": 5},
    ),
    Model(
        "llama with its cache, NNX",
        lambda: llama().step,
        (i32("B"), f32(2, "B", 11, 2, 4), f32(2, "B", 11, 2, 4), i32()),
        ({"B": 2, "at": 4}, {"B": 3, "at": 10}, {"B": 1, "at": 0}),
        given=cached,
        ops={"RMSNormalization": 5},
    ),
    Model(
        "a decoder's step with its cache, Linen",
        linen_step,
        (f32(2, 1, 12), f32(2, 11, 3, 4), f32(2, 11, 3, 4), i32()),
        ({"at": 4}, {"at": 0}),
        given=linen_cached,
        ops={"LayerNormalization": 2, "Gelu": 1, "Attention": 1, "Shape": 0},
    ),
    Model(
        "whisper, NNX",
        lambda: nnx_module(lambda: Whisper(nnx.Rngs(0))),
        (f32("B", 22, 7), i32("B", "T")),
        SIZES,
        below=19,
        ops={"Conv": 2, "Attention": 6, "LayerNormalization": 12, "Gelu": 6},
    ),
    Model(
        "mamba by associative scan, Equinox",
        lambda: jax.vmap(equinox(lambda key: Mamba(key, True))),
        (f32("B", 13, 7),),
        BATCH,
    ),
    Model(
        "mamba of any length, Equinox",
        lambda: jax.vmap(equinox(lambda key: Mamba(key, False))),
        (f32("B", "T", 7),),
        SIZES,
        ops={"Scan": 1},
    ),
    Model(
        "experts, NNX", lambda: nnx_module(lambda: Experts(nnx.Rngs(0))), (f32("B", "T", 7),), SIZES, ops={"TopK": 1}
    ),
    Model("sorted experts, NNX", lambda: nnx_module(lambda: Experts(nnx.Rngs(0))).sorted, (f32("B", 7),), BATCH),
    Model(
        "bidirectional lstm and gru, Linen",
        lambda: linen(Bidirectional(), f32(2, 5, 3), i32(2)),
        (f32("B", "T", 3), i32("B")),
        SIZES,
        given=padded,
    ),
    Model("lstm and gru, Haiku", recurrent_haiku, (f32(11, "B", 3),), BATCH),
    Model("gru and lstm cells, Equinox", recurrent_equinox, (f32("B", "T", 3),), SIZES),
]
