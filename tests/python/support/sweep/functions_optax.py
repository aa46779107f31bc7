"""`optax`: losses, and two steps of every optimizer."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax
import jax.numpy as jnp
import optax
from jax import nn, random
from primitives.table import Arg

from .rows import Rows

ROWS = Rows(optax.losses)
X, LABELS = "f32[B,7]", Arg("i32[B]", 0, 7)
LOOSE = {"tolerance": 2e-5, "because": "differences of logarithms"}
L = optax.losses

ROWS.each("cosine_similarity huber_loss l2_loss log_cosh squared_error", X, X, **LOOSE)
for name, fn in {
    "binary_dice_loss": lambda x, y: L.binary_dice_loss(x, (y > 0) * 1.0),
    "convex_kl_divergence": lambda x, y: L.convex_kl_divergence(nn.log_softmax(x), nn.softmax(y)),
    "cosine_distance": lambda x, y: L.cosine_distance(x, y, epsilon=1e-6),
    "dice_loss": lambda x, y: L.dice_loss(x[None], nn.softmax(y)[None]),
    "generalized_kl_divergence": lambda x, y: L.generalized_kl_divergence(nn.log_softmax(x), nn.softmax(y)),
    "hinge_loss": lambda x, y: L.hinge_loss(x, jnp.sign(y)),
    "kl_divergence": lambda x, y: L.kl_divergence(nn.log_softmax(x), nn.softmax(y)),
    "kl_divergence_with_log_targets": lambda x, y: L.kl_divergence_with_log_targets(nn.log_softmax(x), nn.log_softmax(y)),
    "multiclass_generalized_dice_loss": lambda x, y: L.multiclass_generalized_dice_loss(x[None], nn.softmax(y)[None]),
    "perceptron_loss": lambda x, y: L.perceptron_loss(x, jnp.sign(y)),
    "poly_loss_cross_entropy": lambda x, y: L.poly_loss_cross_entropy(x, nn.softmax(y)),
    "ranking_softmax_loss": lambda x, y: L.ranking_softmax_loss(x, nn.sigmoid(y)),
    "safe_softmax_cross_entropy": lambda x, y: L.safe_softmax_cross_entropy(x, nn.softmax(y)),
    "sigmoid_binary_cross_entropy": lambda x, y: L.sigmoid_binary_cross_entropy(x, nn.sigmoid(y)),
    "sigmoid_focal_loss": lambda x, y: L.sigmoid_focal_loss(x, (y > 0) * 1.0, alpha=0.25),
    "smooth_labels": lambda x, y: L.smooth_labels(nn.softmax(x), 0.1) * y,
    "softmax_cross_entropy": lambda x, y: L.softmax_cross_entropy(x, nn.softmax(y)),
    "triplet_margin_loss": lambda x, y: L.triplet_margin_loss(x, y, x * 0.5 - y),
    "sparsemax_loss": lambda x, y: L.sparsemax_loss(x, (y > 0) * 1.0),
    "make_fenchel_young_loss": lambda x, y: L.make_fenchel_young_loss(nn.logsumexp)(x[0], nn.softmax(y[0])),
}.items():
    ROWS.add(name, fn, X, X, **LOOSE)
for name in "multiclass_hinge_loss multiclass_perceptron_loss multiclass_sparsemax_loss softmax_cross_entropy_with_integer_labels".split():
    ROWS.add(name, getattr(L, name), X, LABELS, **LOOSE)
ROWS.add("ntxent", lambda x: L.ntxent(x, jnp.array([0, 1, 0, 1, 2])), "f32[5,7]", **LOOSE)
for name in "ctc_loss ctc_loss_with_forward_probs".split():
    ROWS.add(name, lambda x, y, f=getattr(L, name): f(x, jnp.zeros(x.shape[:2]), y, jnp.zeros(y.shape)), "f32[2,9,5]", Arg("i32[2,3]", 1, 5), **LOOSE)

W = "f32[5,7]"


def steps(make, **extra):
    """Two steps of an optimizer on the gradient that is its input, with a loss of its own."""

    def run(w, g):
        optimizer = optax.with_extra_args_support(make())
        w = {"w": w}
        state = optimizer.init(w)
        for _ in range(2):
            updates, state = optimizer.update({"w": g}, state, w, **{k: f(w, g) for k, f in extra.items()})
            w = optax.apply_updates(w, updates)
        return w, [x for x in jax.tree.leaves(state) if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)]

    return run


OPTIMIZERS = "adabelief adadelta adafactor adagrad adam adamax adamaxw adamw adan amsgrad fromage lamb lars lion nadam nadamw novograd optimistic_adam optimistic_adam_v2 optimistic_gradient_descent radam rmsprop rprop sgd sign_sgd signum sm3 yogi"
for name in OPTIMIZERS.split():
    if hasattr(optax, name):
        ROWS.add(f"optimizer {name}", steps(lambda f=getattr(optax, name): f(0.1)), W, W, **LOOSE)
for name in "acprop ademamix adopt cocob dadapt_adamw dog dowg madgrad muon prodigy momo momo_adam schedule_free_adamw schedule_free_sgd simplified_ademamix galore".split():
    if hasattr(optax.contrib, name):
        extra = {"value": lambda w, g: (w["w"] * g).sum()} if name.startswith("momo") else {}
        ROWS.add(f"optimizer contrib.{name}", steps(lambda f=getattr(optax.contrib, name), n=name: f() if n in ("cocob", "momo", "momo_adam", "prodigy", "dadapt_adamw", "dog", "dowg") else f(0.1), **extra), W, W, tolerance=2e-4, because="steps divided by small norms")
ROWS.add("optimizer noisy_sgd", steps(lambda: optax.noisy_sgd(0.1, key=random.key(0))), W, W, **LOOSE)
ROWS.add("optimizer polyak_sgd", steps(optax.polyak_sgd, value=lambda w, g: jnp.sum(w["w"] ** 2)), W, W, **LOOSE)
ROWS.add("optimizer lookahead chain", steps(lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.add_decayed_weights(0.1), optax.scale_by_adam(), optax.scale_by_schedule(optax.warmup_cosine_decay_schedule(0.1, 1.0, 5, 50)))), W, W, **LOOSE)
for name, make in {
    "adaptive_grad_clip": lambda: optax.adaptive_grad_clip(0.1),
    "add_noise": lambda: optax.add_noise(0.1, 0.5, key=random.key(0)),
    "apply_every": lambda: optax.apply_every(2),
    "apply_if_finite": lambda: optax.apply_if_finite(optax.sgd(0.1), 3),
    "centralize": optax.centralize,
    "clip": lambda: optax.clip(0.5),
    "clip_by_block_rms": lambda: optax.clip_by_block_rms(0.5),
    "ema": lambda: optax.ema(0.9),
    "keep_params_nonnegative": optax.keep_params_nonnegative,
    "masked": lambda: optax.masked(optax.sgd(0.1), {"w": True}),
    "multi_transform": lambda: optax.multi_transform({"a": optax.adam(0.1)}, {"w": "a"}),
    "normalize_by_update_norm": optax.normalize_by_update_norm,
    "inject_hyperparams": lambda: optax.inject_hyperparams(optax.adam)(learning_rate=optax.linear_schedule(0.1, 0.0, 9)),
    "zero_nans": optax.zero_nans,
    "trace": lambda: optax.trace(0.9, nesterov=True),
    "scale_by_trust_ratio": optax.scale_by_trust_ratio,
    "scale_by_factored_rms": lambda: optax.scale_by_factored_rms(min_dim_size_to_factor=2),
    "scale_by_rss": optax.scale_by_rss,
    "scale_by_stddev": optax.scale_by_stddev,
    "scale_by_param_block_rms": optax.scale_by_param_block_rms,
    "MultiSteps": lambda: optax.MultiSteps(optax.adam(0.1), 2).gradient_transformation(),
}.items():
    ROWS.add(f"transform {name}", steps(make), W, W, **LOOSE)


def lbfgs(w, g):
    optimizer, loss = optax.lbfgs(), lambda v: jnp.sum((v - g) ** 2)
    state = optimizer.init(w)
    value, gradient = optax.value_and_grad_from_state(loss)(w, state=state)
    updates, state = optimizer.update(gradient, state, w, value=value, grad=gradient, value_fn=loss)
    return optax.apply_updates(w, updates)


ROWS.add("optimizer lbfgs", lbfgs, W, W, tolerance=2e-4, because="a line search")
for name, fn in {
    "constant": lambda: optax.constant_schedule(0.1),
    "cosine_decay": lambda: optax.cosine_decay_schedule(0.1, 50),
    "cosine_onecycle": lambda: optax.cosine_onecycle_schedule(50, 0.1),
    "exponential_decay": lambda: optax.exponential_decay(0.1, 9, 0.9, staircase=True),
    "join": lambda: optax.join_schedules([optax.constant_schedule(0.1), optax.linear_schedule(0.1, 0.01, 9)], [5]),
    "linear_onecycle": lambda: optax.linear_onecycle_schedule(50, 0.1),
    "piecewise_constant": lambda: optax.piecewise_constant_schedule(0.1, {5: 0.5, 9: 0.1}),
    "piecewise_interpolate": lambda: optax.piecewise_interpolate_schedule("cosine", 0.1, {5: 0.5, 9: 0.1}),
    "polynomial": lambda: optax.polynomial_schedule(0.1, 0.0, 2, 50),
    "sgdr": lambda: optax.sgdr_schedule([{"init_value": 0.0, "peak_value": 0.1, "warmup_steps": 2, "decay_steps": 9}] * 2),
    "warmup_exponential_decay": lambda: optax.warmup_exponential_decay_schedule(0.0, 0.1, 5, 9, 0.9),
}.items():
    ROWS.add(f"schedule {name}", lambda n, f=fn: jnp.asarray(f()(n)), Arg("i32[]", 0, 20), **LOOSE)
P = optax.projections
for name, fn in {
    "box": lambda x: P.projection_box(x, -0.5, 0.5),
    "hypercube": P.projection_hypercube,
    "l1_ball": P.projection_l1_ball,
    "l1_sphere": P.projection_l1_sphere,
    "l2_ball": P.projection_l2_ball,
    "l2_sphere": P.projection_l2_sphere,
    "linf_ball": P.projection_linf_ball,
    "non_negative": P.projection_non_negative,
    "simplex": P.projection_simplex,
    "halfspace": lambda x: P.projection_halfspace(x, jnp.arange(7.0), 0.5),
    "hyperplane": lambda x: P.projection_hyperplane(x, jnp.arange(7.0), 0.5),
}.items():
    ROWS.add(f"projection {name}", fn, "f32[7]", **LOOSE)
ROWS.add("global_norm", lambda x: (optax.global_norm({"a": x}), optax.safe_norm(x, 1e-3), optax.safe_root_mean_squares(x, 1e-3)), X, **LOOSE)
ROWS.add("hungarian_algorithm", lambda c: optax.assignment.hungarian_algorithm(c), "f32[5,5]")
ROWS.add("matrix_inverse_pth_root", lambda a: optax.matrix_inverse_pth_root(a @ a.T + jnp.eye(5), 4)[0], "f32[5,5]", tolerance=1e-3, because="an iteration")
