"""Many values into few: reductions, arg-reductions, windows (pooling), cumulative sums, sorting."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import windowed_reductions as lax_windows

from .table import Arg, Table, full

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()
add = TABLE.add

REDUCE = {"reduce_sum": jnp.sum, "reduce_max": jnp.max, "reduce_min": jnp.min, "reduce_prod": jnp.prod}
for op, f in REDUCE.items():
    add(f"{op} of the last axis", lambda x, f=f: f(x, axis=-1), "f32[B,3,7]", covers=op)
    add(f"{op} of two axes", lambda x, f=f: f(x, axis=(0, 2)), "f32[B,3,7]", covers=op)
    add(f"{op} of all", f, "f32[B,3,7]", covers=op)
    add(f"{op} keeping axes", lambda x, f=f: f(x, axis=1, keepdims=True), "f32[B,3,7]", covers=op)
    add(f"{op} i32", lambda x, f=f: f(x, axis=0), Arg("i32[3,5]", -4, 5), covers=op)
    add(f"{op} f16", lambda x, f=f: f(x, axis=0), Arg("f16[3,5]", 0.5, 2), covers=op)
    add(f"{op} f64", lambda x, f=f: f(x, axis=0), "f64[3,5]", covers=op, x64=True)
    add(f"{op} over time", lambda x, f=f: f(x, axis=1), "f32[B,T,5]", covers=op)
for op in ("reduce_max", "reduce_min"):
    for dtype in ("i8", "u8", "u32", "bf16"):
        add(f"{op} {dtype}", lambda x, f=REDUCE[op]: f(x, axis=1), f"{dtype}[3,5]", covers=op)
    add(f"{op} sees nan", lambda x, f=REDUCE[op]: f(x, axis=1), Arg("f32[2,3]", values=(1, np.nan, 2, 4, 3, 5)), covers=op)
    add(f"{op} of bool", lambda x, f=REDUCE[op]: f(x, axis=1), "bool[3,2]", covers=op)
add("reduce_sum bf16", lambda x: jnp.sum(x, axis=1), "bf16[3,5]", covers="reduce_sum")
add("reduce_sum u32", lambda x: jnp.sum(x, axis=1), full("u32", 3, 5), covers="reduce_sum")
add("reduce_sum of nothing", lambda x: jnp.sum(x, axis=1), "f32[3,0]", covers="reduce_sum")
add("reduce_prod of nothing", lambda x: jnp.prod(x, axis=1), "f32[3,0]", covers="reduce_prod")
add("reduce_max of infinities", lambda x: jnp.max(x, axis=1), Arg("f32[2,2]", values=(-np.inf, -np.inf, 1, np.inf)), covers="reduce_max")
add("reduce_and", lambda x: jnp.all(x, axis=1), "bool[B,3]", covers="reduce_and")
add("reduce_or", lambda x: jnp.any(x, axis=(0, 2)), "bool[B,3,2]", covers="reduce_or")
add("reduce_xor bool", lambda x: lax.reduce_xor(x, (1,)), "bool[B,5]", covers="reduce_xor")
add("reduce_and i32", lambda x: lax.reduce_and(x, (1,)), full("i32", 3, 5), covers="reduce_and")
add("reduce_or u8", lambda x: lax.reduce_or(x, (1,)), full("u8", 3, 5), covers="reduce_or")
add("reduce_xor of the batch", lambda x: lax.reduce_xor(x, (0, 2)), "i32[B,3,T]", covers="reduce_xor")
add("reduce_and u16 of the batch", lambda x: lax.reduce_and(x, (0,)), full("u16", "B", 3), covers="reduce_and")
add("reduce_or i32 of nothing", lambda x: lax.reduce_or(x, (0,)), "i32[0,3]", covers="reduce_or")
add("reduce_prod c64 of the batch", lambda x: lax.reduce_prod(x, (0,)), "c64[B,3]", covers="reduce_prod")
add("reduce_prod c64 of nothing", lambda x: lax.reduce_prod(x, (0,)), "c64[0,3]", covers="reduce_prod")
add("reduce_xor u32", lambda x: lax.reduce_xor(x, (1,)), full("u32", 3, 5), covers="reduce_xor")
add("reduce_precision after a sum", lambda x: lax.reduce_precision(jnp.sum(x), 8, 7), "f32[3,5]", covers="reduce_precision")
add("count", lambda x: jnp.sum(x > 0, axis=1), "f32[B,31]", covers="reduce_sum")
add("mean and variance", lambda x: (jnp.mean(x, -1), jnp.var(x, -1)), "f32[B,31]", covers="reduce_sum")
add("softmax", lambda x: jax.nn.softmax(x, axis=-1), "f32[B,T,7]", covers="reduce_max reduce_sum exp")
add("softmax of large values", lambda x: jax.nn.softmax(x, axis=-1), Arg("f32[B,7]", 80, 120), covers="reduce_max exp")
add("log_softmax", lambda x: jax.nn.log_softmax(x, axis=1), "f32[B,7,T]", covers="reduce_max log")
add("logsumexp", lambda x: jax.nn.logsumexp(x, axis=1), Arg("f32[B,7]", 80, 120), covers="reduce_max log")
add("layer norm", lambda x, g, b: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b,
    "f32[B,T,31]", "f32[31]", "f32[31]", covers="reduce_sum rsqrt")
add("norm", lambda x: jnp.linalg.norm(x, axis=-1), "f32[B,7]", covers="sqrt")
add("a reducer of one's own", lambda x: lax.reduce(x, np.float32(-np.inf), jnp.logaddexp, (1,)), "f32[3,7]", covers="reduce")

for op, f in {"argmax": jnp.argmax, "argmin": jnp.argmin}.items():
    add(f"{op} of the last axis", lambda x, f=f: f(x, axis=-1), "f32[B,3,7]", covers=op)
    add(f"{op} of the first axis", lambda x, f=f: f(x, axis=0), "f32[B,7]", covers=op)
    add(f"{op} of all", f, "f32[3,7]", covers=op)
    add(f"{op} takes the first of equals", lambda x, f=f: f(x, axis=1), Arg("f32[2,5]", values=(1, 0, 1, 0, 1)), covers=op)
    add(f"{op} sees nan", lambda x, f=f: f(x, axis=1), Arg("f32[2,3]", values=(1, np.nan, 2, 4, 3, 5)), covers=op)
    add(f"{op} i32", lambda x, f=f: f(x, axis=1), "i32[3,7]", covers=op)
    add(f"{op} u8", lambda x, f=f: f(x, axis=1), "u8[3,7]", covers=op)
    add(f"{op} bool", lambda x, f=f: f(x, axis=1), "bool[3,7]", covers=op)
    add(f"{op} f16", lambda x, f=f: f(x, axis=1), "f16[3,7]", covers=op)
    add(f"{op} keeping axes", lambda x, f=f: f(x, axis=1, keepdims=True), "f32[B,7]", covers=op)
add("argmax as u8", lambda x: lax.argmax(x, 1, np.uint8), "f32[3,7]", covers="argmax")


def window(f, init, size, strides=None, padding="VALID", **options):
    return lambda x: lax.reduce_window(x, np.array(init, x.dtype), f, size, strides or (1,) * len(size), padding, **options)


INF = np.inf
WM, WS = "reduce_window_max", "reduce_window_sum"
add("max pool NHWC", window(lax.max, -INF, (1, 2, 2, 1), (1, 2, 2, 1)), "f32[B,6,8,3]", covers=WM)
add("max pool NCHW", window(lax.max, -INF, (1, 1, 2, 3), (1, 1, 2, 2)), "f32[B,3,7,11]", covers=WM, max_nodes=1)
add("max pool SAME", window(lax.max, -INF, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), "f32[B,7,11,3]", covers=WM)
add("max pool padded", window(lax.max, -INF, (1, 1, 3, 2), (1, 1, 2, 1), ((0, 0), (0, 0), (1, 2), (0, 1))), "f32[B,3,7,11]", covers=WM)
add("max pool padded by more than the window", window(lax.max, -INF, (1, 1, 2, 2), None, ((0, 0), (0, 0), (3, 0), (0, 2))), "f32[2,3,5,7]", covers=WM)
add("max pool dilated", window(lax.max, -INF, (1, 1, 2, 2), (1, 1, 1, 2), window_dilation=(1, 1, 3, 2)), "f32[B,3,7,11]", covers=WM)
add("max pool with base dilation", window(lax.max, -INF, (1, 1, 2, 3), base_dilation=(1, 1, 2, 3)), "f32[2,3,5,7]", covers=WM)
add("max pool over the batch", window(lax.max, -INF, (2, 1, 3), (1, 1, 2)), "f32[5,3,7]", covers=WM)
add("max pool of a matrix", window(lax.max, -INF, (2, 3), (2, 1)), "f32[7,11]", covers=WM)
add("max pool of a vector", window(lax.max, -INF, (3,), (2,)), "f32[11]", covers=WM)
add("max pool 3d", window(lax.max, -INF, (1, 2, 2, 2, 1), (1, 2, 2, 2, 1)), "f32[2,4,6,8,3]", covers=WM)
add("max pool over time", window(lax.max, -INF, (1, 3, 1), (1, 1, 1), "SAME"), "f32[B,T,3]", covers=WM)
add("max pool i32", window(lax.max, -2**31, (1, 1, 2, 2)), "i32[2,3,5,7]", covers=WM)
add("max pool u8", window(lax.max, 0, (1, 1, 2, 2)), "u8[2,3,5,7]", covers=WM)
add("min pool", window(lax.min, INF, (1, 2, 2, 1), (1, 2, 2, 1)), "f32[B,6,8,3]", covers="reduce_window_min")
add("min pool padded", window(lax.min, INF, (1, 3, 2, 1), None, "SAME"), "f32[2,5,7,3]", covers="reduce_window_min")
add("sum pool NHWC", window(lax.add, 0, (1, 2, 2, 1), (1, 2, 2, 1)), "f32[B,6,8,3]", covers=WS)
add("sum pool NCHW padded", window(lax.add, 0, (1, 1, 3, 2), (1, 1, 2, 1), ((0, 0), (0, 0), (1, 2), (0, 1))), "f32[B,3,7,11]", covers=WS)
add("sum pool dilated", window(lax.add, 0, (1, 1, 2, 2), window_dilation=(1, 1, 3, 2)), "f32[2,3,7,11]", covers=WS)
add("sum pool with base dilation", window(lax.add, 0, (1, 1, 2, 3), base_dilation=(1, 1, 2, 3)), "f32[2,3,5,7]", covers=WS)
add("sum pool over features", window(lax.add, 0, (1, 3), None, "SAME"), "f32[B,31]", covers=WS)
add("sum pool i32", window(lax.add, 0, (1, 1, 2, 2)), "i32[2,3,5,7]", covers=WS)
add("average pool", lambda x: window(lax.add, 0, (1, 2, 2, 1), (1, 2, 2, 1))(x) / 4, "f32[B,6,8,3]", covers=WS)
add("average pool without the padding", lambda x: window(lax.add, 0, (1, 3, 3, 1), None, "SAME")(x)
    / window(lax.add, 0, (1, 3, 3, 1), None, "SAME")(jnp.ones_like(x)), "f32[2,5,7,3]", covers=WS)
for op, f, init in ((WM, lax.max, -np.inf), (WS, lax.add, 0), ("reduce_window_min", lax.min, np.inf)):
    add(f"{op} over the whole image", lambda x, f=f, i=init: window(f, i, (1, x.shape[1], x.shape[2], 1))(x), "f32[B,T,5,3]", covers=op, max_nodes=1)
add("sum window that starts from five", lambda x: lax.reduce_window(x, np.float32(5), lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"), "f32[B,7,9,3]", covers="reduce_window")
add("product window", window(lax.mul, 1, (1, 2, 3)), "f32[2,5,7]", covers="reduce_window")
add("max pool gradient", lambda x, g: jax.vjp(window(lax.max, -INF, (1, 2, 2, 1), (1, 2, 2, 1)), x)[1](g)[0],
    "f32[2,4,6,3]", "f32[2,2,3,3]", covers="select_and_scatter_add")
add("max pool gradient of a size that may leave no window", lambda x: jax.grad(lambda v: jnp.sum(window(lax.max, -INF, (2, 2), (2, 2))(v) ** 2))(x), "f32[B,4]", covers="select_and_scatter_add")
add("max pool gradient of the batch", lambda x, g: jax.vjp(window(lax.max, -INF, (1, 2, 2, 1), (1, 2, 2, 1)), x)[1](g)[0],
    "f32[B,4,6,3]", "f32[B,2,3,3]", covers="select_and_scatter_add")

CUMULATIVE = {"cumsum": lax.cumsum, "cumprod": lax.cumprod, "cummax": lax.cummax, "cummin": lax.cummin,
              "cumlogsumexp": lax.cumlogsumexp}
for op, f in CUMULATIVE.items():
    add(op, lambda x, f=f: f(x, axis=1), Arg("f32[B,7,3]", 0.5, 1.5), covers=op)
    add(f"{op} in reverse", lambda x, f=f: f(x, axis=1, reverse=True), Arg("f32[B,7]", 0.5, 1.5), covers=op)
    add(f"{op} of the first axis", lambda x, f=f: f(x, axis=0), Arg("f32[5,3]", 0.5, 1.5), covers=op)
    add(f"{op} over time", lambda x, f=f: f(x, axis=1), Arg("f32[B,T,3]", 0.5, 1.5), covers=op)
    if op != "cumlogsumexp":
        add(f"{op} i32", lambda x, f=f: f(x, axis=0), "i32[7,3]", covers=op)
        add(f"{op} i32 in reverse", lambda x, f=f: f(x, axis=1, reverse=True), "i32[2,5]", covers=op)
add("cumsum i8", lambda x: lax.cumsum(x, 0), "i8[7]", covers="cumsum")
add("cumsum f16", lambda x: lax.cumsum(x, 0), "f16[7]", covers="cumsum")
add("cumsum of booleans", lambda x: jnp.cumsum(x, axis=1), "bool[B,7]", covers="cumsum")
add("cumprod with zeros", lambda x: lax.cumprod(x, 1), Arg("f32[2,5]", values=(2, -1, 0, 3, 4)), covers="cumprod")
add("cumprod of negatives", lambda x: lax.cumprod(x, 1), Arg("f32[2,5]", -2, -0.5), covers="cumprod")
add("cumlogsumexp of large values", lambda x: lax.cumlogsumexp(x, 1), Arg("f32[2,7]", -90, 120), covers="cumlogsumexp")

add("sort", lambda x: lax.sort(x), "f32[B,31]", covers="sort")
add("sort the first axis", lambda x: lax.sort(x, dimension=0), "f32[7,3]", covers="sort")
add("sort i32", lambda x: lax.sort(x), Arg("i32[B,31]", -99, 99), covers="sort")
add("sort u8", lambda x: lax.sort(x), Arg("u8[31]", 0, 255), covers="sort")
add("sort bool", lambda x: lax.sort(x), "bool[7]", covers="sort")
add("sort f16", lambda x: lax.sort(x), "f16[31]", covers="sort")
add("sort puts nan last", lambda x: lax.sort(x), Arg("f32[6]", values=(np.nan, 1, -np.inf, np.inf, np.nan, -2)), covers="sort")
add("sort pairs by the first", lambda x, y: lax.sort((x, y), num_keys=1), "f32[B,13]", "i32[B,13]", covers="sort")
add("sort is stable", lambda x, y: lax.sort((x, y), num_keys=1), Arg("i32[2,31]", 0, 4), Arg("i32[2,31]", 0, 99), covers="sort")
add("sort by two keys", lambda x, y, z: lax.sort((x, y, z), num_keys=2), Arg("i32[2,31]", 0, 4), Arg("f32[2,31]", -1, 1),
    "i32[2,31]", covers="sort")
add("sort along the middle", lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), "f32[2,7,3]", "f32[2,7,3]", covers="sort")
add("argsort", lambda x: jnp.argsort(x, axis=-1), "f32[B,13]", covers="sort")
add("argsort of equals", lambda x: jnp.argsort(x, axis=-1), Arg("i32[3,13]", 0, 4), covers="sort")
add("argsort descending", lambda x: jnp.argsort(x, axis=-1, descending=True), "f32[3,13]", covers="sort")
add("median", lambda x: jnp.median(x, axis=1), "f32[3,7]", covers="sort")
add("sort over time", lambda x: lax.sort(x, dimension=1), "f32[B,T,3]", covers="sort")
add("top_k", lambda x: lax.top_k(x, 3), "f32[B,13]", covers="top_k")
add("top_k of equals", lambda x: lax.top_k(x, 4), Arg("i32[3,13]", 0, 4), covers="top_k")
add("top_k of all", lambda x: lax.top_k(x, 7), "f32[7]", covers="top_k")
add("top_k of one", lambda x: lax.top_k(x, 1), "f32[B,T,13]", covers="top_k")

add("approx_max_k", lambda x: lax.approx_max_k(x, 3), "f32[B,7]", covers="approx_top_k")
add("approx_min_k of the first axis", lambda x: lax.approx_min_k(x, 2, reduction_dimension=0), "f32[5,7]", covers="approx_top_k")
add("approx_max_k without aggregation", lambda x: lax.approx_max_k(x, 2, reduction_dimension=0, aggregate_to_topk=False), "f32[5,7]", covers="approx_top_k")


def first_of_greatest(x, y):
    # Pairs of value and rank, as a reducer of one's own would order them.
    (a, i), (b, k) = x, y
    return jnp.where(a >= b, a, b), jnp.where(a >= b, i, k)


WINDOW = {"window_dimensions": (2, 3), "window_strides": (1, 2), "padding": ((0, 1), (1, 0))}
add("reduce_window with a body of one's own", lambda x: lax.reduce_window(x, np.float32(0), lambda p, q: p * q + p + q, **WINDOW),
    Arg("f32[5,7]", -0.5, 0.5), covers="reduce_window")
add("reduce_window from a number that padding would change",
    lambda x: lax.reduce_window(x, np.float32(0.5), lambda p, q: p * q + p + q, **WINDOW),
    Arg("f32[5,7]", -0.5, 0.5), covers="reduce_window")
add("reduce_window of the batch with a body of one's own",
    lambda x: lax.reduce_window(x, np.float32(0), lambda p, q: p * q + p + q, (1, 3), (1, 2), "VALID"),
    Arg("f32[B,7]", -0.5, 0.5), covers="reduce_window")
add("reduce_window of dilated windows with a body of one's own",
    lambda x: lax.reduce_window(x, np.float32(0), lambda p, q: p * q + p + q, (2, 2), (1, 1), "VALID", base_dilation=(1, 2), window_dilation=(2, 1)),
    Arg("f32[5,7]", -0.5, 0.5), covers="reduce_window")
add("reduce_window of pairs", lambda x, n: lax.reduce_window((x, n), (np.float32(-np.inf), np.int32(-1)), first_of_greatest, **WINDOW),
    "f32[5,7]", Arg("i32[5,7]", 0, 99), covers="reduce_window")
add("reduce of pairs", lambda x, n: lax.reduce((x, n), (np.float32(-np.inf), np.int32(-1)), first_of_greatest, (1,)),
    "f32[B,7]", Arg("i32[B,7]", 0, 99), covers="reduce")
for name, prim in {"greatest": lax.ge_p, "least": lax.le_p}.items():
    add(f"select_and_gather_add of the {name}", lambda t, x, p=prim: lax_windows._select_and_gather_add(t, x, p, **WINDOW, base_dilation=(1, 1), window_dilation=(1, 1)),
        "f32[5,7]", "f32[5,7]", covers="select_and_gather_add")
add("tangent of max pooling", lambda x, t: jax.jvp(lambda v: lax.reduce_window(v, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), (x,), (t,))[1],
    "f32[B,6,6,3]", "f32[B,6,6,3]", covers="select_and_gather_add")
add("cumlogsumexp of rows in reverse", lambda x: lax.cumlogsumexp(x, 1, reverse=True), "f32[B,7]", covers="cumlogsumexp")
add("cumlogsumexp of infinities among numbers", lambda x: lax.cumlogsumexp(x, 0), Arg("f32[6,2]", values=(-np.inf, 1.0, -np.inf, np.inf, 2.0, -np.inf)), covers="cumlogsumexp")
add("cumlogsumexp f64", lambda x: lax.cumlogsumexp(x, 0), "f64[7]", covers="cumlogsumexp", x64=True)
for op, f in {"argmax": jnp.argmax, "argmin": jnp.argmin}.items():
    add(f"{op} takes nan before infinity", lambda x, f=f: f(x, axis=1), Arg("f32[2,5]", values=(1, np.inf, -np.inf, np.nan, np.nan, 0, np.inf, 2, -np.inf, 1)), covers=op)
