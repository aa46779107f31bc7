"""Tape and Builder of sardonyx.ir, as the builder guide has them."""

import numpy as np
import onnx
import onnx.parser
import pytest
import sardonyx
from sardonyx import ir
from sardonyx.ir._tape import Builder


def f32(name, *shape):
    return ir.val(name, ir.DataType.FLOAT, shape)


def to_opset_imports(used_opsets):
    """As users write it, following the guide."""
    result = {}
    for domain, version in used_opsets:
        if version is None:
            continue
        previous = result.get(domain)
        if previous is not None and previous != version:
            raise ValueError(f"Mixed opset versions requested for domain '{domain}': {previous} vs {version}")
        result[domain] = version
    return result or {"": 18}


# -- the guide's examples


def test_guide_end_to_end():
    x = ir.val("X", dtype=ir.DataType.FLOAT, shape=[1])
    y = ir.val("Y", dtype=ir.DataType.FLOAT, shape=[1])
    builder = Builder()
    weight = builder.initializer(ir.tensor(np.array([0.25], dtype=np.float32)), name="weight")
    scaled = builder.Mul(x, weight, _outputs=["scaled"])
    summed = builder.Add(scaled, y, _domain="", _version=18)
    assert builder.used_opsets == {("", None), ("", 18)}
    graph = ir.Graph(
        inputs=[x, y],
        outputs=[summed],
        nodes=builder.nodes,
        initializers=builder.initializers,
        opset_imports=to_opset_imports(builder.used_opsets),
        name="scale_and_sum",
    )
    model = ir.Model(graph=graph, ir_version=10)
    summed.dtype, summed.shape = ir.DataType.FLOAT, ir.Shape([1])
    assert scaled.name == "scaled" and graph.initializers["weight"] is weight and graph.opset_imports == {"": 18}
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    assert run(proto, X=np.array([2], np.float32), Y=np.array([3], np.float32)) == [3.5]


def test_types_are_found_by_the_operators_rules():
    x = ir.val("x", ir.DataType.FLOAT, ["N", 3])
    b = ir.Builder()
    h = b.MatMul(x, b.initializer(ir.tensor(np.ones((3, 5), np.float32)), name="w"))
    y = b.Transpose(h, perm=[1, 0])
    g = ir.Graph([x], [y], nodes=b.nodes, initializers=b.initializers, opset_imports={"": 18}, name="g")
    m = ir.Model(g, ir_version=10)
    assert ir.convenience.infer_types(m) == []
    assert h.shape == ["N", 5] and y.shape == [5, "N"] and y.dtype is ir.DataType.FLOAT
    proto = ir.to_proto(m)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.graph.output[0].type.tensor_type.shape.dim[1].dim_param == "N" and len(proto.graph.value_info) == 0
    b = ir.Builder(g)
    bad = b.MatMul(g.initializers["w"], g.initializers["w"])
    (message,) = ir.convenience.infer_types(m)
    assert "MatMul" in message and bad.shape is None


