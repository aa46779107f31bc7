"""Constants of coremltools that are views of arrays in another order, as transposing leaves them, are read in their own."""

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import test_coreml_passes as passes  # noqa: E402
from coremltools.converters.mil.mil import types  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipeline, PassPipelineManager  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from mil_programs import mb  # noqa: E402
from sardonyx import coreml  # noqa: E402
from test_coreml_passes import own_weights  # noqa: E402, F401


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


def constants(prog):
    return [op.outputs[0].val for op in prog.functions["main"].operations if op.op_type == "const"]


def default_pipeline(prog):
    pipeline = PassPipeline()
    pipeline.remove_passes({"common::add_fp16_cast", "common::add_int16_cast"})
    PassPipelineManager.apply_pipeline(prog, pipeline)


WEIGHTS = {"w": (307, 211), "v": (4, 61, 83), "table": (509, 61)}


def transposing(weights):
    """A layer as PyTorch writes it, a weight that stays transposed, and one that is only reshaped."""

    def fn(x, y, ids):
        layer = mb.matmul(x=x, y=mb.transpose(x=mb.const(val=weights["w"]), perm=[1, 0]))
        layer = mb.add(x=layer, y=np.arange(307, dtype=np.float32))
        moved = mb.mul(x=y, y=mb.transpose(x=mb.const(val=weights["v"]), perm=[2, 0, 1]))
        table = mb.reshape(x=mb.const(val=weights["table"]), shape=[509, 1, 61])
        return layer, moved, mb.gather(x=table, indices=ids, axis=0)

    mb.name_count.clear()
    return passes.build(fn, [(3, 211), (83, 4, 61), ((5,), types.int32)], ct.target.iOS17)


def weights_read_only(rng):
    weights = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in WEIGHTS.items()}
    for w in weights.values():
        w.flags.writeable = False
    return weights


def test_transposed_weights_come_back_as_views():
    weights = weights_read_only(np.random.default_rng(1))
    before = {name: w.copy() for name, w in weights.items()}
    theirs, ours = transposing(weights), transposing(weights)
    default_pipeline(theirs)
    told = constants(ours)
    with coreml.native_passes():
        default_pipeline(ours)
    assert passes.same(passes.canonical(ours), passes.canonical(theirs)), f"{ours}\n{theirs}"
    large = [v for v in constants(ours) if isinstance(v, np.ndarray) and v.nbytes > 1 << 16]
    assert len(large) == 3
    assert all(any(np.shares_memory(v, t) for t in told if isinstance(t, np.ndarray)) for v in large)
    (layer,) = [op for op in ours.functions["main"].operations if op.op_type == "linear"]
    np.testing.assert_array_equal(layer.weight.val, weights["w"])
    for name, w in weights.items():
        np.testing.assert_array_equal(w, before[name])


@pytest.mark.parametrize("names", [["const_elimination"], ["const_elimination", "fuse_matmul_weight_bias"]])
def test_single_passes_copy_no_weight(names):
    weights = weights_read_only(np.random.default_rng(2))
    theirs, ours = transposing(weights), transposing(weights)
    told = constants(ours)
    for name in names:
        PASS_REGISTRY[f"common::{name}"](theirs)
        coreml.apply_pass(ours, name)
    assert passes.same(passes.canonical(ours), passes.canonical(theirs)), f"{ours}\n{theirs}"
    for value in constants(ours):
        if isinstance(value, np.ndarray) and value.nbytes > 1 << 16:
            assert any(np.shares_memory(value, t) for t in told if isinstance(t, np.ndarray))


def test_what_a_pass_computes_is_written_elsewhere():
    weight = np.random.default_rng(3).standard_normal((64, 16, 5, 5), dtype=np.float32)
    before = weight.copy()

    def fn(x):
        w = mb.transpose(x=mb.const(val=weight), perm=[1, 0, 3, 2])
        return mb.mul(x=mb.conv(x=x, weight=w), y=np.float32(2))

    prog = passes.build(fn, [(1, 64, 11, 13)], ct.target.iOS17)
    (told,) = [v for v in constants(prog) if isinstance(v, np.ndarray) and v.nbytes > 1 << 16]
    coreml.apply_pass(prog, "const_elimination")
    coreml.apply_pass(prog, "fuse_conv_scale")
    (conv,) = [op for op in prog.functions["main"].operations if op.op_type == "conv"]
    np.testing.assert_array_equal(conv.weight.val, before.transpose(1, 0, 3, 2) * 2)
    np.testing.assert_array_equal(told, before)
    np.testing.assert_array_equal(weight, before)


def test_weights_that_a_few_elements_do_not_tell_apart():
    weights = [np.zeros(1000, np.float32) for _ in range(14)]
    for i, w in enumerate(weights):
        w[1 + i % 7] = 1

    def fn(x):
        return tuple(mb.mul(x=x, y=mb.const(val=w)) for w in weights)

    theirs, ours = passes.build(fn, [(1000,)], ct.target.iOS17), passes.build(fn, [(1000,)], ct.target.iOS17)
    PASS_REGISTRY["common::const_deduplication"](theirs)
    coreml.apply_pass(ours, "const_deduplication")
    for prog in theirs, ours:
        operands = [op.y for op in prog.functions["main"].operations if op.op_type == "mul"]
        assert len(set(operands)) == 7
        for v, w in zip(operands, weights, strict=True):
            np.testing.assert_array_equal(v.val, w)
