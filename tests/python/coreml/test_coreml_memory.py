"""Passes on coremltools programs in memory: same results as coremltools' own passes, on the same objects."""

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
import sardonyx  # noqa: E402
import test_coreml_passes as passes  # noqa: E402
from coremltools.converters.mil.mil.passes.graph_pass import PassOption  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from coremltools.converters.mil.mil.scope import ScopeInfo, ScopeSource  # noqa: E402
from mil_programs import get_new_symbol, mb  # noqa: E402
from sardonyx import coreml  # noqa: E402
from test_coreml_passes import own_weights  # noqa: E402, F401


def theirs(prog, *names):
    with programs.quiet():
        for name in names:
            PASS_REGISTRY[f"common::{name}"](prog)
    return prog


def twice(rng, build):
    """The same program twice, with the same random weights and generated names."""
    state, built = rng.bit_generator.state, []
    for _ in range(2):
        rng.bit_generator.state = state
        mb.name_count.clear()
        built.append(build())
    return built


def check_in_memory(pass_name, fn, inputs, target, options=None):
    first, second = twice(passes.RNG, lambda: passes.build(fn, inputs, target))
    their_pass = PASS_REGISTRY[f"common::{pass_name}"]
    their_pass.set_options([PassOption(k, str(v)) for k, v in (options or {}).items()])
    their_pass(first)
    theirs(first, "dead_code_elimination")
    function, inputs_before = second.functions["main"], dict(second.functions["main"].inputs)
    coreml.apply_pass(second, f"common::{pass_name}", **(options or {}))
    coreml.apply_pass(second, "dead_code_elimination")
    assert passes.same(passes.canonical(second), passes.canonical(first)), f"{second}\n{first}"
    assert second.functions["main"] is function
    assert all(function.inputs[n] is v for n, v in inputs_before.items())
    second.validate()


@pytest.mark.parametrize(("pass_name", "fn", "inputs", "target"), passes.CASES)
def test_as_coremltools_does(pass_name, fn, inputs, target):
    check_in_memory(pass_name, fn, inputs, target)


def test_what_stays_is_the_same_object():
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))], opset_version=ct.target.iOS16)
    def prog(x):
        a = mb.exp(x=x, name="kept")
        b = mb.transpose(x=mb.transpose(x=a, perm=[1, 0]), perm=[1, 0], name="gone")
        return mb.relu(x=b, name="last")

    main = prog.functions["main"]
    before = {op.name: op for op in main.operations}
    coreml.apply_pass(prog, "common::merge_consecutive_transposes")
    coreml.apply_pass(prog, "common::noop_elimination")
    after = {op.name: op for op in main.operations if op.op_type != "const"}
    assert list(after) == ["kept", "last"]
    assert after["kept"] is before["kept"] and after["last"] is before["last"]
    assert after["last"].x is before["kept"].outputs[0]
    assert before["kept"].outputs[0].child_ops == [after["last"]]


def test_symbols_and_scopes_come_back():
    symbol = get_new_symbol()

    @mb.program(input_specs=[mb.TensorSpec(shape=(symbol, 3))], opset_version=ct.target.iOS16)
    def prog(x):
        with mb.scope(ScopeInfo(source=ScopeSource.TORCHSCRIPT_MODULE_NAME, data=["net.block"])):
            half = mb.mul(x=x, y=0.5)
            one_up = mb.add(x=mb.erf(x=mb.real_div(x=x, y=np.float32(2**0.5))), y=1.0)
            return mb.mul(x=half, y=one_up, name="y")

    coreml.apply_pass(prog, "common::fuse_gelu_exact")
    (op,) = [op for op in prog.functions["main"].operations if op.op_type == "gelu"]
    assert op.outputs[0].shape == (symbol, 3) and op.outputs[0].name == "y"
    assert op.scopes[ScopeSource.TORCHSCRIPT_MODULE_NAME] == ["net.block"]
    assert op.scopes[ScopeSource.COREMLTOOLS_GRAPH_PASS] == ["fuse_gelu_exact"]


