"""Core ML's passes about quantization and precision beside coremltools' own, on packages and on programs in memory."""

import json

import command
import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
import test_coreml_memory as memory  # noqa: E402
import test_coreml_passes as passes  # noqa: E402
from coremltools.converters.mil.mil.passes.defs.quantization import FP16ComputePrecision  # noqa: E402
from coremltools.converters.mil.mil.passes.graph_pass import PassOption  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from mil_programs import get_new_symbol, mb, types  # noqa: E402
from sardonyx import coreml  # noqa: E402
from test_coreml_passes import own_weights  # noqa: E402, F401

I8, U8 = types.int8, types.uint8
RNG = passes.RNG
w = passes.w
CASES = []


ON_PACKAGES = []


def case(pass_name, *inputs, target=ct.target.iOS17, name=None, packages=True):
    def register(fn):
        CASES.append(pytest.param(pass_name, fn, inputs, target, id=f"{pass_name}-{name or fn.__name__}"))
        if packages:
            ON_PACKAGES.append(CASES[-1])
        return fn

    return register


def i8(*shape):
    return RNG.integers(-128, 128, size=shape, dtype=np.int8)


def u8(*shape):
    return RNG.integers(0, 256, size=shape, dtype=np.uint8)


def s(*shape):
    return RNG.uniform(0.5, 2, size=shape).astype(np.float32)


def quantize(x, scale, zero_point=None, axis=None, dtype="int8"):
    return mb.quantize(input=x, scale=scale, zero_point=zero_point, axis=axis, output_dtype=dtype)


def dequantize(x, scale, zero_point=None, axis=None):
    return mb.dequantize(input=x, scale=scale, zero_point=zero_point, axis=axis)


# --- activations


@case("int_op_canonicalization", ((2, 3, 5), U8))
def reshaped_integers(x):
    y = mb.reshape(x=dequantize(x, 0.5), shape=(6, 5))
    z = dequantize(quantize(y, 0.5, dtype="uint8"), 0.5)
    return z, mb.transpose(x=z, perm=(1, 0))


@case("int_op_canonicalization", ((2, 3, 5), I8))
def reshaped_and_read(x):
    y = mb.reshape(x=dequantize(x, 0.5), shape=(6, 5))
    return quantize(y, 0.5), mb.relu(x=y)


@case("int_op_canonicalization", ((2, 3, 5), I8), ((2,), types.int32))
def reshaped_by_a_computed_shape(x, shape):
    return quantize(mb.reshape(x=dequantize(x, 0.5), shape=shape), 0.5)


@case("nullify_redundant_quantization_zero_point", (3, 5))
def zero_points(x):
    x = dequantize(quantize(x, 0.5, np.int8(0)), 0.25, np.int8(-128))
    x = dequantize(quantize(x, s(3), np.uint8([128] * 3), 0, "uint8"), s(3), np.uint8([128] * 3), 0)
    x = dequantize(quantize(x, 0.5, np.int8(-128)), 0.25, np.int8(-128))
    x = dequantize(quantize(x, 0.5, np.int8(-127)), 0.25, np.int8(-127))
    return mb.relu(x=x)


@case("nullify_redundant_quantization_zero_point", (3, 5))
def constants_far_from_zero(x):
    for data, zero in (
        (i8(3, 5), np.int8(-128)),
        (u8(3, 5), np.uint8(128)),
        (i8(3, 5), np.int8(0)),
        (i8(3, 5), np.int8(7)),
    ):
        x = mb.add(x=x, y=dequantize(data, 0.5, zero))
    return mb.add(x=x, y=dequantize(u8(3, 5), s(3), np.uint8([128] * 3), 0))


@case("dequantize_quantize_pair_elimination", ((3, 5), I8))
def pairs(x):
    x = mb.reshape(x=x, shape=(5, 3))
    a = dequantize(x, s(3), np.int8([1, 2, 3]), 1)
    y = quantize(a, a.op.scale.val, np.int8([1, 2, 3]), 1)
    b = dequantize(y, 0.5)
    return dequantize(quantize(b, 0.5), 0.5), mb.exp(x=b), dequantize(quantize(b, 0.25), 0.5)


@case("dequantize_quantize_pair_elimination", ((3, 5), I8))
def pair_that_is_a_result(x):
    a = dequantize(mb.reshape(x=x, shape=(5, 3)), 0.5)
    return a, quantize(a, 0.5)


