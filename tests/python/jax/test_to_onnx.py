"""The public converter: names, inputs, results, policies, errors."""

import functools
import os
import subprocess
import sys
import warnings
from collections import OrderedDict, namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import optax
import pytest
import sardonyx
from command import BUILD
from judge import compare, outputs
from sardonyx import to_onnx
from sardonyx.compat import jax2onnx


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def names(ports):
    return [p.name for p in ports]


def shape_of(port):
    return [d.dim_param or d.dim_value for d in port.type.tensor_type.shape.dim]


def agree(fn, specs, *arrays, **options):
    model = to_onnx(fn, specs, **options)
    onnx.checker.check_model(model, full_check=True)
    compare(fn(*map(jnp.asarray, arrays)), outputs(model, [np.asarray(a) for a in arrays]))
    return model


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# --- inputs


def test_shapes_arrays_structs_and_texts():
    def fn(a, b, c, d):
        return a + b + c + d

    specs = [(2, 3), normal(2, 3), f32(2, 3), "f32[2,3]"]
    model = agree(fn, specs, *[normal(2, 3)] * 4)
    assert names(model.graph.input) == ["a", "b", "c", "d"]


def test_arrays_of_any_layout():
    weight = np.asfortranarray(normal(5, 7))
    every_second = normal(14, 6)[::2, ::2]
    agree(lambda x: x @ weight @ every_second, [np.zeros((2, 5), ">f4")], normal(2, 5))


def test_symbols_share_one_scope():
    def fn(x, y):
        return x + y

    model = agree(fn, [("B", 3), ("B", 3)], normal(5, 3), normal(5, 3))
    assert shape_of(model.graph.input[0]) == ["B", 3] == shape_of(model.graph.input[1])
    assert shape_of(model.graph.output[0]) == ["B", 3]


def test_dims_may_be_expressions():
    model = to_onnx(lambda x: x + 1, [("T", "2*T+1")])
    assert shape_of(model.graph.input[0]) == ["T", "2*T + 1"]


def test_dims_may_be_what_python_writes():
    model = to_onnx(lambda x: x + 1, [("B//2", "T%3", "2*(B+T)-1", "2*B^2", "max(B//2, T)")])
    assert shape_of(model.graph.input[0]) == [
        "floordiv(B, 2)", "mod(T, 3)", "2*T + 2*B - 1", "2*B^2", "max(T, floordiv(B, 2))",
    ]  # fmt: skip
    assert shape_of(to_onnx(lambda x: x[::2], [("B",)]).graph.output[0]) == ["floordiv(B + 1, 2)"]

    def fn(x, y):
        assert y.shape[0] >= 2
        return x[: y.shape[0]] + y

    agree(fn, [("B",), ("B//2 >= 2",)], normal(6), normal(3))


def test_a_constraint_makes_a_comparison_decidable():
    def fn(x):
        assert x.shape[0] >= 2
        return x[:2] * 1

    with pytest.raises(sardonyx.Error, match="does not trace"):
        to_onnx(fn, [("B", 3)])
    agree(fn, [("B >= 2", 3)], normal(5, 3))


def test_jax_symbols_are_taken_as_they_are():
    b, _ = jax.export.symbolic_shape("B, T")
    model = to_onnx(lambda x, y: x + y, [jax.ShapeDtypeStruct((b, 3), jnp.float32), ("B", 3)])
    assert shape_of(model.graph.output[0]) == ["B", 3]


def test_pytrees_in_and_out():
    Pair = namedtuple("Pair", "first second")

    def fn(batch, pair):
        return {"sum": batch["x"] + batch["y"][0], "pair": Pair(pair.first * 2, pair.second)}

    specs = [{"x": "f32[2,3]", "y": ["f32[2,3]"]}, Pair("f32[4]", jax.ShapeDtypeStruct((5,), jnp.float32))]
    model = to_onnx(fn, specs)
    assert names(model.graph.input) == ["batch.x", "batch.y.0", "pair.first", "pair.second"]
    assert names(model.graph.output) == ["pair.first_", "pair.second_", "sum"] or set(names(model.graph.output)) == {
        "output.pair.first", "output.pair.second", "sum",
    }  # fmt: skip


def test_what_is_empty_in_a_pytree_is_no_input():
    def fn(state, x):
        count, (nothing, none), sizes = state
        assert nothing == () and none is None and len(sizes) == 2
        return x * count + sizes[0] - sizes[1]

    model = to_onnx(fn, [(jnp.float32(3), ((), None), (4, 5)), (7,)], check=True)
    assert names(model.graph.input) == ["state.0", "state.2.0", "state.2.1", "x"]
    assert names(to_onnx(lambda state, x: x + state[1], [(None, "f32[7]"), (7,)]).graph.input) == ["state.1", "x"]


