"""Optimizers, layers and training steps."""

import dm_pix
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from catalog import normal, program
from flax import nnx
from flax.training import train_state


def _weights():
    return {"w": normal(5, 3), "b": normal(3, seed=1)}


def _loss(weights, x, y):
    return jnp.mean((jnp.tanh(x @ weights["w"] + weights["b"]) - y) ** 2)


def _steps(optimizer, n=3):
    """A few steps of training: (function, arguments), the optimizer's state among them."""

    def train(weights, state, x, y):
        for _ in range(n):
            gradients = jax.grad(_loss)(weights, x, y)
            updates, state = optimizer.update(gradients, state, weights)
            weights = optax.apply_updates(weights, updates)
        return weights, state

    weights = jax.tree.map(jnp.asarray, _weights())
    return train, [weights, optimizer.init(weights), normal(7, 5), normal(7, 3, seed=2)]


@program("optax")
def optax_adamw_with_schedule():
    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, 2, 11)
    return _steps(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule)))


@program("optax")
def optax_multi_steps():
    return _steps(optax.MultiSteps(optax.adam(0.1), every_k_schedule=2), n=5)


@program("optax")
def optax_muon():
    return _steps(optax.contrib.muon(0.02))


@program("optax")
def optax_schedule_free():
    optimizer = optax.contrib.schedule_free_adamw(0.02, warmup_steps=3)
    train, arguments = _steps(optimizer)

    def evaluated(weights, state, x, y):
        weights, state = train(weights, state, x, y)
        return optax.contrib.schedule_free_eval_params(state, weights), state

    return evaluated, arguments


@program("optax")
def optax_lion():
    return _steps(optax.lion(0.01))


@program("optax")
def optax_adafactor():
    return _steps(optax.adafactor(0.01, min_dim_size_to_factor=2))


@program("optax")
def optax_lamb():
    return _steps(optax.lamb(0.01))


@program("optax")
def optax_lbfgs():
    weights = jax.tree.map(jnp.asarray, _weights())
    optimizer = optax.lbfgs(memory_size=3)

    def train(weights, state, x, y):
        for _ in range(2):
            loss = lambda w: _loss(w, x, y)  # noqa: E731
            value, gradient = optax.value_and_grad_from_state(loss)(weights, state=state)
            updates, state = optimizer.update(gradient, state, weights, value=value, grad=gradient, value_fn=loss)
            weights = optax.apply_updates(weights, updates)
        return weights

    return train, [weights, optimizer.init(weights), normal(7, 5), normal(7, 3, seed=2)]


@program("optax")
def optax_apply_if_finite():
    return _steps(optax.apply_if_finite(optax.sgd(0.1, momentum=0.9, nesterov=True), 2))


@program("optax")
def optax_multi_transform():
    labels = {"w": "fast", "b": "slow"}
    return _steps(optax.multi_transform({"fast": optax.rmsprop(0.1), "slow": optax.set_to_zero()}, labels))


@program("optax")
def optax_losses():
    def losses(logits, labels, log_probs):
        return (
            optax.softmax_cross_entropy_with_integer_labels(logits, labels),
            optax.sigmoid_focal_loss(logits, (logits > 0).astype(jnp.float32)),
            optax.ctc_loss(logits[None], jnp.zeros((1, 7)), labels[None, :3], jnp.zeros((1, 3))),
            optax.huber_loss(logits),
        )

    return losses, [normal(7, 5), np.array([1, 2, 3, 4, 1, 2, 3], np.int32), normal(7, 5, seed=1)]


class _LinenNet(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.Conv(5, (3, 3), use_bias=False)(
            x
        )  # the gradient of a bias before BatchNorm is 0: Adam makes steps of its rounding
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.max_pool(nn.relu(x), (2, 2), (2, 2))
        x = nn.Dropout(0.25, deterministic=not train)(x.reshape(x.shape[0], -1))
        return nn.Dense(3)(x)


@program("flax.linen")
def linen_train_step():
    net = _LinenNet()
    variables = net.init(jax.random.key(0), jnp.zeros((1, 6, 6, 2)), False)
    state = train_state.TrainState.create(apply_fn=net.apply, params=variables["params"], tx=optax.adam(0.01))

    def step(state, statistics, x, y, key):
        def loss(params):
            logits, updates = state.apply_fn(
                {"params": params, "batch_stats": statistics}, x, True, mutable=["batch_stats"], rngs={"dropout": key}
            )
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), updates["batch_stats"]

        (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=gradients), statistics, value

    labels = np.array([0, 1, 2, 0, 1], np.int32)
    return step, [state, variables["batch_stats"], normal(5, 6, 6, 2), labels, jax.random.key(3)]