@case("distributive_quantized_binary_op_scale_normalization", ((3, 5), I8), ((3, 5), I8))
def quantized_sum(x, y):
    return quantize(mb.add(x=dequantize(x, 0.3, np.int8(3)), y=dequantize(y, 0.7)), 0.9, np.int8(1))


@case("distributive_quantized_binary_op_scale_normalization", ((3, 5), I8), ((3, 5), I8))
def quantized_difference(x, y):
    x, y = dequantize(x, 0.3, np.int8(3)), dequantize(y, s(5), axis=1)
    z = mb.relu(x=mb.sub(x=x, y=y))
    return quantize(z, s(5), np.uint8([1] * 5), 1, "uint8"), mb.exp(x=x)


@case("distributive_quantized_binary_op_scale_normalization", ((3, 5), I8), ((3, 5), I8))
def scales_far_apart(x, y):
    return quantize(mb.add(x=dequantize(x, 70000.0), y=dequantize(y, 0.5)), 70000.0)


@case("distributive_quantized_binary_op_scale_normalization", ((3, 5), I8), ((3, 5), I8))
def two_scales_per_channel(x, y):
    return quantize(mb.add(x=dequantize(x, s(5), axis=1), y=dequantize(y, s(3), axis=0)), 0.5)


# --- constants


def quantized_constants(x):
    for data, scale, zero, axis in (
        (i8(3, 5), np.float32(0.5), None, None),
        (u8(3, 5), s(5), np.uint8([1, 2, 3, 4, 5]), 1),
        (i8(3, 1), s(1), np.int8([3]), 1),
        (RNG.integers(-8, 8, (3, 5), np.int8), s(3), np.int8([0, 0, 0]), 0),
        (RNG.integers(0, 16, (3, 5), np.uint8), np.float32(0.25), np.uint8(7), None),
    ):
        x = mb.add(x=x, y=dequantize(data, scale, zero, axis))
    return mb.relu(x=x)


case("dequantize_to_constexpr", (3, 5))(quantized_constants)
case("dequantize_to_constexpr", (3, 5), target=ct.target.iOS18, name="blockwise")(quantized_constants)


@case("dequantize_to_constexpr", (3, 5))
def constant_result(x):
    return mb.relu(x=x), dequantize(i8(3, 5), 0.5)


def affine(data, scale, zero, axis=0):
    return mb.constexpr_affine_dequantize(quantized_data=data, zero_point=zero, scale=scale, axis=np.int32(axis))


@case("merge_affine_dequantize_with_consecutive_ops", (3, 5), target=ct.target.iOS16)
def moved_constants(x):
    y = affine(i8(1, 5, 3), np.float32(0.5), np.int8(3))
    y = mb.transpose(x=mb.squeeze(x=y, axes=[0]), perm=(1, 0))
    y = mb.expand_dims(x=mb.reshape(x=y, shape=(5, 3)), axes=[0])
    z = mb.transpose(x=affine(u8(5, 3), s(3), np.uint8([1, 2, 3]), 1), perm=(1, 0))
    z = mb.add(x=x, y=mb.transpose(x=mb.transpose(x=z, perm=(1, 0)), perm=(1, 0)))
    return z, mb.matmul(x=x, y=y), mb.expand_dims(x=affine(u8(5, 3), s(3), np.uint8(2), 1), axes=[0])


@case("merge_affine_dequantize_with_consecutive_ops", (3, 5), target=ct.target.iOS16)
def constants_that_stay(x):
    data = mb.const(val=i8(5, 3))
    y = mb.transpose(x=affine(data, np.float32(0.5), np.int8(3)), perm=(1, 0))
    z = mb.reshape(x=affine(data, np.float32(0.25), np.int8(3)), shape=(3, 5))
    v = affine(i8(5, 3), np.float32(0.5), np.int8(3))
    return mb.add(x=mb.add(x=x, y=y), y=z), v, mb.transpose(x=v, perm=(1, 0))


# --- look-up tables


def table(indices, lut):
    bits = types.nptype_from_builtin(types.string_to_builtin("uint1" if lut.shape[-2] == 2 else "uint2"))
    return mb.constexpr_lut_to_dense(indices=indices.astype(bits), lut=lut)


def indices(entries, *shape):
    return RNG.integers(0, entries, shape, np.uint8)