def test_the_state_of_an_optimizer_in_steps():
    steps = optax.MultiSteps(optax.adam(1e-2), 3)
    state = steps.init(normal(5))

    def fn(gradient, state):
        return steps.update(gradient, state)

    inputs = names(to_onnx(fn, [(5,), state], check=True).graph.input)
    assert len(inputs) == 1 + len(jax.tree_util.tree_leaves(state)) and "state.skip_state" not in inputs


def test_shapes_inside_a_pytree():
    def fn(layers, x):
        for layer in layers:
            x = x @ layer["kernel"] + layer.get("bias", 0)
        return x

    inputs = [[{"kernel": (3, "N")}, {"kernel": "f32[N,7]", "bias": [7]}], ("B", 3)]
    model = to_onnx(fn, inputs, check=True)
    assert names(model.graph.input) == ["layers.0.kernel", "layers.1.bias", "layers.1.kernel", "x"]
    assert shape_of(model.graph.output[0]) == ["B", 7]
    assert shape_of(to_onnx(fn, [[{"kernel": (3, 4)}], (2, 3)]).graph.output[0]) == [2, 4]
    # Beside arrays, integers are integers and named sizes a shape.
    mixed = to_onnx(lambda s, x: x * s["n"][1] + s["w"].sum(), [{"n": (4, 5), "w": ("N",), "c": normal(2)}, (7,)])
    assert names(mixed.graph.input) == ["s.c", "s.n.0", "s.n.1", "s.w", "x"]


@pytest.mark.parametrize(
    ("cache", "found", "told"),
    [
        ({"k": ("B", "P X", 16)}, r"input 0\['k'\]: dimension 'P X' is not understood", '"2*T+1"'),
        ({"a": [("B", None, 16)]}, r"input 0\['a'\]\[0\] has the shape .* None is not a size", "('B', 'T', 16)"),
        ({"k": ("B", 3.5)}, r"input 0\['k'\] has the shape .* 3.5 is not a size", "('B', 3)"),
        ({"k": object()}, r"input 0\['k'\] has the type object", '("B", 3)'),
        (("B", 3.0), r"input 0 has the shape \('B', 3.0\), and 3.0 is not a size", "('B', 3)"),
    ],
)
def test_errors_name_the_place_in_a_pytree(cache, found, told):
    with pytest.raises(sardonyx.Error, match=found) as e:
        to_onnx(lambda cache, x: x, [cache, ("B", 3)])
    assert told in str(e.value)


def test_an_opset_as_text():
    assert to_onnx(lambda x: x * 2, [(3,)], opset="18").opset_import[0].version == 18
    with pytest.raises(sardonyx.Error, match="opset newest is not supported"):
        to_onnx(lambda x: x * 2, [(3,)], opset="newest")


def test_functions_inside_a_pytree_belong_to_the_program():
    def fn(layer, x):
        return layer["activation"](x @ layer["kernel"])

    layer = {"kernel": normal(3, 4), "activation": jnp.tanh}
    model = to_onnx(fn, [layer, ("B", 3)])
    assert names(model.graph.input) == ["layer.kernel", "x"]
    ok, text = sardonyx.compare(fn, model, [layer, ("B", 3)])
    assert ok, text


def test_scalars_stay_scalars():
    agree(lambda x: (jnp.where(x > 0, x, 0), x.sum()), [()], np.float32(3))
    fn = lambda x: (x.sum(), 5, np.arange(3))  # noqa: E731
    ok, text = sardonyx.compare(fn, to_onnx(fn, [()]), [()])
    assert ok, text


def test_a_function_without_results_is_refused():
    with pytest.raises(sardonyx.Error, match="returns no arrays"):
        to_onnx(lambda x: None, [(3,)])


def test_result_names():
    assert names(to_onnx(lambda x: x + 1, [(2,)]).graph.output) == ["output"]
    assert names(to_onnx(lambda x: (x + 1, x + 2), [(2,)]).graph.output) == ["output.0", "output.1"]
    assert names(to_onnx(lambda x: {"logits": x + 1, "x": x}, [(2,)]).graph.output) == ["logits", "output.x"]


