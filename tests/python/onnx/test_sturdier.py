"""Small models that onnxruntime's own optimizer breaks: what Sardonyx makes of them is right at each of its levels.

Releases differ in what they break: docs/generated/sturdier.md has the table.
"""

import numpy as np
import pytest
import sardonyx
from sturdier import LEVELS, ROWS, difference, run


def test_there_are_enough_rows():
    assert sum(not row.reason for row in ROWS) >= 40
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_it_is_right_at_each_level(row):
    model = row.model()
    feeds = row.feeds(model)
    wanted = run(model.SerializeToString(), feeds, 0)
    smaller = sardonyx.optimize(model)
    for level in LEVELS if not row.reason else [0]:
        assert not difference(wanted, run(smaller.SerializeToString(), feeds, level)), LEVELS[level]
    assert sardonyx.optimize(smaller).SerializeToString() == smaller.SerializeToString()


@pytest.mark.parametrize("opset", [13, 17, 18, 21, 23])
def test_exports_of_zeros_before_a_maximum(opset):
    """In the spelling that no release merges: the pool pads nothing, and says so."""
    import jax.numpy as jnp
    from jax import lax

    def pool(x):
        x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")

    model = sardonyx.to_onnx(pool, [("B", 11, 13, 3)], opset=opset, return_mode="proto")
    [node] = [n for n in model.graph.node if n.op_type == "MaxPool"]
    assert [a.s for a in node.attribute if a.name == "auto_pad"] == [b"VALID"]
    x = -np.abs(np.random.default_rng(0).standard_normal((2, 11, 13, 3))).astype(np.float32) - 1
    for level in LEVELS:
        found = run(model.SerializeToString(), {model.graph.input[0].name: x}, level)[0]
        np.testing.assert_array_equal(found, pool(x))


@pytest.mark.parametrize("name", [row.name for row in ROWS if "LU of double" in row.name and row.reason])
def test_activations_in_double_precision_for_an_older_release(name):
    """Which fuses them into an operator without a kernel; it leaves quotients alone."""
    [row] = [row for row in ROWS if row.name == name]
    model = row.model()
    feeds = row.feeds(model)
    legal = sardonyx.optimize(model, passes=["onnx", "legalize"], options={"legalize.target": "ort-1.23"})
    assert [n.op_type for n in legal.graph.node][-2:] == ["Reciprocal", "Div"]
    wanted = run(model.SerializeToString(), feeds, 0)
    for level in LEVELS:
        assert not difference(wanted, run(legal.SerializeToString(), feeds, level)), LEVELS[level]
    newer = sardonyx.optimize(model, passes=["onnx", "legalize"], options={"legalize.target": "ort-1.31"})
    assert "Reciprocal" not in [n.op_type for n in newer.graph.node]