def scaled(data, scale, offset=None):
    return mb.constexpr_blockwise_shift_scale(data=data, scale=scale, offset=offset)


@case("canonicalize_quantized_lut_pattern", (5, 2), target=ct.target.iOS18)
def tables_of_integers(x):
    a = scaled(table(indices(4, 3, 2), i8(1, 1, 4, 1)), s(1, 1), np.int8([[3]]))
    b = scaled(table(indices(2, 8, 2), i8(4, 1, 2, 1)), s(8, 1))
    c = scaled(table(indices(2, 8, 2), i8(4, 2, 2, 1)), s(2, 1), np.int8([[3], [4]]))
    d = scaled(i8(3, 2), s(3, 1))
    return [mb.linear(x=x, weight=v) for v in (a, b, c, d)]


@case("canonicalize_quantized_lut_pattern", (5, 2), target=ct.target.iOS18)
def tables_that_stay(x):
    a = table(indices(4, 3, 2), i8(1, 1, 4, 1))
    b = scaled(table(indices(2, 6, 2), i8(2, 1, 2, 1)), s(3, 1))
    c = table(indices(2, 4, 2), scaled(i8(1, 1, 2, 1), s(1, 1, 1, 1)))
    return [mb.linear(x=x, weight=v) for v in (scaled(a, s(3, 1)), scaled(a, s(3, 1)), b, c)]


@case("canonicalize_quantized_lut_pattern", (5, 2), target=ct.target.iOS26, packages=False)
def tables_of_integers_since(x):
    a = table(indices(4, 3, 2), scaled(i8(1, 1, 4, 1), s(1, 1, 1, 1), i8(1, 1, 1, 1)))
    b = scaled(table(indices(4, 3, 2), i8(1, 1, 4, 1)), s(1, 1))
    return [mb.linear(x=x, weight=v) for v in (a, b)]


@case("reorder_lut_per_channel_scale", (7, 5, 2), target=ct.target.iOS18)
def scaled_products(x):
    a = scaled(table(indices(2, 3, 2), w(1, 1, 2, 1)), s(3, 1))
    b = scaled(table(indices(2, 2, 3), w(1, 1, 2, 1)), s(1, 3))
    c = scaled(table(indices(2, 3, 5), w(1, 1, 2, 1)), s(3, 1), np.zeros((3, 1), np.float32))
    y = mb.linear(x=x, weight=a, bias=w(3)), mb.linear(x=mb.relu(x=x), weight=a, bias=w(3))
    return *y, mb.matmul(x=x, y=b), mb.matmul(x=c, y=x)


@case("reorder_lut_per_channel_scale", (7, 5, 2), target=ct.target.iOS18, packages=False)
def scaled_transposed_products(x):
    """In an imported program, coremltools does not see that the product is transposed."""
    a = scaled(table(indices(2, 3, 2), w(1, 1, 2, 1)), s(3, 1))
    b = scaled(table(indices(2, 5, 3), w(1, 1, 2, 1)), s(1, 3))
    return mb.matmul(x=x, y=a, transpose_y=True), mb.matmul(x=b, y=x, transpose_x=True)


@case("reorder_lut_per_channel_scale", (1, 2, 5, 7), target=ct.target.iOS18)
def scaled_convolutions(x):
    a = scaled(table(indices(2, 3, 2, 1, 3), w(1, 1, 1, 1, 2, 1)), s(3, 1, 1, 1))
    b = scaled(table(indices(2, 3, 2, 1, 1), w(1, 1, 1, 1, 2, 1)), s(1, 1, 1, 1))
    return mb.conv(x=x, weight=a, bias=w(3)), mb.conv(x=x, weight=b)


@case("reorder_lut_per_channel_scale", (7, 5, 2), target=ct.target.iOS18)
def scales_that_stay(x):
    a = scaled(table(indices(2, 3, 2), w(1, 1, 2, 1)), s(1, 2))
    b = scaled(table(indices(2, 3, 2), w(1, 1, 2, 1)), s(3, 1), np.ones((3, 1), np.float32))
    c = scaled(table(indices(2, 3, 2), w(1, 1, 2, 1)), s(3, 1))
    d = scaled(table(indices(2, 2, 2), w(1, 1, 2, 1)), s(1, 1))
    y = [mb.linear(x=x, weight=v) for v in (a, b, c, d)]
    return (*y, mb.relu(x=c), mb.matmul(x=x, y=d))


