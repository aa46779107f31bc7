"""Reading and writing with sardonyx.ir: files, whole messages and pieces of them."""

import numpy as np
import onnx
import onnx.parser
import pytest
import sardonyx
from onnx import TensorProto, helper
from onnx_messages import normalize
from sardonyx import ir

TEXT = """
<ir_version: 10, opset_import: ["": 18, "d": 1]>
g (bool c, float[N,3] x) => (float[N,3] y) <float[3] w = {1,2,3}> {
  t = d.f <k=2> (x)
  y = If (c) <then_branch = a () => (float[N,3] p) { p = Add(t, w) }, else_branch = b () => (float[N,3] q) { q = Neg(x) }>
}
<domain: "d", opset_import: ["": 18]> f <k> (x) => (y) { y = Relu(x) }
"""


@pytest.fixture
def proto():
    return normal(onnx.parser.parse_model(TEXT))


def normal(message):
    normalize(message)
    return message


def test_models_come_back_as_they_were(proto):
    assert normal(ir.to_proto(ir.from_proto(proto))) == proto


def test_what_is_read_can_be_looked_at(proto):
    m = ir.from_proto(proto)
    assert [v.name for v in m.graph.inputs] == ["c", "x"] and m.graph.inputs[1].shape == ["N", 3]
    assert m.graph.initializers["w"].const_value.numpy().tolist() == [1, 2, 3]
    call, branch = m.graph
    assert call.op_identifier() == ("d", "f", "") and call.op_identifier() in m.functions
    then = branch.attributes["then_branch"].as_graph()
    assert then[0].inputs[0] is call.outputs[0] and then[0].inputs[1] is m.graph.initializers["w"]
    assert m.functions["d", "f", ""].attributes["k"].value is None
    assert {n.op_type for n in m.graph.all_nodes()} == {"f", "If", "Add", "Neg"}


def pieces(proto):
    yield from (proto.graph, *proto.graph.node, *proto.graph.initializer, *proto.graph.input, *proto.functions)
    yield from proto.graph.node[1].attribute
    yield proto.graph.node[0].attribute[0]
    scalar = proto.graph.node[1].attribute[0].g
    yield scalar
    yield from (
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, None)),
        helper.make_optional_type_proto(
            helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, None))
        ),
        helper.make_tensor_type_proto(TensorProto.FLOAT, None),
    )
    yield helper.make_attribute("a", [1.5, 2.0])
    yield helper.make_attribute("a", "text", doc_string="doc")
    yield helper.make_attribute("a", ["x", "y"])
    yield helper.make_attribute("a", onnx.numpy_helper.from_array(np.arange(3)))
    yield onnx.AttributeProto(name="a", type=onnx.AttributeProto.FLOAT, ref_attr_name="outer")
    yield helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, ["M", None, 2], "doc")


def test_pieces_come_back_as_they_were(proto):
    for piece in pieces(proto):
        made = ir.from_proto(piece)
        assert normal(ir.to_proto(made)) == normal(piece), piece


def test_pieces_are_free_to_be_used(proto):
    g = ir.from_proto(proto.graph)
    m = ir.Model(g, ir_version=10, functions=[ir.from_proto(proto.functions[0])])
    g.opset_imports.update({"": 18, "d": 1})
    assert ir.to_proto(m) == ir.to_proto(ir.from_proto(proto))
    n = ir.from_proto(proto.graph.node[0])
    assert n.graph is None and n.inputs[0].name == "x" and n.outputs[0].name == "t"
    x = ir.val("z", ir.DataType.FLOAT, [2])
    n.replace_input_with(0, x)
    assert n in ir.Graph([x], n.outputs, nodes=[n])
    then = ir.from_proto(next(a.g for a in proto.graph.node[1].attribute if a.name == "then_branch"))
    assert sorted(then._captures()) == ["value 't'", "value 'w'"]
    v = ir.from_proto(proto.graph.input[1])
    assert v.graph is None and v.name == "x" and v.shape == ["N", 3]


