"""A sample of coremltools' own tests of its passes, on Sardonyx's passes. All of them: make test-coremltools."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "checks" / "coremltools_tests.py"
sys.path.insert(0, str(SCRIPT.parent))
import coremltools_tests  # noqa: E402

pytestmark = pytest.mark.skipif(coremltools_tests.why_not() is not None, reason=str(coremltools_tests.why_not()))


def run(*arguments):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1200,
    )
    return done.returncode, done.stdout


def test_coremltools_tests_hold():
    status, said = run("--sample")
    assert status == 0, said[-5000:]
    assert int(re.findall(r"(\d+) passed", said)[-1]) > 300, said[-500:]


def test_the_tests_run_on_native_passes():
    # This test expects ops that Sardonyx removes. It passes on coremltools' passes.
    name = "test_cleanup_passes.py::TestNoopElimination::test_elementwise_elimination_fill"
    status, said = run(name)
    assert status == 0 and "1 xfailed" in said, said[-5000:]
    status, said = run("--own", name)
    assert status == 0 and "1 passed" in said, said[-5000:]
