"""Networks from coremltools' converter, in half precision and with compressed weights; and unknown ops under
passes."""

import logging
import shutil

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import coremltools.optimize.coreml as cto  # noqa: E402
import mil_programs as programs  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from sardonyx import coreml  # noqa: E402
from test_coreml_roundtrip import MODEL, describe, message, round_trip  # noqa: E402


def quantized(model):
    config = cto.OptimizationConfig(global_config=cto.OpLinearQuantizerConfig(mode="linear", weight_threshold=64))
    return cto.linear_quantize_weights(model, config)


def palettized(model):
    op = cto.OpPalettizerConfig(mode="uniform", nbits=4, weight_threshold=64)
    return cto.palettize_weights(model, cto.OptimizationConfig(global_config=op))


def pruned(model):
    op = cto.OpMagnitudePrunerConfig(target_sparsity=0.5, weight_threshold=64)
    return cto.prune_weights(model, cto.OptimizationConfig(global_config=op))


HOW = {
    "half": (ct.precision.FLOAT16, None, None),
    "single": (ct.precision.FLOAT32, None, None),
    "quantized": (ct.precision.FLOAT16, quantized, "constexpr_"),
    "palettized": (ct.precision.FLOAT16, palettized, "constexpr_lut_to_dense"),
    "pruned": (ct.precision.FLOAT16, pruned, "constexpr_sparse_to_dense"),
}


def converted(name, how):
    build, target = programs.NETWORKS[name]
    precision, compress, _ = HOW[how]
    with programs.quiet():
        model = ct.convert(
            build(),
            convert_to="mlprogram",
            minimum_deployment_target=max(target, ct.target.iOS16),
            compute_precision=precision,
            skip_model_load=True,
        )
        return compress(model) if compress else model


def inputs_of(package):
    rng = np.random.default_rng(4)
    made = {}
    for port in message(package).description.input:
        array = port.type.multiArrayType
        whole = array.dataType == array.ArrayDataType.Value("INT32")
        shape = list(array.shape)
        made[port.name] = (
            rng.integers(0, 3, shape).astype(np.int32) if whole else rng.standard_normal(shape).astype(np.float32)
        )
        if array.dataType == array.ArrayDataType.Value("FLOAT16"):
            made[port.name] = made[port.name].astype(np.float16)
    return made


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", programs.NETWORKS)
def test_converted_networks_are_read_and_written(name, how, tmp_path):
    before, after = tmp_path / "before.mlpackage", tmp_path / "after.mlpackage"
    converted(name, how).save(str(before))
    kind = HOW[how][2]
    counts = coreml.load(before).op_counts()
    if kind is not None and name != "stateful":  # has no weights that are large enough
        assert any(op.startswith(kind) for op in counts), counts
    round_trip(before, after)
    assert describe(after) == describe(before)
    program = coreml.load(before)
    assert program._native.compare_types() == []
    assert program.infer_types() == []
    if name != "stateful":
        inputs = inputs_of(before)
        for a, b in zip(program.run(inputs).values(), coreml.load(after).run(inputs).values(), strict=True):
            np.testing.assert_array_equal(a, b)
            assert how != "single" or np.isfinite(a).all()  # these weights exceed half precision


@pytest.fixture(scope="module")
def from_the_future(tmp_path_factory):
    """A network in which each relu is an unknown op with an attribute."""
    package = tmp_path_factory.mktemp("future") / "x.mlpackage"
    logging.getLogger("coremltools").setLevel(logging.ERROR)
    programs.save(programs.resnet(), package, ct.target.iOS16)
    spec = message(package)
    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    for op in block.operations:
        if op.type == "relu":
            op.type = "relu_of_the_future"
            op.attributes["tuning"].CopyFrom(op.attributes["name"])
    (package / MODEL).write_bytes(spec.SerializeToString())
    return package


def unknown(package):
    (block,) = message(package).mlProgram.functions["main"].block_specializations.values()
    found = {}
    for op in block.operations:
        if op.type == "relu_of_the_future":
            tuning = op.attributes["tuning"].SerializeToString()
            found[op.outputs[0].name] = (list(op.inputs), tuning, op.outputs[0].type.SerializeToString())
    return found


# Passes that need more than a program, and coremltools' tools, which are not passes for programs.
OTHERS = {"common::materialize_symbolic_shape_program", "common::WeightRandomizer"}
PASSES = sorted(p for p in PASS_REGISTRY.passes if p.startswith("common::") and p not in OTHERS)


def test_passes_leave_unknown_ops_alone(from_the_future, tmp_path):
    before = unknown(from_the_future)
    assert len(before) > 2
    assert coreml.load(from_the_future).op_counts()["relu_of_the_future"] == len(before)
    assert len(PASSES) > 50
    for name in [*PASSES, "default", "cleanup"]:
        after = tmp_path / "after.mlpackage"
        coreml.optimize(from_the_future, after, passes=name, strict=True)
        assert unknown(after) == before, name
        shutil.rmtree(after)
