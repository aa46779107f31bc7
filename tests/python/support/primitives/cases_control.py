"""Programs in programs: jit, custom derivatives, remat, cond, while, scan."""

import jax
import jax.numpy as jnp
import numpy as np
from equinox import internal as eqxi
from equinox.internal import unvmap_all, unvmap_any, unvmap_max
from jax import lax
from jax.sharding import PartitionSpec

from .table import Arg, Table

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()
add = TABLE.add


@jax.jit
def doubled(x):
    return 2 * x


@jax.jit
def normalized(x):
    return doubled(x) - jnp.mean(doubled(x), axis=-1, keepdims=True)


add("jit", doubled, "f32[B,7]", covers="jit mul")
add("jit in jit, called twice", lambda x: normalized(x) + normalized(x * 3), "f32[B,7]", covers="jit reduce_sum")
add("jit with several results", jax.jit(lambda x, y: (x + y, x, {"z": x - y})), "f32[B,7]", "f32[B,7]", covers="jit add")
add("jit over constants", lambda x: jax.jit(lambda a: a @ jnp.arange(35.0).reshape(7, 5))(x), "f32[B,7]", covers="jit dot_general")
add("jit with unused inputs and results", lambda x, y: jax.jit(lambda a, b: (a + 1, b))(x, y)[0], "f32[B,7]", "f32[3]", covers="jit")


@jax.custom_jvp
def clipped(x):
    return jnp.minimum(x, 1.0)


clipped.defjvp(lambda primals, tangents: (clipped(*primals), tangents[0]))


@jax.custom_vjp
def rounded(x, scale):
    return jnp.round(x * scale) / scale


rounded.defvjp(lambda x, scale: (rounded(x, scale), None), lambda _, g: (g, None))

add("custom_jvp", clipped, "f32[B,7]", covers="custom_jvp_call min")
add("custom_vjp", lambda x: rounded(x, 4.0) + 1, "f32[B,7]", covers="custom_vjp_call round")
add("custom_jvp in jit", jax.jit(lambda x: clipped(x) * 2), "f32[B,7]", covers="custom_jvp_call jit")
add("gradient of a custom_jvp", lambda x: jax.grad(lambda v: jnp.sum(jax.nn.relu(v) ** 2))(x), "f32[B,7]", covers="max")
add("remat", lambda x: jax.checkpoint(lambda v: jnp.sin(jnp.cos(v)))(x), "f32[B,7]", covers="remat2 sin cos")
add("remat with constants", lambda x: jax.checkpoint(lambda v: v @ jnp.arange(35.0).reshape(7, 5))(x), "f32[B,7]", covers="remat2 dot_general")
add("gradient through remat", jax.grad(lambda x: jnp.sum(jax.checkpoint(lambda v: jnp.sin(v) ** 2)(x))), "f32[2,7]", covers="sin cos")
add("gradient of a small network", lambda w, x: jax.grad(lambda v: jnp.mean(jnp.tanh(x @ v) ** 2))(w), "f32[7,5]", "f32[B,7]", covers="dot_general tanh transpose")
add("hessian", lambda x: jax.hessian(lambda v: jnp.sum(v**3) * v[0])(x), "f32[5]", covers="mul")
add("jvp", lambda x, t: jax.jvp(lambda v: jnp.tanh(v) * v, (x,), (t,)), "f32[B,7]", "f32[B,7]", covers="tanh")

