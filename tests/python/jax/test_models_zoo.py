"""The models of `zoo`: exported, compared with JAX in onnxruntime and in the evaluator, their graphs with
expected ones."""

import collections

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
import onnx_messages
import pytest
import sardonyx
from judge import check_structure, compare, graphs, outputs
from primitives.table import primitives_of
from zoo import Model, all_models, f32

MODELS = all_models()


def evaluated(model, inputs):
    results = sardonyx.evaluate(model, {i.name: x for i, x in zip(model.graph.input, inputs, strict=True)})
    return [results[o.name] for o in model.graph.output]


def read_and_written(exported):
    return sardonyx.optimize(exported, passes="none")


def check_tidy(exported):
    """Nothing is computed twice, and no data movement directly follows another."""
    for graph in graphs(exported.graph):
        readers = collections.Counter(name for g in graphs(graph) for n in g.node for name in n.input)
        readers.update(o.name for o in graph.output)
        seen, made_by = {}, {}
        for node in graph.node:
            key = (node.domain, node.op_type, *node.input, *sorted(a.SerializeToString() for a in node.attribute))
            assert key not in seen or node.op_type.startswith("Random"), f"{node.op_type} of {node.input} twice"
            seen[key] = node
            made_by.update((o, node) for o in node.output)
            above = made_by.get(node.input[0]) if node.input else None
            if above is not None and node.op_type in ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Expand"):
                again = above.op_type == node.op_type and readers[node.input[0]] == 1
                assert not again, f"{node.op_type} of a {above.op_type} that nobody else reads: {above.input[0]}"


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_agrees_with_jax(model):
    fn = model.make()
    exported = sardonyx.to_onnx(fn, list(model.inputs))
    static = not any(isinstance(d, str) for s in model.inputs for d in s.shape)
    check_structure(exported, static=static, f64=False)
    check_tidy(exported)
    again = read_and_written(exported)
    assert onnx_messages.same(exported, again) is None
    jitted = jax.jit(fn)
    for sizes in model.sizes:
        inputs = model.sample(sizes)
        expected = jitted(*map(jnp.asarray, inputs))
        found = outputs(exported, inputs)
        compare(expected, found, model.tolerance)
        if sizes is model.sizes[0]:
            same = [
                a.dtype == b.dtype and a.tobytes() == b.tobytes()
                for a, b in zip(found, outputs(again, inputs), strict=True)
            ]
            assert all(same), f"results {[i for i, s in enumerate(same) if not s]} changed bits when read and written"
        compare(expected, evaluated(exported, inputs), model.tolerance)

    found = collections.Counter(n.op_type for g in graphs(exported.graph) for n in g.node)
    wrong = {op: found[op] for op, count in model.ops.items() if found[op] != count}
    assert not wrong, f"{wrong} where {dict(model.ops)} are expected, in {dict(found)}"


def test_primitives_that_jax_writes_in_jax():
    """Equinox's own primitives have no lowering: the programs that they stand for are exported."""
    doubled = eqxi.noinline(lambda x: jnp.sin(x) * 2)

    def fn(x):
        def body(state):
            i, rows = state
            return i + 1, rows.at[i].set(doubled(x[i]) + rows[i - 1])

        def unfinished(state):
            return state[0] < 3

        start = (0, jnp.zeros((5, 3)))
        return eqxi.while_loop(
            unfinished, body, start, kind="checkpointed", checkpoints=2, buffers=lambda s: s[1], max_steps=5
        )

    names = primitives_of(jax.make_jaxpr(fn)(f32(5, 3)))
    assert {"noinline", "maybe_set"} <= names
    exported = sardonyx.to_onnx(fn, [f32(5, 3)])
    x = Model("", None, [f32(5, 3)]).sample({})
    compare(fn(jnp.asarray(x[0])), outputs(exported, x))


def test_some_singular_values():
    """JAX traces a range of singular values, and its CPU has no kernel for it."""
    x = Model("", None, [f32(7, 5)]).sample({})
    exported = sardonyx.to_onnx(
        lambda x: jax.lax.linalg.svd(x, full_matrices=False, subset_by_index=(1, 3)), [f32(7, 5)]
    )
    u, s, v = outputs(exported, x)
    want_u, want_s, want_v = jnp.linalg.svd(x[0], full_matrices=False)
    compare([want_s[1:3], jnp.abs(want_u[:, 1:3]), jnp.abs(want_v[1:3])], [s, abs(u), abs(v)], 1e-5)


def test_an_error_of_equinox_is_nan():
    """A model cannot raise: a value guarded by `error_if` is NaN where it would raise, and unchanged
    elsewhere."""

    def guarded(x):
        return eqx.error_if(x, jnp.any(x > 9), "too large") * 2

    model = sardonyx.to_onnx(guarded, [("B", 3)])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(outputs(model, [x])[0], x * 2)
    assert np.isnan(outputs(model, [x + 5])[0]).all()
