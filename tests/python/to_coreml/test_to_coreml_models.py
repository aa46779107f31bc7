"""Whole models as Core ML packages: JAX beside Sardonyx's evaluator, coremltools' reader and type inference op by op, and coremltools'
default passes, which find nothing left to do, as ours find none."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import sardonyx  # noqa: E402
from coremltools.converters.mil.frontend.milproto.load import load as load_program  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipelineManager  # noqa: E402
from sardonyx import coreml  # noqa: E402
from test_to_coreml import WEIGHTS, check_types, files_in  # noqa: E402
from zoo import all_models  # noqa: E402

MODELS = all_models()
FLOAT32 = ct.proto.FeatureTypes_pb2.ArrayFeatureType.FLOAT32
# As a share of the largest value of a result.
TOLERANCE = 1e-4
# Casts in half precision beyond one for each floating-point input and result, at most. What loops carry, angles of positions, logarithms of
# probabilities, variances of Adam and what decides an index stay in single precision.
MORE_CASTS = {
    "llama, NNX": 11,
    "llama with its cache, NNX": 12,
    "a decoder's step with its cache, Linen": 1,
    "whisper, NNX": 4,
    "mamba of any length, Equinox": 5,
    "bidirectional lstm and gru, Linen": 24,
    "lstm and gru, Haiku": 25,
    "gru and lstm cells, Equinox": 11,
    "graph network, Equinox": 7,
    "a step of diffusion, Linen": 9,
    "autoencoder with noise, Haiku": 9,
    "normalising flow": 42,
    "a loss and its gradients, Linen": 15,
    "a step of Adam": 18,
    "beam search, Equinox": 7,
}


def counts(program):
    found = Counter()
    todo = list(program.functions["main"].operations)
    while todo:
        op = todo.pop()
        found[op.op_type] += op.op_type != "const"
        for block in op.blocks:
            todo += block.operations
    return +found


def left_to_do(spec, weights):
    """What coremltools' default passes change: op types and how many more or fewer there are."""
    program = load_program(spec, spec.specificationVersion, str(weights))
    before = counts(program)
    pipeline = ct.PassPipeline()
    # The last of these guards the indices of gathers again, which the lowering has done.
    pipeline.remove_passes({"common::add_fp16_cast", "common::add_int16_cast", "common::guard_negative_gather_indices"})
    PassPipelineManager.apply_pipeline(program, pipeline)
    after = counts(program)
    return {op: after[op] - before[op] for op in {*before, *after} if after[op] != before[op]}


def as_given(x):
    """As Core ML's interface has it: integers of 32 bits, and no array without axes."""
    x = np.atleast_1d(np.asarray(x))
    return x.astype(np.int64).astype(np.uint32).view(np.int32) if x.dtype.kind in "iu" else x


def results_of(model, fn):
    """JAX's results for each size, with the inputs."""
    jitted = jax.jit(fn)
    for sizes in model.sizes:
        inputs = model.sample(sizes)
        yield inputs, [np.asarray(x) for x in jax.tree.leaves(jitted(*map(jnp.asarray, inputs)))]


def check_values(cases, program):
    for inputs, expected in cases:
        found = list(program.run([as_given(x) for x in inputs]).values())
        assert len(found) == len(expected)
        for got, want in zip(found, expected, strict=True):
            largest = np.abs(want).max(initial=0) if want.dtype.kind != "b" else 1
            difference = np.abs(got.reshape(want.shape).astype(np.float64) - want).max(initial=0)
            assert difference <= TOLERANCE * max(largest, 1e-30), f"{difference} of {largest}"


def check_half_precision(model, single, half, description):
    """It adds casts, most of them at the interface, at most two limits of what would overflow, and no other op."""
    floats = [v for v in (*description.input, *description.output) if v.type.multiArrayType.dataType == FLOAT32]
    before, after = Counter(single.op_counts()), Counter(half.op_counts())
    added = {op: after[op] - before[op] for op in {*before, *after} - {"const"} if after[op] != before[op]}
    assert added.pop("cast", 0) <= len(floats) + MORE_CASTS.get(model.name, 0)
    assert added.pop("clip", 0) <= 2
    assert not added


def optimized_again(path):
    coreml.optimize(path, path.with_name("again.mlpackage"))
    return path.with_name("again.mlpackage")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_the_zoo(model, tmp_path):
    fn, path = model.make(), tmp_path / "out.mlpackage"
    cases = list(results_of(model, fn))
    for target in ("iOS17", "iOS18"):
        program = sardonyx.to_coreml(fn, list(model.inputs), output_path=path, precision="f32", target=target)
        check_values(cases, program)
        spec = check_types(path)
        assert left_to_do(spec, (path / WEIGHTS).parent) == {}
        assert files_in(optimized_again(path)) == files_in(path)
        half = sardonyx.to_coreml(fn, list(model.inputs), output_path=path, target=target)
        check_half_precision(model, program, half, spec.description)
        assert files_in(optimized_again(path)) == files_in(path)
