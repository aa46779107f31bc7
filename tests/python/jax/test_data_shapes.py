"""Results whose size depends on data: arange with bounds that are values, boolean masks, nonzero, compress, unique."""

import functools
import re
import threading
from dataclasses import dataclass

import command
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from judge import RUNTIME, check_structure, compare, outputs

RNG = np.random.default_rng(7)
X7 = np.array([0.5, -1.25, 0.0, 3.0, -0.5, 2.0, -7.0], np.float32)
X53 = RNG.integers(-3, 4, (5, 3)).astype(np.float32)
I11 = np.array([3, -1, 3, 7, 7, 2, -1, 3, 0, 2, 11], np.int32)
MASK7 = X7 > 0
NONE7, ALL7 = np.zeros(7, bool), np.ones(7, bool)
NAN = np.array([3, np.nan, 1, np.nan, 3, -0.0, 0.0, np.inf, 1, -np.inf, 2], np.float32)


@dataclass
class Case:
    name: str
    fn: object
    inputs: list
    data: list  # lists of operands, run through one model in turn
    ops: str = ""  # of the whole graph, in order; "" = any
    double: bool = False

    def __str__(self):
        return self.name


def case(name, fn, inputs, *data, ops="", double=False):
    return Case(name, fn, inputs, [[np.asarray(x) for x in d] for d in data], ops, double)


def boxes(scores, positions, threshold):
    keep = scores > threshold
    order = jnp.argsort(-scores[keep])
    return positions[keep][order], scores[keep][order]


MASKS = (MASK7, NONE7, ALL7)
# The minimum and maximum of an empty integer array are 0 in onnxruntime 1.23.
INT_MASKS = MASKS if RUNTIME >= (1, 24) else (MASK7, ALL7)
i32, u8, f16, f32 = np.int32, np.uint8, np.float16, np.float32

