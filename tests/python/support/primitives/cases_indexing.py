"""Reading and writing at computed places: gather, scatter, dynamic_slice, dynamic_update_slice."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .table import Arg, Table

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()
add = TABLE.add


def index(spec, n):
    """Indices of an axis of size n, negative ones included."""
    return Arg(f"i32[{spec}]", -n, n)


G = "gather"
add("x[i]", lambda x, i: x[i], "f32[7,3]", index("", 7), covers="dynamic_slice")
add("x[i] of the batch", lambda x, i: x[i], "f32[7,B]", index("", 7), covers=G)
add("x[ints]", lambda x, i: x[i], "f32[7,3]", index("5", 7), covers=G)
add("x[int matrix]", lambda x, i: x[i], "f32[7,3]", index("B,5", 7), covers=G)
add("x[:, i]", lambda x, i: x[:, i], "f32[B,7]", index("", 7), covers=G)
add("x[:, ints]", lambda x, i: x[:, i], "f32[B,7,3]", index("5", 7), covers=G)
add("x[..., ints]", lambda x, i: x[..., i], "f32[2,3,7]", index("5", 7), covers=G)
add("x[i, :, j]", lambda x, i, j: x[i, :, j], "f32[7,3,5]", index("", 7), index("", 5), covers="dynamic_slice")
add("x[ints, :, ints]", lambda x, i, j: x[i, :, j], "f32[7,3,5]", index("11", 7), index("11", 5), covers=G)
add("x[ints, ints]", lambda x, i, j: x[i, j], "f32[7,5]", index("B", 7), index("B", 5), covers=G)
add("x[ints, ints] broadcasting", lambda x, i, j: x[i[:, None], j], "f32[7,5,2]", index("3", 7), index("11", 5), covers=G)
OF_BATCH = Arg("i32[5]", values=(0, -1, 0, 0, -1))
add("x[ints] of an axis with a name", lambda x, i: x[i], "f32[B,3]", OF_BATCH, covers=G)
add("x[i] of an axis with a name", lambda x, i: x[i], "f32[B,3]", Arg("i32[]", values=(-1,)), covers="dynamic_slice")
add("x[ints, ints] of axes with names", lambda x, i, j: x[i, j], "f32[B,T]", OF_BATCH, Arg("i32[5]", values=(-1, 0, -1, 0, 0)), covers=G)
add("x[range, ints]", lambda x, i: x[jnp.arange(x.shape[0]), i], "f32[B,7]", index("B", 7), covers=G)
for mode in ("clip", "fill"):
    add(f"take of an axis with a name, {mode}", lambda x, i, mode=mode: jnp.take(x, i, axis=0, mode=mode), "f32[B,3]", Arg("i32[6]", values=(0, 1, -1, -2, -100, 100)), covers=G)
add("x[:, ints, ints]", lambda x, i, j: x[:, i, j], "f32[3,7,5]", index("11", 7), index("11", 5), covers=G)
add("x[1:3, ints]", lambda x, i: x[1:3, i], "f32[5,7]", index("11", 7), covers=G)
add("x[ints] with constants", lambda x: x[jnp.array([0, 3, -1, 3])], "f32[7,3]", covers=G)
add("x[:, constants]", lambda x: x[:, np.array([2, 0, 1])], "f32[B,3]", covers=G)
add("x[-1]", lambda x: x[-1], "f32[7,3]", covers="squeeze")
add("x[:, -1]", lambda x: x[:, -1], "f32[B,7]", covers=G)
add("x[:, 2:5]", lambda x: x[:, 2:5], "f32[B,7]", covers=G)
add("x[ints] of integers", lambda x, i: x[i], "i32[7,3]", index("5", 7), covers=G)
add("x[ints] of booleans", lambda x, i: x[i], "bool[7,3]", index("5", 7), covers=G)
add("x[ints] of u8", lambda x, i: x[i], "u8[7,3]", index("5", 7), covers=G)
add("x[ints] of f16", lambda x, i: x[i], "f16[7,3]", index("5", 7), covers=G)
add("x[u8 indices]", lambda x, i: x[i], "f32[7,3]", Arg("u8[5]", 0, 7), covers=G)
add("embedding", lambda x, i: jnp.take(x, i, axis=0), "f32[31,5]", Arg("i32[B,T]", 0, 31), covers=G)
add("take fills what is outside", lambda x, i: jnp.take(x, i, axis=0), "f32[7,3]", Arg("i32[6]", values=(0, 6, 7, -1, -8, 100)), covers=G)
add("take of integers outside", lambda x, i: jnp.take(x, i, axis=0), "i32[7,3]", Arg("i32[6]", values=(0, 6, 7, -1, -8, 100)), covers=G)
for order in (0, 1):
    add(f"map_coordinates of order {order}, outside too", lambda x, c, order=order: jax.scipy.ndimage.map_coordinates(x, [c[0], c[1]], order, "constant", 0.5), "f32[7,5]", Arg("f32[2,B]", -3, 9), covers=G)
add("take clipped", lambda x, i: jnp.take(x, i, axis=1, mode="clip"), "f32[3,7]", Arg("i32[6]", values=(0, 6, 7, -1, -8, 100)), covers=G)
add("take wrapped", lambda x, i: jnp.take(x, i, axis=1, mode="wrap"), "f32[3,7]", Arg("i32[6]", values=(0, 6, 7, -1, -8, 100)), covers=G)
add("take of all", lambda x, i: jnp.take(x, i), "f32[3,7]", Arg("i32[5]", 0, 21), covers=G)
add("take fills u64 with its largest number", lambda x, i: jnp.take(x, i, axis=0), "u64[7,3]", Arg("i32[6]", values=(0, 6, 7, -1, -8, 100)), covers=G, x64=True)
add("x.at[].get outside", lambda x, i: x.at[i].get(mode="fill", fill_value=-1), "f32[7,3]", Arg("i32[4]", values=(0, 7, -1, -9)), covers=G)
add("x[ints] clamps what is outside", lambda x, i: x.at[i].get(mode="clip"), "f32[7,3]", Arg("i32[4]", values=(0, 9, -3, -9)), covers=G)
add("promise_in_bounds", lambda x, i: x.at[i].get(mode="promise_in_bounds"), "f32[7,3]", Arg("i32[4]", 0, 7), covers=G)
add("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, axis=1), "f32[B,7]", index("B,3", 7), covers=G)
add("take_along_axis in the middle", lambda x, i: jnp.take_along_axis(x, i, axis=1), "f32[3,7,5]", index("3,2,5", 7), covers=G)
add("take_along_axis broadcasting", lambda x, i: jnp.take_along_axis(x, i, axis=1), "f32[3,7,5]", index("3,2,1", 7), covers=G)
add("pick one per row", lambda x, i: jnp.take_along_axis(x, i[:, None], axis=1)[:, 0], "f32[B,7]", Arg("i32[B]", 0, 7), covers=G)
add("x[arange, i]", lambda x, i: x[jnp.arange(x.shape[0]), i], "f32[B,7]", Arg("i32[B]", 0, 7), covers=G)
add("vmap of x[i]", jax.vmap(lambda x, i: x[i]), "f32[3,7]", index("3", 7), covers=G)
add("vmap of x[ints]", jax.vmap(lambda x, i: x[i]), "f32[3,7,2]", index("3,5", 7), covers=G)
add("vmap of a dynamic slice", jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (3,))), "f32[5,7]", Arg("i32[5]", -2, 9), covers=G)
add("gather of windows", lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 3)), "f32[7,11]",
    Arg("i32[5,2]", 0, 5), covers=G)
add("gather of windows at the edge", lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 3), mode="clip"),
    "f32[7,11]", Arg("i32[5,2]", -3, 15), covers=G)
add("gather of windows filled", lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers((1,), (0,), (0, 1)), (1, 3), mode="fill"),
    "f32[7,11]", Arg("i32[5,2]", -3, 15), covers=G)
add("diagonal", jnp.diagonal, "f32[5,5]", covers="")
add("where with indices", lambda x, i: jnp.where(i[:, None] >= 0, x[i], 0), "f32[7,3]", index("5", 7), covers=G)
add("masked by a constant", lambda x: x[np.array([True, False, True])], "f32[3,5]", covers=G)
add("interp", lambda x: jnp.interp(x, jnp.arange(5.0), jnp.array([0.0, 2.0, 1.0, 5.0, 4.0])), Arg("f32[7]", -1, 6), covers=G)
add("searchsorted", lambda x: jnp.searchsorted(jnp.arange(7.0), x), Arg("f32[5]", -1, 8), covers=G)

DS = "dynamic_slice"
add("dynamic_slice", lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3)), "f32[7,11]", Arg("i32[]", 0, 5), Arg("i32[]", 0, 8), covers=DS)
for start in (-20, -1, 0, 4, 6, 50):
    add(f"dynamic_slice at {start}", lambda x, i: lax.dynamic_slice_in_dim(x, i, 3), "f32[7,2]", Arg("i32[]", values=(start,)), covers=DS)
add("dynamic_slice keeps the batch", lambda x, i: lax.dynamic_slice_in_dim(x, i, 3, axis=1), "f32[B,7]", Arg("i32[]", 0, 4), covers=DS)
add("dynamic_slice of the batch", lambda x, i: lax.dynamic_slice_in_dim(x, i, 1, axis=0), "f32[B,7]", Arg("i32[]", 0, 6), covers=DS)
add("dynamic_slice with a fixed start", lambda x, i: lax.dynamic_slice(x, (2, i), (3, 2)), "f32[7,5]", Arg("i32[]", 0, 4), covers=DS)
add("dynamic_slice of integers", lambda x, i: lax.dynamic_slice(x, (i,), (3,)), "i8[7]", Arg("i32[]", 0, 5), covers=DS)
add("dynamic_slice u8 start", lambda x, i: lax.dynamic_slice(x, (i,), (3,)), "f32[7]", Arg("u8[]", 0, 9), covers=DS)
add("dynamic_index_in_dim", lambda x, i: lax.dynamic_index_in_dim(x, i, 1, keepdims=False), "f32[B,7,3]", Arg("i32[]", -7, 7), covers=DS)

DUS = "dynamic_update_slice"
add("dynamic_update_slice", lambda x, u, i, j: lax.dynamic_update_slice(x, u, (i, j)), "f32[7,11]", "f32[2,3]",
    Arg("i32[]", 0, 6), Arg("i32[]", 0, 9), covers=DUS)
for start in (-20, -1, 0, 4, 6, 50):
    add(f"dynamic_update_slice at {start}", lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 0), "f32[7,2]", "f32[3,2]",
        Arg("i32[]", values=(start,)), covers=DUS)
add("a cache written at a step", lambda x, u, i: lax.dynamic_update_slice(x, u, (0, i, 0)), "f32[B,7,3]", "f32[B,1,3]",
    Arg("i32[]", 0, 7), covers=DUS)
add("dynamic_update_slice of integers", lambda x, u, i: lax.dynamic_update_slice(x, u, (i,)), "i32[7]", "i32[2]", Arg("i32[]", 0, 7), covers=DUS)
add("dynamic_update_slice of all", lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)), "f32[3,5]", "f32[3,5]", Arg("i32[]", 0, 7), covers=DUS)

S, SA = "scatter", "scatter-add"
UNIQUE = Arg("i32[5]", values=(6, 0, -3, 2, 1))
add("x.at[i].set", lambda x, i, u: x.at[i].set(u), "f32[7,3]", index("", 7), "f32[3]", covers=S)
add("x.at[ints].set", lambda x, i, u: x.at[i].set(u), "f32[7,3]", UNIQUE, "f32[5,3]", covers=S)
add("x.at[ints].set a scalar", lambda x, i: x.at[i].set(9), "f32[7,3]", UNIQUE, covers=S)
add("x.at[:, ints].set", lambda x, i, u: x.at[:, i].set(u), "f32[3,7]", UNIQUE, "f32[3,5]", covers=S)
add("x.at[:, i].set", lambda x, i, u: x.at[:, i].set(u), "f32[B,7]", index("", 7), "f32[B]", covers=S)
add("x.at[0].set", lambda x, u: x.at[0].set(u), "f32[7,3]", "f32[3]", covers=S)
add("x.at[:, 0].set", lambda x: x.at[:, 0].set(1), "f32[B,7]", covers=S)
add("x.at[1:4].set", lambda x, u: x.at[1:4].set(u), "f32[7,3]", "f32[3,3]", covers=S)
add("x.at[1:6:2, 0].set", lambda x, u: x.at[1:6:2, 0].set(u), "f32[7,3]", "f32[3]", covers=S)
add("x.at[i, j].set", lambda x, i, j: x.at[i, j].set(5.0), "f32[7,3]", index("", 7), index("", 3), covers=S)
add("x.at[ints, ints].set", lambda x, i, j, u: x.at[i, j].set(u), "f32[7,5]", UNIQUE, Arg("i32[5]", 0, 5), "f32[5]", covers=S)
add("x.at[arange, ints].set", lambda x, i: x.at[jnp.arange(3), i].set(0), "f32[3,7]", index("3", 7), covers=S)
add("x.at[ints].set drops what is outside", lambda x, i, u: x.at[i].set(u), "f32[7,3]", Arg("i32[5]", values=(6, 7, -8, 2, 100)), "f32[5,3]", covers=S)
add("x.at[ints].set clipped", lambda x, i, u: x.at[i].set(u, mode="clip"), "f32[7]", Arg("i32[3]", values=(3, 9, -2)), "f32[3]", covers=S)
add("x.at[ints].set integers", lambda x, i, u: x.at[i].set(u), "i32[7]", UNIQUE, "i32[5]", covers=S)
add("x.at[ints].set booleans", lambda x, i, u: x.at[i].set(u), "bool[7]", UNIQUE, "bool[5]", covers=S)
REPEATED = Arg("i32[5]", values=(1, 3, 1, -4, 0))
UPDATES = {"add": SA, "max": "scatter-max", "min": "scatter-min", "mul": "scatter-mul"}
for op, primitive in UPDATES.items():
    def update(x, i, u, op=op):
        return getattr(x.at[i], op)(u)

    add(f"x.at[repeated].{op}", update, "f32[7,3]", REPEATED, "f32[5,3]", covers=primitive)
    add(f"x.at[:, repeated].{op}", lambda x, i, u, op=op: getattr(x.at[:, i], op)(u), "f32[3,7]", REPEATED, "f32[3,5]", covers=primitive)
    add(f"x.at[ints].{op} outside", update, "f32[7]", Arg("i32[5]", values=(6, 7, -8, 2, 100)), "f32[5]", covers=primitive)
    add(f"x.at[ints, ints].{op}", lambda x, i, j, u, op=op: getattr(x.at[i, j], op)(u), "f32[7,5]", REPEATED, Arg("i32[5]", 0, 2), "f32[5]", covers=primitive)
    add(f"x.at[ints].{op} i32", update, "i32[7]", REPEATED, "i32[5]", covers=primitive)
    add(f"x.at[i].{op} scalar", lambda x, i, op=op: getattr(x.at[i], op)(2), "f32[7,3]", index("", 7), covers=primitive)
SUB_ROWS = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
for dtype in ("f32", "i32"):
    add(f"scatter_sub {dtype}", lambda x, i, u: lax.scatter_sub(x, i[:, None], u, SUB_ROWS), f"{dtype}[7,3]", Arg("i32[5]", values=(1, 3, 1, 0, 9)), f"{dtype}[5,3]", covers="scatter-sub")
add("scatter_sub of the batch", lambda x, i, u: lax.scatter_sub(x, i[:, None], u, SUB_ROWS), "f32[7,3]", Arg("i32[B]", 0, 7), "f32[B,3]", covers="scatter-sub")
add("x.at[ints].add of the batch", lambda x, i, u: x.at[i].add(u), "f32[7]", Arg("i32[B]", 0, 7), "f32[B]", covers=SA)
add("x.at[:, ints].add of the batch", lambda x, i, u: x.at[:, i].add(u), "f32[B,7]", REPEATED, "f32[B,5]", covers=SA)
add("bincount", lambda i: jnp.bincount(i, length=7), Arg("i32[31]", 0, 7), covers=SA)
add("segment_sum", lambda x, i: jax.ops.segment_sum(x, i, num_segments=5), "f32[B,3]", Arg("i32[B]", 0, 5), covers=SA)
add("gradient of an embedding", lambda x, i: jax.grad(lambda w: jnp.sum(jnp.sin(w[i])))(x), "f32[7,3]", REPEATED, covers=SA)
add("x.at[ints].apply", lambda x, i: x.at[i].apply(jnp.sin), "f32[7]", UNIQUE, covers=S)
add("x.at[:, repeated].apply", lambda x, i: x.at[:, i].apply(lambda v: 2 * v), "f32[B,7]", Arg("i32[5]", values=(1, 3, 1, -4, 0)), covers=S)
add("x.at[ints].apply outside", lambda x, i: x.at[i].apply(jnp.abs), "i32[7,3]", Arg("i32[5]", values=(6, 7, -8, 2, 100)), covers=S)
add("vmap of x.at[i].set", jax.vmap(lambda x, i: x.at[i].set(1)), "f32[3,7]", index("3", 7), covers=S)
add("vmap of x.at[ints].add", jax.vmap(lambda x, i, u: x.at[i].add(u)), "f32[3,7]", index("3,5", 7), "f32[3,5]", covers=SA)
add("scatter of windows", lambda x, i, u: lax.scatter_add(x, i, u, lax.ScatterDimensionNumbers((1, 2), (), (0, 1))), "f32[7,11]",
    Arg("i32[5,2]", 0, 5), "f32[5,2,3]", covers=SA)

# Windows that are smaller than an axis which no index component names start at its beginning.
for mode in ("clip", "fill", "promise_in_bounds"):
    part = lax.GatherDimensionNumbers((0, 2), (1,), (1,))
    low, high = (0, 3) if mode == "promise_in_bounds" else (-3, 9)
    add(f"gather of the first rows, {mode}", lambda x, i, n=part, m=mode: lax.gather(x, i, n, (2, 1, 3), mode=m), "f32[5,7,6]", Arg("i32[B,1]", low, high), covers=G)
add("gather of the first rows of the batch", lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers((0, 1), (), (1,)), (1, 3)), "f32[B,7]", Arg("i32[T,1]", 0, 4), covers=G)
add("gather of complex windows filled", lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 3), mode="fill"),
    "c64[5,7]", Arg("i32[B,2]", -3, 9), covers=G)
ROW_STARTS = lax.ScatterDimensionNumbers((1, 2), (), (0,))
for op, f in {"scatter": lax.scatter, "scatter-add": lax.scatter_add, "scatter-mul": lax.scatter_mul, "scatter-min": lax.scatter_min, "scatter-max": lax.scatter_max}.items():
    for mode in ("clip", "drop"):
        add(f"{op} of the first columns, {mode}", lambda x, i, u, f=f, m=mode: f(x, i, u, ROW_STARTS, mode=m), "f32[9,7]", Arg("i32[3,1]", values=(5, 1, 99)), "f32[3,2,4]", covers=op)
add("gradient of a maximum scattered outside", lambda x, i: jax.grad(lambda x: (jax.ops.segment_max(x, i, 5, mode="drop") ** 2).sum(where=jnp.arange(5) < 2))(x), "f32[7]", Arg("i32[7]", values=(0, 1, 1, 0, 9, -3, 1)), covers="scatter-max")
