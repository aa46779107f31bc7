"""`jax.image`."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax
from primitives.table import Arg

from .rows import Rows

ROWS = Rows(jax.image)
for method in "nearest linear cubic lanczos3 lanczos5".split():
    ROWS.add(f"resize {method} up", lambda x, m=method: jax.image.resize(x, (x.shape[0], 11, 13, 3), m), "f32[B,5,7,3]", tolerance=1e-5, because="weights divided by their sum")
    ROWS.add(f"resize {method} down", lambda x, m=method: jax.image.resize(x, (x.shape[0], 5, 4, 3), m), "f32[B,11,13,3]", tolerance=1e-5, because="weights divided by their sum")
ROWS.add("resize no antialias", lambda x: jax.image.resize(x, (x.shape[0], 5, 4, 3), "cubic", antialias=False), "f32[B,11,13,3]", tolerance=1e-5, because="weights divided by their sum")
ROWS.add("resize bf16", lambda x: jax.image.resize(x, (x.shape[0], 11, 13, 3), "bilinear"), "bf16[B,5,7,3]")
ROWS.add("scale_and_translate", lambda x, s, t: jax.image.scale_and_translate(x, (11, 13, 3), (0, 1), s, t, "linear"), "f32[5,7,3]", Arg("f32[2]", 1, 3), "f32[2]", tolerance=1e-5, because="weights divided by their sum")
