"""More of Core ML's passes beside coremltools' own, on files and in memory; how is in test_coreml_passes.py and test_coreml_memory.py."""

import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
import numpy as np  # noqa: E402
from coremltools.converters.mil import mil  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from coremltools.converters.mil.mil.scope import ScopeInfo, ScopeSource  # noqa: E402
from mil_programs import get_new_symbol, mb, types  # noqa: E402
from sardonyx import coreml  # noqa: E402
from test_coreml_memory import check_in_memory, twice  # noqa: E402
from test_coreml_passes import RNG, canonical, check_on_files, same, w  # noqa: E402

IN_FILES, IN_MEMORY = [], []


def case(pass_name, *inputs, target=ct.target.iOS17, in_files=True, **options):
    """Registers a program: a function of the inputs, which are shapes or (shape, type). Some cannot be written to files."""

    def register(fn):
        one = pytest.param(pass_name, fn, inputs, target, options, id=f"{pass_name}-{fn.__name__}")
        IN_MEMORY.append(one)
        if in_files:
            IN_FILES.append(one)
        return fn

    return register


# --- constants


@case("const_elimination", (2, 3))
def arithmetic(x):
    a = mb.mul(x=mb.add(x=w(3), y=np.float32(2)), y=mb.cast(x=np.arange(3, dtype=np.int32), dtype="fp32"))
    return mb.add(x=x, y=mb.expand_dims(x=mb.softmax(x=a, axis=0), axes=[0]))


@case("const_elimination", (2, 3, 5))
def sizes(x):
    shape = mb.shape(x=x)
    rows = mb.mul(x=mb.gather(x=shape, indices=0, axis=0), y=mb.gather(x=shape, indices=1, axis=0))
    last = mb.slice_by_index(x=shape, begin=[2], end=[3])
    return mb.reshape(x=x, shape=mb.concat(values=(mb.expand_dims(x=rows, axes=[0]), last), axis=0))


@case("const_elimination", (2, 3))
def result_without_inputs(x):
    return mb.relu(x=x), mb.matmul(x=w(2, 3), y=w(3, 5), name="constant")


@case("const_elimination", (2, 3))
def not_folded(x):
    y = mb.conv(x=w(1, 2, 5), weight=w(3, 2, 1))
    return mb.add(x=x, y=mb.reduce_sum(x=y, axes=[0, 1, 2], keep_dims=False)), mb.silu(x=w(2, 3))


@case("const_elimination", (2, 3), (2, 3))
def in_blocks(x, y):
    p = mb.greater(x=mb.reduce_sum(x=x, axes=[0, 1], keep_dims=False), y=mb.exp(x=np.float32(0.5)))
    return mb.cond(
        pred=p, _true_fn=lambda: mb.mul(x=y, y=mb.sin(x=w(3))), _false_fn=lambda: mb.add(x=y, y=mb.square(x=w(2, 3)))
    )


@case("const_elimination", (30, 40))
def large(x):
    return mb.add(x=x, y=mb.transpose(x=mb.tile(x=w(40, 15), reps=[1, 2]), perm=[1, 0]))


@case("const_elimination", (30, 40), skip_const_by_size=1e2)
def too_large(x):
    big = mb.tile(x=w(40, 15), reps=[1, 2])
    return mb.add(x=x, y=mb.transpose(x=big, perm=[1, 0])), mb.slice_by_index(x=big, begin=[0, 0], end=[1, 30])


@case("const_elimination", (30,), skip_const_by_size=30)
def not_too_large(x):
    return mb.add(x=x, y=mb.exp(x=w(30))), mb.add(x=w(31), y=w(31))


# --- shapes


def column(x, at):
    begin, end = [0, 0, 0, at], [0, 0, 0, at + 1]
    return mb.slice_by_index(x=x, begin=begin, end=end, end_mask=[True, True, True, False])


