"""Write docs/generated/tests.md: the numbers of tests in this tree, figures of the other generated pages, and the last runs of tests/schedule.toml.

scripts/pages/validation_page.py                        (a test fails when a count is more than a tenth off, or a run is missing)
scripts/pages/validation_page.py ran TARGET "RESULT"    records that TARGET was run at this commit today, and what it found
"""

import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "generated" / "tests.md"
SCHEDULE = ROOT / "tests" / "schedule.toml"
FIGURES = "## What the other pages found\n"
HEAD = """# Tests: counts and last runs

`scripts/pages/validation_page.py` writes this page. [Evidence](../inside/evidence.md) has what each test claims.

"""
# What is said of a page: a pattern on its text, whose groups fill the sentence.
SAID = (
    ("exporters", r"^\| sardonyx \| (\d+ of \d+) \| (\d+) ", "{} models of exporters give the same results; {} have the fewest nodes of six tools"),
    ("sturdier", r"Below are\n(\d+) small models.* Sardonyx writes (\d+) of them", "of {} models that onnxruntime's optimizer breaks, {} are right after Sardonyx"),
    ("harnesses", r"(\d[\d,]*) are equal and (\d+) differ", "{} of JAX's harnesses are equal, {} differ"),
    ("stablehlo", r"^\| static \| ([\d,]+) \| ([\d,]+) \|.*\n\| dynamic \| (\d+) \| (\d+) \|", "of {} static test modules of StableHLO {} are right, of {} dynamic ones {}"),
    ("coreml_reach", r"^\| iOS18 \| .* \| ([\d,]+) \(([\d.]+ %)\) \| \d+ \| (\d+) \|$", "{} ({}) of ONNX's tests of operators are right in Core ML, {} wrong"),
    ("evaluator_trial", r"of which (\d+) agree,\s+(\d+) differ", "{} pairs of operator and dtype agree with onnxruntime, {} differ"),
    ("coverage", r"^\| all of C\+\+ \| \d+ \| ([\d.]+ %).*\n\| python \(\.py\) \| \d+ \| ([\d.]+ %)", "the tests run {} of the lines of C++, {} of Python"),
    ("benchmarks", r"Geometric mean: ([\d.]+) times faster than jax2onnx", "exports are {} times faster than by jax2onnx, tracing included (geometric mean)"),
)  # fmt: skip


def lines(pattern: str, files) -> int:
    return sum(len(re.findall(pattern, file.read_text(), re.MULTILINE)) for file in files)


def counts() -> dict[str, int]:
    src, tests = ROOT / "src", ROOT / "tests"
    return {
        "passes on ONNX models": lines(r"^SX_PASS\(", (src / "passes" / "onnx").glob("*.def")),
        "passes on Core ML programs": lines(r"^SX_PASS\(", (src / "passes" / "mil").glob("*.def")),
        "built-in lowerings of JAX primitives": lines(
            r"^SX_(LOWERING|ELEMENTWISE)\w*\(", (src / "lower" / "jax_to_onnx").rglob("*.def")
        ),
        "text cases of passes": lines('^case "', (src / "passes").rglob("*.sx")),
        "text cases of lowerings": lines('^case "', (src / "lower").rglob("*.sx")),
        "C++ tests": lines(r"^TEST(_F|_P)?\(", [f for top in (src, tests, ROOT / "cli", ROOT / "python") for f in top.rglob("*_test.cc")]),
        "Python test functions, most with many parameters": lines(r"^\s*def test_", tests.rglob("test_*.py")),
        "kept hostile inputs": sum(f.is_file() for f in (tests / "bytes" / "kept").rglob("*")),
    }  # fmt: skip


def commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def runs() -> str:
    """The table of the scheduled checks."""
    rows = ["| Check | Runs | Last recorded run | Result |", "|---|---|---|---|"]
    for check in tomllib.loads(SCHEDULE.read_text())["check"]:
        last = f"{check['date']} at {check['commit']}" if "date" in check else "none"
        rows.append(f"| `make {check['target']}` | {check['when']} | {last} | {check.get('result', '')} |")
    return "\n".join(rows) + "\n"


def with_run(schedule: str, target: str, result: str) -> str:
    """The schedule with a run of today."""
    entries = schedule.split("\n\n")
    for i, entry in enumerate(entries):
        if f'target = "{target}"' in entry.splitlines():
            kept = [line for line in entry.splitlines() if line.split(" = ")[0] not in ("date", "commit", "result")]
            quoted = result.replace("\\", "\\\\").replace('"', '\\"')
            now = [f'date = "{datetime.now(UTC):%Y-%m-%d}"', f'commit = "{commit()}"', f'result = "{quoted}"']
            entries[i] = "\n".join([*kept, *now])
            return "\n\n".join(entries).rstrip("\n") + "\n"
    raise SystemExit(f"error: {SCHEDULE.name} has no check '{target}'")


def figures() -> str:
    """What the other generated pages say in a line each."""
    rows = ["| Page | |", "|---|---|"]
    for name, pattern, said in SAID:
        found = re.search(pattern, (PAGE.parent / f"{name}.md").read_text(), re.MULTILINE)
        rows.append(f"| [{name}.md]({name}.md) | {said.format(*found.groups())} |")
    return "\n".join(rows) + "\n"


def with_runs(now: str) -> str:
    """The page with its counts as they are, and the other tables as of now."""
    return now.split(FIGURES)[0] + FIGURES + "\n" + figures() + "\n## The schedule\n\n" + runs()


def page() -> str:
    table = [
        f"| Counted {datetime.now(UTC):%Y-%m-%d} at {commit()} | |",
        "|---|--:|",
        *(f"| {what} | {n:,} |" for what, n in counts().items()),
    ]
    return with_runs(HEAD + "\n".join(table) + "\n\n")


def written(now: str) -> dict[str, int]:
    rows = re.findall(r"^\| (.+) \| ([\d,]+) \|$", now.split(FIGURES)[0], re.MULTILINE)
    return {what: int(n.replace(",", "")) for what, n in rows}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ran", target, result]:
            SCHEDULE.write_text(with_run(SCHEDULE.read_text(), target, result))
            PAGE.write_text(with_runs(PAGE.read_text()))
            sys.exit()
        case [_, *_]:
            sys.exit(__doc__)
    PAGE.write_text(page())
