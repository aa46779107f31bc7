"""Write docs/generated/sturdier.md: small models that onnxruntime's own optimizer breaks, by release and level, before and after Sardonyx.

    scripts/pages/sturdier_page.py FOLDER...    folders with other releases of onnxruntime (pip install --target FOLDER onnxruntime==...)

The rows are those of tests/python/support/sturdier.py. The installed release runs, too, each in a process of its own.
"""

import datetime
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "generated" / "sturdier.md"
sys.path.insert(0, str(ROOT / "tests" / "python" / "support"))

import sardonyx  # noqa: E402
from sturdier import LEVELS, ROWS  # noqa: E402

HEAD = """# Sturdier in onnxruntime

onnxruntime optimizes each model that it loads. Some of its fusions change results, or make a graph that it cannot load
or run. The checker of ONNX finds nothing wrong with such a model, and with optimizations off it is right. Below are
{count} small models that break in at least one of {releases}. Sardonyx writes {right} of them
so that each of these releases is right at each of its levels; exports from JAX end with the same passes.

Some become right because the nodes that break are not needed (an Identity, a Relu before a Clip), or because they
become one operator (LayerNormalization). For the others, the pass `guard_fusions` chooses a spelling that no release
breaks. `check=True` and `compare` run your onnxruntime as it is, and tell whether a difference comes from its
optimizer ([trust.md](../guide/trust.md)).

Run {date} by `scripts/pages/sturdier_page.py`; `pytest tests/python/onnx/test_sturdier.py` runs the rows in the installed release.
"""


def results(folder: str | None, rows: str) -> dict:
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, ROOT / "tests" / "python" / "support" / "sturdier.py", rows]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def levels(wrong: dict[str, str]) -> str:
    """The lowest level at which it breaks, and how."""
    names = [name for name in LEVELS.values() if name in wrong]
    how = "does not run" if any(text.startswith("does not run") for text in wrong.values()) else wrong[names[0]]
    return f"{how} from {names[0]} on"


def broken(runs: list[dict], row: int, side: int) -> str:
    by_text: dict[str, list[str]] = {}
    for r in runs:
        if wrong := r["rows"][row][side]:
            by_text.setdefault(levels(wrong), []).append(r["release"])
    return "; ".join(f"{text} ({', '.join(releases)})" for text, releases in by_text.items())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows")
        built = [(row.model(), row) for row in ROWS]
        rows = [(m.SerializeToString(), sardonyx.optimize(m).SerializeToString(), row.feeds(m)) for m, row in built]
        with open(path, "wb") as file:
            pickle.dump(rows, file)
        runs = [results(f, path) for f in [*sys.argv[1:], None]]
    releases = [r["release"] for r in runs]
    wrong = [i for i in range(len(ROWS)) if broken(runs, i, 1)]
    if unknown := [ROWS[i].name for i in wrong if not ROWS[i].reason]:
        raise SystemExit(f"not right, and no reason is given: {', '.join(unknown)}")
    text = HEAD.format(
        count=len(ROWS),
        right=len(ROWS) - len(wrong),
        releases=", ".join(releases[:-1]) + " and " + releases[-1],
        date=datetime.date.today().isoformat(),
    )
    text += "\n## Right after Sardonyx\n\n| Model | Opset | The original in onnxruntime | Issue |\n|---|---|---|---|\n"
    left = "\n## Not right, either\n\n| Model | Opset | The original in onnxruntime | After Sardonyx | Why | Issue |\n|---|---|---|---|---|---|\n"
    for i, row in enumerate(ROWS):
        issue = f"[{row.issue}](https://github.com/microsoft/onnxruntime/issues/{row.issue})" if row.issue else ""
        original = broken(runs, i, 0) or "right"
        if i in wrong:
            left += f"| {row.name} | {row.opset} | {original} | {broken(runs, i, 1)} | {row.reason} | {issue} |\n"
        else:
            text += f"| {row.name} | {row.opset} | {original} | {issue} |\n"
    PAGE.write_text(text + left)


if __name__ == "__main__":
    main()
