"""Products, convolutions, gathers and scatters with parameters drawn at random, beyond what jax.numpy ever emits.

Every draw has a seed of its own, which a failing test names; what JAX itself refuses is drawn again.
"""

import math
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sardonyx
from jax import lax
from judge import compare, outputs

SIZES = (2, 3, 5, 7)
DRAWS = 25


class Draw:
    """One random case: a function of its inputs."""

    def __init__(self, seed: int):
        self.choose = random.Random(seed)
        self.numbers = np.random.default_rng(seed)

    def some(self, least: int, most: int, values) -> list:
        return [self.choose.choice(values) for _ in range(self.choose.randint(least, most))]

    def array(self, shape, dtype=np.float32) -> np.ndarray:
        scale = 1 if np.issubdtype(dtype, np.floating) else 9
        return np.asarray(self.numbers.standard_normal(shape) * scale).astype(dtype)


def dot_general(draw: Draw):
    batch, contract = draw.some(0, 2, SIZES), draw.some(0, 2, SIZES)
    shared = [("b", i, n) for i, n in enumerate(batch)] + [("c", i, n) for i, n in enumerate(contract)]
    sides = [shared + [("f", i, n) for i, n in enumerate(draw.some(0, 2, SIZES))] for _ in range(2)]
    for side in sides:
        draw.choose.shuffle(side)

    def places(kind, count):
        return tuple(
            tuple(next(p for p, axis in enumerate(side) if axis[:2] == (kind, i)) for i in range(count))
            for side in sides
        )

    numbers = (places("c", len(contract)), places("b", len(batch)))
    dtype = draw.choose.choice([np.float32, np.float32, np.int32, np.int8, np.float16])
    inputs = [draw.array([n for _, _, n in side], dtype) for side in sides]
    return lambda x, y: lax.dot_general(x, y, numbers), inputs


def conv_general_dilated(draw: Draw):
    rank = draw.choose.choice([1, 2, 2, 3])
    groups = draw.choose.choice([1, 1, 2, 3])
    batch_groups = draw.choose.choice([1, 1, 1, 2]) if groups == 1 else 1
    spatial = "WHD"[:rank]
    x = {a: draw.choose.randint(3, 9) for a in spatial}
    w = {a: draw.choose.randint(1, 3) for a in spatial}
    x |= {"N": draw.choose.choice([1, 3]) * batch_groups, "C": draw.choose.choice([2, 3]) * groups}
    w |= {"O": draw.choose.choice([1, 2]) * groups * batch_groups, "I": x["C"] // groups}
    strides, x_dilation, w_dilation = ([draw.choose.choice([1, 1, 2, 3]) for _ in spatial] for _ in range(3))
    padding = [(draw.choose.randint(-2, 4), draw.choose.randint(-2, 4)) for _ in spatial]
    layouts = ["".join(draw.choose.sample(axes + spatial, rank + 2)) for axes in ("NC", "OI", "NC")]
    inputs = [draw.array([x[a] for a in layouts[0]]), draw.array([w[a] for a in layouts[1]])]

    def fn(x, w):
        return lax.conv_general_dilated(
            x, w, strides, padding, x_dilation, w_dilation, tuple(layouts), groups, batch_groups
        )

    return fn, inputs


class Indexing:
    """Shared by gather and scatter: an operand, indices, windows, and the dimension numbers that connect
    them."""

    def __init__(self, draw: Draw, least_components: int):
        self.shape = draw.some(1, 4, SIZES)
        rank = len(self.shape)
        axes = draw.choose.sample(range(rank), rank)
        self.batching = sorted(axes[: draw.choose.randint(0, 1)]) if rank > 1 else []
        rest = [a for a in range(rank) if a not in self.batching]
        self.map = draw.choose.sample(rest, draw.choose.randint(min(least_components, len(rest)), len(rest)))
        self.window = [
            1 if a in self.batching else draw.choose.randint(1, n) if a in self.map else n
            for a, n in enumerate(self.shape)
        ]
        self.collapsed = [a for a in rest if self.window[a] == 1 and draw.choose.random() < 0.6]
        lead = [self.shape[a] for a in self.batching] + draw.some(0, 2, SIZES)
        order = draw.choose.sample(range(len(lead)), len(lead))
        self.index_batching = [order.index(i) for i in range(len(self.batching))]
        self.lead = [lead[i] for i in order]
        self.offset = [a for a in rest if a not in self.collapsed]
        result_rank = len(self.lead) + len(self.offset)
        self.offset_dims = sorted(draw.choose.sample(range(result_rank), len(self.offset)))
        self.mode = draw.choose.choice(["clip", "fill", "promise_in_bounds"])
        slack = 0 if self.mode == "promise_in_bounds" else 3
        columns = [
            draw.numbers.integers(-slack, self.shape[a] - self.window[a] + 1 + slack, self.lead) for a in self.map
        ]
        self.indices = np.stack(columns, -1) if columns else np.zeros([*self.lead, 0])
        self.indices = self.indices.astype(np.int32)
        self.dtype = draw.choose.choice([np.float32, np.float32, np.int32])

    def numbers(self, kind):
        parts = (self.offset_dims, self.collapsed, self.map, self.batching, self.index_batching)
        return kind(*map(tuple, parts))


def gather(draw: Draw):
    ix = Indexing(draw, 0)
    numbers = ix.numbers(lax.GatherDimensionNumbers)
    inputs = [draw.array(ix.shape, ix.dtype), ix.indices]
    return lambda x, i: lax.gather(x, i, numbers, tuple(ix.window), mode=ix.mode), inputs


def scatter(draw: Draw):
    ix = Indexing(draw, 1)
    numbers = ix.numbers(lax.ScatterDimensionNumbers)
    shape, lead = [], iter(ix.lead)
    for place in range(len(ix.lead) + len(ix.offset)):
        inside = place in ix.offset_dims
        shape.append(ix.window[ix.offset[ix.offset_dims.index(place)]] if inside else next(lead))
    kinds = [lax.scatter_add, lax.scatter_mul, lax.scatter_max, lax.scatter_min]
    # JAX does not define which of several updates of one element wins.
    if math.prod(ix.lead) == 1:
        kinds.append(lax.scatter)
    kind = draw.choose.choice(kinds)
    inputs = [draw.array(ix.shape, ix.dtype), ix.indices, draw.array(shape, ix.dtype)]
    return lambda x, i, u: kind(x, i, u, numbers, mode=ix.mode), inputs


def draw_case(make, seed: int):
    """The first draw from `seed` on that JAX accepts, and JAX's result for it."""
    while True:
        fn, inputs = make(Draw(seed))
        try:
            return fn, inputs, np.asarray(fn(*map(jnp.asarray, inputs)))
        except (TypeError, ValueError):
            seed += 100_000


@pytest.mark.parametrize("make", [dot_general, conv_general_dilated, gather, scatter], ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", range(DRAWS))
def test_draw(make, seed):
    fn, inputs, expected = draw_case(make, seed)
    model = sardonyx.to_onnx(fn, [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in inputs])
    compare([expected], outputs(model, inputs))
