"""ONNX files and protobuf messages. The onnx package is imported only where its messages are needed."""

from __future__ import annotations

import os
from typing import Any

from sardonyx import _sardonyx
from sardonyx._error import Error, WrongType
from sardonyx.ir._attr import Attr
from sardonyx.ir._core import Function, Graph, Model, Node, Value
from sardonyx.ir._enums import AttributeType, DataType
from sardonyx.ir._messages import onnx_package, read_function, read_graph, read_input, read_node
from sardonyx.ir._shape import (
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    SymbolicDim,
    TensorType,
    TypeAndShape,
)
from sardonyx.ir._tensor import SparseTensor, Tensor, tensor

_native = _sardonyx.ir

__all__ = ["from_onnx_text", "from_proto", "load", "save", "to_onnx_text", "to_proto", "verify", "warnings"]


def load(path: str | os.PathLike, format: str | None = None, *, mmap: bool = True) -> Model:
    """Read an ONNX file. Weights are not copied: they stay in the (mapped) file.

    The onnx package reads a `format` other than "protobuf" ("textproto", "json", "onnxtxt").
    """
    path = os.fspath(path)
    if format not in (None, "protobuf"):
        return from_proto(onnx_package().load(path, format=format))
    return _native.read_path(path, mmap)


def save(
    model: Model,
    path: str | os.PathLike,
    format: str | None = None,
    external_data: str | os.PathLike | None = None,
    size_threshold_bytes: int = 256,
    max_shard_size_bytes: int | None = None,
) -> None:
    """Write an ONNX file. It appears only when it is complete.

    Tensors of at least `size_threshold_bytes` go to the file `external_data` beside it, if given. Without it,
    they go to a file of their own only where the model would exceed protobuf's limit of 2 GiB.
    """
    _model(model, "save")
    path = os.fspath(path)
    if format not in (None, "protobuf"):
        onnx_package().save(to_proto(model), path, format=format)
        return
    data_file = "" if external_data is None else os.fspath(external_data)
    _native.write_path(
        model, path, external_data is not None, data_file, size_threshold_bytes, max_shard_size_bytes or 0
    )


def verify(model: Model, *, types: bool = True) -> None:
    """Raise an Error that names the first fault of a model: a value that is used but not computed, wrong
    order or names, a missing opset, and, with `types`, operands and results that an operator's rule refuses.
    The model stays unchanged.
    """
    _native.verify(_model(model, "verify"), types)


def warnings(model: Model) -> list[str]:
    """Suspicious findings that are not errors: ill-typed nodes, unknown attributes (and what was likely
    meant), deprecated operators, values that share a name. At most a hundred, and the number of further ones.
    """
    return _native.warnings(_model(model, "warnings"))


def _model(model, caller: str) -> Model:
    if not isinstance(model, Model):
        raise WrongType(
            f"{caller} takes an ir.Model, not {type(model).__name__}",
            notes=("ir.Model(graph, ir_version=10) makes one",),
        )
    return model


# ---------------------------------------------------------------------------------------------------------------------
# From messages


def _value_from(proto) -> Value:
    value = read_input(proto)
    found = Value(name=value.name, type=value.type, shape=value.shape, doc_string=value.doc_string)
    found.metadata_props.update(value.metadata_props)
    return found


def _attribute_from(proto) -> Attr:
    if proto.ref_attr_name:
        return Attr(
            proto.name, AttributeType(proto.type), None, proto.ref_attr_name, doc_string=proto.doc_string or None
        )
    doc = proto.doc_string or None
    if proto.type == AttributeType.GRAPH:
        return Attr(proto.name, AttributeType.GRAPH, read_graph(proto.g), doc_string=doc)
    if proto.type == AttributeType.GRAPHS:
        return Attr(proto.name, AttributeType.GRAPHS, [read_graph(g) for g in proto.graphs], doc_string=doc)
    node = onnx_package().NodeProto(op_type="Attributes", domain="pkg.sardonyx", attribute=[proto])
    return read_node(node).attributes[proto.name]


def _type_from(proto) -> Any:
    value = onnx_package().ValueInfoProto(name="_", type=proto)
    return _value_from(value).type


