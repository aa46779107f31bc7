"""Rows of the primitives' tables through jax.export: what JAX computes, in about as many nodes as the direct export has.

`make test` runs one row in 29, SARDONYX_ALL=1 all. A row that JAX itself does not export does not count.
"""

import importlib
import math
import os
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import primitives
import pytest
import sardonyx
from jax import export
from judge import OF_JAX, compare, outputs
from primitives import table

CASES: list[table.Case] = [
    case
    for _, name, _ in pkgutil.iter_modules(primitives.__path__)
    if name.startswith("cases_")
    for case in importlib.import_module(f"primitives.{name}").TABLE
]


def exported(case):
    with jax.enable_x64(case.x64):
        return export.export(jax.jit(case.fn))(*case.symbolic_specs())


def outcome(case) -> tuple[str, float | None]:
    """ "", or what is wrong; the nodes beside those of the direct export."""
    try:
        artifact = exported(case)
    except Exception:
        return "not exported", None
    try:
        model = sardonyx.convert(artifact, to="onnx")
    except sardonyx.Error as e:
        return ("differs: " if e.code == "internal" else "refused: ") + str(e), None
    with jax.enable_x64(case.x64):
        for sizes in case.sizes()[:2]:
            inputs = case.sample(sizes)
            used = [inputs[i] for i in artifact.module_kept_var_idx]
            expected = [np.asarray(y) for y in jax.tree.leaves(case.fn(*map(jnp.asarray, inputs)))]
            try:
                compare(expected, outputs(model, used), case.tolerance)
            except Exception as e:
                return f"differs: {e}", None
    direct = sardonyx.to_onnx(case.fn, case.specs(), enable_double_precision=case.x64)
    nodes, wanted = len(model.graph.node), len(direct.graph.node)
    return "", nodes / wanted if nodes and wanted else None


@pytest.mark.skipif(not (0, 10) <= OF_JAX < (0, 12), reason="the tables are of another JAX")
@pytest.mark.filterwarnings("ignore")
def test_rows_through_jax_export():
    found = {case.name: outcome(case) for case in CASES[:: 1 if os.environ.get("SARDONYX_ALL") else 29]}
    judged = {name: text for name, (text, _) in found.items() if text != "not exported"}
    assert {name: text for name, text in judged.items() if text.startswith("differs")} == {}
    refused = {name: text for name, text in judged.items() if text}
    ratios = [math.log(r) for _, r in found.values() if r is not None]
    print(f"{len(judged)} rows, {len(refused)} refused, nodes {math.exp(sum(ratios) / len(ratios)):.3f}")
    assert len(refused) <= 0.03 * len(judged) + 1, refused
    assert sum(ratios) / len(ratios) < math.log(1.06), "JAX writes out some primitives, such as atan of f16"
