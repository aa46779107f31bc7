"""Constants of coremltools that are views of arrays in another order, as transposing leaves them, are read in their own."""

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import test_coreml_passes as passes  # noqa: E402
from mil_programs import mb  # noqa: E402
from sardonyx import coreml  # noqa: E402


@pytest.mark.parametrize("view", ["transpose", "fortran", "steps", "backwards"])
def test_strided_weights(view):
    shape = (37, 11, 3, 5)
    plain = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    kept = {
        "transpose": lambda: np.ascontiguousarray(plain.transpose(2, 1, 3, 0)).transpose(3, 1, 0, 2),
        "fortran": lambda: np.asfortranarray(plain),
        "steps": lambda: np.repeat(np.repeat(plain, 2, axis=1), 3, axis=3)[:, ::2, :, ::3],
        "backwards": lambda: np.ascontiguousarray(plain[::-1, :, ::-1])[::-1, :, ::-1],
    }[view]()
    assert not kept.flags.c_contiguous and np.array_equal(kept, plain)

    def fn(x):
        y = mb.conv(x=x, weight=mb.const(val=plain, name="w"))
        return mb.mul(x=y, y=np.float32(2))

    prog = passes.build(fn, [(1, 11, 13, 17)], ct.target.iOS17)
    (weight,) = [op for op in prog.functions["main"].operations if op.name == "w"]
    weight.outputs[0]._sym_val.val = kept
    coreml.apply_pass(prog, "fuse_conv_scale")
    (conv,) = [op for op in prog.functions["main"].operations if op.op_type == "conv"]
    np.testing.assert_array_equal(conv.weight.val, plain * 2)
    assert conv.outputs[0] is prog.functions["main"].outputs[0]
