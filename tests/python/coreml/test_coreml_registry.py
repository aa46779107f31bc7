"""native_passes(): the contents of coremltools' registry, inside and afterwards."""

import threading

import numpy as np
import pytest

ct = pytest.importorskip("coremltools")
from coremltools.converters.mil.mil import Builder as mb  # noqa: E402
from coremltools.converters.mil.mil import types  # noqa: E402
from coremltools.converters.mil.mil.passes.graph_pass import AbstractGraphPass  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipelineManager  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from sardonyx import coreml  # noqa: E402

KEY = "common::fuse_conv_bias"


@pytest.fixture(autouse=True)
def registry_is_restored():
    passes, pipeline = dict(PASS_REGISTRY.passes), PassPipelineManager.__dict__["apply_pipeline"]
    yield
    now = dict(PASS_REGISTRY.passes), PassPipelineManager.__dict__["apply_pipeline"]
    PASS_REGISTRY.passes = passes
    PassPipelineManager.apply_pipeline = pipeline
    assert now == (passes, pipeline)


def is_native():
    return hasattr(PASS_REGISTRY.passes[KEY], "sardonyx_name")


def test_blocks_of_two_threads_overlap():
    first_is_in, second_is_in = threading.Event(), threading.Event()
    seen = {}

    def first():
        with coreml.native_passes():
            first_is_in.set()
            assert second_is_in.wait(30)
        seen["after the first"] = is_native()
        first_is_out.set()

    def second():
        assert first_is_in.wait(30)
        with coreml.native_passes():
            second_is_in.set()
            assert first_is_out.wait(30)
            seen["inside the second"] = is_native()
        seen["after both"] = is_native()

    first_is_out = threading.Event()
    threads = [threading.Thread(target=f) for f in (first, second)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert seen == {"after the first": True, "inside the second": True, "after both": False}


def test_a_pass_is_made_once():
    with coreml.native_passes():
        first = PASS_REGISTRY.passes[KEY]
    with coreml.native_passes():
        assert PASS_REGISTRY.passes[KEY] is first


def test_what_is_set_on_coremltools_classes_counts(monkeypatch):
    ops, order = PASS_REGISTRY.passes["common::add_int16_cast"], "common::canonicalize_quantized_lut_pattern"
    monkeypatch.setattr(ops, "_PREFER_INT16_OPS", set())
    monkeypatch.setattr(PASS_REGISTRY.passes[order], "_DEQUANT_FIRST", False)

    @mb.program(input_specs=[mb.TensorSpec((3, 2)), mb.TensorSpec((2,), types.int32)], opset_version=ct.target.iOS18)
    def prog(x, i):
        small = types.nptype_from_builtin(types.string_to_builtin("uint2"))
        table = mb.constexpr_blockwise_shift_scale(
            data=np.arange(4, dtype=np.int8).reshape(1, 1, 4, 1), scale=np.full((1, 1, 1, 1), 0.5, np.float32)
        )
        weight = mb.constexpr_lut_to_dense(indices=np.array([[0, 3], [2, 1]], np.uint8).astype(small), lut=table)
        return mb.linear(x=mb.gather(x=x, indices=i, axis=0), weight=weight)

    with coreml.native_passes():
        PASS_REGISTRY["common::add_int16_cast"](prog)
        PASS_REGISTRY[order](prog)
    ops = [op.op_type for op in prog.functions["main"].operations if op.op_type != "const"]
    assert ops == ["constexpr_lut_to_dense", "constexpr_blockwise_shift_scale", "gather", "linear"]


def test_blocks_nest():
    with coreml.native_passes():
        with coreml.native_passes():
            assert is_native()
        assert is_native()
    assert not is_native()


def test_an_error_leaves_nothing_behind():
    with pytest.raises(KeyError), coreml.native_passes():
        raise KeyError
    assert not is_native()


class Mine(AbstractGraphPass):
    def apply(self, prog):
        pass


def test_a_pass_that_is_registered_inside_stays():
    with coreml.native_passes():
        PASS_REGISTRY.passes["mine::pass"] = Mine
    assert PASS_REGISTRY.passes.pop("mine::pass") is Mine


def test_a_pass_that_is_replaced_inside_stays_replaced():
    original = PASS_REGISTRY.passes[KEY]
    with coreml.native_passes():
        PASS_REGISTRY.passes[KEY] = Mine
    assert PASS_REGISTRY.passes[KEY] is Mine
    PASS_REGISTRY.passes[KEY] = original


def test_a_pass_that_is_removed_inside_stays_away():
    original = PASS_REGISTRY.passes[KEY]
    with coreml.native_passes():
        del PASS_REGISTRY.passes[KEY]
    assert KEY not in PASS_REGISTRY.passes
    PASS_REGISTRY.passes[KEY] = original