@case("use_reflection_padding", (1, 2, 5, 7))
def columns_reflected(x):
    return mb.concat(values=(column(x, 2), column(x, 1), x, column(x, -2), column(x, -3)), axis=3)


@case("use_reflection_padding", (1, 2, 5, 7))
def rows_reflected(x):
    mask = [True, True, False, True]
    first = mb.slice_by_index(x=x, begin=[0, 0, 1, 0], end=[0, 0, 2, 0], end_mask=mask)
    last = mb.slice_by_index(x=x, begin=[0, 0, 3, 0], end=[0, 0, 4, 0], end_mask=mask)
    return mb.relu(x=mb.concat(values=(first, x, last), axis=-2))


@case("use_reflection_padding", (1, 2, 5, 7))
def columns_not_reflected(x):
    wrapped = mb.concat(values=(column(x, -2), x, column(x, 1)), axis=3)
    return wrapped, mb.concat(values=(column(x, 1), column(x, 2), x), axis=3)


@case("expand_high_rank_reshape_and_transpose", (2, 3, 70), in_files=False)
def rank_six_in_groups(x):
    y = mb.transpose(x=mb.reshape(x=x, shape=(1, 2, 3, 2, 5, 7)), perm=(4, 5, 3, 2, 0, 1))
    return mb.reshape(x=y, shape=(35, 6, 2))


@case("expand_high_rank_reshape_and_transpose", (6, 10, 6), in_files=False)
def rank_six_by_steps(x):
    y = mb.transpose(x=mb.reshape(x=x, shape=(2, 3, 2, 5, 2, 3)), perm=(4, 0, 5, 2, 1, 3))
    return mb.relu(x=mb.reshape(x=y, shape=(4, 6, -1)))


@case("expand_high_rank_reshape_and_transpose", (6, 10, 6), in_files=False)
def rank_six_returned(x):
    y = mb.transpose(x=mb.reshape(x=x, shape=(2, 3, 2, 5, 2, 3)), perm=(4, 0, 5, 2, 1, 3))
    return mb.reshape(x=y, shape=(4, 6, -1)), y


# --- normalization


def centred(x, axes):
    mean = mb.reduce_mean(x=x, axes=axes, keep_dims=True)
    return mean, mb.sub(x=x, y=mean)


def inverse_deviation(difference, axes, squared=mb.square):
    variance = mb.reduce_mean(x=squared(x=difference), axes=axes, keep_dims=True)
    return mb.rsqrt(x=mb.add(x=variance, y=np.float32(1e-5)))


def pattern_1(x, axes, gamma, beta):
    mean, difference = centred(x, axes)
    factor = mb.mul(x=inverse_deviation(difference, axes), y=gamma)
    shift = mb.sub(x=beta, y=mb.mul(x=mean, y=factor))
    return mb.add(x=mb.mul(x=x, y=factor), y=shift)


def positive(*shape):
    return np.abs(w(*shape)) + 0.5


@case("fuse_layernorm_or_instancenorm", (2, 3, 5))
def layer_norm_over_one_axis(x):
    return pattern_1(x, [-1], positive(5), w(5))


@case("fuse_layernorm_or_instancenorm", (2, 3, 5))
def layer_norm_over_two_axes(x):
    return mb.relu(x=pattern_1(x, [1, 2], positive(3, 5), w(3, 5)))


@case("fuse_layernorm_or_instancenorm", (2, 3, 5, 7))
def instance_norm(x):
    return pattern_1(x, [2, 3], positive(1, 3, 1, 1), w(3, 1, 1))


@case("fuse_layernorm_or_instancenorm", (2, 5, 7, 3))
def instance_norm_channels_last(x):
    return mb.relu(x=pattern_1(x, [1, 2], positive(3), w(1, 1, 1, 3)))


@case("fuse_layernorm_or_instancenorm", (2, 3, 5))
def no_norm_over_the_middle(x):
    return pattern_1(x, [1], positive(3, 1), w(3, 1))


