"""docs/generated/primitives.md: what the tables test, primitive by primitive. `python scripts/pages/primitives_page.py` writes it after a full run."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
from jax import lax

from .table import DTYPES, Case, trace

SHORT = {dtype: name for name, dtype in DTYPES.items()}
ORDER = [*DTYPES, "key"]

HEAD = """# Primitives

`scripts/pages/primitives_page.py` writes this page after all lines of the tables in `tests/python/support/primitives` ran and agreed
with JAX; do not edit it. A row lists the dtypes of the first operand (without operands, of the result) in tests that
passed. "Symbolic": an operand or result had a size known at run time only; those tests run at three sizes, 1
among them. `make test` checks that the page is up to date.

| Primitive | Static | Symbolic |
|---|---|---|
"""

ACCURACY = """
## Special functions

The largest error over {points} points, in units in the last place, of the exported graph in onnxruntime and of JAX itself
on a CPU. mpmath computed the reference to 40 digits.

| Function | Range | f32 | JAX f32 | f64 | JAX f64 |
|---|---|---|---|---|---|
"""

POINTS = 200
DEEP = 40  # digits

# Function: its JAX name, ranges of the operands, and the same in mpmath.
FUNCTIONS = {
    "igamma": (lax.igamma, ((0.1, 9), (0.1, 12)), lambda a, x: mpmath.gammainc(a, 0, x, regularized=True)),
    "igammac": (lax.igammac, ((0.1, 9), (0.1, 12)), lambda a, x: mpmath.gammainc(a, x, regularized=True)),
    "igamma_grad_a": (
        lax.igamma_grad_a,
        ((0.2, 9), (0.1, 12)),
        lambda a, x: mpmath.diff(lambda v: mpmath.gammainc(v, 0, x, regularized=True), a),
    ),
    "regularized_incomplete_beta": (
        lax.betainc,
        ((0.2, 9), (0.2, 9), (0.02, 0.98)),
        lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True),
    ),
    "zeta": (lax.zeta, ((1.1, 9), (0.2, 9)), mpmath.zeta),
    "polygamma": (lambda x: lax.polygamma(jnp.full_like(x, 2), x), ((0.3, 9),), lambda x: mpmath.psi(2, x)),
    "bessel_i0e": (lax.bessel_i0e, ((-30, 30),), lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))),
    "bessel_i1e": (lax.bessel_i1e, ((-30, 30),), lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x))),
    "lgamma": (lax.lgamma, ((0.05, 20),), mpmath.loggamma),
    "lgamma below 0": (lax.lgamma, ((-4.9, -0.1),), lambda x: mpmath.log(abs(mpmath.gamma(x)))),
    "digamma": (lax.digamma, ((0.05, 20),), mpmath.digamma),
    "erf": (lax.erf, ((-4, 4),), mpmath.erf),
    "erfc": (lax.erfc, ((-3, 8),), mpmath.erfc),
    "erf_inv": (lax.erf_inv, ((-0.99, 0.99),), mpmath.erfinv),
    "expm1": (lax.expm1, ((-3, 3),), mpmath.expm1),
    "log1p": (lax.log1p, ((-0.9, 9),), mpmath.log1p),
    "logistic": (lax.logistic, ((-20, 20),), lambda x: 1 / (1 + mpmath.exp(-x))),
    "tan": (lax.tan, ((-1.4, 1.4),), mpmath.tan),
    "asin": (lax.asin, ((-0.99, 0.99),), mpmath.asin),
    "acos": (lax.acos, ((-0.99, 0.99),), mpmath.acos),
    "atan": (lax.atan, ((-20, 20),), mpmath.atan),
    "sinh": (lax.sinh, ((-9, 9),), mpmath.sinh),
    "cosh": (lax.cosh, ((-9, 9),), mpmath.cosh),
    "asinh": (lax.asinh, ((-20, 20),), mpmath.asinh),
    "acosh": (lax.acosh, ((1, 20),), mpmath.acosh),
    "atanh": (lax.atanh, ((-0.99, 0.99),), mpmath.atanh),
    "cbrt": (lax.cbrt, ((-20, 20),), lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))),
}


def _short(aval) -> str:
    return (
        SHORT.get(np.dtype(aval.dtype), str(aval.dtype))
        if not jnp.issubdtype(aval.dtype, jax.dtypes.prng_key)
        else "key"
    )


def equations_of(jaxpr) -> set[tuple[str, str, bool]]:
    """(primitive, dtype, symbolic) of all equations in a (closed) jaxpr and the jaxprs in its parameters."""
    found = set()
    stack = [getattr(jaxpr, "jaxpr", jaxpr)]
    while stack:
        for eqn in stack.pop().eqns:
            avals = [v.aval for v in (*eqn.invars, *eqn.outvars) if hasattr(v.aval, "shape")]
            if avals:
                symbolic = any(not isinstance(d, int) for a in avals for d in a.shape)
                found.add((eqn.primitive.name, _short(avals[0]), symbolic))
            for value in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda v: hasattr(v, "eqns")):
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    stack.append(inner)
    return found


def rows(cases: list[Case]) -> list[str]:
    """The rows of the table for these cases."""
    tested: dict[str, tuple[set[str], set[str]]] = {}
    for case in cases:
        for name, dtype, symbolic in equations_of(trace(case)):
            tested.setdefault(name, (set(), set()))[symbolic].add(dtype)

    def text(dtypes: set[str]) -> str:
        return " ".join(sorted(dtypes, key=lambda d: ORDER.index(d) if d in ORDER else len(ORDER)))

    return [
        f"| {name} | {text(static)} | {'the same' if static == symbolic else text(symbolic)} |"
        for name, (static, symbolic) in sorted(tested.items())
    ]


def accuracy(run) -> list[str]:
    """The rows of the second table. `run(fn, inputs, x64)` exports fn and returns its result for these
    inputs."""
    lines = []
    for name, (fn, ranges, truth) in FUNCTIONS.items():
        cells = []
        for dtype in (np.float32, np.float64):
            rng = np.random.default_rng(0)
            inputs = [rng.uniform(low, high, POINTS).astype(dtype) for low, high in ranges]
            with mpmath.workdps(DEEP):
                exact = [truth(*(mpmath.mpf(float(x)) for x in xs)) for xs in zip(*inputs, strict=True)]
            with jax.enable_x64(dtype == np.float64):
                reference = np.asarray(fn(*map(jnp.asarray, inputs)))
            cells += [_ulps(run(fn, inputs, dtype == np.float64), exact), _ulps(reference, exact)]
        where = ", ".join(f"{low:g} to {high:g}" for low, high in ranges)
        lines.append(f"| {name} | {where} | {' | '.join(cells)} |")
    return lines


def _ulps(found: np.ndarray, exact: list) -> str:
    with mpmath.workdps(DEEP):
        errors = [
            float(abs(mpmath.mpf(float(y)) - e) / float(np.spacing(abs(found.dtype.type(float(e))))))
            for y, e in zip(found, exact, strict=True)
        ]
    worst = max(errors)
    return f"{worst:.1f}" if worst < 100 else f"{worst:.0f}"


def render(table: list[str], accuracies: list[str]) -> str:
    return HEAD + "\n".join(table) + "\n" + ACCURACY.format(points=POINTS) + "\n".join(accuracies) + "\n"
