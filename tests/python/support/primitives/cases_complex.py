"""Complex numbers, which exports hold as pairs of reals in a last axis of 2, and Fourier transforms."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .table import Arg, Table

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()
add = TABLE.add


def both(name, fn, *specs, covers, **options):
    """fn of c64 and c128; specs say c64 and f32."""
    add(name, fn, *specs, covers=covers, **options)
    wide = [Arg(s.spec.replace("64[", "128[").replace("f32", "f64"), s.low, s.high, s.values) if isinstance(s, Arg) else s.replace("c64", "c128").replace("f32", "f64")
            for s in specs]
    loose = {"tolerance": options["tolerance"] * 1e-8, "because": options["because"]} if "tolerance" in options else {}
    add(f"{name} c128", fn, *wide, covers=covers, x64=True, **loose)


UNARY = ("neg", "abs", "sign", "exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "square", "sin", "cos", "tan", "sinh", "cosh", "tanh", "logistic",
         "asin", "acos", "atan", "asinh", "acosh", "atanh", "real", "imag", "conj")
for op in UNARY:
    both(f"complex {op}", getattr(lax, op), "c64[B,31]", covers=op)
    add(f"complex {op} of a scalar", getattr(lax, op), "c64[]", covers=op)
for op in ("add", "sub", "mul", "div", "eq", "ne"):
    both(f"complex {op}", getattr(lax, op), "c64[B,31]", "c64[B,31]", covers=op)
both("complex pow", lax.pow, "c64[B,31]", "c64[B,31]", covers="pow", tolerance=1e-5, because="the exponent y log x has an error of a few ulps")
for y in (-2, 2, 3, 5):
    both(f"complex integer_pow {y}", lambda x, y=y: lax.integer_pow(x, y), Arg("c64[B,7]", 0.5, 1.5), covers="integer_pow")
add("complex pow at zero", lax.pow, Arg("c64[3]", values=(0, 0, 1)), Arg("c64[3]", values=(0, 2, 0)), covers="pow")
CUTS = Arg("c64[6]", values=(-1 + 0j, 1j, -1j, 2 + 0j, -2 + 0j, 0.5 + 0j))
for op in ("log", "sqrt", "asin", "acos", "asinh", "acosh"):
    add(f"complex {op} at branch cuts", getattr(lax, op), CUTS, covers=op)
add("complex abs of large and small", lax.abs, Arg("c64[4]", values=(3e30 + 4e30j, 3e-30 + 4e-30j, 0, -5)), covers="abs")
add("complex division of large and small", lambda x, y: x / y, Arg("c64[3]", values=(3e30 + 4e30j, 3e-30 + 4e-30j, 1)), Arg("c64[3]", values=(1e30 + 1e30j, 1e-30 - 1e-30j, 2j)), covers="div")
add("complex tanh far out", lax.tanh, Arg("c64[4]", values=(50 + 1j, -50 - 1j, 0, 1e-3j)), covers="tanh")

for f in (lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp):
    op = f.__name__
    for reverse in (False, True):
        both(f"complex {op} reverse={reverse}", lambda x, f=f, r=reverse: f(x, axis=1, reverse=r), "c64[3,7]", covers=op)
        both(f"complex {op} of any length reverse={reverse}", lambda x, f=f, r=reverse: f(x, axis=1, reverse=r), "c64[B,T]", covers=op)
INDEX = Arg("i32[5]", values=(0, 2, 0, 6, 2))
for op in ("multiply", "max", "min", "add", "set"):
    name = {"multiply": "scatter-mul", "set": "scatter"}.get(op, f"scatter-{op}")
    both(f"complex {op} at rows", lambda x, i, u, op=op: getattr(x.at[i], op)(u, mode="drop") if op != "set" else x.at[i[1:4]].set(u[1:4]), "c64[B,3]" if op == "set" else "c64[5,3]", INDEX, "c64[5,3]", covers=name)
    both(f"complex {op} at elements", lambda x, i, u, op=op: getattr(x.at[1, i], op)(u, mode="clip"), "c64[B,7]" if op == "add" else "c64[3,7]", Arg("i32[3]", values=(4, 9, 1)), "c64[3]", covers=name)
both("complex apply", lambda x, i: x.at[i].apply(jnp.exp), Arg("c64[7,3]", -1, 0.4), Arg("i32[3]", values=(0, 2, 6)), covers="scatter")

add("complex of parts", lax.complex, "f32[B,7]", "f32[B,7]", covers="complex")
add("complex of parts f64", lax.complex, "f64[7]", "f64[7]", covers="complex", x64=True)
add("complex of a part and zero", lambda x: x + 0j * x + 1j, "f32[B,7]", covers="mul add")
add("a complex constant", lambda x: x * np.array([1 + 2j, 3, -1j], np.complex64), "c64[B,3]", covers="mul")
add("a large complex constant", lambda x: x + (np.arange(2000) * (1 - 2j)).astype(np.complex64), "c64[2000]", covers="add")
add("a complex splat", lambda x: x * jnp.full((3,), 2 - 1j), "c64[B,3]", covers="mul")
add("f32 to complex", lambda x: x.astype(jnp.complex64), "f32[B,7]", covers="convert_element_type")
add("i32 to complex", lambda x: x.astype(jnp.complex64), "i32[B,7]", covers="convert_element_type")
add("complex to f32", lambda x: lax.convert_element_type(x, np.float32), "c64[B,7]", covers="convert_element_type")
add("complex to complex", lambda x: lax.convert_element_type(x, np.complex128), "c64[B,7]", covers="convert_element_type", x64=True)
add("polar", lambda r, a: r * jnp.exp(1j * a), Arg("f32[B,7]", 0, 2), Arg("f32[B,7]", -3, 3), covers="exp")
add("angle", jnp.angle, "c64[B,7]", covers="atan2")
add("rotary embedding by complex numbers", lambda x, t: (lambda z: jnp.stack([z.real, z.imag], -1).reshape(x.shape))(lax.complex(x[..., ::2], x[..., 1::2]) * lax.complex(jnp.cos(t), jnp.sin(t))),
    "f32[B,5,8]", "f32[5,4]", covers="complex mul real imag")

MOVES = {
    "reshape": lambda x: x.reshape(-1, 6), "transpose": lambda x: x.T, "broadcast": lambda x: jnp.broadcast_to(x, (2, *x.shape)),
    "slice": lambda x: x[:, 1:3], "rev": lambda x: x[:, ::-1], "concatenate": lambda x: jnp.concatenate([x, x + 1], 1), "stack": lambda x: jnp.stack([x, 2 * x]),
    "pad": lambda x: jnp.pad(x, ((0, 0), (1, 2)), constant_values=1 - 1j), "tile": lambda x: jnp.tile(x, (1, 2)), "split": lambda x: jnp.split(x, 2, 1),
    "gather": lambda x: x[:, jnp.array([2, 0, 0])], "take by element": lambda x: jnp.take_along_axis(x, jnp.argsort(x.real, 1), 1),
    "dynamic_slice": lambda x: lax.dynamic_slice_in_dim(x, 1, 2, 1), "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, 2 * x[:, :2], (0, 1)),
    "scatter": lambda x: x.at[:, 1].set(2j), "scatter-add": lambda x: x.at[:, jnp.array([1, 1])].add(2j), "squeeze": lambda x: x[:, :1].squeeze(1), "expand": lambda x: x[:, None],
    "select_n": lambda x: jnp.where(x.real > 0, x, 1j), "reduce_sum": lambda x: x.sum(1), "mean": lambda x: x.mean(0), "cumsum": lambda x: jnp.cumsum(x, 1),
    "reduce_prod": lambda x: x.prod(1), "cumprod": lambda x: jnp.cumprod(x, 1), "unstack": lambda x: jnp.unstack(x, axis=1), "outer": lambda x: x[:, None] * x[:, :, None],
}
for name, fn in MOVES.items():
    add(f"complex {name}", fn, "c64[B,6]", covers="")
    add(f"complex {name} after a product", lambda x, f=fn: f(x * (1 + 2j)), "c64[3,6]", covers="mul")
    add(f"complex {name} before a product", lambda x, f=fn: jax.tree.map(lambda y: y * (1 + 2j), f(x)), "c64[B,6]", covers="mul")

for op in ("max", "min", "atan2"):
    both(f"complex {op}", getattr(lax, op), "c64[B,7]", "c64[B,7]", covers=op)
for name, fn in {"max": jnp.max, "min": jnp.min}.items():
    add(f"complex reduce_{name}", lambda x, f=fn: (f(x, axis=1), f(x)), Arg("c64[3,4]", values=(1 + 2j, 1 - 1j, 1 + 3j, 0, -1, -1 - 1j, 2j)), covers=f"reduce_{name}")
# On equal real parts and on NaN, too.
BOUNDED = Arg("c64[7]", values=(1 + 2j, 1 - 3j, np.nan, 2, 5j, 1 + 1j, 1))
add("complex clamp", lambda x: lax.clamp(np.complex64(1), x, np.complex64(1 + 2j)), BOUNDED, covers="clamp")
add("complex clamp, bounds in the wrong order", lambda x: lax.clamp(np.complex64(1 + 2j), x, np.complex64(1)), BOUNDED, covers="clamp")
both("complex clamp with tensor bounds", lax.clamp, "c64[B,7]", "c64[B,7]", "c64[B,7]", covers="clamp")
add("complex sort", lambda x: jnp.sort(x, axis=1), "c64[B,7]", covers="sort")
add("complex sort of equal real parts", lambda x: jnp.sort(x), Arg("c64[6]", values=(1 + 2j, 1 - 1j, 0, 1, -1 + 5j, 0 - 1j)), covers="sort")
add("complex numbers sorted along", lambda k, x: lax.sort((k, x), num_keys=1), "f32[B,7]", "c64[B,7]", covers="sort")
both("complex matmul", jnp.matmul, "c64[B,5,7]", "c64[7,3]", covers="dot_general")
both("complex by vector", jnp.matmul, "c64[5,7]", "c64[7]", covers="dot_general")
both("complex vdot", jnp.vdot, "c64[31]", "c64[31]", covers="dot_general")
both("complex einsum", lambda x, y: jnp.einsum("bij,bkj->bik", x, y.conj()), "c64[B,5,7]", "c64[B,3,7]", covers="dot_general")
add("complex convolution", lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME"), "c64[2,3,9]", "c64[4,3,3]", covers="conv_general_dilated")
add("complex scan", lambda x: lax.scan(lambda c, v: (c * 0.5j + v, c), jnp.zeros(3, jnp.complex64), x), "c64[7,3]", covers="scan")
add("complex while", lambda z: lax.while_loop(lambda s: jnp.abs(s[0]) < 4, lambda s: (s[0] ** 2 + 1j * s[0] + 1, s[1] + 1), (z, 0)), Arg("c64[]", values=(0.5 + 0.5j,)), covers="while")
add("complex cond", lambda c, x: lax.cond(c, lambda v: v * 1j, jnp.conj, x), "bool[]", "c64[B,7]", covers="cond")

for n in (8, 7, 12, 1, 2, 100, 400, 71, 74, 64):
    both(f"fft of {n}", jnp.fft.fft, f"c64[B,{n}]", covers="fft")
    both(f"ifft of {n}", jnp.fft.ifft, f"c64[B,{n}]", covers="fft")
    both(f"rfft of {n}", jnp.fft.rfft, f"f32[B,{n}]", covers="fft")
    both(f"irfft to {n}", lambda x, n=n: jnp.fft.irfft(x, n), f"c64[B,{n // 2 + 1}]", covers="fft")
for name in ("fft2", "ifft2"):
    both(name, getattr(jnp.fft, name), "c64[B,4,6]", covers="fft")
both("rfft2", jnp.fft.rfft2, "f32[B,4,6]", covers="fft")
both("irfft2", lambda x: jnp.fft.irfft2(x, (4, 6)), "c64[B,4,4]", covers="fft")
both("fftn", jnp.fft.fftn, "c64[3,4,5]", covers="fft")
both("rfftn", jnp.fft.rfftn, "f32[3,4,5]", covers="fft")
both("irfftn", lambda x: jnp.fft.irfftn(x, (3, 4, 5)), "c64[3,4,3]", covers="fft")
both("fft of the first axis", lambda x: jnp.fft.fft(x, axis=0), "c64[5,3]", covers="fft")
both("fft of real numbers", jnp.fft.fft, "f32[B,6]", covers="fft")
add("fft over time", jnp.fft.fft, "c64[2,T]", covers="fft")
add("rfft over time", jnp.fft.rfft, "f32[2,T]", covers="fft")
add("fftshift", lambda x: jnp.fft.fftshift(jnp.fft.fft(x)), "c64[B,8]", covers="fft")
add("power spectrum", lambda x: jnp.abs(jnp.fft.rfft(x * jnp.hanning(16))) ** 2, "f32[B,16]", covers="fft")
add("convolution by fft", lambda x, y: jnp.fft.irfft(jnp.fft.rfft(x, 16) * jnp.fft.rfft(y, 16), 16), "f32[B,9]", "f32[B,8]", covers="fft")
add("fourier mixing", lambda x: jnp.fft.fft(jnp.fft.fft(x, axis=-1), axis=-2).real, "f32[B,4,6]", covers="fft")
add("stft", lambda x: jax.scipy.signal.stft(x, nperseg=8)[2], "f32[40]", covers="fft")
add("gradient through a spectrum", jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2)), "f32[8]", covers="fft")


def positive(x):
    return x @ x.conj().T + 5 * jnp.eye(x.shape[-1])


LOOSE = {"tolerance": 1e-4, "because": "rounding, magnified by the condition of a random matrix"}
both("complex cholesky", lambda x: jnp.linalg.cholesky(positive(x)), "c64[5,5]", covers="cholesky", **LOOSE)
both("complex triangular_solve", lambda a, b: lax.linalg.triangular_solve(a + 4 * jnp.eye(5), b, left_side=True, lower=True, transpose_a=True, conjugate_a=True),
     "c64[5,5]", "c64[5,3]", covers="triangular_solve", **LOOSE)
both("complex solve", jnp.linalg.solve, "c64[5,5]", "c64[5,3]", covers="lu", **LOOSE)
both("complex qr", lax.linalg.qr, "c64[2,5,4]", covers="qr", **LOOSE)
both("complex eigvalsh", lambda x: (lambda v, w: (w, x @ v + x.conj().T @ v - 2 * v * w + 1))(*lax.linalg.eigh((x + x.conj().T) / 2)), "c64[5,5]", covers="eigh", **LOOSE)
both("complex svd", lambda x: (lambda u, s, v: (s, (u * s) @ v))(*jnp.linalg.svd(x, full_matrices=False)), "c64[5,4]", covers="svd", **LOOSE)
add("a complex reducer of one's own", lambda x: lax.reduce(x, np.complex64(0), lambda a, b: a + b + a * b, (0,)), "c64[B,7]", covers="reduce")
add("windows of complex products", lambda x: lax.reduce_window(x, np.complex64(1), lax.mul, (1, 2), (1, 1), "SAME"), "c64[B,7]", covers="reduce_window")
add("windows of complex products, strided", lambda x: lax.reduce_window(x, np.complex64(2 - 1j), lax.mul, (2, 3), (2, 1), ((0, 1), (1, 0))), "c64[5,7]", covers="reduce_window")
for op, fn, start in (("max", lax.max, -np.inf), ("min", lax.min, np.inf)):
    add(f"the complex {op} of windows", lambda x, f=fn, s=start: lax.reduce_window(x, np.complex64(s), f, (1, 2), (1, 1), "SAME"), "c64[B,7]", covers=f"reduce_window_{op}")
    add(f"the complex {op} of windows, strided and dilated", lambda x, f=fn, s=start: lax.reduce_window(x, np.complex64(s), f, (2, 3), (2, 1), ((0, 1), (1, 0)), window_dilation=(1, 2)), Arg("c64[5,7]", values=(1 + 2j, 1 - 1j, 1 + 3j, 0, -1, -1 - 1j, 2j)), covers=f"reduce_window_{op}")
add("a complex product by lax.reduce", lambda x: lax.reduce(x, np.complex64(1), lax.mul, (0, 2)), "c64[3,5,2]", covers="reduce_prod")
