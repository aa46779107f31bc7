"""Write the counts of docs/validation.md: the numbers of tests in this tree.

scripts/validation_page.py     (a test fails when a count is more than a tenth off)
"""

import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "validation.md"
BEGIN, END = "<!-- counts: scripts/validation_page.py -->\n", "<!-- end of counts -->\n"


def lines(pattern: str, files) -> int:
    return sum(len(re.findall(pattern, file.read_text(), re.MULTILINE)) for file in files)


def counts() -> dict[str, int]:
    src, tests = ROOT / "src", ROOT / "tests"
    return {
        "passes on ONNX models": lines(r"^SX_PASS\(", (src / "passes" / "onnx").glob("*.def")),
        "passes on Core ML programs": lines(r"^SX_PASS\(", (src / "passes" / "mil").glob("*.def")),
        "built-in lowerings of JAX primitives": lines(
            r"^SX_(LOWERING|ELEMENTWISE)\w*\(", (src / "lower" / "onnx").glob("*.def")
        ),
        "text cases of passes": lines('^case "', (src / "passes").rglob("*.sx")),
        "text cases of lowerings": lines('^case "', (src / "lower").rglob("*.sx")),
        "C++ tests": lines(r"^TEST(_F|_P)?\(", [f for top in (src, tests, ROOT / "tools", ROOT / "python") for f in top.rglob("*_test.cc")]),
        "Python test functions, most with many parameters": lines(r"^\s*def test_", tests.rglob("test_*.py")),
        "kept hostile inputs": sum(f.is_file() for f in (tests / "bytes" / "kept").rglob("*")),
    }  # fmt: skip


def page(now: str) -> str:
    head, rest = now.split(BEGIN)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    table = [
        f"| Counted {datetime.now(UTC):%Y-%m-%d} at {commit} | |",
        "|---|--:|",
        *(f"| {what} | {n:,} |" for what, n in counts().items()),
    ]
    return head + BEGIN + "\n".join(table) + "\n" + END + rest.split(END)[1]


def written(now: str) -> dict[str, int]:
    rows = re.findall(r"^\| (.+) \| ([\d,]+) \|$", now.split(BEGIN)[1].split(END)[0], re.MULTILINE)
    return {what: int(n.replace(",", "")) for what, n in rows}


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
