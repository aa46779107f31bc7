"""Lowerings and plugins in Python: binding of results, the context, patches and their removal."""

import re
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sardonyx
from judge import compare, outputs
from sardonyx import plugins, to_onnx

X = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)


@pytest.fixture(autouse=True)
def forget():
    before = dict(plugins._lowerings), dict(plugins._plugins)
    yield
    plugins._lowerings.clear()
    plugins._plugins.clear()
    plugins._lowerings.update(before[0])
    plugins._plugins.update(before[1])


def ops(model):
    return [n.op_type for n in model.graph.node]


def use(primitive, fn):
    plugins.lowering(primitive)(fn)


def agree(fn, *arrays, specs=None):
    model = to_onnx(fn, specs or [a.shape for a in arrays])
    compare(fn(*map(jnp.asarray, arrays)), outputs(model, list(arrays)))
    return model


# --- three ways of binding


def returns(ctx, eqn):
    return ctx.builder.Neg(ctx.get_value_for_var(eqn.invars[0]))


def binds(ctx, eqn):
    ctx.bind_value_for_var(eqn.outvars[0], ctx.builder.Neg(ctx.get_value_for_var(eqn.invars[0])))


def writes(ctx, eqn):
    out = ctx.get_value_for_var(eqn.outvars[0], name_hint="negative")
    ctx.builder.op("Neg", [ctx.get_value_for_var(eqn.invars[0])], output=out)


@pytest.mark.parametrize("way", [returns, binds, writes])
def test_three_ways_of_binding(way):
    use("neg", way)
    model = agree(lambda x: jnp.sin(-x) + 1, X)
    assert ops(model) == ["Neg", "Sin", "Add"]


def test_an_override_beats_the_builtin_and_can_be_forgotten():
    @sardonyx.lowering("tanh")
    def lower_tanh(ctx, eqn):
        x = ctx.get_value_for_var(eqn.invars[0])
        e = ctx.builder.Exp(ctx.builder.Add(x, x))
        one = ctx.bind_const_for_var(None, np.float32(1))
        return ctx.builder.Div(ctx.builder.Sub(e, one), ctx.builder.Add(e, one))

    assert ops(agree(jnp.tanh, X)) == ["Add", "Exp", "Sub", "Add", "Div"]
    plugins.unregister("tanh")
    assert ops(to_onnx(jnp.tanh, [(3,)])) == ["Tanh"]


def test_several_results_and_parameters():
    @sardonyx.lowering("top_k")
    def lower_top_k(ctx, eqn):
        k = ctx.bind_const_for_var(None, np.array([eqn.params["k"]], np.int64))
        values, places = ctx.builder.op_multi_out("TopK", [ctx.get_value_for_var(eqn.invars[0]), k], num_outputs=2)
        return values, ctx.builder.Cast(places, to=6)

    agree(lambda x: jax.lax.top_k(x, 2), X)


def test_inside_a_loop_body():
    use("neg", returns)
    agree(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: -c + 1, x), X)


def test_literals_and_casts():
    @sardonyx.lowering("mul")
    def lower_mul(ctx, eqn):
        x = ctx.get_value_for_var(eqn.invars[0])
        y = ctx.get_value_for_var(eqn.invars[1], prefer_np_dtype=np.float64)
        return ctx.builder.Mul(x, ctx.cast_like(y, x))

    agree(lambda x: x * 3.0, X)


def test_symbolic_dims_have_origins():
    seen = {}

    @sardonyx.lowering("neg")
    def lower_neg(ctx, eqn):
        rows, columns = eqn.invars[0].aval.shape
        seen["origin"] = ctx.get_symbolic_dim_origin(rows)
        seen["none"] = ctx.get_symbolic_dim_origin("nowhere")
        n = ctx.builder.CastLike(ctx.dim_as_value(rows * 2), ctx.get_value_for_var(eqn.invars[0]))
        return ctx.builder.Add(ctx.builder.Neg(ctx.get_value_for_var(eqn.invars[0])), ctx.builder.Sub(n, n))

    model = to_onnx(lambda x: -x, [("B", 5)])
    value, axis = seen["origin"]
    assert (value.name, axis) == ("x", 0) and seen["none"] is None
    compare(-X, outputs(model, [X]))


