"""`sardonyx compare`: two models evaluated on the same inputs."""

import json

import onnx
import pytest
import sardonyx
from command import sardonyx as command
from onnx import TensorProto, helper, numpy_helper


def save(path, ops, inputs=("x", "y"), results=1):
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", 3]) for name in inputs]
    outputs = [helper.make_tensor_value_info(f"z{i}", TensorProto.FLOAT, ["B", 3]) for i in range(results)]
    nodes = [helper.make_node(op, operands, [f"z{i}"]) for i, (op, operands) in enumerate(ops)]
    graph = helper.make_graph(nodes, "g", values, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


@pytest.fixture
def models(tmp_path):
    return lambda name, *args, **options: save(tmp_path / name, *args, **options)


def test_models_that_compute_the_same(models):
    a, b = models("a.onnx", [("Add", ["x", "y"])]), models("b.onnx", [("Add", ["y", "x"])])
    done = command("compare", a, b, "--numerics", "exact")
    assert "the models compute the same (exact) on 5 inputs" in done.stdout


def test_models_that_differ(models):
    a, b = models("a.onnx", [("Sub", ["x", "y"])]), models("b.onnx", [("Sub", ["y", "x"])])
    done = command("compare", a, b, ok=False)
    assert done.returncode == 1 and "the models differ: result 0 differs" in done.stdout


def test_inputs_that_are_gone(models):
    a, b = models("a.onnx", [("Abs", ["y"])]), models("b.onnx", [("Abs", ["y"])], inputs=["y"])
    command("compare", a, b)
    done = command("compare", b, a, ok=False)
    assert done.returncode != 0 and "the second model has an input 'x' that the first does not have" in done.stderr


def test_models_with_other_interfaces(models):
    a = models("a.onnx", [("Sub", ["x", "y"])])
    turned = models("b.onnx", [("Sub", ["x", "y"])], inputs=["y", "x"])
    assert (
        "input 'y' is number 2 of the first model and number 1 of the second"
        in command("compare", a, turned, ok=False).stderr
    )
    two = models("c.onnx", [("Sub", ["x", "y"]), ("Add", ["x", "y"])], results=2)
    assert "the models have 1 and 2 results" in command("compare", a, two, ok=False).stderr


def test_what_is_random_is_not_compared(models):
    a = models("a.onnx", [("RandomNormalLike", ["x"])])
    done = command("compare", a, a, ok=False)
    assert done.returncode == 1 and "nothing could be compared: it is random" in done.stdout


def test_a_dropout_that_may_train_is_random(tmp_path):
    def model(name, training):
        """`training`: the operand of that name; None for an input of the graph."""
        info = helper.make_tensor_value_info
        inputs = [info("x", TensorProto.FLOAT, [7, 11])] + [info("t", TensorProto.BOOL, [])] * (training is None)
        flag = [] if training is None else [helper.make_tensor("t", TensorProto.BOOL, [], [training])]
        node = helper.make_node("Dropout", ["x", "", "t"], ["y"])
        graph = helper.make_graph([node], "g", inputs, [info("y", TensorProto.FLOAT, [7, 11])], flag)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / name)
        return tmp_path / name

    for a in (model("told.onnx", True), model("open.onnx", None)):
        done = command("compare", a, a, ok=False)
        assert done.returncode == 1 and "nothing could be compared: it is random" in done.stdout
    a = model("off.onnx", False)
    assert "the models compute the same" in command("compare", a, a).stdout


