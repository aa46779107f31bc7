"""Passes that coremltools has outside its guide: same results as its own passes, on packages and in memory."""

import json
from pathlib import Path

import command
import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
import test_coreml_passes as common  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from mil_programs import get_new_symbol, mb, types  # noqa: E402
from sardonyx import coreml  # noqa: E402

PACKAGES, IN_MEMORY = [], []
IOS18 = ct.target.iOS18


def case(pass_name, *inputs, target=ct.target.iOS17, files=True, **options):
    """Registers a program: a function of the inputs, which are shapes or (shape, type)."""

    def register(fn):
        param = pytest.param(pass_name, fn, inputs, target, options, id=f"{pass_name}-{fn.__name__}")
        IN_MEMORY.append(param)
        if files:
            PACKAGES.append(param)
        return fn

    return register


def build(fn, inputs, target):
    specs = [
        i if not isinstance(i, tuple) else mb.TensorSpec(*(i if isinstance(i[0], tuple) else (i, types.fp32)))
        for i in inputs
    ]
    return mb.program(input_specs=specs, opset_version=target)(fn)


# --- stacks, convolutions, gathers


@case("fuse_stack_split", (3, 5), (3, 5), (3, 5))
def stack_and_split(a, b, c):
    p, q, r = mb.split(x=mb.stack(values=(a, b, c), axis=1), num_splits=3, axis=-2)
    # coremltools fails on users before the last squeeze.
    x, y, z = mb.squeeze(x=p, axes=[1], name="x"), mb.squeeze(x=q, axes=[-2]), mb.squeeze(x=r, axes=[1], name="z")
    return x, mb.relu(x=y), z


@case("fuse_stack_split", (3, 5), (3, 5))
def the_stack_stays(a, b):
    s = mb.stack(values=(a, b), axis=0)
    p, q = mb.split(x=s, split_sizes=[1, 1], axis=0)
    return mb.squeeze(x=p, axes=[0]), mb.squeeze(x=q, axes=[0]), mb.relu(x=s)


@case("fuse_stack_split", (3, 5), (3, 5))
def other_pieces(a, b):
    p, q = mb.split(x=mb.stack(values=(a, b), axis=1), split_sizes=[1, 2], axis=0)
    return mb.squeeze(x=p, axes=[0]), q


@case("fuse_dilated_conv", (2, 3, 12, 14))
def without_paddings(x):
    y = mb.space_to_batch(x=x, block_shape=[2, 2], paddings=[[0, 0], [0, 0]])
    y = mb.conv(x=y, weight=common.w(4, 3, 3, 3), bias=common.w(4), pad_type="valid")
    return mb.batch_to_space(x=y, block_shape=[2, 2], crops=[[0, 0], [0, 0]])


@case("fuse_dilated_conv", (2, 3, 11, 13))
def with_paddings(x):
    y = mb.space_to_batch(x=x, block_shape=[3, 3], paddings=[[3, 4], [3, 5]])
    y = mb.conv(x=y, weight=common.w(4, 3, 3, 3), pad_type="valid")
    return mb.relu(x=mb.batch_to_space(x=y, block_shape=[3, 3], crops=[[0, 1], [0, 2]]))


@case("guard_negative_gather_indices", (3, 7, 5), ((2,), types.int32))
def gathers(x, i):
    y = mb.gather(x=x, indices=i, axis=1, name="y")
    return y, mb.gather(x=y, indices=np.int32([0, -1]), axis=-1)


@case("guard_negative_gather_indices", (3, 7, 5), ((11, 2), types.int32))
def gathers_nd(x, i):
    return mb.relu(x=mb.gather_nd(x=x, indices=i))


@case("guard_negative_gather_indices", ((3, 7), types.int32), ((2,), types.int32))
def gathers_of_small_integers(x, i):
    small = mb.gather(x=mb.cast(x=x, dtype="int16"), indices=mb.cast(x=i, dtype="int16"), axis=0)
    unsigned = mb.gather(x=x, indices=mb.cast(x=i, dtype="uint16"), axis=0)
    return mb.cast(x=small, dtype="int32"), unsigned


