"""convert, compare, reports, models that stay native, and what answers to names that are gone."""

import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from onnx import TensorProto, helper, numpy_helper
from sardonyx import coreml, ir


def product(factor=2.0, large=False):
    """y = x @ w, after an Identity that optimize removes."""
    value = helper.make_tensor_value_info
    weights = (np.arange(77, dtype=np.float32).reshape(7, 11) - 38) * factor
    weights = [numpy_helper.from_array(np.tile(weights, (1, 3000)) if large else weights, "w")]
    nodes = [helper.make_node("Identity", ["x"], ["i"]), helper.make_node("MatMul", ["i", "w"], ["y"])]
    y = value("y", TensorProto.FLOAT, [3, 33000 if large else 11])
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [3, 7])], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def scaled(x):
    return jnp.tanh(x) * 3


# --- compare


def test_models_functions_and_packages_compare_in_any_pair(tmp_path):
    model = sardonyx.to_onnx(scaled, [(3, 5)])
    onnx.save(model, tmp_path / "m.onnx")
    package = sardonyx.to_coreml(model, output_path=tmp_path / "m.mlpackage", precision="f32")
    models = [model, str(tmp_path / "m.onnx"), model.SerializeToString(), ir.from_proto(model), package]
    models += [tmp_path / "m.mlpackage"]
    for a in models:
        assert sardonyx.compare(scaled, a, [(3, 5)]) and sardonyx.compare(a, scaled, [(3, 5)])
        assert all(sardonyx.compare(a, b) for b in models)
    assert sardonyx.compare(scaled, lambda x: 3 * jnp.tanh(x), [(3, 5)])
    assert not sardonyx.compare(scaled, lambda x: 4 * jnp.tanh(x), [(3, 5)])


def test_half_precision_is_judged_the_same_on_either_side(tmp_path):
    model = product()
    package = sardonyx.to_coreml(model)
    assert sardonyx.compare(model, package) and sardonyx.compare(package, model)


def test_a_difference_is_false_and_says_what_differs():
    model = sardonyx.to_onnx(lambda x: x.at[1, 2].add(5.0), [(3, 5)])
    found = sardonyx.compare(lambda x: x, model, [(3, 5)])
    assert not found and found.largest_error == pytest.approx(5) and found.largest_error_at == "output[1,2]"
    assert found.inputs == {"x": "float32[3,5]"}
    same, text = found
    assert same is False and text.startswith("result 0 ('output') differs by up to 5 (rtol=0.001, atol=1e-05)")
    for shown in (str(found), repr(found)):
        assert "largest error: 5 at output[1,2]" in shown and "inputs: x: float32[3,5]" in shown
    with pytest.raises(AssertionError, match="differs by up to 5"):
        assert found, found
    same, text = sardonyx.compare(product(), product(2.5))
    assert same is False and text.startswith("the models differ: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda m: (m, m, [(3, 7)]), "inputs is for JAX functions"),
        (lambda m: (scaled, m), "a function is compared on its inputs"),
        (lambda m: (scaled, 5, [(3, 7)]), "models and functions can be compared, found int"),
    ],
)
def test_what_cannot_be_compared(arguments, message):
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.compare(*arguments(product()))
    with pytest.raises(sardonyx.Error, match="numerics is for two models"):
        sardonyx.compare(scaled, product(), [(3, 7)], numerics="exact")


# --- convert


def test_the_suffix_decides(tmp_path):
    model = product()
    onnx.save(model, tmp_path / "m.onnx")
    written = sardonyx.convert(scaled, tmp_path / "f.onnx", inputs=[("B", 3)], opset=18)
    assert written == str(tmp_path / "f.onnx") and onnx.load(written).opset_import[0].version == 18
    for source in (scaled, model, str(tmp_path / "m.onnx"), ir.from_proto(model)):
        options = {"inputs": [(3, 7)]} if source is scaled else {}
        program = sardonyx.convert(source, tmp_path / "out.mlpackage", **options)
        assert isinstance(program, coreml.Program) and (tmp_path / "out.mlpackage").is_dir()
    assert sardonyx.convert(scaled, to="onnx", inputs=[(3, 7)]) == sardonyx.to_onnx(scaled, [(3, 7)])
    assert isinstance(sardonyx.convert(scaled, to="coreml", inputs=[(3, 7)]), coreml.Program)
    copy = sardonyx.convert(tmp_path / "out.mlpackage", tmp_path / "copy.mlmodel")
    assert copy.op_counts() == coreml.load(tmp_path / "copy.mlmodel").op_counts()


def test_other_opsets_of_a_model(tmp_path):
    model = product()
    for source in (model, ir.from_proto(model)):
        assert sardonyx.convert(source, tmp_path / "m.onnx", opset=22) == str(tmp_path / "m.onnx")
        made = onnx.load(tmp_path / "m.onnx")
        assert made.opset_import[0].version == 22 and [n.op_type for n in made.graph.node] == ["Identity", "MatMul"]
    made = sardonyx.convert(model, to="onnx", opset=22, passes="onnx")
    assert [n.op_type for n in made.graph.node] == ["MatMul"]


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ((scaled,), {}, "convert needs an output"),
        ((scaled, "out.txt"), {}, "'out.txt' does not name a format"),
        ((scaled, "out.onnx"), {}, "a function is converted with its inputs"),
        ((scaled,), {"to": "tflite"}, 'expected "onnx", "coreml"'),
        (("in.mlpackage", "out.onnx"), {}, "Core ML programs are not converted to ONNX"),
        (("in.mlpackage", "out.mlpackage"), {"passes": "default"}, "sardonyx.coreml.optimize changes one"),
    ],
)
def test_what_cannot_be_converted(given, options, message):
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.convert(*given, **options)


