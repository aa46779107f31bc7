"""Attributes of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any

from sardonyx import _sardonyx
from sardonyx._error import Error, WrongType
from sardonyx.ir._enums import AttributeType
from sardonyx.ir._messages import read_graph
from sardonyx.ir._shape import Shape, TypeAndShape, dims_to_native, type_from_native, type_to_native
from sardonyx.ir._tensor import SparseTensor, Tensor, tensor

_native = _sardonyx.ir
_T = AttributeType
_LISTS = {_T.FLOATS, _T.INTS, _T.STRINGS, _T.TENSORS, _T.GRAPHS, _T.TYPE_PROTOS, _T.SPARSE_TENSORS}


def _int(name: str, v) -> int:
    if isinstance(v, float):
        raise WrongType(f"attribute '{name}' holds integers, not the float {v!r}")
    try:
        return v.__index__()
    except AttributeError:
        raise WrongType(f"attribute '{name}' holds integers, not {type(v).__name__}") from None


def _float(name: str, v) -> float:
    if isinstance(v, str | bytes):
        raise WrongType(f"attribute '{name}' holds floats, not {type(v).__name__}")
    try:
        return float(v)
    except (TypeError, ValueError):
        raise WrongType(f"attribute '{name}' holds floats, not {type(v).__name__}") from None


def _str(name: str, v) -> str:
    if isinstance(v, bytes):
        return v.decode("utf-8", "surrogateescape")
    if not isinstance(v, str):
        raise WrongType(f"attribute '{name}' holds strings, not {type(v).__name__}")
    return v


def _tensor(name: str, v) -> Tensor:
    if isinstance(v, _native.TensorBase):
        return v
    if type(v).__name__ == "TensorProto" or hasattr(v, "__array__"):
        return tensor(v)
    raise WrongType(
        f"attribute '{name}' holds tensors, not {type(v).__name__}", notes=("make one with ir.tensor(...)",)
    )


def _sparse(name: str, v) -> SparseTensor:
    if isinstance(v, SparseTensor):
        return v
    if type(v).__name__ == "SparseTensorProto":
        return SparseTensor(tensor(v.values), tensor(v.indices), v.dims)
    raise WrongType(
        f"attribute '{name}' holds sparse tensors, not {type(v).__name__}",
        notes=("make one with ir.SparseTensor(values, indices, dims)",),
    )


def _graph(name: str, v):
    if type(v).__name__ == "GraphProto":
        v = read_graph(v)
    if not isinstance(v, _native.GraphBase):
        raise WrongType(f"attribute '{name}' holds graphs, not {type(v).__name__}")
    return v


def _type(name: str, v) -> TypeAndShape:
    if isinstance(v, TypeAndShape):
        return v
    type_to_native(v)
    return TypeAndShape(v, None)


_READ = {
    _T.FLOAT: _float,
    _T.INT: _int,
    _T.STRING: _str,
    _T.TENSOR: _tensor,
    _T.GRAPH: _graph,
    _T.FLOATS: _float,
    _T.INTS: _int,
    _T.STRINGS: _str,
    _T.TENSORS: _tensor,
    _T.GRAPHS: _graph,
    _T.TYPE_PROTO: _type,
    _T.TYPE_PROTOS: _type,
    _T.SPARSE_TENSOR: _sparse,
    _T.SPARSE_TENSORS: _sparse,
}


class Attr:
    """A named parameter of a node. With `ref_attr_name` it refers to an attribute of the function it is used
    in."""

    __slots__ = ("_meta", "_name", "_ref", "_type", "_value", "doc_string")

    def __init__(
        self,
        name: str,
        type: AttributeType,
        value: Any,
        ref_attr_name: str | None = None,
        *,
        doc_string: str | None = None,
    ):
        if not isinstance(name, str) or not name:
            raise WrongType(f"an attribute's name is a string that is not empty, not {name!r}")
        try:
            self._type = AttributeType(type)
        except ValueError:
            raise WrongType(
                f"attribute '{name}': the type is {type!r}, expected an ir.AttributeType",
                notes=("ir.Attr(name, type, value)",),
            ) from None
        self._name = name
        self._ref = ref_attr_name or None
        self._meta = None
        self.doc_string = doc_string
        if value is None or self._ref is not None:
            self._value = None
        elif self._type in _LISTS:
            if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
                raise WrongType(f"attribute '{name}' holds a list ({self._type}), not {value.__class__.__name__}")
            self._value = tuple(_READ[self._type](name, v) for v in value) if self._type in _READ else tuple(value)
        else:
            self._value = _READ[self._type](name, value) if self._type in _READ else value

    @property
    def name(self) -> str:
        return self._name

    @property
    def type(self) -> AttributeType:
        return self._type

    @property
    def value(self) -> Any:
        return self._value

    @property
    def ref_attr_name(self) -> str | None:
        return self._ref

    @property
    def meta(self) -> dict:
        if self._meta is None:
            self._meta = {}
        return self._meta

    def is_ref(self) -> bool:
        """Whether it refers to an attribute of the function."""
        return self._ref is not None

    def _as(self, wanted: AttributeType):
        if self._type != wanted or self._ref is not None:
            what = f"a reference to the function's '{self._ref}'" if self._ref is not None else str(self._type)
            raise WrongType(f"attribute '{self._name}' is {what}, not {wanted}")
        return self._value

    def as_float(self) -> float:
        return self._as(_T.FLOAT)

    def as_int(self) -> int:
        return self._as(_T.INT)

    def as_string(self) -> str:
        return self._as(_T.STRING)

    def as_tensor(self) -> Tensor:
        return self._as(_T.TENSOR)

    def as_graph(self):
        return self._as(_T.GRAPH)

    def as_floats(self) -> tuple[float, ...]:
        return self._as(_T.FLOATS)

    def as_ints(self) -> tuple[int, ...]:
        return self._as(_T.INTS)

    def as_strings(self) -> tuple[str, ...]:
        return self._as(_T.STRINGS)

    def as_tensors(self) -> tuple[Tensor, ...]:
        return self._as(_T.TENSORS)

    def as_graphs(self) -> tuple:
        return self._as(_T.GRAPHS)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attr):
            return False
        if (self._name, self._type, self._ref, self.doc_string) != (
            other._name,
            other._type,
            other._ref,
            other.doc_string,
        ):
            return False
        if self._type == _T.TENSOR and self._value is not None and other._value is not None:
            return self._value._equals(other._value)
        return self._value == other._value

    __hash__ = None

    def __str__(self) -> str:
        if self._ref is not None:
            return f"@{self._ref}"
        return repr(self._value) if self._type == _T.STRING else str(self._value)

    def __repr__(self) -> str:
        ref = f", ref_attr_name={self._ref!r}" if self._ref is not None else ""
        return f"Attr({self._name!r}, {self._type!r}, {self._value!r}{ref})"


def RefAttr(name: str, ref_attr_name: str, type: AttributeType, doc_string: str | None = None) -> Attr:
    """An attribute whose value is that of the enclosing function's attribute `ref_attr_name`."""
    return Attr(name, type, None, ref_attr_name, doc_string=doc_string)


