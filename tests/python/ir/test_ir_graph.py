"""Nodes, graphs, functions and models of sardonyx.ir: edits, identity, ownership."""

import gc

import numpy as np
import pytest
import sardonyx
from sardonyx import ir


def f32(name, *shape):
    return ir.val(name, ir.DataType.FLOAT, shape)


def chain(*ops, name="g"):
    """x -> op -> op -> ... -> y"""
    x = f32("x", 2, 3)
    b = ir.Builder()
    v = x
    for op in ops:
        v = getattr(b, op)(v)
    return ir.Graph([x], [v], nodes=b.nodes, opset_imports={"": 23}, name=name)


def ops(graph):
    return [n.op_type for n in graph]


def test_a_node_has_what_it_was_given():
    a, b = f32("a", 2), f32("b", 2)
    n = ir.Node(
        "my.domain", "Op", [a, None, b], {"axis": 0, "alpha": 0.5, "names": ["x", "y"]}, overload="v2", num_outputs=2, version=3,
        name="n", doc_string="doc", metadata_props={"k": "v"},
    )  # fmt: skip
    assert (n.domain, n.op_type, n.overload, n.version, n.name) == ("my.domain", "Op", "v2", 3, "n")
    assert n.op_identifier() == ("my.domain", "Op", "v2")
    assert n.doc_string == "doc" and n.metadata_props == {"k": "v"} and n.graph is None
    assert n.inputs == (a, None, b) and n.inputs[0] is a
    assert len(n.outputs) == 2 and n.outputs[1].producer() is n and n.outputs[1].index() == 1
    assert a.uses() == ((n, 0),) and a.uses()[0].idx == 0 and b.consumers() == (n,)
    assert n.attributes["axis"].as_int() == 0 and n.attributes["alpha"].as_float() == 0.5
    assert n.attributes.get_strings("names") == ("x", "y") and n.attributes.get_int("missing", 7) == 7
    assert sorted(n.attributes) == ["alpha", "axis", "names"] and len(n.attributes) == 3


def test_nodes_can_be_changed():
    a, b = f32("a", 2), f32("b", 2)
    n = ir.Node("", "Add", [a, b])
    n.op_type, n.domain, n.overload, n.name, n.doc_string, n.version = "Mul", "d", "o", "m", "doc", 5
    assert (n.op_type, n.domain, n.overload, n.name, n.doc_string, n.version) == ("Mul", "d", "o", "m", "doc", 5)
    n.domain = "ai.onnx"
    assert n.domain == ""
    n.attributes["axis"] = ir.AttrInt64("axis", 1)
    n.attributes.add(ir.AttrString("mode", "x"))
    del n.attributes["axis"]
    assert list(n.attributes) == ["mode"]
    n.attributes.update({"k": ir.AttrInt64("k", 1)})
    assert n.attributes.pop("k").as_int() == 1
    n.replace_input_with(0, b)
    assert n.inputs == (b, b) and a.uses() == () and set(b.uses()) == {(n, 0), (n, 1)} and b.consumers() == (n,)
    n.replace_input_with(1, None)
    assert n.inputs == (b, None)
    n.metadata_props.update(a="1")
    n.meta["x"] = object()
    assert n.metadata_props == {"a": "1"} and "x" in n.meta


def test_inputs_and_outputs_can_be_more_or_fewer():
    a = f32("a", 2)
    n = ir.Node("", "Op", [a], num_outputs=2, name="n", version=4)
    first, body = n.outputs[0], ir.Graph([], [], nodes=[])
    n.attributes["body"] = ir.AttrGraph("body", body)
    user = ir.Node("", "Relu", [first])
    n.resize_inputs(3)
    assert n.inputs == (a, None, None) and n.name == "n" and n.version == 4
    assert n.outputs[0] is first and user.inputs == (first,) and first.producer() is n
    assert n.attributes["body"].as_graph() is body
    n.resize_outputs(1)
    n.resize_inputs(0)
    assert n.outputs == (first,) and a.uses() == ()
    n.resize_outputs(4)
    assert len(n.outputs) == 4 and n.outputs[3].index() == 3
    with pytest.raises(sardonyx.Error, match="still read"):
        n.resize_outputs(0)
    g = ir.Graph([], [], nodes=[n, user])
    n.resize_inputs(2)
    assert g[0] is n and n.graph is g and len(g) == 2 and n.inputs == (None, None)


