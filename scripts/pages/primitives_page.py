"""Run every line of the primitives' tables and list those that agree with JAX in docs/generated/primitives.md.

    .venv/bin/python scripts/pages/primitives_page.py [--no-run]

Needs the built package on the path (`make` sets it). --no-run assumes that all lines agree, as after a full
run that just passed.
"""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "python" / folder) for folder in ("support", "jax")]


def failed_lines() -> set[str]:
    """Names of the lines that fail."""
    report = ROOT / "build" / "reports" / "primitives.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "tests/python/jax/test_primitives.py",
        "-k",
        "test_case",
        f"--junitxml={report}",
    ]
    subprocess.run(command, cwd=ROOT, check=False)
    failed = set()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(re.sub(r"^test_case\[\w+: (.*)\]$", r"\1", case.get("name", "")))
    return failed


def main() -> int:
    import jax
    import sardonyx
    from judge import outputs
    from primitives import page
    from test_primitives import TABLES

    failed = set() if "--no-run" in sys.argv else failed_lines()
    cases = [case for lines in TABLES.values() for case in lines if case.name not in failed]

    def run(fn, inputs, x64):
        specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
        return outputs(sardonyx.to_onnx(fn, specs, enable_double_precision=x64), inputs)[0]

    (ROOT / "docs" / "generated" / "primitives.md").write_text(page.render(page.rows(cases), page.accuracy(run)))
    print(f"docs/generated/primitives.md: {len(cases)} lines of the tables agree with JAX, {len(failed)} do not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