def test_given_and_positional_names():
    def fn(x, y):
        return x + y, x - y

    model = to_onnx(fn, [(2,), (2,)], input_names=["left", "right"], output_names=["sum", "difference"])
    assert names(model.graph.input) == ["left", "right"] and names(model.graph.output) == ["sum", "difference"]
    model = to_onnx(fn, [(2,), (2,)], input_names="positional", output_names="positional")
    assert names(model.graph.input) == ["in_0", "in_1"] and names(model.graph.output) == ["out_0", "out_1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_names": ["a"]}, "input_names has 1 names for 2 inputs"),
        ({"input_names": ["a", "a"]}, "twice"),
        ({"input_names": "a"}, "must be a list"),
        ({"input_names": ["a", ""]}, "non-empty"),
        ({"output_names": ["a", "b"]}, "output_names has 2 names for 1 results"),
        ({"output_names": ["x"]}, "names both an input and a result"),
        ({"inputs_as_nchw": [7]}, "there is no position 7 among 2"),
        ({"inputs_as_nchw": [0]}, "not of rank 4"),
        ({"inputs_as_nchw": 0}, "takes a list of positions, found 0"),
        ({"inputs_as_nchw": [True]}, "no position True"),
        ({"outputs_as_nchw": [0, 0]}, "outputs_as_nchw has 0 twice"),
        ({"return_mode": "text"}, 'expected "proto", "ir", "file"'),
        ({"return_mode": "file"}, "needs output_path"),
        ({"export_mode": "web"}, "'export_mode'\n.*sardonyx.compat.jax2onnx.to_onnx takes it"),
        ({"opset": 5}, "opset 5 is not supported"),
        ({"opset": "x"}, "opset x is not supported"),
        ({"model_name": 5}, "model_name must be a string"),
        ({"passes": ["no_such_pass"]}, "no pass named 'no_such_pass'"),
        ({"target": "toaster"}, 'target "toaster" is not known'),
    ],
)  # fmt: skip
def test_wrong_options_are_named(options, message):
    with pytest.raises(sardonyx.Error, match=message):
        to_onnx(lambda x, y: x + y, [(2,), (2,)], **options)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda f: to_onnx(f, ["f32[3]"], opst=18), "to_onnx has no keyword 'opst'\n.*did you mean 'opset'?"),
        (lambda f: sardonyx.to_coreml(f, ["f32[3]"], precison="f32"), "did you mean 'precision'?"),
        (lambda f: sardonyx.explain(f, ["f32[3]"], targt="x"), "did you mean 'target'?"),
        (lambda f: sardonyx.optimize("m.onnx", verfy=True), "did you mean 'verify'?"),
        (lambda f: sardonyx.profile("m.onnx", trheads=1), "did you mean 'threads'?"),
        (lambda f: sardonyx.compare(f, "m.onnx", [], zzz=1), "help: help\\(sardonyx.compare\\)"),
    ],
)  # fmt: skip
def test_misspelt_keywords_are_answered(call, text):
    with pytest.raises(sardonyx.Error, match=text):
        call(lambda x: x + 1)
    with pytest.raises(TypeError):
        call(lambda x: x + 1)


def test_the_names_of_the_package_are_the_public_ones():
    names = dir(sardonyx)
    assert set(names) == {*sardonyx.__all__, "__version__"} and "sys" not in names
    assert all(hasattr(sardonyx, name) for name in names)


def test_warnings_are_told_at_the_line_of_the_caller():
    with pytest.warns(UserWarning) as told:
        to_onnx(lambda x: x + 1, [np.zeros(3)])
    assert [w.filename for w in told] == [__file__]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((2, 3), r"inputs=\(2, 3\) is one shape.*\n.*write inputs=\[\(2, 3\)\]"),
        (("B",), r"write inputs=\[\('B',\)\]"),
        ([(None, 3)], r"None is not a size\n.*give each dynamic size a name of your choice, as in \('B', 3\)"),
        ([["T", None]], r"as in \('T', 'B'\)"),
        ([("B/2", 3)], r"dimension 'B/2' is not understood.*\n.*B//2"),
        ([("T//2.5", 3)], "dimension 'T//2.5' is not understood"),
        ("f32[2]", "inputs must be a list"),
        ([(2, -3)], "dimension -3 is negative"),
        ([("B+", 3)], r"dimension 'B\+' is not understood"),
        (["f33[2]"], "dtype 'f33'"),
        (["f32(2)"], "is not understood"),
        ([np.array(["a"])], "none of JAX's"),
        ([object()], "input 0 has the type object"),
        ([(2,), (2,)], "does not trace: TypeError"),
    ],
)  # fmt: skip
def test_wrong_inputs_are_named(inputs, message):
    with pytest.raises(sardonyx.Error, match=message):
        to_onnx(lambda x: x + jnp.ones(2), inputs)


