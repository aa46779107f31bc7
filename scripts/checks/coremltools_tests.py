"""Run coremltools' own tests of its passes on Sardonyx's passes.

    scripts/checks/coremltools_tests.py [--checkout FOLDER] [--sample] [--own] [pytest's arguments]

The tests come from the installed coremltools or, with --checkout, from a checkout of its repository, which
runs with the wheel's shared libraries. tests/coremltools_own lists the tests that fail, and why. The run
fails when any other test fails, and when a listed one passes. --own runs the tests on coremltools' passes,
where only the second list counts. --sample runs one case of each test. Names of files or tests
(test_passes.py::TestPadConvFusion) and pytest's options may follow, each as one argument: -n2, --tb=short.
"""

import argparse
import hashlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = "9.0"  # the wheel that the lists were written for
MAIN = "e0e2f42b"  # the commit of coremltools' main branch
PASSES = Path("converters", "mil", "mil", "passes")


def installed() -> Path | None:
    """The folder of the installed coremltools; None if it has no tests."""
    spec = importlib.util.find_spec("coremltools")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    return package if (package / PASSES / "tests" / "test_passes.py").exists() else None


def why_not() -> str | None:
    if installed() is None:
        return "the installed coremltools has no tests, or there is none: pip install -r requirements-dev.txt"
    if (found := importlib.metadata.version("coremltools")) != VERSION:
        return f"coremltools {found} is installed, the lists of tests that fail are for {VERSION}"
    return None


def staged(checkout: Path) -> Path:
    """A folder that links to the checkout's package `coremltools` and the wheel's shared libraries. The
    checkout stays unchanged."""
    source, wheel = checkout.resolve() / "coremltools", installed()
    if wheel is None or not (source / PASSES / "tests" / "test_passes.py").exists():
        raise SystemExit(f"{checkout} is no checkout of coremltools' repository: {source} has no tests of passes")
    # One folder per checkout, so that concurrent runs do not collide.
    root = ROOT / "build" / "coremltools" / hashlib.sha256(str(source).encode()).hexdigest()[:12]
    package = root / "coremltools"
    package.mkdir(parents=True, exist_ok=True)
    for entry in [*wheel.glob("*.so"), *source.iterdir()]:
        link = package / entry.name
        if link.is_symlink() and os.readlink(link) == str(entry):
            continue
        link.unlink(missing_ok=True)
        link.symlink_to(entry)
    return root


def command(where: Path, tests: list[str], options: list[str]) -> list[str]:
    # A temporary folder without settings: the tests are not part of this project and must leave no files in
    # it.
    fixed = ["-q", "-p", "native_plugin", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={where}"]
    ours = ROOT / "tests" / "coremltools_own" / "test_registry.py"
    return [
        sys.executable,
        "-m",
        "pytest",
        *fixed,
        *options,
        *([str(where / t) for t in tests] or [str(where), str(ours)]),
    ]


def environment(root: Path | None, own: bool, whole: bool, sample: bool) -> dict[str, str]:
    path = [str(root)] if root is not None else []
    path += [str(ROOT / "build" / "release" / "python"), str(ROOT / "tests" / "coremltools_own")]
    path += [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "COREMLTOOLS_TESTS_OF": "main" if root is not None else VERSION,
        "COREMLTOOLS_TESTS_OWN_PASSES": "1" if own else "0",
        "COREMLTOOLS_TESTS_SAMPLE": "1" if sample else "0",
        "COREMLTOOLS_TESTS_WHOLE": "1" if whole else "0",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--own", action="store_true", help="on coremltools' own passes, to see which fail with these")
    parser.add_argument("--sample", action="store_true", help="one case of each test")
    parser.add_argument(
        "--checkout", type=Path, help="a checkout of coremltools' repository instead of what is installed"
    )
    parser.add_argument("tests", nargs="*", help="files, or tests by pytest's names; all by default")
    arguments, options = parser.parse_known_args()
    if reason := why_not():
        print(reason)
        return 1
    root = staged(arguments.checkout) if arguments.checkout is not None else None
    where = (root / "coremltools" if root is not None else installed()) / PASSES / "tests"
    return subprocess.run(
        command(where, arguments.tests, options),
        env=environment(root, arguments.own, not arguments.tests and not arguments.sample, arguments.sample),
        cwd=ROOT / "build",
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