@case("guard_negative_gather_indices", (3, 7), ((2,), types.int32), target=ct.target.iOS16)
def gathers_before(x, i):
    return mb.gather(x=x, indices=i, axis=0)


# --- states


def state(*shape):
    return mb.StateTensorSpec(shape, types.fp16)


@case("canonicalize_inplace_pattern", state(3), ((3,), types.fp16), ((3,), types.fp16), target=IOS18)
def updates_late(s, x, y):
    a = mb.mul(x=mb.read_state(input=s), y=x)
    b = mb.add(x=a, y=y)
    u = mb.coreml_update_state(state=s, value=a)
    return mb.add(x=b, y=u)


@case("prefer_state_in_downstream", state(3), ((3,), types.fp16), ((3,), types.fp16), target=IOS18)
def reads_what_it_wrote(s, x, y):
    a = mb.mul(x=mb.read_state(input=s), y=x, name="a")
    b = mb.add(x=a, y=x)
    u = mb.coreml_update_state(state=s, value=a)
    return mb.add(x=mb.add(x=a, y=y), y=mb.add(x=b, y=u)), mb.relu(x=a)


@case("prefer_state_in_downstream", state(3), ((3,), types.fp16), target=IOS18)
def returns_what_it_wrote(s, x):
    a = mb.relu(x=x, name="a")
    mb.coreml_update_state(state=s, value=a)
    return a, mb.tanh(x=a)


# --- attention


@case("scaled_dot_product_attention_sliced_q", (1, 2, 7, 5), (1, 2, 11, 5), (1, 2, 11, 3), ((7, 11), types.bool),
      target=IOS18, files=False, min_seq_length=7, seq_length_divider=3)  # fmt: skip
def attention(q, k, v, mask):
    return (
        mb.scaled_dot_product_attention(query=q, key=k, value=v),
        mb.scaled_dot_product_attention(query=q, key=k, value=v, attn_mask=mask),
        mb.scaled_dot_product_attention(query=q, key=k, value=v, attn_mask=common.w(1, 2, 1, 11)),
    )


@case("scaled_dot_product_attention_sliced_q", (1, 2, 7, 5), (1, 2, 11, 5), (1, 2, 11, 3), target=IOS18)
def short_attention(q, k, v):
    return mb.scaled_dot_product_attention(query=q, key=k, value=v)


# --- complex numbers


@case("lower_complex_dialect_ops", (2, 3), (2, 3), files=False)
def parts(a, b):
    c = mb.complex(real_data=a, imag_data=b)
    return mb.complex_real(data=c), mb.complex_imag(data=c), mb.complex_abs(x=c)


@case("lower_complex_dialect_ops", (5, 3), (5, 3), files=False)
def transforms(a, b):
    c = mb.complex_fft(data=a)
    d = mb.complex_fft(data=mb.complex(real_data=a, imag_data=b), n=2, dim=0, norm="ortho")
    e = mb.complex_ifft(data=d, n=7, dim=1)
    f = mb.complex_ifft(data=c, norm="forward")
    return mb.complex_real(data=c), mb.complex_imag(data=e), mb.complex_real(data=f)


@case("lower_complex_dialect_ops", (2, 7), files=False)
def halves(a):
    c = mb.complex_rfft(data=a, norm="forward")
    d = mb.complex_rfft(data=a, n=10)
    return (
        mb.complex_irfft(data=c, n=7),
        mb.complex_irfft(data=c),
        mb.complex_irfft(data=d, n=5, dim=0),
        mb.complex_imag(data=d),
    )