# --- the contract


@pytest.mark.parametrize(
    ("lower", "message"),
    [
        (lambda ctx, eqn: None, "result 0 of 'neg' was left unbound"),
        (lambda ctx, eqn: [returns(ctx, eqn)] * 2, "returned 2 values for the 1 results of 'neg'"),
        (lambda ctx, eqn: (binds(ctx, eqn), returns(ctx, eqn))[1], "result 0 of 'neg' is bound twice"),
        (lambda ctx, eqn: (binds(ctx, eqn), binds(ctx, eqn))[1], "result 0 of 'neg' is bound twice"),
        (lambda ctx, eqn: (binds(ctx, eqn), writes(ctx, eqn))[1], "bound twice|has a producer already"),
        (lambda ctx, eqn: ctx.builder.Cast(returns(ctx, eqn), to=11), "f64.*, but the equation says f32"),
        (lambda ctx, eqn: ctx.builder.Transpose(returns(ctx, eqn)), r"f32\[5,3\].*, but the equation says f32\[3,5\]"),
        (lambda ctx, eqn: "x", "a result is a str, not an ir.Value"),
        (lambda ctx, eqn: ctx.get_value_for_var(object()), "neither an operand nor a result"),
        (lambda ctx, eqn: ctx.builder.Add(returns(ctx, eqn)), "Add"),
    ],
)  # fmt: skip
def test_breaches_of_the_contract_are_named(lower, message):
    use("neg", lower)
    with pytest.raises(sardonyx.Error, match=message) as caught:
        to_onnx(lambda x: -x, [(3, 5)])
    assert "neg" in str(caught.value)


def test_operators_of_other_domains_are_imported():
    @sardonyx.lowering("tan")
    def lower_tan(ctx, eqn):
        x = ctx.get_value_for_var(eqn.invars[0])
        return ctx.builder.FastTan(ctx.builder.Halve(x, _domain="other"), steps=3, _domain="my.ops", _version=2)

    @sardonyx.onnx_function
    def inner(x):
        return jnp.tan(x) + 1

    model = to_onnx(lambda x: jnp.tan(inner(x)), [("B", 3)])
    imports = {o.domain: o.version for o in model.opset_import}
    assert imports == {"": 23, "my.ops": 2, "other": 1, "custom.inner.1": 1}
    assert {o.domain: o.version for o in model.functions[0].opset_import} == {"": 23, "my.ops": 2, "other": 1}
    assert ops(model) == ["inner", "Halve", "FastTan"]
    assert [d.dim_param or d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim] == ["B", 3]


def test_a_value_of_another_graph_is_refused():
    from sardonyx import ir

    use("neg", lambda ctx, eqn: ir.val("stranger", ir.DataType.FLOAT, [3, 5]))
    with pytest.raises(sardonyx.Error, match="stranger|unbound|another graph"):
        to_onnx(lambda x: -x, [(3, 5)])


def test_a_context_does_not_outlive_its_lowering():
    kept = []

    def keep(ctx, eqn):
        kept.append(ctx)
        return returns(ctx, eqn)

    use("neg", keep)
    to_onnx(lambda x: -x, [(3, 5)])
    with pytest.raises(sardonyx.Error, match="after its lowering had returned"):
        kept[0].fresh_name("x")