class _LinenRnn(nn.Module):
    @nn.compact
    def __call__(self, x):
        forward, backward = nn.RNN(nn.GRUCell(5)), nn.RNN(nn.OptimizedLSTMCell(5))
        x = nn.Bidirectional(forward, nn.RNN(nn.GRUCell(5)))(x)
        x = nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=6)(x, mask=nn.make_causal_mask(x[..., 0]))
        return backward(nn.LayerNorm()(x))


@program("flax.linen")
def linen_bidirectional_attention():
    net = _LinenRnn()
    variables = net.init(jax.random.key(0), jnp.zeros((2, 7, 3)))
    return lambda x: net.apply(variables, x), [normal(2, 7, 3)]


@program("flax.nnx")
def nnx_train_step():
    class Net(nnx.Module):
        def __init__(self, rngs):
            self.conv = nnx.Conv(2, 5, (3, 3), use_bias=False, rngs=rngs)  # see linen_train_step
            self.norm = nnx.BatchNorm(5, rngs=rngs)
            self.out = nnx.Linear(5, 3, rngs=rngs)

        def __call__(self, x):
            return self.out(nnx.relu(self.norm(self.conv(x))).mean((1, 2)))

    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(0.01), wrt=nnx.Param)
    graph, state = nnx.split((model, optimizer))

    def step(state, x, y):
        model, optimizer = nnx.merge(graph, state)
        value, gradients = nnx.value_and_grad(lambda m: jnp.mean((m(x) - y) ** 2))(model)
        optimizer.update(model, gradients)
        return value, nnx.state((model, optimizer))

    return step, [state, normal(5, 6, 6, 2), normal(5, 3, seed=1)]


@program("flax.nnx")
def nnx_transformer_with_cache():
    layer = nnx.MultiHeadAttention(
        num_heads=2, in_features=6, decode=True, rngs=nnx.Rngs(0), dropout_rate=0.0, deterministic=True
    )
    layer.init_cache((2, 7, 6))
    graph, state = nnx.split(layer)

    def step(state, x):
        layer = nnx.merge(graph, state)
        y = layer(x[:, None])
        y = y + layer(y)
        return y, nnx.state(layer)

    return step, [state, normal(2, 6)]


@program("haiku")
def haiku_stateful():
    def net(x, training):
        x = hk.Conv2D(5, 3)(x)
        x = hk.BatchNorm(True, True, 0.9)(x, training)
        x = hk.MultiHeadAttention(2, 3, w_init_scale=1.0)(*[x.reshape(x.shape[0], -1, 5)] * 3)
        return hk.Linear(3)(hk.Flatten()(x))

    transformed = hk.transform_with_state(net)
    params, state = transformed.init(jax.random.key(0), jnp.zeros((1, 6, 6, 2)), True)
    return lambda params, state, x: transformed.apply(params, state, None, x, True), [params, state, normal(5, 6, 6, 2)]


@program("dm_pix")
def dm_pix_colours():
    def change(image):
        image = dm_pix.adjust_hue(image, 0.1)
        image = dm_pix.adjust_saturation(image, 1.3)
        image = dm_pix.adjust_contrast(dm_pix.adjust_brightness(image, 0.05), 1.2)
        return dm_pix.gaussian_blur(image, 1.0, kernel_size=3), dm_pix.rgb_to_grayscale(image)

    return change, [np.random.default_rng(7).random((11, 13, 3)).astype(np.float32)]


@program("dm_pix")
def dm_pix_geometry():
    def change(image):
        turned = dm_pix.affine_transform(image, jnp.array([[0.9, 0.1, 0.5], [-0.1, 0.9, 1.0], [0.0, 0.0, 1.0]]))
        patches = dm_pix.extract_patches(image[None], (1, 3, 3, 1), (1, 2, 2, 1), (1, 1, 1, 1), padding="VALID")
        return turned, patches, dm_pix.flip_left_right(image), dm_pix.depth_to_space(jnp.tile(image, (1, 1, 4)), 2)

    return change, [np.random.default_rng(7).random((11, 13, 3)).astype(np.float32)]


@program("dm_pix")
def dm_pix_measures():
    def measure(a, b):
        return dm_pix.ssim(a, b), dm_pix.psnr(a, b), dm_pix.rmse(a, b), dm_pix.simse(a, b)

    rng = np.random.default_rng(7)
    return measure, [rng.random((2, 17, 19, 3)).astype(np.float32) for _ in range(2)]


@program("dm_pix")
def dm_pix_random_crop():
    return lambda key, x: (dm_pix.random_crop(key, x, (7, 5, 3)), dm_pix.random_flip_left_right(key, x)), [
        jax.random.key(3),
        np.random.default_rng(7).random((11, 13, 3)).astype(np.float32),
    ]
