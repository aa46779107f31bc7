"""Rows of the sweep: a public function by its name, called once, and those left out with the reason."""

import inspect
from collections.abc import Callable
from types import ModuleType

import jax
import jax.numpy as jnp
from primitives.table import SIZES, Arg, Case


class Rows(list[Case]):
    """The rows for the functions of one module.

    The first word of a row's name is the function that it calls, so `missing` can tell which public functions no row calls.
    `left_out` holds those that no row should call, by reason.
    """

    def __init__(self, module: ModuleType | None = None):
        super().__init__()
        self.module = module
        self.left_out: dict[str, str] = {}

    def add(self, name: str, fn: Callable, *inputs: str | Arg, **options) -> None:
        args = tuple(a if isinstance(a, Arg) else Arg(a) for a in inputs)
        if (options.get("tolerance") is None) != (options.get("because") is None):
            raise ValueError(f"{name}: a tolerance of its own needs a reason")
        self.append(Case(name, fn, args, (), **options))

    def each(self, names: str, *inputs: str | Arg, **options) -> None:
        """A row per function of the module, which takes nothing but `inputs`."""
        for name in names.split():
            self.add(name, getattr(self.module, name), *inputs, **options)

    def leave_out(self, reason: str, names: str) -> None:
        self.left_out.update(dict.fromkeys(names.split(), reason))

    def missing(self) -> set[str]:
        """Public functions of the module with neither a row nor a reason."""
        called = {case.name.split()[0] for case in self}
        return public_functions(self.module) - called - self.left_out.keys()


def public_functions(module: ModuleType | None) -> set[str]:
    if module is None:
        return set()
    found = ((name, getattr(module, name, None)) for name in dir(module) if not name.startswith("_"))
    return {n for n, f in found if callable(f) and not inspect.isclass(f) and not inspect.ismodule(f)}


def gradient(case: Case) -> Callable:
    """The gradient of the sum of cubes of `case`'s float results with respect to its float inputs. Squares of
    normalized results have no gradient."""

    def loss(*args):
        results = [y for y in jax.tree.leaves(case.fn(*args)) if jnp.issubdtype(y.dtype, jnp.inexact)]
        return sum(jnp.sum(jnp.abs(y.astype(_wide(y.dtype))) ** 3) for y in results)

    floats = tuple(i for i, a in enumerate(case.inputs) if jnp.issubdtype(a.dtype, jnp.inexact))
    return jax.grad(loss, argnums=floats)


def _wide(dtype):
    return jnp.float32 if dtype in (jnp.float16, jnp.bfloat16) else dtype


def fixed(case: Case) -> Case:
    """`case` with numbers for its sizes."""
    kinds = (a.spec.partition("[")[0] for a in case.inputs)
    shapes = (",".join(map(str, a.shape(SIZES[0]))) for a in case.inputs)
    specs = [f"{kind}[{shape}]" for kind, shape in zip(kinds, shapes, strict=True)]
    inputs = tuple(Arg(spec, a.low, a.high, a.values) for spec, a in zip(specs, case.inputs, strict=True))
    return Case(case.name, case.fn, inputs, (), case.tolerance, case.because, case.x64)


def in_double(case: Case) -> Case:
    """`case` with inputs in double precision, where single precision keeps too few digits."""
    inputs = tuple(Arg(a.spec.replace("f32", "f64"), a.low, a.high, a.values) for a in case.inputs)
    return Case(case.name, case.fn, inputs, (), 1e-8, "differences of numbers that are nearly equal", x64=True)


def mapped(case: Case) -> Case:
    """`case` under `vmap`, with two of everything."""
    inputs = tuple(Arg(a.spec.replace("[", "[2," if a.dims else "[2"), a.low, a.high, a.values) for a in case.inputs)
    return Case(case.name, jax.vmap(case.fn), inputs, (), case.tolerance, case.because, case.x64)