@case("lower_complex_dialect_ops", (2, 3, 5), files=False)
def several_axes(a):
    c = mb.complex_rfftn(data=a, dims=[1, 2])
    d = mb.complex_ifftn(data=c, dims=[0])
    e = mb.complex_fftn(data=d, shapes=[3], norm="ortho")
    f = mb.complex_fftn(data=a)
    return mb.complex_irfftn(data=e), mb.complex_irfftn(data=d, shapes=[4, 6], dims=[-2, -1]), mb.complex_abs(x=f)


@case("lower_complex_dialect_ops", (2, 23), files=False)
def windows(a):
    c = mb.complex_stft(input=a, n_fft=8, hop_length=3, win_length=5, window=common.w(5), normalized=True)
    d = mb.complex_stft(input=a, n_fft=8, onesided=True)
    return mb.complex_real(data=c), mb.complex_imag(data=c), mb.complex_abs(x=d)


@case("lower_complex_dialect_ops", (23,), (23,), files=False)
def complex_windows(a, b):
    c = mb.complex(real_data=a, imag_data=b)
    return mb.complex_abs(x=mb.complex_stft(input=c, n_fft=8, onesided=False))


def their_pass(prog, name, **options):
    one = type(PASS_REGISTRY[f"common::{name}"])()
    for option, value in options.items():
        setattr(one, option, value)
    with programs.quiet():
        one(prog)
        PASS_REGISTRY["common::dead_code_elimination"](prog)


@pytest.mark.parametrize(("pass_name", "fn", "inputs", "target", "options"), PACKAGES)
def test_packages(pass_name, fn, inputs, target, options, tmp_path: Path):
    source, result = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(build(fn, inputs, target), source, target)
    chosen = [f"--option=common::{pass_name}.{k}={v}" for k, v in options.items()]
    command.sardonyx(
        "optimize", source, "-o", result, "--passes", f"common::{pass_name}", *chosen, "--strict", "--quiet"
    )
    theirs = common.load(source)
    their_pass(theirs, pass_name, **options)
    expected, found = common.canonical(theirs), common.canonical(common.load(result))
    assert [op for op, _ in found] == [op for op, _ in expected]
    for (op, a), (_, b) in zip(found, expected, strict=True):
        assert common.same(a, b), (op, a, b)


@pytest.mark.parametrize(("pass_name", "fn", "inputs", "target", "options"), IN_MEMORY)
def test_in_memory(pass_name, fn, inputs, target, options):
    state_before, built = common.RNG.bit_generator.state, []
    for _ in range(2):
        common.RNG.bit_generator.state = state_before
        mb.name_count.clear()
        built.append(build(fn, inputs, target))
    theirs, ours = built
    before = str(ours)
    their_pass(theirs, pass_name, **options)
    function = ours.functions["main"]
    coreml.apply_pass(ours, f"common::{pass_name}", **options)
    coreml.apply_pass(ours, "common::dead_code_elimination")
    assert common.same(common.canonical(ours), common.canonical(theirs)), f"{before}\n{ours}\n{theirs}"
    assert ours.functions["main"] is function
    ours.validate()


@pytest.mark.parametrize(
    "options",
    [{"min_seq_length": -1}, {"min_seq_length": "many"}, {"seq_length_divider": 0}, {"seq_length_divider": 1.5}],
)
def test_options_are_looked_at_without_attention(options):
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))], opset_version=IOS18)
    def prog(x):
        return mb.relu(x=x)

    with pytest.raises(ValueError, match=next(iter(options))):
        coreml.apply_pass(prog, "common::scaled_dot_product_attention_sliced_q", **options)


def test_a_complex_result_is_refused():
    prog = build(lambda a: mb.complex_fft(data=a), [(3,)], ct.target.iOS17)
    with pytest.raises(ValueError, match="complex result"):
        coreml.apply_pass(prog, "common::lower_complex_dialect_ops")