# --- precision


@case("add_fp16_cast", (3, 5), (5,))
def arithmetic(x, y):
    a = mb.add(x=x, y=y)
    b = mb.mul(x=a, y=np.float32([1, 1e-9, -1e-9, 0, 65504]))
    c = mb.maximum(x=b, y=np.float32([1, -np.inf, 2, 3, 4]))
    return mb.concat(values=(a, b, a, c), axis=0), mb.add(x=x, y=np.float32(70000)), mb.shape(x=a)


@case("add_fp16_cast", (3, 5), name="older", target=ct.target.iOS15)
@case("add_fp16_cast", (3, 5), name="newer", target=ct.target.iOS18)
def slopes(x):
    y = mb.rsqrt(x=mb.exp(x=mb.elu(x=mb.leaky_relu(x=x, alpha=0.1), alpha=0.3)), epsilon=1e-6)
    return mb.linear_activation(x=mb.log(x=y, epsilon=1e-6), alpha=0.5, beta=1e-3)


@case("add_fp16_cast", (3, 5), ((1,), types.bool))
def branches(x, p):
    p, y = mb.squeeze(x=p), mb.square(x=x)

    def yes():
        return mb.add(x=mb.relu(x=y), y=mb.exp(x=y))

    def no():
        return mb.identity(x=y)

    v, i = mb.topk(x=mb.cond(pred=p, _true_fn=yes, _false_fn=no), k=2, axis=1)
    return v, i, mb.sin(x=y)


@case("add_fp16_cast", (3, 5))
def loops(x):
    def cond(i, a):
        return mb.less(x=mb.reduce_sum(x=a), y=100.0)

    def body(i, a):
        return mb.add(x=i, y=1), mb.mul(x=a, y=mb.exp(x=x))

    i, a = mb.while_loop(_cond=cond, _body=body, loop_vars=(0, mb.abs(x=x)))
    return i, mb.relu(x=a)


@pytest.mark.parametrize("mask", [-3.4028235e38, -1e38, -1e9, -7e4])
@pytest.mark.parametrize("scores", [0.0, -20.0])
@pytest.mark.parametrize("where", ["added", "selected", "multiplied", "stepwise", "kept"])
def test_a_row_that_is_masked_as_a_whole_is_a_mean(where, scores, mask, tmp_path):
    """NaN in half precision, where scores and mask add up to -inf."""
    rows = np.float32([[0] * 5, [1] * 5, [0, 1, 1, 0, 1]])

    def body(x):
        if where == "selected":
            y = mb.select(cond=rows > 0, a=np.float32(mask), b=x)
        elif where == "multiplied":
            y = mb.add(x=x, y=mb.mul(x=mb.sub(x=1.0, y=mb.sub(x=1.0, y=mb.mul(x=mb.sigmoid(x=x), y=rows))), y=mask))
        else:
            y = mb.add(x=x, y=rows * np.float32(mask), name="masked")
        if where != "stepwise":
            return mb.softmax(x=y, axis=-1)
        e = mb.exp(x=mb.sub(x=y, y=mb.reduce_max(x=y, axes=[-1], keep_dims=True)))
        return mb.real_div(x=e, y=mb.reduce_sum(x=e, axes=[-1], keep_dims=True))

    prog = passes.build(body, [(3, 5)], ct.target.iOS17)
    options = {"skip_ops_by_type": "add"} if where == "kept" else {}
    x = np.full((3, 5), scores, np.float32)
    before, after = tmp_path / "before.mlpackage", tmp_path / "after.mlpackage"
    programs.save(prog, before, ct.target.iOS17)
    for how in ({}, {"calibration": [{"x": x}]}):
        coreml.optimize(before, after, passes=["add_fp16_cast"], options={"add_fp16_cast": options}, **how)
        (single,) = coreml.load(before).run({"x": x}).values()
        (half,) = coreml.load(after).run({"x": x}).values()
        assert np.isfinite(single).all()
        np.testing.assert_allclose(half, single, atol=2e-3)
        assert how or coreml.load(after).op_counts()["cast"] >= 2