def test_the_lowering_s_own_mistake_is_one_error_and_keeps_its_traceback():
    def broken(ctx, eqn):
        return {}["mistake of the author"]

    use("neg", broken)
    with pytest.raises(
        sardonyx.Error, match="broken failed to lower 'neg': KeyError: 'mistake of the author'"
    ) as caught:
        to_onnx(lambda x: -x, [(3, 5)])
    assert caught.value.notes[0].startswith("at test_plugins.py:") and "broken)" in caught.value.notes[0]
    assert re.fullmatch(
        r"while lowering 'neg' of f32\[3,5\] -> f32\[3,5\], at test_plugins.py:\d+ .*", caught.value.notes[1]
    )
    assert type(caught.value.__cause__) is KeyError and caught.value.__cause__.__traceback__ is not None


def test_a_model_that_onnxruntime_does_not_load_is_one_error():
    use("neg", lambda ctx, eqn: ctx.builder.op("Minus", [ctx.get_value_for_var(eqn.invars[0])], domain="my.own"))
    with pytest.raises(sardonyx.Error, match="onnxruntime .* does not load the model: .*Minus") as caught:
        to_onnx(lambda x: -x, [(3, 5)], check=True)
    assert "operators of a plugin need a runtime that knows them" in str(caught.value)


def test_what_a_lowering_gives_up_on_is_listed_with_the_rest():
    use("neg", lambda ctx, eqn: ctx.unsupported("negation is out today"))

    def fn(x):
        return -x, jax.pure_callback(np.asarray, jax.ShapeDtypeStruct((3,), jnp.float32), x)

    with pytest.raises(sardonyx.Error) as caught:
        to_onnx(fn, [(3,)])
    assert "negation is out today" in str(caught.value) and "pure_callback" in str(caught.value)


# --- plugins with patches

library = types.SimpleNamespace(__name__="library")


def cube(x):
    return x * x * x


library.cube = cube


class Cube(plugins.Plugin):
    jaxpr_primitive = "cube"

    @classmethod
    def binding_specs(cls):
        return [plugins.MonkeyPatchSpec(library, "cube", lambda original: lambda x: cls.primitive().bind(x))]

    @staticmethod
    def abstract_eval(x):
        return x

    def lower(self, ctx, eqn):
        x = ctx.get_value_for_var(eqn.invars[0])
        return ctx.builder.Pow(x, ctx.bind_const_for_var(None, np.float32(3)))


def test_a_patch_holds_while_tracing_and_no_longer():
    plugins.register(Cube)
    model = to_onnx(lambda x: library.cube(x), [(3, 5)])
    assert ops(model) == ["Pow"]
    assert library.cube is cube
    compare(X**3, outputs(model, [X]), 1e-5)


def test_a_patch_is_taken_back_after_an_error():
    plugins.register(Cube)
    with pytest.raises(sardonyx.Error):
        to_onnx(lambda x: library.cube(x).nonsense, [(3, 5)])
    assert library.cube is cube


def test_a_jitted_function_that_was_traced_before_is_traced_again():
    @jax.jit
    def fn(x):
        return library.cube(x)

    np.testing.assert_allclose(fn(X), X**3, rtol=1e-5)
    plugins.register(Cube)
    assert "Pow" in ops(to_onnx(fn, [(3, 5)]))
    plugins.unregister("cube")
    assert "Pow" not in ops(to_onnx(fn, [(3, 5)]))


def test_other_threads_see_the_original():
    plugins.register(Cube)
    inside, go_on, seen = threading.Event(), threading.Event(), []

    def fn(x):
        inside.set()
        go_on.wait(10)
        return library.cube(x)

    def elsewhere():
        inside.wait(10)
        seen.append(library.cube(2.0))
        go_on.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    model = to_onnx(fn, [(3, 5)])
    thread.join()
    assert seen == [8.0] and ops(model) == ["Pow"]


