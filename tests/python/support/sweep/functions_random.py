"""`jax.random`: every sampler, with the key as an input."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax
import jax.numpy as jnp
from jax import random
from primitives.table import Arg

from .rows import Rows

ROWS = Rows(random)
KEY = Arg("u32[2]", 0, 2**32 - 1)
LOOSE = {"tolerance": 5e-5, "because": "uniform bits through functions with steep tails"}


HALF = {"tolerance": 1e-3, "because": "half precision has 11 bits, and the last one is rounded after other sums"}


def sampler(name: str, *parameters, row: str = "", loose=LOOSE, **kinds):
    def draw(key):
        return getattr(random, name)(random.wrap_key_data(key), *parameters, **kinds)

    ROWS.add(f"{name} {row}".strip(), draw, KEY, **loose)


for name in "cauchy exponential gumbel laplace logistic maxwell normal rademacher rayleigh uniform".split():
    sampler(name, *((2.0,) if name == "rayleigh" else ()), shape=(5, 7))
sampler("ball", 3, shape=(5,))
sampler("bernoulli", 0.3, shape=(5, 7))
sampler("beta", 2.0, 3.0, shape=(31,))
sampler("binomial", 9, 0.3, shape=(31,))
sampler("bits", shape=(5, 7))
sampler("bits", shape=(5, 7), dtype=jnp.uint8, row="u8")
sampler("categorical", jnp.log(jnp.array([0.2, 0.3, 0.5])), shape=(31,))
sampler("chisquare", 3.0, shape=(31,))
sampler("choice", 31, shape=(5,), replace=False)
sampler("choice", jnp.arange(5.0), shape=(31,), p=jnp.array([0.1, 0.2, 0.3, 0.2, 0.2]), row="weights")
sampler("dirichlet", jnp.array([1.0, 2.0, 3.0]), shape=(7,))
sampler("double_sided_maxwell", 0.5, 1.5, shape=(31,))
sampler("f", 5.0, 7.0, shape=(31,))
sampler("gamma", 2.0, shape=(31,))
sampler("gamma", 0.4, shape=(31,), row="small")
sampler("loggamma", 0.4, shape=(31,))
sampler("generalized_normal", 1.5, shape=(31,))
sampler("geometric", 0.3, shape=(31,))
sampler("lognormal", 0.5, shape=(31,))
sampler("multinomial", 9, jnp.array([0.2, 0.3, 0.5]))
sampler("multivariate_normal", jnp.zeros(3), jnp.eye(3) + 0.5, shape=(7,))
sampler("orthogonal", 3, shape=(2,))
sampler("pareto", 1.5, shape=(31,))
sampler("permutation", jnp.arange(31))
sampler("permutation", jnp.arange(35).reshape(5, 7), axis=1, independent=True, row="independent")
sampler("poisson", 3.0, shape=(31,))
sampler("poisson", 30.0, shape=(31,), row="large")
sampler("randint", (5, 7), -9, 99)
sampler("randint", (5, 7), 0, 99, dtype=jnp.uint8, row="u8")
sampler("t", 3.0, shape=(31,))
sampler("triangular", 0.0, 0.3, 1.0, shape=(31,))
sampler("truncated_normal", -1.0, 2.0, shape=(31,))
sampler("wald", 1.5, shape=(31,))
sampler("weibull_min", 1.5, 2.0, shape=(31,))
sampler("normal", shape=(5, 7), dtype=jnp.float16, row="f16", loose=HALF)
sampler("normal", shape=(5,), dtype=jnp.complex64, row="c64")
ROWS.add("fold_in", lambda k, i: random.key_data(random.fold_in(random.wrap_key_data(k), i)), KEY, Arg("i32[]", 0, 99))
ROWS.add("split", lambda k: random.key_data(random.split(random.wrap_key_data(k), 5)), KEY)
ROWS.add("key", lambda s: random.key_data(random.key(s)), Arg("i32[]", 0, 99))
ROWS.add("PRNGKey", lambda s: random.PRNGKey(s), Arg("i32[]", 0, 99))
ROWS.add("key_data", lambda k: random.key_data(random.wrap_key_data(k)), KEY)
ROWS.add("wrap_key_data", lambda k: random.uniform(random.wrap_key_data(k)), KEY)
ROWS.add("clone", lambda k: random.uniform(random.clone(random.wrap_key_data(k)), (3,)), KEY)
ROWS.add("normal symbolic", lambda k, x: x + random.normal(random.wrap_key_data(k), x.shape), KEY, "f32[B,7]", **LOOSE)
ROWS.add("uniform mapped", lambda k: jax.vmap(lambda q: random.uniform(q, (5,)))(random.split(random.wrap_key_data(k), 3)), KEY)

ROWS.leave_out("gives no array of its inputs", "key_impl key_dtype")

for name in "glorot_normal he_uniform lecun_normal normal orthogonal truncated_normal uniform delta_orthogonal".split():
    shape = (3, 5, 7) if name == "delta_orthogonal" else (5, 7)
    ROWS.add(f"nn.initializers.{name}", lambda k, f=getattr(jax.nn.initializers, name)(), s=shape: f(random.wrap_key_data(k), s), KEY, **LOOSE)