def one_node(path, op, dtype=TensorProto.FLOAT, opset=24, **attributes):
    value = [helper.make_tensor_value_info(name, dtype, ["B", 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], "act", **attributes)], "g", value[:1], value[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


def test_what_the_runtime_loads_no_more(tmp_path):
    """onnxruntime expands Swish in models of opset 24, and in no newer one."""
    source, result = one_node(tmp_path / "a.onnx", "Swish"), tmp_path / "b.onnx"
    done = command("optimize", source, "-o", result, "--opset", 25, "--passes", "none", "--verify", "model", ok=False)
    assert done.returncode != 0 and not result.exists()
    assert "ort-1.32 loads the original model, but not the optimized one" in done.stderr
    assert "convert_opset made what ort-1.32 refuses: Swish-24 of f32 has no kernel" in done.stderr
    with pytest.raises(sardonyx.Error, match="convert_opset made what ort-1.32 refuses"):
        sardonyx.optimize(onnx.load(source), passes="none", opset=25, verify="model")
    command("optimize", source, "-o", result, "--passes", "onnx", "--verify", "model")
    newer = one_node(tmp_path / "c.onnx", "Swish", opset=25)
    done = command("compare", source, newer, ok=False)
    assert done.returncode == 1 and "ort-1.32 loads the first model, and not the second" in done.stdout
    assert "Swish-24 of f32 has no kernel ('act')" in done.stdout
    command("compare", source, result)


def test_what_the_target_loads_no_more(tmp_path):
    source, result = one_node(tmp_path / "a.onnx", "Abs", opset=22), tmp_path / "b.onnx"
    options = ("optimize", source, "-o", result, "--opset", 24, "--verify", "model")
    command(*options)
    done = command(*options, "--option", "legalize.target=ort-1.23", ok=False)
    assert done.returncode != 0 and "ort-1.23 loads opset 23 at most, and the model imports 24" in done.stderr
    done = command("compare", source, result, "--target", "ort-1.23", ok=False)
    assert done.returncode == 1 and "ort-1.23 loads the first model, and not the second" in done.stdout


def test_what_no_runtime_loaded_is_no_fault_of_the_passes(tmp_path):
    source = one_node(tmp_path / "a.onnx", "Relu", TensorProto.INT64)
    for how in ("model", "pass"):
        command("optimize", source, "-o", tmp_path / "b.onnx", "--opset", 25, "--verify", how)
    command("compare", source, tmp_path / "b.onnx")


def test_core_ml_packages(tmp_path):
    ct = pytest.importorskip("coremltools")
    import numpy as np
    from coremltools.converters.mil import Builder as mb

    def package(name, scale):
        @mb.program(input_specs=[mb.TensorSpec((2, 3))], opset_version=ct.target.iOS16)
        def program(x):
            y = mb.linear(x=x, weight=np.full((5, 3), scale, np.float32))
            return mb.relu(x=mb.identity(x=mb.add(x=y, y=np.arange(5, dtype=np.float32))))

        path = tmp_path / name
        model = ct.convert(program, convert_to="mlprogram", pass_pipeline=ct.PassPipeline.EMPTY)
        model.save(str(path))
        return path

    one, other = package("one.mlpackage", 0.5), package("other.mlpackage", 0.25)
    for how in ("model", "pass"):
        done = command("optimize", one, "-o", tmp_path / "small.mlpackage", "--verify", how)
        assert "evaluations before and after compared" in done.stdout
        command("compare", one, tmp_path / "small.mlpackage")
    assert command("compare", one, other, ok=False).returncode == 1
    assert command("optimize", one, "-o", one, "--verify", "always", ok=False).returncode == 2
    with pytest.raises(sardonyx.Error, match=r"input 'x' is f32\[3,3\], expected f32\[2,3\]"):
        sardonyx.coreml.load(one).run([np.zeros((3, 3), np.float32)])
    onnx_model = save(tmp_path / "a.onnx", [("Add", ["x", "y"])])
    assert "the models have 1 and 2 inputs" in command("compare", one, onnx_model, ok=False).stderr


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_model_and_its_package(tmp_path, precision):
    """Sizes and integers too; half precision may be off by a fiftieth of the largest element."""
    import numpy as np

    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Gather", ["w", "i"], ["r"]),
        helper.make_node("MatMul", ["x", "v"], ["m"]),
        helper.make_node("Add", ["m", "r"], ["s"]),
        helper.make_node("Tanh", ["s"], ["y"]),
        helper.make_node("Cast", ["i"], ["j"], to=TensorProto.INT64),
        helper.make_node("Add", ["j", "j"], ["k"]),
    ]
    rng = np.random.default_rng(0)
    held = [
        numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in (("w", (5, 7)), ("v", (3, 7)))
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, ["B", 3]), value("i", TensorProto.INT64, ["B"])],
        [value("y", TensorProto.FLOAT, ["B", 7]), value("k", TensorProto.INT64, ["B"])], held,
    )  # fmt: skip
    model, package = tmp_path / "m.onnx", tmp_path / "m.mlpackage"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    command("convert", model, "-o", package, "--precision", precision, "--size", "B <= 64")
    said = command("compare", model, package).stdout
    assert "the models compute the same" in said and "largest error" in said
    (told,) = json.loads(command("compare", model, package, "--json").stdout)
    assert told["largest_error"] > (1e-5 if precision == "fp16" else 0) and told["evaluations"] >= 3
    if precision == "fp16":
        assert command("compare", model, package, "--rtol", "1e-6", ok=False).returncode == 1
    held[1].CopyFrom(numpy_helper.from_array(1.5 * numpy_helper.to_array(held[1]), "v"))
    graph.initializer[1].CopyFrom(held[1])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "other.onnx"
    )
    done = command("compare", tmp_path / "other.onnx", package, ok=False)
    assert done.returncode == 1 and "the models differ: result 0 differs" in done.stdout