def test_methods_are_patched_and_subclasses_respected():
    class Layer:
        def __call__(self, x):
            return x + 1

    class Special(Layer):
        def __call__(self, x):
            return x - 1

    class Doubles(plugins.Plugin):
        jaxpr_primitive = "doubles"

        @classmethod
        def binding_specs(cls):
            return [plugins.MonkeyPatchSpec(Layer, "__call__", lambda original: lambda self, x: original(self, x) * 2)]

    plugins.register(Doubles)
    before = Layer.__dict__["__call__"]
    assert ops(to_onnx(lambda x: Layer()(x), [(3,)])) == ["Add", "Mul"]
    assert ops(to_onnx(lambda x: Special()(x), [(3,)])) == ["Sub"]
    assert Layer.__dict__["__call__"] is before


def test_abstract_eval_must_not_call_what_is_patched():
    class Selfish(Cube):
        jaxpr_primitive = "selfish"
        _PRIM = None

        @staticmethod
        def abstract_eval(x):
            return jax.eval_shape(library.cube, x)

    plugins.register(Selfish)
    with pytest.raises(sardonyx.Error, match="plugin Selfish: abstract_eval calls library.cube"):
        to_onnx(lambda x: library.cube(x), [(3,)])


def scanned(x):
    return jax.lax.scan(lambda c, _: (library.cube(c), None), x, None, length=2)[0]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jax.vmap(lambda y: library.cube(y))(x),
        lambda x: jax.grad(lambda y: library.cube(y).sum())(x),
        lambda x: jax.jvp(lambda y: library.cube(y), (x,), (x,)),
        lambda x: jax.vmap(jax.grad(lambda y: scanned(y).sum()))(x),
        lambda x: jax.hessian(lambda y: library.cube(y).sum())(x[0]),
        lambda x: jax.grad(lambda y: jax.jit(jax.checkpoint(lambda z: library.cube(z)))(y).sum())(x),
    ],
)
def test_patches_survive_transformations(fn):
    @plugins.register
    class Known(Cube):
        jaxpr_primitive = "known_cube"
        _PRIM = None

        @staticmethod
        def impl(x):
            return library.cube(x)

    assert "pow" not in str(jax.make_jaxpr(fn)(X))
    model = to_onnx(fn, [("B", 5)])
    want = jax.tree_util.tree_leaves(fn(jnp.asarray(X * 0.5)))
    for a, b in zip(want, outputs(model, [X * np.float32(0.5)]), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_an_implementation_gives_shapes_and_values_too():
    @plugins.register
    class Halves(plugins.Plugin):
        jaxpr_primitive = "halves"
        multiple_results = True

        @classmethod
        def binding_specs(cls):
            return [plugins.AssignSpec(library, "halves", lambda x, n: tuple(cls.primitive().bind(x, n, axis=0)))]

        @staticmethod
        def impl(x, n, *, axis):
            return x[: x.shape[axis] // 2] * 2, n + 1

        def lower(self, ctx, eqn):
            x, n = (ctx.get_value_for_var(v) for v in eqn.invars)
            zero, one, half = (ctx.bind_const_for_var(None, np.array([i])) for i in (0, 1, 3))
            top = ctx.builder.Slice(x, zero, half, zero)
            return ctx.builder.Add(top, top), ctx.builder.Add(n, ctx.cast_like(ctx.builder.Squeeze(one), n))

    def fn(x, n):
        grow = jax.grad(lambda y: library.halves(y, n)[0].sum())(x)
        return *library.halves(x, n), grow

    x = np.arange(30, dtype=np.float32).reshape(6, 5)
    model = to_onnx(fn, [(6, 5), "i32[]"])
    a, b, c = outputs(model, [x, np.array(4, np.int32)])
    np.testing.assert_array_equal(a, x[:3] * 2)
    assert b == 5
    np.testing.assert_array_equal(c, np.repeat(np.float32([2, 0]), 15).reshape(6, 5))
    assert Halves.primitive().bind(jnp.asarray(x), 1, axis=0)[1] == 2


def test_a_missing_rule_names_the_plugin():
    plugins.register(Cube)
    with pytest.raises(sardonyx.Error, match="help: give plugin Cube an impl"):
        to_onnx(lambda x: jax.grad(lambda y: library.cube(y).sum())(x), [(3,)])


def test_names_of_targets_are_resolved():
    class Rounds(plugins.Plugin):
        jaxpr_primitive = "rounds"

        @classmethod
        def binding_specs(cls):
            return [plugins.AssignSpec("jax.numpy", "nan_to_num", lambda x: x * 2)]

    plugins.register(Rounds)
    assert ops(to_onnx(lambda x: jnp.nan_to_num(x), [(3,)])) == ["Mul"]

    class Missing(plugins.Plugin):
        jaxpr_primitive = "missing"

        @classmethod
        def binding_specs(cls):
            return [plugins.AssignSpec("jax.no_such_place", "x", 1)]

    plugins.register(Missing)
    with pytest.raises((sardonyx.Error, AttributeError), match="no_such_place"):
        to_onnx(lambda x: x, [(3,)])


def test_wrong_registrations_are_refused():
    with pytest.raises(sardonyx.Error, match="takes the name of a primitive"):
        sardonyx.lowering(lambda ctx, eqn: None)
    with pytest.raises(sardonyx.Error, match="has no jaxpr_primitive"):
        plugins.register(type("Nameless", (plugins.Plugin,), {}))
    with pytest.raises(sardonyx.Error, match="a Plugin was expected"):
        plugins.register(int)


# --- names that ONNX does not have


@pytest.mark.parametrize("options", [{}, {"strict": True}, {"target": "ort-1.23"}, {"passes": "none"}], ids=str)
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda b, x: b.Tann(x), ("no operator Tann in opset 23", "did you mean 'Tan' or 'Tanh'?")),
        (lambda b, x: b.op("Tanhh", [x]), ("no operator Tanhh in opset 23", "did you mean 'Tanh'?")),
        (lambda b, x: b.Elu(x, alhpa=2.0), ("Elu-22 has no attribute 'alhpa'", "did you mean 'alpha'?")),
        (lambda b, x: b.op("Binarizerr", [x], domain="ai.onnx.ml"), ("no operator Binarizerr", "'Binarizer'?")),
        (lambda b, x: b.Swish(x), ("no operator Swish in opset 23", "Swish exists since opset 24")),
    ],
)
def test_a_name_that_onnx_does_not_have_stops_the_export(make, told, options):
    use("tanh", lambda ctx, eqn: make(ctx.builder, ctx.get_value_for_var(eqn.invars[0])))
    with pytest.raises(sardonyx.Error) as e:
        to_onnx(lambda x: jnp.tanh(x) + 1, [("B", 3)], opset=23, **options)
    wanted = "the lowering of 'tanh' (lowering test_a_name_that_onnx_does_not_have_stops_the_export.<locals>.<lambda>)"
    assert e.value.message.startswith(f"{wanted} made a node that ONNX does not know: ")
    assert told[0] in e.value.message and told[1] in str(e.value)
    assert "while lowering 'tanh' of f32[B,3] -> f32[B,3] (lowering" in str(e.value) and "at test_plugins.py:" in str(
        e.value
    )