def test_outputs_may_exist_before_their_node():
    y = ir.val("y", ir.DataType.FLOAT, ["N"], metadata_props={"k": "v"})
    user = ir.Node("", "Relu", [y])
    n = ir.Node("", "Exp", [f32("x", 2)], outputs=[y])
    assert n.outputs == (y,) and y.producer() is n and user.predecessors() == (n,) and n.successors() == (user,)
    assert y.name == "y" and y.shape == ["N"] and y.metadata_props == {"k": "v"}
    g = ir.Graph([], [], nodes=[n, user])
    assert y.metadata_props == {"k": "v"} and y.shape == ["N"] and y.graph is g


def test_a_graph_is_a_sequence_of_its_nodes():
    g = chain("Abs", "Exp", "Neg")
    assert len(g) == g.num_nodes() == 3 and ops(g) == ["Abs", "Exp", "Neg"]
    assert g[0].op_type == "Abs" and g[-1] is g[2] and [n.op_type for n in g[1:]] == ["Exp", "Neg"]
    assert [n.op_type for n in reversed(g)] == ["Neg", "Exp", "Abs"]
    assert g[1] in g and g.index(g[1]) == 1 and g.node("node_Exp_1") is g[1] and g.node(2) is g[2]
    assert ir.Node("", "Abs", []) not in g
    with pytest.raises(IndexError):
        g[3]
    with pytest.raises(ValueError):
        g.node("missing")


def test_handles_are_the_same_object_each_time():
    g = chain("Abs", "Exp")
    assert g[0] is g[0] and g[0].outputs[0] is g[1].inputs[0] and g.inputs[0] is g[0].inputs[0] and g[0].graph is g
    m = ir.Model(g, ir_version=10)
    assert m.graph is g
    kept = g[0]
    number = id(kept)
    gc.collect()
    assert id(g[0]) == number and {kept: 1}[g[0]] == 1


def test_names_are_given_when_nodes_join_a_graph():
    x = f32("val_0", 2)
    g = ir.Graph([x], [], nodes=[], opset_imports={"": 23})
    n = ir.Node("", "Abs", [x])
    assert n.name is None and n.outputs[0].name is None
    g.append(n)
    assert n.name == "node_Abs_0" and n.outputs[0].name == "val_1"
    n2 = ir.Node("", "Abs", [x], name="mine", graph=g)
    assert n2.name == "mine" and n2.outputs[0].name == "val_2"
    n2.outputs[0].name = "val_3"
    assert ir.Node("", "Abs", [x], graph=g).outputs[0].name == "val_4"


def test_an_output_named_nothing_is_left_out():
    x, y = f32("x", 2), f32("y", 2)
    n = ir.node("Op", [x], outputs=[ir.Value(name=""), y])
    assert n.outputs[0].name == "" and ir.Value().name is None
    g = ir.Graph([x], [y], nodes=[n], opset_imports={"": 23}, name="g")
    assert n.outputs[0].name == ""
    proto = ir.to_proto(ir.Model(g, ir_version=10))
    assert list(proto.graph.node[0].output) == ["", "y"]
    assert [v.name for v in ir.from_proto(proto).graph[0].outputs] == ["", "y"]
    n.outputs[0].name = None
    g.remove(n)
    g.append(n)
    assert n.outputs[0].name == "val_0"