@case("fuse_layernorm_or_instancenorm", (2, 3, 5, 7))
def instance_norm_with_power(x):
    mean = mb.reduce_mean(x=x, axes=[2, 3], keep_dims=True)
    first, second = mb.sub(x=x, y=mean), mb.sub(x=x, y=mean)
    variance = mb.reduce_mean(x=mb.square(x=first), axes=[2, 3], keep_dims=True)
    deviation = mb.pow(x=mb.add(x=variance, y=np.float32(1e-5)), y=np.float32(0.5))
    scaled = mb.mul(x=mb.real_div(x=second, y=deviation), y=positive(3, 1, 1))
    return mb.add(x=scaled, y=w(3, 1, 1))


@case("fuse_layernorm_or_instancenorm", (2, 3, 5, 7))
def instance_norm_of_tensorflow_addons(x):
    mean, difference = centred(x, [2, 3])
    inverse = inverse_deviation(difference, [2, 3])
    return mb.add(x=mb.mul(x=x, y=inverse), y=mb.mul(x=mb.mul(x=mean, y=inverse), y=np.float32(-1)))


@case("fuse_layernorm_or_instancenorm", (2, 3, 5, 7))
def instance_norm_from_sums(x):
    square = mb.mul(x=x, y=x)
    mean = mb.mul(x=mb.reduce_sum(x=x, axes=[2, 3], keep_dims=True), y=np.float32(1 / 35))
    squares = mb.mul(x=mb.reduce_sum(x=square, axes=[2, 3], keep_dims=True), y=np.float32(1 / 35))
    variance = mb.sub(x=squares, y=mb.mul(x=mean, y=mean))
    factor = mb.mul(x=mb.rsqrt(x=mb.add(x=variance, y=np.float32(1e-5))), y=positive(3, 1, 1))
    scaled = mb.mul(x=x, y=factor)
    return mb.add(x=scaled, y=mb.sub(x=w(3, 1, 1), y=mb.mul(x=mean, y=factor)))


@case("fuse_layernorm_or_instancenorm", (2, 3, 1, 7))
def layer_norm_of_ane_transformers(x):
    _, difference = centred(x, [1])
    y = mb.mul(x=difference, y=inverse_deviation(difference, [1], lambda x: mb.mul(x=x, y=x)))
    return mb.sub(x=mb.mul(x=mb.add(x=y, y=w(1, 3, 1, 1)), y=positive(1, 3, 1, 1)), y=x)


@case("fuse_layernorm_or_instancenorm", (2, 3, 1, 7))
def layer_norm_of_ane_transformers_alone(x):
    _, difference = centred(x, [1])
    return mb.mul(x=difference, y=inverse_deviation(difference, [1], lambda x: mb.mul(x=x, y=x)))


@case("fuse_layernorm_or_instancenorm", (2, 3, 1, 7))
def layer_norm_of_ane_transformers_and_an_addition(x):
    _, difference = centred(x, [1])
    return mb.add(
        x=mb.mul(x=difference, y=inverse_deviation(difference, [1], lambda x: mb.mul(x=x, y=x))), y=w(1, 3, 1, 1)
    )


# --- transposes

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@case("fuse_layernorm_or_instancenorm", (2, 3, 1, 7))
def layer_norm_of_ane_transformers_that_is_added_later(x):
    _, difference = centred(x, [1])
    y = mb.mul(x=difference, y=inverse_deviation(difference, [1], lambda x: mb.mul(x=x, y=x)))
    return mb.relu(x=y), mb.add(x=y, y=x)


@case("fuse_layernorm_or_instancenorm", (2, 3, 1, 7))
def layer_norm_of_ane_transformers_with_one_beta(x):
    _, difference = centred(x, [1])
    y = mb.mul(x=difference, y=inverse_deviation(difference, [1], lambda x: mb.mul(x=x, y=x)))
    return mb.mul(x=mb.add(x=y, y=w(1, 1, 1, 1)), y=w(3, 1, 1))


