"""Indices out of bounds as JAX treats them: clipped where it reads, dropped where it writes, filled where asked; and no
cost where the program shows that they are in bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sardonyx
from jax import lax
from judge import compare, outputs

RNG = np.random.default_rng(0)
X, CUBE = RNG.normal(size=(5, 7)).astype(np.float32), RNG.normal(size=(5, 7, 3)).astype(np.float32)
ROWS = np.array([0, 4, -1, -5, 5, -6, 100, -100, 2**31 - 1, -(2**31), 3], np.int32)
COLUMNS = np.array([6, -7, 7, -8, 0, 3, -100, 100, -(2**31), 2**31 - 1, -1], np.int32)


def loss(logits, labels):  # labels of -100 are ignored
    picked = jnp.where(labels == -100, 0, logits[jnp.arange(labels.shape[0]), labels])
    return picked.sum()


READS = {
    "x[i]": (lambda x, i: x[i], [X, ROWS]),
    "x[i] of rank 2": (lambda x, i: x[i], [CUBE, ROWS.reshape(11, 1)]),
    "x[i, j]": (lambda x, i, j: x[i, j], [X, ROWS, COLUMNS]),
    "x[i, j] of rows": (lambda x, i, j: x[i, j], [CUBE, ROWS, COLUMNS]),
    "x[:, j]": (lambda x, j: x[:, j], [X, COLUMNS]),
    "x[:, i, j]": (lambda x, i, j: x[:, i, j], [np.moveaxis(CUBE, 2, 0), ROWS, COLUMNS]),
    "x[i, 2]": (lambda x, i: x[i, 2], [X, ROWS]),
    "x[i, None, j]": (lambda x, i, j: x[i, None, j], [X, ROWS, COLUMNS]),
    "x[i[0], j[0]]": (lambda x, i, j: x[i[6], j[6]], [X, ROWS, COLUMNS]),
    "x[i[5]]": (lambda x, i: x[i[5]], [X, ROWS]),
    "x[u8]": (lambda x, i: x[i], [X, np.array([0, 5, 255], np.uint8)]),
    "clip": (lambda x, i: jnp.take(x, i, axis=0, mode="clip"), [X, ROWS]),
    "wrap": (lambda x, i: jnp.take(x, i, axis=0, mode="wrap"), [X, ROWS]),
    "fill": (lambda x, i: jnp.take(x, i, axis=0), [X, ROWS]),
    "at fill": (lambda x, i, j: x.at[i, j].get(mode="fill", fill_value=7), [X, ROWS, COLUMNS]),
    "at promise": (lambda x, i, j: x.at[i, j].get(mode="promise_in_bounds"), [X, ROWS, COLUMNS]),
    "along": (lambda x, i: jnp.take_along_axis(x, i, 1), [X, COLUMNS[:10].reshape(5, 2)]),
    "vmap": (jax.vmap(lambda row, i: row[i]), [X, COLUMNS[:5]]),
    "vmap of slices": (jax.vmap(lambda row, i: lax.dynamic_slice(row, (i,), (3,))), [X, COLUMNS[:5]]),
    "ignored labels": (loss, [CUBE[:, :, 0], np.array([3, -100, 6, -100, 0], np.int32)]),
    "gradient": (jax.grad(lambda x, i: (x[i] ** 2).sum()), [X, ROWS]),
}


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("name", READS)
def test_reads_out_of_bounds(name, optimize):
    fn, arguments = READS[name]
    compare(jax.jit(fn)(*arguments), outputs(sardonyx.to_onnx(fn, arguments), arguments, optimize))


@pytest.mark.parametrize("name", ["x[i]", "x[i, j]", "x[:, j]", "fill", "ignored labels"])
def test_reads_out_of_bounds_of_axes_with_names(name):
    fn, arguments = READS[name]
    kinds = {np.dtype(np.float32): "f32", np.dtype(np.int32): "i32"}
    names = iter("BTNKRS")
    shapes = [f"{kinds[a.dtype]}[{','.join(next(names) if a.ndim > 1 else 'L' for _ in a.shape)}]" for a in arguments]
    if name == "ignored labels":
        shapes[0] = "f32[L,T]"
    compare(jax.jit(fn)(*arguments), outputs(sardonyx.to_onnx(fn, shapes), arguments))


# What the program shows to be in bounds.
KNOWN = {
    "iota": lambda x, i: x[jnp.arange(4)],
    "argmax": lambda x, i: x[x.argmax(0)],
    "argsort": lambda x, i: x[jnp.argsort(x[:, 0])],
    "top_k": lambda x, i: x[lax.top_k(x[:, 0], 3)[1]],
    "remainder": lambda x, i: x[i % 5],
    "quotient": lambda x, i: x[(i % 10) // 2],
    "clip": lambda x, i: x[jnp.clip(i, 0, 4)],
    "clip of negative": lambda x, i: x[jnp.clip(i, -5, 4)],
    "minimum": lambda x, i: x[jnp.minimum(jnp.maximum(i, 0), 4)],
    "where": lambda x, i: x[jnp.where(i > 2, 3, 0)],
    "guarded": lambda x, i: x[jnp.where((k := jnp.clip(i, 0, 9)) < 5, k, 0)],
    "mask": lambda x, i: x[i & 3],
    "u8 of 256": lambda x, i: jnp.tile(x, (52, 1))[i.astype(jnp.uint8)],
    "two columns": lambda x, i: x[jnp.arange(5), x.argmax(1)],
    "mixed": lambda x, i: x[jnp.arange(4), jnp.clip(i[:4], 0, 6)],
    "a call": lambda x, i: jax.jit(lambda x, k: x[k])(x, jnp.abs(i) % 5),
    "a loop": lambda x, i: lax.fori_loop(0, 5, lambda n, s: s + x[jnp.full(2, n), jnp.arange(2)], jnp.zeros(2)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_indices_that_are_in_bounds_cost_nothing(name):
    model = sardonyx.to_onnx(KNOWN[name], [X, ROWS], passes="none")
    nodes, graphs = [], [model.graph]
    while graphs:
        graph = graphs.pop()
        nodes += graph.node
        graphs += [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    own = 2 if "clip" in name or name in ("minimum", "guarded", "mixed") else 0  # what the program itself clips
    assert sum(node.op_type in ("Max", "Min", "Clip") for node in nodes) <= own
    compare(jax.jit(KNOWN[name])(X, ROWS), outputs(sardonyx.to_onnx(KNOWN[name], [X, ROWS]), [X, ROWS]))


def test_constant_indices_cost_nothing():
    model = sardonyx.to_onnx(lambda x: x[np.array([4, 0, -5])], [X])
    assert [n.op_type for n in model.graph.node] == ["Gather"]


def test_indices_within_axes_with_names_cost_nothing():
    for fn in (
        lambda x: x[jnp.arange(x.shape[0])],
        lambda x: x[x.argmax(0)],
        lambda x: x[jnp.arange(x.shape[0]) % x.shape[0]],
    ):
        model = sardonyx.to_onnx(fn, [("B", 7)], passes="none")
        assert not {"Max", "Min", "Clip"} & {n.op_type for n in model.graph.node}
        compare(fn(X), outputs(model, [X]))


WRITES = {
    "set": lambda x, i, v: x.at[i].set(v),
    "add": lambda x, i, v: x.at[i].add(v),
    "set, clip": lambda x, i, v: x.at[i].set(v, mode="clip"),
    "max, drop": lambda x, i, v: x.at[i].max(v, mode="drop"),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_out_of_bounds(name):
    arguments = [X, ROWS, np.array(3, np.float32)]
    compare(jax.jit(WRITES[name])(*arguments), outputs(sardonyx.to_onnx(WRITES[name], arguments), arguments))