def test_what_is_gone_says_so():
    f = ir.Function("d", "f", graph=chain("Abs"), attributes=[])
    m = ir.Model(chain("Abs"), ir_version=10, functions=[f])
    node, value = f[0], f[0].outputs[0]
    m.functions.clear()
    assert f[0].op_type == "Abs" and f[0] is not node
    for act in (
        lambda: node.name,
        lambda: value.name,
        lambda: node.inputs,
        lambda: ir.node("Relu", [value]),
        lambda: f.graph.append(node),
    ):
        with pytest.raises(sardonyx.Error, match="is gone"):
            act()


def test_insertion_and_order():
    g = chain("Abs", "Exp")
    first, last = g[0], g[1]
    g.insert_before(last, ir.node("A", []))
    g.insert_after(first, [ir.node("B", []), ir.node("C", [])])
    first.prepend(ir.node("D", []))
    last.append([ir.node("E", [])])
    g.extend([ir.node("F", []), ir.node("G", [])])
    assert ops(g) == ["D", "Abs", "B", "C", "A", "Exp", "E", "F", "G"]
    g.append(first)  # moves it
    assert ops(g) == ["D", "B", "C", "A", "Exp", "E", "F", "G", "Abs"]
    g.sort()
    assert ops(g).index("Abs") < ops(g).index("Exp")


def test_sorting_finds_cycles():
    x = f32("x", 2)
    a = ir.node("Abs", [x])
    b = ir.node("Exp", [a.outputs[0]])
    a.replace_input_with(0, b.outputs[0])
    g = ir.Graph([x], [], nodes=[a, b])
    with pytest.raises(ValueError, match="cycle"):
        g.sort()


def test_walking_sees_what_is_inserted_ahead():
    g = chain("A", "B", "C")
    seen = []
    for n in g:
        seen.append(n.op_type)
        if n.op_type == "A":
            n.append(ir.node("New", []))
        if n.op_type == "B":
            g.remove(n)
    assert seen == ["A", "New", "B", "C"] and ops(g) == ["A", "New", "C"]
    for n in g:
        g.remove(n)
    assert len(g) == 0


def test_removal():
    g = chain("Abs", "Exp", "Neg")
    a, e, n = g
    with pytest.raises(sardonyx.Error, match="still read by"):
        g.remove(a, safe=True)
    with pytest.raises(sardonyx.Error, match="is an output"):
        g.remove(n, safe=True)
    assert len(g) == 3
    a.outputs[0].replace_all_uses_with(g.inputs[0])
    g.remove(a, safe=True)
    assert a.graph is None and a.inputs == (None,) and ops(g) == ["Exp", "Neg"]
    g.remove([e])  # unsafe: stays connected
    assert e.inputs == (g.inputs[0],) and n.inputs == (e.outputs[0],)
    with pytest.raises(sardonyx.Error, match="does not belong"):
        g.remove(e)
    g.insert_before(n, e)
    assert ops(g) == ["Exp", "Neg"]


def test_replacing_uses():
    g = chain("Abs", "Exp", "Neg")
    a, e, n = g
    new = ir.node("Relu", [g.inputs[0]])
    g.insert_before(e, new)
    ir.convenience.replace_all_uses_with(a.outputs, new.outputs)
    assert e.inputs == new.outputs and not a.outputs[0].uses()
    with pytest.raises(sardonyx.Error, match="replace_graph_outputs"):
        n.outputs[0].replace_all_uses_with(e.outputs[0])
    n.outputs[0].replace_all_uses_with(e.outputs[0], replace_graph_outputs=True)
    assert g.outputs[0] is e.outputs[0] and e.outputs[0].is_graph_output() and not n.outputs[0].is_graph_output()
    with pytest.raises(sardonyx.Error, match="as many"):
        ir.convenience.replace_all_uses_with([a.outputs[0]], [])


