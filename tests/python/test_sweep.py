"""The sweep: every public function of JAX and its libraries once, as people call it, and its gradient, and under `vmap`.

`pytest tests/python/test_sweep.py -k "numpy: cumsum"` runs the rows with that in their name.
"""

import importlib
import pkgutil
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sardonyx
import sweep
from judge import check_structure, compare, outputs
from primitives.table import Case
from sweep import rows

TABLES = {
    name.removeprefix("functions_"): importlib.import_module(f"sweep.{name}").ROWS
    for _, name, _ in pkgutil.iter_modules(sweep.__path__)
    if name.startswith("functions_")
}
CASES = [pytest.param(case, id=f"{name}: {case.name}") for name, cases in TABLES.items() for case in cases]


def _some(share: float, tables: str = " ".join(TABLES), seed: int = 5) -> list:
    """All rows; those that `make test` leaves to `make test-all` are marked: all but a share of `tables`."""
    rng = random.Random(seed)
    chosen = {p.id for p in CASES if rng.random() < share and p.id.partition(":")[0] in tables.split()}
    return [pytest.param(*p.values, id=p.id, marks=() if p.id in chosen else pytest.mark.slow) for p in CASES]


# What is known to differ, with the reason; none of it is hidden elsewhere.
NO_GRADIENT = {
    "special: bessel_jn": "differs by 0.3 % in f32",
    "special: sph_harm_y": "nothing but rounding is left of it",
    "scipy: invhilbert": "numbers up to 1e12",
    "scipy: pascal": "rounding of a badly conditioned sum",
    "scipy: ndimage.map_coordinates constant 0": "JAX scatters outside where it promised not to, and onnxruntime refuses that",
    "scipy: ndimage.map_coordinates constant 1": "JAX scatters outside where it promised not to, and onnxruntime refuses that",
}


def _transformed(tables: str) -> list:
    return [p for p in _some(0.1, tables) if p.values[0].inputs]


@pytest.mark.parametrize("table", TABLES)
def test_every_function_has_a_row(table: str):
    assert TABLES[table].missing() == set()


def export_and_compare(case: Case, fn, *, structure: bool = True):
    model = sardonyx.to_onnx(fn, case.specs(), enable_double_precision=case.x64)
    if structure:
        check_structure(model, static=not case.dynamic, f64=case.x64)
    with jax.enable_x64(case.x64):
        for sizes in case.sizes()[:2]:
            inputs = case.sample(sizes)
            compare(_by_jax(fn, inputs), outputs(model, inputs), case.tolerance)


def _by_jax(fn, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """What JAX computes: compiled, which is quicker, or step by step where a size is known only then."""
    values = [jnp.asarray(x) for x in inputs]
    try:
        found = jax.jit(fn)(*values)
    except jax.errors.ConcretizationTypeError:
        found = fn(*values)
    return [np.asarray(y) for y in jax.tree.leaves(found)]


# XLA takes minutes for some rows of optax and random.
@pytest.mark.parametrize("case", _some(0.25, " ".join(t for t in TABLES if t not in ("optax", "random"))))
def test_function(case: Case):
    export_and_compare(case, case.fn)


def _traces(case: Case, fn) -> bool:
    """Whether JAX traces this: it differentiates and maps not everything, and not everything at sizes that have only names."""
    with jax.enable_x64(case.x64):
        try:
            found = jax.eval_shape(fn, *case.symbolic_specs())
        except Exception:
            return False
    return bool(jax.tree.leaves(found))


@pytest.mark.parametrize("case", _transformed("fft image lax lax_linalg linalg nn ops random scipy special stats"))
def test_gradient(case: Case, request):
    if reason := NO_GRADIENT.get(request.node.callspec.id):
        pytest.skip(reason)
    if any(a.dtype.itemsize == 2 and a.dtype.kind not in "iu" for a in case.inputs):
        pytest.skip("16 bits leave too little of a chain of products to compare")
    fn = rows.gradient(case)
    if not _traces(case, fn):
        pytest.skip("JAX does not differentiate it")
    export_and_compare(case, fn, structure=False)


@pytest.mark.parametrize("case", _transformed("fft lax linalg ops special"))
def test_mapped(case: Case):
    case = rows.mapped(case)
    if not _traces(case, case.fn):
        pytest.skip("JAX does not map it")
    export_and_compare(case, case.fn, structure=False)
