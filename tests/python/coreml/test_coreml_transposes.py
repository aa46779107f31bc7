"""reduce_transposes beside coremltools' own, on random programs: never more transposes, the same values, nearly always the same ops."""

import random

import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
import numpy as np  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from mil_programs import mb  # noqa: E402
from sardonyx import coreml  # noqa: E402
from test_coreml_passes import canonical, same  # noqa: E402

SHAPE = (2, 3, 5, 7)
PERMS = [(0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 2, 3)]


def step(r, rng, pool):
    """One more op on one of the values, or None if the draw fits no op."""
    x = pool[-1] if r.random() < 0.6 else r.choice(pool)
    like_x = [v for v in pool if v.shape == x.shape]
    kind = r.choices(
        ["transpose", "unary", "binary", "constant", "concat", "reduce", "pad", "other", "split", "reshaped"],
        [40, 15, 10, 6, 6, 6, 5, 5, 4, 3],
    )[0]
    if kind == "transpose":
        return mb.transpose(x=x, perm=r.choice(PERMS))
    if kind == "unary":
        return getattr(mb, r.choice(["relu", "tanh", "abs", "sigmoid"]))(x=x)
    if kind == "binary":
        return getattr(mb, r.choice(["add", "mul", "maximum"]))(x=x, y=r.choice(like_x))
    if kind == "constant":
        shape = r.choice([(), x.shape[-1:], (1, *x.shape[1:])])
        return mb.add(x=x, y=rng.normal(size=shape).astype(np.float32))
    if kind == "concat":
        return mb.concat(values=(x, r.choice(like_x)), axis=r.choice([0, 1, 2, 3, -1]))
    if kind == "reduce":
        return mb.reduce_mean(x=x, axes=[r.choice([1, 2, 3, -1])], keep_dims=True)
    if kind == "pad" and min(x.shape[-2:]) > 1:
        return mb.pad(x=x, pad=[1, 0, 0, 1], mode=r.choice(["constant", "reflect"]))
    if kind == "other":
        return mb.softmax(x=x, axis=1)
    if kind == "split" and x.shape[1] > 1:
        return mb.split(x=x, split_sizes=[1, x.shape[1] - 1], axis=1)[1]
    if kind == "reshaped":
        return mb.mul(x=mb.reduce_sum(x=x, axes=[0, 1, 2], keep_dims=False), y=x)
    return None


def program(seed):
    def body(*inputs):
        r, rng = random.Random(seed), np.random.default_rng(seed)
        pool = list(inputs)
        for _ in range(r.randint(3, 16)):
            y = step(r, rng, pool)
            if y is not None and y.rank == 4:
                pool.append(y)
        results = r.sample(pool[2:], min(len(pool) - 2, r.randint(0, 2)))
        return (*[v for v in results if v is not pool[-1]], pool[-1])

    mb.name_count.clear()

    @mb.program(input_specs=[mb.TensorSpec(shape=SHAPE) for _ in range(2)], opset_version=ct.target.iOS17)
    def prog(x, y):
        return body(x, y)

    return prog


def count(prog):
    return sum(op.op_type == "transpose" for op in prog.functions["main"].operations)


def values(prog, path):
    programs.save(prog, path, ct.target.iOS17)
    rng = np.random.default_rng(3)
    return list(coreml.load(path).run([rng.normal(size=SHAPE).astype(np.float32) for _ in range(2)]).values())


def test_random_programs(tmp_path):
    alike, fewer = 0, 0
    seeds = range(60)
    for seed in seeds:
        before, theirs, ours = program(seed), program(seed), program(seed)
        with programs.quiet():
            for prog in (before, theirs, ours):
                PASS_REGISTRY["common::dead_code_elimination"](prog)
            PASS_REGISTRY["common::reduce_transposes"](theirs)
            PASS_REGISTRY["common::dead_code_elimination"](theirs)
        coreml.apply_pass(ours, "common::reduce_transposes")
        ours.validate()
        assert count(ours) <= count(theirs), f"seed {seed}\n{before}\n{theirs}\n{ours}"
        alike += same(canonical(ours), canonical(theirs))
        fewer += count(ours) < count(before)
        if seed % 4 == 0:
            expected = values(before, tmp_path / "before.mlpackage")
            for a, b in zip(expected, values(ours, tmp_path / "after.mlpackage"), strict=True):
                assert a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-6), f"seed {seed}\n{before}\n{ours}"
    # Allowed differences: the position of an identity for a name, and names of results that coremltools
    # loses.
    assert alike >= 0.9 * len(seeds)
    assert fewer >= 10


def test_drawings(tmp_path):
    coreml.apply_pass(program(5), "common::reduce_transposes", debug=str(tmp_path))
    before, after = ((tmp_path / f"main_{when}.dot").read_text() for when in ("before", "after"))
    assert before.startswith("digraph {") and before.count("fillcolor") == count(program(5))
    assert after.count("fillcolor") <= before.count("fillcolor")
    with pytest.raises(ValueError, match="cannot write"):
        coreml.apply_pass(program(5), "reduce_transposes", debug=str(tmp_path / "main_before.dot"))