def test_replacing_nodes_and_values():
    g = chain("Abs", "Exp", "Neg")
    _, e, n = g
    g[1].outputs[0].name = "middle"
    out = n.outputs[0]
    out.name = "out"
    new = ir.node("Both", [e.inputs[0]])
    ir.convenience.replace_nodes_and_values(g, g[0], [e, n], [new], [out], [new.outputs[0]])
    assert ops(g) == ["Abs", "Both"] and g.outputs[0] is new.outputs[0] and g.outputs[0].name == "out"
    mapping = ir.convenience.create_value_mapping(g)
    assert mapping["out"] is new.outputs[0] and mapping["x"] is g.inputs[0]


def test_inputs_and_outputs_are_lists():
    g = chain("Abs", "Exp")
    x, y = g.inputs[0], g.outputs[0]
    z = f32("z", 5)
    g.inputs.insert(0, z)
    assert g.inputs == [z, x] and z.is_graph_input() and z.graph is g and g[0].inputs == (x,)
    g.inputs.append(f32("w", 7))
    assert [v.name for v in g.inputs] == ["z", "x", "w"]
    del g.inputs[2]
    popped = g.inputs.pop(0)
    assert popped is z and not z.is_graph_input() and z.graph is None and g.inputs == [x]
    x2 = g.inputs.pop()
    assert x2 is x and g[0].inputs == (x,) and x.name == "x" and x.shape == [2, 3]
    g.inputs = [x]
    assert x.is_graph_input() and g[0].inputs == (x,)
    mid = g[0].outputs[0]
    g.outputs.append(mid)
    g.outputs[0], g.outputs[1] = mid, y
    assert g.outputs == [mid, y] and g.outputs.index(y) == 1
    g.outputs.remove(mid)
    assert not mid.is_graph_output() and list(g.outputs) == [y]
    g.outputs.clear()
    assert len(g.outputs) == 0 and not y.is_graph_output()
    g.outputs.extend([y, y])  # twice: their names in the signature differ
    assert len(g.outputs) == 2
    with pytest.raises(IndexError):
        g.inputs[5]
    with pytest.raises(TypeError):
        g.inputs.append("x")


def test_what_is_known_of_values_survives_moves():
    g = chain("Abs", "Exp")
    x, mid, y = g.inputs[0], g[0].outputs[0], g.outputs[0]
    for v in (x, mid, y):
        v.doc_string = f"about {v.name}"
        v.metadata_props["k"] = v.name
        v.meta["m"] = v.name
    names = [v.name for v in (x, mid, y)]
    g.inputs.clear()
    g.inputs.append(x)
    g.outputs[:] = [mid]
    g.outputs[:] = [y, mid]
    nodes = list(g)
    g.remove(nodes)
    g.extend(nodes)
    for v, name in zip((x, mid, y), names):
        assert (v.name, v.doc_string, v.metadata_props, v.meta) == (name, f"about {name}", {"k": name}, {"m": name})


def test_initializers():
    g = ir.Graph([], [], nodes=[], opset_imports={"": 23})
    w = ir.val("w", const_value=ir.tensor([1.0, 2.0]))
    n = ir.node("Abs", [w])
    g.append(n)
    g.initializers.add(w)
    assert w.is_initializer() and w.graph is g and g.initializers["w"] is w and n.inputs == (w,)
    assert list(g.initializers) == ["w"] and "w" in g.initializers and len(g.initializers) == 1
    assert g.initializers.get("missing") is None and list(g.initializers.tensors())[0].size == 2
    w.name = "v"
    assert list(g.initializers) == ["v"] and g.initializers["v"] is w
    w.const_value = ir.tensor([3.0])
    assert w.const_value.numpy()[0] == 3 and w.shape == [1]
    other = ir.val("v", const_value=ir.tensor([5.0]))
    with pytest.raises(sardonyx.Error, match="already"):
        g.register_initializer(other)
    g.initializers.add(other)  # replaces the old one, which is then loose
    assert g.initializers["v"] is other and not w.is_initializer() and n.inputs == (w,) and w.const_value is not None
    assert g.initializers.pop("v") is other and len(g.initializers) == 0 and other.graph is None
    with pytest.raises(sardonyx.Error, match="const_value"):
        g.initializers.add(f32("c", 1))
    with pytest.raises(sardonyx.Error, match="name"):
        g.initializers.add(ir.Value(const_value=ir.tensor(1)))
    with pytest.raises(sardonyx.Error, match="computed by"):
        g.initializers.add(n.outputs[0])
    with pytest.raises(sardonyx.Error, match="not the value's name"):
        g.initializers["a"] = w
    with pytest.raises(KeyError):
        g.initializers["missing"]


