"""Graphs, noise, flows, training, integration, search."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from models.weights import draw, fill

from . import KEY, Model, f32, i32
from .images import equinox, haiku, linen

BATCH = ({"B": 2}, {"B": 3}, {"B": 1})

# ---- a graph network


class GraphLayer(eqx.Module):
    message: eqx.nn.Linear
    score: eqx.nn.Linear
    update: eqx.nn.Linear

    def __init__(self, size, key):
        k = jax.random.split(key, 3)
        self.message = eqx.nn.Linear(2 * size, size, key=k[0])
        self.score = eqx.nn.Linear(2 * size, 1, key=k[1])
        self.update = eqx.nn.Linear(2 * size, size, key=k[2])

    def __call__(self, nodes, senders, receivers):
        count = nodes.shape[0]
        pairs = jnp.concatenate([nodes[senders], nodes[receivers]], axis=-1)
        score = jax.nn.leaky_relu(jax.vmap(self.score)(pairs)[:, 0], 0.2)
        score = jnp.exp(score - jax.ops.segment_max(score, receivers, count)[receivers])
        weight = score / jax.ops.segment_sum(score, receivers, count)[receivers]
        messages = weight[:, None] * jax.nn.relu(jax.vmap(self.message)(pairs))
        gathered = jax.ops.segment_sum(messages, receivers, count)
        return jax.vmap(self.update)(jnp.concatenate([nodes, gathered], axis=-1))


def graph_network():
    layers = equinox(lambda key: [GraphLayer(5, key), GraphLayer(5, key)])

    def network(nodes, senders, receivers):
        for layer in layers:
            nodes = jnp.tanh(layer(nodes, senders, receivers))
        degree = jax.ops.segment_sum(jnp.ones(senders.shape[0]), receivers, nodes.shape[0])
        return nodes, (nodes * degree[:, None]).mean(0)

    return network


def edges(rng, sizes):
    n, e = sizes["N"], sizes["E"]
    ends = rng.integers(0, n, (2, e)).astype(np.int32)
    return [rng.standard_normal((n, 5)).astype(np.float32), *ends]


# ---- a step of diffusion, with its noise


class Denoiser(nn.Module):
    @nn.compact
    def __call__(self, x, time):
        angles = time[:, None] * jnp.exp(-jnp.arange(4) * 1.3)
        emb = nn.silu(nn.Dense(6)(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)))
        a = nn.silu(nn.GroupNorm(3)(nn.Conv(6, (3, 3))(x)) + emb[:, None, None])
        b = nn.silu(nn.Conv(11, (3, 3), strides=(2, 2))(a))
        b = nn.ConvTranspose(6, (4, 4), strides=(2, 2))(b)
        return nn.Conv(3, (3, 3))(jnp.concatenate([a, b], axis=-1))


def diffusion():
    denoise = linen(Denoiser(), f32(2, 12, 20, 3), f32(2))
    betas = jnp.linspace(1e-3, 0.1, 17)
    kept = jnp.cumprod(1 - betas)

    def step(x, t, key):
        beta, left = betas[t], kept[t]
        eps = denoise(x, jnp.full(x.shape[:1], t, jnp.float32))
        mean = (x - beta / jnp.sqrt(1 - left) * eps) / jnp.sqrt(1 - beta)
        return mean + jnp.where(t > 0, jnp.sqrt(beta), 0.0) * jax.random.normal(key, x.shape)

    return step


def noisy(rng, sizes):
    x = rng.standard_normal((sizes["B"], 12, 20, 3)).astype(np.float32)
    return [x, np.int32(sizes["t"]), rng.integers(0, 2**32, 2, np.uint32)]


def autoencoder_haiku():
    import haiku as hk

    def network(x, key):
        h = jax.nn.relu(hk.Linear(13)(x))
        mean, log_var = hk.Linear(5)(h), hk.Linear(5)(h)
        z = mean + jnp.exp(0.5 * log_var) * jax.random.normal(key, mean.shape)
        y = jax.nn.sigmoid(hk.Linear(7)(jax.nn.relu(hk.Linear(13)(z))))
        return y, -0.5 * jnp.sum(1 + log_var - mean**2 - jnp.exp(log_var), axis=-1)

    return haiku(network, f32(2, 7), KEY)


# ---- a normalising flow: couplings, and mixtures of channels with their determinants


def flow():
    def weights(i):
        return {
            "w1": draw(f"{i}.w1.kernel", (3, 11), jnp.float32),
            "w2": draw(f"{i}.w2.kernel", (11, 6), jnp.float32),
            "mix": jnp.eye(6) + 0.3 * draw(f"{i}.mix.kernel", (6, 6), jnp.float32),
        }

    layers = [weights(i) for i in range(3)]

    def shift_and_scale(p, x):
        shift, scale = jnp.split(jnp.tanh(x @ p["w1"]) @ p["w2"], 2, axis=-1)
        return shift, jnp.tanh(scale)

    def forward(x):
        total = jnp.zeros(x.shape[0])
        for p in layers:
            x = x @ p["mix"]
            total += jnp.linalg.slogdet(p["mix"])[1]
            a, b = jnp.split(x, 2, axis=-1)
            shift, scale = shift_and_scale(p, a)
            x = jnp.concatenate([a, b * jnp.exp(scale) + shift], axis=-1)
            total += scale.sum(-1)
        return x, total - 0.5 * jnp.sum(x**2 + jnp.log(2 * jnp.pi), axis=-1)

    def backward(x):
        for p in reversed(layers):
            a, b = jnp.split(x, 2, axis=-1)
            shift, scale = shift_and_scale(p, a)
            x = jnp.concatenate([a, (b - shift) * jnp.exp(-scale)], axis=-1)
            x = jnp.linalg.solve(p["mix"].T, x.T).T
        return x

    return lambda x: (*forward(x), backward(x))


# ---- training


class Classifier(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(5, (3, 3), strides=(2, 2), use_bias=False)(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.max_pool(nn.relu(x), (2, 2), strides=(2, 2))
        x = nn.Dropout(0.3, deterministic=not train)(x.reshape(x.shape[0], -1))
        return nn.Dense(7)(nn.gelu(nn.Dense(11)(x)))


def gradients():
    """The loss of a batch and the gradient of every weight, dropout and batch statistics included."""
    module = Classifier()
    variables = fill(jax.eval_shape(lambda x: module.init(jax.random.key(0), x, False), f32(2, 12, 20, 3)))

    def loss(parameters, x, labels, key):
        y, changed = module.apply(
            {"params": parameters, "batch_stats": variables["batch_stats"]},
            x,
            True,
            rngs={"dropout": jax.random.wrap_key_data(key)},
            mutable=["batch_stats"],
        )
        return optax.softmax_cross_entropy_with_integer_labels(y, labels).mean(), changed

    def step(x, labels, key):
        return jax.value_and_grad(loss, has_aux=True)(variables["params"], x, labels, key)

    return step


def labelled(rng, sizes):
    b = sizes["B"]
    x = rng.standard_normal((b, 12, 20, 3)).astype(np.float32)
    return [x, rng.integers(0, 7, b).astype(np.int32), rng.integers(0, 2**32, 2, np.uint32)]


def adam():
    """A step of Adam on a small attention model. Returns new weights and new moments."""
    optimizer = optax.adam(1e-2)

    def score(w, x):
        q, k, v = (jnp.einsum("btf,fhd->bthd", x, w[n]) for n in ("q", "k", "v"))
        weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(5.0), axis=-1)
        y = jnp.einsum("bhts,bshd->bthd", weights, v)
        return x + jnp.einsum("bthd,hdf->btf", y, w["o"])

    def step(x, target, q, k, v, o, count):
        w = {"q": q, "k": k, "v": v, "o": o}

        def loss(w):
            return jnp.mean((score(w, x) - target) ** 2)

        value, gradient = jax.value_and_grad(loss)(w)
        zeros = jax.tree.map(jnp.zeros_like, w)
        state = (optax.ScaleByAdamState(count, zeros, zeros), optax.EmptyState())
        updates, state = optimizer.update(gradient, state, w)
        return value, optax.apply_updates(w, updates), state[0].mu, state[0].count

    return step


# ---- integration


def ode():
    """Dormand and Prince's method with steps of its own choice, for a field that is a network."""
    field = equinox(lambda key: eqx.nn.MLP(3, 3, 11, 1, activation=jnp.tanh, key=key))
    nodes = [
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
    error = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]

    def advance(y, h):
        stages = [field(y)]
        for row in nodes:
            y_next = y + h * sum(c * k for c, k in zip(row, stages, strict=True))
            stages.append(field(y_next))
        return y_next, h * sum(c * k for c, k in zip(error, stages, strict=True))

    def solve(y, end):
        def unfinished(state):
            t, _, _, steps = state
            return (t < end) & (steps < 100)

        def body(state):
            t, y, h, steps = state
            h = jnp.minimum(h, end - t)
            y_next, e = advance(y, h)
            ratio = jnp.sqrt(jnp.mean((e / (1e-3 + 1e-3 * jnp.abs(y))) ** 2))
            accepted = ratio <= 1
            t, y = jnp.where(accepted, t + h, t), jnp.where(accepted, y_next, y)
            h = h * jnp.clip(0.9 * ratio**-0.2, 0.2, 5.0)
            return t, y, h, steps + 1

        start = (jnp.float32(0), y, jnp.float32(0.05), jnp.int32(0))
        _, y, _, steps = jax.lax.while_loop(unfinished, body, start)
        return y, steps

    return solve