def test_angles_of_a_long_transform(tmp_path):
    """2 pi j k / N of 1,024 points, j k not reduced, was 1.5e-4 off."""
    prog = build(lambda a: mb.complex_real(data=mb.complex_fft(data=a, dim=0)), [(1024, 1)], ct.target.iOS17)
    coreml.apply_pass(prog, "common::lower_complex_dialect_ops")
    coreml.apply_pass(prog, "common::dedup_op_and_var_names")
    programs.save(prog, tmp_path / "long.mlpackage", ct.target.iOS17)
    x = np.zeros((1024, 1), np.float32)
    x[1021] = 1
    (found,) = coreml.load(tmp_path / "long.mlpackage").run([x]).values()
    wanted = np.cos(2 * np.pi * 1021 * np.arange(1024) / 1024)
    np.testing.assert_allclose(found[:, 0], wanted, atol=1e-6)


def test_gelu_as_its_sigmoid():
    """coremltools has this pass in its sources, but not yet in a release."""

    def network(x):
        return mb.mul(x=x, y=mb.sigmoid(x=mb.mul(x=x, y=1.702)))

    prog = build(network, [(3, 5)], ct.target.iOS17)
    coreml.apply_pass(prog, "common::fuse_gelu_sigmoid_approximation")
    (op,) = [op for op in prog.functions["main"].operations if op.op_type != "const"]
    assert (op.op_type, op.mode.val) == ("gelu", "SIGMOID_APPROXIMATION")


def with_sizes(b, t):
    """A network with unknown sizes."""

    @mb.program(input_specs=[mb.TensorSpec((b, 3, t)), mb.TensorSpec((3, 5))], opset_version=IOS18)
    def prog(x, weight):
        y = mb.matmul(x=mb.transpose(x=x, perm=(0, 2, 1)), y=weight)
        return mb.add(x=mb.concat(values=(y, y), axis=1), y=np.ones((1, 1, 5), np.float32), name="y")

    return prog


def test_functions_for_known_sizes():
    sizes = {"small": {"x": (2, 3, 5)}, "large": {"x": (7, 3, 11)}}
    mb.name_count.clear()
    b, t = programs.get_new_symbol(), programs.get_new_symbol()
    ours, theirs = with_sizes(b, t), with_sizes(b, t)
    main = ours.functions["main"]
    their_pass(theirs, "materialize_symbolic_shape_program", function_name_to_materialization_map=sizes)
    coreml.apply_pass(ours, "common::materialize_symbolic_shape_program", function_name_to_materialization_map=sizes)
    assert ours.functions["main"] is main
    assert list(ours.functions) == list(theirs.functions) == ["main", "small", "large"]
    assert common.same(common.canonical(ours), common.canonical(theirs)), f"{ours}\n{theirs}"
    for name in ("small", "large"):
        found, expected = ours.functions[name], theirs.functions[name]
        assert found.opset_version == IOS18
        assert [v.shape for v in found.inputs.values()] == [v.shape for v in expected.inputs.values()]
        assert [v.shape for v in found.outputs] == [v.shape for v in expected.outputs]
        ids = [op.weight_id for op in found.operations if op.op_type == "const" and op.weight_id is not None]
        assert ids and set(ids) <= {op.weight_id for op in main.operations if op.op_type == "const"}
    ours.validate()
    with pytest.raises(ValueError, match="is 3 already"):
        coreml.apply_pass(
            ours, "materialize_symbolic_shape_program", function_name_to_materialization_map={"f": {"x": (2, 4, 5)}}
        )
    with pytest.raises(ValueError, match="no function 'other'"):
        coreml.apply_pass(
            ours,
            "materialize_symbolic_shape_program",
            function_name_to_materialization_map=sizes,
            source_function_name="other",
        )