def test_initializers_cannot_share_a_name():
    g = ir.Graph([], [], nodes=[], initializers=[ir.val(n, const_value=ir.tensor(1)) for n in "ab"])
    a, b = g.initializers.values()
    with pytest.raises(sardonyx.Error, match="of that name"):
        a.name = "b"
    with pytest.raises(sardonyx.Error, match="lose its name"):
        a.name = None
    ir.convenience.rename_values([a, b], ["b", "a"])
    assert g.initializers["a"] is b and g.initializers["b"] is a


def test_an_input_can_have_a_default():
    w = ir.val("w", const_value=ir.tensor([1.0]))
    g = ir.Graph([w], [], nodes=[], initializers=[w])
    assert w.is_graph_input() and w.is_initializer() and g.initializers["w"] is w and w.const_value.size == 1
    x = f32("x", 2)
    g.inputs.insert(0, x)
    assert w.is_initializer() and g.inputs == [x, w]
    del g.initializers["w"]
    assert w.is_graph_input() and not w.is_initializer() and w.const_value is not None


def test_everything_belongs_to_one_graph():
    g, h = chain("Abs"), ir.Graph([], [], nodes=[])
    w = ir.val("w", const_value=ir.tensor([1.0]))
    g.initializers.add(w)
    for act in (
        lambda: ir.Graph(g.inputs, [], nodes=[]),
        lambda: h.inputs.append(g.inputs[0]),
        lambda: h.outputs.append(g.outputs[0]),
        lambda: h.initializers.add(w),
        lambda: ir.Graph([], g.outputs, nodes=[]),
    ):
        with pytest.raises(sardonyx.Error, match="already owned by a different graph"):
            act()
    for act in (lambda: h.append(g[0]), lambda: ir.Graph([], [], nodes=g), lambda: h.insert_before(g[0], [])):
        with pytest.raises(sardonyx.Error, match="belongs to another graph|is not in"):
            act()
    assert len(h) == 0 and ops(g) == ["Abs"] and g.inputs[0].is_graph_input()


def test_a_failed_graph_takes_nothing():
    x, y = f32("x", 2), f32("y", 2)
    n = ir.node("Add", [x, y])
    owned = chain("Abs")[0]
    with pytest.raises(sardonyx.Error):
        ir.Graph([x, y], [n.outputs[0]], nodes=[n, owned])
    assert x.graph is None and n.graph is None and not n.outputs[0].is_graph_output()
    g = ir.Graph([x, y], [n.outputs[0]], nodes=[n])
    assert n.graph is g


def test_clones_share_nothing_that_changes():
    g = chain("Abs", "Exp")
    g.initializers.add(ir.val("w", const_value=ir.tensor([1.0])))
    g.doc_string, g.metadata_props["k"] = "doc", "v"
    h = g.clone()
    assert (
        ops(h) == ops(g)
        and h.inputs[0] is not g.inputs[0]
        and [v.name for v in h.outputs] == [v.name for v in g.outputs]
    )
    assert h.opset_imports == {"": 23} and h.doc_string == "doc" and h.metadata_props == {"k": "v"} and h.name == "g"
    assert np.shares_memory(h.initializers["w"].const_value.numpy(), g.initializers["w"].const_value.numpy())
    h[0].op_type = "Neg"
    h.remove(h[1])
    assert ops(g) == ["Abs", "Exp"]
    ir.Model(g, ir_version=10)
    ir.Model(h, ir_version=10)


