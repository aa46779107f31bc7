"""The models of the onnx package, taken apart and rebuilt in Python."""

from pathlib import Path

import onnx
from onnx.backend.test.loader import load_model_tests
from onnx_messages import normalize
from sardonyx import ir


def normal(message):
    normalize(message)
    return message


def rebuilt(model: ir.Model) -> ir.Model:
    """The same model from new nodes, values and graphs: nothing is cloned."""
    copies: dict[ir.Value, ir.Value] = {}

    def copy_value(v):
        if v is None:
            return None
        if v not in copies:
            props = dict(v.metadata_props)
            copies[v] = ir.Value(name=v.name, type=v.type, shape=v.shape, doc_string=v.doc_string, metadata_props=props)
            if v.is_initializer():
                copies[v].const_value = v.const_value
        return copies[v]

    def copy_attr(a):
        if a.type == ir.AttributeType.GRAPH and not a.is_ref():
            return ir.AttrGraph(a.name, copy_graph(a.as_graph()), a.doc_string)
        return ir.Attr(a.name, a.type, a.value, a.ref_attr_name, doc_string=a.doc_string)

    def copy_graph(g):
        made = ir.Graph([], [], nodes=[], name=g.name, doc_string=g.doc_string, opset_imports=dict(g.opset_imports))
        made.metadata_props.update(g.metadata_props)
        made.inputs.extend([copy_value(v) for v in g.inputs])
        for v in g.initializers.values():
            made.initializers.add(copy_value(v))
        for n in g:
            made.append(
                ir.Node(
                    n.domain,
                    n.op_type,
                    [copy_value(v) for v in n.inputs],
                    [copy_attr(a) for a in n.attributes.values()],
                    overload=n.overload,
                    outputs=[copy_value(v) for v in n.outputs],
                    name=n.name or f"unnamed {len(made)}",
                    doc_string=n.doc_string,
                    metadata_props=dict(n.metadata_props),
                )
            )
            if n.name is None:
                made[-1].name = None
        made.outputs.extend([copy_value(v) for v in g.outputs])
        return made

    functions = []
    for f in model.functions.values():
        functions.append(ir.Function(f.domain, f.name, f.overload, graph=copy_graph(f.graph), attributes=f.attributes))
        functions[-1].doc_string = f.doc_string
    return ir.Model(
        copy_graph(model.graph),
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        functions=functions,
        metadata_props=dict(model.metadata_props),
    )


def test_every_model_comes_back():
    tried = 0
    for case in load_model_tests(kind="node"):
        proto = case.model or onnx.load(Path(case.model_dir, "model.onnx"))
        model = ir.from_proto(proto)
        expected = normal(proto)
        assert normal(ir.to_proto(model)) == expected, case.name
        assert normal(ir.to_proto(model.clone())) == expected, case.name
        if any(t.WhichOneof("value") in ("map_type", "opaque_type", "sparse_tensor_type") for t in types(proto)):
            continue  # cannot be built in Python
        if any(a.type in (11, 12) for n in proto.graph.node for a in n.attribute):
            continue
        made = ir.to_proto(rebuilt(model))
        assert by_name(normal(made)) == by_name(expected), case.name
        tried += 1
    assert tried > 1000


def types(proto):
    return [v.type for v in (*proto.graph.input, *proto.graph.output)]


def by_name(proto):
    """The order of attributes and of value_info does not matter; tensors in attributes need no name."""

    def tidy(graph):
        for n in graph.node:
            attributes = sorted(n.attribute, key=lambda a: a.name)
            del n.attribute[:]
            n.attribute.extend(attributes)
            for a in n.attribute:
                if a.HasField("t"):
                    a.t.ClearField("name")
                if a.HasField("g"):
                    tidy(a.g)
        infos = sorted(graph.value_info, key=lambda v: v.name)
        del graph.value_info[:]
        graph.value_info.extend(infos)

    tidy(proto.graph)
    for f in proto.functions:
        tidy(f)
    return proto
