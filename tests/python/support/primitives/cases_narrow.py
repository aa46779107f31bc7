"""Floats of 8 bits and integers of 4, which JAX rounds, or cuts, after every operation.

Operations that are exact before that rounding are tried on all codes of the type, of two operands on all pairs of codes, and compared to the bit;
`test_narrow.py` has the functions.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax

from .cases_dtypes import MOVES
from .table import DTYPES, NARROW, Arg, Table

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()

FLOATS, INTS = ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"), ("i4", "u4")


def codes(dtype: str, copies: int = 1) -> tuple:
    """All numbers of the type, each `copies` times in turn."""
    count = 1 << (8 if dtype in FLOATS else 4)
    bits = np.arange(count, dtype=np.uint8)
    all_of = bits.view(DTYPES[dtype]) if dtype in FLOATS else bits.astype(DTYPES[dtype])
    return tuple(all_of.astype(np.float64).repeat(copies))


def numbers_of(dtype: str) -> tuple:
    """All codes, with a single one for NaN."""
    everything = codes(dtype)
    return tuple(v for v in everything if v == v)


def one(what, fn, dtypes, covers=None):
    for dtype in dtypes:
        n = len(codes(dtype))
        TABLE.add(f"{what} of all {dtype}", fn, Arg(f"{dtype}[{n}]", values=codes(dtype)), covers=what if covers is None else covers)


def two(what, fn, dtypes, covers=None):
    for dtype in dtypes:
        n = len(codes(dtype))
        TABLE.add(f"{what} of all pairs of {dtype}", fn, Arg(f"{dtype}[{n * n}]", values=codes(dtype)), Arg(f"{dtype}[{n * n}]", values=codes(dtype, n)), covers=what if covers is None else covers)


def some(what, fn, dtypes, *shapes, covers=None, values=(1, 0, 2, -1, 3, 1, 0.5, -2, 1, 1, 2), **options):
    """Small numbers, whose sums are exact."""
    for dtype in dtypes:
        mine = tuple(abs(int(v)) if dtype[0] == "u" else int(v) if dtype[0] == "i" else v for v in values)
        for dynamic in (False, True):
            args = [Arg(f"{dtype}[{s.replace('5', 'B', 1) if dynamic and s.startswith('5') else s}]", values=mine) for s in shapes]
            TABLE.add(f"{what} of {dtype}, {'symbolic' if dynamic else 'static'}", fn, *args, covers=what if covers is None else covers, **options)


for op in ("neg", "sign", "square"):
    one(op, getattr(lax, op), FLOATS + INTS)
for op in ("abs", "floor", "ceil", "sqrt", "is_finite"):
    one(op, getattr(lax, op), FLOATS)
for method in (lax.RoundingMethod.TO_NEAREST_EVEN, lax.RoundingMethod.AWAY_FROM_ZERO):
    one(f"round {method.name}", lambda x, m=method: lax.round(x, m), FLOATS, covers="round")
one("integer_pow", lambda x: lax.integer_pow(x, 3), INTS)
for op in ("bitwise_not", "clz"):
    one(op, getattr(lax, op), INTS, covers=op.removeprefix("bitwise_"))
one("population_count", lax.population_count, ("u4",))  # for negative i4, XLA's CPU counts the bits of a byte
for op in ("add", "sub", "mul", "div", "rem", "max", "min", "eq", "ne", "lt", "le", "gt", "ge"):
    two(op, getattr(lax, op), FLOATS + INTS)
for op in ("and", "or", "xor"):
    two(op, getattr(lax, f"bitwise_{op}"), INTS)
for op in ("shift_left", "shift_right_logical", "shift_right_arithmetic"):
    two(op, getattr(lax, op), INTS)
# After the least negative number of a dtype without -0, JAX steps to the code of -0, which is NaN there.
two("nextafter", lax.nextafter, ("f8e4m3fn", "f8e5m2"))
two("clamp", lambda x, y: lax.clamp(lax.min(x, y), x + y, lax.max(x, y)), FLOATS)
two("select_n", lambda x, y: lax.select(x < y, x, y), FLOATS + INTS)

for name, f in MOVES.items():
    some(name, f, ("f8e4m3fn", "f8e5m2", *INTS), "5,6", covers="")
for op in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
    some(op, lambda x, op=op: getattr(lax, op)(x, (1,)), (*FLOATS, *INTS), "5,3")
some("reduce_max of nothing", lambda x: lax.reduce_max(x[:, :0], (1,)), (*FLOATS, *INTS), "5,3", covers="reduce_max")
some("reduce_min of nothing", lambda x: lax.reduce_min(x[:, :0], (1,)), (*FLOATS, *INTS), "5,3", covers="reduce_min")
for op in ("argmax", "argmin"):
    some(op, lambda x, op=op: getattr(lax, op)(x, 1, np.int32), (*FLOATS, *INTS), "5,7")
for op in ("cumsum", "cumprod", "cummax", "cummin"):
    some(op, lambda x, op=op: getattr(lax, op)(x, 1), ("f8e4m3fn", "f8e5m2", *INTS), "5,3")
some("sort", lambda x: lax.sort(x, dimension=1), (*FLOATS, *INTS), "5,7")
some("top_k", lambda x: lax.top_k(x, 3), FLOATS, "5,7")
some("reduce_window_sum", lambda x: lax.reduce_window(x, np.array(0, x.dtype), lax.add, (1, 2), (1, 1), "SAME"), ("f8e4m3fn", "f8e5m2", "i4"), "5,7", covers="")
some("reduce_window_max", lambda x: lax.reduce_window(x, np.array(-8, x.dtype), lax.max, (1, 2), (1, 2), ((0, 0), (2, 1))), ("i4",), "5,7", covers="reduce_window_max")
some("reduce", lambda x: lax.reduce(x, np.array(1, x.dtype), lambda a, b: a * b + a, (1,)), ("f8e4m3fn", "i4"), "5,3")
some("scatter-add", lambda x: x.at[:, jnp.array([1, 4])].add(x[:, :2]), ("f8e4m3fn", "f8e5m2", "i4"), "5,6")
some("scatter-max", lambda x: x.at[:, jnp.array([1, 4])].max(x[:, :2]), ("f8e4m3fn", "f8e5m2", "i4"), "5,6")
some("dot_general", jnp.matmul, (*FLOATS, *INTS), "5,7", "7,3")
some("dot_general to f32", lambda x, y: lax.dot(x, y, preferred_element_type=jnp.float32), FLOATS, "5,7", "7,3", covers="dot_general")
some("conv_general_dilated", lambda x, w: lax.conv(x, w, (1,), "SAME"), ("f8e4m3fn", "f8e5m2", "i4"), "5,2,7", "3,2,3")
some("iota", lambda x: lax.broadcasted_iota(x.dtype, (x.shape[0], 20), 1), INTS, "5")
some("iota", lambda x: lax.broadcasted_iota(x.dtype, (x.shape[0], 20), 1), FLOATS, "5")

EDGES = tuple(s * v for s in (1, -1) for v in (0, 1e-9, 2**-10, 2**-9, 2**-17, 2**-16, 0.3, 0.5, 1, 1.0625, 1.1875, 1.5, 2.5, 7.5, 15.6, 16, 127.9, 240, 248, 256, 448, 464, 464.1, 479, 480, 500, 512, 57344, 61439, 61440, 65504, 65535, 65536, 1e9, np.inf, np.nan))
for target in FLOATS + INTS:
    for source in ("f16", "f32", "bf16"):
        TABLE.add(f"{source} as {target}", lambda x, t=DTYPES[target]: lax.convert_element_type(x, t), Arg(f"{source}[B,73]", values=EDGES), covers="convert_element_type")
    for source in ("bool", "i8", "u8", "i32"):
        numbers = (0, 1, 3, 7, 8, 9, 15, 16, 17, 100, 127) + (() if source[0] == "u" else (-1, -8, -9, -128)) + ((464, 465, 61440, 70000, -70000) if source == "i32" else ())
        TABLE.add(f"{source} as {target}", lambda x, t=DTYPES[target]: lax.convert_element_type(x, t), Arg(f"{source}[B,41]", values=numbers), covers="convert_element_type")
    for source in FLOATS + INTS:
        if source != target:
            one(f"{source} as {target}", lambda x, t=DTYPES[target]: lax.convert_element_type(x, t), (source,), covers="convert_element_type")
    for wide in ("f16", "f32", "bf16", "i8", "u8", "i32", "bool"):
        one(f"{target} as {wide}", lambda x, t=DTYPES[wide]: lax.convert_element_type(x, t), (target,), covers="convert_element_type")
BYTES = tuple(range(256))
for target in FLOATS:
    TABLE.add(f"bits of {target} as u8", lambda x: lax.bitcast_convert_type(x, jnp.uint8), Arg(f"{target}[B,256]", values=numbers_of(target)), covers="bitcast_convert_type")
    TABLE.add(f"bits of u8 as {target}", lambda x, t=DTYPES[target]: lax.bitcast_convert_type(x, t), Arg("u8[B,256]", values=BYTES), covers="bitcast_convert_type")
TABLE.add("bits of f8e4m3fn as i8", lambda x: lax.bitcast_convert_type(x, jnp.int8), Arg("f8e4m3fn[256]", values=numbers_of("f8e4m3fn")), covers="bitcast_convert_type")
TABLE.add("bits of f8e4m3fn as i16", lambda x: lax.bitcast_convert_type(x, jnp.int16), Arg("f8e4m3fn[127,2]", values=numbers_of("f8e4m3fn")), covers="bitcast_convert_type")
TABLE.add("bits of i16 as f8e5m2", lambda x: lax.bitcast_convert_type(x, jnp.float8_e5m2), Arg("i16[B,7]", values=(0, 1, -1, 257, 31000, -31000, 12345)), covers="bitcast_convert_type")
one("bits of i4 as u4", lambda x: lax.bitcast_convert_type(x, jnp.uint4), ("i4",), covers="bitcast_convert_type")
one("bits of u4 as i4", lambda x: lax.bitcast_convert_type(x, jnp.int4), ("u4",), covers="bitcast_convert_type")
one("bits of i4 as u8", lambda x: lax.bitcast_convert_type(x.reshape(-1, 2), jnp.uint8), ("i4",), covers="bitcast_convert_type")
TABLE.add("bits of i8 as i4", lambda x: lax.bitcast_convert_type(x, jnp.int4), Arg("i8[B,256]", values=tuple(range(-128, 128))), covers="bitcast_convert_type")
assert set(FLOATS + INTS) <= set(NARROW)
