"""Special functions of one to three numbers: incomplete gamma and beta, zeta, polygamma, Bessel."""

import numpy as np
from jax import lax

from .table import Arg, Table

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()
add = TABLE.add

INF, NAN = np.inf, np.nan
# Values where each of them is away from its poles and from underflow.
DOMAIN = {
    "igamma": ((0.1, 9), (0.1, 12)),
    "igammac": ((0.1, 9), (0.1, 12)),
    "igamma_grad_a": ((0.2, 9), (0.1, 12)),
    "regularized_incomplete_beta": ((0.2, 9), (0.2, 9), (0.02, 0.98)),
    "zeta": ((1.1, 9), (0.2, 9)),
    "polygamma": (None, (0.3, 9)),
    "bessel_i0e": ((-30, 30),),
    "bessel_i1e": ((-30, 30),),
}
FUNCTION = {name: getattr(lax, name, None) for name in DOMAIN} | {"regularized_incomplete_beta": lax.betainc}


def inputs(name, spec):
    return [Arg(spec, values=(0, 1, 2, 3, 1, 4)) if d is None else Arg(spec, *d) for d in DOMAIN[name]]


# A sum of a few dozen terms on either side, and a factor exp(a log x - x - log gamma(a)): its exponent is a difference of terms up to 20.
LOOSE = {"igamma", "igammac", "igamma_grad_a", "regularized_incomplete_beta"}
for name, fn in FUNCTION.items():
    options = {"covers": name}
    f32 = options | ({"tolerance": 1e-5, "because": "the exponent of the factor has an error of 20 half ulps"} if name in LOOSE else {})
    f64 = options | ({"tolerance": 4e-13, "because": "log gamma there is good to some 1e-14, and so is the exponent"} if name in LOOSE else {})
    add(name, fn, *inputs(name, "f32[B,31]"), **f32)
    add(f"{name} static", fn, *inputs(name, "f32[2,3,31]"), **f32)
    add(f"{name} scalar", fn, *inputs(name, "f32[]"), **f32)
    add(f"{name} f64", fn, *inputs(name, "f64[5,31]"), x64=True, **f64)
    for dtype in ("f16", "bf16"):
        add(f"{name} {dtype}", fn, *inputs(name, f"{dtype}[5,7]"), **options)

# Zero, infinity, NaN and values outside the domain, each against each.
EDGE = (0.0, 1.0, 2.5, INF, -1.0, NAN, 0.5, 30.0)
for name in ("igamma", "igammac", "igamma_grad_a"):
    add(f"{name} at the edges", FUNCTION[name], Arg("f32[8,8]", values=sorted(EDGE * 8, key=EDGE.index)), Arg("f32[8,8]", values=EDGE),
        covers=name, tolerance=1e-5, because="as above")
UNIT = (0.0, 1.0, 0.5, NAN, -0.25, 1.5)
add("regularized_incomplete_beta at the edges", lax.betainc, Arg("f32[8,8,6]", values=tuple(np.repeat(EDGE, 48))),
    Arg("f32[8,8,6]", values=tuple(np.repeat(EDGE, 6))), Arg("f32[8,8,6]", values=UNIT), covers="regularized_incomplete_beta",
    tolerance=1e-5, because="as above")
ZETA_X, ZETA_Q = (1.0, 2.0, 3.0, 0.5, 2.5, NAN, 40.0), (1.0, 0.0, -1.0, -0.5, 3.0, NAN, 100.0)
add("zeta at the edges", lax.zeta, Arg("f32[7,7]", values=tuple(np.repeat(ZETA_X, 7))), Arg("f32[7,7]", values=ZETA_Q), covers="zeta")
ORDER = (0.0, 1.0, 2.0, 0.5, -1.0, NAN)
add("polygamma at the edges", lax.polygamma, Arg("f32[6,7]", values=tuple(np.repeat(ORDER, 7))), Arg("f32[6,7]", values=ZETA_Q), covers="polygamma")
for name in ("bessel_i0e", "bessel_i1e"):
    add(f"{name} at the edges", FUNCTION[name], Arg("f32[9]", values=(0.0, -0.0, 8.0, -8.0, 8.001, 1e6, INF, -INF, NAN)), covers=name)
add("igamma with a narrow operand", lambda x: lax.igamma(np.float32(2.5) + 0 * x[:1], x[:1]), Arg("f32[5]", 0.2, 5), covers="igamma",
    tolerance=1e-5, because="as above")