def test_models_take_no_keywords_of_functions():
    with pytest.raises(sardonyx.Error, match="input_names is for JAX functions, and this is a model"):
        sardonyx.to_coreml(product(), input_names=["a"])
    with pytest.raises(sardonyx.Error, match="input_shapes is for ONNX models"):
        sardonyx.to_coreml(scaled, [(3, 7)], input_shapes={"x": (3, 7)})


def test_a_model_and_a_function_in_one_package(tmp_path):
    both = sardonyx.to_coreml(functions={"product": product(), "scaled": (scaled, [(3, 7)])}, target="iOS18")
    assert both.functions == ["product", "scaled"]
    x = np.ones((3, 7), np.float32)
    np.testing.assert_allclose(both.run([x], "scaled")["output"], np.tanh(x) * 3, rtol=1e-2)


# --- reports


def test_reports_come_with_the_result(tmp_path):
    onnx.save(product(), tmp_path / "m.onnx")
    small, report = sardonyx.optimize(product(), return_report=True)
    assert report.before["nodes"] == 2 and report.nodes == len(small.graph.node) == 1
    path, report = sardonyx.optimize(tmp_path / "m.onnx", tmp_path / "s.onnx", return_report=True)
    assert path == report.path == str(tmp_path / "s.onnx") and report.model_name == "m.onnx"
    found = sardonyx.convert(scaled, to="onnx", inputs=[(3, 7)], return_report=True)
    assert found.report.nodes == len(found.model.graph.node) and "trace" in found.report.stages
    program, report = sardonyx.to_coreml(product(), output_path=tmp_path / "m.mlpackage", return_report=True)
    assert report.ops == program.op_counts() and report.before == {"nodes": 2} and report.path.endswith("m.mlpackage")
    program, report = sardonyx.to_coreml(scaled, [(3, 7)], return_report=True)
    assert report.equations == 2 and {"trace", "lower", "write"} <= report.stages.keys()
    program, report = coreml.optimize(tmp_path / "m.mlpackage", tmp_path / "s.mlpackage", return_report=True)
    assert isinstance(program, coreml.Program) and report.after["ops"] == program.op_counts()
    assert isinstance(coreml.optimize(tmp_path / "m.mlpackage", tmp_path / "s.mlpackage"), coreml.Program)


# --- models that stay native


def test_an_ir_model_gives_what_its_message_gives(tmp_path):
    for proto in (product(), product(large=True)):
        model = ir.from_proto(proto)
        before = ir.to_proto(model)
        assert ir.to_proto(sardonyx.optimize(model)) == sardonyx.optimize(proto)
        assert sardonyx.optimize(model, tmp_path / "a.onnx") == str(tmp_path / "a.onnx")
        onnx.save(proto, tmp_path / "in.onnx")
        sardonyx.optimize(tmp_path / "in.onnx", tmp_path / "b.onnx")
        assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
        assert ir.to_proto(model) == before
        assert sardonyx.to_coreml(model).text() == sardonyx.to_coreml(proto).text()
        assert sardonyx.info(model).ops == sardonyx.info(proto).ops and not sardonyx.diff(model, proto)


def test_a_model_that_would_only_grow_stays_as_it_is():
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, ["B"])],
        [value("y", TensorProto.FLOAT, ["B"])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    model, report = sardonyx.optimize(ir.from_proto(proto), return_report=True)
    assert ir.to_proto(model) == sardonyx.optimize(proto) and report.before["nodes"] == report.after["nodes"] == 1


@pytest.mark.slow
def test_no_message_limits_an_ir_model(tmp_path):
    """Weights of 2.5 GB, which no message of protobuf can hold."""
    width = 25_000
    x = ir.val("x", ir.DataType.FLOAT, (1, width))
    w = ir.val("w", const_value=ir.tensor(np.zeros((width, width), np.float32)))
    product = ir.node("MatMul", [ir.node("Identity", [x]).outputs[0], w])
    y = product.outputs[0]
    y.name, y.type, y.shape = "y", ir.TensorType(ir.DataType.FLOAT), ir.Shape((1, width))
    nodes = [product.inputs[0].producer(), product]
    graph = ir.Graph([x], [y], nodes=nodes, initializers=[w], opset_imports={"": 20}, name="g")
    small = sardonyx.optimize(ir.Model(graph, ir_version=9))
    assert [n.op_type for n in small.graph] == ["MatMul"]
    program = sardonyx.convert(small, tmp_path / "big.mlpackage", precision="f32")
    assert sum(n for op, n in program.op_counts().items() if op != "const") == 1


# --- names that are gone


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("allclose", "use sardonyx.compare"),
        ("verify", "use sardonyx.compare"),
        ("simplify", "use sardonyx.compat.onnxsim.simplify"),
        ("slim", "use sardonyx.compat.onnxslim.slim"),
        ("load_plugin", "use sardonyx.plugins.load"),
        ("report.last", "return_report=True"),
        ("coreml.from_onnx", "sardonyx.to_coreml"),
        ("compat.nothing", "sardonyx.compat"),
    ],
)
def test_names_that_are_gone_are_answered(name, answer):
    found = sardonyx
    *modules, name = name.split(".")
    for module in modules:
        found = getattr(found, module)
    with pytest.raises(AttributeError, match=answer) as caught:
        getattr(found, name)
    assert "\n" not in str(caught.value) and name not in dir(found)
