"""Checks on coremltools programs without importing them. They must never report a pass as idle when it has
work."""

import re

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
import test_coreml_passes as passes  # noqa: E402
import test_coreml_quantization as quantization  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from mil_programs import mb  # noqa: E402
from sardonyx import _sardonyx, coreml  # noqa: E402
from sardonyx._coreml import session as _coreml_program  # noqa: E402

# Passes that need more than a program, or that make other functions.
NAMES = sorted(
    {p["name"] for p in _sardonyx.list_passes() if p["dialect"] == "mil"} - {"materialize_symbolic_shape_program"}
)


class WasRead(Exception):
    pass


@pytest.fixture
def unread(monkeypatch):
    """Fails when a program is read."""

    def refuse(prog):
        raise WasRead

    monkeypatch.setattr(_coreml_program, "ProgramSession", refuse)


def described(prog):
    symbols = {}  # new sizes have new numbers each time

    def numbered(found):
        return symbols.setdefault(found.group(), f"s{len(symbols)}")

    text = re.sub(r"\bis\d+\b", numbered, str(prog))
    return re.sub(r"block\d+", "block", text), [
        (name, [op.name for op in f.operations], [v.name for v in f.outputs]) for name, f in prog.functions.items()
    ]


@pytest.mark.parametrize(("pass_name", "fn", "inputs", "target"), [*passes.CASES, *quantization.CASES])
def test_looking_first_changes_nothing(pass_name, fn, inputs, target, monkeypatch):
    """Every pass in coremltools' order that has a case, on that case's program, followed by all later passes."""
    state, texts = passes.RNG.bit_generator.state, []
    for looks in (True, False):
        passes.RNG.bit_generator.state = state
        mb.name_count.clear()
        prog = passes.build(fn, inputs, target)
        if not looks:
            monkeypatch.setattr(_sardonyx.coreml, "idle_report", lambda functions, request: None)
        for name in (pass_name, *NAMES):
            mb.name_count.clear()
            try:
                coreml.apply_pass(prog, name)
            except ValueError as e:
                texts.append(str(e))
            coreml.apply_pass(prog, "dead_code_elimination")  # ops that were imported lose their dead users
        texts.append(described(prog))
    assert texts[: len(texts) // 2] == texts[len(texts) // 2 :]


def relus(apart):
    def fn(x):
        x = mb.relu(x=x)
        if apart:
            x = mb.exp(x=x)
        return mb.relu(x=x)

    return passes.build(fn, [(2, 3)], ct.target.iOS16)


def test_ops_that_never_meet_are_not_read(unread):
    coreml.apply_pass(relus(apart=True), "merge_consecutive_relus")
    with pytest.raises(WasRead):
        coreml.apply_pass(relus(apart=False), "merge_consecutive_relus")


def test_ops_may_meet_in_blocks(unread):
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3)), mb.TensorSpec(shape=(1,))], opset_version=ct.target.iOS16)
    def prog(x, p):
        return mb.cond(
            pred=mb.squeeze(x=mb.cast(x=p, dtype="bool")),
            _true_fn=lambda: mb.relu(x=mb.relu(x=x)),
            _false_fn=lambda: mb.exp(x=x),
        )

    with pytest.raises(WasRead):
        coreml.apply_pass(prog, "merge_consecutive_relus")


def test_linear_with_computed_operands_is_read(unread):
    def fn(x, w, c):
        weight, bias = np.ones((5, 3), np.float32), np.ones(5, np.float32)
        return mb.linear(x=x, weight=weight, bias=bias), mb.relu(x=w), mb.relu(x=c)

    for slot, result in (("weight", 1), ("bias", 2)):
        prog = passes.build(fn, [(2, 3), (5, 3), (5,)], ct.target.iOS16)
        coreml.apply_pass(prog, "expand_dynamic_linear")
        (op,) = [op for op in prog.functions["main"].operations if op.op_type == "linear"]
        op._input_vars[slot] = prog.functions["main"].outputs[result]  # as other passes leave it
        with pytest.raises(WasRead):
            coreml.apply_pass(prog, "expand_dynamic_linear")


@pytest.mark.parametrize(
    ("a", "b", "is_read"),
    [
        (np.float32([1, 2, 3]), np.float32([1, 2, 3]), True),
        (np.float32([1, 2, 3]), np.float32([1, 2, 4]), False),
        (np.float32([[1], [2]]), np.float32([1, 2, 3]), False),
        (1.0, 1.0, True),
        (1.0, 2.0, False),
    ],
)
def test_ops_that_read_the_same(a, b, is_read, unread):
    def fn(x):
        return mb.mul(x=mb.add(x=x, y=a), y=mb.add(x=x, y=b))

    prog = passes.build(fn, [(2, 3)], ct.target.iOS16)
    if is_read:
        with pytest.raises(WasRead):
            coreml.apply_pass(prog, "remove_redundant_ops")
    else:
        coreml.apply_pass(prog, "remove_redundant_ops")


def loop(x):
    def body(i, x):
        return mb.add(x=i, y=1), mb.relu(x=x, name="same")

    return mb.while_loop(_cond=lambda i, x: mb.less(x=i, y=3), _body=body, loop_vars=(np.int32(0), x))[1]


def repeated(nested):
    mb.name_count.clear()

    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3)), mb.TensorSpec(shape=(1,))], opset_version=ct.target.iOS16)
    def prog(x, p):
        x = mb.relu(x=mb.relu(x=x, name="same"), name="same")
        if nested:
            x = mb.cond(
                pred=mb.squeeze(x=mb.cast(x=p, dtype="bool")),
                _true_fn=lambda: mb.exp(x=mb.relu(x=x, name="same_1"), name="same"),
                _false_fn=lambda: mb.exp(x=x, name="same"),
                name="same_2",
            )
            x = loop(loop(x))
        return mb.relu(x=mb.exp(x=x, name="same_1"), name="last")

    return prog


@pytest.mark.parametrize("nested", [False, True])
def test_names_are_made_unique_where_they_stand(nested, unread):
    ours, expected = repeated(nested), repeated(nested)
    coreml.apply_pass(ours, "dedup_op_and_var_names")
    with programs.quiet():
        PASS_REGISTRY["common::dedup_op_and_var_names"](expected)
    assert described(ours) == described(expected)
    ours.validate()


def test_a_name_of_an_input_and_a_result_is_an_error():
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))], opset_version=ct.target.iOS16)
    def prog(x):
        return mb.relu(x=mb.relu(x=x, name="same"), name="x")

    prog.functions["main"].outputs[0].name = "x"
    before = described(prog)
    with pytest.raises(ValueError, match="input and of a result"):
        coreml.apply_pass(prog, "dedup_op_and_var_names")
    assert described(prog) == before
