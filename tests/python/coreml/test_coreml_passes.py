"""Core ML's passes beside coremltools' own: the same ops in the same order, reading the same, with the same constants and names of results.

Each program is saved once; Sardonyx rewrites the package, coremltools the program that it loads from it. Ops that a pass leaves without a
reader go in both: Sardonyx removes them at once, coremltools in the dead_code_elimination that follows in its pipelines.
"""

from pathlib import Path

import command
import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import coremltools_main  # noqa: E402, F401
import mil_programs as programs  # noqa: E402
from coremltools import proto  # noqa: E402
from coremltools.converters.mil.frontend.milproto.load import load as load_program  # noqa: E402
from coremltools.converters.mil.mil.passes.graph_pass import PassOption  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from mil_programs import get_new_symbol, mb, types  # noqa: E402

RNG = np.random.default_rng(11)


def w(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def load(package: Path):
    spec = proto.Model_pb2.Model()
    spec.ParseFromString((package / "Data/com.apple.CoreML/model.mlmodel").read_bytes())
    programs.mb.name_count.clear()
    with programs.quiet():
        return load_program(spec, spec.specificationVersion, str(package / "Data/com.apple.CoreML/weights"))


@pytest.fixture(autouse=True)
def own_weights():
    """Makes weights independent of the tests that ran before in this process.

    Of random networks, one in eighty has a bias that is a difference of nearly equal numbers, in which two ways to round are further apart
    than same() allows.
    """
    for generator in (RNG, programs.rng):
        generator.bit_generator.state = np.random.default_rng(11).bit_generator.state


def canonical(prog, ordered: bool = True) -> list:
    """The program without the names that a converter generates. If not `ordered`, casts and transposes stand before their first users,
    wherever they are in the program: in a pipeline coremltools' topological_reorder turns them around each time that it runs."""
    lines = []
    floating = () if ordered else ("cast", "transpose")

    def value(v, ids):
        if isinstance(v, (list, tuple)):
            return [value(x, ids) for x in v]
        if v.op is not None and v.op.op_type == "const":
            return np.asarray(v.val)
        if v not in ids:
            line(v.op, ids)
        return ids[v]

    def line(op, ids):
        inputs = {k: value(v, ids) for k, v in sorted(op.inputs.items()) if v is not None}
        if op.op_type == "transpose":  # coremltools modifies the axes that it examines
            inputs["perm"] = inputs["perm"] % len(inputs["perm"])
        for inner in op.blocks:
            for i, v in enumerate(inner.inputs):
                ids[v] = f"{len(lines)}:{i}"
            block(inner, ids)
        for i, v in enumerate(op.outputs):
            ids[v] = f"%{len(lines)}.{i}"
        lines.append((op.op_type, inputs))

    def block(b, ids):
        ops = [op for op in b.operations if op.op_type != "const"]
        for op in ops:
            if op.op_type not in floating:
                line(op, ids)
        lines.append(("return", {str(i): value(v, ids) for i, v in enumerate(b.outputs)}))
        for op in ops:  # what nothing reads
            if op.outputs and op.outputs[0] not in ids:
                line(op, ids)

    for function in prog.functions.values():
        ids = {v: name for name, v in function.inputs.items()}
        block(function, ids)
        lines.append(("names", {str(i): v.name for i, v in enumerate(function.outputs)}))
    return lines


def same(a, b) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype == np.float16:  # of nearly equal numbers, one may round up and the other down
            return np.allclose(a, b, rtol=2**-10, atol=2**-24)
        return np.array_equal(a, b) if a.dtype.kind not in "f" else np.allclose(a, b, rtol=2e-6, atol=1e-7)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


CASES = []


def case(pass_name, *inputs, target=ct.target.iOS17, name=None):
    """Registers a program: a function of the inputs, which are shapes or (shape, type)."""

    def register(fn):
        CASES.append(pytest.param(pass_name, fn, inputs, target, id=f"{pass_name}-{name or fn.__name__}"))
        return fn

    return register


def build(fn, inputs, target):
    specs = [mb.TensorSpec(*(i if isinstance(i[0], tuple) else (i, types.fp32))) for i in inputs]
    return mb.program(input_specs=specs, opset_version=target)(fn)


# --- clean-up


@case("noop_elimination", (2, 3))
def neutral(x):
    x = mb.mul(x=mb.add(x=x, y=0.0), y=np.ones((1, 3), np.float32))
    return mb.relu(x=mb.real_div(x=mb.sub(x=x, y=0.0), y=1.0))


@case("noop_elimination", (2, 3, 5))
def same_shape(x):
    x = mb.transpose(x=mb.reshape(x=x, shape=(2, 3, 5)), perm=(0, 1, 2))
    return mb.relu(x=mb.tile(x=mb.pad(x=x, pad=[0, 0]), reps=(1, 1, 1)))


@case("noop_elimination", (2, 3))
def last_is_kept(x):
    return mb.add(x=mb.relu(x=x), y=0.0)


@case("dead_code_elimination", (2, 3))
def unused(x):
    mb.exp(x=mb.add(x=x, y=2.0))
    return mb.relu(x=x)


@case("const_deduplication", (2, 30))
def twice(x):
    weight = w(7, 30)
    return mb.linear(x=x, weight=weight), mb.linear(x=x, weight=weight.copy()), mb.linear(x=x, weight=weight + 1)


@case("remove_redundant_ops", (2, 3))
def equal_ops(x):
    a, b = mb.add(x=x, y=4.5), mb.add(x=x, y=4.5)
    return mb.mul(x=mb.relu(x=a), y=mb.relu(x=b))


@case("remove_redundant_ops", (2, 3))
def equal_results(x):
    return mb.relu(x=x), mb.relu(x=x)


@case("fuse_reduce_mean", (3, 2, 5))
def mean(x):
    a = mb.mul(x=mb.reduce_sum(x=x, axes=[-1, 1], keep_dims=True), y=0.1)
    return a, mb.real_div(x=mb.reduce_sum(x=x, axes=[0], keep_dims=False), y=3.0)


@case("expand_dynamic_linear", (5, 2), (3, 2), (3,))
def dynamic(x, weight, bias):
    return (
        mb.add(x=mb.matmul(x=x, y=weight, transpose_y=True), y=bias),
        mb.linear(x=x, weight=w(3, 2)),
    )


# --- activations


@case("fuse_gelu_exact", (3, 5))
def gelu_exact(x):
    one_up = mb.add(x=mb.erf(x=mb.real_div(x=x, y=1.4142135)), y=1.0)
    return mb.mul(x=mb.mul(x=one_up, y=0.5), y=x)


@case("fuse_gelu_exact", (3, 5))
def gelu_exact_product(x):
    one_up = mb.add(x=1.0, y=mb.erf(x=mb.mul(x=x, y=0.70710678)))
    return mb.mul(x=0.5, y=mb.mul(x=x, y=one_up))


@case("fuse_gelu_exact", (3, 5))
def gelu_exact_returned(x):
    e = mb.erf(x=mb.real_div(x=x, y=1.4142135))
    return mb.mul(x=mb.mul(x=mb.add(x=e, y=1.0), y=0.5), y=x), e


@case("fuse_gelu_tanh_approximation", (3, 5, 7))
def gelu_tanh(x):
    inner = mb.add(x=x, y=mb.mul(x=0.044715, y=mb.pow(x=x, y=3.0)))
    return mb.mul(x=mb.mul(x=0.5, y=mb.add(x=1.0, y=mb.tanh(x=mb.mul(x=0.7978846, y=inner)))), y=x)


@case("fuse_leaky_relu", (3, 5))
def leaky(x):
    return mb.maximum(x=mb.mul(x=x, y=0.25), y=x)


@case("fuse_leaky_relu", (3, 5))
def steep(x):
    return mb.maximum(x=mb.mul(x=x, y=1.25), y=x)


@case("prelu_to_lrelu", (2, 3, 5, 7))
def one_slope(x):
    return mb.prelu(x=x, alpha=np.full(3, 0.25, np.float32)), mb.prelu(x=x, alpha=np.array([1, 2, 3], np.float32))


# --- convolutions


@case("fuse_conv_bias", (1, 2, 5, 7))
def conv_bias(x):
    return mb.add(x=mb.conv(x=x, weight=w(3, 2, 1, 3)), y=w(3, 1, 1))


@case("fuse_conv_bias", (1, 4, 7))
def conv_transpose_bias(x):
    return mb.sub(x=mb.conv_transpose(x=x, weight=w(4, 3, 3), bias=w(6), groups=2), y=w(1, 6, 1))


@case("fuse_conv_bias", (1, 2, 5, 7))
def conv_bias_behind_transpose(x):
    return mb.add(x=mb.transpose(x=mb.conv(x=x, weight=w(3, 2, 1, 3)), perm=(0, 2, 3, 1)), y=w(3))


@case("fuse_conv_bias", (1, 2, 5, 7))
def conv_returned(x):
    y = mb.conv(x=x, weight=w(3, 2, 1, 3))
    return y, mb.add(x=y, y=w(3, 1, 1))


@case("fuse_conv_scale", (1, 2, 5, 7))
def conv_scale(x):
    y = mb.mul(x=mb.conv(x=x, weight=w(3, 2, 1, 3), bias=w(3)), y=w(3, 1, 1))
    return y, mb.real_div(x=mb.conv(x=x, weight=w(3, 2, 1, 3)), y=3.0)


@case("fuse_conv_batchnorm", (1, 2, 5, 7))
def conv_batchnorm(x):
    y = mb.conv(x=x, weight=w(3, 2, 1, 3), bias=w(3))
    return mb.batch_norm(x=y, mean=w(3), variance=w(3) ** 2 + 0.1, gamma=w(3), beta=w(3), epsilon=1e-3)


@case("fuse_conv_batchnorm", (1, 4, 7, 5))
def conv_transpose_batchnorm(x):
    # With groups, coremltools scales channels other than the normalized ones; without gamma it fails.
    y = mb.conv_transpose(x=x, weight=w(4, 3, 3, 2))
    return mb.batch_norm(x=y, mean=w(3), variance=w(3) ** 2 + 0.1, gamma=w(3), beta=w(3))


@case("fuse_elementwise_to_batchnorm", (2, 3, 5, 7))
def elementwise_batchnorm(x):
    return mb.relu(x=mb.add(x=mb.mul(x=x, y=w(3, 1, 1)), y=w(1, 3, 1, 1)))


# --- linear algebra


@case("fuse_linear_bias", (5, 2))
def linear_bias(x):
    return mb.relu(x=mb.add(x=mb.linear(x=x, weight=w(3, 2), bias=w(3)), y=w(1, 3)))


@case("fuse_linear_bias", (5, 2))
def linear_negated(x):
    return mb.relu(x=mb.sub(x=w(3), y=mb.linear(x=x, weight=w(3, 2), bias=w(3))))


@case("fuse_matmul_weight_bias", (5, 2))
def matmul_bias(x):
    return mb.relu(x=mb.add(x=mb.matmul(x=x, y=w(2, 3)), y=w(1, 3)))


@case("fuse_transpose_matmul", (5, 2), (3, 5))
def transposed_product(x, y):
    return mb.matmul(x=mb.transpose(x=x, perm=(1, 0)), y=mb.transpose(x=y, perm=(1, 0)))


@case("fuse_transpose_matmul", (7, 2, 5), (2, 5, 3))
def other_axes(x, y):
    return mb.matmul(x=mb.transpose(x=x, perm=(1, 0, 2)), y=mb.expand_dims(x=y, axes=[0]))


# --- arithmetic


@case("divide_to_multiply", (3, 2))
def divided(x):
    return mb.real_div(x=mb.real_div(x=x, y=np.array([3, 7], np.float32)), y=11.0)


@case("select_optimization", (2, 3))
def masked(x):
    y = mb.select(cond=np.array([True, False, True]), a=np.float32(-np.inf), b=x)
    return mb.relu(x=y)


# --- repeated ops


@case("cast_optimization", ((3, 5), types.fp16))
def casts(x):
    x = mb.relu(x=x)
    y = mb.cast(x=mb.cast(x=x, dtype="fp32"), dtype="fp16")
    return mb.tanh(x=y), mb.cast(x=mb.cast(x=x, dtype="bool"), dtype="fp16")


@case("cast_optimization", (3, 5))
def casts_that_round(x):
    return mb.relu(x=mb.cast(x=mb.cast(x=x, dtype="fp16"), dtype="fp32"))


@case("cast_optimization", ((3, 5), types.int8))
def casts_that_hold_what_arrives(x):
    y = mb.cast(x=mb.cast(x=x, dtype="fp16"), dtype="fp32")
    z = mb.cast(x=mb.cast(x=mb.cast(x=x, dtype="int32"), dtype="fp32"), dtype="fp16")
    return mb.relu(x=y), mb.relu(x=z)


@case("cast_optimization", ((3, 5), types.int32))
def casts_through_wider_and_narrower(x):
    y = mb.cast(x=mb.cast(x=x, dtype="int16"), dtype="int8")
    z = mb.cast(x=mb.cast(x=x, dtype="uint8"), dtype="int8")
    return (
        y,
        z,
        mb.cast(x=mb.cast(x=x, dtype="fp32"), dtype="int16"),
        mb.cast(x=mb.cast(x=x, dtype="fp16"), dtype="uint8"),
    )


@case("merge_consecutive_paddings", (1, 2, 5, 7))
def paddings_with_values_that_nobody_looks_at(x):
    return mb.pad(x=mb.pad(x=x, pad=[1, 1], mode="reflect", constant_val=3.0), pad=[1, 1, 0, 0], mode="reflect")


@case("merge_consecutive_paddings", (1, 2, 5, 7))
def paddings(x):
    y = mb.pad(x=mb.pad(x=x, pad=[1, 1], mode="reflect"), pad=[1, 1, 0, 0], mode="reflect")
    z = mb.pad(x=mb.pad(x=x, pad=[1, 1], constant_val=3.0), pad=[1, 2, 0, 1], constant_val=3.0)
    return y, z, mb.pad(x=mb.pad(x=x, pad=[1, 1], constant_val=3.0), pad=[1, 2, 0, 1], constant_val=4.0)


@case("merge_consecutive_relus", (3, 5))
def relus(x):
    return mb.tanh(x=mb.relu(x=mb.relu(x=mb.relu(x=x))))


@case("merge_consecutive_reshapes", (2, 3, 5))
def reshapes(x):
    return mb.reshape(x=mb.reshape(x=mb.reshape(x=x, shape=(6, 5)), shape=(-1,)), shape=(5, 6))


@case("merge_consecutive_transposes", (2, 3, 5))
def transposes(x):
    x = mb.transpose(x=mb.transpose(x=x, perm=(1, 0, 2)), perm=(0, -1, 1))
    return mb.relu(x=mb.transpose(x=x, perm=(2, 1, 0)))


# --- shapes


@case("fuse_squeeze_expand_dims", (3, 1, 5))
def squeezed(x):
    return mb.relu(x=mb.expand_dims(x=mb.squeeze(x=x, axes=[1]), axes=[1]))


@case("add_conv_transpose_output_shape", (1, 4, 7, 5))
def upsampled(x):
    return mb.conv_transpose(x=x, weight=w(4, 3, 3, 2), strides=[2, 3])


@case("fuse_prelu", (2, 3, 5, 7))
def slopes_first(x):
    return mb.add(x=mb.relu(x=x), y=mb.mul(x=mb.relu(x=mb.mul(x=x, y=-1.0)), y=w(3, 1, 1)))


@case("fuse_prelu", (2, 3, 5, 7))
def slopes_last(x):
    x = mb.transpose(x=x, perm=(0, 2, 3, 1))
    return mb.add(x=mb.relu(x=x), y=mb.mul(x=mb.relu(x=mb.mul(x=x, y=-1.0)), y=w(1, 1, 1, 3)))


@case("fuse_pad_conv", (1, 5, 7, 3))
def padded(x):
    y = mb.transpose(x=mb.pad(x=x, pad=[0, 0, 1, 2, 3, 0, 0, 0]), perm=(0, 3, 1, 2))
    return mb.conv(x=y, weight=w(2, 3, 3, 3))


@case("compose_conv1d", (1, 3, 7))
def line(x):
    y = mb.conv(
        x=mb.expand_dims(x=x, axes=[2]), weight=w(2, 3, 1, 3), strides=[1, 2], pad_type="custom", pad=[0, 0, 1, 2]
    )
    return mb.squeeze(x=y, axes=[-2])


@case("compose_conv1d", (1, 7, 3))
def line_channels_last(x):
    y = mb.transpose(x=mb.expand_dims(x=x, axes=[1]), perm=(0, 3, 1, 2))
    y = mb.transpose(x=mb.conv(x=y, weight=w(2, 3, 1, 3), bias=w(2)), perm=(0, 2, 3, 1))
    return mb.squeeze(x=y, axes=[1])


@case("replace_stack_reshape", (1, 5, 3, 7), (1, 5, 3, 7))
def stacked(x, y):
    first = mb.reshape(x=mb.stack(values=(x, y), axis=1), shape=(1, 10, 3, 7))
    return first, mb.reshape(x=mb.stack(values=(x, y), axis=2), shape=(1, 10, 3, 7))


@case("concat_to_pixel_shuffle", (1, 3, 5, 7), (1, 3, 5, 7), (1, 3, 5, 7), (1, 3, 5, 7))
def shuffled(a, b, c, d):
    rows = [mb.concat(values=pair, axis=2, interleave=True) for pair in ((a, b), (c, d))]
    return mb.concat(values=rows, axis=3, interleave=True)


@case("detect_concat_interleave", (1, 3, 5, 7), (1, 3, 5, 7))
def channels_shuffled(a, b):
    y = mb.reshape(x=mb.concat(values=(a, b), axis=1), shape=(1, 2, 3, 5, 7))
    return mb.relu(x=mb.reshape(x=mb.transpose(x=y, perm=(0, 2, 1, 3, 4)), shape=(1, 6, 5, 7)))


# --- order, scalars, tables


@case("topological_reorder", (2, 4))
def casts_and_transposes(x):
    x = mb.cast(x=x, dtype="fp16")
    x1 = mb.square(x=x)
    x2 = mb.cast(x=mb.transpose(x=x1, perm=[1, 0]), dtype="fp32")
    x3 = mb.log(x=x)
    x4 = mb.cast(x=mb.transpose(x=x3, perm=[1, 0]), dtype="fp32")
    x6 = mb.cast(x=mb.relu(x=x), dtype="fp32")
    return x2, x4, mb.relu(x=x6), mb.relu(x=x)


@case("topological_reorder", (2, 4))
def in_order_already(x):
    return mb.relu(x=mb.exp(x=x)), mb.cast(x=mb.square(x=x), dtype="fp16")


@case("rank0_expand_dims_swap", (2, 4))
def scalar_that_others_read_too(x):
    scalar = mb.reduce_sum(x=x, keep_dims=False)
    y = mb.sub(x=scalar, y=1.5)
    return mb.expand_dims(x=y, axes=[0]), mb.exp(x=y), mb.log(x=y)


@case("rank0_expand_dims_swap", (2, 4))
def scalar_with_one_reader(x):
    y = mb.mul(x=2.0, y=mb.reduce_max(x=x, keep_dims=False))
    return mb.square(x=mb.expand_dims(x=y, axes=[0]))


@case("rank0_expand_dims_swap", (2, 4))
def no_scalar(x):
    return mb.expand_dims(x=mb.add(x=mb.reduce_sum(x=x, axes=[1], keep_dims=False), y=1.0), axes=[0])


ROWS = {"on_value": np.float32(1), "off_value": np.float32(0)}


@case("fuse_onehot_matmul_to_gather", ((2, 3), types.int32))
def rows_of_a_table(ids):
    return mb.matmul(x=mb.one_hot(indices=ids, one_hot_vector_size=7, axis=-1, **ROWS), y=w(7, 5))


@case("fuse_onehot_matmul_to_gather", ((2, 3), types.int32))
def rows_times_two(ids):
    hot = mb.one_hot(indices=ids, one_hot_vector_size=7, axis=-1, on_value=np.float32(2), off_value=np.float32(0))
    return mb.matmul(x=hot, y=w(7, 5))


@case("fuse_onehot_matmul_to_gather", ((2, 3), types.int32))
def rows_that_are_returned(ids):
    hot = mb.one_hot(indices=ids, one_hot_vector_size=7, axis=-1, **ROWS)
    return mb.matmul(x=hot, y=w(7, 5)), hot


# --- conditions


N, S = get_new_symbol(), get_new_symbol()


def branches(p, yes, no):
    return mb.cond(pred=mb.cast(x=mb.squeeze(x=p), dtype="bool"), _true_fn=yes, _false_fn=no)


@case("noop_elimination", (2, 3), (1,))
def returned_by_a_branch(x, p):
    a = mb.mul(x=mb.relu(x=x), y=1.0)
    return mb.relu(x=branches(p, lambda: mb.exp(x=a), lambda: a))


@case("remove_redundant_ops", (2, 3), (1,))
def second_returned_by_a_branch(x, p):
    a, b = mb.relu(x=x), mb.relu(x=x)
    return mb.add(x=a, y=branches(p, lambda: b, lambda: mb.tanh(x=x)))


@case("loop_invariant_elimination", (1, 2), (1, 2))
def nothing_varies(a, b):
    def test(x, y):
        return mb.less(x=mb.reduce_sum(x=x, keep_dims=False), y=9.0)

    p, q = mb.while_loop(_cond=test, _body=lambda x, y: (x, y), loop_vars=(a, b))
    return p, mb.relu(x=q)


@case("fuse_gelu_exact", (3, 5))
def half_for_each_column(x):
    one_up = mb.add(x=mb.erf(x=mb.real_div(x=x, y=1.4142135)), y=1.0)
    return mb.mul(x=mb.mul(x=one_up, y=np.full(5, 0.5, np.float32)), y=x)


@case("fuse_gelu_tanh_approximation", (3, 5, 7))
def cube_for_each_column(x):
    inner = mb.add(x=x, y=mb.mul(x=0.044715, y=mb.pow(x=x, y=np.full(7, 3, np.float32))))
    return mb.mul(x=mb.mul(x=0.5, y=mb.add(x=1.0, y=mb.tanh(x=mb.mul(x=0.7978846, y=inner)))), y=x)


@case("fuse_conv_bias", (1, 2, 5, 7), (3, 2, 1, 3))
def conv_of_computed_weights(x, weight):
    y = mb.add(x=mb.conv(x=x, weight=weight), y=w(3, 1, 1))
    z = mb.sub(x=mb.conv(x=x, weight=weight, bias=w(3)), y=4.0)
    return y, z, mb.add(x=mb.conv(x=x, weight=weight), y=4.0)


@case("fuse_conv_bias", (1, 2, 5, 7))
def minus_conv(x):
    y = mb.sub(x=w(3, 1, 1), y=mb.conv(x=x, weight=w(3, 2, 1, 3)))
    t = mb.transpose(x=mb.conv(x=x, weight=w(3, 2, 1, 3)), perm=(0, 2, 3, 1))
    return y, mb.sub(x=w(3), y=t)


@case("fuse_conv_scale", (1, 2, 5, 7))
def conv_times_one_element(x):
    y = mb.mul(x=mb.conv(x=x, weight=w(3, 2, 1, 3)), y=w(1, 1, 1))
    z = mb.mul(x=mb.conv(x=x, weight=w(1, 2, 1, 3)), y=w(1, 1, 1))
    return y, z, mb.mul(x=mb.conv(x=x, weight=w(3, 2, 1, 3)), y=w(1))


@case("fuse_conv_bias", (N, 2, S))
def conv_bias_of_any_length(x):
    y = mb.transpose(x=mb.add(x=mb.conv(x=x, weight=w(3, 2, 3)), y=w(3, 1)), perm=(0, 2, 1))
    return mb.sub(x=y, y=w(3))


@case("fuse_conv_scale", (N, 2, S))
def conv_scale_of_any_length(x):
    return mb.mul(x=mb.conv(x=x, weight=w(3, 2, 3)), y=w(3, 1))


@case("fuse_conv_batchnorm", (N, 2, S, S))
def conv_batchnorm_of_any_size(x):
    y = mb.conv(x=x, weight=w(3, 2, 3, 3), strides=[2, 2])
    return mb.batch_norm(x=y, mean=w(3), variance=w(3) ** 2 + 0.1, gamma=w(3), beta=w(3))


@case("compose_conv1d", (N, 3, S))
def line_of_any_length(x):
    y = mb.conv(x=mb.expand_dims(x=x, axes=[2]), weight=w(4, 3, 1, 2))
    return mb.relu(x=mb.squeeze(x=y, axes=[2]))


@case("compose_conv1d", (N, S, 3))
def line_of_any_length_channels_last(x):
    y = mb.transpose(x=mb.expand_dims(x=x, axes=[1]), perm=(0, 3, 1, 2))
    y = mb.transpose(x=mb.conv(x=y, weight=w(4, 3, 1, 2)), perm=(0, 2, 3, 1))
    return mb.relu(x=mb.squeeze(x=y, axes=[1]))


@case("fuse_matmul_weight_bias", (2, 5))
def weight_first_and_a_number(x):
    return mb.add(x=mb.matmul(x=w(3, 2), y=x), y=3.0)


@case("fuse_matmul_weight_bias", (5, 2))
def one_column(x):
    y = mb.add(x=mb.matmul(x=x, y=w(2, 1)), y=w(1, 1))
    return y, mb.add(x=mb.matmul(x=x, y=w(2, 1)), y=w(1))


@case("fuse_linear_bias", (5, 2))
def linear_without_bias(x):
    return mb.sub(x=w(1, 3), y=mb.linear(x=x, weight=w(3, 2)))


@case("fuse_transpose_matmul", (5, 2), (1,))
def transposed_before_the_branch(x, p):
    t = mb.transpose(x=x, perm=(1, 0))
    return branches(p, lambda: mb.matmul(x=t, y=x), lambda: mb.matmul(x=x, y=x, transpose_x=True))


@case("rank0_expand_dims_swap", (2, 4))
def scalars_in_a_row(x):
    y = mb.mul(x=mb.add(x=mb.reduce_sum(x=x, keep_dims=False), y=1.5), y=3.0)
    return mb.expand_dims(x=y, axes=[0])


def check_on_files(pass_name, fn, inputs, target, tmp_path, options=None):
    source, result = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(build(fn, inputs, target), source, target)
    unprotected = {"protect": "false"} if pass_name in ("add_fp16_cast", "add_int16_cast") else {}
    ours = [o for k, v in (unprotected | (options or {})).items() for o in ("--option", f"common::{pass_name}.{k}={v}")]
    command.sardonyx("optimize", source, "-o", result, "--passes", f"common::{pass_name}", *ours, "--strict", "--quiet")
    theirs = load(source)
    with programs.quiet():
        their_pass = PASS_REGISTRY[f"common::{pass_name}"]
        their_pass.set_options([PassOption(k, str(v)) for k, v in (options or {}).items()])
        their_pass(theirs)
        PASS_REGISTRY["common::dead_code_elimination"](theirs)
    ours_loaded = load(result)
    with programs.quiet():
        PASS_REGISTRY["common::dead_code_elimination"](ours_loaded)
    expected, found = canonical(theirs), canonical(ours_loaded)
    assert [op for op, _ in found] == [op for op, _ in expected]
    for (op, a), (_, b) in zip(found, expected, strict=True):
        assert same(a, b), (op, a, b)


@pytest.mark.parametrize(("pass_name", "fn", "inputs", "target"), CASES)
def test_a_pass_does_what_coremltools_does(pass_name, fn, inputs, target, tmp_path):
    check_on_files(pass_name, fn, inputs, target, tmp_path)


def test_the_default_preset_leaves_what_coremltools_can_load(tmp_path):
    def network(x):
        y = mb.conv(x=x, weight=w(5, 3, 3, 3), pad_type="same")
        y = mb.batch_norm(x=y, mean=w(5), variance=w(5) ** 2 + 0.1)
        y = mb.relu(x=mb.relu(x=y))
        y = mb.transpose(x=mb.transpose(x=y, perm=(0, 2, 3, 1)), perm=(0, 3, 1, 2))
        return mb.real_div(x=y, y=4.0)

    source, result = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(build(network, [(1, 3, 7, 5)], ct.target.iOS17), source, ct.target.iOS17)
    command.sardonyx("optimize", source, "-o", result, "--strict", "--quiet")
    ops = [op for op, _ in canonical(load(result))]
    assert ops == ["conv", "relu", "mul", "return", "names"]
