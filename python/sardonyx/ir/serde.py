"""from_proto() and to_proto() under a name for each type of message."""

from __future__ import annotations

from sardonyx._error import WrongType
from sardonyx.ir._serde import from_onnx_text, from_proto, to_onnx_text, to_proto

__all__ = [
    "deserialize_attribute",
    "deserialize_function",
    "deserialize_graph",
    "deserialize_model",
    "deserialize_node",
    "deserialize_tensor",
    "from_onnx_text",
    "from_proto",
    "serialize_attribute",
    "serialize_function",
    "serialize_graph",
    "serialize_model",
    "serialize_node",
    "serialize_tensor",
    "serialize_value",
    "to_onnx_text",
    "to_proto",
]


def _only(kind: str, convert, package: str, doc: str):
    """Restricts `convert`, which takes anything, to objects of one kind."""

    def of_kind(thing):
        if type(thing).__name__ != kind:
            raise WrongType(f"expected an {package}.{kind}, not {type(thing).__name__}")
        return convert(thing)

    of_kind.__doc__ = doc
    return of_kind


def _reader(kind: str):
    return _only(kind, from_proto, "onnx", f"From an onnx.{kind}.")


def _writer(kind: str):
    return _only(kind, to_proto, "ir", f"The onnx message of an ir.{kind}.")


deserialize_model = _reader("ModelProto")
deserialize_graph = _reader("GraphProto")
deserialize_node = _reader("NodeProto")
deserialize_tensor = _reader("TensorProto")
deserialize_attribute = _reader("AttributeProto")
deserialize_function = _reader("FunctionProto")
serialize_model = _writer("Model")
serialize_graph = _writer("Graph")
serialize_node = _writer("Node")
serialize_tensor = _writer("Tensor")
serialize_attribute = _writer("Attr")
serialize_function = _writer("Function")
serialize_value = _writer("Value")