def AttrFloat32(name: str, value: float, doc_string: str | None = None) -> Attr:
    return Attr(name, _T.FLOAT, value, doc_string=doc_string)


def AttrInt64(name: str, value: int, doc_string: str | None = None) -> Attr:
    return Attr(name, _T.INT, value, doc_string=doc_string)


def AttrString(name: str, value: str, doc_string: str | None = None) -> Attr:
    return Attr(name, _T.STRING, value, doc_string=doc_string)


def AttrTensor(name: str, value: Tensor, doc_string: str | None = None) -> Attr:
    return Attr(name, _T.TENSOR, value, doc_string=doc_string)


def AttrGraph(name: str, value, doc_string: str | None = None) -> Attr:
    return Attr(name, _T.GRAPH, value, doc_string=doc_string)


def AttrFloat32s(name: str, value: Sequence[float], doc_string: str | None = None) -> Attr:
    return Attr(name, _T.FLOATS, value, doc_string=doc_string)


def AttrInt64s(name: str, value: Sequence[int], doc_string: str | None = None) -> Attr:
    return Attr(name, _T.INTS, value, doc_string=doc_string)


def AttrStrings(name: str, value: Sequence[str], doc_string: str | None = None) -> Attr:
    return Attr(name, _T.STRINGS, value, doc_string=doc_string)


def AttrTensors(name: str, value: Sequence[Tensor], doc_string: str | None = None) -> Attr:
    return Attr(name, _T.TENSORS, value, doc_string=doc_string)


def AttrGraphs(name: str, value: Sequence, doc_string: str | None = None) -> Attr:
    return Attr(name, _T.GRAPHS, value, doc_string=doc_string)


def AttrTypeProto(name: str, value, doc_string: str | None = None) -> Attr:
    return Attr(name, _T.TYPE_PROTO, value, doc_string=doc_string)


def AttrTypeProtos(name: str, value: Sequence, doc_string: str | None = None) -> Attr:
    return Attr(name, _T.TYPE_PROTOS, value, doc_string=doc_string)


