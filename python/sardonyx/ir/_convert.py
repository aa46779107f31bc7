"""Converts plain Python values to attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sardonyx import _sardonyx
from sardonyx._error import Error, WrongType
from sardonyx.ir._attr import Attr
from sardonyx.ir._enums import AttributeType, DataType
from sardonyx.ir._shape import TypeAndShape

_native = _sardonyx.ir
_T = AttributeType


def _is_int(v) -> bool:
    return not _is_tensor(v) and hasattr(v, "__index__") and not isinstance(v, float) and getattr(v, "shape", ()) == ()


def _is_float(v) -> bool:
    return isinstance(v, float) or (
        not _is_tensor(v) and hasattr(v, "dtype") and getattr(v, "shape", None) == () and v.dtype.kind in "fV"
    )


def _is_tensor(v) -> bool:
    return isinstance(v, _native.TensorBase) or type(v).__name__ == "TensorProto"


def _is_graph(v) -> bool:
    return isinstance(v, _native.GraphBase) or type(v).__name__ == "GraphProto"


def _is_type(v) -> bool:
    return hasattr(v, "_native") or isinstance(v, TypeAndShape)


def _infer(name: str, v) -> AttributeType:
    if isinstance(v, DataType) or _is_int(v):
        return _T.INT
    if _is_float(v):
        return _T.FLOAT
    if isinstance(v, str | bytes):
        return _T.STRING
    if _is_tensor(v):
        return _T.TENSOR
    if _is_graph(v):
        return _T.GRAPH
    if _is_type(v):
        return _T.TYPE_PROTO
    if hasattr(v, "shape") and hasattr(v, "dtype"):
        raise WrongType(
            f"attribute '{name}': an array could mean a list or a tensor",
            notes=("for a list: array.tolist()", "for a tensor: ir.tensor(array)"),
        )
    if isinstance(v, Sequence):
        if not v:
            raise WrongType(
                f"attribute '{name}': an empty list does not say what it would hold",
                notes=(f'give the type: ir.Attr("{name}", ir.AttributeType.INTS, [])',),
            )
        if all(_is_int(x) for x in v):
            return _T.INTS
        if all(_is_int(x) or _is_float(x) for x in v):
            return _T.FLOATS
        for test, kind in (
            (lambda x: isinstance(x, str | bytes), _T.STRINGS),
            (_is_tensor, _T.TENSORS),
            (_is_graph, _T.GRAPHS),
            (_is_type, _T.TYPE_PROTOS),
        ):
            if all(test(x) for x in v):
                return kind
    raise WrongType(
        f"attribute '{name}': there is no attribute type for {type(v).__name__}"
        + (f" of {', '.join(sorted({type(x).__name__ for x in v}))}" if isinstance(v, Sequence) else ""),
        notes=("an attribute is an int, a float, a string, a tensor, a graph, a type, or a list of one of these",),
    )


def convert_attribute(name: str, attr, attr_type: AttributeType | None = None) -> Attr:
    """An ir.Attr from a plain value, with its type inferred unless given. For an ir.Attr, only its name is
    checked."""
    if attr is None:
        if attr_type is None:
            raise Error(
                f"attribute '{name}' is None, which has no type",
                notes=(
                    "leave an optional attribute out",
                    f'or give the type: ir.Attr("{name}", ir.AttributeType.INT, None)',
                ),
            )
        return Attr(name, attr_type, None)
    if isinstance(attr, Attr):
        if attr.name != name:
            raise Error(f"the attribute is called '{attr.name}', but it is given as '{name}'")
        if attr_type is not None and attr.type != attr_type:
            raise Error(f"attribute '{name}' has type {attr.type}, not {AttributeType(attr_type)}")
        return attr
    return Attr(name, _infer(name, attr) if attr_type is None else attr_type, attr)


def convert_attributes(attrs: Mapping[str, object]) -> list[Attr]:
    """A list of ir.Attr from a mapping of plain values (or ir.Attr). None is refused."""
    return [convert_attribute(name, value) for name, value in attrs.items()]
