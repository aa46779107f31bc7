"""dot_general, einsum and convolutions in all their layouts."""

import jax
import jax.numpy as jnp
from jax import lax

from .table import Arg, Table

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()
add = TABLE.add


def dot(contract, batch=((), ()), **options):
    return lambda x, y: lax.dot_general(x, y, (contract, batch), **options)


add("vector by vector", jnp.dot, "f32[31]", "f32[31]", covers="dot_general")
add("matrix by vector", jnp.dot, "f32[B,31]", "f32[31]", covers="dot_general")
add("transposed matrix by vector", lambda x, v: x.T @ v, "f32[5,7]", "f32[5]", covers="dot_general", max_nodes=1)
add("transposed matrices by vector", lambda x, v: x.transpose(0, 2, 1) @ v, "f32[B,5,7]", "f32[5]", covers="dot_general", max_nodes=1)
add("shuffled tensor by vector", lambda x, v: x.transpose(2, 0, 1) @ v, "f32[2,5,7]", "f32[5]", covers="dot_general")
add("first axis by vector", dot(((0,), (0,))), "f32[7,3]", "f32[7]", covers="dot_general")
add("first axis of three by vector", dot(((0,), (0,))), "f32[7,3,2]", "f32[7]", covers="dot_general")
add("vector by transposed matrix", lambda v, x: v @ x.T, "f32[7]", "f32[5,7]", covers="dot_general")
add("vector by matrix", jnp.dot, "f32[7]", "f32[7,5]", covers="dot_general")
add("matrix by matrix", jnp.matmul, "f32[B,7]", "f32[7,5]", covers="dot_general", max_nodes=1)
add("matmul by a constant", lambda x: x @ jnp.arange(35.0).reshape(7, 5), "f32[B,7]", covers="dot_general")
add("first operand transposed", dot(((0,), (0,))), "f32[7,3]", "f32[7,5]", covers="dot_general")
add("second operand transposed", dot(((1,), (1,))), "f32[B,7]", "f32[5,7]", covers="dot_general")
add("both transposed", dot(((0,), (1,))), "f32[7,3]", "f32[5,7]", covers="dot_general")
add("batched matmul", jnp.matmul, "f32[B,3,7]", "f32[B,7,5]", covers="dot_general", max_nodes=1)
add("batched twice", jnp.matmul, "f32[B,2,T,7]", "f32[B,2,7,5]", covers="dot_general", max_nodes=1)
add("matmul broadcasts the matrix", jnp.matmul, "f32[B,T,7]", "f32[7,5]", covers="dot_general", max_nodes=1)
add("matmul broadcasts the batch", jnp.matmul, "f32[2,3,7]", "f32[2,7,5]", covers="dot_general")
add("attention scores", lambda q, k: jnp.einsum("bthd,bshd->bhts", q, k), "f32[B,T,2,5]", "f32[B,T,2,5]", covers="dot_general")
add("attention values", lambda a, v: jnp.einsum("bhts,bshd->bthd", a, v), "f32[B,2,T,T]", "f32[B,T,2,5]", covers="dot_general")
add("batch dims in the middle", dot(((2,), (0,)), ((1,), (1,))), "f32[2,3,7]", "f32[7,3,5]", covers="dot_general")
add("batch dims crossed", dot(((3,), (1,)), ((0, 2), (2, 0))), "f32[2,5,3,7]", "f32[3,7,2,11]", covers="dot_general")
add("two contracted dims", dot(((1, 2), (0, 1))), "f32[B,3,5]", "f32[3,5,7]", covers="dot_general")
add("two contracted dims crossed", dot(((2, 1), (0, 1))), "f32[B,3,5]", "f32[5,3,7]", covers="dot_general")
add("contracted dims apart", dot(((0, 2), (1, 0))), "f32[3,2,5]", "f32[5,3,7]", covers="dot_general")
add("three contracted dims", dot(((0, 1, 2), (0, 1, 2))), "f32[3,2,5]", "f32[3,2,5]", covers="dot_general")
add("contraction and batch and free", dot(((1, 3), (0, 2)), ((2,), (3,))), "f32[2,3,5,7]", "f32[3,11,7,5]", covers="dot_general")
add("no contraction: outer", dot(((), ())), "f32[3]", "f32[5]", covers="dot_general")
add("no contraction: outer of matrices", dot(((), ())), "f32[B,3]", "f32[5,2]", covers="dot_general")
add("no contraction but batch", dot(((), ()), ((0,), (0,))), "f32[B,3]", "f32[B,5]", covers="dot_general")
add("only batch", dot(((), ()), ((0, 1), (0, 1))), "f32[B,3]", "f32[B,3]", covers="dot_general")
add("batch with vectors", dot(((1,), (1,)), ((0,), (0,))), "f32[B,7]", "f32[B,7]", covers="dot_general")
add("batch with a vector and a matrix", dot(((1,), (1,)), ((0,), (0,))), "f32[B,7]", "f32[B,7,5]", covers="dot_general")
add("two free dims each", dot(((2,), (0,))), "f32[B,3,7]", "f32[7,5,2]", covers="dot_general")
add("head projection", lambda x, w: jnp.einsum("btf,fhd->bthd", x, w), "f32[B,T,15]", "f32[15,3,5]", covers="dot_general")
add("head merging", lambda x, w: jnp.einsum("bthd,hdf->btf", x, w), "f32[B,T,3,5]", "f32[3,5,7]", covers="dot_general")
add("contract over the batch", dot(((0,), (0,))), "f32[B,3]", "f32[B,5]", covers="dot_general")
add("einsum trace", lambda x: jnp.einsum("bii->b", x), "f32[B,5,5]", covers="reduce_sum")
add("einsum of three", lambda x, y, z: jnp.einsum("bi,ij,bj->b", x, y, z), "f32[B,5]", "f32[5,7]", "f32[B,7]", covers="dot_general")
add("einsum outer and sum", lambda x, y: jnp.einsum("bi,bj->ij", x, y), "f32[B,5]", "f32[B,7]", covers="dot_general")
add("tensordot", lambda x, y: jnp.tensordot(x, y, axes=((0, 2), (1, 0))), "f32[3,2,5]", "f32[5,3,7]", covers="dot_general")
add("vdot", jnp.vdot, "f32[3,5]", "f32[3,5]", covers="dot_general")
add("matmul f16", jnp.matmul, "f16[3,7]", "f16[7,5]", covers="dot_general")
add("matmul bf16", jnp.matmul, "bf16[3,7]", "bf16[7,5]", covers="dot_general")
add("matmul f64", jnp.matmul, "f64[3,7]", "f64[7,5]", covers="dot_general", x64=True)
add("matmul i32", jnp.matmul, "i32[3,7]", "i32[7,5]", covers="dot_general")
add("matmul u8", jnp.matmul, "u8[3,7]", Arg("u8[7,5]", 0, 9), covers="dot_general")
add("matmul i8 summed in i32", dot(((1,), (0,)), preferred_element_type=jnp.int32), Arg("i8[3,31]", -128, 128),
    Arg("i8[31,5]", -128, 128), covers="dot_general")
