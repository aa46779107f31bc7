"""coremltools' own tests of its passes, run on Sardonyx's passes.

    scripts/coremltools_tests.py [--sample] [--own] [pytest's arguments]

The tests are those that the installed coremltools ships. Which of them fail, and why, is in tests/coremltools_own; the run fails when
another one does, and when one of these passes. --own runs the tests on coremltools' passes, where only the second list counts;
--sample runs a few hundred that need seconds. Names of files or tests (test_passes.py::TestPadConvFusion) and pytest's options may
follow, each in one piece: -n2, --tb=short.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = "9.0"  # what the lists were written for

# Classes that are done in seconds, of every file.
SAMPLE = (
    "test_optimize_linear_passes.py",
    "test_pass_pipeline.py",
    "test_symbol_transform.py",
    "test_cleanup_passes.py::TestNoopElimination",
)


def folder() -> Path | None:
    """Where the installed coremltools has its tests; None where it has none."""
    spec = importlib.util.find_spec("coremltools")
    if spec is None or spec.origin is None:
        return None
    tests = Path(spec.origin).parent / "converters" / "mil" / "mil" / "passes" / "tests"
    return tests if (tests / "test_passes.py").exists() else None


def why_not() -> str | None:
    if folder() is None:
        return "the installed coremltools has no tests, or there is none: pip install -r requirements-dev.txt"
    if (found := importlib.metadata.version("coremltools")) != VERSION:
        return f"coremltools {found} is installed, the lists of tests that fail are for {VERSION}"
    return None


def command(tests: list[str], options: list[str]) -> list[str]:
    where = folder()
    # A temporary folder and no settings: the tests are not part of this project, and leave nothing beside themselves.
    fixed = ["-q", "-p", "native_plugin", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={where}"]
    return [sys.executable, "-m", "pytest", *fixed, *options, *[str(where / t) for t in tests or ["."]]]


def environment(own: bool, whole: bool) -> dict[str, str]:
    path = [str(ROOT / "build" / "release" / "python"), str(ROOT / "tests" / "coremltools_own")]
    path += [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "COREMLTOOLS_TESTS_OWN_PASSES": "1" if own else "0",
        "COREMLTOOLS_TESTS_WHOLE": "1" if whole else "0",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--own", action="store_true", help="on coremltools' own passes, to see which fail with these")
    parser.add_argument("--sample", action="store_true", help="those that take seconds")
    parser.add_argument("tests", nargs="*", help="files, or tests by pytest's names; all by default")
    arguments, options = parser.parse_known_args()
    if reason := why_not():
        print(reason)
        return 1
    tests = list(SAMPLE) if arguments.sample else arguments.tests
    return subprocess.run(
        command(tests, options), env=environment(arguments.own, not tests), cwd=ROOT / "build", check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
