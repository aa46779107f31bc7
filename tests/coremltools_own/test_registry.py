"""What coremltools registers, and what its pipelines run: passes that are new there show here."""

import os

import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

from coremltools import PassPipeline  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from sardonyx import _sardonyx  # noqa: E402

# What release 9.0 does not have yet.
LATER = {"fuse_gelu_sigmoid_approximation"} if os.environ.get("COREMLTOOLS_TESTS_OF", "9.0") == "9.0" else set()
# Conversions from ONNX need them, or weights on request; no preset has them.
OWN = {
    "compress_weights",
    "quantize_activations",
    "share_transposed_weights",
    "merge_axes_beyond_five",
    "fuse_masked_attention",
    "fuse_silu",
    "fuse_pixel_unshuffle",
    "fuse_slices_into_gather",
    "fuse_slices_into_split",
    "fuse_product_scales",
    "fuse_quotients",
}
# They belong to a conversion, and presets leave them out on files.
HALF = {"common::add_fp16_cast", "common::add_int16_cast"}
# When tests are collected: some of coremltools' tests register passes of their own.
THEIRS = {name.removeprefix("common::") for name in PASS_REGISTRY.passes if name.startswith("common::")}


def test_common_passes_are_those_of_coremltools():
    ours = {p["name"] for p in _sardonyx.list_passes() if p["dialect"] == "mil"}
    assert ours - LATER - OWN == THEIRS


@pytest.mark.parametrize("name", ["default", "cleanup", "default_palettization", "default_sparsification", "empty"])
def test_pipelines_are_those_of_coremltools(name):
    ours = [p.removeprefix("common::") for p in _sardonyx.list_presets()[name]]
    theirs = [p.removeprefix("common::") for p in PassPipeline._PIPELINE_NAME_TO_PASSES[name] if p not in HALF]
    assert [p for p in ours if p not in LATER] == theirs