def test_a_graph_out_of_order_can_be_copied():
    x = f32("x", 2)
    a = ir.node("Abs", [x])
    b = ir.node("Exp", a.outputs)
    g = ir.Graph([x], b.outputs, nodes=[b, a], opset_imports={"": 23})
    h = g.clone()
    assert ops(h) == ["Exp", "Abs"] and h[0].inputs[0] is h[1].outputs[0] and h[1].inputs[0] is h.inputs[0]
    h.sort()
    assert ops(h) == ["Abs", "Exp"] and ops(g) == ["Exp", "Abs"]


def if_graph():
    """A graph with an If whose branches capture x."""
    c, x = ir.val("c", ir.DataType.BOOL, []), f32("x", 2)
    g = ir.Graph([c, x], [], nodes=[], opset_imports={"": 23}, name="outer")
    branches = []
    for op in ("Abs", "Neg"):
        b = ir.Builder()
        branches.append(ir.Graph([], [b.op(op, [x])], nodes=b.nodes, name=op))
    b = ir.Builder(g)
    y = b.If(c, then_branch=branches[0], else_branch=branches[1])
    g.outputs.append(y)
    return g, branches


def test_nested_graphs_read_outer_values():
    g, (then, other) = if_graph()
    node = g[0]
    assert node.attributes["then_branch"].as_graph() is then and set(g.subgraphs()) == {then, other}
    x = g.inputs[1]
    assert set(x.consumers()) == {then[0], other[0]} and then[0].inputs == (x,)
    assert [n.op_type for n in g.all_nodes()][0] == "If" and {n.op_type for n in g.all_nodes()} == {"If", "Abs", "Neg"}
    assert len(list(ir.traversal.RecursiveGraphIterator(g))) == 3
    assert list(ir.traversal.RecursiveGraphIterator(g, recursive=lambda n: False)) == [node]
    assert list(reversed(ir.traversal.RecursiveGraphIterator(g)))[-1] is node
    m = ir.Model(g, ir_version=10)
    assert set(m.graphs()) == {g, then, other}


def test_nested_graphs_have_one_owner():
    g, (then, _) = if_graph()
    with pytest.raises(sardonyx.Error, match="already owned by node"):
        ir.node("Wrap", [], {"body": then})
    with pytest.raises(sardonyx.Error, match="nested in"):
        ir.Model(then, ir_version=10)
    with pytest.raises(sardonyx.Error, match="reads values of an outer graph: value 'x'"):
        then.clone()
    copy = then.clone(allow_outer_scope_values=True)
    n = ir.node("Wrap", [], {"body": copy})
    assert n.attributes["body"].as_graph() is copy and copy[0].inputs[0] is g.inputs[1]
    del n.attributes["body"]
    g.append(ir.node("Wrap", [], {"body": copy}))  # free again
    whole = g.clone()
    assert (
        len(list(whole.all_nodes())) == 5
        and whole[0].attributes["then_branch"].as_graph()[0].inputs[0] is whole.inputs[1]
    )
    with pytest.raises(sardonyx.Error, match="given twice"):
        ir.node("Twice", [], {"a": (h := chain("Abs")), "b": h})
    holder = g[0]
    g.remove(holder)
    with pytest.raises(sardonyx.Error, match="nested in itself"):
        then.append(holder)


def test_graphs_among_attributes_keep_their_handles():
    b1, b2 = chain("Abs"), chain("Exp")
    inner, out = b1[0], b1.outputs[0]
    n = ir.node("Case", [f32("x", 2)], {"branches": [b1, b2]})
    assert n.attributes["branches"].as_graphs() == (b1, b2)
    assert b1[0] is inner and b1.outputs[0] is out and inner.graph is b1
    g = ir.Graph([], [], nodes=[n])
    assert g[0] is n and n.attributes["branches"].as_graphs()[1] is b2 and list(g.subgraphs()) == [b1, b2]


