"""Measure which lines and branches the tests run, in C++ and in Python.

    scripts/checks/coverage.py [--cpp-only] [--report FILE] [-- PYTEST ARGUMENTS...]

The build is build/coverage (preset coverage: clang's source-based coverage). Runs the C++ tests, the cases,
the rules on random graphs, the random graphs of `make test`, and the Python tests on that build's module;
coverage.py counts Python's own lines. Prints a table by folder, writes HTML pages of all files to
build/coverage/html, and updates docs/generated/coverage.md (--report). The page lists each file of `ir`, `rewrite`,
`passes`, `lower` and `io` with less than 90 % of its lines run, and the reason from
tests/coverage_reasons.txt.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "coverage"
RAW = BUILD / "raw"
REASONS = ROOT / "tests" / "coverage_reasons.txt"  # path: reason
WANTED = 90.0
JUDGED = ("ir", "rewrite", "passes", "lower", "io")
PYTEST = ["-m", "not slow and not wheel", "-n", "2", "--dist", "worksteal"]


def run(*command: object, **env: str) -> int:
    print("$", *command, flush=True)
    # %4m: processes merge their counts into four files instead of leaving one each.
    env = os.environ | {"LLVM_PROFILE_FILE": str(RAW / "%4m.profraw")} | env
    return subprocess.run([str(c) for c in command], cwd=ROOT, env=env, check=False).returncode


def tests(pytest: list[str], cpp_only: bool) -> list[str]:
    """Runs the tests. Returns the names of failures; their lines still count."""
    bad = []
    steps = {
        "unit": ["sx_unit", "--gtest_brief=1"],
        "cases": ["sx_test", "src", "tests"],
        "rules": ["sx_test", "--fuzz", "src/passes"],
        "random graphs": ["sx_fuzz", "--seed=1", "--count=250", "--no-shrink"],
    }
    for name, (program, *arguments) in steps.items():
        if run(BUILD / program, *arguments):
            bad.append(name)
    if not cpp_only:
        paths = f"pythonpath={BUILD / 'python'} tests demo " + " ".join(
            f"tests/python/{p.name}" for p in sorted((ROOT / "tests/python").iterdir()) if p.is_dir()
        )
        command = [sys.executable, "-m", "coverage", "run", "-m", "pytest", "-o", paths, *(pytest or PYTEST)]
        if run(*command, PYTHONPATH=str(BUILD / "python"), SARDONYX_BUILD=str(BUILD)):
            bad.append("python")
    return bad


def cpp_report() -> dict[str, dict]:
    """The summary of each source, by path."""
    data = BUILD / "all.profdata"
    raw = [str(p) for p in RAW.glob("*.profraw")]
    subprocess.run(["llvm-profdata-19", "merge", "-sparse", "-o", data, *raw], check=True)
    objects = [BUILD / "sx_unit", BUILD / "sx_test", BUILD / "sx_fuzz", BUILD / "sardonyx"]
    objects += list((BUILD / "python" / "sardonyx").glob("_sardonyx*.so"))
    there = [o for o in objects if o.exists()]
    common = [f"-instr-profile={data}", there[0], *(x for o in there[1:] for x in ("-object", o))]
    common += ["-ignore-filename-regex=(_test\\.cc|_bench\\.cc|/tests/|/usr/|nanobind|/build/)"]
    done = subprocess.run(
        [str(c) for c in ["llvm-cov-19", "export", "-summary-only", *common]], capture_output=True, check=True
    )
    show = ["llvm-cov-19", "show", "-format=html", f"-output-dir={BUILD / 'html'}", "-show-branches=count", *common]
    subprocess.run([str(c) for c in show], check=True, capture_output=True)
    found = {}
    for file in json.loads(done.stdout)["data"][0]["files"]:
        found[str(Path(file["filename"]).relative_to(ROOT))] = file["summary"]
    return found


def python_report() -> dict[str, dict]:
    target = BUILD / "python.json"
    subprocess.run([sys.executable, "-m", "coverage", "combine", "-q"], cwd=ROOT, check=False)
    subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", target], cwd=ROOT, check=True)
    subprocess.run(
        [sys.executable, "-m", "coverage", "html", "-q", "-d", BUILD / "html" / "python"], cwd=ROOT, check=False
    )
    return {path: f["summary"] for path, f in json.loads(target.read_text())["files"].items()}


class Sum:
    def __init__(self) -> None:
        self.lines = self.covered = self.branches = self.taken = 0

    def cells(self) -> str:
        return (
            f"{self.lines} | {share(self.covered, self.lines)} | {self.branches} | {share(self.taken, self.branches)}"
        )


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def folder_of(path: str) -> str:
    parts = Path(path).parts
    if parts[0] == "include":
        return "include"
    if parts[0] == "src" and parts[1] == "passes" and len(parts) > 3:
        return "/".join(parts[:3])
    return "/".join(parts[:2]) if parts[0] == "src" else parts[0]


def tables(cpp: dict[str, dict], python: dict[str, dict]) -> tuple[str, dict[str, float]]:
    sums: dict[str, Sum] = defaultdict(Sum)
    low: dict[str, float] = {}
    for path, s in cpp.items():
        both = [sums[folder_of(path)], sums["all of C++"]]
        for total in both:
            total.lines += s["lines"]["count"]
            total.covered += s["lines"]["covered"]
            total.branches += s["branches"]["count"]
            total.taken += s["branches"]["covered"]
        parts = Path(path).parts
        percent = s["lines"]["percent"]
        if parts[0] == "src" and parts[1] in JUDGED and s["lines"]["count"] and percent < WANTED:
            low[path] = percent
    for path, s in python.items():
        for total in (sums["python (.py)"],):
            total.lines += s["num_statements"]
            total.covered += s["covered_lines"]
            total.branches += s.get("num_branches", 0)
            total.taken += s.get("covered_branches", 0)
        if s["percent_covered"] < WANTED and s["num_statements"]:
            low[path] = s["percent_covered"]
    lines = ["| Folder | Lines | run | Branches | taken |", "|---|---:|---:|---:|---:|"]
    order = sorted(k for k in sums if k not in ("all of C++", "python (.py)")) + ["all of C++", "python (.py)"]
    lines += [f"| {k} | {sums[k].cells()} |" for k in order if k in sums]
    return "\n".join(lines), low


def reasons() -> dict[str, str]:
    lines = [line for line in REASONS.read_text().splitlines() if line and not line.startswith("#")]
    return {path: reason.strip() for path, _, reason in (line.partition(":") for line in lines)}


def write_page(page: Path, table: str, low: dict[str, float]) -> list[str]:
    """Returns faults of the reasons: those missing, and those that no file needs any more."""
    known = reasons()
    rows = [f"| `{path}` | {percent:.1f} % | {known.get(path, '')} |\n" for path, percent in sorted(low.items())]
    text = page.read_text()
    text = re.sub(r"(<!-- table -->\n).*?(<!-- end -->)", lambda m: m[1] + table + "\n" + m[2], text, flags=re.DOTALL)
    head = "| File | Lines run | Why not more |\n|---|---:|---|\n"
    text = re.sub(
        r"(<!-- low -->\n).*?(<!-- end -->)", lambda m: m[1] + head + "".join(rows) + m[2], text, flags=re.DOTALL
    )
    page.write_text(text)
    missing = [f"give a reason for {path}" for path in sorted(low) if not known.get(path)]
    return missing + [f"no reason is needed for {path}" for path in sorted(known) if path not in low]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpp-only", action="store_true")
    parser.add_argument("--report-only", action="store_true", help="of what ran last time")
    parser.add_argument("--report", type=Path, help="the page to bring up to date")
    parser.add_argument("pytest", nargs="*")
    arguments = parser.parse_args()
    bad = []
    if not arguments.report_only:
        RAW.mkdir(parents=True, exist_ok=True)
        for old in RAW.glob("*.profraw"):
            old.unlink()
        bad = tests(arguments.pytest, arguments.cpp_only)
    table, low = tables(cpp_report(), {} if arguments.cpp_only else python_report())
    print(table)
    for path, percent in sorted(low.items(), key=lambda x: x[1]):
        print(f"{percent:5.1f} %  {path}")
    print(f"pages: {BUILD / 'html' / 'index.html'}")
    if bad:
        print(f"failed: {', '.join(bad)}")
    if arguments.report:
        for what in write_page(arguments.report, table, low):
            print(f"{REASONS.relative_to(ROOT)}: {what}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
