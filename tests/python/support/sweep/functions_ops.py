"""`jax.ops`."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax
import jax.numpy as jnp
from primitives.table import Arg

from .rows import Rows

ROWS = Rows(jax.ops)
for name in "segment_max segment_min segment_prod segment_sum".split():
    f = getattr(jax.ops, name)
    ROWS.add(name, lambda x, s, f=f: f(x, s, 5), "f32[B,3]", Arg("i32[B]", 0, 5))
    ROWS.add(f"{name} sorted", lambda x, s, f=f: f(x, jnp.sort(s), 5, indices_are_sorted=True), "i32[11,3]", Arg("i32[11]", 0, 5))
    ROWS.add(f"{name} drop", lambda x, s, f=f: f(x, s, 5, mode="drop"), "f32[11]", Arg("i32[11]", -2, 7))
