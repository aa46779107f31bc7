"""The sweep: every public function of JAX and its libraries once, as people call it, with its gradient and under
`vmap`.

`pytest tests/python/jax/test_sweep.py -k "numpy: cumsum"` runs the rows with that in their name.
"""

import importlib
import itertools
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

if tuple(map(int, jax.__version__.split(".")[:2])) < (0, 10):
    pytest.skip("the rows are the functions of newer JAX", allow_module_level=True)

TABLES = {
    name.removeprefix("functions_"): importlib.import_module(f"sweep.{name}").ROWS
    for _, name, _ in pkgutil.iter_modules(sweep.__path__)
    if name.startswith("functions_")
}
CASES = [pytest.param(case, id=f"{name}: {case.name}") for name, cases in TABLES.items() for case in cases]


def _some(share: float, seed: int = 5) -> list:
    """All rows. All but a share are marked for `make test-all`."""
    rng = random.Random(seed)
    chosen = {p.id for p in CASES if rng.random() < share}
    return [pytest.param(*p.values, id=p.id, marks=() if p.id in chosen else pytest.mark.slow) for p in CASES]


@pytest.fixture(autouse=True)
def forget_now_and_then(count=itertools.count(1)):  # noqa: B008
    """Clears JAX's caches now and then: compiled code for hundreds of rows takes gigabytes."""
    yield
    if next(count) % 100 == 0:
        jax.clear_caches()


# Known differences, with reasons. Nothing else is hidden elsewhere.
NO_GRADIENT = {
    "special: sph_harm_y": "nothing but rounding is left of it",
    "scipy: invhilbert": "numbers up to 1e12",
    "scipy: pascal": "rounding of a badly conditioned sum",
}
# A step of Adam is nearly the sign of its input: in f32 its gradient is mostly rounding, in JAX as much as
# here.
GRADIENT_IN_DOUBLE = {
    "optax: optimizer lamb",
    "optax: optimizer optimistic_adam",
    "optax: optimizer optimistic_adam_v2",
    "optax: optimizer contrib.prodigy",
    "optax: optimizer contrib.schedule_free_adamw",
    "optax: transform MultiSteps",
    "optax: transform scale_by_stddev",
}
NO_VMAP = {
    "optax: optimizer contrib.galore": "nobody says which sign the vectors of a decomposition have",
}


def _transformed(share: float) -> list:
    return [p for p in _some(share) if p.values[0].inputs]


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
    """JAX's result: compiled, which is faster, or step by step where a size depends on data."""
    values = [jnp.asarray(x) for x in inputs]
    try:
        found = jax.jit(fn)(*values)
    except jax.errors.ConcretizationTypeError:
        found = fn(*values)
    return [np.asarray(y) for y in jax.tree.leaves(found)]


@pytest.mark.parametrize("case", _some(0.25))
def test_function(case: Case):
    export_and_compare(case, case.fn)


def _traces(case: Case, fn) -> bool:
    """Whether JAX traces this. It cannot differentiate or map everything, nor trace everything at symbolic
    sizes."""
    with jax.enable_x64(case.x64):
        try:
            found = jax.eval_shape(fn, *case.symbolic_specs())
        except Exception:
            return False
    return bool(jax.tree.leaves(found))


def _compare_transformed(case: Case, fn, reason: str) -> None:
    try:
        export_and_compare(case, fn, structure=False)
    except Exception:
        if _traces(case, fn):
            raise
        case = rows.fixed(case)  # JAX may require numbers for the sizes
        if not _traces(case, fn):
            pytest.skip(reason)
        export_and_compare(case, fn, structure=False)


@pytest.mark.parametrize("case", _transformed(0.05))
def test_gradient(case: Case, request):
    if reason := NO_GRADIENT.get(request.node.callspec.id):
        pytest.skip(reason)
    if any(a.dtype.itemsize == 2 and a.dtype.kind not in "iu" for a in case.inputs):
        pytest.skip("16 bits leave too little of a chain of products to compare")
    if request.node.callspec.id in GRADIENT_IN_DOUBLE:
        case = rows.in_double(case)
    _compare_transformed(case, rows.gradient(case), "JAX does not differentiate it")


@pytest.mark.parametrize("case", _transformed(0.05))
def test_mapped(case: Case, request):
    if reason := NO_VMAP.get(request.node.callspec.id):
        pytest.skip(reason)
    case = rows.mapped(case)
    _compare_transformed(case, case.fn, "JAX does not map it")
