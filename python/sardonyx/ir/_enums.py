"""Element types and attribute types, with ONNX's numbers."""

from __future__ import annotations

import enum

import ml_dtypes
import numpy as np

from sardonyx._error import WrongType

__all__ = ["AttributeType", "DataType"]


class AttributeType(enum.IntEnum):
    """The kind of value that an attribute holds."""

    UNDEFINED = 0
    FLOAT = 1
    INT = 2
    STRING = 3
    TENSOR = 4
    GRAPH = 5
    FLOATS = 6
    INTS = 7
    STRINGS = 8
    TENSORS = 9
    GRAPHS = 10
    SPARSE_TENSOR = 11
    SPARSE_TENSORS = 12
    TYPE_PROTO = 13
    TYPE_PROTOS = 14

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name


class DataType(enum.IntEnum):
    """The type of a tensor's elements."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26

    @classmethod
    def from_numpy(cls, dtype: np.typing.DTypeLike) -> DataType:
        """The element type of NumPy arrays (also those of ml_dtypes) with this dtype."""
        dtype = np.dtype(dtype)
        if dtype.kind in "OSUT":
            return cls.STRING
        found = _FROM_NUMPY.get(dtype.newbyteorder("="))
        if found is None:
            raise WrongType(f"no element type of ONNX corresponds to NumPy's {dtype}")
        return found

    @classmethod
    def from_short_name(cls, short_name: str) -> DataType:
        """The inverse of short_name()."""
        found = _FROM_SHORT_NAME.get(short_name)
        if found is None:
            raise WrongType(
                f"'{short_name}' is not a short name of an element type",
                notes=(f"known: {', '.join(_FROM_SHORT_NAME)}",),
            )
        return found

    def numpy(self) -> np.dtype:
        """The dtype of NumPy arrays of this element type (from ml_dtypes where NumPy has none)."""
        found = _TO_NUMPY.get(self)
        if found is None:
            raise WrongType(f"NumPy has no dtype for {self.name}")
        return found

    def short_name(self) -> str:
        """'f32', 'bf16', 'i64', ..."""
        return _SHORT_NAMES[self]

    @property
    def bitwidth(self) -> int:
        """Bits per element."""
        if self not in _BITS:
            raise WrongType(f"{self.name} has no fixed size")
        return _BITS[self]

    @property
    def itemsize(self) -> float:
        """Bytes per element: 0.5 for four bits."""
        bits = self.bitwidth
        return bits // 8 if bits % 8 == 0 else bits / 8

    def is_floating_point(self) -> bool:
        return self in _FLOATS

    def is_integer(self) -> bool:
        return self in _SIGNED or self in _UNSIGNED

    def is_signed(self) -> bool:
        return self in _SIGNED or self in _FLOATS or self in (DataType.COMPLEX64, DataType.COMPLEX128)

    def is_string(self) -> bool:
        return self is DataType.STRING

    def _info(self):
        if self in _FLOATS:
            return ml_dtypes.finfo(self.numpy())
        if self.is_integer():
            return ml_dtypes.iinfo(self.numpy())
        raise WrongType(f"{self.name} has no numeric limits")

    @property
    def min(self) -> float | int:
        """The smallest finite value."""
        info = self._info()
        return info.min.item() if hasattr(info.min, "item") else info.min

    @property
    def max(self) -> float | int:
        """The largest finite value."""
        info = self._info()
        return info.max.item() if hasattr(info.max, "item") else info.max

    @property
    def eps(self) -> float:
        """The distance from 1.0 to the next larger value."""
        return self._float_info("eps")

    @property
    def tiny(self) -> float:
        """The smallest positive normal value."""
        return self._float_info("tiny")

    @property
    def resolution(self) -> float:
        return self._float_info("resolution")

    @property
    def precision(self) -> int:
        return int(self._float_info("precision"))

    def _float_info(self, what: str) -> float:
        if self not in _FLOATS:
            raise WrongType(f"{self.name} is not a floating-point type")
        return float(getattr(self._info(), what))

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


_D = DataType
_TO_NUMPY = {
    _D.FLOAT: np.dtype(np.float32),
    _D.UINT8: np.dtype(np.uint8),
    _D.INT8: np.dtype(np.int8),
    _D.UINT16: np.dtype(np.uint16),
    _D.INT16: np.dtype(np.int16),
    _D.INT32: np.dtype(np.int32),
    _D.INT64: np.dtype(np.int64),
    _D.STRING: np.dtype(object),
    _D.BOOL: np.dtype(np.bool_),
    _D.FLOAT16: np.dtype(np.float16),
    _D.DOUBLE: np.dtype(np.float64),
    _D.UINT32: np.dtype(np.uint32),
    _D.UINT64: np.dtype(np.uint64),
    _D.COMPLEX64: np.dtype(np.complex64),
    _D.COMPLEX128: np.dtype(np.complex128),
    _D.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    _D.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    _D.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    _D.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    _D.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    _D.UINT4: np.dtype(ml_dtypes.uint4),
    _D.INT4: np.dtype(ml_dtypes.int4),
}
# Older releases of ml_dtypes lack these.
for _name, _type in (
    ("float4_e2m1fn", _D.FLOAT4E2M1),
    ("float8_e8m0fnu", _D.FLOAT8E8M0),
    ("uint2", _D.UINT2),
    ("int2", _D.INT2),
):
    if hasattr(ml_dtypes, _name):
        _TO_NUMPY[_type] = np.dtype(getattr(ml_dtypes, _name))
_FROM_NUMPY = {dtype: t for t, dtype in _TO_NUMPY.items()}

_SHORT_NAMES = {
    _D.UNDEFINED: "undefined",
    _D.FLOAT: "f32",
    _D.UINT8: "u8",
    _D.INT8: "i8",
    _D.UINT16: "u16",
    _D.INT16: "i16",
    _D.INT32: "i32",
    _D.INT64: "i64",
    _D.STRING: "s",
    _D.BOOL: "b8",
    _D.FLOAT16: "f16",
    _D.DOUBLE: "f64",
    _D.UINT32: "u32",
    _D.UINT64: "u64",
    _D.COMPLEX64: "c64",
    _D.COMPLEX128: "c128",
    _D.BFLOAT16: "bf16",
    _D.FLOAT8E4M3FN: "f8e4m3fn",
    _D.FLOAT8E4M3FNUZ: "f8e4m3fnuz",
    _D.FLOAT8E5M2: "f8e5m2",
    _D.FLOAT8E5M2FNUZ: "f8e5m2fnuz",
    _D.UINT4: "u4",
    _D.INT4: "i4",
    _D.FLOAT4E2M1: "f4e2m1",
    _D.FLOAT8E8M0: "f8e8m0",
    _D.UINT2: "u2",
    _D.INT2: "i2",
}
_FROM_SHORT_NAME = {name: t for t, name in _SHORT_NAMES.items()}
_FLOATS = {
    _D.FLOAT, _D.FLOAT16, _D.DOUBLE, _D.BFLOAT16, _D.FLOAT8E4M3FN, _D.FLOAT8E4M3FNUZ, _D.FLOAT8E5M2, _D.FLOAT8E5M2FNUZ,
    _D.FLOAT4E2M1, _D.FLOAT8E8M0,
}  # fmt: skip
_SIGNED = {_D.INT8, _D.INT16, _D.INT32, _D.INT64, _D.INT4, _D.INT2}
_UNSIGNED = {_D.UINT8, _D.UINT16, _D.UINT32, _D.UINT64, _D.UINT4, _D.UINT2}
_BITS = {t: dtype.itemsize * 8 for t, dtype in _TO_NUMPY.items() if t is not _D.STRING} | {
    _D.FLOAT8E8M0: 8, _D.UINT4: 4, _D.INT4: 4, _D.FLOAT4E2M1: 4, _D.UINT2: 2, _D.INT2: 2,
}  # fmt: skip