def test_a_mask_from_outside_keeps_single_precision_where_runs_show_it(tmp_path):
    def body(x, mask):
        return mb.softmax(x=mb.add(x=x, y=mask, name="masked"), axis=-1, name="shares")

    before, after = tmp_path / "before.mlpackage", tmp_path / "after.mlpackage"
    programs.save(passes.build(body, [(2, 5), (2, 5)], ct.target.iOS17), before, ct.target.iOS17)
    inputs = {"x": np.zeros((2, 5), np.float32), "mask": np.full((2, 5), np.finfo(np.float32).min)}
    report = coreml.fp16_report(before, [inputs])
    assert {op["name"]: op["verdict"] for op in report["ops"]} == {"masked": "overflows", "shares": "overflows"}
    coreml.optimize(before, after, passes=["add_fp16_cast"], calibration=[inputs])
    (half,) = coreml.load(after).run(inputs).values()
    np.testing.assert_allclose(half, 0.2)


@case("add_int16_cast", (3, 5), ((2,), types.int32))
def gathers(x, i):
    a = mb.gather(x=x, indices=np.int32([1, 2]), axis=0)
    b = mb.gather(x=x, indices=np.int32([-1, 0]), axis=1)
    c = mb.gather(x=x, indices=i, axis=0)
    d = mb.gather(x=np.arange(70000, 70005, dtype=np.int32), indices=i, axis=0)
    e = mb.gather_along_axis(x=mb.expand_dims(x=i, axes=[0]), indices=mb.expand_dims(x=i, axes=[0]), axis=1)
    return a, b, c, mb.squeeze(x=mb.expand_dims(x=d, axes=[0]), axes=[0]), e, mb.gather_nd(x=x, indices=i)


@case("add_int16_cast", (3, 5), ((2,), types.int32))
def sizes_and_places(x, i):
    s = mb.shape(x=x)
    rows, columns = mb.gather(x=s, indices=0, axis=0), mb.gather(x=s, indices=1, axis=0)
    values, places = mb.topk(x=x, k=2, axis=-1)
    return mb.add(x=rows, y=columns), values, mb.add(x=places, y=1), mb.gather(x=i, indices=np.int32([1]), axis=-1)


@case("add_int16_cast", (3, 5), ((2,), types.int32), name="older", target=ct.target.iOS16)
@case("add_int16_cast", (40000,), ((2,), types.int32), name="far")
def computed_indices(x, i):
    return mb.gather(x=x, indices=i, axis=0), mb.gather(x=i, indices=np.int32([1]), axis=0)


@pytest.mark.parametrize("pass_name", ["add_fp16_cast", "add_int16_cast"])
@pytest.mark.parametrize("target", [ct.target.iOS16, ct.target.iOS18])
def test_casts_around_every_op(pass_name, target):
    """The same ops, the same names."""

    def named(one):
        return one.name.replace("_cast_uint16", "_cast_int16")  # release 9.0: named after the last operand it examined

    def told(prog):
        ops = prog.functions["main"].operations
        return [(op.op_type, named(op), [named(v) for v in op.outputs]) for op in ops if op.op_type != "const"]

    for one in programs.CASES:
        if (
            not one.since <= int(target) <= one.until or one.tag == "vector"
        ):  # matmul on a vector: coremltools' type is wrong
            continue
        first, second = memory.twice(programs.rng, lambda one=one: programs.build(one, target))
        memory.theirs(first, pass_name)
        coreml.apply_pass(second, pass_name)
        assert told(second) == told(first), one.op
        assert passes.same(passes.canonical(second), passes.canonical(first)), f"{second}\n{first}"


@pytest.mark.parametrize("name", list(programs.NETWORKS))
def test_casts_in_networks(name):
    build, _ = programs.NETWORKS[name]
    for pass_name in ("add_fp16_cast", "add_int16_cast"):
        first, second = memory.twice(programs.rng, build)
        memory.theirs(first, pass_name)
        coreml.apply_pass(second, pass_name)
        assert passes.same(passes.canonical(second), passes.canonical(first)), f"{second}\n{first}"
        second.validate()


def test_casts_of_symbolic_sizes():
    def build():
        symbol = get_new_symbol()

        @mb.program(input_specs=[mb.TensorSpec(shape=(symbol, 3))], opset_version=ct.target.iOS17)
        def prog(x):
            rows = mb.gather(x=mb.shape(x=x), indices=0, axis=0)
            return mb.reshape(x=mb.relu(x=x), shape=mb.concat(values=(3, rows), axis=0))

        return prog

    for pass_name in ("add_fp16_cast", "add_int16_cast"):
        first, second = memory.twice(programs.rng, build)
        memory.theirs(first, pass_name)
        coreml.apply_pass(second, pass_name)
        assert passes.same(passes.canonical(second), passes.canonical(first)), f"{second}\n{first}"
        ours, theirs = (p.functions["main"].outputs[0].shape for p in (second, first))
        assert [isinstance(d, int) for d in ours] == [isinstance(d, int) for d in theirs]


