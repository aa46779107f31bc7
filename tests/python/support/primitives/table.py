"""The meaning of a table's line: a function, its inputs as `f32[B,3]`, and the primitives it must reach."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

DTYPES: dict[str, np.dtype] = {
    "bool": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}

# Dtypes that ONNX only converts and moves. JAX rounds each result to these.
NARROW: dict[str, np.dtype] = {
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8e8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f4e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
    "i4": np.dtype(ml_dtypes.int4),
    "u4": np.dtype(ml_dtypes.uint4),
    "i2": np.dtype(ml_dtypes.int2),
    "u2": np.dtype(ml_dtypes.uint2),
}
DTYPES |= NARROW

# Sizes for the symbols: two of them, distinct primes that no fixed size in the tables uses together, and 1.
SIZES: tuple[dict[str, int], ...] = ({"B": 3, "T": 7}, {"B": 5, "T": 2}, {"B": 1, "T": 1})


@dataclass(frozen=True)
class Arg:
    """One input: dtype and shape as text, and what to fill it with.

    Without a range floats are standard normal and integers small of both signs; `low`, `high` bound them
    (integers: high excluded), of complex numbers both parts, which otherwise lie between -2 and 2; `values` are laid out row after row and repeated to fill the shape.
    """

    spec: str
    low: float | None = None
    high: float | None = None
    values: tuple | None = None

    @property
    def dtype(self) -> np.dtype:
        return DTYPES[self.spec.partition("[")[0]]

    @property
    def dims(self) -> tuple[int | str, ...]:
        inside = self.spec.partition("[")[2].rstrip("]")
        return tuple(int(d) if d.isdigit() else d for d in inside.split(",") if d)

    @property
    def dynamic(self) -> bool:
        return any(isinstance(d, str) for d in self.dims)

    def shape(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """The shape at `sizes`. A dimension may be an expression of the symbols, such as `2*B+1`."""
        return tuple(_evaluate(d, sizes) if isinstance(d, str) else d for d in self.dims)

    def draw(self, rng: np.random.Generator, sizes: dict[str, int]) -> np.ndarray:
        shape, dtype = self.shape(sizes), self.dtype
        if self.values is not None:
            return np.resize(np.array(self.values).astype(dtype), shape)
        if dtype.kind == "c":
            low, high = (-2.0, 2.0) if self.low is None else (self.low, self.high)
            return np.asarray(rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(dtype)
        if dtype == np.bool_:
            return np.asarray(rng.random(shape) < 0.5)
        if jnp.issubdtype(dtype, jnp.floating):
            if self.low is None:
                return np.asarray(rng.standard_normal(shape)).astype(dtype)
            return np.asarray(rng.uniform(self.low, self.high, shape)).astype(dtype)
        low = self.low if self.low is not None else (0 if dtype.kind == "u" else -9)
        high = self.high if self.high is not None else 10
        return np.asarray(rng.integers(int(low), int(high), shape, dtype=dtype))


def _evaluate(expression: str, sizes: dict[str, int]) -> int:
    if not re.fullmatch(r"[A-Za-z0-9_+*() -]+", expression):
        raise ValueError(f"not a dimension: {expression!r}")
    return int(eval(expression, {"__builtins__": {}}, dict(sizes)))


def full(dtype: str, *dims) -> Arg:
    """An integer input that takes every value of its type, the ends among them."""
    info = np.iinfo(DTYPES[dtype])
    return Arg(f"{dtype}[{','.join(map(str, dims))}]", info.min, info.max)


@dataclass(frozen=True)
class Case:
    """One line.

    `covers` names primitives that the traced function must contain, or the line tests something else than
    it says. `tolerance` replaces the dtype's own and needs `because`. `x64` traces and converts with
    double precision.
    """

    name: str
    fn: Callable
    inputs: tuple[Arg, ...]
    covers: tuple[str, ...]
    tolerance: float | None = None
    because: str | None = None
    x64: bool = False
    max_nodes: int | None = None

    @property
    def dynamic(self) -> bool:
        return any(a.dynamic for a in self.inputs)

    def specs(self) -> list[jax.ShapeDtypeStruct]:
        """The `inputs` argument of `sardonyx.to_onnx`."""
        return [jax.ShapeDtypeStruct(a.dims, a.dtype) for a in self.inputs]

    def symbolic_specs(self) -> list[jax.ShapeDtypeStruct]:
        """The same for `jax.make_jaxpr`, with JAX's own symbolic dimensions."""
        scope = jax.export.SymbolicScope()
        return [
            jax.ShapeDtypeStruct(jax.export.symbolic_shape(", ".join(map(str, a.dims)), scope=scope), a.dtype)
            for a in self.inputs
        ]

    def sizes(self) -> tuple[dict[str, int], ...]:
        return SIZES if self.dynamic else ({},)

    def sample(self, sizes: dict[str, int], seed: int = 0) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        return [a.draw(rng, sizes) for a in self.inputs]


class Table(list[Case]):
    """A list of cases that reads as one call per line."""

    def add(self, name: str, fn: Callable, *inputs: str | Arg, covers: str, **options: Any) -> None:
        if (options.get("tolerance") is None) != (options.get("because") is None):
            raise ValueError(f"case {name!r}: a tolerance of its own needs its reason, and the reverse")
        args = tuple(a if isinstance(a, Arg) else Arg(a) for a in inputs)
        self.append(Case(name, fn, args, tuple(covers.split()), **options))


def trace(case: Case):
    """The program to convert: from JAX, or from Sardonyx where sizes depend on data."""
    from sardonyx._trace.data import shapes as _data_shapes

    specs = case.symbolic_specs()
    with jax.enable_x64(case.x64):
        try:
            return jax.make_jaxpr(case.fn)(*specs)
        except (jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError):
            with _data_shapes.active(specs):
                return jax.make_jaxpr(case.fn)(*specs)


def primitives_of(jaxpr) -> set[str]:
    """The names of all primitives in a (closed) jaxpr and the jaxprs in its parameters."""
    found: set[str] = set()
    stack = [getattr(jaxpr, "jaxpr", jaxpr)]
    while stack:
        for eqn in stack.pop().eqns:
            found.add(eqn.primitive.name)
            for value in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda v: hasattr(v, "eqns")):
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    stack.append(inner)
    return found
