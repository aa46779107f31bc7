"""Each primitive in every dtype that JAX allows for it, with static and with symbolic sizes."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .cases_elementwise import UNARY
from .table import DTYPES, Arg, Table

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()

FLOATS = ("f16", "bf16", "f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
COMPLEX = ("c64", "c128")
INTS = SIGNED + UNSIGNED
REAL = INTS + FLOATS
ALL = ("bool", *REAL, *COMPLEX)
WIDE = {"f64", "i64", "u64", "c128"}


def add(what, fn, dtypes, *shapes, covers=None, low=None, high=None, **options):
    """fn on inputs of these shapes, of each dtype. Shapes are static; a symbol takes the place of a leading 5."""
    for dtype in dtypes:
        for dynamic in (False, True):
            if dynamic and not any(s.startswith("5") for s in shapes):
                continue
            args = [Arg(f"{dtype}[{s.replace('5', 'B', 1) if dynamic and s.startswith('5') else s}]", *_range(dtype, low, high)) for s in shapes]
            size = "symbolic" if dynamic else "static"
            TABLE.add(f"{what} of {dtype}, {size}", fn, *args, covers=what if covers is None else covers, x64=dtype in WIDE, **options)


def _range(dtype, low, high):
    if low is None or dtype == "bool":
        return ()
    return (max(low, 0) if dtype in UNSIGNED else low, high)


for op, (low, high) in UNARY.items():
    add(op, getattr(lax, op), FLOATS, "5,7", low=low, high=high)
for op in ("neg", "sign", "abs", "square"):
    add(op, getattr(lax, op), SIGNED, "5,7")
add("sign", lax.sign, UNSIGNED, "5,7")
add("neg", lax.neg, UNSIGNED, "5,7")
add("is_finite", lax.is_finite, FLOATS, "5,7")
add("round", lambda x: lax.round(x * 4, lax.RoundingMethod.TO_NEAREST_EVEN), FLOATS, "5,7")
add("integer_pow", lambda x: lax.integer_pow(x, 3), REAL, "5,7", low=-2, high=3)
add("digamma", lax.digamma, FLOATS, "5,7", low=0.4, high=9)
add("lgamma", lax.lgamma, FLOATS, "5,7", low=2.2, high=9)

for op in ("add", "sub", "mul"):
    add(op, getattr(lax, op), REAL + COMPLEX, "5,7", "5,7", low=-5, high=6)
for op in ("max", "min"):
    add(op, getattr(lax, op), ("bool", *REAL), "5,7", "5,7", low=-5, high=6)
for op in ("div", "rem"):
    add(op, getattr(lax, op), REAL, "5,7", "5,7", low=1, high=9)
add("pow", lax.pow, FLOATS, "5,7", "5,7", low=0.3, high=3)
for op in ("atan2", "nextafter"):
    add(op, getattr(lax, op), FLOATS, "5,7", "5,7")
for op in ("eq", "ne"):
    add(op, getattr(lax, op), ALL, "5,7", "5,7", low=0, high=3)
for op in ("lt", "le", "gt", "ge"):
    add(op, getattr(lax, op), ("bool", *REAL), "5,7", "5,7", low=0, high=3)
for op in ("and", "or", "xor"):
    add(op, getattr(lax, f"bitwise_{op}"), ("bool", *INTS), "5,7", "5,7")
add("not", lax.bitwise_not, ("bool", *INTS), "5,7")
for op in ("shift_left", "shift_right_logical", "shift_right_arithmetic"):
    add(op, getattr(lax, op), INTS, "5,7", "5,7", low=0, high=12)
for op in ("population_count", "clz"):
    add(op, getattr(lax, op), INTS, "5,7")
add("select_n", lambda x, y: lax.select(x != y, x, y), ALL, "5,7", "5,7", low=0, high=3)
add("clamp", lambda a, x, b: lax.clamp(lax.min(a, b), x, lax.max(a, b)), REAL, "5,7", "5,7", "5,7")

for op, f in {"reduce_sum": jnp.sum, "reduce_prod": jnp.prod}.items():
    add(op, lambda x, f=f: f(x, 1, x.dtype), REAL + COMPLEX, "5,3", low=1, high=3)
for op, f in {"reduce_max": jnp.max, "reduce_min": jnp.min}.items():
    add(op, lambda x, f=f: f(x, 1), ("bool", *REAL), "5,3")
for op in ("reduce_and", "reduce_or", "reduce_xor"):
    add(op, lambda x, op=op: getattr(lax, op)(x, (1,)), ("bool", *INTS), "5,3")
for op in ("argmax", "argmin"):
    add(op, lambda x, op=op: getattr(lax, op)(x, 1, np.int32), ("bool", *REAL), "5,7")
for op in ("cumsum", "cumprod"):
    add(op, lambda x, op=op: getattr(lax, op)(x, 1), REAL + COMPLEX, "5,4", low=1, high=3)
for op in ("cummax", "cummin"):
    add(op, lambda x, op=op: getattr(lax, op)(x, 0), REAL, "5,7")
add("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), FLOATS, "5,7")
add("sort", lambda x: lax.sort(x, dimension=1), ("bool", *REAL, *COMPLEX), "5,7")
add("top_k", lambda x: lax.top_k(x, 3), REAL, "5,7")
add("reduce_window_sum", lambda x: lax.reduce_window(x, np.array(0, x.dtype), lax.add, (1, 2), (1, 1), "SAME"), REAL, "5,7", covers="")
add("reduce_window_max", lambda x: lax.reduce_window(x, np.array(-np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).min, x.dtype), lax.max, (1, 2), (1, 2), "SAME"), REAL, "5,7", covers="")

MOVES = {
    "broadcast_in_dim": lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], 2, 6)), "reshape": lambda x: x.reshape(-1, 3), "transpose": lambda x: x.T,
    "concatenate": lambda x: jnp.concatenate([x, x], 1), "stack": lambda x: jnp.stack([x, x], 1), "unstack": lambda x: jnp.unstack(x, axis=1), "split": lambda x: jnp.split(x, 3, 1),
    "tile": lambda x: jnp.tile(x, (1, 2)), "pad": lambda x: jnp.pad(x, ((0, 0), (2, 1))), "rev": lambda x: lax.rev(x, (1,)), "slice": lambda x: x[:, 1:5:2],
    "dynamic_slice": lambda x: lax.dynamic_slice_in_dim(x, jnp.sum(x != x) + 2, 3, 1), "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, x[:, :2], (0, jnp.sum(x != x) + 3)),
    "gather": lambda x: x[:, jnp.array([4, 0, 0, 5])], "scatter": lambda x: x.at[:, jnp.array([1, 4])].set(x[:, :2]), "squeeze": lambda x: x[:, :1].squeeze(1),
    "while": lambda x: lax.fori_loop(0, jnp.sum(x != x) + 3, lambda i, v: lax.rev(v, (1,)), x), "scan": lambda x: lax.scan(lambda c, v: (v, c), x[:, 0], x.T)[1],
    "cond": lambda x: lax.cond(jnp.all(x == x), lambda v: lax.rev(v, (1,)), lambda v: v, x),
}
for name, f in MOVES.items():
    add(name, f, ALL, "5,6", covers="")
add("scatter-add", lambda x: x.at[:, jnp.array([1, 4, 1])].add(x[:, :3]), REAL + COMPLEX, "5,6", low=0, high=5)
add("scatter-mul", lambda x: x.at[:, jnp.array([1, 4])].multiply(x[:, :2]), REAL, "5,6", low=0, high=5)
for op in ("min", "max"):
    add(f"scatter-{op}", lambda x, op=op: getattr(x.at[:, jnp.array([1, 4, 1])], op)(x[:, :3]), REAL, "5,6")
add("dot_general", jnp.matmul, REAL + COMPLEX, "5,7", "7,3", low=0, high=3)
add("conv_general_dilated", lambda x, w: lax.conv(x, w, (1,), "SAME"), (*FLOATS, "i32", *COMPLEX), "5,2,7", "3,2,3", low=0, high=3)
for source in ALL:
    for target in ALL:
        if not (source in COMPLEX and target not in COMPLEX) and source != target:
            TABLE.add(f"{source} as {target}", lambda x, t=DTYPES[target]: lax.convert_element_type(x, t), Arg(f"{source}[B,7]", *_range(source, 0, 100)), covers="convert_element_type", x64=True)
BITS = {"i8": "u8", "u8": "i8", "i16": "bf16", "u16": "f16", "f16": "i16", "bf16": "u16", "i32": "f32", "u32": "i32", "f32": "u32", "i64": "f64", "u64": "i64", "f64": "u64"}
for source, target in BITS.items():
    TABLE.add(f"bits of {source} as {target}", lambda x, t=DTYPES[target]: lax.bitcast_convert_type(x, t), Arg(f"{source}[B,7]", *_range(source, 1, 100)), covers="bitcast_convert_type", x64=True)
for dtype in REAL + COMPLEX:
    TABLE.add(f"iota of {dtype}", lambda x, t=DTYPES[dtype]: lax.broadcasted_iota(t, (x.shape[0], 3), 1), "f32[B]", covers="iota", x64=True)
add("custom_jvp_call", jax.nn.relu, FLOATS, "5,7")