BATCH = get_new_symbol()


@case("replace_stack_reshape", (BATCH, 5, 3), (BATCH, 5, 3), in_files=False)
def stack_along_a_symbolic_axis(x, y):
    return mb.relu(x=mb.reshape(x=mb.stack(values=(x, y), axis=0), shape=(-1, 5, 3)))


@case("use_reflection_padding", (1, 2, 5, BATCH), in_files=False)
def rows_of_a_symbolic_size_reflected(x):
    mask = [True, True, False, True]
    first = mb.slice_by_index(x=x, begin=[0, 0, 1, 0], end=[0, 0, 2, 0], end_mask=mask)
    last = mb.slice_by_index(x=x, begin=[0, 0, -2, 0], end=[0, 0, -1, 0], end_mask=mask)
    return mb.relu(x=mb.concat(values=(first, x, last), axis=2))


@case("reduce_transposes", (2, 3, 5, 7))
def through_ops(x):
    y = mb.transpose(x=x, perm=TO_LAST)
    y = mb.mul(x=mb.relu(x=y), y=w(3))
    y = mb.pad(x=mb.add(x=y, y=w(5, 1, 1)), pad=[1, 2, 0, 0, 0, 0])
    return mb.transpose(x=mb.reduce_mean(x=y, axes=[-2], keep_dims=True), perm=TO_FIRST)


@case("reduce_transposes", (2, 3, 5, 7), (2, 3, 5, 7))
def joined_and_split(x, y):
    x, y = mb.transpose(x=x, perm=TO_LAST), mb.transpose(x=mb.tanh(x=y), perm=TO_LAST)
    both = mb.concat(values=(x, y, w(2, 5, 7, 2)), axis=3)
    first, second = mb.split(x=both, split_sizes=[5, 3], axis=-1)
    return mb.transpose(x=first, perm=TO_FIRST), mb.transpose(x=second, perm=TO_FIRST)


@case("reduce_transposes", (2, 3, 5, 7), (3,))
def reshaped_operand(x, y):
    z = mb.add(x=y, y=mb.transpose(x=x, perm=TO_LAST))
    return mb.transpose(x=z, perm=TO_FIRST)


@case("reduce_transposes", (2, 3, 5, 7))
def needed_elsewhere(x):
    y = mb.relu(x=mb.transpose(x=x, perm=TO_LAST))
    z = mb.transpose(x=mb.sigmoid(x=y), perm=TO_FIRST)
    return mb.softmax(x=y, axis=1), mb.exp(x=z, name="z"), mb.tanh(x=z)


@case("reduce_transposes", (2, 3, 5, 7))
def needed_too_often(x):
    y = mb.transpose(x=x, perm=TO_LAST)
    return mb.softmax(x=y, axis=1), mb.softmax(x=y, axis=2), mb.exp(x=mb.transpose(x=y, perm=TO_FIRST))


@case("reduce_transposes", (2, 4, 3, 5), (2, 4, 3, 5))
def attention(q, k):
    q, k = (mb.mul(x=mb.transpose(x=v, perm=(0, 2, 1, 3)), y=np.float32(0.5)) for v in (q, k))
    return mb.softmax(x=mb.matmul(x=q, y=k, transpose_y=True), axis=-1)


@case("reduce_transposes", (2, 3, 5, 7))
def an_input_returned(x):
    return mb.transpose(x=mb.transpose(x=x, perm=TO_LAST), perm=TO_FIRST)


@pytest.mark.parametrize(("pass_name", "fn", "inputs", "target", "options"), IN_FILES)
def test_on_files(pass_name, fn, inputs, target, options, tmp_path):
    check_on_files(pass_name, fn, inputs, target, tmp_path, options)