def test_copies_have_constants_of_the_same_kinds():
    def build():
        @mb.program(input_specs=[mb.TensorSpec((b, 4))], opset_version=IOS18)
        def prog(x):
            x = mb.add(x=mb.add(x=x, y=2.0), y=mb.const(val=np.array(4, np.float32), name="zero_d"))
            y = mb.gather(x=x, indices=1, axis=np.int32(1))
            z = mb.reduce_mean(x=mb.add(x=x, y=np.float32(3)), axes=[1], keep_dims=np.bool_(False))
            return mb.add(x=y, y=z, name="sum")

        return prog

    def kinds(prog):
        ops = prog.functions["small"].operations
        return [(op.name, type(op.outputs[0].val)) for op in ops if op.op_type == "const"]

    b, sizes = programs.get_new_symbol(), {"small": {"x": (2, 4)}}
    mb.name_count.clear()
    ours = build()
    mb.name_count.clear()
    theirs = build()
    their_pass(theirs, "materialize_symbolic_shape_program", function_name_to_materialization_map=sizes)
    coreml.apply_pass(ours, "common::materialize_symbolic_shape_program", function_name_to_materialization_map=sizes)
    assert kinds(ours) == [k for k in kinds(theirs) if k in kinds(ours)]
    assert {np.ndarray, np.float32, np.int32, np.bool_} <= {kind for _, kind in kinds(ours)}
    assert sorted(kinds(ours), key=str) == sorted(kinds(theirs), key=str)


def test_main_for_known_sizes():
    sizes = {"main": {"x": (2, 3, 5)}, "other": {"x": (7, 3, 11)}}
    mb.name_count.clear()
    b, t = programs.get_new_symbol(), programs.get_new_symbol()
    ours, theirs = with_sizes(b, t), with_sizes(b, t)
    their_pass(theirs, "materialize_symbolic_shape_program", function_name_to_materialization_map=sizes)
    coreml.apply_pass(ours, "common::materialize_symbolic_shape_program", function_name_to_materialization_map=sizes)
    assert list(ours.functions) == list(theirs.functions) == ["main", "other"]
    assert common.same(common.canonical(ours), common.canonical(theirs)), f"{ours}\n{theirs}"
    for name, function in ours.functions.items():
        assert function.inputs["x"].shape == sizes[name]["x"]
        assert [v.shape for v in function.outputs] == [v.shape for v in theirs.functions[name].outputs]
    ours.validate()


@pytest.mark.parametrize(
    "shape",
    [ct.Shape((ct.RangeDim(1, 9), 3)), ct.EnumeratedShapes([(1, 3), (2, 3)])],
    ids=["range", "enumerated"],
)
def test_the_description_follows_a_main_of_known_sizes(tmp_path, shape):
    @mb.program(input_specs=[mb.TensorSpec((programs.get_new_symbol(), 3))], opset_version=IOS18)
    def prog(x):
        return mb.relu(x=x, name="y")

    before, after = tmp_path / "before.mlpackage", tmp_path / "after.mlpackage"
    ct.convert(
        prog,
        inputs=[ct.TensorType(name="x", shape=shape)],
        minimum_deployment_target=IOS18,
        compute_precision=ct.precision.FLOAT32,
        skip_model_load=True,
    ).save(str(before))
    coreml.optimize(before, after, passes=["common::noop_elimination"])
    kept = ct.utils.load_spec(str(after)).description.input[0].type.multiArrayType
    assert kept.WhichOneof("ShapeFlexibility")
    name = "materialize_symbolic_shape_program"
    chosen = {f"{name}.function_name_to_materialization_map": '{"main": {"x": [2, 3]}}'}
    coreml.optimize(before, after, passes=[f"common::{name}"], options=chosen)
    array = ct.utils.load_spec(str(after)).description.input[0].type.multiArrayType
    assert list(array.shape) == [2, 3]
    assert array.WhichOneof("ShapeFlexibility") is None
    assert coreml.load(after).run({"x": -np.ones((2, 3), np.float32)})["y"].shape == (2, 3)