# --- dtypes


def test_float64_is_narrowed_with_one_warning():
    with pytest.warns(UserWarning, match=r"input 0 is float64; it becomes float32 .* \(and 1 more\)"):
        model = to_onnx(lambda x, y: x + y, [np.zeros(3), np.zeros(3)])
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_double_precision_keeps_everything_wide():
    def fn(x):
        return jnp.sin(x) + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = to_onnx(
            fn,
            [
                np.zeros(3),
            ][:1],
            enable_double_precision=True,
        )
        shape = to_onnx(fn, [(3,)], enable_double_precision=True)
    for m in (model, shape):
        assert m.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
        assert m.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
    assert not jax.config.jax_enable_x64


def test_x64_is_restored_after_an_error():
    with pytest.raises(sardonyx.Error):
        to_onnx(lambda x: x.nonsense, [(3,)], enable_double_precision=True)
    assert not jax.config.jax_enable_x64


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "float16", "bool"])
def test_dtypes_are_those_of_jax(dtype):
    model = to_onnx(lambda x: x, [jax.ShapeDtypeStruct((3,), jnp.dtype(dtype))])
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    assert model.graph.input[0].type.tensor_type.elem_type == kind == model.graph.output[0].type.tensor_type.elem_type


# --- parameters


def test_parameters_are_inputs_under_their_names():
    def fn(x, scale, training=True):
        return x * scale

    model = to_onnx(fn, [(3,)], input_params={"scale": np.float32(2)})
    assert names(model.graph.input) == ["x", "scale"]
    assert shape_of(model.graph.input[1]) == []


def test_arrays_in_a_tree_of_parameters_are_inputs():
    def fn(x, p, mode):
        assert mode["kind"] == "plain"
        return p["act"](x @ p["w"]["kernel"]) * p["scale"] + p["layers"][0]

    p = {"w": {"kernel": normal(3, 5)}, "act": jnp.tanh, "scale": 2.0, "layers": [normal(5)]}
    given = {"p": p, "mode": {"kind": "plain", "axes": (0, 1)}}
    with pytest.warns(UserWarning, match=r"input_params\['p'\] has numbers .* baked in \(scale=2.0\)"):
        model = to_onnx(fn, [("B", 3)], input_params=given, check=True)
    assert names(model.graph.input) == ["x", "p.layers.0", "p.w.kernel"]
    ok, text = sardonyx.compare(fn, model, [(2, 3)], input_params=given)
    assert ok, text


def test_a_flag_that_python_branches_on_is_baked_in():
    def fn(x, deterministic):
        return x if deterministic else x * 2

    with pytest.warns(UserWarning, match="deterministic=False is baked"):
        model = to_onnx(fn, [(3,)], input_params={"deterministic": False})
    assert names(model.graph.input) == ["x"]
    assert [n.op_type for n in model.graph.node] == ["Mul"]


def test_only_flags_are_baked_in_where_that_is_enough():
    def fn(x, deterministic, scale, steps):
        y = x if deterministic else x * 3
        return y * scale + steps

    with pytest.warns(UserWarning, match="deterministic=True is baked"):
        model = to_onnx(fn, [(3,)], input_params={"deterministic": True, "scale": 2.0, "steps": 4})
    assert names(model.graph.input) == ["x", "scale", "steps"]

    def loops(x, deterministic, scale, steps):
        for _ in range(steps):
            x = x * scale if deterministic else x
        return x

    with pytest.warns(UserWarning, match="deterministic=True, steps=4 is baked"):
        model = to_onnx(loops, [(3,)], input_params={"deterministic": True, "scale": 2.0, "steps": 4})
    assert names(model.graph.input) == ["x", "scale"]

    def branches(x, scale, flag):
        return x * scale if scale > 1 and flag else x

    with pytest.warns(UserWarning, match="scale=2.0, flag=.*True.* is baked"):
        model = to_onnx(branches, [(3,)], input_params={"scale": 2.0, "flag": np.bool_(True)})
    assert names(model.graph.input) == ["x"]


# --- layout


def test_nchw_outside_nhwc_inside():
    def fn(x):
        assert x.shape == (2, 5, 7, 3)
        return x[..., :1] * 2

    model = to_onnx(fn, [(2, 5, 7, 3)], inputs_as_nchw=[0], outputs_as_nchw=[0])
    assert shape_of(model.graph.input[0]) == [2, 3, 5, 7] and shape_of(model.graph.output[0]) == [2, 1, 5, 7]
    x = normal(2, 3, 5, 7)
    np.testing.assert_array_equal(outputs(model, [x])[0], x[:, :1] * 2)
    ok, text = sardonyx.compare(fn, model, [(2, 5, 7, 3)], inputs_as_nchw=[0], outputs_as_nchw=[0])
    assert ok, text