def test_files(tmp_path, proto):
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    m = ir.load(path)
    assert normal(ir.to_proto(m)) == proto
    ir.save(m, tmp_path / "copy.onnx")
    assert normal(onnx.load(tmp_path / "copy.onnx")) == proto
    m.graph.initializers.add(ir.val("big", const_value=ir.tensor(np.arange(1000, dtype=np.float32))))
    ir.save(m, tmp_path / "external.onnx", external_data="weights.bin", size_threshold_bytes=100)
    assert (tmp_path / "weights.bin").stat().st_size >= 4000
    back = ir.load(tmp_path / "external.onnx")
    assert np.array_equal(back.graph.initializers["big"].const_value.numpy(), np.arange(1000, dtype=np.float32))
    ir.save(m, tmp_path / "m.textproto", format="textproto")
    assert ir.to_proto(ir.load(tmp_path / "m.textproto", format="textproto")) == ir.to_proto(m)
    assert ir.to_proto(ir.from_onnx_text(ir.to_onnx_text(m))).graph.node[0].op_type == "f"


def test_a_model_may_be_saved_over_itself(tmp_path):
    path = tmp_path / "m.onnx"
    w = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    b = ir.Builder()
    x = ir.val("x", ir.DataType.FLOAT, [5000])
    y = b.op("Add", [x, b.initializer(ir.tensor(w), name="w")], output=ir.val("y", ir.DataType.FLOAT, [5000]))
    ir.save(
        ir.Model(
            ir.Graph([x], [y], nodes=b.nodes, initializers=b.initializers, opset_imports={"": 18}, name="g"),
            ir_version=10,
        ),
        path,
    )
    m = ir.load(path)
    m.graph.initializers["w"].name = "weight"
    ir.save(m, path)
    assert np.array_equal(ir.load(path).graph.initializers["weight"].const_value.numpy(), w)


def test_names_that_say_which(proto):
    m = ir.serde.deserialize_model(proto)
    assert normal(ir.serde.serialize_model(m)) == proto
    assert ir.serde.serialize_node(m.graph[0]) == ir.to_proto(m.graph[0])
    assert isinstance(ir.serde.deserialize_tensor(proto.graph.initializer[0]), ir.TensorProtocol)
    assert isinstance(m.graph.inputs[0].type, ir.TypeProtocol) and isinstance(m.graph[0], ir.NodeProtocol)
    for wrong in (lambda: ir.serde.deserialize_model(proto.graph), lambda: ir.serde.serialize_graph(m)):
        with pytest.raises(TypeError):
            wrong()


def test_bad_input_is_an_error_of_ours(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"\xff" * 100)
    for act in (
        lambda: ir.load(tmp_path / "missing.onnx"),
        lambda: ir.load(tmp_path / "bad.onnx"),
        lambda: ir.from_proto(b"bytes"),
        lambda: ir.from_proto(3),
        lambda: ir.to_proto("x"),
        lambda: ir.save("x", tmp_path / "x.onnx"),
        lambda: ir.from_proto(TensorProto(dims=[3], data_type=1, raw_data=b"123")),
    ):
        with pytest.raises(sardonyx.Error):
            act()
    m = ir.Model(ir.Graph([], [], nodes=[], name="g", opset_imports={"": 18}), ir_version=10)
    with pytest.raises(sardonyx.Error):
        ir.save(m, tmp_path / "bad.onnx" / "x.onnx")
    assert not list(tmp_path.glob("*.tmp*"))


def test_verify_and_warnings_say_what_is_wrong(proto):
    m = ir.from_proto(proto)
    ir.verify(m)
    assert ir.warnings(m) == []
    x = ir.val("x", ir.DataType.FLOAT, [2, 3])
    b = ir.Builder()
    y = b.Concat(x, x, axes=1)
    model = ir.Model(ir.Graph([x], [y], nodes=b.nodes, opset_imports={"": 23}, name="g"), ir_version=10)
    ir.verify(model, types=False)
    with pytest.raises(sardonyx.Error, match="axis"):
        ir.verify(model)
    assert any("did you mean 'axis'" in text for text in ir.warnings(model))
    with pytest.raises(TypeError):
        ir.verify(proto)