def test_operators_of_other_domains_may_be_called_anything():
    use("tanh", lambda ctx, eqn: ctx.builder.op("Tann", [ctx.get_value_for_var(eqn.invars[0])], domain="com.microsoft"))
    assert ops(to_onnx(lambda x: jnp.tanh(x) + 1, [("B", 3)])) == ["Tann", "Add"]


# --- attributes set late


def attributes(model, op):
    import onnx

    graphs = [model.graph.node, *(f.node for f in model.functions)]
    return [
        {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute} for g in graphs for n in g if n.op_type == op
    ]


def leaky(ctx, eqn):
    x = ctx.get_value_for_var(eqn.invars[0])
    y = ctx.builder.LeakyRelu(x, alpha=0.25)
    ctx.set_node_attrs(y, {"alpha": 0.5})
    assert ctx.get_node_attrs(y.producer()) == {"alpha": 0.5}
    return y


def test_attributes_are_set_after_the_passes(tmp_path):
    use("tanh", leaky)
    model = to_onnx(lambda x: jnp.tanh(x) + 1, [(3, 5)], debug_dump=tmp_path)
    assert attributes(model, "LeakyRelu") == [{"alpha": 0.5}]
    assert "alpha=0.25" in (tmp_path / "1_lowered.sx").read_text()
    (y,) = outputs(model, [X])
    np.testing.assert_allclose(y, np.where(X < 0, 0.5 * X, X) + 1, rtol=1e-6)