# --- results


def test_return_modes(tmp_path):
    def fn(x):
        return x + 1

    path = tmp_path / "sub" / "m.onnx"
    assert to_onnx(fn, [(3,)], return_mode="file", output_path=path) == str(path)
    from_file = onnx.load(path)
    assert [node.op_type for node in to_onnx(fn, [(3,)], return_mode="ir").graph] == ["Add"]
    proto = to_onnx(fn, [(3,)])
    assert from_file == proto
    path.unlink()
    assert to_onnx(fn, [(3,)], output_path=path) == str(path) and onnx.load(path) == proto
    path.unlink()
    assert to_onnx(fn, [(3,)], return_mode="proto", output_path=path) == proto == onnx.load(path)
    assert proto.graph.name == "jax_model" and proto.opset_import[0].version == 23 and proto.ir_version == 10


def test_the_same_input_gives_the_same_bytes():
    weight = normal(7, 5)

    def fn(x):
        return jax.nn.relu(x @ weight)

    assert to_onnx(fn, [("B", 7)]).SerializeToString() == to_onnx(fn, [("B", 7)]).SerializeToString()


def test_what_is_printed_is_left_out_with_a_warning():
    def fn(x):
        jax.debug.print("x is {}", x)

        def body(i, y):
            jax.debug.callback(lambda v: None, y)
            return y + 1

        return jax.lax.fori_loop(0, 3, body, x)

    line = fn.__code__.co_firstlineno + 1
    with pytest.warns(UserWarning, match=rf"^jax.debug.print at test_to_onnx.py:{line} \(.*fn\) and 1 more: ") as told:
        to_onnx(fn, [("B",)])
    assert len(told) == 1 and told[0].filename == __file__
    with pytest.warns(UserWarning, match=r"^jax.debug.callback at test_to_onnx.py:"):
        to_onnx(jax.jit(lambda x: (jax.debug.callback(lambda v: None, x), x + 1)[1]), [(3,)])


def test_threads_do_not_disturb_each_other():
    weight = normal(7, 5)

    def export(i):
        def fn(x):
            return jnp.tanh(x @ weight) + i

        wide = i % 2 == 1
        model, report = to_onnx(fn, [("B", 7)], enable_double_precision=wide, return_report=True)
        assert report.nodes == len(model.graph.node)
        return model.SerializeToString()

    alone = [export(i) for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(export, range(8))) == alone
    assert not jax.config.jax_enable_x64


def test_the_report_tells_the_stages(tmp_path):
    path = tmp_path / "m.onnx"
    _, report = to_onnx(lambda x: jnp.sin(x) + 1, [(3,)], return_mode="file", output_path=path, return_report=True)
    assert list(report.stages) == ["trace", "import", "lower", "optimize", "write"]
    assert report.nodes == 2 and report.ops == {"Sin": 1, "Add": 1} and report.bytes == path.stat().st_size
    assert "2 equations became 2 nodes" in report.table


def test_compare_says_what_differs():
    model = to_onnx(lambda x: x + 1, [("B", 3)])
    assert sardonyx.compare(lambda x: x + 1, model, [("B", 3)])
    ok, text = sardonyx.compare(lambda x: x + 2, model, [("B", 3)])
    assert not ok and "result 0 ('output') differs by up to 1" in text
    ok, text = sardonyx.compare(lambda x: (x, x), model, [normal(2, 3)])
    assert not ok and "1 results, JAX has 2" in text


def test_check_compares_before_returning():
    model = to_onnx(lambda x, i: x[i] * 2, [("B", 3), "i32[B]"], check=True)
    assert names(model.graph.input) == ["x", "i"]


def test_check_respects_constraints():
    seen = []

    def fn(x):
        seen.append(x.shape[0])
        return x[:9] * 2

    to_onnx(fn, [("B >= 9", 3)], check=True)
    assert [s for s in seen if isinstance(s, int)] == [11, 32]
    with pytest.raises(sardonyx.Error, match="no sizes were found that satisfy B >= 9999"):
        to_onnx(fn, [("B >= 9999", 3)], check=True)


