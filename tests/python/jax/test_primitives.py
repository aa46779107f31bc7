"""Every line of the tables in `primitives/`: traced, exported, checked, run, and compared with JAX.

`pytest tests/python/jax/test_primitives.py -k "cumsum"` runs the lines with that in their name.
"""

import importlib
import os
import pkgutil
import random
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import primitives
import pytest
import sardonyx
from jax._src.cudnn import scaled_matmul_stablehlo
from judge import NEWEST_OPSET, OF_JAX, RUNTIME, check_structure, compare, outputs
from onnx.reference import ReferenceEvaluator
from primitives import page, table

TABLES = {
    name.removeprefix("cases_"): importlib.import_module(f"primitives.{name}").TABLE
    for _, name, _ in pkgutil.iter_modules(primitives.__path__)
    if name.startswith("cases_")
}


def _sample() -> set[str]:
    """Names of the lines that `make test` runs: a seeded fifth, and the first line of each primitive. `make
    test-all` runs all."""
    rng = random.Random(17)
    chosen, covered = set(), set()
    for lines in TABLES.values():
        for case in lines:
            if rng.random() < 0.2 or not covered.issuperset(case.covers):
                chosen.add(case.name)
            covered.update(case.covers)
    return chosen


SAMPLE = _sample()
CASES = [
    pytest.param(case, id=f"{name}: {case.name}", marks=() if case.name in SAMPLE else pytest.mark.slow)
    for name, lines in TABLES.items()
    for case in lines
]

# It computes erf of NaN as 1, and its optimizer turns products in a Loop into NaN.
WRONG_IN_OLDER_ONNXRUNTIME = {"erf at the edges", "erfc at the edges", "cholesky [B,5,5] f64"}

# At an infinite order, and at a pole.
OTHER_IN_NEWER_JAX = {"igamma at the edges", "igammac at the edges", "polygamma at the edges"}

STRIDE = 1 if os.environ.get("SARDONYX_ALL") else 41

# The primitives the converter names. A table that stops reaching one of them fails `test_all_are_covered`.
NAMED = """
abs acos acosh add add_any and argmax argmin asin asinh atan atan2 atanh bitcast_convert_type broadcast_in_dim cbrt ceil
clamp clz concatenate cond conv_general_dilated convert_element_type copy cos cosh cumlogsumexp cummax cummin cumprod
cumsum custom_jvp_call custom_vjp_call digamma dim_as_value div dot_general dynamic_slice dynamic_update_slice eq erf
erf_inv erfc exp exp2 expm1 floor gather ge gt integer_pow iota is_finite jit le lgamma log log1p logistic lt max min mul
ne neg nextafter not or pad population_count pow random_bits random_fold_in random_seed random_split random_unwrap
random_wrap reduce_and reduce_max reduce_min reduce_or reduce_precision reduce_prod reduce_sum reduce_window_max
reduce_window_min reduce_window_sum reduce_xor rem remat2 reshape rev round rsqrt scan scatter scatter-add scatter-max
scatter-min scatter-mul scatter-sub select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh slice sort split sqrt
square squeeze stack stop_gradient sub tan tanh threefry2x32 tile top_k transpose unstack while xor
approx_top_k axis_index cholesky cholesky_update bessel_i0e bessel_i1e custom_linear_solve device_put igamma igamma_grad_a igammac
optimization_barrier platform_index polygamma psum ragged_dot_general random_gamma reduce reduce_window
regularized_incomplete_beta rng_bit_generator rng_uniform select_and_gather_add select_if_vmap shard_map unvmap_all unvmap_any
unvmap_max zeta complex conj eig eigh hessenberg tridiagonal fft imag real geqrf householder_product lu lu_pivots_to_permutation ormqr qr schur svd symmetric_product
triangular_solve tridiagonal_solve compress nonzero range unique
""".split()


@pytest.mark.skipif(OF_JAX < (0, 10), reason="the tables are of newer JAX")
def test_all_are_covered():
    reached = {name for lines in TABLES.values() for case in lines for name in table.primitives_of(table.trace(case))}
    assert not set(NAMED) - reached