add("cond", lambda c, x: lax.cond(c, jnp.sin, jnp.cos, x), "bool[]", "f32[B,7]", covers="cond")
add("gradient of cond", lambda c, x: jax.grad(lambda v: lax.cond(c, jnp.sin, jnp.cos, v).sum())(x), "bool[]", "f32[B,7]", covers="cond")
add("cond taken", lambda x: lax.cond(jnp.sum(x * x) >= 0, lambda v: v + 1, lambda v: v - 1, x), "f32[B,7]", covers="cond")
add("cond not taken", lambda x: lax.cond(jnp.sum(x * x) < 0, lambda v: v + 1, lambda v: v - 1, x), "f32[B,7]", covers="cond")
add("cond over an outer value", lambda c, x, y: lax.cond(c, lambda: x + y, lambda: x), "bool[]", "f32[7]", "f32[7]", covers="cond")
add("cond with several results", lambda c, x: lax.cond(c, lambda v: (v, v.sum(), 1), lambda v: (-v, v[0], 2), x), "bool[]", "f32[7]", covers="cond")
add("cond in cond", lambda c, d, x: lax.cond(c, lambda v: lax.cond(d, jnp.sin, jnp.cos, v), jnp.tanh, x), "bool[]", "bool[]", "f32[7]", covers="cond")
add("cond by a number", lambda i, x: lax.cond(i, lambda v: v, lambda v: v * 2, x), Arg("i32[]", values=(5,)), "f32[7]", covers="cond")
add("cond with constants", lambda c, x: lax.cond(c, lambda v: v + np.arange(7, dtype=np.float32), lambda v: v, x), "bool[]", "f32[7]", covers="cond")
for chosen in (-1, 0, 1, 2, 9):
    add(f"switch {chosen}", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), Arg("i32[]", values=(chosen,)), "f32[7]", covers="cond")
add("switch among two", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos], x), Arg("i32[]", 0, 2), "f32[B,7]", covers="cond")

add("while", lambda x: lax.while_loop(lambda v: jnp.sum(v) < 100, lambda v: v * 2 + 1, x), "f32[7]", covers="while")
add("while of the batch", lambda x: lax.while_loop(lambda s: s[1] < 4, lambda s: (jnp.tanh(s[0]), s[1] + 1), (x, 0)), "f32[B,7]", covers="while")
add("while never entered", lambda x: lax.while_loop(lambda v: v[0] > 1e9, lambda v: v * 2, x), "f32[7]", covers="while")
add("while over outer values", lambda x, y, n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] @ y), (0, x))[1],
    "f32[3,3]", "f32[3,3]", Arg("i32[]", values=(4,)), covers="while")
add("fori_loop of fixed length", lambda x: lax.fori_loop(0, 5, lambda i, v: v + i * 0.5, x), "f32[B,7]", covers="scan")
add("fori_loop of runtime length", lambda x, n: lax.fori_loop(0, n, lambda i, v: v * 0.5 + i, x), "f32[B,7]", Arg("i32[]", values=(6,)), covers="while")
add("fori_loop that reads by index", lambda x, n: lax.fori_loop(0, n, lambda i, s: s + x[i], jnp.zeros(3)), "f32[7,3]", Arg("i32[]", values=(5,)), covers="while dynamic_slice")
add("fori_loop that writes by index", lambda x, n: lax.fori_loop(0, n, lambda i, s: s.at[i].set(i * 2.0), x), "f32[7]", Arg("i32[]", values=(5,)), covers="while scatter")
add("fori_loop over the batch", lambda x: lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i], jnp.zeros(3)), "f32[B,3]", covers="while")
add("while in while", lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + lax.while_loop(lambda t: t < s[0] * 3, lambda t: t + 2, 0)), (0, 0)),
    Arg("i32[]", values=(5,)), covers="while")