def test_check_finds_what_differs():
    @sardonyx.lowering("sin")
    def wrong(ctx, eqn):
        return ctx.builder.Cos(ctx.get_value_for_var(eqn.invars[0]))

    try:
        with pytest.raises(sardonyx.Error, match=r"differs from JAX at B=2: result 0 \('output'\) differs by up to"):
            to_onnx(jnp.sin, [("B", 3)], check=True)
    finally:
        sardonyx.plugins.unregister("sin")


def test_primitive_calls_are_recorded(tmp_path):
    path = tmp_path / "calls.txt"
    jax2onnx.to_onnx(lambda x: jnp.sin(x) + 1, [(3,)], record_primitive_calls_file=path)
    text = path.read_text()
    assert "sin" in text and "f32[3]" in text and "test_to_onnx.py" in text


def test_results_of_loops_that_nobody_reads_have_names():
    def fn(x):
        carry, rows = jax.lax.scan(lambda c, v: (v, c * v), x[0], x)
        return carry

    agree(fn, [(4, 3)], normal(4, 3))


def test_weights_are_called_what_the_program_calls_them():
    class Layer:
        def __init__(self):
            self.kernel = jnp.asarray(normal(3, 3))

    class Net:
        def __init__(self):
            self.layers = [Layer(), {"scale": jnp.asarray(normal(3))}]

        def __call__(self, x):
            return x @ self.layers[0].kernel + self.layers[1]["scale"]

    model = to_onnx(Net(), [(2, 3)])
    assert {i.name for i in model.graph.initializer} == {"layers.0.kernel", "layers.1.scale"}
    table = jnp.asarray(normal(4, 3))
    model = to_onnx(lambda x: Net()(x) + table[0], [(2, 3)], passes="none")  # otherwise only the row would be left
    assert "table" in {i.name for i in model.graph.initializer}


def test_weights_are_found_wherever_python_keeps_them():
    class Slotted:
        __slots__ = ("kernel",)

        def __init__(self):
            self.kernel = jnp.asarray(normal(3, 3))

        def apply(self, x):
            return x @ self.kernel

    Pair = namedtuple("Pair", "scale shift")
    slotted, pair = Slotted(), Pair(jnp.asarray(normal(3)), jnp.asarray(normal(3)))
    table = OrderedDict(first=[jnp.asarray(normal(3)), {7: jnp.asarray(normal(3))}])

    def fn(bias, x):
        x = slotted.apply(x) * pair.scale + pair.shift
        return x + table["first"][0] - table["first"][1][7] + bias

    model = to_onnx(functools.partial(fn, jnp.asarray(normal(3))), [(2, 3)], passes="none")
    wanted = {"slotted.kernel", "pair.scale", "pair.shift", "first.0", "first.1.7", "0"}
    assert wanted <= {i.name for i in model.graph.initializer}


def test_an_attribute_that_raises_costs_names_and_no_export():
    class Net:
        def __init__(self):
            self.kernel = jnp.asarray(normal(3, 3))
            self.late = Late()

        def __call__(self, x):
            return x @ self.kernel @ self.late.kernel

    class Late:
        kernel = jnp.asarray(normal(3, 3))
        __slots__ = ("broken",)

        def __getattr__(self, name):
            raise RuntimeError(name)

    model = to_onnx(Net(), [(2, 3)], passes="none")
    assert "kernel" in {i.name for i in model.graph.initializer}


def test_a_weight_never_takes_the_name_of_an_input():
    class Net:
        def __init__(self):
            self.x = jnp.asarray(normal(3, 3))

        def __call__(self, x):
            return x @ self.x

    agree(Net(), [(2, 3)], normal(2, 3))


def callsites(model):
    return [{p.key: p.value for p in n.metadata_props} for n in model.graph.node]


def test_nodes_at_the_border_say_so():
    def fn(key, x):
        return jax.random.fold_in(key, 3), jax.random.uniform(key, (3,)) + x

    inputs = [jax.random.key(0), (3,)]
    model = to_onnx(fn, inputs, passes="none")
    lowerings = [[p.value for p in n.metadata_props if p.key == "pkg.sardonyx.plugin"] for n in model.graph.node]
    assert all(len(found) == 1 for found in lowerings)
    assert ["key_from_words"] in lowerings and ["words_of_key"] in lowerings
    assert not any(n.metadata_props for n in to_onnx(fn, inputs, provenance="off").graph.node)