def test_blocks():
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3)), mb.TensorSpec(shape=(1,))], opset_version=ct.target.iOS16)
    def prog(x, p):
        def yes():
            return mb.relu(x=mb.relu(x=x))

        def no():
            return mb.transpose(x=mb.transpose(x=x, perm=[1, 0]), perm=[1, 0])

        return mb.cond(pred=mb.squeeze(x=mb.cast(x=p, dtype="bool")), _true_fn=yes, _false_fn=no)

    coreml.apply_pass(prog, "common::merge_consecutive_relus")
    (op,) = [op for op in prog.functions["main"].operations if op.op_type == "cond"]
    assert [o.op_type for o in op.blocks[0].operations if o.op_type != "const"] == ["relu"]
    prog.validate()


def test_states_and_lists_pass_through():
    prog = programs.stateful()
    ops = [op.op_type for op in prog.functions["main"].operations]
    coreml.apply_pass(prog, "common::noop_elimination")
    assert [op.op_type for op in prog.functions["main"].operations] == ops
    case = next(c for c in programs.CASES if c.op == "list_write")
    lists = programs.build(case, ct.target.iOS16)
    before = str(lists)
    coreml.apply_pass(lists, "common::merge_consecutive_relus")
    assert str(lists) == before


def test_errors():
    prog = programs.recurrent()
    with pytest.raises(ValueError, match="merge_consecutive_relus"):
        coreml.apply_pass(prog, "common::merge_consecutive_relu")
    with pytest.raises(ValueError, match="no option"):
        coreml.apply_pass(prog, "common::noop_elimination", no_such=1)


@pytest.mark.parametrize("name", ["resnet", "transformer", "recurrent", "stateful"])
def test_convert_on_native_passes(name, tmp_path):
    build, target = programs.NETWORKS[name]

    def convert(prog):
        with programs.quiet():
            return ct.convert(
                prog,
                convert_to="mlprogram",
                minimum_deployment_target=target,
                compute_precision=ct.precision.FLOAT32,
                skip_model_load=True,
            )

    first, second = twice(programs.rng, build)
    mb.name_count.clear()
    theirs_model = convert(first)
    before = dict(PASS_REGISTRY.passes)
    with coreml.native_passes():
        assert PASS_REGISTRY.passes["common::noop_elimination"] is not before["common::noop_elimination"]
        mb.name_count.clear()
        ours_model = convert(second)
    assert PASS_REGISTRY.passes == before
    first, second = theirs_model._mil_program, ours_model._mil_program
    assert passes.same(passes.canonical(second, ordered=False), passes.canonical(first, ordered=False)), (
        f"{second}\n{first}"
    )


def test_optimize_files(tmp_path):
    source, out = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(programs.resnet(), source, ct.target.iOS15)
    _, done = coreml.optimize(source, out, passes=["common::fuse_conv_batchnorm"], return_report=True)
    assert done.before["ops"]["batch_norm"] > done.after["ops"].get("batch_norm", 0)
    written = coreml.load(out).op_counts()
    assert {k: v for k, v in done.after["ops"].items() if k != "const"} == {
        k: v for k, v in written.items() if k != "const"
    }
    with pytest.raises(sardonyx.Error, match="fuse_conv_bias"):
        coreml.optimize(source, out, passes=["common::fuse_conv_bia"])


def test_tables_of_few_bits_are_compared_by_what_they_hold():
    """Elements narrower than a byte stay with coremltools, which decides which are equal."""

    def make():
        @mb.program(input_specs=[mb.TensorSpec(shape=(5, 2))], opset_version=ct.target.iOS18)
        def prog(x):
            def weight(*indices):
                data = programs.sub_byte(np.reshape(indices, (3, 2)), "uint2")
                return mb.constexpr_lut_to_dense(indices=data, lut=np.float32([-8, 5, 10, 100]).reshape(1, 1, 4, 1))

            equal, also, other = weight(0, 1, 2, 3, 0, 1), weight(0, 1, 2, 3, 0, 1), weight(0, 1, 2, 3, 0, 2)
            return tuple(mb.linear(x=x, weight=v) for v in (equal, also, other))

        return prog

    ours, wanted = twice(passes.RNG, make)
    theirs(wanted, "const_deduplication", "dead_code_elimination")
    coreml.apply_pass(ours, "common::const_deduplication")
    coreml.apply_pass(ours, "common::dead_code_elimination")
    assert [op.op_type for op in ours.functions["main"].operations].count("constexpr_lut_to_dense") == 2
    assert passes.same(passes.canonical(ours), passes.canonical(wanted)), f"{ours}\n{wanted}"
