"""`simplify` and `slim` of `sardonyx.compat`: calls of onnxsim and onnxslim that only had their import changed."""

import io

import numpy as np
import onnx
import pytest
import sardonyx
from onnx import TensorProto, helper, numpy_helper
from sardonyx._models.session import Session
from sardonyx.compat.onnxsim import simplify
from sardonyx.compat.onnxslim import slim


def network(size: object = "B") -> onnx.ModelProto:
    """Convolution, batch normalization, a computed constant, and a second result."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(5, 3, 7, 7)),
        "scale": rng.uniform(1, 2, 5),
        "bias": rng.normal(size=5),
        "mean": rng.normal(size=5),
        "var": rng.uniform(1, 2, 5),
        "a": rng.normal(size=(5, 1, 1)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[3, 3, 3, 3]),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["n"]),
        helper.make_node("Exp", ["a"], ["e"]),
        helper.make_node("Mul", ["e", "a"], ["k"]),
        helper.make_node("Identity", ["n"], ["i"]),
        helper.make_node("Relu", ["i"], ["r"]),
        helper.make_node("Sub", ["r", "k"], ["y"]),
        helper.make_node("Neg", ["r"], ["z"]),
    ]
    shape = [size, 5, 7, 11]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size, 3, 7, 11])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("y", "z")],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def ops(model) -> list[str]:
    return [n.op_type for n in model.graph.node]


def run(model, batch=2):
    x = np.random.default_rng(1).normal(size=(batch, 3, 7, 11)).astype(np.float32)
    session = Session(model)
    return dict(zip([o.name for o in session.outputs], session.run({"x": x}), strict=True))


def test_simplify_as_with_onnxsim(tmp_path):
    model = network()
    onnx.save(model, tmp_path / "m.onnx")
    for given in (model, str(tmp_path / "m.onnx")):
        smaller, ok = simplify(given, check_n=2, test_input_shapes={"x": [2, 3, 7, 11]})
        assert ok and ops(smaller) == ["Conv", "Relu", "Sub", "Neg"]
        for name, value in run(model).items():
            assert np.abs(run(smaller)[name] - value).max() < 1e-5 * np.abs(value).max()
    assert model == network()  # onnxsim does not change its argument, either


@pytest.mark.parametrize(
    "keywords, expected",
    [
        ({"skip_fuse_bn": True}, ["Conv", "BatchNormalization", "Relu", "Sub", "Neg"]),
        ({"skipped_optimizers": ["fuse_bn_into_conv"]}, ["Conv", "BatchNormalization", "Relu", "Sub", "Neg"]),
        ({"skip_constant_folding": True}, ["Conv", "Exp", "Mul", "Relu", "Sub", "Neg"]),
        ({"perform_optimization": False}, ["Conv", "BatchNormalization", "Identity", "Relu", "Sub", "Neg"]),
        ({"unused_output": ["y"]}, ["Conv", "Relu", "Neg"]),
        ({"initializers_as_constants": False}, ["Conv", "BatchNormalization", "Exp", "Mul", "Relu", "Sub", "Neg"]),
    ],
)
def test_keywords_of_onnxsim(keywords, expected):
    smaller, ok = simplify(network(), 1, **keywords)
    assert ok and sorted(ops(smaller)) == sorted(expected)


def test_simplify_gives_sizes_and_opsets(tmp_path):
    smaller, _ = simplify(network(), overwrite_input_shapes={"x": [2, 3, 7, 11]}, target_opset_version=20)
    assert smaller.opset_import[0].version == 20
    assert [d.dim_value for d in smaller.graph.input[0].type.tensor_type.shape.dim] == [2, 3, 7, 11]
    simplify(network(), output_path=tmp_path / "out.onnx")
    assert ops(onnx.load(tmp_path / "out.onnx")) == ["Conv", "Relu", "Sub", "Neg"]


def test_minus_one_keeps_a_size():
    smaller, _ = simplify(network(), overwrite_input_shapes={"x": [-1, 3, 7, 11]})
    assert [d.dim_param or d.dim_value for d in smaller.graph.input[0].type.tensor_type.shape.dim] == ["B", 3, 7, 11]
    fixed = slim(network(), input_shapes=["x:2,-1,-1,11"])
    assert [d.dim_value for d in fixed.graph.input[0].type.tensor_type.shape.dim] == [2, 3, 7, 11]


def test_inner_values_have_types():
    for smaller in (simplify(network())[0], slim(network())):
        known = {v.name for v in smaller.graph.value_info} | {o.name for o in smaller.graph.output}
        assert {name for node in smaller.graph.node for name in node.output} <= known


def test_a_second_run_replaces_the_weights_of_the_first(tmp_path):
    path = tmp_path / "out.onnx"
    for _ in range(2):
        slim(network(), str(path), save_as_external_data=True)
        size = (tmp_path / "out.onnx.data").stat().st_size
    assert size < 2 * sum(len(t.raw_data) for t in network().graph.initializer)
    assert ops(onnx.load(path)) == ["Conv", "Relu", "Sub", "Neg"]


def test_initializers_that_are_inputs_become_constants_unless_they_may_change():
    model = network()
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [5, 3, 7, 7]))
    closed, _ = simplify(model)
    assert [i.name for i in closed.graph.input] == ["x"] and "BatchNormalization" not in ops(closed)
    open_, _ = simplify(model, mutable_initializer=True)
    assert "w" in [i.name for i in open_.graph.input] and "BatchNormalization" in ops(open_)


def test_a_model_that_computes_something_else_is_not_ok(monkeypatch):
    other = network()
    other.graph.node[7].op_type = "Abs"
    for module in ("onnxsim", "onnxslim"):
        monkeypatch.setattr(f"sardonyx.compat.{module}.optimized", lambda *a, **k: other)
    assert simplify(network(), 1)[1] is False
    assert slim(network(), model_check=True) is None


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda m: simplify(m, custom_lib="x.so"), "custom_lib"),
        (lambda m: simplify(m, chekc_n=1), "'chekc_n'\n.*did you mean 'check_n'?"),
        (lambda m: simplify(m, unused_output=["q"]), "no result 'q'"),
        (lambda m: simplify(m, 1, input_fill="noise"), "'noise'"),
        (lambda m: simplify("nowhere.onnx"), "nowhere.onnx"),
        (lambda m: simplify(m, skipped_optimizers=["fuse_all"]), "'fuse_all'"),
        (lambda m: slim(m, dtype="fp32"), "dtype"),
        (lambda m: slim(m, input_shapes=["x1,3"]), "'x1,3'"),
        (lambda m: slim(m, modelcheck=True), "'modelcheck'\n.*did you mean 'model_check'?"),
        (lambda m: slim(m, outputs=["nothing"]), "nothing"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(call, text):
    with pytest.raises(sardonyx.Error, match=text):
        call(network())


def test_slim_as_with_onnxslim(tmp_path):
    smaller = slim(network(), model_check=True, model_check_inputs=["x:2,3,7,11"])
    assert ops(smaller) == ["Conv", "Relu", "Sub", "Neg"]
    path = tmp_path / "out.onnx"
    assert slim(network(), str(path), save_as_external_data=True) is None
    assert (tmp_path / "out.onnx.data").exists() and ops(onnx.load(path)) == ["Conv", "Relu", "Sub", "Neg"]
    half = slim(network(), dtype="fp16", model_check=True)
    assert onnx.TensorProto.FLOAT16 in {t.data_type for t in half.graph.initializer}
    fixed = slim(network(), input_shapes=["x:1,3,7,11"])
    assert fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1
    part = slim(network(), inputs=["n:fp32"], outputs=["r"])
    assert ops(part) == ["Relu"] and part.graph.input[0].name == "n"
    kept = slim(network(), skip_fusion_patterns=["FusionConvBN"], skip_optimizations=["constant_folding"])
    assert {"BatchNormalization", "Exp"} <= set(ops(kept))
    assert "BatchNormalization" in ops(slim(network(), skip_optimizations=["graph_fusion"]))


def test_optimize_takes_what_people_have(tmp_path):
    model, expected = network(), ["Conv", "Relu", "Sub", "Neg"]
    data = model.SerializeToString()
    assert isinstance(sardonyx.optimize(bytearray(data)), bytearray)
    assert ops(onnx.ModelProto.FromString(sardonyx.optimize(memoryview(data)))) == expected
    assert ops(sardonyx.optimize(io.BytesIO(data))) == expected
    (tmp_path / "m.onnx").write_bytes(data)
    with open(tmp_path / "m.onnx", "rb") as file:
        assert ops(sardonyx.optimize(file)) == expected
    with open(tmp_path / "m.onnx", encoding="latin-1") as file, pytest.raises(sardonyx.Error, match="rb"):
        sardonyx.optimize(file)


def test_optimize_takes_models_of_onnx_ir():
    onnx_ir = pytest.importorskip("onnx_ir")

    smaller = sardonyx.optimize(onnx_ir.from_proto(network()))
    assert isinstance(smaller, onnx_ir.Model) and [n.op_type for n in smaller.graph] == ["Conv", "Relu", "Sub", "Neg"]


def test_optimize_takes_programs_of_torch():
    class ONNXProgram:  # as torch.onnx.export(dynamo=True) returns it; torch itself is no requirement of the tests
        model_proto = network()

    ONNXProgram.__module__ = "torch.onnx._internal.exporter._onnx_program"
    assert ops(sardonyx.optimize(ONNXProgram())) == ["Conv", "Relu", "Sub", "Neg"]