def from_proto(proto) -> Any:
    """From an onnx message: Model, Graph, Node, Tensor, Attribute, ValueInfo, Type, Function or
    OperatorSetId."""
    if isinstance(proto, list | tuple):
        return {o.domain: o.version for o in proto}
    kind = type(proto).__name__
    if kind == "ModelProto":
        return _native.read_bytes(proto.SerializeToString(), "")
    readers = {
        "GraphProto": read_graph,
        "NodeProto": read_node,
        "TensorProto": tensor,
        "AttributeProto": _attribute_from,
        "ValueInfoProto": _value_from,
        "TypeProto": _type_from,
        "FunctionProto": read_function,
    }
    if kind not in readers:
        raise WrongType(f"from_proto takes an onnx message such as onnx.ModelProto, not {kind}")
    return readers[kind](proto)


# ---------------------------------------------------------------------------------------------------------------------
# To messages


def _metadata_to(owner, proto) -> None:
    for key, value in owner.metadata_props.items():
        proto.metadata_props.add(key=key, value=value)


def _type_to(type, shape: Shape | None, proto) -> None:
    if type is None:
        if shape is None:
            return
        type = TensorType(DataType.UNDEFINED)
    if isinstance(type, TensorType | SparseTensorType):
        tensor = proto.tensor_type if isinstance(type, TensorType) else proto.sparse_tensor_type
        tensor.elem_type = int(type.dtype)
        if shape is None:
            return
        tensor.shape.SetInParent()
        for dim in shape:
            if isinstance(dim, SymbolicDim):
                d = tensor.shape.dim.add()
                if dim.value is not None:
                    d.dim_param = dim.value
            else:
                tensor.shape.dim.add(dim_value=dim)
    elif isinstance(type, SequenceType):
        _type_to(type.elem_type, shape, proto.sequence_type.elem_type)
    elif isinstance(type, OptionalType):
        _type_to(type.elem_type, shape, proto.optional_type.elem_type)
    else:
        raise Error(f"{type!r} cannot be written by itself", "unsupported", ("write the model that has it",))


def _tensor_to(tensor: Tensor, name: str | None = None):
    proto = onnx_package().TensorProto(dims=list(tensor.shape), data_type=int(tensor.dtype))
    name = name or tensor.name
    if name:
        proto.name = name
    if tensor.doc_string:
        proto.doc_string = tensor.doc_string
    if tensor.dtype == DataType.STRING:
        proto.string_data.extend(tensor.string_data())
    else:
        proto.raw_data = tensor.tobytes()
    _metadata_to(tensor, proto)
    return proto


def _value_to(value: Value):
    proto = onnx_package().ValueInfoProto(name=value.name or "")
    if value.type is not None or value.shape is not None:
        _type_to(value.type, value.shape, proto.type)
    if value.doc_string:
        proto.doc_string = value.doc_string
    _metadata_to(value, proto)
    return proto


def _sparse_to(sparse: SparseTensor, proto) -> None:
    proto.values.CopyFrom(_tensor_to(sparse.values))
    proto.indices.CopyFrom(_tensor_to(sparse.indices))
    proto.dims.extend(sparse.dims)


def _attribute_to(attr: Attr):
    proto = onnx_package().AttributeProto(name=attr.name, type=int(attr.type))
    if attr.doc_string:
        proto.doc_string = attr.doc_string
    value, kind = attr.value, attr.type
    if attr.is_ref():
        proto.ref_attr_name = attr.ref_attr_name
    elif kind == AttributeType.FLOAT:
        proto.f = value
    elif kind == AttributeType.INT:
        proto.i = value
    elif kind == AttributeType.STRING:
        proto.s = value.encode("utf-8", "surrogateescape")
    elif kind == AttributeType.TENSOR:
        proto.t.CopyFrom(_tensor_to(value))
    elif kind == AttributeType.GRAPH:
        proto.g.CopyFrom(_graph_to(value))
    elif kind == AttributeType.FLOATS:
        proto.floats.extend(value)
    elif kind == AttributeType.INTS:
        proto.ints.extend(value)
    elif kind == AttributeType.STRINGS:
        proto.strings.extend(s.encode("utf-8", "surrogateescape") for s in value)
    elif kind == AttributeType.TENSORS:
        proto.tensors.extend(_tensor_to(t) for t in value)
    elif kind == AttributeType.GRAPHS:
        proto.graphs.extend(_graph_to(g) for g in value)
    elif kind == AttributeType.TYPE_PROTO:
        _type_to(value.type, value.shape, proto.tp)
    elif kind == AttributeType.TYPE_PROTOS:
        for v in value:
            _type_to(v.type, v.shape, proto.type_protos.add())
    elif kind == AttributeType.SPARSE_TENSOR:
        _sparse_to(value, proto.sparse_tensor)
    elif kind == AttributeType.SPARSE_TENSORS:
        for v in value:
            _sparse_to(v, proto.sparse_tensors.add())
    else:
        raise Error(
            f"attribute '{attr.name}' ({kind}) cannot be written by itself",
            "unsupported",
            ("write the model that has it",),
        )
    return proto


