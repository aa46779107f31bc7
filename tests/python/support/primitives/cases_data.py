"""Results whose size depends on data, in every dtype: Sardonyx's own primitives for functions that JAX does
not trace."""

import jax.numpy as jnp

from .cases_dtypes import ALL, INTS, REAL, WIDE
from .table import Arg, Table

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()
add = TABLE.add

for dtype in ALL:
    for size in ("7", "B"):
        kind, x64 = ("static" if size == "7" else "symbolic"), dtype in WIDE
        add(f"mask on {dtype}, {kind}", lambda m, x: x[m], f"bool[{size}]", f"{dtype}[{size},3]", covers="compress", x64=x64)
        if dtype not in ("c64", "c128"):
            add(f"nonzero of {dtype}, {kind}", lambda x: jnp.argwhere(x), Arg(f"{dtype}[{size},3]", 0, 2), covers="nonzero", x64=x64)
        if dtype in (*INTS, "bool") and dtype != "u64":
            add(f"unique of {dtype}, {kind}", lambda x: jnp.unique(x, True, True, True), Arg(f"{dtype}[{size}]", 0, 5), covers="unique", x64=x64)
    if dtype in REAL:
        add(f"arange of {dtype}", lambda x: jnp.arange(x), Arg(f"{dtype}[]", 2, 9), covers="range", x64=dtype in WIDE)