add("matmul f16 summed in f32", dot(((1,), (0,)), preferred_element_type=jnp.float32), "f16[3,31]", "f16[31,5]", covers="dot_general")
add("matmul bf16 summed in f32", dot(((1,), (0,)), preferred_element_type=jnp.float32), "bf16[3,31]", "bf16[31,5]", covers="dot_general")
add("matmul of nothing", jnp.matmul, "f32[3,0]", "f32[0,5]", covers="dot_general")
add("dense layer", lambda x, w, b: jax.nn.relu(x @ w + b), "f32[B,7]", "f32[7,5]", "f32[5]", covers="dot_general add max")


def conv(strides=(1, 1), padding="SAME", numbers=("NHWC", "HWIO", "NHWC"), **options):
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers, **options)


NCHW = ("NCHW", "OIHW", "NCHW")
C = "conv_general_dilated"
add("conv NCHW", conv(numbers=NCHW), "f32[B,3,7,11]", "f32[5,3,3,3]", covers=C, max_nodes=1)
add("conv NHWC", conv(), "f32[B,7,11,3]", "f32[3,3,3,5]", covers=C)
add("conv VALID", conv(padding="VALID", numbers=NCHW), "f32[B,3,7,11]", "f32[5,3,3,2]", covers=C, max_nodes=1)
add("conv with strides", conv((2, 3), numbers=NCHW), "f32[B,3,7,11]", "f32[5,3,3,3]", covers=C, max_nodes=1)
add("conv NHWC with strides", conv((2, 2)), "f32[B,11,13,3]", "f32[3,3,3,5]", covers=C)
add("conv with explicit padding", conv(padding=((1, 2), (0, 3)), numbers=NCHW), "f32[B,3,7,11]", "f32[5,3,3,3]", covers=C)
add("conv with negative padding", conv(padding=((-1, 2), (-2, -1)), numbers=NCHW), "f32[2,3,7,11]", "f32[5,3,3,3]", covers=C)
add("conv dilated kernel", conv(rhs_dilation=(2, 3), numbers=NCHW), "f32[B,3,11,13]", "f32[5,3,3,3]", covers=C, max_nodes=1)
add("conv dilated NHWC", conv(rhs_dilation=(2, 2), padding="VALID"), "f32[B,11,13,3]", "f32[3,3,3,5]", covers=C)
add("conv dilated input", conv(lhs_dilation=(2, 2), padding=((1, 1), (1, 1)), numbers=NCHW), "f32[2,3,5,7]", "f32[5,3,3,3]", covers=C)
add("conv dilated input and kernel", conv(lhs_dilation=(2, 3), rhs_dilation=(2, 1), padding=((2, 1), (0, 2)), numbers=NCHW),
    "f32[2,3,5,7]", "f32[5,3,3,3]", covers=C)