def test_a_loop_loses_variables_in_place():
    def build_loop():
        @mb.program(input_specs=[mb.TensorSpec((1, 2)), mb.TensorSpec((1, 2))], opset_version=ct.target.iOS16)
        def prog(a, b):
            def condition(x, y, z):
                return mb.less(x=mb.reduce_mean(x=x, axes=[0, 1], keep_dims=False), y=9.0)

            def body(x, y, z):
                return mb.add(x=x, y=y), y, mb.add(x=z, y=1.0)

            x, y, z = mb.while_loop(_cond=condition, _body=body, loop_vars=(a, b, a))
            return mb.add(x=mb.add(x=x, y=y), y=z)

        return prog

    mb.name_count.clear()
    ours = build_loop()
    mb.name_count.clear()
    theirs = build_loop()
    (loop,) = ours.functions["main"].find_ops(op_type="while_loop")
    their_pass(theirs, "loop_invariant_elimination")
    coreml.apply_pass(ours, "common::loop_invariant_elimination")
    assert ours.functions["main"].find_ops(op_type="while_loop") == [loop]
    assert len(loop.loop_vars) == len(loop.outputs) == len(loop.blocks[0].inputs) == 2
    assert common.same(common.canonical(ours), common.canonical(theirs)), f"{ours}\n{theirs}"
    ours.validate()


def features(description):
    return {f.name: (list(f.input), list(f.output)) for f in description.functions}


def test_new_functions_are_described(tmp_path):
    """Shapes as coremltools describes them: each with its current shape, and the previous one by its name."""
    width = get_new_symbol()

    def fn(x, y):
        return mb.relu(x=x, name="a"), mb.reduce_sum(x=mb.exp(x=y), axes=[0], keep_dims=False, name="b")

    specs = [mb.TensorSpec(shape=(2, width)), mb.TensorSpec(shape=(3, 5), dtype=types.int32)]
    prog = mb.program(input_specs=specs, opset_version=ct.target.iOS18)(lambda x, y: fn(x, mb.cast(x=y, dtype="fp32")))
    source, theirs, ours = tmp_path / "in.mlpackage", tmp_path / "theirs.mlpackage", tmp_path / "ours.mlpackage"
    model = programs.save(prog, source, ct.target.iOS18)
    wanted = {"of_7": {"x": (2, 7)}, "of_11": {"x": (2, 11)}}
    with programs.quiet():
        ct.utils.materialize_dynamic_shape_mlmodel(model, wanted, str(theirs))
    name = "materialize_symbolic_shape_program"

    def materialize(path, sizes, out):
        sizes = {f: {k: list(v) for k, v in inputs.items()} for f, inputs in sizes.items()}
        options = {f"{name}.function_name_to_materialization_map": json.dumps(sizes)}
        coreml.optimize(path, out, passes=[name], options=options)
        return ct.utils.load_spec(str(out)).description

    before = ct.utils.load_spec(str(source)).description
    description = materialize(source, wanted, ours)
    assert features(description) == features(ct.utils.load_spec(str(theirs)).description)
    assert description.defaultFunctionName == "main"
    assert not description.input and description.metadata == before.metadata
    # A description by functions gets one more entry.
    again = materialize(ours, {"of_13": {"x": (2, 13)}}, tmp_path / "more.mlpackage")
    assert [f.name for f in again.functions] == ["main", "of_7", "of_11", "of_13"]
    assert list(again.functions)[:3] == list(description.functions)
    assert list(again.functions[3].output[0].type.multiArrayType.shape) == [2, 13]
    ct.models.MLModel(str(tmp_path / "more.mlpackage"), skip_model_load=True)


def test_formats_of_one_function_keep_their_description(tmp_path):
    specs = [mb.TensorSpec(shape=(2, get_new_symbol()))]
    prog = mb.program(input_specs=specs, opset_version=ct.target.iOS17)(lambda x: mb.relu(x=x))
    source, target = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(prog, source, ct.target.iOS17)
    name = "materialize_symbolic_shape_program"
    options = {f"{name}.function_name_to_materialization_map": '{"of_7": {"x": [2, 7]}}'}
    coreml.optimize(source, target, passes=[name], options=options)
    assert ct.utils.load_spec(str(target)).description == ct.utils.load_spec(str(source)).description