def sparse_model():
    values = ir.tensor(np.array([1.5, 2.5], np.float32), name="v")
    sparse = ir.SparseTensor(values, ir.tensor(np.array([1, 4])), [2, 3])
    node = ir.Node("", "Constant", [], [ir.Attr("sparse_value", ir.AttributeType.SPARSE_TENSOR, sparse)])
    y = node.outputs[0]
    y.name, y.dtype, y.shape = "y", ir.DataType.FLOAT, ir.Shape([2, 3])
    return ir.Model(ir.Graph([], [y], nodes=[node], opset_imports={"": 23}, name="g"), ir_version=10)


def test_sparse_attributes_are_built_in_python():
    message = ir.to_proto(sparse_model())
    onnx.checker.check_model(message)
    (written,) = message.graph.node[0].attribute
    assert written.type == onnx.AttributeProto.SPARSE_TENSOR
    assert written.sparse_tensor.values.name == "v" and list(written.sparse_tensor.dims) == [2, 3]
    back = ir.from_proto(message).graph[0].attributes["sparse_value"].value
    assert back == sparse_model().graph[0].attributes["sparse_value"].value
    assert back.numpy().tolist() == [[0, 1.5, 0], [0, 2.5, 0]]
    with pytest.raises(sardonyx.Error, match="indices of shape"):
        ir.SparseTensor(np.zeros(2, np.float32), np.zeros(3, np.int64), [4])


def test_a_list_of_sparse_attributes():
    sparse = ir.SparseTensor(np.ones(1, np.float32), np.array([[0, 2]]), [2, 3])
    node = ir.Node("d", "op", [], [ir.Attr("all", ir.AttributeType.SPARSE_TENSORS, [sparse, sparse])])
    (written,) = ir.to_proto(node).attribute
    assert len(written.sparse_tensors) == 2
    assert ir.from_proto(ir.to_proto(node)).attributes["all"].value == (sparse, sparse)


def test_names_and_docs_of_tensors_in_attributes_outlive_an_edit():
    tensor = helper.make_tensor("mine", TensorProto.FLOAT, [1], [0.5])
    tensor.doc_string = "said"
    tensor.metadata_props.add(key="k", value="v")
    node = helper.make_node("ConstantOfShape", ["s"], ["y"], value=tensor)
    read = ir.from_proto(node)
    held = read.attributes["value"].value
    assert (held.name, held.doc_string, dict(held.metadata_props)) == ("mine", "said", {"k": "v"})
    read.attributes["extra"] = ir.AttrInt64("extra", 1)  # changes the set
    back = {a.name: a for a in ir.to_proto(read).attribute}
    assert back["value"].t.name == "mine" and back["value"].t.doc_string == "said"
    assert back["value"].t.metadata_props[0].value == "v"


def test_the_ir_version_is_raised_for_what_needs_it():
    def version(dtype, ir_version=10):
        x = ir.val("x", dtype, [3])
        b = ir.Builder()
        graph = ir.Graph([x], [b.Identity(x)], nodes=b.nodes, opset_imports={"": 25}, name="g")
        return ir.to_proto(ir.Model(graph, ir_version=ir_version)).ir_version

    assert version(ir.DataType.FLOAT) == 10
    assert version(ir.DataType.FLOAT, 8) == 8
    assert version(ir.DataType.FLOAT8E5M2, 8) == 9
    assert version(ir.DataType.FLOAT4E2M1) == 11
    assert version(ir.DataType.FLOAT8E8M0) == 12
    assert version(ir.DataType.FLOAT8E8M0, 13) == 13
    assert version(ir.DataType.INT2) == 13