add("conv dilated input with strides", conv((3, 2), lhs_dilation=(2, 3), padding=((2, 1), (0, 2)), numbers=NCHW),
    "f32[2,3,5,7]", "f32[5,3,3,3]", covers=C)
add("conv in groups", conv(numbers=NCHW, feature_group_count=3), "f32[B,6,7,11]", "f32[9,2,3,3]", covers=C, max_nodes=1)
add("conv depthwise NHWC", conv(feature_group_count=6), "f32[B,7,11,6]", "f32[3,3,1,12]", covers=C)
add("conv in batch groups", conv(numbers=NCHW, batch_group_count=2), "f32[6,3,7,11]", "f32[10,3,3,3]", covers=C)
add("conv 1d", conv((2,), numbers=("NWC", "WIO", "NWC")), "f32[B,31,3]", "f32[3,3,5]", covers=C)
add("conv 1d causal", conv((1,), ((2, 0),), ("NWC", "WIO", "NWC")), "f32[B,T,3]", "f32[3,3,5]", covers=C)
add("conv 3d", conv((1, 2, 1), numbers=("NCDHW", "OIDHW", "NCDHW")), "f32[2,3,5,7,5]", "f32[5,3,2,3,3]", covers=C)
add("conv 3d NDHWC", conv((1, 1, 1), "VALID", ("NDHWC", "DHWIO", "NDHWC")), "f32[2,5,7,5,3]", "f32[2,3,3,3,5]", covers=C)
add("conv without space", conv((), (), ("NC", "OI", "NC")), "f32[2,3]", "f32[5,3]", covers=C)
add("conv of odd layouts", conv(numbers=("CHWN", "OHWI", "HNWC")), "f32[3,7,11,2]", "f32[5,3,3,3]", covers=C)
add("conv 1x1", conv(padding="VALID"), "f32[B,7,11,3]", "f32[1,1,3,5]", covers=C)
add("conv of any image size", conv(numbers=NCHW, padding=((1, 1), (1, 1))), "f32[B,3,T+2,7]", "f32[5,3,3,3]", covers=C)
add("conv with strides of any image size", conv((2, 2)), "f32[B,T+2,7,3]", "f32[3,3,3,5]", covers=C, max_nodes=4)
add("conv dilated with strides of any image size", conv((3, 2), rhs_dilation=(2, 1)), "f32[2,T+2,B+1,3]", "f32[2,3,3,5]", covers=C)
add("conv bf16 with strides of any image size", conv((2, 2)), "bf16[B,T+2,7,3]", "bf16[3,3,3,5]", covers=C)
add("conv i32 with strides of any image size", conv((2, 2)), "i32[B,T+2,7,3]", "i32[3,3,3,5]", covers=C)
add("conv of a kernel of any size", conv(padding="VALID", numbers=NCHW), "f32[2,4,11,13]", "f32[6,4,T,3]", covers=C, max_nodes=1)
add("conv gradients of any image size", lambda x, w: jax.grad(lambda *a: jnp.sum(conv((2, 2), ((0, 1), (1, 1)))(*a) ** 2), (0, 1))(x, w), "f32[B,2*T+2,6,3]", "f32[3,3,3,5]", covers=C)
add("conv gradients of any image size with stride 1", lambda x, w: jax.grad(lambda *a: jnp.sum(conv()(*a) ** 2), (0, 1))(x, w), "f32[2,T+3,5,3]", "f32[3,3,3,5]", covers=C)
add("vmap of conv over its kernels", lambda x, w: jax.vmap(conv())(x, w), "f32[B,2,5,7,3]", "f32[B,3,3,3,4]", covers=C)
add("vmap of conv over kernels alone", lambda x, w: jax.vmap(conv((2, 1), ((0, 1), (1, 1))), (None, 0))(x, w), "f32[2,T+2,7,3]", "f32[B,3,3,3,4]", covers=C)
add("gradients of each example of a conv", lambda x, w: jax.vmap(jax.grad(lambda w, x: jnp.sum(conv()(x[None], w) ** 2)), (None, 0))(w, x), "f32[B,5,7,3]", "f32[3,3,3,4]", covers=C)
add("conv transposed SAME", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), "f32[B,5,7,3]", "f32[3,3,3,5]", covers=C)
add("conv transposed VALID", lambda x, w: lax.conv_transpose(x, w, (2, 3), "VALID"), "f32[B,5,7,3]", "f32[3,3,3,5]", covers=C)
add("conv transposed by its kernel", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", transpose_kernel=True),
    "f32[2,5,7,3]", "f32[3,3,5,3]", covers=C)