@pytest.mark.parametrize(("pass_name", "fn", "inputs", "target", "options"), IN_MEMORY)
def test_in_memory(pass_name, fn, inputs, target, options):
    check_in_memory(pass_name, fn, inputs, target, options)


def reshaped(*shape, keep):
    """The shape is concatenated from known and unknown sizes."""

    def build():
        symbols = [get_new_symbol() if d is None else d for d in shape]

        @mb.program(input_specs=[mb.TensorSpec(shape=symbols)], opset_version=ct.target.iOS17)
        def prog(x):
            first = mb.slice_by_index(x=mb.shape(x=x), begin=[0], end=[keep])
            target = mb.concat(values=(first, np.array([2, 3], np.int32)), axis=0)
            return mb.reshape(x=mb.relu(x=x), shape=target, name="y")

        return prog

    return build


@pytest.mark.parametrize("shape", [(None, 6), (5, 6)])
def test_symbolic_shapes(shape):
    first, second = twice(RNG, reshaped(*shape, keep=1))
    with programs.quiet():
        PASS_REGISTRY["common::remove_symbolic_reshape"](first)
        PASS_REGISTRY["common::dead_code_elimination"](first)
    coreml.apply_pass(second, "common::remove_symbolic_reshape")
    coreml.apply_pass(second, "common::dead_code_elimination")
    second.validate()
    ours, theirs = (p.functions["main"].find_ops(op_type="reshape")[0] for p in (second, first))
    assert same(canonical(second), canonical(first)), f"{second}\n{first}"
    assert (ours.shape.val is None) == (theirs.shape.val is None)
    assert ours.shape.val is None or list(ours.shape.val) == list(theirs.shape.val)
    assert ours.name == theirs.name and ours.shape.name == theirs.shape.name


def test_two_symbols_are_an_error_by_name_and_left_alone_in_pipelines():
    build = reshaped(None, None, 6, keep=2)
    with pytest.raises(ValueError, match="more than one symbolic size"):
        coreml.apply_pass(build(), "common::remove_symbolic_reshape")
    prog = build()
    with coreml.native_passes():
        PASS_REGISTRY["common::remove_symbolic_reshape"](prog)
    assert [op.op_type for op in prog.functions["main"].find_ops(op_type="reshape")] == ["reshape"]
    assert prog.functions["main"].find_ops(op_type="concat")


@pytest.mark.parametrize(("keys", "left"), [((None, None), 1), (("a", "a"), 1), (("a", "b"), 2), (("a", None), 2)])
def test_weights_of_other_keys_stay_apart(keys, left):
    weight = w(40, 30)

    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 30))], opset_version=ct.target.iOS17)
    def prog(x):
        first, second = mb.linear(x=x, weight=weight), mb.linear(x=x, weight=weight.copy())
        for y, key in zip((first, second), keys, strict=True):
            y.op.weight.op.weight_key = key
        return first, second

    coreml.apply_pass(prog, "common::const_deduplication")
    assert len({id(op.weight) for op in prog.functions["main"].find_ops(op_type="linear")}) == left


def test_options_that_are_attributes_of_the_pass():
    def build():
        @mb.program(input_specs=[mb.TensorSpec(shape=(7,))], opset_version=ct.target.iOS17)
        def prog(x):
            return mb.add(x=x, y=mb.exp(x=w(7)))

        return prog

    kept, folded = build(), build()
    with coreml.native_passes():
        native = PASS_REGISTRY["common::const_elimination"]
        native.skip_const_by_size = "6"
        native(kept)
        PASS_REGISTRY["common::const_elimination"](folded)
    assert kept.functions["main"].find_ops(op_type="exp") and not folded.functions["main"].find_ops(op_type="exp")