add("while with a cond", lambda n: lax.while_loop(lambda s: s[0] > 1, lambda s: (lax.cond(s[0] % 2 == 0, lambda v: v // 2, lambda v: 3 * v + 1, s[0]), s[1] + 1), (n, 0)),
    Arg("i32[]", values=(27,)), covers="while cond")
add("while carrying booleans", lambda x: lax.while_loop(lambda s: ~s[1], lambda s: (s[0] * 2, s[0] > 50), (x, False)), Arg("f32[]", values=(1.5,)), covers="while")
add("newton's method", lambda a: lax.while_loop(lambda s: jnp.abs(s * s - a) > 1e-3, lambda s: 0.5 * (s + a / s), a), Arg("f32[]", values=(7.0,)), covers="while")
add("vmap of a while", jax.vmap(lambda x: lax.while_loop(lambda v: v < 100, lambda v: v * 3, x)), Arg("f32[5]", 1, 40), covers="while")
add("vmap of a while with several carries", jax.vmap(lambda x, y: lax.while_loop(lambda s: s[0].sum() < 50, lambda s: (s[0] * 2 + s[1], s[1] + 1, ~s[2]), (x, y, True))),
    Arg("f32[5,2]", 1, 9), Arg("i32[5]", 0, 4), covers="while")


def running(carry, x):
    carry = 0.5 * carry + x
    return carry, carry * 2


add("scan", lambda x: lax.scan(running, jnp.zeros(3), x), "f32[7,3]", covers="scan")
add("scan of the batch", lambda x: lax.scan(running, jnp.zeros((x.shape[1], 3)), x), "f32[7,B,3]", covers="scan")
add("scan over time", lambda x: lax.scan(running, jnp.zeros(3), x), "f32[T,3]", covers="scan")
add("scan in reverse", lambda x: lax.scan(running, jnp.zeros(3), x, reverse=True), "f32[7,3]", covers="scan")
add("scan over time in reverse", lambda x: lax.scan(running, jnp.zeros(3), x, reverse=True), "f32[T,3]", covers="scan")
add("scan of several streams", lambda x, y: lax.scan(lambda c, s: (c + s[0].sum(), (s[0] * c, s[1] - 1)), 0.0, (x, y)), "f32[7,3]", "i32[7]", covers="scan")
add("scan with several carries", lambda x: lax.scan(lambda c, s: ((c[1], c[0] + s), c[0]), (jnp.zeros(3), jnp.ones(3)), x), "f32[7,3]", covers="scan")
add("scan over outer values", lambda x, w: lax.scan(lambda c, s: (jnp.tanh(c @ w + s), c), jnp.zeros(3), x), "f32[7,3]", "f32[3,3]", covers="scan dot_general")
add("scan without streams", lambda x: lax.scan(lambda c, _: (c * 0.5, c.sum()), x, None, length=5), "f32[B,3]", covers="scan")
add("scan without results", lambda x: lax.scan(lambda c, s: (c + s, None), jnp.zeros(3), x)[0], "f32[7,3]", covers="scan")
add("scan without a carry", lambda x: lax.scan(lambda c, s: (c, s * 2), None, x)[1], "f32[7,3]", covers="scan")
add("scan that only counts", lambda x: lax.scan(lambda c, _: (c + 1, c), 0, x), "f32[7,3]", covers="scan")
add("scan of length one", lambda x: lax.scan(running, jnp.zeros(3), x), "f32[1,3]", covers="scan")
add("scan of length zero", lambda x: lax.scan(running, jnp.ones(3), x), "f32[0,3]", covers="scan")
add("scan unrolled", lambda x: lax.scan(running, jnp.zeros(3), x, unroll=2), "f32[6,3]", covers="scan")
add("scan in scan", lambda x: lax.scan(lambda c, s: lax.scan(lambda d, t: (d + t, d * t), c, s), jnp.zeros(3), x), "f32[5,7,3]", covers="scan")
add("scan with a cond", lambda x: lax.scan(lambda c, s: (lax.cond(s > 0, lambda v: v + s, lambda v: v * 0.5, c), c), 0.0, x), "f32[11]", covers="scan cond")
add("scan of integers and booleans", lambda x, m: lax.scan(lambda c, s: (jnp.where(s[1], c + s[0], c), c > 3), 0, (x, m)), "i32[11]", "bool[11]", covers="scan")
add("scan of a stack of layers", lambda x, w: lax.scan(lambda h, p: (jnp.tanh(h @ p), None), x, w)[0], "f32[B,5]", "f32[4,5,5]", covers="scan dot_general")
add("gradient of a scan", jax.grad(lambda w: jnp.sum(lax.scan(lambda c, s: (jnp.tanh(c * w + s), c), jnp.zeros(3), jnp.ones((5, 3)))[1])), "f32[3]", covers="scan")
add("map", lambda x: lax.map(lambda v: jnp.sum(v) * v, x), "f32[7,3]", covers="scan")
add("associative_scan", lambda x: lax.associative_scan(jnp.multiply, x), Arg("f32[7]", 0.5, 1.5), covers="mul")
add("vmap of a scan", jax.vmap(lambda x: lax.scan(running, 0.0, x)), "f32[3,7]", covers="scan")
add("vmap with several axes", jax.vmap(lambda x, y: jnp.outer(x, y), in_axes=(0, 1), out_axes=2), "f32[3,5]", "f32[2,3]", covers="mul")
add("a pytree in and out", lambda x, y: {"b": [x + 1, (y,)], "a": {"c": x * y}}, "f32[B,3]", "f32[B,3]", covers="add mul")


def over_one_device(body):
    """Runs body over a mesh of one device, inside a program."""
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    return lambda x: jax.shard_map(body, mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i"), check_vma=False)(x * 2)


add("shard_map", over_one_device(lambda v: jnp.sin(v) + lax.axis_index("i")), "f32[6,3]", covers="shard_map axis_index")
add("shard_map with collectives", over_one_device(lambda v: v / lax.psum(v, "i") + lax.pmax(v, "i") - lax.all_gather(v, "i").sum(0)), "f32[6,3]", covers="shard_map psum all_gather")
add("shard_map with a permutation", over_one_device(lambda v: lax.ppermute(v, "i", [(0, 0)]) + lax.psum_scatter(v, "i", tiled=True)), "f32[6,3]", covers="shard_map ppermute reduce_scatter")
add("a shard that receives from none is zero", over_one_device(lambda v: lax.ppermute(v, "i", []) + 2 * v), "f32[6,3]", covers="ppermute")
add("platform_dependent", lambda x: lax.platform_dependent(x, cpu=lambda v: v + 1, tpu=lambda v: v - 1), "f32[7]", covers="platform_index")
add("platform_dependent without cpu", lambda x: lax.platform_dependent(x, tpu=lambda v: v + 1, default=jnp.sin), "f32[7]", covers="platform_index")
add("optimization_barrier", lambda x: lax.optimization_barrier((x, x + 1)), "f32[B,7]", covers="optimization_barrier")
add("device_put", lambda x: jax.device_put(x) * 2, "f32[B,7]", covers="device_put")
add("custom_linear_solve", lambda d, x: lax.custom_linear_solve(lambda v: d * v, x, lambda _, b: b / d, symmetric=True), Arg("f32[B,7]", 1, 2), "f32[B,7]", covers="custom_linear_solve")
add("conjugate gradients", lambda a, x: jax.scipy.sparse.linalg.cg(lambda v: a @ (a.T @ v) + 3 * v, x, maxiter=5)[0], "f32[7,7]", "f32[7]", covers="custom_linear_solve while",
    tolerance=1e-4, because="five steps of an iteration that magnifies rounding by the condition of the matrix")
add("unvmap", lambda x: (unvmap_any(x > 1), unvmap_all(x > -9), unvmap_max(x.astype(np.int32))), "f32[B,7]", covers="unvmap_any unvmap_all unvmap_max")
add("unvmap under vmap", jax.vmap(lambda x: jnp.where(unvmap_any(x > 1), x, -x)), "f32[5,7]", covers="unvmap_any")
add("checkpointed while", lambda x: eqxi.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 1.5), (0, x), kind="checkpointed", max_steps=16)[1],
    "f32[7]", covers="while select_if_vmap nonbatchable unvmap_any")
add("gradient of a checkpointed while", jax.grad(lambda x: eqxi.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x), kind="checkpointed", max_steps=8)[1].sum()),
    "f32[7]", covers="while")


def printing(x):
    jax.debug.print("x is {}", x)
    jax.debug.callback(lambda v: None, x)
    return x + 1


@jax.custom_batching.custom_vmap
def batched_by_hand(x):
    return jnp.sin(x)


batched_by_hand.def_vmap(lambda size, mapped, x: (batched_by_hand(x), mapped[0]))

add("prints are left out", printing, "f32[B,7]", covers="debug_print debug_callback add", max_nodes=1)
add("composite", lambda x: lax.composite(lambda v: jnp.sin(v) * 2, name="example.sine")(x), "f32[B,7]", covers="composite")
add("custom_vmap", lambda x: batched_by_hand(x), "f32[B,7]", covers="custom_vmap_call")
add("linear_call", lambda x: jax.custom_derivatives.linear_call(lambda r, v: r * v, lambda r, v: r * v, jnp.arange(7.0), x), "f32[7]", covers="linear_call")
add("collectives over an axis of vmap", lambda x: jax.vmap(lambda v: v / lax.psum(v, "i") + lax.pmax(v, "i") - lax.pmin(v, "i") + lax.pmean(v, "i"), axis_name="i")(x), Arg("f32[5,7]", 1, 2), covers="psum pmax pmin")
