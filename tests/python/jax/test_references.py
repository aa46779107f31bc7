"""References (`jax.new_ref`): exports are compared with the jitted function in onnxruntime, in results and
final values of references."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from jax.ref import AbstractRef
from judge import OF_JAX, outputs
from sardonyx import onnx_function, to_onnx


def normal(*shape):
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def zeros(*shape):
    return jnp.zeros(shape, jnp.float32)


def export(fn, *args):
    """Exports with arguments of which some are references, and compares the model with jit(fn)."""
    model = to_onnx(fn, args)
    onnx.checker.check_model(model, full_check=True)
    agree(model, fn, *args)
    return model


def agree(model, fn, *args):
    values = [np.asarray(_held(x)) for x in args]
    own = [jax.new_ref(jnp.asarray(_held(x))) if isinstance(x, jax.Ref) else x for x in args]
    results = jax.tree_util.tree_leaves(jax.jit(fn)(*own))
    changed = [i.name for i in model.graph.input if f"{i.name}.out" in (o.name for o in model.graph.output)]
    final = [_held(x) for x, i in zip(own, model.graph.input, strict=True) if i.name in changed]
    found = outputs(model, values)
    for got, want in zip(found, [*results, *final], strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
        assert got.dtype == want.dtype


def _held(x):
    return x[...] if isinstance(x, jax.Ref) else x


def ops(model):
    return [n.op_type for n in model.graph.node]


# ----------------------------------------------------------------------------------------------------------------------
# References that a program makes for itself


def in_fori(x):
    acc = jax.new_ref(jnp.zeros_like(x))

    def body(i, _):
        acc[...] += x * i

    jax.lax.fori_loop(0, 5, body, None)
    return jax.freeze(acc)


def in_scan(x):
    acc = jax.new_ref(zeros(3))
    count = jax.new_ref(jnp.int32(0))

    def body(carry, row):
        acc[...] = acc[...] * 0.5 + row
        count[...] += 1
        return carry + row[0], acc[...]

    carry, rows = jax.lax.scan(body, 0.0, x)
    return carry, rows, acc[...], count[...]


def in_while(x):
    acc = jax.new_ref(x)
    steps = jax.new_ref(jnp.int32(0))

    def body(total):
        acc[...] = acc[...] * 1.5
        steps[...] += 1
        return jnp.sum(jnp.abs(acc[...]))

    total = jax.lax.while_loop(lambda total: total < 100.0, body, 1.0)
    return total, acc[...], steps[...]


def in_cond(x):
    acc = jax.new_ref(x)

    def double():
        acc[...] *= 2
        return acc[0, 0]

    def keep_first():
        acc[1:] = jnp.zeros_like(x[1:])
        return 1.0

    first = jax.lax.cond(x[0, 0] > 0, double, keep_first)
    second = jax.lax.cond(x[0, 0] < 0, double, keep_first)
    return first, second, acc[...]


def in_switch(x):
    acc = jax.new_ref(x)

    def add(k):
        acc[...] += k

    for i in (-3, 0, 1, 2, 9):
        jax.lax.switch(jnp.int32(i) + (x[0, 0] > 9), [lambda k=k: add(k) for k in (1.0, 10.0, 100.0)])
    return acc[...]


def in_jit(x):
    acc = jax.new_ref(x)

    @jax.jit
    def step(ref, y):
        ref[...] += y
        inner = jax.new_ref(y)
        inner[0] = ref[1]
        return inner[...]

    a = step(acc, x)
    return a + step(acc, a), acc[...]


def in_remat(x):
    @jax.checkpoint
    def f(x):
        acc = jax.new_ref(x)
        acc[0] = jnp.sin(x[1])
        return acc[...]

    return f(x), jax.grad(lambda x: f(x).sum())(x)


def loop_in_loop(x):
    acc = jax.new_ref(zeros(3, 5))

    def outer(i, _):
        def inner(j, _):
            acc[i, j] = x[j, i] + acc[i, jnp.maximum(j - 1, 0)]

        jax.lax.fori_loop(0, 5, inner, None)

    jax.lax.fori_loop(0, 3, outer, None)
    return acc[...]


def cond_in_scan(x):
    best = jax.new_ref(jnp.full(3, -jnp.inf))

    def body(_, row):
        def keep():
            best[...] = row

        jax.lax.cond(row.sum() > best[...].sum(), keep, lambda: None)
        return None, best[0]

    return jax.lax.scan(body, None, x)[1], best[...]


def by_index(x):
    r = jax.new_ref(x)
    i = (x[0, 0] > 0).astype(jnp.int32) + 1
    r[i] = r[0] + 1
    r[i, 2] = 7.0
    r[0, jnp.array([2, 0])] = jnp.array([5.0, 6.0])
    r[jnp.array([1, 3]), jnp.array([0, 1])] += 0.25
    old = jax.ref.swap(r, 4, jnp.ones(3))
    return r[...], old, r[i, 1:], r[:, i], r[jnp.array([4, 0])], r[1:4, i], r[-1]


def by_slice(x):
    r = jax.new_ref(x)
    r[1:3] = r[1:3] * 2
    r[::2] = r[::2] - 1
    r[:, 1:] += 1.0
    return r[...], r[2:, :2], r[1::2]


def at_both_sides_of_a_slice(x):
    r = jax.new_ref(jnp.stack([x, 2 * x]))
    r[jnp.array([1, 0]), :, jnp.array([0, 2])] = jnp.stack([jnp.arange(5.0), -jnp.arange(5.0)])
    return r[...], r[jnp.array([1, 0]), 1:3, jnp.array([1, 1])]


def negative_and_outside(x):
    r = jax.new_ref(x)
    r[-2] = jnp.zeros(3)
    return r[...], r[-1, -1]


def addupdate(x):
    r = jax.new_ref(x)
    jax.ref.addupdate(r, ..., x)
    jax.ref.addupdate(r, 0, jnp.ones(3))
    jax.ref.addupdate(r, (slice(None), jnp.array([0, 2])), jnp.ones((5, 2)))
    jax.ref.addupdate(r, (jnp.array([1, 1, 4]), 0), jnp.array([1.0, 2.0, 3.0]))  # one element twice
    return r[...]


def views(x):
    r = jax.new_ref(x)
    v = r.at[1:4]
    v[0] = v[1] + 1
    return r[...], v[...]


def in_vmap(x):
    def f(row):
        r = jax.new_ref(row)
        r[0] = row.sum()

        def body(i, _):
            r[i] = r[i] * 2 + i

        jax.lax.fori_loop(0, 3, body, None)
        return r[...]

    return jax.vmap(f)(x)


def gradient(x):
    def loss(x):
        r = jax.new_ref(x)
        r[...] = jnp.sin(r[...])

        def body(i, _):
            r[i] = r[i] * r[0]

        jax.lax.fori_loop(1, 5, body, None)
        return jnp.sum(r[...] ** 2)

    return jax.value_and_grad(loss)(x)


def of_types(x):
    b = jax.new_ref(x > 0)
    b[0] = ~b[0]
    i = jax.new_ref(jnp.arange(5, dtype=jnp.uint8))
    i[...] += jnp.uint8(255)
    h = jax.new_ref(x.astype(jnp.float16))
    h[1] *= 2
    k = jax.new_ref(jax.random.key_data(jax.random.key(3)))
    return b[...], i[...], h[...], k[...]


def two_references(x):
    a, b = jax.new_ref(x), jax.new_ref(x)  # of one type: they must not be confused
    a[0] = b[1]
    b[...] = a[...] + b[...]
    a[...] = b[...] * a[...]
    return jax.freeze(a), jax.freeze(b)


def scanned_references(x):
    rows = jax.new_ref(x)

    def body(carry, row):
        row[0] = carry
        return carry + row[1], None

    carry, _ = jax.lax.scan(body, 1.0, rows)
    return carry, rows[...]


def run_state(x):
    from jax._src.state.discharge import run_state

    def body(refs):
        a, b = refs
        a[...] += b[...]
        b[0] = a[1]

    return run_state(body)((x, 2 * x))


def masked(x):
    from jax._src.state.discharge import run_state
    from jax.experimental import pallas as pl

    if hasattr(pl, "load"):
        load, store = pl.load, pl.store
    else:  # newer JAX has them in its backends, on views
        from jax.experimental.pallas import triton

        def load(ref, at, **options):
            return triton.load(ref.at[at], **options)

        def store(ref, at, value, **options):
            triton.store(ref.at[at], value, **options)

    def body(refs):
        a, b = refs
        three, all_columns = pl.ds(1, 3), pl.ds(0, 3)
        store(b, (three, all_columns), load(a, (three, all_columns)), mask=a[1:4] > 0)
        b[4:5] = load(a, (pl.ds(4, 1), all_columns), mask=a[4:5] < 0, other=9.0)

    return run_state(body)((x, 2 * x))


INSIDE = [
    in_fori, in_scan, in_while, in_cond, in_switch, in_jit, in_remat, loop_in_loop, cond_in_scan, by_index, by_slice, at_both_sides_of_a_slice,
    negative_and_outside, addupdate, views, in_vmap, gradient, of_types, two_references, scanned_references, run_state, masked,
]  # fmt: skip


@pytest.mark.parametrize("fn", INSIDE, ids=lambda f: f.__name__)
def test_references_made_inside(fn):
    if fn is in_vmap and OF_JAX < (0, 9):
        pytest.skip("JAX had no rule for it")
    export(fn, normal(5, 3))
    export(fn, -normal(5, 3))


# ----------------------------------------------------------------------------------------------------------------------
# References that come from outside


def names(ports):
    return [p.name for p in ports]


def test_the_final_value_of_an_argument_is_a_result():
    def step(x, state):
        state[...] = state[...] * 0.5 + x
        return state[0]

    model = export(step, normal(3), jax.new_ref(zeros(3)))
    assert names(model.graph.input) == ["x", "state"]
    assert names(model.graph.output) == ["output", "state.out"]


def test_an_argument_that_is_only_read_is_no_result():
    model = export(lambda x, table: table[1:] * x, normal(2), jax.new_ref(jnp.asarray(normal(3))))
    assert names(model.graph.output) == ["output"]


def test_a_function_may_return_nothing_but_what_it_changes():
    def count(steps):
        jax.ref.addupdate(steps, ..., 1)

    model = export(count, jax.new_ref(jnp.int32(41)))
    assert names(model.graph.output) == ["steps.out"]


def test_references_in_a_pytree_have_sizes_with_names():
    def step(cache, i, x):
        cache["k"][i] = x
        cache["v"][i] = 2 * x
        return (cache["k"][...] * cache["v"][...]).sum(0)

    shape = jax.ShapeDtypeStruct(("T", 3), jnp.float32)
    cache = {"k": AbstractRef(shape), "v": AbstractRef(shape)}
    model = to_onnx(step, [cache, np.int32(0), (3,)], check=True)
    assert names(model.graph.input) == ["cache.k", "cache.v", "i", "x"]
    assert names(model.graph.output) == ["output", "cache.k.out", "cache.v.out"]
    for t in (7, 5, 1):
        k, v = normal(t, 3), -normal(t, 3)
        refs = {"k": jax.new_ref(jnp.asarray(k)), "v": jax.new_ref(jnp.asarray(v))}
        want = jax.jit(step)(refs, jnp.int32(t - 1), jnp.asarray(normal(3)))
        found = outputs(model, [k, v, np.asarray(t - 1, np.int32), normal(3)])
        for got, expected in zip(found, [want, refs["k"][...], refs["v"][...]], strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)


class Counter:
    def __init__(self):
        self.steps = jax.new_ref(jnp.int32(5))
        self.scale = jax.new_ref(jnp.asarray(normal(3)))

    def __call__(self, x):
        self.steps[...] += 1
        return x * self.scale[...] * self.steps[...]


@pytest.mark.parametrize("jit", [False, True])
def test_a_captured_reference_that_changes_is_an_input_and_a_result(jit):
    counter = Counter()
    fn = jax.jit(counter.__call__) if jit else counter
    model = to_onnx(fn, [(3,)], check=True)
    assert names(model.graph.input)[0] == "x" and len(model.graph.input) == 2
    assert jit or names(model.graph.input) == ["x", "steps"]
    assert names(model.graph.output) == ["output", names(model.graph.input)[1] + ".out"]
    assert counter.steps[...] == 5  # neither the export nor its check has run a step
    y, steps = outputs(model, [normal(3), np.asarray(5, np.int32)])
    np.testing.assert_allclose(y, normal(3) * normal(3) * 6, rtol=1e-6)
    assert steps == 6
    assert sardonyx.compare(fn, model, [(3,)])
    assert counter.steps[...] == 5


def test_a_captured_reference_that_is_only_read_is_a_constant():
    scale = jax.new_ref(jnp.asarray(normal(3)))

    def fn(x):
        return x * scale[...]

    model = to_onnx(fn, [(3,)], check=True)
    assert names(model.graph.input) == ["x"]
    np.testing.assert_allclose(outputs(model, [normal(3)])[0], normal(3) ** 2, rtol=1e-6)


def test_functions_take_references():
    @onnx_function
    def step(state, x):
        inner = jax.new_ref(x)
        inner[0] = state[1]
        state[...] += inner[...]
        return state[...] * 2

    model = export(lambda x, state: step(state, step(state, x)), normal(3), jax.new_ref(zeros(3)))
    assert [n.op_type for n in model.graph.node] == ["step", "step"] and len(model.functions) == 1


def test_custom_gradients_write_to_references():
    @jax.custom_vjp
    def stash(ref, x):
        ref[...] = x
        return jnp.sin(x)

    stash.defvjp(lambda ref, x: (stash(ref, x), x), lambda x, g: (None, g * jnp.cos(x)))

    def fn(x, state):
        return stash(state, x) + 1

    export(fn, normal(3), jax.new_ref(zeros(3)))


def test_references_beside_sizes_that_depend_on_data():
    def fn(x):
        total = jax.new_ref(zeros(3))
        y = x[x > 0]
        total[...] += y.sum()
        return y, total[...]

    model = to_onnx(fn, [("N",)], check=True)
    for n in (7, 5, 1):
        y, total = outputs(model, [normal(n)])
        np.testing.assert_array_equal(y, normal(n)[normal(n) > 0])
        np.testing.assert_allclose(total, np.full(3, y.sum()), rtol=1e-5)


def test_plugins_see_equations_on_values():
    seen = []

    @sardonyx.lowering("sin")
    def lower_sin(ctx, eqn):
        seen.append(str(eqn.invars[0].aval.str_short()))
        return ctx.builder.Sin(ctx.get_value_for_var(eqn.invars[0]))

    def fn(x, state):
        state[...] = jnp.sin(state[...] + x)

    try:
        export(fn, normal(3), jax.new_ref(zeros(3)))
    finally:
        sardonyx.plugins.unregister("sin")
    assert seen == ["float32[3]"]


def test_the_equation_that_differs_is_found_among_references():
    @sardonyx.lowering("sin")
    def lower_sin(ctx, eqn):
        return ctx.builder.Cos(ctx.get_value_for_var(eqn.invars[0]))

    def fn(x, state):
        state[...] += x * 2
        state[...] = jnp.sin(state[...])

    try:
        with pytest.raises(sardonyx.Error, match="differs from JAX") as e:
            to_onnx(fn, [(3,), jax.new_ref(zeros(3))], check=True)
    finally:
        sardonyx.plugins.unregister("sin")
    assert e.value.notes[0].startswith("the first equation that differs is sin of f")


def test_nodes_say_where_references_are_written():
    def fn(x, state):
        state[...] += jnp.sin(x)

    model = export(fn, normal(3), jax.new_ref(zeros(3)))
    sources = [p.value for n in model.graph.node for p in n.metadata_props if p.key == "pkg.sardonyx.callsite"]
    assert len(sources) == 2 and all("fn:" in s for s in sources)


def test_output_names_count_what_changes():
    def step(a, b):
        a[...] += 1
        b[...] += a[...]
        return a[...]

    refs = [jax.new_ref(zeros(3)), jax.new_ref(zeros(3))]
    assert names(to_onnx(step, refs, output_names=["y", "a2", "b2"]).graph.output) == ["y", "a2", "b2"]
    assert names(to_onnx(step, refs, output_names="positional").graph.output) == ["out_0", "out_1", "out_2"]
    with pytest.raises(sardonyx.Error, match="1 names for 3 results") as e:
        to_onnx(step, refs, output_names=["y"])
    assert e.value.notes == ("the results are output, a.out, b.out",)


# ----------------------------------------------------------------------------------------------------------------------
# Programs that JAX's jit refuses


@pytest.mark.skipif(OF_JAX < (0, 9), reason="older JAX has another message")
def test_a_reference_is_no_result():
    with pytest.raises(sardonyx.Error, match="ValueError: it returned a mutable array reference"):
        to_onnx(jax.new_ref, [(3,)])


def test_no_reference_comes_in_twice():
    state = jax.new_ref(zeros(3))

    def step(a, b):
        a[...] += b[...]

    for fn, inputs in ((step, [state, state]), (lambda a: step(a, state), [state])):
        with pytest.raises(sardonyx.Error, match="the same reference"):
            to_onnx(fn, inputs)


def test_what_jax_cannot_index_is_named():
    def fn(x):
        r = jax.new_ref(x)
        r[::2, 0] = jnp.ones(3)
        return r[...]

    try:
        jax.jit(fn)(normal(5, 3))
    except Exception as refused:
        with pytest.raises(sardonyx.Error, match="cannot turn a reference into values: .*") as e:
            to_onnx(fn, [(5, 3)])
        assert str(refused) in e.value.message
        assert e.value.notes == (
            f"at test_references.py:{fn.__code__.co_firstlineno + 2} (fn)",
            "jax.jit refuses it, too",
        )
    else:
        export(fn, normal(5, 3))


def test_freezing_an_argument_is_refused():
    with pytest.raises(sardonyx.Error, match="freezes a reference that is not its own"):
        to_onnx(jax.freeze, [jax.new_ref(zeros(3))])


def test_keyword_arguments_are_no_references():
    with pytest.raises(sardonyx.Error, match=r"input_params\['state'\] is a reference"):
        to_onnx(lambda x, *, state: x, [(3,)], input_params={"state": jax.new_ref(zeros(3))})


def test_the_parts_of_jax_that_exports_use_are_there():
    """Fails first on new versions of JAX: everything that sardonyx._trace.state uses from its private modules."""
    import inspect

    from jax._src.interpreters import pxla
    from jax._src.state.discharge import discharge_state

    first = next(iter(inspect.signature(discharge_state).parameters))
    assert first == ("jaxpr" if OF_JAX < (0, 10) else "closed_jaxpr")
    state = jax.new_ref(zeros(3))
    closed = jax.make_jaxpr(lambda x: state.__setitem__(..., x))(zeros(3))
    moved, captured = pxla._move_mutable_consts(closed)
    assert captured == [state] and len(moved.jaxpr.invars) == 2
    assert {type(e).__name__ for e in moved.effects} <= {"ReadEffect", "WriteEffect"} != set()
    made = jax.make_jaxpr(lambda x: jax.freeze(jax.new_ref(x)))(zeros(3))
    assert {type(e).__name__ for e in made.effects} == {"InternalMutableArrayEffect"}