def _node_to(node: Node):
    proto = onnx_package().NodeProto(op_type=node.op_type, domain=node.domain)
    for field, text in (("name", node.name), ("overload", node.overload), ("doc_string", node.doc_string)):
        if text:
            setattr(proto, field, text)
    proto.input.extend("" if v is None else v.name or "" for v in node.inputs)
    proto.output.extend(v.name or "" for v in node.outputs)
    proto.attribute.extend(_attribute_to(a) for a in node.attributes.values())
    _metadata_to(node, proto)
    return proto


def _graph_to(graph: Graph):
    proto = onnx_package().GraphProto(name=graph.name or "")
    if graph.doc_string:
        proto.doc_string = graph.doc_string
    proto.input.extend(_value_to(v) for v in graph.inputs)
    proto.output.extend(_value_to(v) for v in graph.outputs)
    proto.initializer.extend(_tensor_to(v.const_value, v.name) for v in graph.initializers.values())
    for node in graph:
        proto.node.append(_node_to(node))
        known = (v for v in node.outputs if v.type is not None or v.shape is not None)
        proto.value_info.extend(_value_to(v) for v in known if not v.is_graph_output())
    _metadata_to(graph, proto)
    return proto


def _function_to(function: Function):
    proto = onnx_package().FunctionProto(name=function.name, domain=function.domain)
    if function.overload:
        proto.overload = function.overload
    if function.doc_string:
        proto.doc_string = function.doc_string
    proto.input.extend(v.name or "" for v in function.inputs)
    proto.output.extend(v.name or "" for v in function.outputs)
    for attr in function.attributes.values():
        if attr.value is None and not attr.is_ref():
            proto.attribute.append(attr.name)
        else:
            proto.attribute_proto.append(_attribute_to(attr))
    for domain, version in function.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    for node in function:
        proto.node.append(_node_to(node))
        proto.value_info.extend(_value_to(v) for v in node.outputs if v.type is not None or v.shape is not None)
    _metadata_to(function, proto)
    return proto


def to_proto(ir_object) -> Any:
    """Convert to an onnx message: the inverse of from_proto()."""
    if isinstance(ir_object, Model):
        return onnx_package().ModelProto.FromString(_native.serialize(ir_object))
    for kind, write in (
        (Graph, _graph_to),
        (Node, _node_to),
        (Tensor, _tensor_to),
        (Attr, _attribute_to),
        (Value, _value_to),
        (Function, _function_to),
    ):
        if isinstance(ir_object, kind):
            return write(ir_object)
    if isinstance(ir_object, TypeAndShape):
        proto = onnx_package().TypeProto()
        _type_to(ir_object.type, ir_object.shape, proto)
        return proto
    if hasattr(ir_object, "_native"):
        proto = onnx_package().TypeProto()
        _type_to(ir_object, None, proto)
        return proto
    raise WrongType(f"to_proto takes an object of sardonyx.ir, not {type(ir_object).__name__}")


def from_onnx_text(model_text: str, /) -> Model:
    """From the text form of the onnx package."""
    onnx = onnx_package()
    return from_proto(onnx.parser.parse_model(model_text))


def to_onnx_text(model: Model, /, exclude_initializers: bool = False) -> str:
    """As the text form of the onnx package."""
    onnx = onnx_package()
    proto = to_proto(model)
    if exclude_initializers:
        del proto.graph.initializer[:]
    return onnx.printer.to_text(proto)
