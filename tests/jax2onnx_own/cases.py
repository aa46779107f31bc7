"""The cases that jax2onnx tests itself with, exported by Sardonyx. `scripts/checks/jax2onnx_tests.py` runs them.

jax2onnx's own generator makes the tests: inputs, dtypes, the comparison with JAX, what shapes, names and functions are expected. It calls
`sardonyx.to_onnx` with jax2onnx's keywords. What a case says of the graph that jax2onnx makes is not asked.
"""

import logging
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, os.environ["JAX2ONNX_SOURCES"])
# Programs that run once are compiled with little effort.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import jax
import jax2onnx
import jax2onnx.plugins.plugin_system
import jax2onnx.user_interface
import sardonyx


def onnx_function(target=None, *, unique=False, namespace=None, name=None, type=None):
    options = {"unique": unique, "namespace": namespace, "type": type or name}
    given = {k: v for k, v in options.items() if v}
    if target is None:
        return lambda of: sardonyx.onnx_function(of, **given)
    return sardonyx.onnx_function(target, **given)


# Modules of examples take it from there when the generator imports them.
for module in (jax2onnx, jax2onnx.plugins.plugin_system, jax2onnx.user_interface):
    module.onnx_function = onnx_function

from tests import t_generator as generator  # noqa: E402


def bind_as_functions():
    """jax2onnx's own primitives become the functions that compute them: only it can trace the others."""
    jax2onnx.plugins.plugin_system.import_all_plugins()
    for plugin in jax2onnx.plugins.plugin_system.PLUGIN_REGISTRY.values():
        primitive = getattr(plugin, "_PRIM", None)
        if primitive is not None and "impl" in vars(primitive) and "abstract_eval" not in vars(primitive):
            primitive.bind = primitive.impl


bind_as_functions()

logging.disable(logging.CRITICAL)


def read_expected() -> dict[str, str]:
    """Why a case cannot pass, by its name: the comment above it."""
    found, reason = {}, ""
    for line in (Path(__file__).parent / "differs.txt").read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            found[line] = reason
    return found


def cases():
    expected, seen = read_expected(), set()
    for (context, component), found in sorted(generator.get_plugin_grouping().items()):
        for case in found:
            name = f"{context}::{component}::{case['testcase']}"
            if name in seen:  # a second case of that name
                continue
            seen.add(name)
            reason = expected.pop(name, None)
            marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
            yield pytest.param(case, id=name, marks=marks)
    assert not expected, f"differs.txt names cases that are not there: {', '.join(expected)}"


@pytest.mark.parametrize("case", list(cases()))
def test_case(case, tmp_path, monkeypatch):
    def to_onnx(**keywords):
        keywords["output_path"] = str(tmp_path / "model.onnx")
        for key in ("input_names", "output_names"):
            keywords[key] = keywords.get(key) or "positional"
        keywords["input_params"] = keywords.get("input_params") or None
        return sardonyx.to_onnx(keywords.pop("fn"), keywords.pop("inputs"), **keywords)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(generator, "to_onnx", to_onnx)
    try:
        generator.make_test_function({k: v for k, v in case.items() if k != "post_check_onnx_graph"})()
    finally:
        jax.config.update("jax_enable_x64", False)