def test_nodes_know_where_they_come_from():
    def fn(x):
        with jax.named_scope("block"):
            y = jnp.sin(x)
        return jax.nn.relu(y)  # written in a library, called here

    jax.clear_caches()  # JAX caches the trace of relu, with the line that first called it
    line = fn.__code__.co_firstlineno
    sine, relu = callsites(to_onnx(fn, [(3,)]))
    where = "test_nodes_know_where_they_come_from.<locals>.fn"
    assert sine["pkg.sardonyx.callsite"] == f"{where}:{line + 2}" and sine["namespace"] == "block"
    assert relu["pkg.sardonyx.callsite"] == f"{where}:{line + 3}" and "namespace" not in relu
    assert callsites(to_onnx(fn, [(3,)], provenance="off")) == [{}, {}]
    full = callsites(to_onnx(fn, [(3,)], provenance="full"))
    assert __file__ in full[0]["pkg.sardonyx.stacktrace"]
    # JAX's traceback includes the frames between the program's line and the primitive.
    stack, jax_stack = (full[1][f"pkg.sardonyx.{key}"].splitlines() for key in ("stacktrace", "jax_traceback"))
    assert set(stack) < set(jax_stack) and not any("/jax/_src/" in frame for frame in stack)
    assert any("/jax/_src/" in frame and "custom_jvp" in frame for frame in jax_stack)
    assert jax_stack.index(stack[0]) > 0 and not any("\t" in frame for frame in jax_stack)
    assert "pkg.sardonyx.jax_traceback" not in relu


# --- errors