def test_names_are_unique():
    names = [case.name for lines in TABLES.values() for case in lines]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.skipif(not (0, 10) <= OF_JAX < (0, 12), reason="the tables are of another JAX")
def test_page_is_up_to_date():
    """docs/generated/primitives.md lists what the tables test: `python scripts/pages/primitives_page.py` writes it."""
    text = (Path(__file__).resolve().parents[3] / "docs" / "generated" / "primitives.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ") and line.count("|") == 4][1:]
    assert lines == page.rows([case for lines in TABLES.values() for case in lines])
    measured = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.count("|") == 7][2:]
    assert measured == list(page.FUNCTIONS)


def export_and_compare(case: table.Case, opset: int, all_sizes: bool = True):
    model = sardonyx.to_onnx(case.fn, case.specs(), opset=opset, enable_double_precision=case.x64)

    check_structure(model, static=not case.dynamic, f64=case.x64)
    if case.max_nodes is not None:
        ops = [node.op_type for node in model.graph.node]
        assert len(ops) <= case.max_nodes, f"{len(ops)} nodes, {case.max_nodes} are enough: {ops}"
    with jax.enable_x64(case.x64):
        for n, sizes in enumerate(case.sizes() if all_sizes else case.sizes()[:1]):
            inputs = case.sample(sizes)
            expected = [np.asarray(y) for y in jax.tree.leaves(case.fn(*map(jnp.asarray, inputs)))]
            compare(expected, outputs(model, inputs), case.tolerance)
            if n == 0:
                compare(expected, outputs(model, inputs, optimize=True), case.tolerance)


@pytest.mark.parametrize("case", CASES)
def test_case(case: table.Case):
    if RUNTIME < (1, 24) and (case.name in WRONG_IN_OLDER_ONNXRUNTIME or case in TABLES["narrow"]):
        pytest.skip("this onnxruntime computes something else")
    try:
        reached = table.primitives_of(table.trace(case))
    except (AttributeError, TypeError):
        if OF_JAX >= (0, 10):
            raise
        pytest.skip("this JAX has no such function, or it takes less")
    if OF_JAX >= (0, 12) and case.name in OTHER_IN_NEWER_JAX:
        pytest.skip("JAX 0.12 has other values there")
    # Older and newer JAX have other primitives.
    assert not (0, 10) <= OF_JAX < (0, 12) or set(case.covers) <= reached, (
        "the line does not reach what it says it covers"
    )
    export_and_compare(case, opset=23)


NEWER = table.Table()
NEWER.add("log2", jnp.log2, table.Arg("f32[B,31]", 0.1, 9), covers="log2")
NEWER.add("log2 f16", jnp.log2, table.Arg("f16[5,7]", 0.1, 9), covers="log2")
NEWER.add("log2 at the edges", jnp.log2, table.Arg("f32[6]", values=(0, -1, 1, 8, np.inf, np.nan)), covers="log2")
NEWER.add("log2 c64", jnp.log2, "c64[5,7]", covers="log2")
NEWER.add("one_minus_square", lambda x: jax.lax.one_minus_square(x), "f32[B,31]", covers="one_minus_square")
NEWER.add(
    "polynomial", lambda x, y: jax.lax.polynomial(x, [1.0, y, 2.0, -0.5]), "f32[B,31]", "f32[1,31]", covers="polynomial"
)


@pytest.mark.skipif(OF_JAX < (0, 12), reason="this JAX lacks these primitives")
@pytest.mark.parametrize("case", NEWER, ids=lambda case: case.name)
def test_primitives_of_newer_jax(case: table.Case):
    assert set(case.covers) <= table.primitives_of(table.trace(case))
    export_and_compare(case, opset=23)


@pytest.mark.parametrize("opset", [17, 18, 21, 25])
@pytest.mark.parametrize("case", CASES[::STRIDE])
def test_other_opsets(case: table.Case, opset: int):
    """The oldest and the newest opset that are written and where much changed, on a sample of the lines (all with SARDONYX_ALL=1)."""
    if opset > NEWEST_OPSET:
        pytest.skip("this onnxruntime does not load it")
    if RUNTIME < (1, 24) and case in TABLES["narrow"]:
        pytest.skip("this onnxruntime computes something else")
    if opset < first_opset(case):
        pytest.skip("ONNX has 8-bit floats since opset 19, 4-bit integers since 21")
    export_and_compare(case, opset, all_sizes=False)


