"""Attention under every form of mask: onnxruntime loads what is written, and gives JAX's results, also in rows that see nothing.

Those are the mean over all keys where a finite number was put, and NaN where -inf was. Many forms are one program here, since a session costs
more than running it.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from judge import NEWEST_OPSET, outputs

B, H, T, S, D = 2, 6, 5, 7, 8
SHAPES = {
    "S": (S,),
    "1S": (1, S),
    "TS": (T, S),
    "111S": (1, 1, 1, S),
    "B11S": (B, 1, 1, S),
    "BH1S": (B, H, 1, S),
    "11TS": (1, 1, T, S),
    "B1TS": (B, 1, T, S),
    "BHTS": (B, H, T, S),
}
# Large numbers that swamp scores of f32 when added; -1e4 only replaces them.
FILLS = {"-1e10": -1e10, "-1e4": -1e4, "lowest": "lowest", "-inf": -jnp.inf}
WAYS = ("where", "added", "given")
TOLERANCE = {jnp.float32: 4e-6, jnp.float16: 4e-3, jnp.bfloat16: 3e-2}


def attend(q, k, v, mask=None, fill=None, added=False):
    """[B,T,H,D] x [B,S,K,D] -> [B,T,H,D], as Flax writes it; keys that are shared are repeated."""
    k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1]).astype(q.dtype)
    if mask is not None and fill is None:
        scores = scores + mask
    elif mask is not None and added:
        scores = scores + jnp.where(mask, 0, fill).astype(q.dtype)
    elif mask is not None:
        scores = jnp.where(mask, scores, jnp.asarray(fill, q.dtype))
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, axis=-1), v)


def _fill(name, dtype):
    fill = FILLS[name]
    if fill == "lowest":
        return float(jnp.finfo(dtype).min)
    return max(fill, -3e4) if dtype == jnp.float16 and fill > -jnp.inf else fill


def _operands(rng, dtype, queries, kv_heads, keys=S):
    sizes = ((B, queries, H, D), (B, keys, kv_heads, D), (B, keys, kv_heads, D))
    return [jnp.asarray(rng.standard_normal(s), dtype) for s in sizes]


def _check(model, inputs, expected, names, tolerance):
    onnx.checker.check_model(model)
    for optimize in (False, True):
        found = outputs(model, [np.asarray(x) for x in inputs], optimize)
        for name, y, want in zip(names, found, expected, strict=True):
            y, want = np.asarray(y, np.float64), np.asarray(want, np.float64)
            assert np.array_equal(np.isnan(y), np.isnan(want)), f"{name}: NaN elsewhere"
            off = np.nanmax(np.abs(y - want), initial=0)
            assert off <= tolerance * max(1, np.nanmax(np.abs(want), initial=0)), f"{name}: off by {off}"


def _count(model, op):
    return sum(n.op_type == op for n in model.graph.node)


def _program(dtype, queries):
    """One function of q, k, v and all masks; what each of its results is called; the masks, one row of which sees nothing."""
    rng = np.random.default_rng(7)
    masks, calls, names = {}, [], []
    for shape, way, fill in itertools.product(SHAPES, WAYS, FILLS):
        # XLA adds in f32 and rounds later; the file adds in f16.
        if way != "where" and (fill == "-1e4" or dtype != jnp.float32):
            continue
        sizes = tuple(queries if n == T else n for n in SHAPES[shape])
        if "T" in shape and queries == 1 and sizes in [SHAPES[s] for s in SHAPES if "T" not in s]:
            continue
        if shape not in masks:
            sees = rng.random(sizes) < 0.6
            sees.reshape(-1, S)[-1] = False
            masks[shape] = jnp.asarray(sees)
        at = shape
        if way == "given":
            at = f"{shape} {fill}"
            masks[at] = jnp.where(masks[shape], 0, _fill(fill, dtype)).astype(dtype)
        calls.append((at, None if way == "given" else _fill(fill, dtype), way == "added"))
        names.append(f"{shape} {way} {fill}")
    order = list(masks)

    def f(q, k, v, *given):
        return tuple(
            attend(q + i, k, v, given[order.index(at)], fill, added)  # no two products are the same
            for i, (at, fill, added) in zip(np.linspace(0, 1, len(calls)), calls, strict=True)
        )

    return f, names, list(masks.values())


def _export(f, inputs, opset, **options):
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    return sardonyx.to_onnx(f, specs, opset=opset, return_mode="proto", **options)


@pytest.mark.parametrize(
    ("dtype", "kv_heads", "queries", "opset"),
    [
        (jnp.float32, H, T, 22),
        (jnp.float32, H, T, 23),
        (jnp.float32, 2, T, 23),
        (jnp.float32, 1, 1, 23),
        (jnp.float32, 2, 1, 24),
        (jnp.float32, H, T, 25),
        (jnp.float32, 2, T, 26),
        (jnp.float32, H, T, 28),
        (jnp.float16, H, T, 23),
        (jnp.bfloat16, H, 1, 23),
    ],
)
def test_every_form_of_mask(dtype, kv_heads, queries, opset):
    if opset > NEWEST_OPSET:
        pytest.skip("the installed onnxruntime loads no such opset")
    f, names, masks = _program(dtype, queries)
    inputs = [*_operands(np.random.default_rng(3), dtype, queries, kv_heads), *masks]
    expected = jax.jit(f)(*inputs)
    model = _export(f, inputs, opset)
    fused = _count(model, "Attention")
    if dtype == jnp.float32 and opset in (23, 24):
        # Finite fills, except those in a given mask.
        assert fused == sum(("given" not in n) and ("-inf" not in n) for n in names)
    elif dtype == jnp.float32:
        assert fused == 0
    _check(model, inputs, expected, names, TOLERANCE[dtype])
    if opset == 22:
        _check(sardonyx.optimize(model, opset=23), inputs, expected, names, TOLERANCE[dtype])


def _causal(form, q, k, pad):
    n, m = q.shape[1], k.shape[1]
    if form == "iota":
        return jnp.arange(n)[:, None] >= jnp.arange(m)
    if form == "tril":
        return jnp.tril(jnp.ones((n, m), bool))
    if form == "ahead":  # the fully masked rows come first
        return jnp.arange(n)[:, None] > jnp.arange(m)
    return jnp.tril(jnp.ones((n, m), bool)) & pad


@pytest.mark.parametrize(("kv_heads", "keys", "opset"), [(H, T, 23), (2, T, 24), (H, S, 23)])
def test_causal_masks(kv_heads, keys, opset):
    if opset > NEWEST_OPSET:
        pytest.skip("the installed onnxruntime loads no such opset")
    forms = list(itertools.product(("iota", "tril", "ahead", "padded"), ("-1e10", "lowest", "-inf"), (False, True)))
    names = [" ".join(map(str, form)) for form in forms] + ["is_causal", "is_causal and mask"]
    pad = jnp.asarray(np.random.default_rng(5).random((B, 1, 1, keys)) < 0.6).at[0].set(False)

    def f(q, k, v, pad):
        ys = [
            attend(q + i / 16, k, v, _causal(form, q, k, pad), _fill(fill, q.dtype), added)
            for i, (form, fill, added) in enumerate(forms)
        ]
        return (
            *ys,
            jax.nn.dot_product_attention(q, k, v, is_causal=True),
            jax.nn.dot_product_attention(q, k, v, is_causal=True, mask=pad),
        )

    inputs = [*_operands(np.random.default_rng(3), jnp.float32, T, kv_heads, keys), pad]
    expected = jax.jit(f)(*inputs)
    _check(_export(f, inputs, opset), inputs, expected, names, 4e-6)


def test_sizes_that_are_not_known():
    def f(q, k, v, pad, rows):
        return attend(q, k, v, pad, -1e9), attend(q + 1, k, v, rows, -1e9), attend(q + 2, k, v, pad[0, 0, 0], -1e9)

    b, t, s = jax.export.symbolic_shape("b, t, s")
    shapes = [
        ((b, t, H, D), "f4"),
        ((b, s, 2, D), "f4"),
        ((b, s, 2, D), "f4"),
        ((b, 1, 1, s), bool),
        ((b, 1, t, s), bool),
    ]
    model = sardonyx.to_onnx(f, [jax.ShapeDtypeStruct(x, d) for x, d in shapes], return_mode="proto")
    assert _count(model, "Attention") == 3
    rng = np.random.default_rng(1)
    for sizes in ((2, 5, 7), (3, 1, 11), (1, 1, 1)):
        numbers = dict(zip("bts", sizes, strict=True))
        inputs = []
        for shape, d in shapes:
            x = rng.standard_normal([numbers.get(str(n), n) for n in shape])
            inputs.append(jnp.asarray(x > 0.3 if d is bool else x, d))
        _check(model, inputs, jax.jit(f)(*inputs), ("pad", "rows", "row"), 4e-6)
