"""Run the project's checks and print the numbers passed and failed in the last line.

    scripts/checks/check.py lint | test | test-all | test-install | test-coremltools | bench

Each step is a program. If a step fails, the later ones still run. Uses the standard library only.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
REPORTS = ROOT / "build" / "reports"


@dataclass
class Result:
    passed: int
    failed: int


def run(*command: object, env: dict[str, str] | None = None) -> int:
    """Run a program in the project's folder and show its output as it comes. Returns its exit status."""
    sys.stdout.flush()
    return subprocess.run([str(c) for c in command], cwd=ROOT, env=os.environ | (env or {}), check=False).returncode


def counted(status: int, passed: int, failed: int) -> Result:
    """Counts a failure for a program that fails without reporting one, for example by crashing."""
    return Result(passed, max(failed, 1 if status else 0))


def lint() -> Result:
    for step in (["packages", "scripts/packages/debian-packages-lint.txt"], ["venv"]):
        if run("scripts/setup.sh", *step):
            return Result(0, 1)
    status = run(sys.executable, "scripts/checks/lint.py")
    return counted(status, 0 if status else 1, 0)


def unit() -> Result:
    """C++ tests. GoogleTest's report has the counts."""
    report = REPORTS / "unit.json"
    report.unlink(missing_ok=True)
    status = run(BUILD / "sx_unit", "--gtest_brief=1", f"--gtest_output=json:{report}")
    if not report.exists():
        return Result(0, 1)
    found = json.loads(report.read_text())
    failed = found["failures"] + found.get("errors", 0)
    return counted(status, found["tests"] - failed - found.get("disabled", 0), failed)


def cases() -> Result:
    """The .sx cases beside the sources. The runner's last line has its counts."""
    command = [str(BUILD / "sx_test"), "src", "tests"]
    sys.stdout.flush()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    counts = re.findall(r"(\d+) hold, (\d+) fail", done.stdout)
    if not counts:
        return Result(0, 1)
    return counted(done.returncode, int(counts[-1][0]), int(counts[-1][1]))


def case_style() -> Result:
    """Cases of Core ML in their shortest form."""
    status = run(BUILD / "sx_test", "--fmt", "--check", "src", "tests")
    return counted(status, 0 if status else 1, 0)


def rules() -> Result:
    """Rewrite rules on random graphs. The runner's last line has its counts."""
    sys.stdout.flush()
    command = [str(BUILD / "sx_test"), "--fuzz", "src/passes"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    counts = re.findall(r"(\d+) rules on random graphs: (\d+) fail", done.stdout)
    if not counts:
        return Result(0, 1)
    total, failed = int(counts[-1][0]), int(counts[-1][1])
    return counted(done.returncode, total - failed, failed)


def fuzz() -> Result:
    """Random graphs with fixed seeds through every pass: each graph is a test."""
    return fuzzed("--dialect=onnx", "--count=250")


def fuzz_mil() -> Result:
    """The same with programs of Core ML, and with rules that fire in random orders."""
    cases = "--cases=src/passes/mil"
    parts = [fuzzed("--dialect=mil", "--count=250", cases), fuzzed("--dialect=mil", "--count=100", "--order=1", cases)]
    return Result(sum(p.passed for p in parts), sum(p.failed for p in parts))


def fuzz_half() -> Result:
    """Random graphs with extreme numbers in half precision, in both dialects."""
    parts = [fuzzed("--half", "--dialect=onnx", "--count=1000"), fuzzed("--half", "--dialect=mil", "--count=500")]
    return Result(sum(p.passed for p in parts), sum(p.failed for p in parts))


def fuzzed(*arguments: str) -> Result:
    command = [str(BUILD / "sx_fuzz"), "--seed=1", *arguments]
    sys.stdout.flush()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    counts = re.findall(r"^(\d+) graphs .* (\d+) failures$", done.stdout, re.MULTILINE)
    if not counts:
        return Result(0, 1)
    return counted(done.returncode, int(counts[-1][0]), int(counts[-1][1]))


def consumer() -> Result:
    status = run("ctest", "--test-dir", BUILD, "-R", "^consumer$", "--output-on-failure", "--no-tests=error", "-Q")
    if status:  # once more, to show why
        run("ctest", "--test-dir", BUILD, "-R", "^consumer$", "--output-on-failure")
    return counted(status, 0 if status else 1, 0)


def pytest(name: str, *arguments: str, program: tuple[str, ...] = ("-m", "pytest")) -> Result:
    report = REPORTS / f"{name}.xml"
    report.unlink(missing_ok=True)
    status = run(sys.executable, *program, f"--junitxml={report}", *arguments)
    if not report.exists():
        return Result(0, 1)
    suite = ElementTree.parse(report).getroot().find("testsuite")
    if suite is None:
        return Result(0, 1)
    number = {key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")}
    failed = number["failures"] + number["errors"]
    return counted(status, number["tests"] - failed - number["skipped"], failed)


def python() -> Result:
    return pytest("python", "-n", "2", "--dist", "worksteal", "-m", "not slow and not wheel")


def python_all() -> Result:
    return pytest("python", "-n", "2", "--dist", "worksteal", "-m", "not wheel")


def coremltools() -> Result:
    """coremltools' own tests of its passes, from the wheel and from a checkout. Tests that are expected to
    fail count as skipped."""
    script = ("scripts/checks/coremltools_tests.py",)
    parts = [pytest("coremltools", "-n2", program=script)]
    if checkout := os.environ.get("COREMLTOOLS_CHECKOUT"):
        parts.append(pytest("coremltools_checkout", "-n2", program=(*script, f"--checkout={checkout}")))
    return Result(sum(p.passed for p in parts), sum(p.failed for p in parts))


def wheel() -> Result:
    """`pip install .` into a fresh environment."""
    return pytest("wheel", "-m", "wheel")


def bench() -> Result:
    status = 0
    quick = ["--quick"] if os.environ.get("QUICK") else []
    if (BUILD / "sx_bench").exists() and not quick:
        status |= run(BUILD / "sx_bench")
    status |= run(sys.executable, "bench/run.py", *quick)
    return counted(status, 0 if status else 1, 0)


STEPS: dict[str, list[Callable[[], Result]]] = {
    "lint": [lint],
    "test": [lint, unit, cases, case_style, rules, fuzz, fuzz_mil, fuzz_half, consumer, python],
    "test-all": [lint, unit, cases, case_style, rules, fuzz, fuzz_mil, fuzz_half, consumer, python_all, coremltools],
    "test-install": [wheel],
    "test-coremltools": [coremltools],
    "bench": [bench],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=STEPS)
    parser.add_argument("--only", help="only this step of it")
    arguments = parser.parse_args()
    steps = [s for s in STEPS[arguments.what] if arguments.only in (None, s.__name__)]
    REPORTS.mkdir(parents=True, exist_ok=True)
    results: list[tuple[str, Result, float]] = []
    for step in steps:
        name = step.__name__.replace("_", " ")
        print(f"== {name}", flush=True)
        start = time.monotonic()
        result = step()
        results.append((name, result, time.monotonic() - start))
    print()
    for name, result, seconds in results:
        print(f"{name:12} {result.passed:6} passed {result.failed:4} failed  {seconds:7.1f} s")
    passed = sum(r.passed for _, r, _ in results)
    failed = sum(r.failed for _, r, _ in results)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
