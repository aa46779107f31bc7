"""Core ML ops that need more than arrays: states, classes, sparse tables, recurrent cells. Compared with
NumPy."""

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
import sardonyx  # noqa: E402
from command import sardonyx as command  # noqa: E402
from coremltools.converters.mil.mil.ops.defs.iOS18 import compression  # noqa: E402
from mil_programs import mb, types  # noqa: E402
from sardonyx import coreml  # noqa: E402

RNG = np.random.default_rng(11)


def saved(prog, path, target=ct.target.iOS18):
    programs.save(prog, path, target)
    return coreml.load(path)


# ----------------------------------------------------------------------------------------------------------------------
# States


@pytest.fixture
def accumulator(tmp_path):
    """Adds x to its state and returns half of the sum. A second state counts the runs."""

    @mb.program(
        input_specs=[
            mb.TensorSpec(shape=(2, 3), dtype=types.fp16),
            mb.StateTensorSpec((2, 3), types.fp16),
            mb.StateTensorSpec((1,), types.fp16),
        ],
        opset_version=ct.target.iOS18,
    )
    def prog(x, kept, runs):
        new = mb.coreml_update_state(state=kept, value=mb.add(x=x, y=mb.read_state(input=kept)))
        count = mb.coreml_update_state(state=runs, value=mb.add(x=mb.read_state(input=runs), y=np.float16(1)))
        return mb.mul(x=new, y=np.float16(0.5), name="half"), mb.identity(x=count, name="count")

    path = tmp_path / "states.mlpackage"
    return saved(prog, path), path


def test_states_are_kept_from_run_to_run(accumulator):
    program, _ = accumulator
    state = program.make_state()
    assert {k: (v.shape, v.dtype, v.any()) for k, v in state.items()} == {
        "kept": ((2, 3), np.float16, False),
        "runs": ((1,), np.float16, False),
    }
    total = np.zeros((2, 3), np.float16)
    for step in range(3):
        x = RNG.integers(-4, 5, (2, 3)).astype(np.float16)
        total += x
        got = program.run([x] if step == 1 else {"x": x}, state=state)
        assert (got["half"] == total / 2).all() and got["count"] == step + 1
        assert (state["kept"] == total).all() and state["runs"] == step + 1


def test_states_begin_with_zeros_and_stay_the_caller_s(accumulator):
    program, _ = accumulator
    x = np.ones((2, 3), np.float16)
    for _ in range(2):  # no state is left from the first run
        assert (program.run([x])["half"] == 0.5).all()
    begin = np.full((2, 3), 4, np.float16)
    state = {"kept": begin}
    assert (program.run([x], state=state)["half"] == 2.5).all()
    assert (begin == 4).all() and (state["kept"] == 5).all() and state["runs"] == 1


def test_states_that_do_not_fit(accumulator):
    program, _ = accumulator
    x = np.ones((2, 3), np.float16)
    with pytest.raises(sardonyx.Error, match="there is no state 'cache'; the states are kept, runs"):
        program.run([x], state={"cache": x})
    with pytest.raises(sardonyx.Error, match=r"state 'kept' is f16\[3\], expected f16\[2,3\]"):
        program.run([x], state={"kept": np.ones(3, np.float16)})


def test_states_on_the_command_line(accumulator, tmp_path):
    _, path = accumulator
    given = [path, "--input", "x=[[1,2,3],[4,5,6]]", "--input", "kept=[[1,1,1],[1,1,1]]"]
    out = command("run", *given).stdout
    assert command("run", *given).stdout == out
    assert "half: f16[2,3] = 1, 1.5, 2, 2.5, 3, 3.5" in out and "count: f16[1] = 1" in out
    assert "kept: f16[2,3] = 2, 3, 4, 5, 6, 7" in out and "runs: f16[1] = 1" in out  # the final states
    command("optimize", path, "-o", tmp_path / "y.mlpackage", "--preset", "default", "--verify", "pass")
    assert "compute the same" in command("compare", path, tmp_path / "y.mlpackage").stdout


def test_the_order_of_reads_and_writes(tmp_path):
    @mb.program(
        input_specs=[mb.TensorSpec((3,), types.fp16), mb.StateTensorSpec((3,), types.fp16)],
        opset_version=ct.target.iOS18,
    )
    def prog(x, kept):
        before = mb.read_state(input=kept)
        mb.coreml_update_state(state=kept, value=x)
        between = mb.read_state(input=kept)
        mb.coreml_update_state(state=kept, value=mb.mul(x=between, y=np.float16(3)))
        return mb.concat(values=[before, between, mb.read_state(input=kept)], axis=0)

    program = saved(prog, tmp_path / "x.mlpackage")
    state = {"kept": np.float16([7, 8, 9])}
    (y,) = program.run([np.float16([1, 2, 3])], state=state).values()
    assert y.tolist() == [7, 8, 9, 1, 2, 3, 3, 6, 9] and state["kept"].tolist() == [3, 6, 9]