def test_models_and_their_facts():
    g = chain("Abs")
    m = ir.Model(
        g, ir_version=9, producer_name="p", producer_version="1", domain="d", model_version=3, doc_string="doc",
        metadata_props={"k": "v"},
    )  # fmt: skip
    assert (m.ir_version, m.producer_name, m.producer_version, m.domain, m.model_version, m.doc_string) == (
        9,
        "p",
        "1",
        "d",
        3,
        "doc",
    )
    m.producer_name, m.doc_string, m.model_version, m.ir_version = None, None, None, 10
    assert (m.producer_name, m.doc_string, m.model_version, m.ir_version) == (None, None, None, 10)
    assert m.metadata_props == {"k": "v"} and m.opset_imports == {"": 23}
    m.opset_imports["custom"] = 1
    assert g.opset_imports == {"": 23, "custom": 1}
    with pytest.raises(TypeError):
        m.opset_imports["x"] = "1"
    copy = m.clone()
    assert copy.graph is not g and copy.opset_imports == m.opset_imports and ops(copy.graph) == ["Abs"]


def test_functions():
    def make(name, overload=""):
        x = f32("x", 2)
        b = ir.Builder()
        y = b.Relu(x)
        graph = ir.Graph([x], [y], nodes=b.nodes, opset_imports={"": 23})
        return ir.Function(
            "d",
            name,
            overload,
            graph=graph,
            attributes=[ir.Attr("alpha", ir.AttributeType.FLOAT, None), ir.AttrInt64("k", 3)],
        )

    f = make("f")
    assert f.identifier() == ("d", "f", "") and len(f) == 1 and f[0].op_type == "Relu" and f.inputs[0].name == "x"
    assert f.attributes["k"].as_int() == 3 and f.attributes["alpha"].value is None and f.opset_imports == {"": 23}
    f.doc_string, f.metadata_props["k"] = "doc", "v"
    x = f32("x", 2)
    call = ir.node("f", [x], domain="d")
    graph = ir.Graph([x], call.outputs, nodes=[call], opset_imports={"": 23, "d": 1})
    body, inner = f.graph, f[0]
    m = ir.Model(graph, ir_version=10, functions=[f])
    assert m.functions["d", "f", ""] is f and f.graph is body and f[0] is inner and list(m.graphs()) == [graph, body]
    assert f.doc_string == "doc" and f.metadata_props == {"k": "v"} and f.attributes["k"].as_int() == 3
    g = make("g")
    m.functions[g.identifier()] = g
    assert set(m.functions) == {("d", "f", ""), ("d", "g", "")} and g.opset_imports == {"": 23}
    with pytest.raises(sardonyx.Error, match="already in a model"):
        m.functions[f.identifier()] = f
        ir.Model(chain("Abs"), ir_version=10, functions=[f])
    h = m.functions.pop(("d", "f", ""))
    assert h is f and len(m.functions) == 1 and f[0].op_type == "Relu"
    ir.Model(chain("Abs"), ir_version=10, functions=[f, g.clone()])
    with pytest.raises(sardonyx.Error, match="two functions are called"):
        ir.Model(chain("Abs"), ir_version=10, functions=[make("f"), make("f")])
    constant = ir.Graph([], [], nodes=[], initializers=[ir.val("w", const_value=ir.tensor(1))])
    with pytest.raises(sardonyx.Error, match="initializers"):
        ir.Function("d", "c", graph=constant, attributes=[])


