"""`jax.lax`."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax.numpy as jnp
import numpy as np
from jax import lax
from primitives.table import Arg

from .rows import Rows

ROWS = Rows(lax)
X, POSITIVE, INTS, MASK = "f32[B,7]", Arg("f32[B,7]", 0.1, 4), "i32[B,7]", "bool[B,7]"
LOOSE = {"tolerance": 2e-5, "because": "JAX's own series differs by that much"}

ROWS.each("abs asinh atan bessel_i0e bessel_i1e cbrt ceil cos cosh erf erfc exp exp2 expm1 floor is_finite logistic neg round sign sin sinh square tan tanh stop_gradient", X)
ROWS.each("asin acos atanh erf_inv", Arg("f32[B,7]", -0.9, 0.9))
ROWS.each("acosh", Arg("f32[B,7]", 1.1, 4))
ROWS.each("log log1p rsqrt sqrt reciprocal", POSITIVE)
ROWS.each("digamma lgamma", POSITIVE, **LOOSE)
ROWS.each("bitwise_not clz population_count", INTS)
ROWS.each("conj imag real", "c64[B,7]")
ROWS.each("complex", X, X)
ROWS.each("add atan2 eq ge gt le lt max min mul ne nextafter sub", X, X)
ROWS.each("div rem", X, Arg("f32[B,7]", 0.3, 2))
ROWS.each("pow", POSITIVE, X)
ROWS.each("igamma igammac igamma_grad_a random_gamma_grad", POSITIVE, POSITIVE, **LOOSE)
ROWS.each("zeta", Arg("f32[B,7]", 1.5, 4), POSITIVE, **LOOSE)
ROWS.add("polygamma", lambda x: lax.polygamma(jnp.full_like(x, 2), x), POSITIVE, **LOOSE)
ROWS.add("betainc", lax.betainc, POSITIVE, POSITIVE, Arg("f32[B,7]", 0, 1), **LOOSE)
ROWS.each("bitwise_and bitwise_or bitwise_xor", INTS, INTS)
ROWS.each("shift_left shift_right_arithmetic shift_right_logical", INTS, Arg("i32[B,7]", 0, 9))
ROWS.each("mulhi", Arg("i32[B,7]", -(2**31), 2**31 - 1), Arg("i32[B,7]", -(2**31), 2**31 - 1))
ROWS.add("integer_pow", lambda x: lax.integer_pow(x, -3), POSITIVE)
ROWS.add("clamp", lambda x: lax.clamp(-0.5, x, 0.5), X)
ROWS.add("bitcast_convert_type", lambda x: lax.bitcast_convert_type(x, jnp.int32), X)
ROWS.add("convert_element_type", lambda x: lax.convert_element_type(x, jnp.bfloat16), X)
ROWS.add("reduce_precision", lambda x: lax.reduce_precision(x, 5, 7), X)
ROWS.each("select", MASK, X, X)
ROWS.add("select_n", lax.select_n, Arg("i32[B,7]", 0, 3), X, X, X)

ROWS.add("argmax", lambda x: lax.argmax(x, 1, jnp.int32), X)
ROWS.add("argmin", lambda x: lax.argmin(x, 0, jnp.int32), X)
for name in "reduce_max reduce_min reduce_prod reduce_sum".split():
    ROWS.add(name, lambda x, f=getattr(lax, name): f(x, (1,)), X)
for name in "reduce_and reduce_or".split():
    ROWS.add(name, lambda x, f=getattr(lax, name): f(x, (1,)), MASK)
ROWS.add("reduce_xor", lambda x: lax.reduce_xor(x, (0,)), INTS)
ROWS.add("reduce", lambda x: lax.reduce(x, 1.0, lambda a, b: a * b + a + b, (1,)), Arg("f32[B,7]", 0, 0.5))
for name in "cumlogsumexp cummax cummin cumprod cumsum".split():
    ROWS.add(name, lambda x, f=getattr(lax, name): f(x, 1, reverse=True), X)
ROWS.add("reduce_window", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3), (1, 2), ((0, 0), (1, 1))), X)
ROWS.add("reduce_window max", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 2), "SAME"), X)
ROWS.add("associative_scan", lambda x: lax.associative_scan(jnp.multiply, x, axis=1), X)
ROWS.add("sort", lambda x: lax.sort(x, dimension=0), X)
ROWS.add("sort_key_val", lambda k, v: lax.sort_key_val(k, v), INTS, X)
ROWS.add("top_k", lambda x: lax.top_k(x, 3), X)
ROWS.add("approx_max_k", lambda x: lax.approx_max_k(x, 3), X)
ROWS.add("approx_min_k", lambda x: lax.approx_min_k(x, 3), X)

ROWS.add("broadcast", lambda x: lax.broadcast(x, (2, 3)), X)
ROWS.add("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (5, x.shape[0], 7), (1, 2)), X)
ROWS.add("broadcast_like", lambda x, y: lax.broadcast_like(x, y), "f32[]", X)
ROWS.add("broadcast_to_rank", lambda x: lax.broadcast_to_rank(x, 3), X)
ROWS.add("broadcasted_iota", lambda x: lax.broadcasted_iota(jnp.int32, x.shape, 1), X)
ROWS.add("iota", lambda x: lax.iota(jnp.float32, 7) * x, X)
ROWS.add("collapse", lambda x: lax.collapse(x, 0, 2), "f32[B,5,7]")
ROWS.add("concatenate", lambda x, y: lax.concatenate([x, y], 1), X, X)
ROWS.add("expand_dims", lambda x: lax.expand_dims(x, (1,)), X)
ROWS.add("full", lambda x: lax.full((x.shape[0], 7), 2.0) * x, X)
ROWS.add("empty", lambda x: lax.empty((5, 7), jnp.float32) * 0 + x, "f32[5,7]")
ROWS.add("full_like", lambda x: lax.full_like(x, 2.0), X)
ROWS.add("pad", lambda x: lax.pad(x, 1.0, ((0, 0, 0), (2, -1, 1))), X)
ROWS.add("reshape", lambda x: lax.reshape(x, (7, x.shape[0])), X)
ROWS.add("rev", lambda x: lax.rev(x, (0, 1)), X)
ROWS.add("slice", lambda x: lax.slice(x, (1, 1), (4, 7), (2, 3)), "f32[5,7]")
ROWS.add("slice_in_dim", lambda x: lax.slice_in_dim(x, 1, 6, 2, axis=1), X)
ROWS.add("index_in_dim", lambda x: lax.index_in_dim(x, -2, 1), X)
ROWS.add("index_take", lambda x, i: lax.index_take(x, (i,), (1,)), X, Arg("i32[2]", 0, 7))
ROWS.add("split", lambda x: lax.split(x, (2, 5), 1), X)
ROWS.add("squeeze", lambda x: lax.squeeze(x, (1,)), "f32[B,1,7]")
ROWS.add("stack", lambda x, y: lax.stack([x, y], 1), X, X)
ROWS.add("unstack", lambda x: lax.unstack(x, 1), X)
ROWS.add("tile", lambda x: lax.tile(x, (2, 3)), X)
ROWS.add("transpose", lambda x: lax.transpose(x, (2, 0, 1)), "f32[B,5,7]")
ROWS.add("dynamic_slice", lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3)), "f32[5,7]", Arg("i32[]", -2, 9), Arg("i32[]", -2, 9))
ROWS.add("dynamic_slice_in_dim", lambda x, i: lax.dynamic_slice_in_dim(x, i, 3, 1), X, Arg("i32[]", -2, 9))
ROWS.add("dynamic_index_in_dim", lambda x, i: lax.dynamic_index_in_dim(x, i, 1, False), X, Arg("i32[]", -2, 9))
ROWS.add("dynamic_update_slice", lambda x, u, i: lax.dynamic_update_slice(x, u, (0, i)), X, "f32[1,3]", Arg("i32[]", -2, 9))
ROWS.add("dynamic_update_slice_in_dim", lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 1), X, "f32[1,3]", Arg("i32[]", -2, 9))
ROWS.add("dynamic_update_index_in_dim", lambda x, u, i: lax.dynamic_update_index_in_dim(x, u, i, 1), X, "f32[1]", Arg("i32[]", -2, 9))

GATHER = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
SCATTER = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
ROWS.add("gather", lambda x, i: lax.gather(x, i, GATHER, (1, 7)), "f32[5,7]", Arg("i32[B,1]", 0, 5))
for name in "scatter scatter_add scatter_max scatter_min scatter_mul scatter_sub".split():
    ROWS.add(name, lambda x, u, i=np.array([[1], [3]]), f=getattr(lax, name): f(x, i, u, SCATTER), "f32[5,7]", "f32[2,7]")
ROWS.add("scatter_apply", lambda x, i: lax.scatter_apply(x, i, jnp.sin, SCATTER, update_shape=(2, 7)), "f32[5,7]", Arg("i32[2,1]", values=(3, 0)))

ROWS.add("fft", lambda x: lax.fft(x, "FFT", (12,)), "c64[B,12]", **LOOSE)
ROWS.add("dot", lax.dot, X, "f32[7,5]")
ROWS.add("batch_matmul", lax.batch_matmul, "f32[B,5,7]", "f32[B,7,2]")
ROWS.add("dot_general", lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))), "f32[B,5,7]", "f32[B,7,2]")
ROWS.add("ragged_dot", lax.ragged_dot, "f32[11,5]", "f32[3,5,7]", Arg("i32[3]", values=(4, 2, 5)))
ROWS.add("ragged_dot_general", lambda x, y, g: lax.ragged_dot_general(x, y, g, lax.RaggedDotDimensionNumbers(dot_dimension_numbers=(((1,), (1,)), ((), ())), lhs_ragged_dimensions=[0], rhs_group_dimensions=[0])), "f32[11,5]", "f32[3,5,7]", Arg("i32[3]", values=(4, 2, 5)))
ROWS.add("conv", lambda x, k: lax.conv(x, k, (2, 1), "SAME"), "f32[B,3,7,5]", "f32[2,3,3,3]")
ROWS.add("conv_general_dilated", lambda x, k: lax.conv_general_dilated(x, k, (1, 2), "SAME", rhs_dilation=(2, 1), dimension_numbers=("NHWC", "HWIO", "NHWC")), "f32[B,7,5,3]", "f32[3,3,3,2]")
ROWS.add("conv_general_dilated_local", lambda x, k: lax.conv_general_dilated_local(x, k, (1, 1), "VALID", (3, 2)), "f32[B,3,7,5]", "f32[2,18,5,4]")
ROWS.add("conv_general_dilated_patches", lambda x: lax.conv_general_dilated_patches(x, (3, 2), (1, 1), "SAME"), "f32[B,3,7,5]")
ROWS.add("conv_transpose", lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"), "f32[B,7,5,3]", "f32[3,3,3,2]")
ROWS.add("conv_with_general_padding", lambda x, k: lax.conv_with_general_padding(x, k, (2, 1), ((1, 2), (0, 1)), (1, 2), (1, 1)), "f32[B,3,7,5]", "f32[2,3,3,3]")

ROWS.add("cond", lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), "bool[]", X)
ROWS.add("switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), Arg("i32[]", -1, 4), X)
ROWS.add("fori_loop", lambda n, x: lax.fori_loop(0, n, lambda i, v: v * 0.5 + i, x), Arg("i32[]", 0, 5), X)
ROWS.add("while_loop", lambda x: lax.while_loop(lambda v: jnp.max(v) < 9, lambda v: v * 1.5 + 0.1, x), Arg("f32[B,7]", 0.5, 1))
ROWS.add("scan", lambda x: lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(7), x), X)
ROWS.add("map", lambda x: lax.map(lambda v: jnp.sort(v) * 2, x), X)
ROWS.add("custom_root", lambda x: lax.custom_root(lambda v: v * v - x, jnp.ones_like(x), lambda f, g: lax.fori_loop(0, 20, lambda i, v: v - f(v) / (2 * v), g), lambda g, y: y / g(jnp.ones_like(y))), POSITIVE)
ROWS.add("custom_linear_solve", lambda a, b: lax.custom_linear_solve(lambda v: (a @ a.T + 3 * jnp.eye(5)) @ v, b, lambda f, v: jnp.linalg.solve(a @ a.T + 3 * jnp.eye(5), v), symmetric=True), "f32[5,5]", "f32[5]", tolerance=2e-4, because="a linear system")
ROWS.add("composite", lambda x: lax.composite(lambda v, *, k: v * k + 1, "my.scale")(x, k=2.0), X)
ROWS.add("optimization_barrier", lambda x: lax.optimization_barrier((x, x * 2)), X)
ROWS.add("platform_dependent", lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), X)
ROWS.add("rng_uniform", lambda x: lax.rng_uniform(0.0, 1.0, (5, 7)) * 0 + x, "f32[5,7]")
ROWS.add("rng_bit_generator", lambda k: lax.rng_bit_generator(k, (5, 7)), Arg("u32[4]", 0, 999))
ROWS.add("shape_as_value", lambda x: lax.shape_as_value(x.shape), X)
ROWS.add("dce_sink", lambda x: (lax.dce_sink(x * 2), x)[1], X)

ROWS.leave_out("needs several devices", "all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin ppermute precv psend pshuffle psum psum_scatter pswapaxes ragged_all_to_all with_sharding_constraint")
ROWS.leave_out("gives no array of its inputs", "after_all broadcast_shapes ConvGeneralDilatedDimensionNumbers DotDimensionNumbers PrecisionLike create_token conv_dimension_numbers conv_general_permutations conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple dtype padtype_to_pads reduce_window_shape_tuple stage")
ROWS.leave_out("has a test of its own with the primitives", "scaled_dot")
