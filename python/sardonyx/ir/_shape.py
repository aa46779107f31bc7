"""Shapes, symbolic dimensions and types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sardonyx import _sardonyx
from sardonyx._error import Error, WrongType
from sardonyx.ir._enums import DataType

_native = _sardonyx.ir

__all__ = ["OptionalType", "SequenceType", "Shape", "SparseTensorType", "SymbolicDim", "TensorType", "TypeAndShape"]


class SymbolicDim:
    """A dimension that is not an integer: a name, an expression of names ("2*B + 1"), or None for an unknown
    one.

    Arithmetic gives expressions in normal form, or an int where the result is a number.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str | None):
        if isinstance(value, SymbolicDim):
            value = value.value
        if isinstance(value, bool) or not (value is None or isinstance(value, str)):
            raise WrongType(
                f"a symbolic dimension is a string or None, not {type(value).__name__}; integers stand for themselves"
            )
        self._value = value

    @property
    def value(self) -> str | None:
        return self._value

    def free_symbols(self) -> frozenset[str]:
        """The names that occur in the expression."""
        return frozenset() if self._value is None else frozenset(_native.dim_symbols(self._value))

    def evaluate(self, bindings: Mapping[str, int]) -> int | SymbolicDim:
        """Replaces names by numbers. Returns an int when no name is left."""
        if self._value is None:
            return self
        return _dim(_native.dim_substitute(self._value, dict(bindings)))

    def simplify(self) -> SymbolicDim | int:
        """In normal form."""
        return self if self._value is None else _dim(_native.dim_substitute(self._value, {}))

    def _with(self, op: str, other, swapped: bool = False):
        if isinstance(other, bool) or not isinstance(other, int | SymbolicDim):
            return NotImplemented
        mine, theirs = self._value, other.value if isinstance(other, SymbolicDim) else int(other)
        return _dim(_native.dim_arithmetic(op, theirs, mine) if swapped else _native.dim_arithmetic(op, mine, theirs))

    def __add__(self, other):
        return self._with("+", other)

    __radd__ = __add__

    def __sub__(self, other):
        return self._with("-", other)

    def __rsub__(self, other):
        return self._with("-", other, swapped=True)

    def __mul__(self, other):
        return self._with("*", other)

    __rmul__ = __mul__

    def __floordiv__(self, other):
        return self._with("//", other)

    def __rfloordiv__(self, other):
        return self._with("//", other, swapped=True)

    def __mod__(self, other):
        return self._with("%", other)

    def __neg__(self):
        return self._with("*", -1)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SymbolicDim):
            return self._value == other._value
        if other is None or isinstance(other, str):
            return self._value == other
        return False

    def __hash__(self) -> int:
        return hash(self._value)

    def __str__(self) -> str:
        return "?" if self._value is None else self._value

    def __repr__(self) -> str:
        return f"SymbolicDim({self._value!r})"


def _dim(d) -> int | SymbolicDim:
    if isinstance(d, SymbolicDim):
        return d
    if isinstance(d, str) or d is None:
        return SymbolicDim(d)
    if isinstance(d, bool):
        raise WrongType("a dimension is an integer, a string, a SymbolicDim or None, not a bool")
    try:
        return d.__index__()
    except AttributeError:
        raise WrongType(f"a dimension is an integer, a string, a SymbolicDim or None, not {type(d).__name__}") from None


class Shape:
    """The dimensions of a tensor: ints and SymbolicDims. Changing the shape of a value changes the value."""

    __slots__ = ("_denotations", "_dims", "_frozen", "_owner")

    def __init__(
        self,
        dims: Iterable[int | str | SymbolicDim | None],
        /,
        denotations: Iterable[str | None] | None = None,
        frozen: bool = False,
    ):
        if isinstance(dims, str):
            raise WrongType("a shape is a sequence of dimensions, not a string")
        self._dims = [_dim(d) for d in dims]
        self._denotations = list(denotations) if denotations is not None else [None] * len(self._dims)
        if len(self._denotations) != len(self._dims):
            raise Error(
                f"{len(self._denotations)} denotations for {len(self._dims)} dimensions: there must be one each"
            )
        self._frozen = frozen
        self._owner = None

    @property
    def dims(self) -> tuple[int | SymbolicDim, ...]:
        return tuple(self._dims)

    @property
    def frozen(self) -> bool:
        return self._frozen

    def freeze(self) -> None:
        """Make the shape immutable."""
        self._frozen = True

    def copy(self, frozen: bool = False) -> Shape:
        return Shape(self._dims, self._denotations, frozen)

    def rank(self) -> int:
        return len(self._dims)

    def numpy(self) -> tuple[int, ...]:
        """The dimensions as NumPy's tuple; all must be integers."""
        if self.is_dynamic():
            raise Error(f"the shape {self} is not static")
        return tuple(self._dims)

    def is_static(self, dim: int | None = None) -> bool:
        """Whether all dimensions (or that one) are integers."""
        if dim is not None:
            return isinstance(self._dims[dim], int)
        return all(isinstance(d, int) for d in self._dims)

    def is_dynamic(self, dim: int | None = None) -> bool:
        return not self.is_static(dim)

    def is_unknown_dim(self, dim: int) -> bool:
        return self._dims[dim] == SymbolicDim(None)

    def has_unknown_dim(self) -> bool:
        return any(d == SymbolicDim(None) for d in self._dims)

    def free_symbols(self) -> frozenset[str]:
        return frozenset().union(*(d.free_symbols() for d in self._dims if isinstance(d, SymbolicDim)))

    def evaluate(self, bindings: Mapping[str, int]) -> Shape:
        return Shape([d.evaluate(bindings) if isinstance(d, SymbolicDim) else d for d in self._dims])

    def simplify(self) -> Shape:
        return Shape([d.simplify() if isinstance(d, SymbolicDim) else d for d in self._dims])

    def get_denotation(self, index: int) -> str | None:
        return self._denotations[index]

    def set_denotation(self, index: int, denotation: str | None) -> None:
        self._denotations[index] = denotation

    def __len__(self) -> int:
        return len(self._dims)

    def __iter__(self) -> Iterator[int | SymbolicDim]:
        return iter(self._dims)

    def __getitem__(self, index):
        return tuple(self._dims[index]) if isinstance(index, slice) else self._dims[index]

    def __setitem__(self, index: int, value: int | str | SymbolicDim | None) -> None:
        if self._frozen:
            raise WrongType("the shape is frozen: change a copy, shape.copy()")
        self._dims[index] = _dim(value)
        if self._owner is not None:
            self._owner._write_shape(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Shape):
            return self._dims == other._dims
        if isinstance(other, Iterable) and not isinstance(other, str):
            return self._dims == list(other)
        return False

    __hash__ = None  # shapes can change

    def __str__(self) -> str:
        return f"[{','.join(str(d) for d in self._dims)}]"

    def __repr__(self) -> str:
        return f"Shape({self._dims!r}{', frozen=True' if self._frozen else ''})"


