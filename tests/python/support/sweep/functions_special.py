"""`jax.scipy.special`."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax.numpy as jnp
from jax.scipy import special
from primitives.table import Arg

from .rows import Rows

ROWS = Rows(special)
X, POSITIVE, UNIT = "f32[B,7]", Arg("f32[B,7]", 0.2, 4), Arg("f32[B,7]", 0.05, 0.95)
LOOSE = {"tolerance": 5e-5, "because": "series and recurrences amplify the rounding of their terms"}

ROWS.each("dawsn entr erf erfc erfcx expit gammasgn i0 i0e i1 i1e log_ndtr log_softmax ndtr sici softmax wofz", X, **LOOSE)
ROWS.each("digamma exp1 expi fresnel gamma gammaln loggamma spence", POSITIVE, **LOOSE)
ROWS.each("erfinv logit ndtri", UNIT, **LOOSE)
ROWS.each("beta betaln gammainc gammaincc kl_div poch rel_entr xlog1py xlogy boxcox", POSITIVE, POSITIVE, **LOOSE)
ROWS.each("owens_t", X, POSITIVE, **LOOSE)
ROWS.each("boxcox1p", POSITIVE, X, **LOOSE)
ROWS.add("zeta", lambda x, q: special.zeta(x + 1.5, q), POSITIVE, POSITIVE, **LOOSE)
ROWS.add("betainc", special.betainc, POSITIVE, POSITIVE, UNIT, **LOOSE)
ROWS.add("bernoulli", lambda x: special.bernoulli(5)[:, None] * x[:1], X)
# Closer to 0, the gradient of JAX's 50 steps leaves the range of f32, where XLA flushes tiny numbers to 0:
# -0.80 at 8.2, where -0.0076 is right.
ROWS.add("bessel_jn", lambda x: special.bessel_jn(x, v=3), Arg("f32[7]", 11, 20), **LOOSE)
ROWS.add("comb", lambda n, k: special.comb(n, k), Arg("f32[B,7]", 4, 9), Arg("f32[7]", 0, 3), **LOOSE)
ROWS.add("expn", lambda x: special.expn(2, x), POSITIVE, **LOOSE)
ROWS.add("factorial", lambda n: special.factorial(n), Arg("i32[B,7]", 0, 9), **LOOSE)
ROWS.add("hyp1f1", lambda x: special.hyp1f1(1.5, 2.5, x * 0.2), Arg("f32[7]", 0.2, 4), **LOOSE)
ROWS.add("hyp2f1", lambda x: special.hyp2f1(0.5, 1.5, 2.5, x * 0.1), Arg("f32[7]", 0.2, 4), **LOOSE)
ROWS.add("logsumexp", lambda x, b: special.logsumexp(x, axis=1, b=b, return_sign=True), X, "f32[7]", **LOOSE)
ROWS.add("multigammaln", lambda x: special.multigammaln(x + 3, 4), POSITIVE, **LOOSE)
ROWS.add("polygamma", lambda x: [special.polygamma(n, x) for n in (0, 1, 2)], POSITIVE, **LOOSE)
ROWS.add("sph_harm_y", lambda n, m, t, p: special.sph_harm_y(n, m, t, p, n_max=3), Arg("i32[3]", values=(1, 2, 3)), Arg("i32[3]", values=(0, 1, 2)), Arg("f32[3]", 0.2, 3), Arg("f32[3]", 0.2, 3), **LOOSE)
ROWS.add("gamma f64", special.gamma, Arg("f64[B,7]", 0.2, 4), x64=True, tolerance=1e-12, because="JAX's own series differs by that much")
ROWS.add("erfinv f64", special.erfinv, Arg("f64[B,7]", -0.9, 0.9), x64=True, tolerance=1e-12, because="JAX's own series differs by that much")
ROWS.add("ndtri f64", special.ndtri, Arg("f64[B,7]", 0.05, 0.95), x64=True, tolerance=1e-12, because="JAX's own series differs by that much")
ROWS.add("expit f16", special.expit, "f16[B,7]")
ROWS.add("logsumexp bf16", lambda x: special.logsumexp(x, axis=1) * jnp.bfloat16(2), "bf16[B,7]")