def activations():
    def body(x):
        a = mb.relu(x=x, name="first")
        return mb.add(x=mb.exp(x=a, name="second"), y=mb.relu(x=mb.sin(x=a), name="third"))

    return passes.build(body, [(3, 5)], ct.target.iOS17)


def test_types_that_stay():
    first, second = memory.twice(RNG, activations)
    theirs = PASS_REGISTRY["common::add_fp16_cast"]
    theirs.set_options([PassOption("skip_ops_by_type", "relu,sin")])
    theirs(first)
    coreml.apply_pass(second, "common::add_fp16_cast", skip_ops_by_type="relu,sin")
    assert passes.same(passes.canonical(second), passes.canonical(first))
    ops = {op.name: op.outputs[0].dtype for op in second.functions["main"].operations}
    assert ops["first"] == types.fp32 and ops["second_cast_fp16"] == types.fp16


def test_names_that_stay(tmp_path):
    source, out = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(activations(), source, ct.target.iOS17)
    options = {"add_fp16_cast.skip_ops": ["second", "third"], "add_fp16_cast.protect": False}
    coreml.optimize(source, out, passes=["add_fp16_cast", "cast_optimization"], options=options)
    text = coreml.load(out).text()
    assert "exp(first_cast_fp16)" not in text and text.count("relu(x_to_fp16)") == 1


def test_integers_that_a_predicate_keeps():
    """add_int16_cast takes coremltools' options: a predicate on ops, and the type of what is computed."""

    def build():
        specs = [mb.TensorSpec((5, 3)), mb.TensorSpec((2,), types.int32)]

        @mb.program(input_specs=specs, opset_version=ct.target.iOS17)
        def prog(x, i):
            return mb.gather(x=x, indices=i, name="a"), mb.gather(x=x, indices=i, axis=1, name="b")

        return prog

    def selector(op):
        return op.name != "a"

    for keep in (selector, None):
        first, second = memory.twice(RNG, build)
        theirs = PASS_REGISTRY["common::add_int16_cast"]
        theirs.set_options([PassOption("op_selector", keep)])
        theirs(first)
        coreml.apply_pass(second, "common::add_int16_cast", op_selector=keep)
        assert passes.same(passes.canonical(second), passes.canonical(first)), f"{second}\n{first}"
    with coreml.native_passes():
        third = build()
        ours = PASS_REGISTRY["common::add_int16_cast"]
        ours.set_options([PassOption("op_selector", selector), PassOption("target_dtype", "uint16")])
        ours(third)
    assert [op.dtype.val for op in third.functions["main"].find_ops(op_type="cast")] == ["uint16"]
    with pytest.raises(ValueError, match="target_dtype must be int16 or uint16"):
        coreml.apply_pass(build(), "add_int16_cast", target_dtype="int8")
    with pytest.raises(ValueError, match="only add_fp16_cast and add_int16_cast"):
        coreml.apply_pass(build(), "noop_elimination", op_selector=selector)


def test_op_selector():
    seen = []

    def selector(op):
        seen.append(op.op_type)
        return op.name != "second" and op.op_type != "sin"

    first, second = memory.twice(RNG, activations)
    FP16ComputePrecision(op_selector=selector).apply(first)
    seen.clear()
    coreml.apply_pass(second, "common::add_fp16_cast", op_selector=selector)
    assert seen == ["relu", "exp", "sin", "relu", "add"]
    assert passes.same(passes.canonical(second), passes.canonical(first))
    with pytest.raises(TypeError, match="op_selector"):
        coreml.apply_pass(activations(), "add_fp16_cast", op_selector="relu")
    with pytest.raises(ValueError, match="not both"):
        coreml.apply_pass(activations(), "add_fp16_cast", op_selector=selector, skip_ops_by_type="relu")
    with pytest.raises(ValueError, match="only add_fp16_cast"):
        coreml.apply_pass(activations(), "noop_elimination", op_selector=selector)


