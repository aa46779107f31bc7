"""native_passes(): what stands in coremltools' registry, inside and afterwards."""

import threading

import pytest

pytest.importorskip("coremltools")
from coremltools.converters.mil.mil.passes.graph_pass import AbstractGraphPass
from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipelineManager
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY
from sardonyx import coreml

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
