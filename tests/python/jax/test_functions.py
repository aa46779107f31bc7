"""`@sardonyx.onnx_function`: the functions that a model gets, and their results beside JAX's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from flax import nnx
from judge import outputs
from sardonyx import onnx_function, to_onnx


def normal(*shape):
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def functions(model: onnx.ModelProto) -> list[tuple[str, str]]:
    return [(f.domain, f.name) for f in model.functions]


def agree(model, fn, *inputs):
    onnx.checker.check_model(model, full_check=True)
    expected = jax.tree_util.tree_leaves(fn(*inputs))
    for got, want in zip(outputs(model, list(inputs)), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


@onnx_function
def scaled(x, y):
    return jnp.tanh(x) * 2 + y


@onnx_function(namespace="my.model", type="Twice")
def twice(x):
    return scaled(scaled(x, x), x) + x


def test_one_body_serves_equal_calls():
    model = to_onnx(lambda x, y: scaled(scaled(x, y), y), [("B", 3), ("B", 3)])
    assert functions(model) == [("custom.scaled.1", "scaled")]
    assert [n.op_type for n in model.graph.node] == ["scaled", "scaled"]
    for batch in (2, 5):
        agree(model, lambda x, y: scaled(scaled(x, y), y), normal(batch, 3), normal(batch, 3))


def test_other_shapes_are_another_function():
    model = to_onnx(lambda x, y: (scaled(x, x), scaled(y, y)), [(2, 3), (5,)])
    assert functions(model) == [("custom.scaled.1", "scaled"), ("custom.scaled.2", "scaled")]
    agree(model, lambda x, y: (scaled(x, x), scaled(y, y)), normal(2, 3), normal(5))


def test_functions_call_functions():
    model = to_onnx(twice, [("B", 3)])
    assert sorted(functions(model)) == [("custom.scaled.1", "scaled"), ("my.model.Twice.1", "Twice")]
    body = next(f for f in model.functions if f.name == "Twice")
    assert [n.op_type for n in body.node] == ["scaled", "scaled", "Add"]
    agree(model, twice, normal(5, 3))


@onnx_function(unique=True)
class Block(nnx.Module):
    def __init__(self, width, rngs):
        self.dense = nnx.Linear(width, width, rngs=rngs)

    def __call__(self, x):
        return nnx.relu(self.dense(x))


def test_each_module_keeps_its_own_weights():
    blocks = [Block(7, nnx.Rngs(i)) for i in range(2)]

    def fn(x):
        return blocks[1](blocks[0](blocks[0](x)))

    model = to_onnx(fn, [("B", 7)])
    assert functions(model) == [("custom.Block.unique", "Block"), ("custom.Block.unique.2", "Block")]
    assert not model.graph.initializer and any(n.op_type == "Constant" for n in model.functions[0].node)
    for batch in (2, 3):
        agree(model, fn, normal(batch, 7))


def test_sizes_that_no_operand_tells_are_passed_in():
    @onnx_function
    def tail(row, x):
        return jnp.broadcast_to(row, (x.shape[0], 3)) * jnp.float32(x.shape[0])

    @onnx_function
    def total(row, size_giver):
        n = size_giver.shape[0]
        return tail(row, size_giver) + jnp.zeros((n, 3))

    def fn(row, x):
        return total(row, x), tail(row, x)

    model = to_onnx(fn, [(3,), ("B", 2)])
    for batch in (2, 5):
        agree(model, fn, normal(3), normal(batch, 2))


def test_inside_control_flow():
    def fn(x, n):
        return jax.lax.fori_loop(0, n, lambda i, c: scaled(c, x), x)

    model = to_onnx(fn, [(2, 3), jax.ShapeDtypeStruct((), jnp.int32)])
    assert ("custom.scaled.1", "scaled") in functions(model)
    agree(model, fn, normal(2, 3), np.array(3, np.int32))

    @onnx_function
    def looped(x):
        return jax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + x, x)

    agree(to_onnx(looped, [("B", 3)]), looped, normal(5, 3))


def test_in_branches_and_branches_inside():
    @onnx_function
    def chosen(x, c):
        return jax.lax.cond(c, lambda v: scaled(v, x), lambda v: -v, x)

    def fn(x, c):
        return jax.lax.cond(c, lambda v: chosen(v, c), lambda v: scaled(v, v) + 1, x)

    model = to_onnx(fn, [("B", 3), jax.ShapeDtypeStruct((), jnp.bool_)])
    assert sorted(f.name for f in model.functions) == ["chosen", "scaled"]
    for c in (True, False):
        agree(model, fn, normal(2, 3), np.array(c))


def test_a_scan_in_a_function_in_a_scan():
    @onnx_function
    def summed(carry, row):
        def step(c, r):
            return c + jnp.tanh(r), c * r

        carry, seen = jax.lax.scan(step, carry, row)
        return carry, scaled(seen, seen)

    def fn(x):
        return jax.lax.scan(summed, jnp.zeros(()), x)

    model = to_onnx(fn, [("B", 5)])
    assert sorted(f.name for f in model.functions) == ["scaled", "summed"]
    agree(model, fn, normal(3, 5))


def test_functions_that_call_themselves():
    @onnx_function(type="Power")
    def power(x, n):
        return jnp.tanh(x) if n == 0 else x * power(x, n - 1)

    model = to_onnx(lambda x: power(x, 2) + power(x, 1), [("B", 3)])
    assert sorted(functions(model)) == [(f"custom.Power.{i}", "Power") for i in (1, 2, 3)]
    calls = {f.domain: [n.domain for n in f.node if n.op_type == "Power"] for f in model.functions}
    assert sorted(map(len, calls.values())) == [0, 1, 1]
    agree(model, lambda x: power(x, 2) + power(x, 1), normal(2, 3))


def test_decorators_on_decorators():
    @onnx_function
    @jax.jit
    def inner(x):
        return jnp.sin(x) * 2

    outer = jax.jit(inner)
    twice_marked = onnx_function(onnx_function(scaled))

    def fn(x):
        return jax.checkpoint(outer)(x) + jax.vmap(inner)(x) + twice_marked(x, x)

    model = to_onnx(fn, [("B", 3)])
    assert sorted({f.name for f in model.functions}) == ["inner", "scaled"]
    agree(model, fn, normal(2, 3))


def test_classes_that_derive_from_decorated_ones():
    @onnx_function
    class Layer:
        def __init__(self, scale):
            self.scale = scale

        def __call__(self, x):
            return jnp.tanh(x) * self.scale

    @onnx_function
    class Wider(Layer):
        def __call__(self, x):
            return super().__call__(x) + x

    layer, wider = Layer(2.0), Wider(3.0)
    model = to_onnx(lambda x: wider(layer(x)), [("B", 3)])
    assert sorted(functions(model)) == [
        ("custom.Layer.1", "Layer"),
        ("custom.Layer.2", "Layer"),
        ("custom.Wider.1", "Wider"),
    ]
    agree(model, lambda x: wider(layer(x)), normal(2, 3))


def test_derived_classes_have_options_of_their_own():
    @onnx_function(namespace="base")
    class Layer:
        def __call__(self, x):
            return jnp.tanh(x) * 2

    @onnx_function(namespace="derived", type="Special", unique=True)
    class Derived(Layer):
        pass

    class Plain(Layer):
        pass

    for kind, name in (
        (Layer, ("base.Layer.1", "Layer")),
        (Derived, ("derived.Special.unique", "Special")),
        (Plain, ("base.Layer.1", "Layer")),
    ):
        assert functions(to_onnx(lambda x, kind=kind: kind()(x), [(3,)])) == [name]


def test_decorating_twice_with_other_options_is_refused():
    part = onnx_function(lambda x: jnp.sin(x) * 2, namespace="mine", type="Part")
    assert onnx_function(part) is part
    assert onnx_function(part, namespace="mine", type="Part") is part
    for options, message in (
        ({"namespace": "other"}, "Part is decorated twice: its namespace is 'mine', and 'other' was asked for"),
        ({"type": "Other"}, "its type is 'Part', and 'Other' was asked for"),
        ({"unique": True}, "its unique is False"),
    ):
        with pytest.raises(sardonyx.Error, match=message):
            onnx_function(part, **options)


def test_names_of_unique_functions_in_a_namespace():
    @onnx_function(unique=True, namespace="my.model", type="Part")
    def part(x):
        return jnp.cos(x) + 1

    @onnx_function(namespace="my.model", type="Part")
    def other(x):
        return jnp.sin(x) - 1

    model = to_onnx(lambda x, y: (part(part(x)), part(y), other(x), other(y)), [(2, 3), (5,)])
    domains = ["my.model.Part.1", "my.model.Part.2", "my.model.Part.unique", "my.model.Part.unique.2"]
    assert sorted(functions(model)) == [(d, "Part") for d in domains]
    assert [i.domain for i in model.opset_import if i.domain] == sorted(
        domains, key=[n.domain for n in model.graph.node].index
    )
    agree(model, lambda x, y: (part(part(x)), part(y), other(x), other(y)), normal(2, 3), normal(5))


def test_flags_and_results_that_are_no_arrays():
    @onnx_function
    def shifted(x, by=None, *, negate=False):
        y = x * 3.0 if by is None else x + by
        return {"value": -y if negate else y, "note": "text"}

    def fn(x):
        return shifted(x)["value"], shifted(x, by=2.0, negate=True)["value"]

    model = to_onnx(fn, [(2, 3)])
    assert len(model.functions) == 2
    agree(model, fn, normal(2, 3))


def test_gradients_pass_through():
    def fn(x):
        return jax.grad(lambda v: jnp.sum(scaled(v, v)))(x)

    agree(to_onnx(fn, [(2, 3)]), fn, normal(2, 3))


def test_decorated_functions_are_plain_outside():
    assert "jit" not in str(jax.make_jaxpr(scaled)(1.0, 2.0))
    assert scaled.__name__ == "scaled"


def test_unsupported_equations_inside_are_reported():
    @onnx_function
    def odd(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), jnp.float32), x)

    with pytest.raises(sardonyx.Error, match="pure_callback"):
        to_onnx(odd, [(3,)])


@pytest.mark.parametrize(
    ("options", "message"), [({"namespace": "a b"}, "is not a domain"), ({"target": 3}, "needs a function or a class")]
)
def test_wrong_decorations(options, message):
    with pytest.raises(sardonyx.Error, match=message):
        onnx_function(**options)


@onnx_function(attributes=("alpha", "times"))
def leaking(x, alpha=0.25, *, times: int = 1):
    return jnp.where(x < 0, alpha * x, x) * times


def call_attributes(model):
    return [{a.name: onnx.helper.get_attribute_value(a) for a in n.attribute} for n in model.graph.node]


def test_a_call_has_attributes_of_its_own():
    def fn(x):
        return leaking(leaking(leaking(x), 0.5), alpha=0.75, times=3)

    model = to_onnx(fn, [("B", 3)])
    assert call_attributes(model) == [
        {"alpha": 0.25, "times": 1},
        {"alpha": 0.5, "times": 1},
        {"alpha": 0.75, "times": 3},
    ]
    assert functions(model) == [("custom.leaking.1", "leaking")] and list(model.functions[0].attribute) == [
        "alpha",
        "times",
    ]
    agree(model, fn, normal(5, 3))


def test_an_attribute_of_a_call_can_be_changed_afterwards():
    model = to_onnx(lambda x: leaking(leaking(x), 0.5), [("B", 3)])
    model.graph.node[1].attribute[0].f = 0.125
    agree(model, lambda x: leaking(leaking(x), 0.125), normal(5, 3))


def test_attributes_pass_through_functions():
    @onnx_function(attributes=["alpha"])
    def deep(x, alpha):
        return leaking(leaking(x, alpha), alpha=0.5) + alpha

    def fn(x):
        return deep(deep(x, 0.5), 2)

    model = to_onnx(fn, [("B", 3)])
    assert sorted(f.name for f in model.functions) == ["deep", "deep", "leaking", "leaking"]  # 2 is an integer
    agree(model, fn, normal(5, 3))


def test_what_a_call_computes_is_an_operand():
    def fn(x, a):
        return leaking(x, a) + jax.lax.fori_loop(0, 3, lambda i, c: leaking(c, 0.5, times=2) + leaking(c, i * 0.1), x)

    model = to_onnx(fn, [("B", 3), ()])
    assert len(model.functions) == 3
    agree(model, fn, normal(5, 3), np.array(0.5, np.float32))


def test_numbers_of_several_kinds_are_attributes():
    @onnx_function(attributes=["n", "s"])
    def scaled_by(x, n, s):
        return (x * n).astype(jnp.int32) + n, x * s

    for dtype in (jnp.bfloat16, jnp.float16, jnp.int8):
        spec = jax.ShapeDtypeStruct(("B", 3), dtype)
        model = to_onnx(lambda x: (scaled_by(x, 3, 2.5), scaled_by(x, 5, -1.5)), [spec])
        assert len(model.functions) == 1
        onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize(
    "options, message",
    [({"attributes": "alpha"}, "takes a list of names"), ({"attributes": ["beta"]}, "has no parameter 'beta'")],
)
def test_wrong_attributes(options, message):
    with pytest.raises(sardonyx.Error, match=message):
        onnx_function(**options)(lambda alpha: alpha)


def test_partials_and_objects_have_names():
    tripled = onnx_function(functools.partial(jnp.multiply, 3.0))
    dense = onnx_function(nnx.Linear(3, 5, rngs=nnx.Rngs(0)))
    model = to_onnx(lambda x: dense(tripled(x)), [("B", 3)])
    assert functions(model) == [("custom.multiply.1", "multiply"), ("custom.Linear.1", "Linear")]
    agree(model, lambda x: dense(tripled(x)), normal(5, 3))


def normalized(train):
    """A network with statistics that change as it runs, in NNX."""

    @onnx_function
    class Inner(nnx.Module):
        def __init__(self, rngs):
            self.norm = nnx.BatchNorm(5, rngs=rngs, use_running_average=not train)

        def __call__(self, x):
            return nnx.relu(self.norm(x))

    @onnx_function
    class Outer(nnx.Module):
        def __init__(self, rngs):
            self.linear, self.inner = nnx.Linear(3, 5, rngs=rngs), Inner(rngs)

        def __call__(self, x):
            return self.inner(self.linear(x)) * 2

    graph, state = nnx.split(Outer(nnx.Rngs(0)))

    def fn(state, x):
        module = nnx.merge(graph, state)
        return module(x), nnx.state(module, nnx.BatchStat)

    return fn, state


def test_modules_that_change_state_are_written_out():
    fn, state = normalized(train=True)
    with pytest.warns(UserWarning, match="Inner changes state as it runs"):
        model = to_onnx(fn, [state, ("B", 3)])
    assert functions(model) == []
    found = outputs(model, [*map(np.array, jax.tree_util.tree_leaves(state)), normal(4, 3)])
    want = jax.tree_util.tree_leaves(fn(state, normal(4, 3)))
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    fn, state = normalized(train=False)
    assert len(functions(to_onnx(fn, [state, ("B", 3)]))) == 2


def test_numbers_of_functions_have_no_gaps():
    """Bodies that only a first, discarded trace by jax.checkpoint calls go."""

    @onnx_function
    def inner(x):
        return jnp.sin(x) + 1

    @onnx_function(unique=True)
    def outer(x):
        return jnp.cos(inner(x))

    def loss(x):
        return jnp.sum(jax.checkpoint(lambda v: outer(outer(v)))(x))

    for fn in (jax.grad(loss), lambda x: jax.checkpoint(lambda v: outer(v) * 2)(x) + jax.grad(loss)(x)):
        model = to_onnx(fn, [(5,)])
        for name, first in (("inner", "custom.inner.1"), ("outer", "custom.outer.unique")):
            domains = {f.domain for f in model.functions if f.name == name}
            group = first.removesuffix(".1")
            assert domains == {first, *(f"{group}.{k}" for k in range(2, len(domains) + 1))}
        assert {o.domain for o in model.opset_import} == {"", *(f.domain for f in model.functions)}
        agree(model, fn, normal(5))


def test_an_integer_calls_the_body_that_a_float_calls():
    """The function only converts it: 3 and 3.0 are one attribute, of type float."""

    @onnx_function(attributes=["k"])
    def scale(x, k=2.0):
        return x * k + jnp.sin(k * x)

    @onnx_function(attributes=["k"])
    def power(x, k=2):
        return jnp.full(3, k) + x * k  # integers and floats differ here

    model = to_onnx(lambda x: scale(x) + scale(x, k=3) + scale(x, k=4.0), [("B", 3)])
    assert functions(model) == [("custom.scale.1", "scale")]
    values = [a.f for n in model.graph.node for a in n.attribute if n.op_type == "scale"]
    assert sorted(values) == [2, 3, 4]
    agree(model, lambda x: sum(x * k + jnp.sin(k * x) for k in (2, 3, 4)), normal(4, 3))
    model = to_onnx(lambda x: power(x) + power(x, k=3), [("B", 3)])
    assert functions(model) == [("custom.power.1", "power")]
    assert sorted(a.i for n in model.graph.node for a in n.attribute if n.op_type == "power") == [2, 3]


def test_values_that_a_function_leaves_behind():
    kept = []

    @onnx_function
    def keeps(x):
        kept.append(jnp.sin(x))
        return kept[-1] * 2

    @onnx_function
    def keeps_nothing(x):
        return jnp.cos(keeps(x))

    with pytest.warns(UserWarning, match="keeps changes state"):
        model = to_onnx(lambda x: scaled(keeps_nothing(x) + kept[-1], x), [("B", 3)])
    assert functions(model) == [("custom.scaled.1", "scaled")]
    agree(model, lambda x: jnp.tanh(jnp.cos(jnp.sin(x) * 2) + jnp.sin(x)) * 2 + x, normal(4, 3))

    leaked = []

    def fn(x):
        jax.jit(lambda y: leaked.append(jnp.sin(y)))(x)
        return leaked[-1] + x

    with pytest.raises(sardonyx.Error, match=r"float32\[3\] is used outside of the function that computes it"):
        to_onnx(fn, [(3,)])


def test_an_attribute_that_the_body_does_not_read_is_not_written():
    @onnx_function(attributes=["scale", "n"])
    def scaled(x, scale, n):
        return x * scale

    model = sardonyx.to_onnx(lambda x: scaled(x, 1.5, 3), [(5,)])
    assert list(model.functions[0].attribute) == ["scale"] and len(model.functions[0].input) == 1
    (call,) = model.graph.node
    assert [(a.name, a.f) for a in call.attribute] == [("scale", 1.5)]


@pytest.mark.parametrize("body", [lambda x, n: x.reshape(n, -1), lambda x, n: x.sum(n)])
def test_an_attribute_that_decides_a_shape_is_refused_by_name(body):
    @onnx_function(attributes=["n"])
    def shaped(x, n):
        return body(x, n)

    with pytest.raises(
        sardonyx.Error, match="help: attributes= makes an array of n in shaped: leave out what decides a shape"
    ):
        sardonyx.to_onnx(lambda x: shaped(x, 1), [(6, 2)])