def run(proto, **inputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


MODEL_TEXT = """
<ir_version: 10, opset_import: ["": 18]>
agraph (float[N] x) => (float[N] y) { h = Abs(x)  y = Exp(h) }
"""


def test_guide_existing_model():
    model = ir.from_proto(onnx.parser.parse_model(MODEL_TEXT))
    builder = Builder(model.graph)
    extra = builder.Identity(model.graph.outputs[0])
    extra.type, extra.shape = model.graph.outputs[0].type, model.graph.outputs[0].shape
    model.graph.outputs.append(extra)
    assert [n.op_type for n in model.graph] == ["Abs", "Exp", "Identity"]
    assert extra.producer().graph is model.graph and extra.name and extra.producer().name
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    assert [o.name for o in proto.graph.output] == ["y", extra.name]


def test_guide_multi_output():
    builder, condition = Builder(), ir.val("c", ir.DataType.BOOL, [])
    values = builder.If(condition, _outputs=["then_out", "else_out"], _version=18)
    then_out, else_out = values
    assert isinstance(values, tuple) and [v.name for v in values] == ["then_out", "else_out"]
    node = then_out.producer()
    assert node is else_out.producer() and node.op_type == "If" and else_out.index() == 1
    node.doc_string, node.metadata_props["k"], node.overload = "doc", "v", "o"
    assert (node.doc_string, node.metadata_props, node.overload) == ("doc", {"k": "v"}, "o")
    pooled = builder.MaxPool(f32("x", 1, 3, 8, 8), None, strides=[1, 1], _outputs=2)
    assert len(pooled) == 2 and pooled[0].producer().inputs[1] is None
    assert pooled[0].producer().attributes["strides"].as_ints() == (1, 1)


def test_guide_explicit_attributes():
    builder, x = Builder(), f32("x", 2)
    cast = builder.Cast(x, to=ir.Attr("to", ir.AttributeType.INT, 1)).producer()
    assert cast.attributes["to"].as_int() == 1
    with pytest.raises(sardonyx.Error, match="'axis' is None"):
        builder.Split(x, axis=None)
    with pytest.raises(TypeError, match="empty list"):
        builder.Op(x, axes=[])
    assert builder.Op(x, axes=ir.Attr("axes", ir.AttributeType.INTS, [])).producer().attributes["axes"].as_ints() == ()
    named = builder.Add(x, x, name="foo").producer()  # an attribute, as the guide warns
    assert named.name is None and named.attributes["name"].as_string() == "foo"
    value = ir.tensor(np.zeros(3, np.float32))
    assert builder.Constant(value=value).const_value.numpy().shape == (3,)
    then = ir.Graph([], [], nodes=[], name="then")
    assert (
        builder.If(x, then_branch=ir.AttrGraph("then_branch", then)).producer().attributes["then_branch"].as_graph()
        is then
    )


def test_guide_existing_graph():
    x = f32("X", 2)
    z = ir.val("Z", ir.DataType.FLOAT, [2])
    graph = ir.Graph(inputs=[x], outputs=[z], nodes=[], opset_imports={"": 18}, name="g")
    builder = Builder(graph)
    intermediate = builder.Relu(x)
    assert list(graph) == [intermediate.producer()] and intermediate.name == "val_0"
    builder.op("Exp", [intermediate], output=z)
    model = ir.Model(graph, ir_version=10)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_guide_deduplication():
    for builder in (Builder(), Builder(ir.Graph([], [], nodes=[]))):
        w1 = builder.add_initializer_from_array("weight", np.array([1.0], dtype=np.float32))
        w2 = builder.add_initializer_from_array("weight", np.array([1.0], dtype=np.float32))
        assert w1 is w2 and len(builder.initializers) == 1
        for other in (np.array([2.0], np.float32), np.array([1.0], np.float64), np.array(1.0, np.float32)):
            with pytest.raises(ValueError, match="named 'weight' already"):
                builder.add_initializer_from_array("weight", other)
        assert builder.initializer(ir.tensor(np.array([1.0], np.float32)), name="weight") is w1
        same_value = ir.val("weight", const_value=ir.tensor(np.array([1.0], np.float32)))
        builder.initializers.append(same_value)
        assert list(builder.initializers) == [w1]
        nan = builder.add_initializer_from_scalar("nan", float("nan"))
        assert builder.add_initializer_from_scalar("nan", float("nan")) is nan


def test_guide_function_mode():
    x = f32("x", 2)
    body = ir.Graph([x], [], nodes=[], opset_imports={"": 18})
    function = ir.Function("my.domain", "double", graph=body, attributes=[])
    builder = Builder(function)
    two = builder.add_initializer_from_scalar("two", 2.0)
    assert two.producer().op_type == "Constant" and two.producer().graph is body and len(body.initializers) == 0
    assert builder.add_initializer_from_scalar("two", 2.0) is two and two.const_value.numpy() == 2
    with pytest.raises(ValueError, match="other content"):
        builder.add_initializer_from_scalar("two", 3.0)
    for refused in (
        lambda: builder.initializer(ir.tensor(1.0), name="w"),
        lambda: builder.initializers.append(ir.val("w", const_value=ir.tensor(1.0))),
    ):
        with pytest.raises(sardonyx.Error, match="function cannot have initializers"):
            refused()
    function.outputs.append(builder.Mul(x, two, _outputs=["y"]))
    a = f32("a", 2)
    call = ir.node("double", [a], domain="my.domain", outputs=[ir.val("b", ir.DataType.FLOAT, [2])])
    graph = ir.Graph([a], call.outputs, nodes=[call], opset_imports={"": 18, "my.domain": 1}, name="main")
    proto = ir.to_proto(ir.Model(graph, ir_version=10, functions=[function]))
    onnx.checker.check_model(proto, full_check=True)
    assert list(run(proto, a=np.array([1, 2], np.float32))) == [2, 4]


def test_guide_ownership_and_clone():
    x = f32("x", 2)
    b = Builder()
    staged = ir.Graph([x], [b.Abs(x)], nodes=b.nodes, opset_imports={"": 18})
    ir.Model(staged.clone(), ir_version=10)
    with pytest.raises(ValueError, match="already owned by a different graph"):
        ir.Graph(staged.inputs, staged.outputs, nodes=[])
    node = staged[0]
    staged.outputs.clear()
    staged.remove(node)
    ir.Graph([], [], nodes=[node])
    assert node.graph is not staged


def test_guide_mixed_versions():
    builder, x = Builder(), f32("x", 2)
    builder.Relu(builder.Relu(x, _version=13), _version=14)
    with pytest.raises(sardonyx.Error, match="two opset versions of domain ''"):
        builder.opset_imports()
    with pytest.raises(ValueError, match="Mixed opset"):
        to_opset_imports(builder.used_opsets)
    other = Builder()
    other.Relu(x)
    other.Op(x, _domain="d", _version=3)
    assert other.opset_imports() == {"d": 3} and other.opset_imports(23) == {"": 23, "d": 3}
    assert other.opset_imports({"": 20, "d": 1}) == {"": 20, "d": 3}


# -- further tests


def test_outputs_must_not_be_a_string():
    builder, x = Builder(), f32("x", 2)
    for wrong in ("abc", b"abc", 1.5, None, True, [1], ["a", None]):
        with pytest.raises(sardonyx.Error, match="_outputs") as e:
            builder.Split(x, _outputs=wrong)
        assert isinstance(e.value, TypeError)
    assert len(builder.nodes) == 0
    assert builder.Op(x, _outputs=("one",)).name == "one" and builder.Op(x, _outputs=[]) == ()
    with pytest.raises(sardonyx.Error, match="_domian"):
        builder.Op(x, _domian="d")


def test_op_takes_everything_a_node_has():
    tape = ir.Tape()
    x, y = f32("x", 2), f32("y", 3)
    v = tape.op(
        "Op", [x, None], {"axis": 1}, domain="d", overload="o", version=3, name="n", doc_string="doc", metadata_props={"k": "v"}, output=y,
    )  # fmt: skip
    n = v.producer()
    assert v is y and tape.nodes == (n,) and tape.used_opsets == {("d", 3)}
    assert (n.overload, n.version, n.name, n.doc_string, n.metadata_props, n.inputs) == (
        "o",
        3,
        "n",
        "doc",
        {"k": "v"},
        (x, None),
    )
    graph = ir.Graph([], [], nodes=[])
    assert tape.op("Op", [], graph=graph).producer().graph is graph
    many = tape.op_multi_out("Op", [x], num_outputs=3)
    assert isinstance(many, tuple) and len(many) == 3
    given = [ir.Value(name="a"), ir.Value(name="b")]
    assert tape.op_multi_out("Op", [x], outputs=given) == tuple(given)
    for wrong in ({}, {"num_outputs": 1, "outputs": given}):
        with pytest.raises(ValueError, match="num_outputs"):
            tape.op_multi_out("Op", [x], **wrong)
    with pytest.raises(TypeError):
        tape.op("Op", [x], [("axis", 1)])
    with pytest.raises(TypeError):
        ir.Tape("graph")


def test_initializers_need_a_name_and_a_tensor():
    tape = ir.Tape()
    with pytest.raises(ValueError, match="must have a name"):
        tape.initializer(ir.tensor(1.0))
    assert tape.initializer(ir.tensor(1.0, name="own")).name == "own"
    with pytest.raises(TypeError):
        tape.initializer(ir.val("v", const_value=ir.tensor(1.0)), name="v")
    with pytest.raises(TypeError):
        tape.initializer(ir.tensor(1.0), name=3)
    with pytest.raises(TypeError):
        tape.initializers[0].const_value = 3


def test_scalars_keep_their_kind():
    b = ir.Builder()
    for name, value, dtype in (
        ("i", 3, "INT64"), ("f", 1.5, "FLOAT"), ("b", True, "BOOL"), ("h", np.float16(1), "FLOAT16"), ("n", np.array(2, np.int8), "INT8"),
    ):  # fmt: skip
        v = b.add_initializer_from_scalar(name, value)
        assert v.dtype.name == dtype and v.shape == []
    with pytest.raises(ValueError, match="scalar"):
        b.add_initializer_from_scalar("v", [1, 2])
    assert b.const_i64("axes", [1, 2]).const_value.numpy().tolist() == [1, 2] and b.const_i64("one", 1).shape == []
    assert b.const_i64("axes", (1, 2)) is b.initializers[5]


def test_the_graphs_lists_can_be_assigned():
    x, y = f32("x", 2), f32("y", 2)
    g = ir.Graph([x], [], nodes=[], opset_imports={"": 18})
    b = ir.Builder(g)
    p, q = b.Abs(x), b.Exp(x)
    b.outputs = [p]
    b.inputs = [x, y]
    assert g.outputs == [p] and g.inputs == [x, y] and b.inputs == [x, y] and b.outputs == [p]
    b.nodes = [q.producer(), p.producer()]
    assert list(g) == [q.producer(), p.producer()] == list(b.nodes)
    b.nodes = [p.producer()]
    assert list(g) == [p.producer()] and q.producer().graph is None
    w, v = b.const_i64("w", [1]), b.const_i64("v", [2])
    b.initializers = [v]
    assert list(g.initializers.values()) == [v] and not w.is_initializer()
    b.initializers.extend([w])
    b.initializers.remove(v)
    assert [i.name for i in b.initializers] == ["w"] and w in b.initializers and b.initializers[0] is w
    del b.initializers[0]
    assert len(b.initializers) == 0
    for what in ("inputs", "outputs"):
        with pytest.raises(sardonyx.Error, match="without a graph"):
            getattr(ir.Builder(), what)


def test_builders_do_not_answer_to_private_names():
    b = ir.Builder()
    assert not hasattr(b, "__array__") and not hasattr(b, "_repr_html_")
    assert "nodes=0" in repr(b)


def test_many_nodes_of_a_tape_are_recorded_in_order():
    b = ir.Builder()
    x = f32("x", 2)
    v, constants = x, []
    for i in range(500):
        constants.append(b.Constant(value_int=i))
        v = b.Add(v, constants[-1])
    g = ir.Graph([x], [v], nodes=b.nodes, opset_imports={"": 23})
    assert (
        len(g) == 1000
        and len(b.nodes) == 1000
        and g[998] is constants[-1].producer()
        and constants[7].const_value.numpy() == 7
    )
    assert len({n.name for n in g}) == 1000


def test_nested_builders_share_values():
    c, x = ir.val("c", ir.DataType.BOOL, []), f32("x", 2)
    outer = ir.Builder()
    h = outer.Abs(x)
    branches = {}
    for name, op in (("then_branch", "Exp"), ("else_branch", "Neg")):
        inner = ir.Builder()
        out = inner.op(op, [h], output=f32(f"{name}_out", 2))
        branches[name] = ir.Graph([], [out], nodes=inner.nodes, name=name)
    y = outer.If(c, _outputs=["y"], **branches)
    y.dtype, y.shape = ir.DataType.FLOAT, ir.Shape([2])
    g = ir.Graph([c, x], [y], nodes=outer.nodes, opset_imports={"": 18}, name="g")
    proto = ir.to_proto(ir.Model(g, ir_version=10))
    onnx.checker.check_model(proto, full_check=True)
    assert list(run(proto, c=np.array(False), x=np.array([1, -2], np.float32))) == [-1, -2]
    assert h.consumers() == (branches["then_branch"][0], branches["else_branch"][0])


def test_made_names_do_not_hide_each_other():
    c, x = ir.val("c", ir.DataType.BOOL, []), f32("x", 2)
    outer = ir.Graph([c, x], [], nodes=[], opset_imports={"": 18}, name="g")
    b = ir.Builder(outer)
    h = b.Abs(x)  # val_0
    branches = {}
    for name, op in (("then_branch", "Exp"), ("else_branch", "Neg")):
        inner = ir.Builder()
        out = inner.op(op, [inner.Sqrt(h)])  # val_0 and val_1, alone
        out.dtype, out.shape = ir.DataType.FLOAT, ir.Shape([2])
        branches[name] = ir.Graph([], [out], nodes=inner.nodes, name=name)
    y = b.If(c, **branches)
    y.dtype, y.shape = ir.DataType.FLOAT, ir.Shape([2])
    outer.outputs.append(y)
    late = ir.Builder(branches["then_branch"]).Identity(h)
    names = [v.name for n in outer.all_nodes() for v in n.outputs]
    assert len(set(names)) == len(names) == 7 and late.name in names
    onnx.checker.check_model(ir.to_proto(ir.Model(outer, ir_version=10)), full_check=True)
    again = ir.node("If", [c], {k: g.clone(allow_outer_scope_values=True) for k, g in branches.items()})
    outer.append(again)
    names = [v.name for n in outer.all_nodes() for v in n.outputs]
    assert len(set(names)) == len(names) == 13


def test_what_nothing_defines_is_named_when_written():
    x = f32("x", 2)
    b = ir.Builder()
    y = b.Add(x, ir.val("w", const_value=ir.tensor([1.0, 2.0])))
    g = ir.Graph([x], [y], nodes=b.nodes, opset_imports={"": 18})
    m = ir.Model(g, ir_version=10)
    with pytest.raises(
        sardonyx.Error, match=r"(?s)reads value 'w', which nothing in the model defines.*initializers.add"
    ):
        ir.to_proto(m)
    g.initializers.add(g[0].inputs[1])
    ir.to_proto(m)
    x.replace_all_uses_with(f32("z", 2))
    with pytest.raises(sardonyx.Error, match="reads value 'z'"):
        ir.to_proto(m)