def attr_to_native(attr: Attr, allow_open: bool = False) -> tuple:
    if not isinstance(attr, Attr):
        raise WrongType(f"an attribute is an ir.Attr, not {type(attr).__name__}")
    value = attr.value
    if value is None and not attr.is_ref() and not allow_open and attr.type != _T.UNDEFINED:
        raise Error(
            f"attribute '{attr.name}' has no value",
            notes=(
                "leave an optional attribute out",
                "inside a function, ir.RefAttr(...) refers to the function's own attribute",
            ),
        )
    if attr.type == _T.TYPE_PROTO and value is not None:
        value = (type_to_native(value.type), dims_to_native(value.shape))
    elif attr.type == _T.SPARSE_TENSOR and value is not None:
        value = (value.values, value.indices, value.dims)
    elif attr.type == _T.SPARSE_TENSORS and value is not None:
        value = [(v.values, v.indices, v.dims) for v in value]
    elif attr.type == _T.TYPE_PROTOS and value is not None:
        value = [(type_to_native(v.type), dims_to_native(v.shape)) for v in value]
    return (attr.name, int(attr.type), value, attr.ref_attr_name, attr.doc_string)


def attr_from_native(item: tuple) -> Attr:
    name, type, value, ref, doc = item
    if type == _T.TYPE_PROTO and ref is None:
        value = TypeAndShape(type_from_native(value[0]), None if value[1] is None else Shape(value[1]))
    elif type == _T.SPARSE_TENSOR and ref is None:
        value = SparseTensor(*value)
    elif type == _T.SPARSE_TENSORS and ref is None:
        value = [SparseTensor(*v) for v in value]
    elif type == _T.TYPE_PROTOS and ref is None:
        value = [TypeAndShape(type_from_native(v[0]), None if v[1] is None else Shape(v[1])) for v in value]
    return Attr(name, AttributeType(type), value, ref, doc_string=doc)


class Attributes(MutableMapping):
    """The attributes of a node (or function) by name."""

    __slots__ = ("_owner",)

    def __init__(self, owner):
        self._owner = owner

    def _all(self) -> dict:
        return {item[0]: attr_from_native(item) for item in self._owner._attributes()}

    def _store(self, attrs: Iterable) -> None:
        self._owner._set_attributes([attr_to_native(a) for a in attrs])

    def __getitem__(self, name: str):
        return self._all()[name]

    def __setitem__(self, name: str, attr) -> None:
        if not isinstance(name, str):
            raise WrongType(f"attributes are named by strings, not {type(name).__name__}")
        if not isinstance(attr, Attr):
            raise WrongType(
                f"an attribute is an ir.Attr, not {type(attr).__name__}",
                notes=(
                    f'ir.AttrInt64("{name}", 1) makes one; ir.convenience.convert_attribute("{name}", value) finds the type',
                ),
            )
        if attr.name != name:
            raise Error(
                f"the key '{name}' is not the attribute's name, '{attr.name}'", notes=("use attributes.add(attr)",)
            )
        attrs = self._all()
        attrs[name] = attr
        self._store(attrs.values())

    def __delitem__(self, name: str) -> None:
        attrs = self._all()
        del attrs[name]
        self._store(attrs.values())

    def __iter__(self) -> Iterator[str]:
        return iter([item[0] for item in self._owner._attributes()])

    def __len__(self) -> int:
        return len(self._owner._attributes())

    def __contains__(self, name) -> bool:
        return any(item[0] == name for item in self._owner._attributes())

    def add(self, attr) -> None:
        """Set an attribute by its own name."""
        self[attr.name] = attr

    def update(self, other=(), /, **more) -> None:
        attrs = self._all()
        attrs.update(dict(other, **more))
        self._store(attrs.values())

    def clear(self) -> None:
        self._store([])

    def get_int(self, name: str, default=None):
        return self[name].as_int() if name in self else default

    def get_float(self, name: str, default=None):
        return self[name].as_float() if name in self else default

    def get_string(self, name: str, default=None):
        return self[name].as_string() if name in self else default

    def get_tensor(self, name: str, default=None):
        return self[name].as_tensor() if name in self else default

    def get_graph(self, name: str, default=None):
        return self[name].as_graph() if name in self else default

    def get_ints(self, name: str, default=None):
        return self[name].as_ints() if name in self else default

    def get_floats(self, name: str, default=None):
        return self[name].as_floats() if name in self else default

    def get_strings(self, name: str, default=None):
        return self[name].as_strings() if name in self else default

    def get_tensors(self, name: str, default=None):
        return self[name].as_tensors() if name in self else default

    def get_graphs(self, name: str, default=None):
        return self[name].as_graphs() if name in self else default

    def __repr__(self) -> str:
        return repr(self._all())