@pytest.mark.parametrize("name", list(programs.NETWORKS))
@pytest.mark.parametrize("chosen", [False, True])
def test_convert_to_half_precision(name, chosen):
    build, target = programs.NETWORKS[name]
    precision = FP16ComputePrecision(op_selector=lambda op: op.op_type != "softmax") if chosen else ct.precision.FLOAT16

    def convert(prog):
        mb.name_count.clear()
        with programs.quiet():
            return ct.convert(
                prog,
                convert_to="mlprogram",
                minimum_deployment_target=target,
                compute_precision=precision,
                skip_model_load=True,
            )._mil_program

    first, second = memory.twice(programs.rng, build)
    first = convert(first)
    with coreml.native_passes():
        second = convert(second)
    assert passes.same(passes.canonical(second, ordered=False), passes.canonical(first, ordered=False)), (
        f"{second}\n{first}"
    )


# --- ops that half precision breaks


def steep(tmp_path):
    """exp overflows half precision from 11.1 on, the product of small numbers vanishes, the sum is beyond 65504 always."""

    def body(x):
        a = mb.exp(x=mb.relu(x=x, name="positive"), name="grown")
        b = mb.sigmoid(x=x, name="bounded")
        c = mb.mul(x=mb.mul(x=b, y=1e-4, name="small"), y=1e-4, name="tiny")
        d = mb.add(x=mb.add(x=b, y=60000.0, name="large"), y=60000.0, name="huge")
        return mb.log(x=a, name="back"), mb.mul(x=c, y=1e8, name="risen"), mb.tanh(x=d, name="one")

    path = tmp_path / "steep.mlpackage"
    programs.save(passes.build(body, [(3, 5)], ct.target.iOS17), path, ct.target.iOS17)
    return path


def test_fp16_report(tmp_path):
    path = steep(tmp_path)
    by_bounds = coreml.fp16_report(path, runs=0)
    assert by_bounds["runs"] == 0
    verdicts = {op["name"]: op["verdict"] for op in by_bounds["ops"]}
    assert verdicts.pop("huge") == verdicts.pop("one") == "overflows"
    assert verdicts.pop("tiny") == verdicts.pop("risen") == "vanishes"
    assert set(verdicts.values()) == {"unknown"} and set(verdicts) == {"positive", "grown", "bounded", "back"}

    x = np.linspace(-1, 12, 15, dtype=np.float32).reshape(3, 5)
    report = coreml.fp16_report(path, [{"x": x - 2}, [x]])
    found = {op["name"]: op for op in report["ops"]}
    assert set(found) == {"grown", "back", "huge", "one", "tiny", "risen"} and report["runs"] == 2
    assert found["grown"]["seen"] and found["grown"]["verdict"] == "overflows" and found["grown"]["value"] == "grown"
    assert found["grown"]["high"] == pytest.approx(np.exp(12.0)) and found["grown"]["low"] == 1
    assert report["ranges"]["x"][:2] == (-3, 12) and report["ranges"]["positive"][:2] == (0, 12)
    assert report["ranges"]["positive"][2] == min(v for run in (x - 2, x) for v in run.flat if v > 0)
    assert report["safe"] + len(found) == len(by_bounds["ops"]) + by_bounds["safe"]
    with pytest.raises(ValueError, match="input 'x' is missing"):
        coreml.fp16_report(path, [{}])


def test_fp16_report_on_several_functions(tmp_path):
    """Inputs fit functions with their sizes. Other functions use the values seen under the same names."""
    width = programs.get_new_symbol()

    @mb.program(input_specs=[mb.TensorSpec(shape=(2, width))], opset_version=ct.target.iOS18)
    def prog(x):
        return mb.log(x=mb.exp(x=x, name="grown"), name="back")

    sizes = {"of_3": {"x": [2, 3]}, "of_7": {"x": [2, 7]}}
    coreml.apply_pass(prog, "materialize_symbolic_shape_program", function_name_to_materialization_map=sizes)
    prog.default_function_name = "main"
    path = tmp_path / "several.mlpackage"
    programs.save(prog, path, ct.target.iOS18)
    report = coreml.fp16_report(path, [{"x": np.full((2, 3), 12, np.float32)}])
    grown = [(op["function"], op["verdict"], op["seen"]) for op in report["ops"] if op["name"] == "grown"]
    assert grown == [(name, "overflows", True) for name in ("main", "of_3", "of_7")]
    assert report["runs"] == 1
    bounds = coreml.fp16_report(path, runs=0)
    assert {op["function"] for op in bounds["ops"]} == {"main", *sizes}
    told = command.sardonyx("compare", path, "--precision", "f16", "--calibrate", write_inputs(tmp_path)).stdout
    assert "of_7: exp 'grown'" in told and "main: exp 'grown'" in told


