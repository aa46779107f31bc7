"""Pools with the padding of SAME: one operator, whatever sizes are known, and JAX's results."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sardonyx
from judge import outputs

WINDOWS = [((2, 2), (2, 2)), ((3, 3), (2, 2)), ((3, 2), (1, 3))]
POOLS = {
    "max": lambda x, w, s: nn.max_pool(x, w, s, "SAME"),
    "average": lambda x, w, s: nn.avg_pool(x, w, s, "SAME"),
    "average of what is there": lambda x, w, s: nn.avg_pool(x, w, s, "SAME", count_include_pad=False),
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(("window", "strides"), WINDOWS)
def test_same(pool, window, strides):
    def f(x):
        return POOLS[pool](x, window, strides)

    for shape in (jax.export.symbolic_shape("b, h, w, 3"), (2, 7, 11, 3)):
        model = sardonyx.to_onnx(f, [jax.ShapeDtypeStruct(shape, jnp.float32)], return_mode="proto")
        ops = [n.op_type for n in model.graph.node]
        assert ops == ["Transpose", "MaxPool" if pool == "max" else "AveragePool", "Transpose"]
        for size in ((2, 7, 11, 3), (1, 5, 8, 3), (3, 1, 1, 3)) if shape != (2, 7, 11, 3) else (shape,):
            x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
            want = np.asarray(jax.jit(f)(x))
            for optimize in (False, True):
                found = outputs(model, [x], optimize)[0]
                assert found.shape == want.shape
                np.testing.assert_allclose(found, want, rtol=4e-6, atol=4e-6)