def test_a_function_that_does_not_trace_says_where():
    def fn(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(sardonyx.Error) as caught:
        to_onnx(fn, [("B", 3)])
    text = str(caught.value)
    assert "does not trace: TracerBoolConversionError" in text
    assert "at test_to_onnx.py:" in text and "(test_a_function_that_does_not_trace_says_where.<locals>.fn)" in text
    assert "x: float32[B,3]" in text and "help: use jax.lax.cond" in text
    assert caught.value.__suppress_context__
    assert len(text) < 1000


def test_all_unsupported_equations_are_listed_at_once():
    def fn(x):
        y = jax.pure_callback(lambda v: np.asarray(v), f32(3), x)
        return jax.lax.linalg.hessenberg(jnp.outer(y, y)), jax.experimental.io_callback(lambda v: v, f32(3), x)

    with pytest.raises(sardonyx.Error) as caught:
        to_onnx(fn, [(3,)])
    text = str(caught.value)
    assert caught.value.code == "unsupported"
    assert "pure_callback" in text and "io_callback" in text
    assert "test_to_onnx.py:" in text


def test_unwritable_output_stops_before_tracing(tmp_path):
    def fn(x):
        raise AssertionError("was traced")

    (tmp_path / "file").write_text("")
    with pytest.raises(sardonyx.Error, match="is a folder"):
        to_onnx(fn, [(3,)], return_mode="file", output_path=tmp_path)
    with pytest.raises(sardonyx.Error, match="cannot write") as caught:
        to_onnx(fn, [(3,)], return_mode="file", output_path=tmp_path / "file" / "m.onnx")
    assert caught.value.code == "io"


def test_nothing_is_left_after_a_failure(tmp_path):
    with pytest.raises(sardonyx.Error):
        to_onnx(
            lambda x: jax.pure_callback(np.asarray, f32(3), x),
            [(3,)],
            return_mode="file",
            output_path=tmp_path / "m.onnx",
        )
    assert os.listdir(tmp_path) == []


def test_fn_must_be_callable():
    with pytest.raises(sardonyx.Error, match="fn must be callable, found int"):
        to_onnx(3, [(3,)])


# --- the command


def test_export_from_the_command_line(tmp_path):
    (tmp_path / "toy.py").write_text("import jax.numpy as jnp\ndef f(x, y):\n  return jnp.sin(x) + y\n")
    command = [
        sys.executable,
        "-m",
        "sardonyx",
        "convert",
        "toy:f",
        "-i",
        "f32[B,3]",
        "--input",
        "y=f32[3]",
        "-o",
        "m.onnx",
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(sardonyx.__file__).parent.parent)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "f: 3 equations became 2 nodes" in done.stdout
    model = onnx.load(tmp_path / "m.onnx")
    assert names(model.graph.input) == ["x", "y"]
    command[4] = "toy:g"
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == "error: 'toy' has no 'g'\n  it has: f\n"


def test_the_module_is_the_whole_command(tmp_path, monkeypatch, capsys):
    to_onnx(lambda x: jnp.sin(x), [("B", 3)], return_mode="file", output_path=tmp_path / "m.onnx")
    command = [sys.executable, "-m", "sardonyx", "info", str(tmp_path / "m.onnx")]
    environment = {"PYTHONPATH": str(Path(sardonyx.__file__).parent.parent), "PATH": str(BUILD)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "Sin" in done.stdout, done.stderr
    from sardonyx import __main__ as module

    monkeypatch.setattr(module, "_command", lambda: None)
    assert module.main(["info", "m.onnx"]) == 1 and "no command 'sardonyx'" in capsys.readouterr().err


def test_import_is_light():
    code = "import sys, sardonyx; print([m for m in ('jax', 'onnx', 'onnxruntime', 'numpy') if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(Path(sardonyx.__file__).parent.parent)}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).strip() == "[]"


def test_what_is_stated_of_sizes_reaches_the_graph(tmp_path):
    path = tmp_path / "m.sx"
    sardonyx.save_program(lambda x: x * 2, [("B >= 3", "2*T + 1 <= 9")], path)
    text = path.read_text()
    assert "range B 3.." in text and "range T 1..4" in text
    scope = jax.export.SymbolicScope(["N >= 5"])
    (n,) = jax.export.symbolic_shape("N", scope=scope)
    sardonyx.save_program(lambda x: x * 2, [jax.ShapeDtypeStruct((n,), "float32")], path)
    assert "range N 5.." in path.read_text()


def test_normalization_mode_chooses_operator_or_arithmetic():
    def normalized(x, scale, bias):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias

    def count(**options):
        model = jax2onnx.to_onnx(normalized, [("B", 7), (7,), (7,)], **options)
        return [n.op_type for n in model.graph.node].count("LayerNormalization")

    assert count() == 1
    assert count(normalization_mode="force_decomposed") == 0
    assert count(passes="none") == 0
    assert count(passes="none", normalization_mode="prefer_native") == 1


def test_debug_dump_shows_each_stage(tmp_path):
    def doubled(x):
        return jnp.sin(x) * 2

    to_onnx(doubled, [("B", 3)], debug_dump=tmp_path / "stages")
    texts = {p.name: p.read_text() for p in (tmp_path / "stages").iterdir()}
    assert sorted(texts) == ["0_program.sx", "1_lowered.sx", "2_optimized.sx"]
    assert "sin(x)" in texts["0_program.sx"] and "Sin(x)" in texts["1_lowered.sx"]
    assert "test_to_onnx.py" in texts["2_optimized.sx"]
    sardonyx.to_coreml(doubled, [("B", 3)], debug_dump=tmp_path / "to_coreml")
    stages = ["program", "onnx", "prepared", "lowered", "optimized"]
    assert sorted(p.name for p in (tmp_path / "to_coreml").iterdir()) == [f"{i}_{s}.sx" for i, s in enumerate(stages)]
    (tmp_path / "file").write_text("")
    with pytest.raises(sardonyx.Error, match="cannot create the folder"):
        to_onnx(doubled, [("B", 3)], debug_dump=tmp_path / "file")


def test_stacktrace_metadata_is_provenance_under_another_name():
    def keys(**options):
        model = jax2onnx.to_onnx(lambda x: jnp.sin(x), [("B", 3)], **options)
        return {p.key for n in model.graph.node for p in n.metadata_props}

    assert "pkg.sardonyx.callsite" in keys() and not keys(stacktrace_metadata="off")
    assert keys(provenance=True) == keys(stacktrace_metadata=True) == keys()
    assert not keys(provenance=False) and not keys(stacktrace_metadata=False)
    with pytest.raises(sardonyx.Error, match="provenance"):
        keys(stacktrace_metadata="some")
    with pytest.raises(sardonyx.Error, match='expected "standard", "web"'):
        keys(export_mode="x")
    with pytest.raises(sardonyx.Error, match="to_onnx has no keyword 'opst'\n.*did you mean 'opset'?"):
        keys(opst=18)


def test_rules_that_do_not_converge_are_told(monkeypatch):
    """The model is right as it is, and somebody should report the rules."""
    from sardonyx import _convert

    class Stopped:
        not_converged = ["rules did not converge and were switched off: fuse_this, undo_this"]

        def __init__(self, model):
            self._model = model

        def __getattr__(self, name):
            return getattr(self._model, name)

    convert = _convert.native.convert
    monkeypatch.setattr(_convert.native, "convert", lambda *args, **kwargs: Stopped(convert(*args, **kwargs)))
    with pytest.warns(UserWarning, match="switched off: fuse_this, undo_this"):
        model = sardonyx.to_onnx(jnp.tanh, [("B", 3)])
    assert [n.op_type for n in model.graph.node] == ["Tanh"]
