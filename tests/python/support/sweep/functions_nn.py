"""`jax.nn`."""

# One line per row.
# fmt: off
# ruff: noqa: B008

import jax.numpy as jnp
from jax import nn
from primitives.table import Arg

from .rows import Rows

ROWS = Rows(nn)
X, MASK = "f32[B,7]", "bool[B,7]"

ROWS.each("celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid log_softmax logmeanexp logsumexp mish relu relu6 selu sigmoid silu soft_sign softmax softplus sparse_plus sparse_sigmoid squareplus standardize swish tanh", X)
ROWS.each("glu", "f32[B,8]")
ROWS.each("log1mexp", Arg("f32[B,7]", 0.1, 3))
for name in "gelu silu softmax log_softmax sigmoid softplus standardize logsumexp relu tanh".split():
    ROWS.add(f"{name} bf16", getattr(nn, name), "bf16[B,7]")
    ROWS.add(f"{name} f16", getattr(nn, name), "f16[B,7]")
ROWS.add("gelu exact", lambda x: nn.gelu(x, approximate=False), X)
ROWS.add("softmax where", lambda x, m: nn.softmax(x, axis=0, where=m.at[0].set(True)), X, MASK)
ROWS.add("one_hot", lambda i: (nn.one_hot(i, 5), nn.one_hot(i, 5, axis=0, dtype=jnp.int8)), Arg("i32[B,3]", -1, 7))
ROWS.add("dot_product_attention", nn.dot_product_attention, "f32[B,T,4,8]", "f32[B,T,4,8]", "f32[B,T,4,8]")
ROWS.add("dot_product_attention causal", lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True), "f32[B,5,4,8]", "f32[B,5,2,8]", "f32[B,5,2,8]")
ROWS.add("dot_product_attention masked", lambda q, k, v, b, m: nn.dot_product_attention(q, k, v, bias=b, mask=m.at[..., 0].set(True), scale=0.3), "f32[B,5,4,8]", "f32[B,7,4,8]", "f32[B,7,4,8]", "f32[1,4,5,7]", "bool[B,1,1,7]")
ROWS.add("dot_product_attention lengths", lambda q, k, v, a, b: nn.dot_product_attention(q, k, v, query_seq_lengths=a, key_value_seq_lengths=b), "f32[B,5,4,8]", "f32[B,7,4,8]", "f32[B,7,4,8]", Arg("i32[B]", 1, 5), Arg("i32[B]", 1, 7))
ROWS.add("dot_product_attention window", lambda q, k, v: nn.dot_product_attention(q, k, v, local_window_size=(2, 1)), "f32[B,7,4,8]", "f32[B,7,4,8]", "f32[B,7,4,8]")

ROWS.leave_out("JAX has no kernel for the CPU", "scaled_matmul scaled_dot_general get_scaled_dot_general_config")