def test_attributes_are_set_late_in_functions_and_on_calls_of_one_body():
    use("tanh", leaky)

    @sardonyx.onnx_function
    def part(x):
        return jnp.tanh(x) * 2

    model = to_onnx(lambda x: part(part(x)), [(3, 5)])
    assert len(model.functions) == 1
    assert attributes(model, "LeakyRelu") == [{"alpha": 0.5}]


def test_attributes_are_set_late_by_name():
    def named(ctx, eqn):
        y = ctx.builder.LeakyRelu(ctx.get_value_for_var(eqn.invars[0]), alpha=0.25)
        y.producer().name = "the leak"
        ctx.add_node_attr_override("the leak", {"alpha": 0.75})
        ctx.add_node_attr_override("nobody", {"alpha": 0.0})
        return y

    use("tanh", named)
    assert attributes(to_onnx(jnp.tanh, [(3, 5)]), "LeakyRelu") == [{"alpha": 0.75}]


def test_nodes_that_passes_removed_keep_nothing():
    def twice(ctx, eqn):
        x = ctx.get_value_for_var(eqn.invars[0])
        y = ctx.builder.Transpose(x, perm=[1, 0])
        z = ctx.builder.Transpose(y, perm=[1, 0])
        for v in (y, z):
            ctx.set_node_attrs(v, {"perm": [0, 1]})
        return z

    use("tanh", twice)
    assert ops(to_onnx(lambda x: jnp.tanh(x) + 1, [(3, 5)])) == ["Add"]


def test_attributes_that_change_types_are_refused():
    def turned(ctx, eqn):
        y = ctx.builder.Softmax(ctx.builder.Transpose(ctx.get_value_for_var(eqn.invars[0]), perm=[0, 1, 2]), axis=1)
        t = ctx.builder.Transpose(ctx.get_value_for_var(eqn.invars[0]), perm=[0, 2, 1])
        z = ctx.builder.Transpose(ctx.builder.Exp(t), perm=[0, 2, 1])
        ctx.set_node_attrs(z, {"perm": [2, 1, 0]})
        return ctx.builder.Add(y, z)

    use("tanh", turned)
    with pytest.raises(sardonyx.Error, match="turned had set attributes of this Transpose late"):
        to_onnx(jnp.tanh, [(2, 3, 5)], passes="none")


def test_late_attributes_have_names_of_the_operator():
    def leaky(ctx, eqn):
        y = ctx.builder.LeakyRelu(ctx.get_value_for_var(eqn.invars[0]))
        ctx.set_node_attrs(y, {"aplha": 0.5})
        return y

    use("tanh", leaky)
    with pytest.raises(
        sardonyx.Error, match="has no attribute 'aplha'\n(.*\n)*.*'alpha'.*\n.*leaky had set attributes"
    ):
        to_onnx(jnp.tanh, [(3, 5)])


def test_only_nodes_have_attributes():
    def wrong(ctx, eqn):
        ctx.set_node_attrs(ctx.get_value_for_var(eqn.invars[0]), {"axis": 1})

    use("tanh", wrong)
    with pytest.raises(sardonyx.Error, match="set_node_attrs takes an ir.Node or a value that a node makes"):
        to_onnx(jnp.tanh, [(3, 5)])
