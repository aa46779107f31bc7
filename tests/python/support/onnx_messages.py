"""Compares ONNX messages: equal up to field order, raw or typed data, packed or unpacked, explicit defaults - nothing else."""

from __future__ import annotations

import onnx
from google.protobuf.message import Message
from onnx import numpy_helper


def _message_fields(message: Message):
    for field, value in message.ListFields():
        if field.message_type is not None:
            yield field, (list(value) if hasattr(value, "append") or hasattr(value, "add") else [value])


def _normalize_tensor(tensor: onnx.TensorProto, folder: str) -> None:
    if tensor.data_type == onnx.TensorProto.STRING:
        return
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        onnx.external_data_helper.load_external_data_for_tensor(tensor, folder)
        del tensor.external_data[:]
    if not tensor.HasField("raw_data"):
        raw = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
        for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
            tensor.ClearField(field)
        tensor.raw_data = raw
    tensor.ClearField("data_location")


def normalize(message: Message, folder: str = "") -> None:
    """In place."""
    if isinstance(message, onnx.TensorProto):
        _normalize_tensor(message, folder)
    for _, values in _message_fields(message):
        for value in values:
            normalize(value, folder)
    for field, value in message.ListFields():
        if field.message_type is None and not isinstance(value, (list, tuple)) and not hasattr(value, "append"):
            if value == field.default_value and field.containing_oneof is None:
                message.ClearField(field.name)
    # Attributes are a set by name.
    if hasattr(message, "attribute") and len(message.attribute) > 1 and hasattr(message, "op_type"):
        ordered = sorted(message.attribute, key=lambda a: a.name)
        del message.attribute[:]
        message.attribute.extend(ordered)


def difference(a: Message, b: Message, path: str = "") -> str | None:
    """The first difference between two normalized messages, or None."""
    if a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True):
        return None
    for field in a.DESCRIPTOR.fields:
        here = f"{path}.{field.name}"
        x, y = getattr(a, field.name), getattr(b, field.name)
        if hasattr(x, "append") or hasattr(x, "add"):
            if len(x) != len(y):
                return f"{here}: {len(x)} and {len(y)} elements"
            for i, (p, q) in enumerate(zip(x, y, strict=True)):
                if field.message_type is not None:
                    if found := difference(p, q, f"{here}[{i}]"):
                        return found
                elif p != q:
                    return f"{here}[{i}]: {p!r} and {q!r}"
        elif field.message_type is not None:
            if a.HasField(field.name) != b.HasField(field.name):
                return f"{here}: present in one only"
            if found := difference(x, y, here):
                return found
        elif x != y:
            return f"{here}: {str(x)[:80]!r} and {str(y)[:80]!r}"
    return f"{path}: unknown fields differ"


def same(a: onnx.ModelProto, b: onnx.ModelProto, folder_a: str = "", folder_b: str = "") -> str | None:
    """None if the models are the same message, else where they differ. Neither is changed."""
    left, right = onnx.ModelProto(), onnx.ModelProto()
    left.CopyFrom(a)
    right.CopyFrom(b)
    normalize(left, folder_a)
    normalize(right, folder_b)
    return difference(left, right)
