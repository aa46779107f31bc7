"""Every line of the tables in `primitives/`: traced, exported, checked, run, and compared with JAX.

`pytest tests/python/test_primitives.py -k "cumsum"` runs the lines with that in their name.
"""

import importlib
import os
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import primitives
import pytest
import sardonyx
from judge import check_structure, compare, outputs
from primitives import table

TABLES = {
    name.removeprefix("cases_"): importlib.import_module(f"primitives.{name}").TABLE
    for _, name, _ in pkgutil.iter_modules(primitives.__path__)
    if name.startswith("cases_")
}
CASES = [pytest.param(case, id=f"{name}: {case.name}") for name, lines in TABLES.items() for case in lines]

STRIDE = 1 if os.environ.get("SARDONYX_ALL") else 11

# The primitives the converter names. A table that stops reaching one of them fails `test_all_are_covered`.
NAMED = """
abs acos acosh add add_any and argmax argmin asin asinh atan atan2 atanh bitcast_convert_type broadcast_in_dim cbrt ceil
clamp clz concatenate cond conv_general_dilated convert_element_type copy cos cosh cumlogsumexp cummax cummin cumprod
cumsum custom_jvp_call custom_vjp_call digamma dim_as_value div dot_general dynamic_slice dynamic_update_slice eq erf
erf_inv erfc exp exp2 expm1 floor gather ge gt integer_pow iota is_finite jit le lgamma log log1p logistic lt max min mul
ne neg nextafter not or pad population_count pow random_bits random_fold_in random_seed random_split random_unwrap
random_wrap reduce_and reduce_max reduce_min reduce_or reduce_precision reduce_prod reduce_sum reduce_window_max
reduce_window_min reduce_window_sum reduce_xor rem remat2 reshape rev round rsqrt scan scatter scatter-add scatter-max
scatter-min scatter-mul select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh slice sort split sqrt
square squeeze stack stop_gradient sub tan tanh tile top_k transpose unstack while xor
""".split()


def trace(case: table.Case):
    with jax.enable_x64(case.x64):
        return jax.make_jaxpr(case.fn)(*case.symbolic_specs())


def test_all_are_covered():
    reached = {name for lines in TABLES.values() for case in lines for name in table.primitives_of(trace(case))}
    assert not set(NAMED) - reached


def test_names_are_unique():
    names = [case.name for lines in TABLES.values() for case in lines]
    assert sorted(set(names)) == sorted(names)


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
    assert set(case.covers) <= table.primitives_of(trace(case)), "the line does not reach what it says it covers"
    export_and_compare(case, opset=23)


@pytest.mark.parametrize("opset", [21, 25])
@pytest.mark.parametrize("case", CASES[::STRIDE])
def test_other_opsets(case: table.Case, opset: int):
    """The oldest and the newest opset that are written, on a sample of the lines (all of them with SARDONYX_ALL=1)."""
    export_and_compare(case, opset, all_sizes=False)