def write_inputs(folder):
    np.savez(folder / "inputs.npz", x=np.full((2, 3), 12, np.float32))
    return folder / "inputs.npz"


def kept(path):
    """The ops that compute in single precision."""
    ops = passes.load(path).functions["main"].operations
    return {op.name for op in ops if op.op_type not in ("const", "cast") and op.outputs[0].dtype == types.fp32}


def test_only_what_does_not_fit_stays(tmp_path):
    path, out = steep(tmp_path), tmp_path / "out.mlpackage"
    x = np.linspace(-1, 12, 15, dtype=np.float32).reshape(3, 5)
    coreml.optimize(path, out, passes=["add_fp16_cast", "cast_optimization"], calibration=[[x]])
    assert kept(out) == {"grown", "back", "huge", "one", "tiny", "risen"}
    expected, found = coreml.load(path).run([x]), coreml.load(out).run([x])
    for name, y in expected.items():
        np.testing.assert_allclose(found[name], y, rtol=2e-3, atol=2e-3)

    coreml.optimize(
        path,
        out,
        passes=["add_fp16_cast", "cast_optimization"],
        options={"add_fp16_cast.skip_ops": "auto", "add_fp16_cast.protect": False},
    )
    assert kept(out) == {"huge", "one", "tiny", "risen"}  # random inputs are small

    prog = passes.load(path)
    ranges = {"grown": (1, 1e5), "huge": (0, 1)}  # observed ranges take precedence over bounds
    coreml.apply_pass(prog, "common::add_fp16_cast", skip_ops="auto", ranges=ranges)
    ops = {op.name for op in prog.functions["main"].operations if op.outputs[0].dtype == types.fp32} - {"x"}
    assert {"grown", "back", "tiny", "risen"} <= ops and "huge" not in ops


def test_fp16_report_on_the_command_line(tmp_path):
    path, x = steep(tmp_path), np.full((3, 5), 11.5, np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    told = command.sardonyx("compare", path, "--precision", "f16", "--calibrate", tmp_path / "x.npz").stdout
    assert "overflows     exp 'grown': 'grown' is from 98715.8 to 98715.8\n" in told and "(1 run)" in told
    report = json.loads(command.sardonyx("compare", path, "--precision", "f16", "--runs", 0, "--json").stdout)[0]
    assert {o["name"] for o in report["ops"] if o["verdict"] == "vanishes"} == {"tiny", "risen"}
    out = tmp_path / "out.mlpackage"
    how = ["--precision", "f16", "--calibrate", tmp_path / "x.npz", "--strict", "--quiet"]
    command.sardonyx("optimize", path, "-o", out, *how)
    text = coreml.load(out).text()
    assert "grown = exp(" in text and "bounded_cast_fp16 = sigmoid(" in text


@pytest.mark.parametrize("name", ["resnet", "transformer", "recurrent"])
def test_the_preset_in_half_precision(name, tmp_path):
    build, target = programs.NETWORKS[name]
    source, out = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(build(), source, target)
    coreml.optimize(source, out, precision="f16", strict=True)
    plain = tmp_path / "plain.mlpackage"
    coreml.optimize(source, plain, strict=True)
    assert coreml.load(out).op_counts().get("cast", 0) > coreml.load(plain).op_counts().get("cast", 0)
    assert coreml.load(out).infer_types() == []
    with pytest.raises(ValueError, match="precision"):
        coreml.optimize(source, out, precision="fp8")


@pytest.mark.parametrize(("pass_name", "fn", "inputs", "target"), ON_PACKAGES)
def test_on_packages(pass_name, fn, inputs, target, tmp_path):
    passes.test_a_pass_does_what_coremltools_does(pass_name, fn, inputs, target, tmp_path)


@pytest.mark.parametrize(("pass_name", "fn", "inputs", "target"), CASES)
def test_in_memory(pass_name, fn, inputs, target):
    memory.test_as_coremltools_does(pass_name, fn, inputs, target)