# ----------------------------------------------------------------------------------------------------------------------
# Classes


@pytest.mark.parametrize("labels", [["cat", "dog", "eel"], [7, 3, 11]], ids=["text", "numbers"])
def test_classifiers(labels, tmp_path):
    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 3))], opset_version=ct.target.iOS16)
    def prog(x):
        return mb.softmax(x=x, axis=-1)

    with programs.quiet():
        model = ct.convert(
            prog,
            convert_to="mlprogram",
            classifier_config=ct.ClassifierConfig(labels),
            minimum_deployment_target=ct.target.iOS16,
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )
    model.save(str(tmp_path / "x.mlpackage"))
    got = coreml.load(tmp_path / "x.mlpackage").run({"x": np.float32([[1, 3, 2]])})
    p = np.exp([1.0, 3, 2]) / np.exp([1.0, 3, 2]).sum()
    (label,) = [v for v in got.values() if not isinstance(v, dict)]
    (all_of_them,) = [v for v in got.values() if isinstance(v, dict)]
    assert label == labels[1] and list(all_of_them) == labels
    np.testing.assert_allclose([float(v) for v in all_of_them.values()], p, rtol=1e-6)


# ----------------------------------------------------------------------------------------------------------------------
# Sparse constants


def through(build, shape, tmp_path):
    @mb.program(input_specs=[mb.TensorSpec(shape=shape)], opset_version=ct.target.iOS18)
    def prog(x):
        mask, data = build()
        return mb.add(x=x, y=mb.constexpr_sparse_to_dense(nonzero_data=data, mask=mask))

    (y,) = saved(prog, tmp_path / "x.mlpackage").run([np.zeros(shape, np.float32)]).values()
    return y