def interval(rng, sizes):
    return [rng.standard_normal(3).astype(np.float32), np.float32(sizes["end"])]


# ---- search


def beam_search():
    """The four likeliest continuations by a recurrent scorer; ends when every beam has ended or the text is full."""
    tokens, size, beams, length, stop = 13, 7, 4, 9, 1
    cell = equinox(lambda key: eqx.nn.GRUCell(size, size, key=key))
    table = draw("table.kernel", (tokens, size), jnp.float32) * 3
    head = draw("head.kernel", (size, tokens), jnp.float32) * 3

    def search(start):
        batch = start.shape[0]
        state = jnp.broadcast_to(start[:, None], (batch, beams, size))
        texts = jnp.zeros((batch, beams, length), jnp.int32)
        scores = jnp.where(jnp.arange(beams) == 0, 0.0, -1e9) * jnp.ones((batch, 1))
        ended = jnp.zeros((batch, beams), bool)

        def unfinished(c):
            return (c[0] < length) & ~jnp.all(c[4])

        def body(c):
            i, texts, scores, state, ended, last = c
            state = jax.vmap(jax.vmap(cell))(table[last], state)
            logp = jax.nn.log_softmax(state @ head)
            only_stop = jnp.where(jnp.arange(tokens) == stop, 0.0, -jnp.inf)
            logp = jnp.where(ended[..., None], only_stop, logp)
            scores, places = jax.lax.top_k((scores[..., None] + logp).reshape(batch, -1), beams)
            parent, last = places // tokens, places % tokens
            texts = jnp.take_along_axis(texts, parent[..., None], axis=1).at[:, :, i].set(last)
            state = jnp.take_along_axis(state, parent[..., None], axis=1)
            ended = jnp.take_along_axis(ended, parent, axis=1) | (last == stop)
            return i + 1, texts, scores, state, ended, last

        carry = (jnp.int32(0), texts, scores, state, ended, jnp.zeros((batch, beams), jnp.int32))
        steps, texts, scores, *_ = jax.lax.while_loop(unfinished, body, carry)
        return texts, scores, steps

    return search


