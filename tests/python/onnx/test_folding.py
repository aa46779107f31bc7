"""Passes over whole models: values stay equal in onnxruntime, files do not grow, functions fit all their
calls."""

import numpy as np
import onnx
import onnxruntime
import pytest
import sardonyx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(7)


def model(text: str, **weights) -> onnx.ModelProto:
    """A model in ONNX's own text form, with the arrays as initializers."""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    return proto


def run(proto: onnx.ModelProto, **feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def ops(proto: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in proto.graph.node]


HEADER = '<ir_version: 10, opset_import: ["" : 21{more}]>\n'


def test_a_transposed_weight_is_folded_and_a_tied_one_is_not():
    # Integers, whose sums are exact in any order. Large enough to be computed while writing.
    w = RNG.integers(-9, 9, (131, 257)).astype(np.float32)
    alone = model(
        HEADER.format(more="")
        + "g (float[B,257] x) => (float[B,131] y) { t = Transpose<perm=[1,0]>(w)  y = MatMul(x, t) }",
        w=w,
    )
    tied = model(
        HEADER.format(more="")
        + "g (float[B,257] x, int64[B] i) => (float[B,131] y, float[B,257] e) "
        + "{ t = Transpose<perm=[1,0]>(w)  y = MatMul(x, t)  e = Gather(w, i) }",
        w=w,
    )
    x, i = RNG.integers(-9, 9, (5, 257)).astype(np.float32), np.arange(5)
    folded, kept = sardonyx.optimize(alone, strict=True), sardonyx.optimize(tied, strict=True)
    assert len(ops(folded)) == 1 and len(folded.graph.initializer) == 1
    assert len(kept.graph.initializer) == 1, "the weight stands in the file twice"
    assert folded.ByteSize() <= alone.ByteSize() and kept.ByteSize() <= tied.ByteSize()
    assert np.array_equal(run(folded, x=x)[0], run(alone, x=x)[0])
    for a, b in zip(run(kept, x=x, i=i), run(tied, x=x, i=i), strict=True):
        assert np.array_equal(a, b)


def test_the_default_of_an_input_is_no_constant():
    proto = model(
        HEADER.format(more="") + "g (float[3] x, float[3] d) => (float[3] y) { n = Neg(d)  y = Add(x, n) }",
        d=np.ones(3, np.float32),
    )
    done = sardonyx.optimize(proto, strict=True)
    x, d = np.arange(3, dtype=np.float32), np.full(3, 5, np.float32)
    assert np.array_equal(run(done, x=x)[0], x - 1)
    assert np.array_equal(run(done, x=x, d=d)[0], x - 5)


@pytest.mark.parametrize("sizes", [((2, 3), (2, 3)), ((2, 3), (5, 3)), ((2, 3), (5, 7))])
def test_a_function_serves_calls_of_different_shapes(sizes):
    (a, b), (c, d) = sizes
    proto = model(
        HEADER.format(more=', "own" : 1')
        + f"g (float[{a},{b}] x, float[{c},{d}] z) => (float y, float w) {{ y = own.flat(x)  w = own.flat(z) }}\n"
        + '<domain: "own", opset_import: ["" : 21]>\n'
        + "flat (x) => (y) { s = Shape(x)  n = ReduceProd<keepdims=1>(s)  y = Reshape(x, n) }"
    )
    for out, size in zip(proto.graph.output, (a * b, c * d), strict=True):
        out.type.tensor_type.shape.dim.add().dim_value = size
    x, z = RNG.standard_normal((a, b), dtype=np.float32), RNG.standard_normal((c, d), dtype=np.float32)
    for got, want in zip(run(sardonyx.optimize(proto, strict=True), x=x, z=z), run(proto, x=x, z=z), strict=True):
        assert np.array_equal(got, want)


def test_sizes_computed_at_run_time_are_copied():
    proto = model(
        HEADER.format(more="")
        + """g (float[B,T,24] x) => (float[B,T,24] y) {
          zero = Constant<value_int=0>()  one = Constant<value_int=1>()  at = Constant<value_ints=[0]>()
          heads = Constant<value_ints=[3,8]>()  all = Constant<value_ints=[24]>()
          s = Shape(x)  b = Gather(s, zero)  t = Gather(s, one)  b1 = Unsqueeze(b, at)  t1 = Unsqueeze(t, at)
          split = Concat<axis=0>(b1, t1, heads)  h = Reshape(x, split)  r = Transpose<perm=[0,2,1,3]>(h)
          e = Exp(r)  back = Transpose<perm=[0,2,1,3]>(e)  join = Concat<axis=0>(b1, t1, all)  y = Reshape(back, join)
        }"""
    )
    done = sardonyx.optimize(proto, strict=True)
    assert not {"Shape", "Gather", "Concat", "Unsqueeze"} & set(ops(done))
    for shape in ((1, 1, 24), (2, 5, 24)):
        x = RNG.standard_normal(shape, dtype=np.float32)
        assert np.array_equal(run(done, x=x)[0], run(proto, x=x)[0])


def test_names_of_inlined_branches_do_not_meet():
    branch = [
        helper.make_graph(
            [helper.make_node(op, ["x"], ["same"])],
            op,
            [],
            [helper.make_tensor_value_info("same", TensorProto.FLOAT, [3])],
        )
        for op in ("Neg", "Exp")
    ]
    nodes = [helper.make_node("If", ["c"], [y], then_branch=branch[0], else_branch=branch[1]) for y in ("y", "z")]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, [3]) for y in ("y", "z")],
        [numpy_helper.from_array(np.array(True), "c")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    done = sardonyx.optimize(proto, passes=["simplify_control_flow"], strict=True)
    x = RNG.standard_normal(3, dtype=np.float32)
    assert sorted(ops(done)) == ["Neg", "Neg"]
    for got in run(done, x=x):
        assert np.array_equal(got, -x)


def test_functions_are_inlined_on_request():
    proto = model(
        HEADER.format(more=', "own" : 1')
        + "g (float[B,3] x) => (float[B,3] y) { h = own.twice(x)  y = own.twice(h) }\n"
        + '<domain: "own", opset_import: ["" : 21]>\n'
        + "twice (x) => (y) { n = Neg(x)  y = Sub(x, n) }"
    )
    kept, flat = sardonyx.optimize(proto, strict=True), sardonyx.optimize(proto, inline=True, strict=True)
    assert ops(kept) == ["twice", "twice"] and len(kept.functions) == 1
    assert not flat.functions and [i.domain for i in flat.opset_import] == [""] and set(ops(flat)) == {"Add"}
    x = RNG.standard_normal((5, 3), dtype=np.float32)
    assert np.array_equal(run(flat, x=x)[0], run(proto, x=x)[0])


def test_a_stale_batch_of_a_result_is_not_believed():
    proto = model(
        HEADER.format(more="")
        + """g (float[B,3,5] x) => (float[1,15] y) {
          zero = Constant<value_int=0>()  at = Constant<value_ints=[0]>()  rest = Constant<value_ints=[15]>()
          s = Shape(x)  b = Gather(s, zero)  b1 = Unsqueeze(b, at)  t = Concat<axis=0>(b1, rest)  y = Reshape(x, t)
        }"""
    )
    done = sardonyx.optimize(proto, strict=True)
    assert ops(done) == ["Reshape"]
    for batch in (1, 7):
        x = RNG.standard_normal((batch, 3, 5), dtype=np.float32)
        assert np.array_equal(run(done, x=x)[0], x.reshape(batch, 15))


def test_a_stale_batch_of_a_value_is_not_believed():
    proto = model(
        HEADER.format(more="")
        + """g (float[B,3,5] x) => (float[B,15] y) <float[1,3,5] h> {
          zero = Constant<value_int=0>()  at = Constant<value_ints=[0]>()  rest = Constant<value_ints=[15]>()
          h = Exp(x)  s = Shape(h)  b = Gather(s, zero)  b1 = Unsqueeze(b, at)  t = Concat<axis=0>(b1, rest)  y = Reshape(h, t)
        }"""
    )
    done = sardonyx.optimize(proto, strict=True)
    assert ops(done) == ["Exp", "Reshape"]
    for batch in (1, 7):
        x = RNG.standard_normal((batch, 3, 5), dtype=np.float32)
        assert np.array_equal(run(done, x=x)[0], run(proto, x=x)[0])


def test_empty_sizes_are_allowed_on_request():
    proto = model(
        HEADER.format(more="")
        + """g (float[B,T,6] x) => (float[B,T2,3] y) {
          zero = Constant<value_int=0>()  at = Constant<value_ints=[0]>()  rest = Constant<value_ints=[-1,3]>()
          s = Shape(x)  b = Gather(s, zero)  b1 = Unsqueeze(b, at)  t = Concat<axis=0>(b1, rest)  y = Reshape(x, t)
        }"""
    )
    assert ops(sardonyx.optimize(proto, strict=True)) == ["Reshape"]
    assert len(ops(sardonyx.optimize(proto, allow_empty=True, strict=True))) > 1


@pytest.mark.parametrize("rows, columns", [(30, 16), (7, 11), (300, 160)])
def test_tied_weights_of_a_program_are_written_once(rows, columns):
    """A weight that the program uses in several transformed forms, and in forms of forms."""
    import jax.numpy as jnp

    e = jnp.asarray(np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32))
    programs = [
        lambda i: e[i] @ e.T,
        lambda i: e[i] @ e.T.astype(jnp.float16).astype(jnp.float32),
        lambda i: e[i].sum() + e.T.astype(jnp.float16).sum() + e.T.reshape(-1)[i].sum(),
    ]
    for program in programs:
        model = sardonyx.to_onnx(program, ["i32[B]"], passes="none")
        assert [tuple(t.dims) for t in model.graph.initializer if np.prod(t.dims) >= rows] == [(rows, columns)]
