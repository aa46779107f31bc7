"""`jax.numpy.fft`."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax.numpy as jnp

from .rows import Rows

ROWS = Rows(jnp.fft)
LOOSE = {"tolerance": 2e-5, "because": "sums of many products"}

ROWS.each("fft ifft irfft hfft", "c64[B,12]", **LOOSE)
ROWS.each("rfft ihfft", "f32[B,12]", **LOOSE)
ROWS.each("fft2 ifft2 irfft2", "c64[B,6,8]", **LOOSE)
ROWS.each("rfft2", "f32[B,6,8]", **LOOSE)
ROWS.each("fftn ifftn irfftn", "c64[3,6,8]", **LOOSE)
ROWS.each("rfftn", "f32[3,6,8]", **LOOSE)
for name in "fft ifft rfft irfft hfft ihfft".split():
    ROWS.add(f"{name} n axis norm", lambda x, f=getattr(jnp.fft, name): f(x, n=9, axis=0, norm="ortho"), ("f32" if name in ("rfft", "ihfft") else "c64") + "[12,B]", **LOOSE)
ROWS.each("fftshift ifftshift", "f32[B,7]")
ROWS.add("fftfreq", lambda x: x * jnp.fft.fftfreq(7, 0.5), "f32[B,7]")
ROWS.add("rfftfreq", lambda x: x * jnp.fft.rfftfreq(12, 0.5), "f32[B,7]")
