"""A pytest plugin: coremltools' own tests of its passes, run on Sardonyx's passes.

coremltools ships these tests inside its wheel; nothing of them is kept here. Loaded by scripts/checks/coremltools_tests.py, which says what is
run. Every test runs inside `sardonyx.coreml.native_passes()`. Tests that the lists beside this file name are expected to fail: one that
passes nevertheless is a failure, and so is, when all tests are collected, a line of a list that names none.

Packages that coremltools' tests import and that a test here never needs (torch, Pillow) are stood in for, if they are missing.
"""

import importlib.util
import os
import sys
import types
from pathlib import Path
from unittest import mock

import pytest

LISTS = {"differs.txt": False, "fails_with_both.txt": True}  # True: fails with coremltools' own passes too
OF = os.environ.get("COREMLTOOLS_TESTS_OF", "")  # a version, or main
STOOD_IN = []  # packages that are not there
OWN = os.environ.get("COREMLTOOLS_TESTS_OWN_PASSES") == "1"


def missing(name: str) -> bool:
    return name not in sys.modules and importlib.util.find_spec(name) is None


def expand(rows):
    """`parameterized.expand`: a method for each row of arguments, with names that count."""

    def decorate(method):
        names = sys._getframe(1).f_locals
        for number, row in enumerate(rows):
            names[f"{method.__name__}_{number}"] = lambda self, row=row: method(self, *row)

    return decorate


def stand_in() -> None:
    if missing("mock"):
        sys.modules["mock"] = mock
    if missing("parameterized"):
        module = types.ModuleType("parameterized")
        module.parameterized = types.SimpleNamespace(expand=expand)
        sys.modules["parameterized"] = module
    if missing("PIL"):
        package, image = types.ModuleType("PIL"), types.ModuleType("PIL.Image")
        image.Image = type("Image", (), {})
        package.Image = image
        sys.modules |= {"PIL": package, "PIL.Image": image}
    if missing("torch"):
        STOOD_IN.append("torch")
        import coremltools  # noqa: F401  it looks for torch first, and is to find none
        import coremltools.converters.mil.testing_utils  # noqa: F401

        torch = mock.MagicMock(__spec__=None, __version__="0")
        for name in ("torch", "torch.nn", "torch.nn.functional"):
            sys.modules[name] = torch


stand_in()


@pytest.fixture(autouse=True)
def native(monkeypatch):
    """Passes by name are Sardonyx's, and so is the cast to half precision that tests call by its class."""
    if OWN:
        yield
        return
    from coremltools.converters.mil.mil.passes.defs import quantization
    from sardonyx import coreml

    def apply(self, prog):
        coreml.apply_pass(prog, "common::add_fp16_cast", op_selector=self.op_selector)

    monkeypatch.setattr(quantization.FP16ComputePrecision, "apply", apply)
    with coreml.native_passes():
        yield


def expected_failures() -> dict[str, str]:
    """Test -> reason. In the lists, the reason stands above the tests, behind a #; "9.0:" or "main:" before a test: there only."""
    found: dict[str, str] = {}
    for name, both in LISTS.items():
        if OWN and not both:
            continue
        reason = ""
        for line in (Path(__file__).parent / name).read_text().splitlines():
            if line.startswith("#"):
                reason = line.lstrip("# ")
            elif line.strip():
                only, separator, test = line.strip().rpartition(": ")
                if not separator or only == OF:
                    found[test] = reason
    return found


def one_of_each(items):
    """One case of each test, and so of each class: the last one that is expected to pass and needs no device."""
    expected, chosen = expected_failures(), {}
    for item in items:
        skipped = any(item.iter_markers("skip")) or any(m.args and m.args[0] for m in item.iter_markers("skipif"))
        if not skipped and name_of(item) not in expected:
            chosen[item.path, item.cls, item.function.__name__] = item
    return list(chosen.values())


def name_of(item) -> str:
    path, separator, test = item.nodeid.partition(".py::")
    return path.split("/")[-1] + separator + test


def pytest_collection_modifyitems(session, config, items):
    if os.environ.get("COREMLTOOLS_TESTS_SAMPLE") == "1":
        items[:] = one_of_each(items)
    expected = expected_failures()
    for item in items:
        name = name_of(item)
        if name in expected:
            reason = expected.pop(name)
            strict = reason != "needs PyTorch" or "torch" in STOOD_IN
            item.add_marker(pytest.mark.xfail(reason=reason, strict=strict))
    if os.environ.get("COREMLTOOLS_TESTS_WHOLE") == "1" and expected:
        raise pytest.UsageError(f"no such tests, though expected to fail: {', '.join(sorted(expected))}")
