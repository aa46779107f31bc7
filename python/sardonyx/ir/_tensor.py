"""Tensors: payloads of constants, over the caller's arrays and without copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import _sardonyx
from sardonyx._error import Error, WrongType
from sardonyx.ir._containers import MetadataProps
from sardonyx.ir._enums import DataType
from sardonyx.ir._messages import read_initializer
from sardonyx.ir._shape import Shape

_native = _sardonyx.ir

__all__ = ["SparseTensor", "StringTensor", "Tensor", "tensor"]


def _pack(array: np.ndarray, bits: int) -> np.ndarray:
    """Packs elements of 4 or 2 bits, given one per byte, with the first in the lowest bits."""
    per_byte = 8 // bits
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    padded = np.zeros(-(-flat.size // per_byte) * per_byte, np.uint8)
    padded[: flat.size] = flat
    packed = np.zeros(padded.size // per_byte, np.uint8)
    for i in range(per_byte):
        packed |= padded[i::per_byte] << (bits * i)
    return packed


def _unpack(packed: np.ndarray, size: int, bits: int, signed: bool) -> np.ndarray:
    per_byte = 8 // bits
    flat = np.zeros(packed.size * per_byte, np.uint8)
    for i in range(per_byte):
        flat[i::per_byte] = (packed >> (bits * i)) & ((1 << bits) - 1)
    if signed:  # ml_dtypes keeps the sign in the whole byte
        flat = np.where(flat >> (bits - 1), flat | ((0xFF << bits) & 0xFF), flat).astype(np.uint8)
    return flat[:size]


class Tensor(_native.TensorBase):
    """The payload of a constant. The elements are not copied and must not change afterwards.

    `value` is a NumPy array (also with ml_dtypes' dtypes) or something that converts to one (`__array__`,
    `__dlpack__`). With `dtype`, an array of unsigned integers can hold the bits of another dtype of the same
    size.
    """

    __slots__ = ()

    def __init__(self, value, dtype=None, *, shape=None, name=None, doc_string=None, metadata_props=None):
        super().__init__()
        if isinstance(value, _native.TensorBase):
            if dtype is not None and DataType(dtype) != value.dtype:
                raise Error(f"dtype={DataType(dtype)} does not match the tensor's own, {value.dtype}")
            self._init_same(value)
        else:
            self._take(value, dtype, shape)
        self.name = name
        self.doc_string = doc_string
        if metadata_props:
            self.metadata_props.update(metadata_props)

    def _take(self, value, dtype, shape) -> None:
        if not isinstance(value, np.ndarray | np.generic):
            if not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
                value = np.from_dlpack(value)
            elif not hasattr(value, "__array__"):
                raise WrongType(
                    f"a tensor is made from an array, not {type(value).__name__}",
                    notes=("ir.tensor(...) takes Python numbers and lists",),
                )
        array = np.asarray(value)
        own = DataType.from_numpy(array.dtype)
        if dtype is not None:
            dtype = DataType(dtype)
            if dtype != own:
                wanted = dtype.numpy()
                if array.dtype.kind not in "uV" or wanted.itemsize != array.dtype.itemsize or dtype == DataType.STRING:
                    raise WrongType(
                        f"an array of {array.dtype} cannot be a tensor of {dtype}",
                        notes=(f"convert it first: array.astype({wanted})",),
                    )
                array = array.view(wanted)
        else:
            dtype = own
        if shape is not None and Shape(shape) != Shape(array.shape):
            raise Error(f"shape={Shape(shape)} does not match the array's own, {Shape(array.shape)}")
        dims = list(array.shape)
        if dtype == DataType.STRING:
            self._init_strings([s if isinstance(s, bytes) else str(s).encode() for s in array.reshape(-1)], dims)
            return
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("="))
        if dtype.bitwidth < 8:
            buffer = _pack(array, dtype.bitwidth)
        else:
            buffer = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._init_buffer(buffer, int(dtype), dims)

    @property
    def dtype(self) -> DataType:
        """The element type."""
        return DataType(self._dtype)

    @property
    def shape(self) -> Shape:
        return Shape(self._dims, frozen=True)

    @property
    def metadata_props(self) -> MetadataProps:
        return MetadataProps(self)

    def numpy(self) -> np.ndarray:
        """The elements: a read-only view if they are in NumPy's layout in memory."""
        dtype, dims = self.dtype, self._dims
        if dtype == DataType.STRING:
            array = np.empty(self.size, object)
            array[:] = self._strings()
            return array.reshape(dims)
        if dtype.bitwidth < 8:
            packed = np.frombuffer(self._bytes(), np.uint8)
            signed = dtype in (DataType.INT4, DataType.INT2)
            array = _unpack(packed, self.size, dtype.bitwidth, signed).view(dtype.numpy()).reshape(dims)
            array.flags.writeable = False
            return array
        if self._is_splat:
            return np.broadcast_to(np.frombuffer(self._element(), np.uint8).view(dtype.numpy()), dims)
        return np.frombuffer(self._bytes(), np.uint8).view(dtype.numpy()).reshape(dims)

    @property
    def raw(self) -> np.ndarray:
        return self.numpy()

    def string_data(self) -> list[bytes]:
        """The elements of a string tensor."""
        return self._strings()

    def tobytes(self) -> bytes:
        """The elements as in a file: little-endian, dense, small ones packed."""
        if self.dtype == DataType.STRING:
            raise WrongType("a tensor of strings has no bytes: use string_data()")
        return bytes(memoryview(self._bytes()))

    def tofile(self, file) -> None:
        file.write(memoryview(self._bytes()))

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options):
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self):
        return self.numpy().__dlpack_device__()

    def __repr__(self) -> str:
        text = repr(self.numpy()) if self.size <= 32 else "..."
        return f"{type(self).__name__}<{self.dtype},{self.shape}>({text}, name={self.name!r})"


