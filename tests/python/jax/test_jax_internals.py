"""The parts of JAX that Sardonyx uses internally. A release that moves or renames one fails here first, by
name. See _data_shapes.py."""

import inspect

import pytest
from sardonyx._trace.data import functions as _data_functions
from sardonyx._trace.data import loops as _data_loops
from sardonyx._trace.data import shapes as _data_shapes
from sardonyx.plugins import _patches

REPLACED = _data_functions.replacements() | _data_loops.replacements()
for built_in in _data_shapes.BUILT_IN:
    REPLACED |= built_in.replacements()

# The parameters that replacements read by name.
READ = {
    "nonzero": "a size", "argwhere": "a size", "compress": "condition a axis size out", "arange": "start stop step dtype device",
    "repeat": "a repeats axis total_repeat_length", "unique": "ar return_index return_inverse return_counts axis equal_nan size",
    "bincount": "x minlength length", "delete": "arr obj axis assume_unique_indices", "trim_zeros": "filt trim axis",
    "_conv": "x y mode op precision preferred_element_type", "indices": "dimensions dtype sparse", "diag_indices": "n ndim",
    "vander": "x N increasing", "searchsorted": "a v side sorter", "union1d": "ar1 ar2 size",
    "setdiff1d": "ar1 ar2 assume_unique size", "setxor1d": "ar1 ar2 assume_unique size",
    "linspace": "start stop num endpoint retstep dtype axis device", "logspace": "start stop num endpoint base dtype axis",
    "geomspace": "start stop num endpoint dtype axis",
} | {path.rpartition(".")[2]: " ".join(names) for path, names in _data_functions._COUNTS.items()}  # fmt: skip

PRIVATE = """
    jax._src.core.is_concrete jax._src.core.get_axis_env jax._src.source_info_util.user_frame
    jax._src.interpreters.pxla._move_mutable_consts jax._src.state.discharge.discharge_state
    jax._src.export.shape_poly._geq_decision jax._src.export.shape_poly._bounds_decision
    jax._src.export.shape_poly.BoundsPrecision.BEST jax._src.export.shape_poly.Comparator.GEQ
    jax._src.export.shape_poly._DimExpr._get_vars jax._src.export.shape_poly._DimExpr._evaluate
    jax._src.export.shape_poly._DimExpr._from_term jax._src.export.shape_poly._DimExpr.__eq__
    jax._src.export.shape_poly._DimExpr.max jax._src.export.shape_poly._DimExpr.rmax
    jax._src.export.shape_poly_decision._DecisionByElimination.add_implicit_constraints_term
    jax._src.export.shape_poly_decision._DecisionByElimination.combine_and_add_constraint
    jax._src.interpreters.partial_eval jax._src.interpreters.mlir jax._src.dispatch
""".split()


@pytest.mark.parametrize("path", sorted(REPLACED))
def test_a_replaced_function_exists_and_has_the_parameters_that_are_read(path):
    function = _patches.resolve(path)
    parameters = inspect.signature(function).parameters
    missing = [p for p in READ.get(path.rpartition(".")[2], "").split() if p not in parameters]
    assert not missing, f"{path}{inspect.signature(function)} has no {', '.join(missing)}"


@pytest.mark.parametrize("path", PRIVATE)
def test_a_private_name_exists(path):
    assert _patches.resolve(path) is not None
