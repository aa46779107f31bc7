"""One value in, one value out: arithmetic, comparison, logic, conversion."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .table import DTYPES, Arg, Table, full

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()
add = TABLE.add

# Every unary function of floats on a domain where it is finite and not flat.
UNARY = {
    "neg": (-3, 3),
    "sign": (-3, 3),
    "floor": (-3, 3),
    "ceil": (-3, 3),
    "abs": (-3, 3),
    "square": (-3, 3),
    "exp": (-3, 3),
    "exp2": (-3, 3),
    "expm1": (-3, 3),
    "log": (0.1, 9),
    "log1p": (-0.9, 9),
    "sqrt": (0.1, 9),
    "rsqrt": (0.1, 9),
    "cbrt": (-9, 9),
    "tanh": (-3, 3),
    "logistic": (-7, 7),
    "sin": (-7, 7),
    "cos": (-7, 7),
    "tan": (-1.4, 1.4),
    "asin": (-0.98, 0.98),
    "acos": (-0.98, 0.98),
    "atan": (-7, 7),
    "sinh": (-3, 3),
    "cosh": (-3, 3),
    "asinh": (-7, 7),
    "acosh": (1.1, 9),
    "atanh": (-0.95, 0.95),
    "erf": (-3, 3),
    "erfc": (-3, 3),
    "erf_inv": (-0.98, 0.98),
}
for op, (low, high) in UNARY.items():
    fn = getattr(lax, op)
    add(op, fn, Arg("f32[B,31]", low, high), covers=op)
    add(f"{op} static", fn, Arg("f32[2,3,31]", low, high), covers=op)
    add(f"{op} scalar", fn, Arg("f32[]", low, high), covers=op)
for op in ("neg", "abs", "exp", "tanh", "logistic", "sqrt", "floor", "erf", "sin"):
    low, high = UNARY[op]
    for dtype in ("f16", "bf16"):
        add(f"{op} {dtype}", getattr(lax, op), Arg(f"{dtype}[5,7]", low, high), covers=op)
    add(f"{op} f64", getattr(lax, op), Arg("f64[5,7]", low, high), covers=op, x64=True)

# NaN, infinities, signed zeros and extreme values.
EDGE = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 3e38, -3e38)
for op in ("neg", "sign", "floor", "ceil", "abs", "square", "sqrt", "rsqrt", "exp", "log", "log1p", "expm1", "tanh"):
    add(f"{op} at the edges", getattr(lax, op), Arg("f32[12]", values=EDGE), covers=op)
for op in ("logistic", "erf", "erfc", "atan", "asinh", "cbrt", "is_finite"):
    add(f"{op} at the edges", getattr(lax, op), Arg("f32[12]", values=EDGE), covers=op)
SMALL = (1e-8, -1e-8, 1e-5, -1e-5, 1e-3, -1e-3, 1e-20)
for op in ("expm1", "log1p", "sinh", "asinh", "atanh", "erf", "tanh"):
    # Near zero each of these is its argument: the naive formula loses every digit.
    add(f"{op} near zero", lambda x, op=op: getattr(lax, op)(x) / x, Arg("f32[7]", values=SMALL), covers=op)
add("erfc far out", lambda x: lax.log(lax.erfc(x)), Arg("f32[6]", values=(1.0, 2.0, 4.0, 6.0, 8.0, 9.0)), covers="erfc")

add("round away", lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    Arg("f32[B,8]", values=(0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 3.7, -3.2)), covers="round")
add("round to even", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    Arg("f32[B,8]", values=(0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 3.7, -3.2)), covers="round")
add("is_finite", lax.is_finite, Arg("f32[B,12]", values=EDGE), covers="is_finite")
for dtype in ("i8", "i16", "i32"):
    for op in ("neg", "abs", "sign"):
        add(f"{op} {dtype}", getattr(lax, op), f"{dtype}[3,7]", covers=op)
add("sign u8", lax.sign, Arg("u8[3,7]", 0, 4), covers="sign")
add("square i32", lax.square, "i32[B,7]", covers="square")
for y in (-3, -2, -1, 2, 3, 4, 5, 7, 11):
    add(f"integer_pow {y}", lambda x, y=y: lax.integer_pow(x, y), Arg("f32[B,7]", 0.4, 1.6),
        covers="integer_pow")
add("integer_pow of a negative number", lambda x: lax.integer_pow(x, 3), "f32[B,7]", covers="integer_pow")
add("integer_pow of integers", lambda x: lax.integer_pow(x, 5), "i32[B,7]", covers="integer_pow")

BINARY = ("add", "sub", "mul", "div", "max", "min", "pow", "rem", "atan2", "nextafter")
for op in BINARY:
    low, high = (0.2, 3) if op == "pow" else (-3, 3)
    add(op, getattr(lax, op), Arg("f32[B,31]", low, high), Arg("f32[B,31]", low, high), covers=op)
for op in ("add", "sub", "mul", "div", "max", "min"):
    for dtype in ("f16", "bf16"):
        add(f"{op} {dtype}", getattr(lax, op), f"{dtype}[5,7]", Arg(f"{dtype}[5,7]", 0.5, 3), covers=op)
    add(f"{op} f64", getattr(lax, op), "f64[5,7]", "f64[5,7]", covers=op, x64=True)
    for dtype in ("i8", "i16", "i32", "u8", "u16", "u32"):
        add(f"{op} {dtype}", getattr(lax, op), f"{dtype}[5,7]", Arg(f"{dtype}[5,7]", 1, 9), covers=op)
    add(f"{op} i64", getattr(lax, op), "i64[5,7]", Arg("i64[5,7]", 1, 9), covers=op, x64=True)
for op in ("max", "min"):
    add(f"{op} with nan", getattr(lax, op), Arg("f32[12]", values=EDGE),
        Arg("f32[12]", values=EDGE[5:] + EDGE[:5]), covers=op)
    add(f"{op} bool", getattr(lax, op), "bool[B,7]", "bool[B,7]", covers=op)
add("add wraps around", lambda x: x + x, full("i32", 64), covers="add")
add("mul wraps around u32", lambda x: x * x, full("u32", 64), covers="mul")
add("mul of bool is and", lambda x, y: lax.bitwise_and(x, y), "bool[7]", "bool[7]", covers="and")
add("div rounds toward zero", lax.div, "i32[B,31]", Arg("i32[B,31]", values=(-3, -2, 2, 3, 5)), covers="div")
add("floor_divide", lambda x, y: x // y, "i32[B,31]", Arg("i32[B,31]", values=(-3, -2, 2, 3, 5)), covers="div rem")
add("rem keeps the sign of the dividend", lax.rem, "i32[B,31]", Arg("i32[B,31]", values=(-3, -2, 2, 3, 5)),
    covers="rem")
add("rem u8", lax.rem, "u8[31]", Arg("u8[31]", 1, 7), covers="rem")
add("mod", lambda x, y: x % y, "f32[B,31]", Arg("f32[B,31]", values=(-0.75, 0.5, 1.25)), covers="rem")
add("pow of a negative base", lax.pow, Arg("f32[B,4]", -3, -1), Arg("f32[B,4]", values=(1.0, 2.0, 3.0, -2.0)),
    covers="pow")
add("pow with an integer exponent", lax.pow, Arg("f32[B,7]", 0.5, 2), Arg("i32[B,7]", -3, 4), covers="pow")
add("pow of a python scalar", lambda n: 0.75**n, Arg("i32[B,7]", 0, 9), covers="pow")
add("atan2 in all quadrants", lax.atan2, Arg("f32[9]", values=(0, 0, 0, 1, 1, 1, -1, -1, -1)),
    Arg("f32[9]", values=(0, 1, -1, 0, 1, -1, 0, 1, -1)), covers="atan2")
add("atan2 keeps the sign of zero", lambda x: 1 / lax.atan2(x, x * 0 + 1), Arg("f32[2]", values=(-0.0, 0.0)), covers="atan2")
add("log1p keeps the sign of zero", lambda x: 1 / lax.log1p(x), Arg("f32[4]", values=(-0.0, 0.0, float("inf"), -1.0)), covers="log1p")
add("nextafter at the edges", lax.nextafter, Arg("f32[6]", values=(0.0, -0.0, 1.0, 3.4e38, -1.0, np.inf)),
    Arg("f32[6]", values=(1.0, -1.0, 2.0, np.inf, -2.0, 0.0)), covers="nextafter")
add("scalar on the right", lambda x: x * 2.5 + 1, "f32[B,7]", covers="mul add", max_nodes=2)
add("scalar on the left", lambda x: 1 - 3 / x, Arg("f32[B,7]", 1, 3), covers="div sub")
add("row against matrix", lambda x, y: x + y, "f32[B,7]", "f32[7]", covers="add")

for op in ("eq", "ne", "lt", "le", "gt", "ge"):
    for dtype in ("f32", "f16", "i32", "i8", "u8", "u32"):
        add(f"{op} {dtype}", getattr(lax, op), Arg(f"{dtype}[B,13]", 0, 4), Arg(f"{dtype}[B,13]", 0, 4), covers=op)
    add(f"{op} with nan", getattr(lax, op), Arg("f32[12]", values=EDGE),
        Arg("f32[12]", values=EDGE[:3] + EDGE[5:] + EDGE[3:5]), covers=op)
for op in ("eq", "ne"):
    add(f"{op} bool", getattr(lax, op), "bool[B,13]", "bool[B,13]", covers=op)
add("comparison with a scalar", lambda x: (x > 0) & (x <= 1.5), "f32[B,13]", covers="gt le and")

for op, f in {"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor}.items():
    add(f"{op} bool", f, "bool[B,13]", "bool[B,13]", covers=op)
    for dtype in ("i8", "i32", "u8", "u32"):
        add(f"{op} {dtype}", f, full(dtype, 13), full(dtype, 13), covers=op)
add("not bool", lax.bitwise_not, "bool[B,13]", covers="not")
for dtype in ("i8", "i32", "u8", "u32"):
    add(f"not {dtype}", lax.bitwise_not, full(dtype, 13), covers="not")
    for op in ("shift_left", "shift_right_logical", "shift_right_arithmetic"):
        add(f"{op} {dtype}", getattr(lax, op), full(dtype, 31), Arg(f"{dtype}[31]", 0, 8), covers=op)
for op in ("shift_left", "shift_right_logical", "shift_right_arithmetic"):
    add(f"{op} beyond the width", getattr(lax, op), full("i32", 7), Arg("i32[7]", values=(0, 1, 31, 32, 33, 64, 90)),
        covers=op)
    add(f"{op} u32 by 13", lambda x, op=op: getattr(lax, op)(x, np.uint32(13)), full("u32", 31), covers=op)
for dtype in ("u8", "i32", "u32"):
    if hasattr(lax, "mulhi"):  # JAX 0.8 has none
        add(f"mulhi {dtype}", lax.mulhi, full(dtype, "B", 31), full(dtype, "B", 31), covers="mulhi", x64=dtype.endswith("64"))
    add(f"population_count {dtype}", lax.population_count, full(dtype, 31), covers="population_count")
    add(f"clz {dtype}", lax.clz, Arg(f"{dtype}[7]", values=(0, 1, 2, 3, 64, 100, 127)), covers="clz")

add("select_n", lambda c, x, y: lax.select(c, x, y), "bool[B,7]", "f32[B,7]", "f32[B,7]", covers="select_n")
add("select_n with a scalar condition", lambda c, x, y: lax.select(c, x, y), "bool[]", "f32[B,7]", "f32[B,7]",
    covers="select_n")
add("select_n of integers", lambda c, x, y: lax.select_n(c, x, y), "bool[7]", "i32[7]", "i32[7]", covers="select_n")
add("select_n of bool", lambda c, x, y: lax.select_n(c, x, y), "bool[7]", "bool[7]", "bool[7]", covers="select_n")
add("select_n among three", lax.select_n, Arg("i32[B,7]", 0, 3), "f32[B,7]", "f32[B,7]", "f32[B,7]", covers="select_n")
add("where", lambda x: jnp.where(x > 0, x, 0.1 * x), "f32[B,7]", covers="select_n")
add("clamp", lambda x: lax.clamp(-0.5, x, 0.75), "f32[B,31]", covers="clamp")
add("clamp with tensor bounds", lax.clamp, Arg("f32[B,7]", -1, 0), "f32[B,7]", Arg("f32[B,7]", 0, 1), covers="clamp")
add("clamp with runtime scalars", lax.clamp, Arg("f32[]", -1, 0), "f32[B,7]", Arg("f32[]", 0, 1), covers="clamp")
add("clamp i32", lambda x: lax.clamp(np.int32(-2), x, np.int32(3)), "i32[B,31]", covers="clamp")
add("clamp keeps nan", lambda x: lax.clamp(-0.5, x, 0.75), Arg("f32[12]", values=EDGE), covers="clamp")
add("clip", lambda x: jnp.clip(x, -1, 1), "f32[B,31]", covers="max min")

for source in ("bool", "i8", "i32", "u8", "u32", "f16", "bf16", "f32"):
    for target in ("bool", "i8", "i32", "u8", "u32", "f16", "bf16", "f32"):
        if source != target:
            add(f"convert {source} to {target}", lambda x, t=DTYPES[target]: lax.convert_element_type(x, t),
                Arg(f"{source}[31]", 0, 100), covers="convert_element_type")
for source, target in (("f64", "f32"), ("f32", "f64"), ("i64", "i32"), ("i32", "i64"), ("f64", "i64"), ("u64", "f64")):
    add(f"convert {source} to {target}", lambda x, t=DTYPES[target]: lax.convert_element_type(x, t),
        Arg(f"{source}[31]", 0, 100), covers="convert_element_type", x64=True)
add("convert negative floats to integers", lambda x: x.astype(jnp.int32), Arg("f32[8]",
    values=(-2.9, -2.5, -0.5, -0.0, 0.5, 1.5, 2.5, 99.9)), covers="convert_element_type")
add("convert floats out of range", lambda x: x.astype(jnp.int32),
    Arg("f32[6]", values=(3e9, -3e9, np.inf, -np.inf, np.nan, 1.0)), covers="convert_element_type")
add("convert floats out of range to u8", lambda x: x.astype(jnp.uint8),
    Arg("f32[6]", values=(300.0, -5.0, np.inf, -np.inf, 255.9, 1.0)), covers="convert_element_type")
add("convert integers wrap around", lambda x: x.astype(jnp.int8), Arg("i32[5]", values=(128, -129, 300, -1, 127)),
    covers="convert_element_type")
add("convert to bool sees every non-zero", lambda x: x.astype(bool), Arg("f32[5]", values=(0, -0.0, 0.3, -4, np.nan)),
    covers="convert_element_type")
for source, target in (("f32", "i32"), ("f32", "u32"), ("f16", "u16"), ("bf16", "u16"), ("u32", "i32"), ("i8", "u8")):
    add(f"bitcast {source} as {target}", lambda x, t=DTYPES[target]: lax.bitcast_convert_type(x, t),
        f"{source}[B,7]", covers="bitcast_convert_type")
for source, target in (("i32", "f32"), ("u32", "f32"), ("u16", "f16"), ("u16", "bf16")):
    wide = "i32" if source == "i32" else "u32" if source == "u32" else "u16"
    values = (0x3F800000, 0x40490FDB, 0x00000001, 0x7F800000) if wide != "u16" else (0x3C00, 0x4248, 1, 0x4000)
    add(f"bitcast {source} as {target}", lambda x, t=DTYPES[target]: lax.bitcast_convert_type(x, t),
        Arg(f"{source}[4]", values=values), covers="bitcast_convert_type")
for dtype, bits in (("f16", "i16"), ("bf16", "i16"), ("f32", "i32"), ("f64", "i64")):
    for op in ("shift_right_logical", "shift_right_arithmetic"):
        add(f"{op} to the sign of {dtype}", lambda x, op=op, t=DTYPES[bits]: getattr(lax, op)(
            lax.bitcast_convert_type(x, t), np.array(np.dtype(t).itemsize * 8 - 1, t)),
            Arg(f"{dtype}[B,12]", values=EDGE), covers=op, x64=dtype == "f64")
add("signbit and copysign", lambda x, y: (jnp.signbit(x), jnp.copysign(y, x)), Arg("f32[B,12]", values=EDGE),
    Arg("f32[B,12]", values=EDGE[::-1]), covers="shift_right_arithmetic")
add("bitcast to narrower", lambda x: lax.bitcast_convert_type(x, jnp.uint8), full("u32", 7),
    covers="bitcast_convert_type")
add("bitcast to wider", lambda x: lax.bitcast_convert_type(x, jnp.uint32), full("u8", 7, 4),
    covers="bitcast_convert_type")
add("reduce_precision to bfloat16", lambda x: lax.reduce_precision(x, 8, 7), "f32[B,31]", covers="reduce_precision")
add("reduce_precision to half", lambda x: lax.reduce_precision(x, 5, 10), "f32[B,31]", covers="reduce_precision")
add("stop_gradient", lambda x: lax.stop_gradient(x) + x, "f32[B,7]", covers="stop_gradient")
add("copy", lambda x: jnp.array(x, copy=True) * 2, "f32[B,7]", covers="copy")
add("an input returned as it is", lambda x, y: (x, y + 1), "f32[B,7]", "f32[B,7]", covers="add")
add("one value returned twice", lambda x: (x + 1,) * 2, "f32[B,7]", covers="add")
add("a constant returned", lambda x: (x + 1, jnp.arange(5.0) * 2), "f32[B,7]", covers="add")
add("lgamma", lax.lgamma, Arg("f32[B,31]", 0.3, 9), covers="lgamma")
add("digamma", lax.digamma, Arg("f32[B,31]", 0.3, 9), covers="digamma")
add("gelu by erf", lambda x: jax.nn.gelu(x, approximate=False), "f32[B,31]", covers="erfc")
add("gelu by tanh", jax.nn.gelu, "f32[B,31]", covers="tanh")
add("softplus", jax.nn.softplus, Arg("f32[B,31]", -9, 9), covers="log1p exp")
add("silu", jax.nn.silu, "f32[B,31]", covers="logistic")
add("elu", jax.nn.elu, "f32[B,31]", covers="expm1")
add("relu6", jax.nn.relu6, Arg("f32[B,31]", -9, 9), covers="max min")
add("logaddexp", jnp.logaddexp, "f32[B,31]", "f32[B,31]", covers="log1p exp")
add("hypot", jnp.hypot, "f32[B,31]", "f32[B,31]", covers="sqrt")
add("sinc", jnp.sinc, Arg("f32[7]", values=(0, 0.5, -0.5, 1, 2, 1e-6, 3.3)), covers="sin",
    tolerance=2e-5, because="sin(pi * x) near a multiple of pi magnifies one ulp of pi * x")
for exponent, mantissa in ((4, 3), (5, 2), (8, 0), (8, 10), (3, 7), (8, 23), (11, 30), (2, 1)):
    add(f"reduce_precision to {exponent} and {mantissa} bits", lambda x, e=exponent, m=mantissa: lax.reduce_precision(x, e, m),
        Arg("f32[B,16]", values=(*EDGE, 1.0625, 1.1875, 448.0, 1e-3)), covers="reduce_precision")
add("reduce_precision of f64", lambda x: lax.reduce_precision(x, 8, 12), Arg("f64[31]", -9, 9), covers="reduce_precision", x64=True)
add("reduce_precision of f64 to half", lambda x: lax.reduce_precision(x, 5, 10), Arg("f64[31]", -9, 9), covers="reduce_precision", x64=True)
add("reduce_precision of f16", lambda x: lax.reduce_precision(x, 4, 3), "f16[31]", covers="reduce_precision")
for dtype in ("f16", "f64"):
    add(f"nextafter {dtype}", lax.nextafter, f"{dtype}[31]", f"{dtype}[31]", covers="nextafter", x64=dtype == "f64")
for dtype in ("f32", "f64"):
    add(f"logarithm of a sigmoid {dtype}", lambda x: jnp.log(jax.nn.sigmoid(x)), Arg(f"{dtype}[B,9]", -60, 20), covers="logistic log", x64=dtype == "f64")
add("spence", jax.scipy.special.spence, Arg("f32[4,4]", 0.1, 3), covers="select_n", tolerance=1e-5, because="a quotient of polynomials of degree 7")
if hasattr(jax.scipy.special, "erfcx"):  # JAX 0.8 has none
    add("erfcx of large numbers", jax.scipy.special.erfcx, Arg("f32[31]", 0, 8), covers="erfc exp", tolerance=1e-5, because="exp of a square has an error of the square's size in ulps")
