"""Functions of 8-bit floats. The graph computes in f32 and rounds once, which is compared with JAX on every
number of the dtype.

XLA on a CPU computes them in f16, or in several steps of the small dtype; its results are off by one unit for
some numbers.
"""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import sardonyx
from jax import lax
from judge import RUNTIME, outputs
from primitives.table import NARROW

FLOATS = ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz")
FUNCTIONS = """
acos acosh asin asinh atan atanh cbrt cos cosh erf erf_inv erfc exp exp2 expm1 log log1p logistic rsqrt sin sinh tan tanh
""".split()


def codes(dtype: str) -> np.ndarray:
    return np.arange(256, dtype=np.uint8).view(NARROW[dtype])


def rounded(x: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """The values of the dtype that x, accurate to a few units in its last place, may round to: it may be near
    a midpoint."""
    return tuple((x * np.float32(f)).astype(NARROW[dtype]).astype(np.float32) for f in (1 - 1e-6, 1 + 1e-6))


@pytest.mark.skipif(RUNTIME < (1, 24), reason="this onnxruntime has erf of NaN as 1")
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_round_once(dtype: str):
    x = codes(dtype)
    fns = [getattr(lax, name) for name in FUNCTIONS]
    model = sardonyx.to_onnx(lambda v: [f(v) for f in fns], [jax.ShapeDtypeStruct(x.shape, x.dtype)])
    found = outputs(model, [x])
    for name, f, got in zip(FUNCTIONS, fns, found, strict=True):
        assert got.dtype == x.dtype
        low, high = rounded(np.asarray(f(jnp.asarray(x.astype(np.float32)))), dtype)
        got = got.astype(np.float32)
        same = (np.isnan(got) & np.isnan(low)) | ((got == low) | (got == high))
        assert same.all(), f"{name}: {x[~same][:3]} gives {got[~same][:3]}, not {low[~same][:3]}"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_functions_of_two_round_once(name: str, dtype: str):
    x, y = codes(dtype).repeat(256), np.tile(codes(dtype), 256)
    f = getattr(lax, name)
    model = sardonyx.to_onnx(f, [jax.ShapeDtypeStruct(x.shape, x.dtype)] * 2)
    (got,) = outputs(model, [x, y])
    low, high = rounded(np.asarray(f(jnp.asarray(x.astype(np.float32)), jnp.asarray(y.astype(np.float32)))), dtype)
    got = got.astype(np.float32)
    same = (np.isnan(got) & np.isnan(low)) | ((got == low) | (got == high))
    assert same.all(), f"{(~same).sum()}: {x[~same][:3]}, {y[~same][:3]} give {got[~same][:3]}, not {low[~same][:3]}"


@pytest.mark.parametrize("dtype", ["f8e8m0", "f4e2m1", "i2", "u2"])
def test_the_rarest_types(dtype: str):
    """Runs on the evaluator, with the opset that has these dtypes, since onnxruntime has few kernels for
    them."""
    t = NARROW[dtype]
    if dtype[0] == "f":
        # Keep products of the former above f32's subnormal numbers, which XLA flushes to zero and turns into
        # NaN.
        x = (np.arange(70, 180) if dtype == "f8e8m0" else np.arange(16)).astype(np.uint8).view(t)
        fns = [
            lambda v, w: v * w,
            lambda v, w: v / w,
            lambda v, w: lax.max(v, w),
            lambda v, w: v < w,
            lambda v, w: jnp.concatenate([v, w]),
        ]
    else:
        x = np.arange(4, dtype=np.uint8).astype(t)
        fns = [lax.add, lax.sub, lax.mul, lax.max, lax.lt, lax.bitwise_xor, lax.shift_left, lax.shift_right_logical]
    a, b = x.repeat(len(x)), np.tile(x, len(x))
    model = sardonyx.to_onnx(lambda v, w: [f(v, w) for f in fns], [jax.ShapeDtypeStruct(a.shape, t)] * 2, opset=25)
    found = list(sardonyx.evaluate(model, [a, b]).values())
    for n, (f, got) in enumerate(zip(fns, found, strict=True)):
        want = np.asarray(f(jnp.asarray(a), jnp.asarray(b)))
        assert got.dtype == want.dtype
        g, w = got.astype(np.float32), want.astype(np.float32)
        wrong = np.flatnonzero(~((g == w) | (np.isnan(g) & np.isnan(w))))
        where = [f"{v}, {w}" for v, w in zip(a[wrong[:3] % len(a)], b[wrong[:3] % len(b)], strict=True)]
        assert not wrong.size, f"{n}: {wrong.size} differ, at {where}: {got[wrong[:3]]}, not {want[wrong[:3]]}"


@pytest.mark.parametrize("dtype", ["f8e8m0", "f4e2m1", "i2", "u2"])
def test_bits_of_the_rarest_types(dtype: str):
    """As bytes, and back from them, code by code."""
    t = NARROW[dtype]
    bits = {"f8e8m0": 8, "f4e2m1": 4}.get(dtype, 2)
    whole = jnp.uint8 if bits == 8 else getattr(jnp, f"uint{bits}")
    of_bits = np.arange(2**bits, dtype=np.uint8)
    x = of_bits.view(t) if dtype[0] == "f" else of_bits.astype(t)

    def there_and_back(v):
        unsigned = lax.bitcast_convert_type(v, whole)
        return unsigned.astype(jnp.int32), lax.bitcast_convert_type(unsigned, t)

    model = sardonyx.to_onnx(there_and_back, [jax.ShapeDtypeStruct(x.shape, t)], opset=25)
    codes, back = sardonyx.evaluate(model, [x]).values()
    assert codes.tolist() == of_bits.tolist()
    assert back.dtype == x.dtype
    assert back.astype(np.float32).tobytes() == x.astype(np.float32).tobytes()


def test_tokens_leave_nothing():
    """A token orders effects, of which a model has none."""
    graph = sardonyx.to_onnx(lambda x: (lax.create_token(x), x + 1)[1], [jax.ShapeDtypeStruct((3,), np.float32)])
    assert [n.op_type for n in graph.graph.node] == ["Add"]


@pytest.mark.parametrize("dtype", ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float6_e2m3fn", "int1"])
def test_types_that_onnx_lacks_are_named(dtype: str):
    if not hasattr(ml_dtypes, dtype):
        pytest.skip("this ml_dtypes has no such type")
    spec = jax.ShapeDtypeStruct((3,), np.dtype(getattr(ml_dtypes, dtype)))
    with pytest.raises(sardonyx.Error, match=f"'{dtype}'.*ONNX has no such element type"):
        sardonyx.to_onnx(lambda x: x, [spec])
