"""Reads single onnx messages natively, each as part of a model made around it."""

from __future__ import annotations

from sardonyx import _sardonyx
from sardonyx._error import Error
from sardonyx.ir._enums import AttributeType

_native = _sardonyx.ir

# The domain of a wrapped message's function; models that are read or written never use it.
_DOMAIN = "pkg.sardonyx"


def onnx_package():
    try:
        import onnx
    except ImportError as e:
        raise Error("the onnx package is needed for its protobuf messages", "unsupported", ("pip install onnx",)) from e
    return onnx


def _model(*domains: str):
    """A ModelProto without content that imports the newest operators, and these domains."""
    model = onnx_package().ModelProto(ir_version=10)
    model.opset_import.add(domain="", version=_native.newest_opset(""))
    for domain in domains:
        if domain not in ("", "ai.onnx"):
            model.opset_import.add(domain=domain, version=1)
    return model


def _fill(message, other):
    """Copies another message of the same type, which may come from another protobuf package."""
    message.SetInParent()
    message.MergeFromString(other.SerializeToString())
    return message


def _read(model):
    return _native.read_bytes(model.SerializeToString(), "")


def _outer_names(graph, known: frozenset[str] = frozenset()) -> list[str]:
    """The names that a GraphProto uses without defining them."""
    known = known | {i.name for i in graph.input} | {t.name for t in graph.initializer}
    known |= {t.values.name for t in graph.sparse_initializer} | {name for n in graph.node for name in n.output}
    found = [
        name for n in graph.node for name in (*n.input, *_outer_names_of_node(n, known)) if name and name not in known
    ]
    found += [o.name for o in graph.output if o.name not in known]
    return list(dict.fromkeys(found))


def _outer_names_of_node(node, known: frozenset[str] = frozenset()) -> list[str]:
    graphs = [g for a in node.attribute for g in ([a.g] if a.type == AttributeType.GRAPH else a.graphs)]
    return list(dict.fromkeys(name for g in graphs for name in _outer_names(g, known)))


def read_node(proto):
    """A single node. Its inputs are values that nothing computes."""
    names = [n for n in dict.fromkeys([*proto.input, *_outer_names_of_node(proto)]) if n and n not in proto.output]
    model = _model(proto.domain)
    _add_inputs(model, names)
    _fill(model.graph.node.add(), proto)
    read = _read(model)
    node = read.graph[0]
    inputs = list(read.graph.inputs)  # held, so that they follow the node
    read.graph.inputs.clear()
    node = _native.free_node(node)
    del inputs
    return node


def read_graph(proto):
    """A single graph, read as the body of a node in a model that defines the values it captures."""
    model = _model(_DOMAIN)
    _add_inputs(model, _outer_names(proto))
    body = model.graph.node.add(op_type="Wrapper", domain=_DOMAIN).attribute.add(name="body", type=AttributeType.GRAPH)
    _fill(body.g, proto)
    read = _read(model)
    holder = read.graph[0]
    found = holder.attributes["body"].as_graph()
    inputs = list(read.graph.inputs)
    read.graph.inputs.clear()
    holder.attributes.clear()
    _native.free_graph(found)
    del inputs
    return found


def _add_inputs(model, names) -> None:
    for name in names:
        model.graph.input.add(name=name)


def read_initializer(proto):
    """The payload of a TensorProto."""
    model = _model()
    named = _fill(model.graph.initializer.add(), proto)
    named.name = named.name or "_"
    return next(iter(_read(model).graph.initializers.values())).const_value


def read_input(proto):
    """The value of a ValueInfoProto, an input of a graph."""
    model = _model()
    _fill(model.graph.input.add(), proto)
    return _read(model).graph.inputs[0]


def read_function(proto):
    model = onnx_package().ModelProto(ir_version=10)
    opsets = {"": _native.newest_opset("")} | {o.domain: o.version for o in proto.opset_import} | {proto.domain: 1}
    for domain, version in opsets.items():
        model.opset_import.add(domain=domain, version=version)
    model.graph.SetInParent()
    _fill(model.functions.add(), proto)
    return next(iter(_read(model).functions.values())).clone()
