"""Pools with the padding of SAME and SAME_LOWER: one operator, whatever sizes are known, and JAX's results."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sardonyx
from jax import lax
from judge import outputs

WINDOWS = [((2, 2), (2, 2)), ((3, 3), (2, 2)), ((3, 5), (1, 4))]
POOLS = {
    "max": lambda x, w, s, p: nn.max_pool(x, w, s, p),
    "average": lambda x, w, s, p: nn.avg_pool(x, w, s, p),
    "average of what is there": lambda x, w, s, p: nn.avg_pool(x, w, s, p, count_include_pad=False),
}
SIZES = ((2, 7, 11, 3), (1, 5, 8, 3), (3, 1, 1, 3), (2, 6, 3, 3))
OPEN = "b, h, w, 3"


def exported(f, shape, sizes):
    """The operators of f exported for `shape`. Checks that results equal JAX's at all sizes."""
    shape = jax.export.symbolic_shape(shape) if isinstance(shape, str) else shape
    model = sardonyx.to_onnx(f, [jax.ShapeDtypeStruct(shape, jnp.float32)], return_mode="proto")
    for size in sizes:
        x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
        want = np.asarray(jax.jit(f)(x))
        for optimize in (False, True):
            found = outputs(model, [x], optimize)[0]
            assert found.shape == want.shape
            np.testing.assert_allclose(found, want, rtol=4e-6, atol=4e-6)
    return [n.op_type for n in model.graph.node]


@pytest.mark.parametrize("padding", ["SAME", "SAME_LOWER"])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(("window", "strides"), WINDOWS)
def test_same(pool, window, strides, padding):
    def f(x):
        return POOLS[pool](x, window, strides, padding)

    operator = "MaxPool" if pool == "max" else "AveragePool"
    # An AveragePool that counts padding at an end is wrong in onnxruntime 1.23.
    at_end = pool == "average" and padding == "SAME"
    assert exported(f, OPEN, SIZES) == ["Transpose", "Conv" if at_end else operator, "Transpose"]
    fixed = exported(f, SIZES[0], SIZES[:1])
    assert fixed in [["Transpose", *pad, operator, "Transpose"] for pad in [[], ["Pad"]][: 1 + (pool == "average")]]


@pytest.mark.parametrize("pool", POOLS)
def test_a_stride_beyond_the_window(pool):
    """onnxruntime refuses auto_pad for some of these sizes (3, 6, 9), so windows of open sizes are
    decomposed."""
    exported(lambda x: POOLS[pool](x, (3, 2), (1, 3), "SAME"), OPEN, SIZES)


@pytest.mark.parametrize("padding", ["SAME", "SAME_LOWER"])
def test_convolutions(padding):
    kernel = np.random.default_rng(1).standard_normal((5, 3, 4, 3)).astype(np.float32)

    def f(x):
        return lax.conv_general_dilated(x, kernel, (2, 1), padding)

    assert exported(f, "b, 3, h, w", [(2, 3, 7, 11), (1, 3, 4, 1), (1, 3, 1, 6)]) == ["Conv"]