@pytest.mark.parametrize("opset", range(17, 29))
def test_every_opset(opset: int):
    """A few different lines for each opset. In `make test`, nothing else runs the opsets between the ends."""
    if opset > NEWEST_OPSET:
        pytest.skip("this onnxruntime does not load it")
    rng = random.Random(opset)
    lines = [case for lines in TABLES.values() for case in lines if case.name in SAMPLE]
    for case in rng.sample(lines, 9):
        if opset >= first_opset(case):
            export_and_compare(case, opset, all_sizes=False)


def first_opset(case: table.Case) -> int:
    """The tolerance of the dtypes."""
    program = str(table.trace(case))
    return 21 if re.search(r":[iu]4\[", program) else 19 if "f8_" in program else 17


@pytest.mark.skipif(OF_JAX < (0, 10), reason="the tables are of newer JAX")
@pytest.mark.parametrize("opset", [17, *(pytest.param(n, marks=pytest.mark.slow) for n in (18, 19, 20, 22, 24))])
def test_opsets_hold_what_is_written(opset: int):
    """A fifth of the lines, all with SARDONYX_ALL=1: our verifier and onnx's checker know every operator, attribute and element type in that opset."""
    for case in [case for lines in TABLES.values() for case in lines][:: 1 if STRIDE == 1 else 5]:
        if opset < first_opset(case):
            with pytest.raises(sardonyx.Error, match="operand 0 .* is [fiu][48]|result 0 .* cannot be [fiu][48]"):
                sardonyx.to_onnx(case.fn, case.specs(), opset=opset)
            continue
        model = sardonyx.to_onnx(case.fn, case.specs(), opset=opset, enable_double_precision=case.x64)
        assert [i.version for i in model.opset_import if i.domain == ""] == [opset]
        check_structure(model, static=not case.dynamic, f64=case.x64)


def test_scaled_matmul():
    """JAX runs it on accelerators only: compared with its documentation."""
    rng = np.random.default_rng(0)
    f8, scale = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
    x, y = rng.standard_normal((2, 5, 64)).astype(f8), rng.standard_normal((2, 3, 64)).astype(f8)
    s, t = [(2.0 ** rng.integers(-3, 4, (2, n, 2))).astype(np.float32).astype(scale) for n in (5, 3)]
    specs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in (x, y, s, t)]
    scaled_matmul = scaled_matmul_stablehlo.scaled_matmul_wrapper

    model = sardonyx.to_onnx(lambda *xs: scaled_matmul(*xs, preferred_element_type=np.float32), specs, opset=25)

    wide = [v.astype(np.float32) for v in (x, y)]
    runs = [v.astype(np.float32).repeat(32, axis=2) for v in (s, t)]
    expected = np.einsum("bmk,bnk->bmn", wide[0] * runs[0], wide[1] * runs[1])
    found = ReferenceEvaluator(model).run(
        None, {i.name: v for i, v in zip(model.graph.input, (x, y, s, t), strict=True)}
    )
    compare([expected], found)
    with pytest.raises(sardonyx.Error, match="opset 24"):
        sardonyx.to_onnx(lambda *xs: scaled_matmul(*xs, preferred_element_type=np.float32), specs, opset=23)


def test_eigh_of_some():
    """JAX computes a range of eigenvalues on accelerators only: compared with the same range of all of them."""
    x = np.random.default_rng(0).standard_normal((5, 5), dtype=np.float32)
    x += x.T
    model = sardonyx.to_onnx(lambda v: jax.lax.linalg.eigh(v, subset_by_index=(1, 3)), [(5, 5)])
    vectors, values = outputs(model, [x])
    compare([np.linalg.eigvalsh(x)[1:3]], [values], 1e-5)
    compare([values * vectors], [x @ vectors], 1e-5)