add("conv transposed dilated", lambda x, w: lax.conv_transpose(x, w, (2, 2), "VALID", rhs_dilation=(2, 1)),
    "f32[2,5,7,3]", "f32[3,3,3,5]", covers=C)
add("conv transposed 1d", lambda x, w: lax.conv_transpose(x, w, (3,), "SAME"), "f32[B,5,3]", "f32[4,3,5]", covers=C)
add("conv gradient to the input", lambda g, w: jax.vjp(lambda x: conv((2, 2))(x, w), jnp.zeros((2, 8, 10, 3)))[1](g)[0],
    "f32[2,4,5,5]", "f32[3,3,3,5]", covers=C)
add("conv gradient to the kernel", lambda x, g: jax.vjp(lambda w: conv((2, 2))(x, w), jnp.zeros((3, 3, 3, 5)))[1](g)[0],
    "f32[2,8,10,3]", "f32[2,4,5,5]", covers=C)
add("conv f16", conv(numbers=NCHW), "f16[2,3,5,7]", "f16[5,3,3,3]", covers=C)
add("conv f16 summed in f32", conv(numbers=NCHW, preferred_element_type=jnp.float32), "f16[2,3,5,7]", "f16[5,3,3,3]", covers=C)
add("conv with a bias", lambda x, w, b: conv()(x, w) + b, "f32[B,7,11,3]", "f32[3,3,3,5]", "f32[5]", covers=C + " add")

GROUPS = Arg("i32[3]", values=(2, 0, 3))
RAGGED = lax.RaggedDotDimensionNumbers
add("ragged_dot", lax.ragged_dot, "f32[7,4]", "f32[3,4,5]", GROUPS, covers="ragged_dot_general")
add("ragged_dot of the batch", lax.ragged_dot, "f32[B,4]", "f32[3,4,5]", Arg("i32[3]", values=(1, 0, 0)), covers="ragged_dot_general")
add("ragged_dot bf16", lambda x, y, g: lax.ragged_dot(x, y, g, preferred_element_type=jnp.float32), "f16[7,4]", "f16[3,4,5]", GROUPS, covers="ragged_dot_general")
add("ragged_dot_general of contracted groups", lambda x, y, g: lax.ragged_dot_general(x, y, g, RAGGED((((0,), (0,)), ((), ())), (0,), ())),
    "f32[7,4]", "f32[7,5]", GROUPS, covers="ragged_dot_general")
add("ragged_dot_general of a batch of groups", lambda x, y, g: lax.ragged_dot_general(x, y, g, RAGGED((((2,), (2,)), ((0,), (0,))), (1,), (1,))),
    "f32[2,7,4]", "f32[2,3,4,5]", Arg("i32[2,3]", values=(2, 0, 3, 1, 4, 2)), covers="ragged_dot_general")
add("ragged_dot_general of ragged batches", lambda x, y, g: lax.ragged_dot_general(x, y, g, RAGGED((((2,), (1,)), ((0,), (0,))), (0,), ())),
    "f32[5,2,4]", "f32[5,4,3]", GROUPS, covers="ragged_dot_general")
add("scaled_dot", lambda a, b, s, t: lax.scaled_dot(a.astype(jnp.float8_e4m3fn), b.astype(jnp.float8_e4m3fn), lhs_scale=s, rhs_scale=t, preferred_element_type=jnp.float32),
    "f32[5,14]", "f32[14,3]", "bf16[5,7]", "bf16[2,3]", covers="scaled_dot", tolerance=2e-2, because="it computes in bf16")
