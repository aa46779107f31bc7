"""`jax.scipy.stats`: every function of every distribution."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax.numpy as jnp
from jax.scipy import stats
from primitives.table import Arg

from .rows import Rows

ROWS = Rows(stats)
LOOSE = {"tolerance": 1e-4, "because": "differences of functions that are good to a few units each"}
REAL, POSITIVE, UNIT, COUNT = Arg("f32[B,7]", -3, 3), Arg("f32[B,7]", 1.2, 4), Arg("f32[B,7]", 0.05, 0.95), Arg("i32[B,7]", 0, 8)

# Each distribution: its support, and its parameters.
DISTRIBUTIONS = {
    "beta": (UNIT, (2.0, 3.0)),
    "cauchy": (REAL, (0.5, 1.5)),
    "chi2": (POSITIVE, (3.0,)),
    "expon": (POSITIVE, (0.5, 1.5)),
    "gamma": (POSITIVE, (2.0,)),
    "gennorm": (REAL, (1.5,)),
    "gumbel_l": (REAL, (0.5, 1.5)),
    "gumbel_r": (REAL, (0.5, 1.5)),
    "laplace": (REAL, (0.5, 1.5)),
    "logistic": (REAL, (0.5, 1.5)),
    "norm": (REAL, (0.5, 1.5)),
    "pareto": (POSITIVE, (1.5,)),
    "t": (REAL, (3.0,)),
    "truncnorm": (UNIT, (-1.0, 1.0)),
    "uniform": (POSITIVE, (0.0, 5.0)),
    "vonmises": (REAL, (2.0,)),
    "wrapcauchy": (POSITIVE, (0.3,)),
    "bernoulli": (Arg("i32[B,7]", 0, 2), (0.3,)),
    "betabinom": (COUNT, (9, 2.0, 3.0)),
    "binom": (COUNT, (9, 0.3)),
    "geom": (Arg("i32[B,7]", 1, 8), (0.3,)),
    "nbinom": (COUNT, (3, 0.3)),
    "poisson": (COUNT, (2.0,)),
}
for name, (where, parameters) in DISTRIBUTIONS.items():
    distribution = getattr(stats, name)
    for kind in "pdf logpdf cdf logcdf sf logsf ppf isf pmf logpmf".split():
        if hasattr(distribution, kind):
            ROWS.add(f"{name}.{kind}", lambda x, f=getattr(distribution, kind), p=parameters: f(x, *p), UNIT if kind in ("ppf", "isf") else where, **LOOSE)
ROWS.add("poisson.entropy", lambda m: stats.poisson.entropy(m), Arg("f32[5]", 1, 9), **LOOSE)
for kind in "pdf logpdf".split():
    ROWS.add(f"dirichlet.{kind}", lambda x, f=getattr(stats.dirichlet, kind): f(x / x.sum(), jnp.array([1.0, 2.0, 3.0])), Arg("f32[3]", 0.2, 1), **LOOSE)
    ROWS.add(f"multivariate_normal.{kind}", lambda x, m, c, f=getattr(stats.multivariate_normal, kind): f(x, m, c @ c.T + 3 * jnp.eye(5)), "f32[B,5]", "f32[5]", "f32[5,5]", **LOOSE)
for kind in "pmf logpmf".split():
    ROWS.add(f"multinomial.{kind}", lambda x, f=getattr(stats.multinomial, kind): f(jnp.array([1, 2, 3]), 6, x / x.sum()), Arg("f32[3]", 0.2, 1), **LOOSE)
ROWS.add("mode", stats.mode, Arg("i32[31]", 0, 5))
for method in "average min max dense ordinal".split():
    ROWS.add(f"rankdata {method}", lambda x, m=method: stats.rankdata(x, method=m), Arg("i32[11]", 0, 5))
ROWS.add("sem", stats.sem, "f32[31]", **LOOSE)
ROWS.add("gaussian_kde", lambda d, x: (stats.gaussian_kde(d)(x), stats.gaussian_kde(d).logpdf(x)), "f32[2,31]", "f32[2,5]", **LOOSE)