MODELS = [
    Model(
        "graph network, Equinox",
        graph_network,
        (f32("N", 5), i32("E"), i32("E")),
        ({"N": 7, "E": 17}, {"N": 3, "E": 2}),
        given=edges,
    ),
    Model(
        "a step of diffusion, Linen",
        diffusion,
        (f32("B", 12, 20, 3), i32(), KEY),
        ({"B": 2, "t": 5}, {"B": 3, "t": 0}),
        given=noisy,
        ops={"Conv": 3, "ConvTranspose": 1},
    ),
    Model("autoencoder with noise, Haiku", autoencoder_haiku, (f32("B", 7), KEY), BATCH),
    Model("normalising flow", flow, (f32("B", 6),), BATCH, tolerance=1e-4),
    Model("a loss and its gradients, Linen", gradients, (f32(2, 12, 20, 3), i32(2), KEY), ({"B": 2},), given=labelled),
    Model(
        "a step of Adam",
        adam,
        (f32("B", 11, 7), f32("B", 11, 7), f32(7, 3, 5), f32(7, 3, 5), f32(7, 3, 5), f32(3, 5, 7), i32()),
        BATCH,
        below=10,
    ),
    Model("an ode by while_loop, Equinox", ode, (f32(3), f32()), ({"end": 1}, {"end": 3}), given=interval),
    Model("beam search, Equinox", beam_search, (f32("B", 7),), BATCH),
]