class _TensorTypeBase:
    __slots__ = ("_dtype", "denotation")
    _kind = ""

    def __init__(self, dtype: DataType, *, denotation: str | None = None):
        self._dtype = DataType(dtype)
        self.denotation = denotation

    @property
    def dtype(self) -> DataType:
        return self._dtype

    @property
    def elem_type(self) -> DataType:
        return self._dtype

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._dtype == self._dtype

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._dtype))

    def __repr__(self) -> str:
        return f"{type(self).__name__.removesuffix('Type')}({self._dtype!r})"

    def __str__(self) -> str:
        return self._dtype.name

    def _native(self):
        return (self._kind, int(self._dtype))


class TensorType(_TensorTypeBase):
    """Tensors of one element type. The shape is separate, in Value.shape."""

    __slots__ = ()
    _kind = "tensor"


class SparseTensorType(_TensorTypeBase):
    """Sparse tensors of one element type."""

    __slots__ = ()
    _kind = "sparse"


class _RecursiveTypeBase:
    __slots__ = ("_elem_type", "denotation")
    _kind = ""

    def __init__(self, elem_type, *, denotation: str | None = None):
        if elem_type is not None and not isinstance(elem_type, _TensorTypeBase | _RecursiveTypeBase | OpaqueType):
            raise WrongType(
                f"{type(self).__name__} takes a type such as ir.TensorType(...), not {type(elem_type).__name__}"
            )
        self._elem_type = elem_type
        self.denotation = denotation

    @property
    def elem_type(self):
        return self._elem_type

    @property
    def dtype(self) -> DataType:
        return self._elem_type.dtype

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._elem_type == self._elem_type

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._elem_type))

    def __repr__(self) -> str:
        return f"{type(self).__name__.removesuffix('Type')}({self._elem_type!r})"

    __str__ = __repr__

    def _native(self):
        return (self._kind, type_to_native(self._elem_type))


class SequenceType(_RecursiveTypeBase):
    """Lists of values of one type."""

    __slots__ = ()
    _kind = "sequence"


class OptionalType(_RecursiveTypeBase):
    """A value of a type, or nothing."""

    __slots__ = ()
    _kind = "optional"


class OpaqueType:
    """A type that only files contain: maps and opaque types. It can be passed on but not built."""

    __slots__ = ("_what",)
    dtype = DataType.UNDEFINED

    def __init__(self, what: tuple):
        self._what = what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueType) and other._what == self._what

    def __hash__(self) -> int:
        return hash(self._what)

    def __repr__(self) -> str:
        return f"OpaqueType({self._what!r})"

    def _native(self):
        return self._what


@dataclass(frozen=True)
class TypeAndShape:
    """A type with its shape: the value of TYPE_PROTO attributes."""

    type: object
    shape: Shape | None


def type_to_native(t):
    if t is None:
        return None
    if not hasattr(t, "_native"):
        raise WrongType(
            f"a type is ir.TensorType(...), ir.SequenceType(...) or ir.OptionalType(...), not {type(t).__name__}"
        )
    return t._native()


def type_from_native(t):
    if t is None:
        return None
    kind = t[0]
    if kind == "tensor":
        return TensorType(DataType(t[1]))
    if kind == "sparse":
        return SparseTensorType(DataType(t[1]))
    if kind == "sequence":
        return SequenceType(type_from_native(t[1]))
    if kind == "optional":
        return OptionalType(type_from_native(t[1]))
    return OpaqueType(t)


def dims_to_native(shape) -> list | None:
    if shape is None:
        return None
    return [d.value if isinstance(d, SymbolicDim) else d for d in (shape if isinstance(shape, Shape) else Shape(shape))]