def test_nodes_move_between_models():
    g, h = chain("Abs", "Exp"), chain("Neg")
    ir.Model(g, ir_version=10), ir.Model(h, ir_version=10)
    n = g[1]
    g.outputs.clear()
    with pytest.raises(sardonyx.Error, match="two different models"):
        n.replace_input_with(0, h.outputs[0])
    g.remove(n)
    with pytest.raises(sardonyx.Error, match="belongs to another model"):
        h.append(n)
    n.replace_input_with(0, h.outputs[0])
    h.append(n)
    assert n.graph is h and ops(h) == ["Neg", "Exp"] and n.inputs[0] is h[0].outputs[0] and ops(g) == ["Abs"]
    h.outputs[:] = n.outputs


def test_two_graphs_of_one_builder_become_two_models():
    b = ir.Builder()
    x, y = f32("x", 2), f32("y", 2)
    p, q = b.Abs(x), b.Exp(y)
    first = ir.Graph([x], [p], nodes=[p.producer()], opset_imports={"": 23})
    second = ir.Graph([y], [q], nodes=[q.producer()], opset_imports={"": 23})
    m, n = ir.Model(first, ir_version=10), ir.Model(second, ir_version=10)
    assert m.graph is first and n.graph is second and second.outputs[0] is q and q.producer().graph is second
    assert n.graph.inputs[0] is y and ops(m.graph) == ["Abs"] and ops(n.graph) == ["Exp"]


@pytest.mark.parametrize(
    "act",
    [
        lambda: ir.Node("", "", []),
        lambda: ir.Node("", "Abs", ["x"]),
        lambda: ir.Node("", "Abs", f32("x", 1)),
        lambda: ir.Node("", "Abs", [], [1]),
        lambda: ir.Node("", "Abs", [], {"a": None}),
        lambda: ir.Node("", "Abs", [], num_outputs=-1),
        lambda: ir.Node("", "Abs", [], num_outputs=2, outputs=[ir.Value()]),
        lambda: ir.Node("", "Abs", [], outputs=[None]),
        lambda: ir.Node("", "Abs", [], outputs=[v := ir.Value(), v]),
        lambda: ir.Node("", "Abs", [v := ir.Value()], outputs=[v]),
        lambda: ir.Node("", "Abs", [], outputs=chain("Abs").inputs),
        lambda: ir.Node("", "Abs", [], outputs=chain("Abs").outputs),
        lambda: ir.Node("", "Abs", []).replace_input_with(0, None),
        lambda: ir.Node("", "Abs", [None]).replace_input_with(-1, None),
        lambda: ir.Node("", "Abs", []).append(ir.Node("", "B", [])),
        lambda: (n := ir.Node("", "Abs", [None])).replace_input_with(0, n.outputs[0]),
        lambda: ir.Graph([None], [], nodes=[]),
        lambda: ir.Graph([], [], nodes=[None]),
        lambda: ir.Graph([x := f32("x", 1), x], [], nodes=[]),
        lambda: ir.Graph([], [], nodes=[], opset_imports={"": "x"}),
        lambda: ir.Graph([], [], nodes=[], initializers=[f32("x", 1)]),
        lambda: chain("Abs").append("node"),
        lambda: chain("Abs").insert_after(chain("Abs")[0], []),
        lambda: ir.Model("graph", ir_version=10),
        lambda: ir.Value(ir.Node("", "Abs", [])),
        lambda: ir.Function("d", "", graph=chain("Abs"), attributes=[]),
        lambda: ir.Function("d", "f", graph="g", attributes=[]),
        lambda: ir.val("x", const_value=3),
    ],
)
def test_mistakes_are_errors_of_ours(act):
    with pytest.raises(sardonyx.Error):
        act()


def test_an_attribute_that_fails_leaves_the_node_as_it_was():
    n = ir.Node("", "Op", [], {"axis": 1})
    with pytest.raises(sardonyx.Error):
        n.attributes["k"] = ir.Attr("k", ir.AttributeType.INT, None)
    assert list(n.attributes) == ["axis"]