def test_what_else_callers_use_of_a_pass_is_there():
    weight = w(20, 10)

    def function(x):
        return mb.add(x=mb.linear(x=x, weight=weight), y=mb.linear(x=x, weight=weight.copy()))

    prog = mil.Program()
    one, two = (mb.function(input_specs=[mb.TensorSpec(shape=(2, 10))])(function) for _ in range(2))
    for name, f in {"one": one, "two": two, "once_more": one}.items():
        prog.add_function(name, f)
    with coreml.native_passes():
        PASS_REGISTRY["common::const_deduplication"]._deduplicate_const_across_functions(prog)
        with pytest.raises(AttributeError):
            _ = PASS_REGISTRY["common::const_deduplication"].no_such_thing
    weights = [{op.weight.op for op in f.find_ops(op_type="linear")} for f in prog.functions.values()]
    assert [len(ops) for ops in weights] == [1, 1, 1]
    assert len({op.weight_id for ops in weights for op in ops}) == 1 and next(iter(weights[0])).weight_id is not None


@pytest.mark.parametrize(("second", "left"), [(False, 1), (True, 2)], ids=["equal", "other"])
def test_constants_narrower_than_a_byte_become_one(second, left):
    mask = RNG.integers(0, 2, (32, 32))
    mask[16, 16:18] = 0, 1
    other = mask.copy()
    if second:  # as many ones, equal at both ends
        other[16, 16:18] = 1, 0
    mask, other = mask.astype(types.np_uint1_dtype), other.astype(types.np_uint1_dtype)
    data = np.arange(int(mask.sum()), dtype=np.int8)

    @mb.program(input_specs=[mb.TensorSpec(shape=(32, 32))], opset_version=ct.target.iOS18)
    def prog(x):
        kept, values = mb.constexpr_sparse_blockwise_shift_scale(
            data_mask=mb.const(val=mask), nonzero_data=data, scale=np.array([[0.1]], dtype=np.float32)
        )
        dense = mb.constexpr_sparse_to_dense(nonzero_data=values, mask=mb.const(val=other))
        return mb.add(x=x, y=dense)

    coreml.apply_pass(prog, "common::const_deduplication")
    ops = prog.functions["main"].operations
    assert len({id(op.mask if "dense" in op.op_type else op.data_mask) for op in ops if "sparse" in op.op_type}) == left


def test_constants_that_blocks_return_are_where_the_op_was():
    @mb.program(input_specs=[mb.TensorSpec(shape=(1,))], opset_version=ct.target.iOS15)
    def prog(x):
        with mb.scope(ScopeInfo(source=ScopeSource.TORCHSCRIPT_MODULE_TYPE, data=["Net"])):
            flag = mb.cast(x=x, dtype="bool")
            return mb.cond(
                pred=flag,
                _true_fn=lambda: mb.add(x=mb.cast(x=mb.shape(x=flag), dtype="fp32"), y=1.0),
                _false_fn=lambda: mb.add(x=mb.cast(x=mb.shape(x=flag), dtype="fp32"), y=-1.0),
            )

    coreml.apply_pass(prog, "common::const_elimination")
    for block in prog.functions["main"].find_ops(op_type="cond")[0].blocks:
        assert block.outputs[0].op.op_type == "const"
        assert block.outputs[0].op.scopes[ScopeSource.TORCHSCRIPT_MODULE_TYPE] == ["Net"]


def test_a_loop_whose_result_and_block_inputs_are_one_variable():
    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 2)), mb.TensorSpec(shape=(1, 2))])
    def prog(a, b):
        return mb.while_loop(
            _cond=lambda a, b: mb.less(x=mb.reduce_sum(x=a, axes=[0, 1]), y=mb.reduce_sum(x=b, axes=[0, 1])),
            _body=lambda a, b: (mb.add(x=a, y=b), mb.mul(x=b, y=2.0)),
            loop_vars=(a, b),
        )

    PASS_REGISTRY["nn_backend::commingle_loop_vars"](prog)
    coreml.apply_pass(prog, "common::dead_code_elimination")
    loop = prog.functions["main"].find_ops(op_type="while_loop")[0]
    assert prog.functions["main"].outputs == list(loop.outputs)
