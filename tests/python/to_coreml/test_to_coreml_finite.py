"""In half precision, the default of packages, results are finite and right where JAX's are."""

import warnings

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import sardonyx  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental.ode import odeint  # noqa: E402
from jax.scipy import special  # noqa: E402

X = np.random.default_rng(0).standard_normal((7, 11)).astype(np.float32)
LOGITS = np.random.default_rng(1).standard_normal((5, 4, 37)).astype(np.float32)
MASK = (X[::-1] > 0).astype(np.float32)
KEY = np.uint32([3, 5])


def root_mean_square(x):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def root_of_a_square(x):
    return x / jnp.sqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-12)


def norms(x):
    return jnp.linalg.norm(x, axis=-1), jnp.sum(x**2, -1), jnp.var(x, -1), jnp.abs(x + 1j * x[::-1])


def beams(logits):
    """Four beams, of which three are off at first, over a vocabulary of 37."""

    def step(scores, row):
        values, places = lax.top_k((jax.nn.log_softmax(row, -1) + scores[:, None]).reshape(-1), 4)
        return values, (places // 37, places % 37)

    scores, (beam, token) = lax.scan(step, jnp.array([0.0, -1e9, -1e9, -1e9]), logits)
    return scores, beam, token


def fills(x, mask):
    lowest = jnp.finfo(jnp.float32).min
    return jnp.where(mask > 0, x, -1e9), jnp.where(mask > 0, x, lowest), x + (1 - mask) * -1e7


def draws(key):
    key = jax.random.wrap_key_data(key)
    return jax.random.normal(key, (4001,)), jax.random.gumbel(key, (4001,)), jax.random.exponential(key, (4001,))


def pendulum(start):
    return odeint(lambda y, _: jnp.stack([y[1], -jnp.sin(y[0])]), start, jnp.array([0.0, 0.5, 1.0, 2.0]))


def gaussian_process(x):
    near = jnp.exp(-0.5 * jnp.sum((x[:, None] - x[None]) ** 2, -1))
    return jnp.linalg.cholesky(near + 1e-4 * jnp.eye(7))


def growing(x):
    return jnp.exp(4 * x), jnp.sinh(5 * x), jnp.power(jnp.abs(x) + 0.1, -7.0), 1 / (x * 1e-4 + 1e-7)


def gammas(x):
    return special.gamma(jnp.abs(x) * 2 + 8), special.polygamma(3, jnp.abs(x) + 0.05)


def logarithms(x):
    return jnp.log(jax.nn.softmax(9 * x)), jnp.log(jax.nn.sigmoid(20 * x) + 1e-30), jax.scipy.stats.norm.logpdf(x * 100)


def counts(x):
    return jnp.sum(jnp.ones(100_001) * jnp.abs(x[0, 0])), jnp.cumsum(jnp.where(x > -9, 1.0, 0.0).reshape(-1)) + 2000


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (root_mean_square, [X * 256]),
        (root_mean_square, [X * 1000]),
        (root_of_a_square, [X * 256]),
        (root_of_a_square, [X * 0]),
        (norms, [X * 300]),
        (beams, [LOGITS]),
        (fills, [X, MASK]),
        (draws, [KEY]),
        (pendulum, [np.float32([1, 0.5])]),
        (gaussian_process, [X]),
        (growing, [X]),
        (gammas, [X]),
        (logarithms, [X]),
        (counts, [X]),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_results_are_finite_and_right(function, args):
    wanted = jax.tree.leaves(function(*map(jnp.asarray, args)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
        program = sardonyx.to_coreml(function, shapes, target="iOS18")
    given = [a.view(np.int32) if a.dtype == np.uint32 else a for a in args]
    for w, found in zip(wanted, program.run(given).values(), strict=True):
        w = np.asarray(w, np.float64)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(np.reshape(found, w.shape), w, rtol=1e-2, atol=1e-2 * np.abs(w).max())


def test_one_warning_with_lines():
    def attention_of_norms(x):
        for _ in range(3):
            x = root_mean_square(x)
        return jnp.exp(x)

    with pytest.warns(UserWarning) as caught:
        sardonyx.to_coreml(attention_of_norms, [jax.ShapeDtypeStruct((3, 5), np.float32)])
    texts = [str(w.message) for w in caught if "single precision" in str(w.message)]
    assert len(texts) == 1
    square = root_mean_square.__code__.co_firstlineno + 1
    exponential = attention_of_norms.__code__.co_firstlineno + 3
    name = __file__.rsplit("/", 1)[-1]
    assert f" and others: half precision: sums of squares may exceed 65504, at {name}:{square}" in texts[0]
    assert f"at {name}:{exponential}" in texts[0]


def test_attention_warns_of_nothing():
    def attention(q, k, v, mask):
        scores = jnp.where(mask > 0, q @ k.T / 11, jnp.finfo(jnp.float32).min)
        return jax.nn.gelu(jax.nn.softmax(scores, -1) @ v)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        row = jax.ShapeDtypeStruct((7, 11), np.float32)
        sardonyx.to_coreml(attention, [row, row, row, jax.ShapeDtypeStruct((7, 7), np.float32)])
    assert not [w for w in caught if "single precision" in str(w.message)]