CASES = [
    # masks
    case("mask", lambda x: x[x > 0], [("B",)], [X7], [-abs(X7)], [abs(X7) + 1], ops="Greater Compress"),
    case("mask of a known size", lambda x: x[x > 0], [(7,)], [X7], [-abs(X7)], ops="Greater Compress"),
    case("one mask, two arrays", lambda m, x, y: x[m] + y[m], ["bool[B]", ("B",), ("B",)], *([m, X7, X7 * 2] for m in MASKS)),
    case("equal masks", lambda x, y: x[x > 0] * y[x > 0], [("B",), ("B",)], [X7, X7 + 1], [-abs(X7), X7]),
    case("rows", lambda m, x: x[m], ["bool[B]", ("B", 3)], [MASK7, RNG.random((7, 3), np.float32)]),
    case("columns", lambda m, x: x[:, m], ["bool[B]", (3, "B")], *([m, RNG.random((3, 7), np.float32)] for m in MASKS)),
    case("ellipsis", lambda m, x: x[..., m], ["bool[B]", (2, 3, "B")], *([m, RNG.random((2, 3, 7), np.float32)] for m in MASKS)),
    case("whole matrix", lambda x: x[x != 0], [("A", "B")], [X53], [X53 * 0], [X53 * 0 + 1]),
    case("leading axes", lambda m, x: x[m], ["bool[A,B]", ("A", "B", 2)], [X53 > 0, RNG.random((5, 3, 2), np.float32)]),
    case("mask beside a number", lambda m, x: x[m, 1], ["bool[B]", ("B", 3)], *([m, RNG.random((7, 3), np.float32)] for m in MASKS)),
    case("mask beside a new axis", lambda m, x: x[m, None], ["bool[B]", ("B", 3)], *([m, RNG.random((7, 3), np.float32)] for m in MASKS)),
    case("mask beside a part", lambda m, x: x[m, :2], ["bool[B]", ("B", 3)], *([m, RNG.random((7, 3), np.float32)] for m in MASKS)),
    case("extract", lambda m, x: jnp.extract(m, x), ["bool[B]", ("B",)], *([m, X7] for m in MASKS)),
    case("compress", lambda m, x: jnp.compress(m, x, axis=1), ["bool[B]", (3, "B")], *([m, RNG.random((3, 7), np.float32)] for m in MASKS), ops="Compress"),
    case("compress from the end", lambda m, x: jnp.compress(m, x, -1), ["bool[B]", (3, "B")], [MASK7, RNG.random((3, 7), np.float32)]),
    case("compress by position", lambda m, x: jnp.compress(m, x, 0), ["bool[5]", (7,)], [MASK7[:5], X7]),
    case("compress by integers", lambda m, x: jnp.compress(m, x), ["i32[B]", ("B",)], [MASK7 * i32(3), X7]),
    case("compress, a known mask", lambda x: jnp.compress(np.array([True, False, True]), x, axis=1), [("B", 3)], [X53]),
    case("method", lambda m, x: x.compress(m), ["bool[B]", ("B",)], [MASK7, X7]),
    case("integers", lambda m, x: x[m], ["bool[B]", "i32[B]"], *([m, np.arange(7, dtype=i32)] for m in MASKS)),
    case("booleans", lambda m, x: x[m], ["bool[B]", "bool[B]"], *([m, ALL7] for m in MASKS)),
    case("half", lambda m, x: x[m], ["bool[B]", "f16[B]"], [MASK7, X7.astype(f16)]),
    case("brain", lambda m, x: x[m], ["bool[B]", "bf16[B]"], [MASK7, np.asarray(jnp.asarray(X7, jnp.bfloat16))]),
    case("complex", lambda m, x: x[m], ["bool[B]", "c64[B]"], [MASK7, (X7 + 1j).astype(np.complex64)]),
    # a single boolean selects none or one
    case("flag", lambda x: x[x[0] > 0], [(7,)], [X7], [-X7]),
    case("flag beside a number", lambda f, x: x[f, 1], ["bool[]", ("B", 3)], [True, X53], [False, X53]),
    case("flag after a part", lambda f, x: x[:, f], ["bool[]", ("B", 3)], [True, X53], [False, X53]),
    case("set by a flag", lambda f, x: x.at[f].set(9.0), ["bool[]", ("B", 3)], [True, X53], [False, X53]),
    case("add by a flag", lambda f, x: x.at[1, f].add(2.0), ["bool[]", (5, 3)], [True, X53], [False, X53]),
    # counts that are traced values
    case("eye", lambda n: jnp.eye(n), ["i32[]"], [i32(4)], [i32(1)], [i32(0)]),
    case("eye of two", lambda n, m: jnp.eye(n, m, 1, dtype=jnp.int8), ["i32[]", "i32[]"], [i32(4), i32(3)], [i32(2), i32(5)]),
    case("identity", lambda n, x: jnp.identity(n) + x, ["i32[]", ()], [i32(4), f32(0.5)], [i32(1), f32(0.5)]),
    case("tri", lambda n: jnp.tri(n, 4, -1), ["i32[]"], [i32(3)], [i32(0)]),
    case("linspace", lambda a, n: jnp.linspace(a, 2.0, n), [(), "i32[]"], *([f32(0.25), i32(n)] for n in (7, 2, 1, 0))),
    case("linspace open", lambda n: jnp.linspace(-1, 2, n, endpoint=False), ["i32[]"], [i32(7)], [i32(1)], [i32(0)]),
    case("linspace axis", lambda a, n: jnp.linspace(a, 2.0, n, axis=-1), [(3,), "i32[]"], [X53[0], i32(5)], [X53[0], i32(1)]),
    case("linspace step", lambda n: jnp.linspace(0.0, 2.0, num=n, retstep=True), ["i32[]"], [i32(5)], [i32(1)], [i32(0)]),
    case("linspace integers", lambda n: jnp.linspace(0, 9, n, dtype=jnp.int32), ["i32[]"], [i32(4)], [i32(7)], [i32(1)]),
    case("broadcast_to", lambda x, n: jnp.broadcast_to(x, (n, 7)), [(7,), "i32[]"], [X7, i32(3)], [X7, i32(0)]),
    case("tile", lambda x, n: jnp.tile(x, n), [(7,), "i32[]"], [X7, i32(3)], [X7, i32(0)]),
    case("tile rows", lambda x, n: jnp.tile(x, (n, 2)), [(7,), "i32[]"], [X7, i32(3)], [X7, i32(1)]),
    case("one_hot", lambda i, n: jax.nn.one_hot(i, n), ["i32[3]", "i32[]"], [np.array([0, 2, 4], i32), i32(5)], [np.array([0, 2, 4], i32), i32(3)]),
    case("uniform", lambda n: jax.random.uniform(jax.random.key(0), (n, 2)), ["i32[]"], [i32(3)], [i32(5)]),
    case("setxor1d", lambda x, y: jnp.setxor1d(x, y), [("B",), (3,)], [X7, np.array([0.5, 9, 3], f32)], [X7, X7[:3]]),
    case("setxor1d of integers", lambda x, y: jnp.setxor1d(x, y), ["i32[B]", "i32[T]"], [I11, I11[:4] + 1], [I11, I11]),
    case("indices", lambda n: jnp.indices((n, 3)), ["i32[]"], [i32(4)], [i32(0)]),
    case("indices of two, sparse", lambda n, m: jnp.indices((n, m), jnp.int16, sparse=True), ["i32[]", "i32[]"], [i32(4), i32(3)]),
    case("diag_indices", lambda n: jnp.diag_indices(n), ["i32[]"], [i32(4)], [i32(1)]),
    case("vander of a size", lambda x: jnp.vander(x), [("B",)], [X7[:4]], [X7[:1]]),
    case("logspace", lambda a, n: jnp.logspace(a, 2.0, n), [(), "i32[]"], *([f32(0.25), i32(n)] for n in (7, 1, 0))),
    case("logspace open", lambda a, n: jnp.logspace(a, 2, num=n, endpoint=False, base=2.0, axis=-1), [(3,), "i32[]"], [X53[0], i32(5)]),
    case("logspace integers", lambda n: jnp.logspace(0, 3, n, dtype=jnp.int32), ["i32[]"], [i32(4)]),
    case("geomspace", lambda a, n: jnp.geomspace(a, 2.0, n), [(), "i32[]"], *([f32(0.25), i32(n)] for n in (7, 1, 0))),
    case("geomspace axis", lambda a, n: jnp.geomspace(a, -2.0, n, axis=1), [(3,), "i32[]"], [-1 - abs(X53[0]), i32(5)]),
    case("geomspace integers", lambda n: jnp.geomspace(1, 1000, n, endpoint=False, dtype=jnp.float16), ["i32[]"], [i32(4)]),
    case("bartlett", lambda n: jnp.bartlett(n), ["i32[]"], *([i32(n)] for n in (7, 2, 1, 0))),
    case("blackman", lambda n: jnp.blackman(n), ["i32[]"], *([i32(n)] for n in (7, 2, 1, 0))),
    case("hamming", lambda n: jnp.hamming(n), ["i32[]"], *([i32(n)] for n in (7, 2, 1, 0))),
    case("hanning", lambda n: jnp.hanning(n), ["i32[]"], *([i32(n)] for n in (7, 2, 1, 0))),
    case("kaiser", lambda n, b: jnp.kaiser(n, b), ["i32[]", ()], *([i32(n), f32(3)] for n in (7, 2, 1, 0))),
    # symbolic sizes where JAX requires numbers
    case("window of a size", lambda x: jnp.hanning(x.shape[0]) * x, [("B",)], [X7], [X7[:1]]),
    case("indices of a size", lambda x: jnp.indices(x.shape) * x, [("B", 3)], [X53], [X53[:1]]),
    case("vander of one more", lambda x: jnp.vander(x, x.shape[0] + 1, increasing=True), [("B",)], [X7[:3]], [X7[:1]]),
    case("spaces of a size", lambda x: (jnp.linspace(0, 1, x.size), jnp.logspace(0, 1, x.size), jnp.geomspace(1, 2, x.size)), [("B",)], [X7], [X7[:1]]),
    case("searchsorted", lambda a, v: (jnp.searchsorted(a, v), jnp.searchsorted(a, v, side="right")), [("B",), (2, 3)], *([np.sort(x), np.array([[0.5, -9, 9], [np.nan, 0, 2]], f32)] for x in (X7, X7[:1], np.append(X7, [np.nan] * 2).astype(f32)))),
    case("searchsorted by an order", lambda a, v, o: jnp.searchsorted(a, v, sorter=o), ["i32[B]", "f32[3]", "i32[B]"], [I11, np.array([-2, 3, 2.5], f32), np.argsort(I11).astype(i32)]),
    case("digitize", lambda x, p: jnp.digitize(x, p), [(5,), ("B",)], [X53[:, 0], np.sort(X7)]),
    case("convolve", lambda x, k: jnp.convolve(x, k), [("B",), (3,)], [X7, X53[0]], [X7[:1], X53[0]]),
    case("convolve two, of integers", lambda x, k: jnp.convolve(x, k), ["i32[B]", ("T",)], [I11, X53[0]], [I11[:2], X7]),
    case("convolve to the same size", lambda x, k: jnp.convolve(k, x, "same"), [("B >= 3",), (3,)], [X7, X53[0]], [X7[:3], X53[0]]),
    case("correlate", lambda x, k: jnp.correlate(k, x, "full"), [("B",), (3,)], [X7, X53[0]], [X7[:2], X53[0]]),
    case("correlate where all overlap", lambda x, k: jnp.correlate(k, x), [("B >= 4",), (4,)], [X7, X7[2:6]], [X7[:4], X7[2:6]]),
    case("correlate complex", lambda x, k: jnp.correlate(x, k, "full"), ["c64[B]", "c64[2]"], [(X7 + 1j).astype(np.complex64), np.array([1j, 2 - 1j], np.complex64)]),
    # a mask beside arrays of indices: it has as many true elements as they have, or one for all of them
    case("mask beside indices", lambda m, x, i: x[m, i], ["bool[B]", ("B", 3), "i32[3]"], [MASK7, RNG.random((7, 3), np.float32), i32([0, 2, 1])], [np.arange(7) == 3, RNG.random((7, 3), np.float32), i32([0, 2, 1])]),
    case("mask beside known indices", lambda m, x: x[m, np.array([2, 0, 1])], ["bool[B]", ("B", 3)], [MASK7, RNG.random((7, 3), np.float32)]),
    case("mask beside rows of indices", lambda m, x, i: x[m, i], ["bool[B]", ("B", 3), "i32[2,T]"], [MASK7, RNG.random((7, 3), np.float32), i32([[0, 2, 1], [1, 1, 1]])]),
    case("mask beside one index", lambda m, x, i: x[m, i], ["bool[B]", ("B", 3), "i32[1]"], *([m, RNG.random((7, 3), np.float32), i32([2])] for m in MASKS)),
    case("indices, and a mask apart", lambda m, x, i: x[i, :, m], ["bool[3]", ("B", 2, 3), "i32[2]"], [np.array([True, False, True]), RNG.random((7, 2, 3), np.float32), i32([5, 0])]),
    case("mask of a matrix beside indices", lambda x, i: x[x[:, :, 0] > 0.9, i], [("B", 3, 2), "i32[3]"], [np.where(np.arange(42).reshape(7, 3, 2) % 14 == 4, 1, 0).astype(f32), i32([1, 0, 1])]),
    case("mask beside a mask", lambda m, k, x: x[m, k], ["bool[B]", "bool[3]", ("B", 3)], [MASK7, ALL7[:3], RNG.random((7, 3), np.float32)], [MASK7, np.arange(3) == 1, RNG.random((7, 3), np.float32)]),
    case("flag beside indices", lambda f, x, i: x[f, i], ["bool[]", ("B", 3), "i32[2]"], [True, X53, i32([0, 3])]),
    case("set a mask beside indices", lambda m, x, i: x.at[m, i].set(9.0), ["bool[B]", ("B", 3), "i32[3]"], [MASK7, RNG.random((7, 3), np.float32), i32([0, 2, 1])]),
    case("add to a mask beside indices", lambda m, x, y: x.at[m, np.array([0, 2, 1])].add(y), ["bool[B]", ("B", 3), (3,)], [MASK7, RNG.random((7, 3), np.float32), X53[0]]),
    # results from empty selections
    case("max or a number", lambda x: x[x > 0].max(initial=-1), [("B",)], [X7], [-abs(X7)]),
    case("any of a mask", lambda m, x: (x[m] > 1).any(), ["bool[B]", ("B",)], *([m, X7] for m in MASKS)),
    case("all of a mask", lambda m, x: (x[m] > 1).all(), ["bool[B]", ("B",)], *([m, X7] for m in MASKS)),
    case("min of narrow integers", lambda m, x: x[m].min(initial=100), ["bool[B]", "i16[B]"], *([m, np.arange(7, dtype=np.int16)] for m in INT_MASKS)),
    case("max of narrow integers", lambda m, x: x[m].max(initial=-100), ["bool[B]", "i16[B]"], *([m, np.arange(7, dtype=np.int16)] for m in INT_MASKS)),
    # slices with traced ends
    case("slice", lambda x, n: x[:n], [("B",), "i32[]"], *([X7, i32(n)] for n in (3, 0, 9, -2, -9))),
    case("slice from and to", lambda x, a, b: x[a:b], [("B",), "i32[]", "i32[]"], *([X7, i32(a), i32(b)] for a, b in ((1, 4), (-3, 9), (5, 2)))),
    case("slice by steps", lambda x, n: x[1:n:2], [("B",), "i32[]"], *([X7, i32(n)] for n in (6, 1, -1))),
    case("slices of two axes", lambda x, n, m: x[:n, 1, m:], [("A", 3, "B"), "i32[]", "i32[]"], [RNG.random((5, 3, 7), np.float32), i32(2), i32(3)]),
    case("slice after an ellipsis", lambda x, n: x[..., n:], [(3, "B"), "i32[]"], [RNG.random((3, 7), np.float32), i32(-2)]),
    case("two slices", lambda x, y, n: x[:n] * y[:n], [("B",), ("B",), "i32[]"], [X7, X7 + 1, i32(4)]),
    case("set a slice", lambda x, n: x.at[:n].set(9.0), [("B",), "i32[]"], [X7, i32(3)], [X7, i32(0)], [X7, i32(-2)]),
    case("trim along axes", lambda x: jnp.trim_zeros(x), [("A", "B")], [np.pad(X53 + 9, ((1, 2), (0, 3)))], [X53 * 0]),
    case("trim along one", lambda x: jnp.trim_zeros(x, "f", axis=-1), [("A", "B")], [np.pad(X53 + 9, ((1, 2), (2, 3)))]),
    # writes through a mask
    case("set a number", lambda x: x.at[x > 0].set(9), [("B",)], [X7], [-abs(X7)]),
    case("add a number", lambda x: x.at[x > 0].add(0.5), [("B", 3)], [X53]),
    case("multiply rows", lambda m, x: x.at[m].multiply(2), ["bool[B]", ("B", 3)], *([m, RNG.random((7, 3), np.float32)] for m in MASKS)),
    case("apply a function", lambda x: x.at[x > 0].apply(jnp.sin), [("B",)], [X7], [-abs(X7)], ops="Greater Sin Where"),
    case("set values", lambda m, x: x.at[m].set(jnp.sin(x[m])), ["bool[B]", ("B",)], *([m, X7] for m in MASKS)),
    case("set rows", lambda m, x: x.at[m].set(x[m] * 2 + 1), ["bool[B]", ("B", 3)], *([m, RNG.random((7, 3), np.float32)] for m in MASKS)),
    case("set one row", lambda m, x: x.at[m].set(jnp.arange(3.0)), ["bool[B]", ("B", 3)], *([m, RNG.random((7, 3), np.float32)] for m in MASKS)),
    case("minimum of columns", lambda m, x: x.at[:, m].min(0.25), ["bool[B]", (3, "B")], *([m, RNG.random((3, 7), np.float32)] for m in MASKS)),
    # positions of true elements
    case("nonzero", lambda x: jnp.nonzero(x), [("B",)], [X7], [X7 * 0]),
    case("nonzero of a matrix", lambda x: jnp.nonzero(x > 0), [("A", 3)], [X53], [-abs(X53)]),
    case("nonzero of integers", lambda x: jnp.nonzero(x), ["i32[B]"], [I11]),
    case("nonzero of NaN", lambda x: jnp.nonzero(x), [("B",)], [NAN]),
    case("nonzero of complex numbers", lambda x: jnp.nonzero(x), ["c64[B]"], [(X7 * (1 + 1j)).astype(np.complex64)]),
    case("nonzero as a method, with a fill value", lambda x: x.nonzero(fill_value=5), ["u8[B]"], [I11.astype(u8)]),
    case("flatnonzero", lambda x: jnp.flatnonzero(x), [("A", "B")], [X53]),
    case("argwhere", lambda x: jnp.argwhere(x > 0), [("A", 3)], [X53], [-abs(X53)]),
    case("where", lambda x: jnp.where(x > 0), [("A", 3)], [X53]),
    case("where of three", lambda x: jnp.where(x > 0, x, 0)[x > 0], [("B",)], [X7]),
    case("with a size", lambda x: (jnp.nonzero(x, size=4, fill_value=-1), x[x > 0]), [("B",)], [X7]),
    case("of what is known", lambda x: (jnp.nonzero(np.array([0, 3, 5])), x[x > 0]), [("B",)], [X7]),
    case("double", lambda x: (jnp.nonzero(x)[0], x[x > 0]), ["f64[B]"], [X7.astype(float)], double=True),
    # ranges
    case("arange", lambda n: jnp.arange(n), ["i32[]"], [i32(5)], [i32(0)], ops="Range"),
    case("arange from to", lambda a, b: jnp.arange(a, b), ["i32[]", "i32[]"], [i32(2), i32(7)], [i32(7), i32(2)]),
    case("arange by steps", lambda a, b, s: jnp.arange(a, b, s), ["i32[]", "i32[]", "i32[]"], [i32(2), i32(13), i32(3)], [i32(13), i32(2), i32(-5)], [i32(2), i32(13), i32(-1)]),
    case("arange by keywords", lambda n: jnp.arange(start=1, stop=n, step=2, dtype=jnp.int32), ["i32[]"], [i32(11)], [i32(1)]),
    case("arange of 8 bits", lambda a, b: jnp.arange(a, b), ["i8[]", "i8[]"], [np.int8(-5), np.int8(7)]),
    case("arange of unsigned", lambda n: jnp.arange(n), ["u32[]"], [np.uint32(7)]),
    case("arange of floats", lambda a, b: jnp.arange(a, b, 0.25), ["f32[]", "f32[]"], [np.float32(-0.5), np.float32(2.1)], [np.float32(2), np.float32(1)]),
    case("arange backwards in floats", lambda a: jnp.arange(a, -1.0, -0.3), ["f32[]"], [np.float32(1.7)]),
    case("arange as floats", lambda n: jnp.arange(n, dtype=jnp.float32) * 2, ["i32[]"], [i32(5)]),
    case("arange of halves", lambda a, b: jnp.arange(a, b, 0.1, dtype=jnp.float16), ["f16[]", "f16[]"], [f16(0), f16(1.25)]),
    case("arange up to a size", lambda a, x: jnp.arange(a, x.shape[0]), ["i32[]", ("B",)], [i32(2), X7]),
    case("arange of a count", lambda x: jnp.arange(jnp.sum(x > 0)) * 2, [("B",)], [X7], [-abs(X7)]),
    case("arange on a device", lambda n: jnp.arange(n, device=jax.devices()[0]), ["i32[]"], [i32(3)]),
    case("arange wide", lambda n: jnp.arange(n), ["i64[]"], [np.int64(5)], double=True),
    # unique elements
    case("unique", lambda x: jnp.unique(x), ["i32[B]"], [I11], [I11 * 0], ops="Cast Unique Cast"),
    case("unique, all parts", lambda x: jnp.unique(x, True, True, True), ["i32[B]"], [I11], [np.arange(5, dtype=i32)]),
    case("unique of a matrix", lambda x: jnp.unique(x, return_inverse=True), ["i32[A,B]"], [X53.astype(i32)]),
    case("unique rows", lambda x: jnp.unique(x, axis=0, return_counts=True), ["i32[A,B]"], [np.array([[1, 2], [0, 5], [1, 2], [0, 4], [0, 5]], i32)]),
    case("unique columns", lambda x: jnp.unique(x, axis=-1, return_index=True), ["i32[A,B]"], [np.array([[1, 2, 1], [0, 5, 0]], i32)]),
    case("unique booleans", lambda x: jnp.unique(x, return_counts=True), ["bool[B]"], [MASK7], [NONE7]),
    case("unique bytes", lambda x: jnp.unique(x), ["u8[B]"], [I11.astype(u8)]),
    case("unique wide", lambda x: jnp.unique(x), ["u64[B]"], [np.array([2**63 + 1, 5, 2**64 - 1, 5], np.uint64)], double=True),
    case("unique floats", lambda x: jnp.unique(x, return_index=True, return_inverse=True, return_counts=True), [("B",)], [NAN], [X7]),
    case("unique floats, each NaN", lambda x: jnp.unique(x, return_counts=True, equal_nan=False), [("B",)], [NAN]),
    case("unique float rows", lambda x: jnp.unique(x, axis=0, return_inverse=True), [("A", 2)], [np.array([[1, 2], [0, 5], [1, 2], [0, 4]], np.float32)]),
    case("unique complex", lambda x: jnp.unique(x), ["c64[B]"], [np.array([1j, 1, 1j, 2 - 1j, 1], np.complex64)]),
    case("unique counts", lambda x: tuple(jnp.unique_counts(x)), ["i32[B]"], [I11]),
    case("unique everything", lambda x: tuple(jnp.unique_all(x)), ["i32[A,B]"], [X53.astype(i32)]),
    case("union", lambda x, y: jnp.union1d(x, y), ["i32[A]", "i32[B]"], [I11, np.arange(4, dtype=i32)]),
    case("what only one has", lambda x, y: jnp.setdiff1d(x, y), ["i32[A]", "i32[B]"], [I11, np.arange(4, dtype=i32)], [np.arange(4, dtype=i32), I11]),
    case("what both have", lambda x, y: jnp.intersect1d(x, y), ["i32[A]", "i32[B]"], [I11, np.arange(4, dtype=i32)], [I11, np.arange(20, 23, dtype=i32)]),
    case("repeated as often as it says", lambda x, n: jnp.repeat(x, n), [("B",), "i32[B]"], [X7, np.array([2, 0, 1, 3, 0, 1, 1], i32)], [X7, np.zeros(7, i32)]),
    case("rows repeated", lambda x, n: jnp.repeat(x, n, axis=0), [(3, 2), "i32[3]"], [X53[:3, :2], np.array([2, 0, 1], i32)]),
    # computations on the results
    case("differences", lambda x: jnp.diff(x[x > 0]), [("B",)], [X7], [-abs(X7)], [abs(X7) + 1]),
    case("neighbours", lambda x: x[x > 0][1:] * x[x > 0][:-1], [("B",)], [X7], [-abs(X7)]),
    case("rolled and padded", lambda x: (jnp.roll(x[x > 0], 1), jnp.pad(x[x > 0], (1, 2)), x[x > 0][::-1]), [("B",)], [X7], [-abs(X7)]),
    case("summed up to a count", lambda n: jax.lax.scan(lambda c, i: (c + i, c), 0, jnp.arange(n)), ["i32[]"], [i32(5)], [i32(0)]),
    case("from the end", lambda x: jax.lax.scan(lambda c, v: (c * 0.5 + v, c), 0.0, x[x > 0], reverse=True), [("B",)], [X7], [-abs(X7)]),
    case("distances", lambda x: jnp.linalg.norm(x[x[:, 0] > 0][:, None] - x[x[:, 0] > 0][None], axis=-1), [("A", 3)], [X53]),
    case("sum", lambda x: x[x > 0].sum(), [("B",)], [X7], [-abs(X7)]),
    case("mean", lambda x: x[x > 0].mean(), [("B",)], [X7], [-abs(X7)]),
    case("safe mean", lambda x: x[x > 0].sum() / jnp.maximum(x[x > 0].shape[0], 1), [("B",)], [X7], [-abs(X7)]),
    case("count", lambda x: x[x > 0].shape[0] * 2 + x.shape[0], [("B",)], [X7], [-abs(X7)]),
    case("maximum", lambda x: (x[x > 0].max(), x[x > 0].argmin()), [("B",)], [X7]),
    case("median and deviation", lambda x: (jnp.median(x[x > 0]), x[x > 0].std(ddof=1)), [("B",)], [X7], [X7 + 9]),
    case("sums of groups", lambda m, x, i: jax.ops.segment_sum(x[m], i[m], 5), ["bool[B]", ("B", 3), "i32[B]"], *([m, RNG.random((7, 3), np.float32), np.arange(7, dtype=i32) % 5] for m in MASKS)),
    case("softmax", lambda x: jax.nn.softmax(x[x > 0]), [("B",)], [X7]),
    case("product", lambda m, x, w: x[m] @ w, ["bool[B]", ("B", 3), (3, 5)], *([m, RNG.random((7, 3), np.float32), RNG.random((3, 5), np.float32)] for m in MASKS)),
    case("product over it", lambda m, x, y: x[m] @ y[m], ["bool[B]", ("B",), ("B",)], *([m, X7, X7 - 1] for m in MASKS)),
    case("Gram matrix", lambda m, x: x[m].T @ x[m], ["bool[B]", ("B", 3)], *([m, RNG.random((7, 3), np.float32)] for m in MASKS)),
    case("outer", lambda x: x[x > 0][:, None] - x[x > 0], [("B",)], [X7], [-abs(X7)]),
    case("reshape", lambda m, x: x[m].reshape(-1, 2), ["bool[B]", ("B", 6)], *([m, RNG.random((7, 6), np.float32)] for m in MASKS)),
    case("reshape beside a size", lambda m, x: x[m].reshape(x[m].shape[0], x.shape[1] // 2, 2), ["bool[B]", ("B", "2*C")], *([m, RNG.random((7, 6), np.float32)] for m in MASKS)),
    case("flatten", lambda m, x: x[m].ravel(), ["bool[B]", ("B", 6)], *([m, RNG.random((7, 6), np.float32)] for m in MASKS)),
    case("transposed and split", lambda m, x: x[m].T.reshape(3, 2, -1), ["bool[B]", ("B", 6)], *([m, RNG.random((7, 6), np.float32)] for m in MASKS)),
    case("joined", lambda x: jnp.concatenate([x[x > 0], x[x <= 0], x[:1]]), [("B",)], [X7], [-abs(X7)]),
    case("the first of it", lambda x: x[x > 0][:2], [("B",)], [X7], [-abs(X7)]),
    case("sorted", lambda x: jnp.sort(x[x > 0]), [("B",)], [X7], [-abs(X7)]),
    case("running sum", lambda x: jnp.cumsum(x[x > 0]), [("B",)], [X7], [-abs(X7)]),
    case("zeros", lambda x: jnp.zeros_like(x[x > 0]) + jnp.ones(x[x > 0].shape), [("B",)], [X7], [-abs(X7)]),
    case("mask of a mask", lambda x: x[x > 0][x[x > 0] > 1], [("B",)], [X7], [-abs(X7)]),
    case("take by what was found", lambda x, y: y[jnp.nonzero(x > 0)[0]], [("B",), ("B", 3)], [X7, RNG.random((7, 3), np.float32)]),
    case("normalized", lambda x: (x[x > 0] - x[x > 0].mean()) / (x[x > 0].std() + 1), [("B",)], [X7]),
    case("detections", boxes, [("B",), ("B", 4), ()], [X7, RNG.random((7, 4), np.float32), np.float32(0.25)], [X7, RNG.random((7, 4), np.float32), np.float32(9)]),
    case("position codes", lambda n: jnp.sin(jnp.arange(n)[:, None] / jnp.arange(1.0, 4.0)), ["i32[]"], [i32(5)], [i32(0)]),
    case("causal mask", lambda n: 1 * (jnp.arange(n)[:, None] >= jnp.arange(n)), ["i32[]"], [i32(5)]),
    case("loop over it", lambda x: jax.lax.scan(lambda c, v: (c * 0.5 + v, c), 0.0, x[x > 0]), [("B",)], [X7], [-abs(X7)]),
    # traced sizes, and functions that are a mask or a range underneath
    case("zeros of a count", lambda n: jnp.zeros(n) + jnp.arange(n), ["i32[]"], [i32(5)], [i32(0)]),
    case("filled by counts", lambda n, m, x: (jnp.full((n, 2, m), 7, x.dtype) * x).sum(1), ["i32[]", "i32[]", (2, 1)], [i32(3), i32(5), X53[:2, :1]], [i32(0), i32(5), X53[:2, :1]]),
    case("ones and empty", lambda n: jnp.ones((n, 3)) * jnp.empty(n)[:, None] * 0, ["i32[]"], [i32(5)]),
    case("bincount", lambda x: jnp.bincount(x), ["i32[B]"], [I11], [I11 * 0], [-abs(I11)]),
    case("bincount of a mask", lambda x: jnp.bincount(x[x > 2]), ["i32[B]"], [I11], [I11 * 0]),
    case("bincount with weights", lambda x, w: jnp.bincount(x, w, minlength=9), ["u8[B]", ("B",)], [abs(I11[:7]).astype(u8), X7], [np.zeros(7, u8), X7]),
    case("delete", lambda x, i: jnp.delete(x, i), [("B",), "i32[3]"], [X7, i32([1, -1, 1])], [X7, i32([0, 3, 6])]),
    case("delete a column", lambda x, i: jnp.delete(x, i, axis=1), [("B", 7), "i32[]"], [X7[None] + X53[:, :1], i32(-3)]),
    case("delete by a mask", lambda m, x: jnp.delete(x, m, axis=-1), ["bool[B]", (3, "B")], *([m, RNG.random((3, 7), np.float32)] for m in MASKS)),
    case("trim_zeros", lambda x: jnp.trim_zeros(x), ["i32[B]"], [i32([0, 0, 1, 0, 2, 0])], [i32([0, 0])], [i32([1, 2])]),
    case("trim_zeros in front", lambda x: jnp.trim_zeros(x, "f"), [("B",)], [X7 * (X7 < 0)], [X7 * 0]),
    case("trim_zeros behind", lambda x: jnp.trim_zeros(x, "b"), [("B",)], [X7 * (X7 > 0)], [X7 * 0]),
    case("a flag as index", lambda x, b: x[b] * 2, [("B", 3), "bool[]"], [X53, np.bool_(True)], [X53, np.bool_(False)]),
    case("mapped over it", lambda x: jax.vmap(lambda v: v * v + 1)(x[x > 0]), [("B",)], [X7], [-abs(X7)]),
]  # fmt: skip


def eager(c: Case, data):
    with jax.enable_x64(c.double), jax.default_matmul_precision("float32"):
        return jax.device_get([jnp.asarray(r) for r in jax.tree.leaves(c.fn(*map(jnp.asarray, data)))])


def judge(model, c: Case):
    for data in c.data:
        want = eager(c, data)
        compare(want, outputs(model, data))
        compare(want, outputs(model, data, optimize=True))
        if not any(x.dtype.kind == "V" or x.dtype.kind == "c" for x in data):
            compare(want, list(sardonyx.evaluate(model, data).values()))


@pytest.mark.parametrize("c", CASES, ids=str)
def test_results_are_those_of_jax(c):
    model = sardonyx.to_onnx(c.fn, c.inputs, enable_double_precision=c.double)
    check_structure(model, static=False, f64=c.double)
    if c.ops:
        assert [n.op_type for n in model.graph.node] == c.ops.split()
    judge(model, c)


@pytest.mark.parametrize("c", CASES, ids=str)
def test_without_passes_and_in_the_oldest_opset(c):
    judge(sardonyx.to_onnx(c.fn, c.inputs, enable_double_precision=c.double, passes="none"), c)
    model = sardonyx.to_onnx(c.fn, c.inputs, enable_double_precision=c.double, opset=17)
    onnx.checker.check_model(model, full_check=True)
    judge(model, c)


# The replaced functions
# ----------------------------------------------------------------------------------------------


def test_sizes_have_names_and_are_reported():
    def fn(x, n):
        return x[x > 0], jnp.arange(n), x[x < 0], jnp.unique(x > 0)

    model, report = sardonyx.to_onnx(fn, [("B",), "i32[]"], output_names="positional", return_report=True)
    dims = [o.type.tensor_type.shape.dim[0].dim_param for o in model.graph.output]
    assert dims == ["nonzero_0", "arange_0", "nonzero_1", "unique_0"]
    assert report.data_sizes["nonzero_1"] == "nonzero of bool[B]"


def test_names_of_the_inputs_are_not_taken():
    model = sardonyx.to_onnx(lambda x: x[x > 0], [("nonzero_0",)])
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "nonzero_1"


def test_one_scope_may_be_used_again():
    (b,) = jax.export.symbolic_shape("B")
    spec = jax.ShapeDtypeStruct((b,), jnp.float32)
    for _ in range(2):
        model = sardonyx.to_onnx(lambda x: x[x > 0] * 2, [spec])
        assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "nonzero_0"


def test_nothing_is_kept_from_programs_that_need_no_such_size(monkeypatch):
    from sardonyx._trace.data import shapes as _data_shapes

    monkeypatch.setattr(_data_shapes, "active", None)  # would be called otherwise
    traced = []
    _, report = sardonyx.to_onnx(
        lambda x: traced.append(1) or jnp.nonzero(x, size=3)[0] + jnp.arange(x.shape[0] * 0 + 3),
        [("B",)],
        return_report=True,
    )
    assert traced == [1]
    assert report.data_sizes == {}


def test_the_original_functions_are_put_back():
    from jax._src.export import shape_poly, shape_poly_decision
    from jax._src.numpy import indexing
    from jax._src.ops import scatter

    places = [
        (jnp, "arange"), (jnp, "nonzero"), (jnp, "compress"), (jnp, "unique"), (indexing, "rewriting_take"),
        (scatter, "_scatter_update"), (shape_poly, "_geq_decision"),
        (shape_poly_decision._DecisionByElimination, "add_implicit_constraints_term"),
    ]  # fmt: skip
    before = [getattr(*p) for p in places]
    sardonyx.to_onnx(lambda x: x[x > 0], [("B",)])
    with pytest.raises(sardonyx.Error):
        sardonyx.to_onnx(lambda x: x[x > 0] + x, [("B",)])
    assert [getattr(*p) for p in places] == before


@pytest.mark.parametrize("fn", [jnp.unique, jnp.nonzero, jnp.flatnonzero, jnp.argwhere], ids=lambda f: f.__name__)
def test_the_function_itself_is_exported(fn):
    model = sardonyx.to_onnx(fn, ["i32[B]"])
    compare(fn(I11), outputs(model, [I11]))


def test_part_of_a_function_is_exported():
    model = sardonyx.to_onnx(functools.partial(jnp.compress, axis=1), ["bool[B]", (3, "B")])
    x = RNG.random((3, 7), np.float32)
    compare([x[:, MASK7]], outputs(model, [MASK7, x]))


def test_a_range_of_less_than_nothing_is_empty():
    model = sardonyx.to_onnx(lambda n: jnp.arange(n), ["i32[]"])  # JAX 0.8 itself fails on this
    compare([np.arange(-3, dtype=i32)], outputs(model, [np.asarray(i32(-3))]))


arange_of_mine = jnp.arange  # `from jax.numpy import arange as arange_of_mine`


def test_a_function_imported_under_another_name_is_found():
    model = sardonyx.to_onnx(lambda n: arange_of_mine(n), ["i32[]"])
    assert [n.op_type for n in model.graph.node] == ["Range"]


def test_threads_do_not_see_each_other():
    errors, done = [], []

    def export(i):
        try:
            for _ in range(3):
                m = sardonyx.to_onnx(lambda x: x[x > i] + i, [("B",)])
                done.append([n.op_type for n in m.graph.node])
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=export, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and len(done) == 12 and jnp.nonzero.__module__.startswith("jax")
    assert not hasattr(jnp.nonzero, "__sardonyx_original__")


def test_saved_programs_need_no_python(tmp_path):
    path = sardonyx.save_program(lambda x: jnp.unique(x[x > 0]).sum(), ["i32[B]"], tmp_path / "p.sx")
    text = open(path).read()
    assert "= compress<" in text and "= unique<" in text
    command.sardonyx("convert", path, "-o", tmp_path / "p.onnx")
    found = sardonyx.evaluate(str(tmp_path / "p.onnx"), [I11])
    assert found["output"] == np.unique(I11[I11 > 0]).sum()


def test_saved_programs_know_that_a_size_inside_may_be_zero(tmp_path):
    def fn(m, x):
        return x[m].reshape(-1, x.shape[1] // 2, 2).sum((0, 2))

    path = sardonyx.save_program(fn, ["bool[B]", ("B", "2*C")], tmp_path / "p.sx")
    command.sardonyx("convert", path, "-o", tmp_path / "p.onnx")
    x = RNG.random((7, 6), np.float32)
    for m in MASKS:
        found = outputs(onnx.load(tmp_path / "p.onnx"), [m, x])
        compare([x[m].reshape(-1, 3, 2).sum((0, 2))], found)


# Transformations -------------------------------------------------------------------------------------------------------


def agrees(fn, inputs, *data, **options):
    c = Case(getattr(fn, "__name__", ""), fn, inputs, [[np.asarray(x) for x in d] for d in data])
    model = sardonyx.to_onnx(fn, inputs, **options)
    judge(model, c)
    return model


def test_grad_of_a_mask():
    def loss(m, x, w):
        return jnp.sum(jnp.sin(x[m] @ w) ** 2)

    data = [[m, RNG.random((7, 3), np.float32), RNG.random((3, 2), np.float32)] for m in MASKS]

    def gradient(m, x, w):  # JAX itself, with a known mask
        return jax.grad(loss, argnums=(1, 2))(m, x, w)

    model = sardonyx.to_onnx(gradient, ["bool[B]", ("B", 3), (3, 2)])
    for d in data:
        compare(jax.grad(loss, argnums=(1, 2))(*d), outputs(model, d))
        compare(jax.grad(loss, argnums=(1, 2))(*d), list(sardonyx.evaluate(model, d).values()))


@pytest.mark.parametrize("transform", [jax.jit, jax.checkpoint, jax.remat])
def test_grad_through_a_call(transform):
    def loss(x):
        return jnp.sum(transform(lambda x: jnp.exp(x[x > 0]) * 2)(x))

    model = sardonyx.to_onnx(jax.grad(loss), [("B",)])
    for x in (X7, -abs(X7)):
        want = np.where(x > 0, 2 * np.exp(x), 0).astype(np.float32)
        compare([want], outputs(model, [x]))


def test_jvp_and_jacobian_rows():
    def fn(x):
        return jax.jvp(lambda x: x[x > 0] ** 2, (x,), (jnp.ones_like(x),))[1]

    model = sardonyx.to_onnx(fn, [("B",)])
    compare([2 * X7[X7 > 0]], outputs(model, [X7]))


def test_grad_of_a_range_is_that_of_known_numbers():
    def fn(x, n):
        return jax.grad(lambda x: jnp.sum(jnp.arange(n) * x))(x)

    agrees(fn, ["f32[]", "i32[]"], [np.float32(2), i32(5)], [np.float32(2), i32(0)])


def test_vmap_with_one_mask_for_all():
    def fn(m, x):
        return jax.vmap(lambda row: row[m] * 2)(x), jax.vmap(lambda c: c[m], 1, 1)(x.T)

    agrees(fn, ["bool[B]", (3, "B")], *([m, RNG.random((3, 7), np.float32)] for m in MASKS))


@pytest.mark.parametrize(
    "fn",
    [lambda x: x[x > 0], lambda x: jnp.nonzero(x), lambda x: jnp.unique(x.astype(int)), lambda x: jnp.arange(x[0])],
)
def test_vmap_over_what_decides_the_size_is_an_error(fn):
    with pytest.raises(sardonyx.Error, match="each example would have a size of its own"):
        sardonyx.to_onnx(jax.vmap(fn), [("B", 5)])


def test_a_jitted_function_that_is_called_twice_has_two_sizes():
    @jax.jit
    def positive(x):
        return x[x > 0]

    def fn(x, y):
        return positive(x), positive(y), positive(x).sum() + positive(y).sum()

    model = sardonyx.to_onnx(fn, [("B",), ("B",)])
    dims = [o.type.tensor_type.shape.dim[0].dim_param for o in model.graph.output[:2]]
    assert len(set(dims)) == 2
    x, y = X7, -X7
    compare([x[x > 0], y[y > 0], x[x > 0].sum() + y[y > 0].sum()], outputs(model, [x, y]))


def test_two_exports_of_a_jitted_function_do_not_share_symbols():
    @jax.jit
    def positive(x):
        return x[x > 0]

    for _ in range(2):
        _, report = sardonyx.to_onnx(lambda x: positive(x) * 2, [(7,)], return_report=True)
        assert list(report.data_sizes) == ["nonzero_0"]


def test_sizes_of_different_arrays_do_not_fit():
    with pytest.raises(sardonyx.Error, match="does not trace: NonConcreteBooleanIndexError: Array boolean") as e:
        sardonyx.to_onnx(lambda x, y: x[x > 0] + y[y > 0], [("B",), ("B",)])
    assert "nonzero_1" not in e.value.message
    assert "it stops at test_data_shapes.py" in e.value.notes[2] and "nonzero_1" in e.value.notes[2]
    assert e.value.notes[3] == "nonzero_0 (nonzero of bool[B]) and nonzero_1 (nonzero of bool[B]) depend on data"


def test_branches():
    def fn(p, x):
        return jax.lax.cond(p > 0, lambda x: x[x > 0].sum() / x[x > 0].shape[0], lambda x: x[x < 0].sum(), x)

    model = sardonyx.to_onnx(fn, [(), ("B",)])
    found = X7[X7 > 0]
    compare([found.sum() / found.size], outputs(model, [np.asarray(np.float32(1)), X7]))
    compare([X7[X7 < 0].sum()], outputs(model, [np.asarray(np.float32(-1)), X7]))

    def same_mask(p, m, x):
        return jax.lax.cond(p > 0, lambda x: x[m] * 2, lambda x: x[m], x) + x[m]

    model = sardonyx.to_onnx(same_mask, [(), "bool[B]", ("B",)])
    for p in (1, -1):
        for m in MASKS:
            compare([X7[m] * (3 if p > 0 else 2)], outputs(model, [np.asarray(np.float32(p)), m, X7]))


def test_loops():
    def fn(x):
        def step(c, row):
            found = row[row > c]
            return c + found.sum() / (1 + jnp.maximum(found.shape[0], 1)), jnp.sum(row > 0)

        return jax.lax.scan(step, jnp.float32(0), x)

    data = RNG.standard_normal((5, 7)).astype(np.float32)
    model = sardonyx.to_onnx(fn, [("A", "B")])

    def plain(x):
        c, ys = np.float32(0), []
        for row in x:
            found = row[row > c]
            c = np.float32(c + found.sum() / np.float32(1 + max(found.size, 1)))
            ys.append(np.int32((row > 0).sum()))
        return [c, np.array(ys)]

    compare(plain(data), outputs(model, [data]))
    compare(plain(data), list(sardonyx.evaluate(model, [data]).values()))


def test_what_differs_from_step_to_step_is_not_stacked():
    with pytest.raises(sardonyx.Error, match="differs from step to step") as e:
        sardonyx.to_onnx(lambda x: jax.lax.map(lambda row: row[row > 0], x), [("A", "B")])
    assert e.value.code == "unsupported"


def test_what_is_the_same_in_all_steps_is_stacked():
    def fn(m, x):
        return jax.lax.map(lambda row: row[m] + 1, x)

    model = sardonyx.to_onnx(fn, ["bool[B]", (3, "B")])
    x = RNG.random((3, 7), np.float32)
    for m in (MASK7, ALL7):
        compare([x[:, m] + 1], outputs(model, [m, x]))


def test_functions_of_the_model():
    @sardonyx.onnx_function
    def positive(x):
        return x[x > 0] * 2

    def fn(x, y):
        return positive(x), positive(y) + 1

    model = sardonyx.to_onnx(fn, [("B",), ("B",)])
    assert len(model.functions) == 2
    compare([X7[X7 > 0] * 2, -X7[X7 < 0] * 2 + 1], outputs(model, [X7, -X7]))


# Refusals
# --------------------------------------------------------------------------------------------------------------


def test_vander_of_a_value():
    # JAX itself does not accept an array for N.
    model = sardonyx.to_onnx(lambda x, n: jnp.vander(x, n), [("B",), "i32[]"])
    for n in (3, 1, 0):
        compare([jnp.vander(X7, n)], outputs(model, [X7, np.asarray(i32(n))]))


def test_a_mask_that_does_not_fit_the_indices_beside_it_stops_the_model():
    x, i = RNG.random((7, 3), np.float32), i32([0, 2, 1])
    model = sardonyx.to_onnx(lambda m, x, i: x[m, i], ["bool[B]", ("B", 3), "i32[3]"])
    for mask in (~MASK7, ALL7, NONE7):
        with pytest.raises(Exception, match="invalid expand shape"):
            outputs(model, [mask, x, i])


def test_wrong_shapes_are_errors_as_in_jax():
    with pytest.raises(sardonyx.Error, match="boolean index did not match"):
        sardonyx.to_onnx(lambda m, x: x[m], ["bool[5]", (7,)])
    with pytest.raises(sardonyx.Error, match="condition"):
        sardonyx.to_onnx(lambda m, x: jnp.compress(m, x), ["bool[3,3]", (7,)])
    with pytest.raises(sardonyx.Error, match="does not trace"):
        sardonyx.to_onnx(lambda m, x: jnp.compress(m, x), ["bool[9]", (7,)])  # entries beyond the end may be true


def test_what_is_not_understood_goes_to_the_original():
    with pytest.raises(sardonyx.Error, match="does not trace: .*unexpected keyword"):
        sardonyx.to_onnx(lambda x: jnp.nonzero(x, shape=3), [(7,)])
    with pytest.raises(sardonyx.Error, match="does not trace"):
        sardonyx.to_onnx(lambda n, x: x[::n], ["i32[]", (7,)])
    with pytest.raises(sardonyx.Error, match="does not trace"):
        sardonyx.to_onnx(lambda n: jnp.zeros(n), ["f32[]"])
    for fn in (
        jnp.indices,
        jnp.hanning,
        jnp.diag_indices,
        lambda n: jnp.geomspace(1, 2, n),
        lambda n: jnp.vander(X7, n),
    ):
        with pytest.raises(sardonyx.Error, match="does not trace"):
            sardonyx.to_onnx(fn, ["f32[]"])
    with pytest.raises(sardonyx.Error, match="does not trace"):
        sardonyx.to_onnx(lambda n: jnp.indices((n, 2.5)), ["i32[]"])
    with pytest.raises(sardonyx.Error, match="does not trace"):  # which one is longer is unknown
        sardonyx.to_onnx(lambda x, k: jnp.convolve(x, k, "same"), [("B",), (3,)])
    with pytest.raises(sardonyx.Error, match="does not trace"):
        sardonyx.to_onnx(lambda x: jnp.bincount(x), [(7,)])
    with pytest.raises(sardonyx.Error, match="does not trace"):
        sardonyx.to_onnx(lambda x: jnp.trim_zeros(x, axis=5), [(7, 3)])
    with pytest.raises(sardonyx.Error, match="does not trace"):
        sardonyx.to_onnx(lambda m, x: jnp.delete(x, m), ["bool[5]", (7,)])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[x > 0].sum() / max(x[x > 0].shape[0], 1),
        lambda x: x[x > 0] if x[x > 0].shape[0] > 0 else x,
        lambda x: x if x[x > 0].shape[0] == 0 else x[x > 0],
        lambda x: x if not x[x > 0].size else x[x > 0],
        lambda x: x if x[x > 0].shape != (3,) else x[x > 0],
    ],
)
def test_python_cannot_ask_how_many_there_are(fn):
    with pytest.raises(sardonyx.Error, match="inconclusive") as e:
        sardonyx.to_onnx(fn, [("B",)])
    assert "nonzero_0 (nonzero of bool[B]) depends on data and may be 0" in str(e.value)


def test_python_may_ask_what_is_certain():
    def fn(x):
        n = x[x > 0].shape[0]
        return jnp.float32((n >= 0) + 10 * (n == -1) + 100 * (n + 1 > 0)) + x

    compare([np.float32(101) + X7], outputs(sardonyx.to_onnx(fn, [("B",)]), [X7]))


def test_a_flag_is_still_baked_in():
    def fn(x, *, deterministic, count):
        return x[x > 0] * (1 if deterministic else 2) + jnp.arange(count)[:1].sum()

    with pytest.warns(UserWarning, match="deterministic=True"):
        sardonyx.to_onnx(fn, [("B",)], {"deterministic": True, "count": 3})


def test_a_plugin_of_the_user_comes_first():
    from sardonyx import plugins

    @sardonyx.lowering("compress")
    def lower_compress(ctx, eqn):
        x, mask = (ctx.get_value_for_var(v) for v in eqn.invars)
        rows = ctx.builder.Transpose(ctx.builder.NonZero(mask))
        return ctx.builder.GatherND(x, rows)

    try:
        model = sardonyx.to_onnx(lambda x: x[x > 0] * 2, [("B",)])
        assert "GatherND" in [n.op_type for n in model.graph.node]
        compare([X7[X7 > 0] * 2], outputs(model, [X7]))
    finally:
        plugins.unregister("compress")


def test_the_result_type_of_a_file_keeps_the_symbol(tmp_path):
    model = sardonyx.to_onnx(lambda x: jnp.maximum(x[x > 0].shape[0], 1) + 0 * x[x > 0], [("B",)])
    again = sardonyx.optimize(model)
    for x in (X7, -abs(X7)):
        compare(outputs(model, [x]), outputs(again, [x]))
    assert re.fullmatch(r"nonzero_\d", again.graph.output[0].type.tensor_type.shape.dim[0].dim_param)
