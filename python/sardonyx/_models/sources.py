"""What users pass as a model: as native code takes it, and the result in the caller's type."""

import os
from collections.abc import Callable
from typing import Any

from sardonyx import _sardonyx as native
from sardonyx._error import Error


def is_model(value: Any) -> bool:
    """Whether it is a model or the path of one, and not a function."""
    kinds = ("ModelProto", "ONNXProgram")
    return (
        isinstance(value, str | os.PathLike | bytes | bytearray | memoryview | native.ir.ModelBase)
        or type(value).__name__ in kinds
        or is_program(value)
        or _kind(value) == "onnx_ir.Model"
        or (hasattr(value, "read") and not callable(value))
    )


def is_program(value: Any) -> bool:
    """Whether it is a `sardonyx.coreml.Program`, which is not imported for this."""
    return isinstance(getattr(value, "_native", None), native.coreml.Program)


def source_of(model: Any) -> Any:
    """A path, a native handle, or the bytes of a file: what native code takes."""
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    if isinstance(model, native.ir.ModelBase):
        return model
    if is_program(model):
        return model._native
    data, _ = bytes_of(model)
    if len(data) == 0:
        raise Error("the model is empty")
    return data


def bytes_of(model: Any) -> tuple[bytes, Callable[[bytes], Any]]:
    """The model as a file's bytes, and a function that converts the result's bytes to the caller's type."""
    if isinstance(model, bytes | bytearray | memoryview):
        return bytes(model), type(model) if isinstance(model, bytearray) else bytes
    kind = _kind(model)
    if type(model).__name__ == "ModelProto":
        return model.SerializeToString(), type(model).FromString
    if kind == "onnx_ir.Model":
        import onnx
        import onnx_ir

        return onnx_ir.to_proto(model).SerializeToString(), lambda data: onnx_ir.from_proto(
            onnx.ModelProto.FromString(data)
        )
    if kind == "torch.ONNXProgram":
        proto = model.model_proto
        return proto.SerializeToString(), type(proto).FromString
    if hasattr(model, "read"):
        data = model.read()
        if isinstance(data, bytes):
            import onnx

            return data, onnx.ModelProto.FromString
        raise Error(
            f"the model's file is open for text, not for bytes ({type(model).__name__})",
            notes=['help: open it with "rb"'],
        )
    raise Error(
        f"a model was expected, found a {type(model).__name__}",
        notes=[
            "expected a path, an onnx.ModelProto, bytes, a file that is open, a sardonyx.ir.Model, an onnx_ir.Model, or what "
            "torch.onnx.export(dynamo=True) returns"
        ],
    )


def _kind(value: Any) -> str:
    return f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"