class SparseTensor:
    """The nonzero elements of a tensor, as in ONNX's SparseTensorProto.

    `values` has shape [n]. `indices` is int64, of shape [n] (ascending positions in the flattened tensor) or
    [n, rank].
    """

    __slots__ = ("dims", "indices", "values")

    def __init__(self, values, indices, dims: Sequence[int]):
        self.values = tensor(values)
        self.indices = tensor(indices)
        self.dims = tuple(int(d) for d in dims)
        count, rank = self.values.size, len(self.dims)
        if self.values.shape.rank() != 1:
            raise Error(f"a sparse tensor's values have shape [n], not {self.values.shape}")
        if self.indices.dtype != DataType.INT64:
            raise WrongType(f"a sparse tensor's indices are int64, not {self.indices.dtype}")
        if self.indices.shape not in ([count], [count, rank]):
            raise Error(
                f"{count} values of a sparse tensor of rank {rank} have indices of shape {self.indices.shape}",
                notes=(f"expected [{count}] or [{count}, {rank}]",),
            )

    @property
    def dtype(self) -> DataType:
        return self.values.dtype

    @property
    def shape(self) -> Shape:
        return Shape(self.dims, frozen=True)

    @property
    def name(self) -> str | None:
        """The name of the values, as in a file."""
        return self.values.name

    def numpy(self) -> np.ndarray:
        """The dense tensor."""
        dense = np.zeros(self.dims, self.dtype.numpy())
        at = self.indices.numpy()
        if at.ndim == 1:
            dense.reshape(-1)[at] = self.values.numpy()
        else:
            dense[tuple(at.T)] = self.values.numpy()
        return dense

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseTensor):
            return False
        return self.dims == other.dims and self.values._equals(other.values) and self.indices._equals(other.indices)

    __hash__ = None

    def __repr__(self) -> str:
        return f"SparseTensor<{self.dtype},{self.shape}>({self.values.size} values)"


def StringTensor(value, *, shape=None, name=None, doc_string=None, metadata_props=None) -> Tensor:
    """A tensor of strings (or bytes)."""
    array = np.asarray(value, dtype=object)
    if shape is not None:
        array = array.reshape(Shape(shape).numpy())
    return Tensor(array, DataType.STRING, name=name, doc_string=doc_string, metadata_props=metadata_props)


def tensor(value, dtype: DataType | None = None, name: str | None = None, doc_string: str | None = None) -> Tensor:
    """Make a tensor from an array, Python numbers or strings (also nested lists), another tensor, or an
    onnx.TensorProto.

    Arrays keep their dtype. Python ints become int64, floats float32, unless `dtype` says otherwise.
    """
    if isinstance(value, _native.TensorBase):
        if dtype is not None and DataType(dtype) != value.dtype:
            raise Error(
                f"dtype={DataType(dtype)} does not match the tensor's own, {value.dtype}", notes=("leave dtype out",)
            )
        return value
    if type(value).__name__ == "TensorProto":
        made = Tensor(read_initializer(value), name=value.name or None, doc_string=value.doc_string or None)
        made.metadata_props.update({p.key: p.value for p in value.metadata_props})
        if dtype is not None and DataType(dtype) != made.dtype:
            raise Error(
                f"dtype={DataType(dtype)} does not match the TensorProto's own, {made.dtype}",
                notes=("leave dtype out",),
            )
        if name is not None:
            made.name = name
        if doc_string is not None:
            made.doc_string = doc_string
        return made
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return Tensor(value, dtype, name=name, doc_string=doc_string)
    if dtype is not None:
        if not isinstance(dtype, DataType):
            raise WrongType(f"dtype takes an ir.DataType, not {type(dtype).__name__}")
        wanted = dtype.numpy()
    else:
        wanted = _dtype_of(value)
    try:
        array = np.array(value, dtype=wanted)
    except (TypeError, ValueError, OverflowError) as e:
        raise WrongType(f"cannot make a tensor of {wanted} from {type(value).__name__}: {e}") from e
    if array.dtype.kind == "O" and wanted is None:
        raise WrongType(
            f"cannot make a tensor from {type(value).__name__}: it holds no numbers and no strings of one kind"
        )
    return Tensor(array, dtype, name=name, doc_string=doc_string)


def _leaves(value):
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _dtype_of(value) -> np.dtype | None:
    kinds = {type(leaf) for leaf in _leaves(value)}
    if not kinds:
        raise Error("an empty list does not say what it holds", notes=("pass dtype=ir.DataType....",))
    if kinds == {int}:
        return np.dtype(np.int64)
    if kinds <= {int, float}:
        return np.dtype(np.float32)
    if kinds <= {str, bytes}:
        return np.dtype(object)
    if kinds & {str, bytes}:
        raise WrongType(f"a tensor holds one kind of elements, not {', '.join(sorted(k.__name__ for k in kinds))}")
    return None
