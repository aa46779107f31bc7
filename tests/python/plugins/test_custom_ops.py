"""Callbacks, foreign functions and kernels: nodes of the user's own domain, or expanded where JAX can
interpret them."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from jax.experimental import io_callback
from jax.experimental import pallas as pl
from jax.experimental.custom_partitioning import custom_partitioning
from judge import outputs
from onnx import helper
from sardonyx import to_onnx


def normal(*shape, seed=7):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def twice(x):
    return 2 * x


def call_back(x):
    return jax.pure_callback(twice, like(x), x) + 1


def with_body(model, name, nodes, inputs, results, attributes=()):
    """The model with my.domain::name as a function, so that onnxruntime can run it."""
    imports = [helper.make_opsetid("", 23)]
    model.functions.append(
        helper.make_function("my.domain", name, inputs, results, nodes, imports, attributes=list(attributes))
    )
    return model


def double():
    return [helper.make_node("Add", ["x", "x"], ["y"])], ["x"], ["y"]


def test_a_callback_is_a_typed_node():
    model = to_onnx(call_back, [("B", 3)], custom_ops={"pure_callback": "my.domain::Twice"})
    assert [(n.domain, n.op_type) for n in model.graph.node] == [("my.domain", "Twice"), ("", "Add")]
    assert ("my.domain", 1) in [(o.domain, o.version) for o in model.opset_import]
    (info,) = [v for v in model.graph.value_info if v.name == model.graph.node[0].output[0]]
    assert [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim] == ["B", 3]
    onnx.checker.check_model(with_body(model, "Twice", *double()))
    for n in (5, 2, 1):
        np.testing.assert_array_equal(outputs(model, [normal(n, 3)])[0], 2 * normal(n, 3) + 1)


def test_a_callback_has_the_name_of_its_function():
    model = to_onnx(call_back, [(3,)], custom_ops={"twice": "my.domain::Twice"})
    assert [n.op_type for n in model.graph.node] == ["Twice", "Add"]


def test_a_foreign_call_keeps_its_attributes():
    def fn(x):
        return jax.ffi.ffi_call("my_norm", like(x))(x, eps=np.float32(0.5), axis=1, mode="mean") * 3

    model = to_onnx(fn, [(5, 3)], custom_ops={"my_norm": "my.domain::Norm"})
    node = model.graph.node[0]
    assert {a.name: helper.get_attribute_value(a) for a in node.attribute} == {"eps": 0.5, "axis": 1, "mode": b"mean"}
    scale = helper.make_node("Constant", [], ["e"])
    scale.attribute.add(name="value_float", ref_attr_name="eps", type=onnx.AttributeProto.FLOAT)
    with_body(model, "Norm", [scale, helper.make_node("Mul", ["x", "e"], ["y"])], ["x"], ["y"], ["eps", "axis", "mode"])
    np.testing.assert_allclose(outputs(model, [normal(5, 3)])[0], normal(5, 3) * 1.5, rtol=1e-6)


def test_a_node_has_several_results_and_stands_in_loops():
    def both(x):
        shapes = like(x), jax.ShapeDtypeStruct((), np.float32)
        y, s = jax.pure_callback(lambda x: (2 * x, x.sum()), shapes, x)
        return io_callback(twice, like(x), y, ordered=True), s

    def fn(x):
        return jax.lax.scan(lambda c, row: (both(c + row)[0], both(row)[1]), x[0], x)

    operators = {"pure_callback": "my.domain::Both", "io_callback": "my.domain::Twice"}
    model = to_onnx(fn, [(5, 3)], custom_ops=operators)
    sum_ = helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0)
    with_body(model, "Both", [*double()[0], sum_], ["x"], ["y", "s"])
    with_body(model, "Twice", *double())
    carry, sums = outputs(model, [normal(5, 3)])
    want = normal(5, 3)[0]
    for row in normal(5, 3):
        want = 4 * (want + row)
    np.testing.assert_allclose(carry, want, rtol=1e-5)
    np.testing.assert_allclose(sums, normal(5, 3).sum(1), rtol=1e-5)


def test_any_primitive_can_be_a_node():
    model = to_onnx(lambda x: jnp.sort(x), [(5, 3)], custom_ops={"sort": "my.domain::Sort"})
    node = model.graph.node[0]
    assert (node.domain, node.op_type) == ("my.domain", "Sort")
    assert {a.name: a.i for a in node.attribute}["dimension"] == 1


def test_partitioned_functions_are_written_out_or_nodes():
    @custom_partitioning
    def fn(x):
        return jnp.sin(x) * 2

    fn.def_partition(infer_sharding_from_operands=lambda *a: None, partition=lambda *a: None, sharding_rule="i -> i")
    model = to_onnx(fn, [(3,)])
    np.testing.assert_allclose(outputs(model, [normal(3)])[0], np.sin(normal(3)) * 2, rtol=1e-6)
    model = to_onnx(fn, [(3,)], custom_ops={"custom_partitioning": "my.domain::F"})
    assert [n.op_type for n in model.graph.node] == ["F"]


def test_the_refusal_says_how():
    with pytest.raises(sardonyx.Error, match="cannot convert 1 equation") as e:
        to_onnx(call_back, [(3,)])
    assert 'custom_ops={"primitive": "my.domain::MyOp"}' in e.value.notes[-1]


def test_names_that_the_program_does_not_have_are_refused():
    with pytest.raises(sardonyx.Error, match="the program has no 'my_norm'") as e:
        to_onnx(call_back, [(3,)], custom_ops={"my_norm": "my.domain::Norm"})
    assert e.value.notes == ("it has pure_callback, twice",)


@pytest.mark.parametrize("operator", ["Norm", "ai.onnx::Norm", "::Norm", "my.domain::", 3])
def test_an_operator_has_a_domain(operator):
    with pytest.raises(sardonyx.Error, match=r"custom_ops\['pure_callback'\] is") as e:
        to_onnx(call_back, [(3,)], custom_ops={"pure_callback": operator})
    assert "my.domain::MyOp" in e.value.notes[0]


def test_what_is_not_named_among_several_is_refused():
    def fn(x):
        return jax.pure_callback(lambda x: x, like(x), call_back(x))

    with pytest.raises(sardonyx.Error, match="custom_ops does not name it"):
        to_onnx(fn, [(3,)], custom_ops={"twice": "my.domain::Twice"})


def test_nodes_without_a_kernel_are_not_checked():
    with pytest.raises(sardonyx.Error, match="check=True cannot run custom_ops"):
        to_onnx(call_back, [(3,)], custom_ops={"twice": "my.domain::Twice"}, check=True)


# ----------------------------------------------------------------------------------------------------------------------
# Pallas


def add(a, b):
    def kernel(a_ref, b_ref, o_ref):
        o_ref[...] = a_ref[...] + b_ref[...]

    block = pl.BlockSpec((4, 3), lambda i: (i, 0))
    return kernel, {"out_shape": like(a), "grid": (5,), "in_specs": [block, block], "out_specs": block}


def matmul(a, b):
    def kernel(a_ref, b_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += a_ref[...] @ b_ref[...].T

    options = {
        "out_shape": jax.ShapeDtypeStruct((20, 20), np.float32),
        "grid": (5, 2, 3),
        "in_specs": [pl.BlockSpec((4, 1), lambda i, j, k: (i, k)), pl.BlockSpec((10, 1), lambda i, j, k: (j, k))],
        "out_specs": pl.BlockSpec((4, 10), lambda i, j, k: (i, j)),
    }
    return kernel, options


def softmax_in_a_loop(a, b):
    def kernel(a_ref, b_ref, o_ref, best_ref):
        def body(i, total):
            row = jnp.exp(a_ref[i] - a_ref[...].max())
            o_ref[i] = row * b_ref[i]
            return total + row.sum()

        total = jax.lax.fori_loop(0, a_ref.shape[0], body, 0.0)
        o_ref[...] = o_ref[...] / total
        best_ref[0] = jnp.argmax(o_ref[:, 0]).astype(jnp.int32)

    return kernel, {"out_shape": (like(a), jax.ShapeDtypeStruct((1,), np.int32))}


@pytest.mark.parametrize("make", [add, matmul, softmax_in_a_loop], ids=lambda f: f.__name__)
@pytest.mark.parametrize("interpret", [False, True])
def test_kernels_are_written_out(make, interpret):
    a, b = normal(20, 3), normal(20, 3, seed=1)
    kernel, options = make(a, b)
    model = to_onnx(pl.pallas_call(kernel, interpret=interpret, **options), [a, b])
    onnx.checker.check_model(model, full_check=True)
    expected = jax.tree_util.tree_leaves(jax.jit(pl.pallas_call(kernel, interpret=True, **options))(a, b))
    for got, want in zip(outputs(model, [a, b]), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


def test_a_kernel_is_a_node_on_request():
    a, b = normal(20, 3), normal(20, 3, seed=1)
    kernel, options = add(a, b)
    fn = pl.pallas_call(kernel, name="add_rows", **options)
    for name in ("add_rows", "pallas_call"):
        model = to_onnx(fn, [a, b], custom_ops={name: "my.domain::AddRows"})
        assert [(n.op_type, len(n.input)) for n in model.graph.node] == [("AddRows", 2)]


# ----------------------------------------------------------------------------------------------------------------------
# hijax


@pytest.fixture
def square():
    hijax = pytest.importorskip("jax.experimental.hijax")

    class Square(getattr(hijax, "HiPrim", None) or hijax.VJPHiPrimitive):  # the name until JAX 0.11
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x):
            return x * x

        def vjp_fwd(self, nonzero, x):
            return self(x), x

        def vjp_bwd_retval(self, x, g):
            return (2 * x * g,)

    return lambda x: Square(jax.typeof(x))(x) + 1


def test_primitives_of_hijax_are_expanded_or_nodes(square):
    def fn(x):
        return jax.lax.fori_loop(0, 3, lambda i, x: square(x), x)

    for f in (square, fn, lambda x: jax.vjp(square, x)[1](x)[0]):
        model = to_onnx(f, [(3,)])
        np.testing.assert_allclose(outputs(model, [normal(3)])[0], jax.jit(f)(normal(3)), rtol=2e-6)
    model = to_onnx(square, [(3,)], custom_ops={"Square": "my.domain::Square"})
    assert [n.op_type for n in model.graph.node] == ["Square", "Add"]


def test_values_of_hijax_types_become_arrays():
    hijax = pytest.importorskip("jax._src.hijax")
    if not hasattr(hijax, "Box"):
        pytest.skip("this JAX has no boxes")

    def fn(x):
        box = hijax.Box(x)

        def body(i, total):
            box.set(box.get() * 2)
            return total + i

        total = jax.lax.fori_loop(0, 3, body, 0)
        return box.get(), total

    want = jax.jit(fn)(normal(3))
    for got, expected in zip(outputs(to_onnx(fn, [(3,)]), [normal(3)]), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-6)