MASK = np.array([[1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 1], [0, 1, 1, 0, 1, 0], [0, 0, 0, 1, 0, 0]])


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_sparse_tables(bits, tmp_path):
    indices = RNG.integers(0, 1 << bits, MASK.sum())
    lut = RNG.standard_normal((2, 3, 1 << bits, 1)).astype(np.float32)  # a table for each 2 x 2 block
    y = through(
        lambda: mb.constexpr_lut_to_sparse(
            indices_mask=programs.sub_byte(MASK, "uint1"),
            indices_nonzero_data=programs.sub_byte(indices, f"uint{bits}") if bits < 8 else indices.astype(np.uint8),
            lut=lut,
        ),
        (4, 6),
        tmp_path,
    )
    want, left = np.zeros((4, 6), np.float32), iter(indices)
    for r, c in np.argwhere(MASK):
        want[r, c] = lut[r // 2, c // 2, next(left), 0]
    assert (y == want).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_sparse_tables_of_vectors(axis, tmp_path):
    indices, lut = RNG.integers(0, 4, MASK.sum()), RNG.standard_normal((1, 1, 4, 3)).astype(np.float32)
    shape = (12, 6) if axis == 0 else (4, 18)
    y = through(
        lambda: mb.constexpr_lut_to_sparse(
            indices_mask=programs.sub_byte(MASK, "uint1"),
            indices_nonzero_data=programs.sub_byte(indices, "uint2"),
            lut=lut,
            vector_axis=axis,
        ),
        shape,
        tmp_path,
    )
    mask, data = compression.constexpr_lut_to_sparse.decompress(MASK, indices, lut, np.int32(axis))
    want = np.zeros(shape, np.float32)
    want[mask != 0] = data
    assert mask.shape == shape and (y == want).all()


@pytest.mark.parametrize("with_offset", [False, True])
def test_sparse_shift_and_scale(with_offset, tmp_path):
    data, scale = RNG.integers(-8, 8, MASK.sum()), RNG.standard_normal((1, 3)).astype(np.float32)
    offset = RNG.integers(-8, 8, (1, 3))
    more = {"offset": programs.sub_byte(offset, "int4")} if with_offset else {}
    y = through(
        lambda: mb.constexpr_sparse_blockwise_shift_scale(
            data_mask=programs.sub_byte(MASK, "uint1"),
            nonzero_data=programs.sub_byte(data, "int4"),
            scale=scale,
            **more,
        ),
        (4, 6),
        tmp_path,
    )
    dense = np.zeros((4, 6))
    dense[MASK != 0] = data
    want = np.where(MASK, (dense - (np.repeat(offset, 2, 1) if with_offset else 0)) * np.repeat(scale, 2, 1), 0)
    np.testing.assert_allclose(y, want, rtol=1e-6)


# ----------------------------------------------------------------------------------------------------------------------
# Cells of recurrent layers

FUNCTIONS = {
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "tanh": np.tanh,
    "relu": lambda v: np.maximum(v, 0),
    "linear": lambda v: v,
}


def cells(x, h, c, w, r, b, p, clip, gate, cell, last):
    ys, (pi, pf, po) = [], np.split(p, 3)
    for step in x:
        i, f, o, z = np.split(step @ w.T + h @ r.T + b, 4, axis=-1)
        i, f = FUNCTIONS[gate](i + pi * c), FUNCTIONS[gate](f + pf * c)
        c = np.clip(f * c + i * FUNCTIONS[cell](z), -clip, clip)
        h = FUNCTIONS[gate](o + po * c) * FUNCTIONS[last](c)
        ys.append(h)
    return np.stack(ys), h, c


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("clip", "functions"),
    [(None, ("sigmoid", "tanh", "tanh")), (0.4, ("sigmoid", "relu", "linear")), (0.3, ("tanh", "linear", "sigmoid"))],
)
def test_peepholes_and_clip(direction, clip, functions, tmp_path):
    steps, batch, width, n = 5, 2, 3, 4
    both = direction == "bidirectional"
    draw = lambda *shape: RNG.standard_normal(shape).astype(np.float32) * np.float32(0.7)  # noqa: E731
    sides = [
        {"weight_ih": draw(4 * n, width), "weight_hh": draw(4 * n, n), "bias": draw(4 * n), "peephole": draw(3 * n)}
        for _ in range(1 + both)
    ]
    named = dict(sides[0]) | ({f"{k}_back": v for k, v in sides[1].items()} if both else {})
    h, c, x = draw(batch, n * len(sides)), draw(batch, n * len(sides)), draw(steps, batch, width)
    if clip is not None:
        named["clip"] = np.float32(clip)

    @mb.program(input_specs=[mb.TensorSpec(shape=x.shape)], opset_version=ct.target.iOS16)
    def prog(x):
        return mb.lstm(
            x=x,
            initial_h=h,
            initial_c=c,
            direction=direction,
            output_sequence=True,
            recurrent_activation=functions[0],
            cell_activation=functions[1],
            activation=functions[2],
            **named,
        )

    got = list(saved(prog, tmp_path / "x.mlpackage", ct.target.iOS16).run([x]).values())
    wants = []
    for k, side in enumerate(sides):
        back = k == 1 or direction == "reverse"
        y, hn, cn = cells(
            (x[::-1] if back else x).astype(np.float64),
            h[:, k * n : (k + 1) * n],
            c[:, k * n : (k + 1) * n],
            *side.values(),
            np.inf if clip is None else clip,
            *functions,
        )
        wants.append((y[::-1] if k == 1 else y, hn, cn))  # "reverse" returns what it reads first, first
    for a, b in zip(got, (np.concatenate(parts, -1) for parts in zip(*wants, strict=True)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["rnn", "gru"])
def test_linear_activation(op, tmp_path):
    n, gates = 4, 3 if op == "gru" else 1
    x, w, r, h = (
        RNG.standard_normal(s).astype(np.float32) * 0.5 for s in ((3, 2, 3), (gates * n, 3), (gates * n, n), (2, n))
    )

    @mb.program(input_specs=[mb.TensorSpec(shape=x.shape)], opset_version=ct.target.iOS16)
    def prog(x):
        return getattr(mb, op)(x=x, initial_h=h, weight_ih=w, weight_hh=r, activation="linear", output_sequence=True)

    y = next(iter(saved(prog, tmp_path / "x.mlpackage", ct.target.iOS16).run([x]).values()))
    wants, state = [], h.astype(np.float64)
    for step in x:
        if op == "rnn":
            state = step @ w.T + state @ r.T
        else:
            (ir, io, iz), (w_r, w_o, w_z) = np.split(step @ w.T, 3, -1), np.split(r, 3)
            reset, update = FUNCTIONS["sigmoid"](ir + state @ w_r.T), FUNCTIONS["sigmoid"](iz + state @ w_z.T)
            state = (1 - update) * (io + (reset * state) @ w_o.T) + update * state
        wants.append(state)
    np.testing.assert_allclose(y, np.stack(wants), rtol=1e-5, atol=1e-6)
