"""Convert StableHLO's own test modules to ONNX, and compare what they compute with what they expect.

    scripts/checks/stablehlo_tests.py CHECKOUT [-n PROCESSES] [--page] [PATTERN ...]

CHECKOUT is a checkout of StableHLO's repository: its folders stablehlo/testdata and stablehlo/tests/interpret are read. tests/python/support/stablehlo_modules.py
judges a module. The run fails unless exactly the modules that tests/stablehlo/differs.txt lists differ. --page writes docs/generated/stablehlo.md
after a run of all modules.
"""

import argparse
import collections
import fnmatch
import functools
import multiprocessing
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "generated" / "stablehlo.md"
LISTED = ROOT / "tests" / "stablehlo" / "differs.txt"
sys.path[:0] = [str(ROOT / "build" / "release" / "python"), str(ROOT / "tests" / "python" / "support")]
KINDS = ("right", "refused", "not judged", "wrong")


def judged(work: tuple[str, Path, int]) -> tuple[str, str]:
    import stablehlo_modules

    name, path, part = work
    return name, stablehlo_modules.judged(path, part)


def modules(checkout: Path) -> dict[str, tuple[Path, int]]:
    """File and number of each module, by name: "dynamic/add.mlir", "interpret/add.mlir#2"."""
    import stablehlo_modules

    named = {}
    for folder in (checkout / "stablehlo" / "testdata", checkout / "stablehlo" / "tests" / "interpret"):
        for path in sorted(folder.rglob("*.mlir")):
            if path.name == "check.mlir":  # it tests the checks
                continue
            is_split = path.parent.name == "interpret"
            name = str(path.relative_to(folder.parent if folder.name == "interpret" else folder))
            for part in range(stablehlo_modules.parts(path)):
                named[f"{name}#{part}" if is_split else name] = (path, part)
    return named


def kind_of(text: str) -> str:
    return next((k for k in ("refused", "not judged") if text.startswith(k)), "wrong") if text else "right"


@functools.cache
def listed() -> dict[str, str]:
    """Module -> how its outcome begins."""
    lines = LISTED.read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def faults(found: dict[str, str], is_whole: bool) -> list[str]:
    lines = []
    for name, text in found.items():
        wanted = listed().get(name, "")
        if (kind_of(text) == "wrong" or wanted) and not (wanted and text.startswith(wanted)):
            lines.append(f"{name}: {text or 'is right'}" + (f"; differs.txt expects '{wanted}'" if wanted else ""))
    if is_whole:
        lines += [f"{name}: no module has this name (differs.txt)" for name in listed() if name not in found]
    return lines


def reason_of(text: str) -> str:
    """A refusal without the names and numbers of one module."""
    text = re.sub(r"^refused: (cannot convert \d+ \w+ of this StableHLO module )?(<module>:[\d:]+ )?", "", text)
    text = re.sub(r"( is not supported).*", r"\1", text)
    return re.sub(r" of [^>]*->.*?: ", ": ", text)[:100].replace("|", " ")


def page(found: dict[str, str]) -> str:
    of = collections.defaultdict(collections.Counter)
    for name, text in found.items():
        folder = name.split("/")[0] if "/" in name else "static"
        of[folder][kind_of(text)] += 1
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    rows = [f"| {k} | {c.total():,} | " + " | ".join(f"{c[kind]:,}" for kind in KINDS) + " |" for k, c in of.items()]
    reasons = collections.Counter(reason_of(t) for t in found.values() if kind_of(t) == "refused")
    lines = [
        "# StableHLO's own test modules",
        "",
        "StableHLO tests its operations with modules that hold inputs and expected results. `make test-stablehlo` converts each to",
        "ONNX, runs it in onnxruntime at its default level and in Sardonyx's evaluator, and compares: shapes, dtypes, integers and",
        "booleans exactly, floats within a few units in the last place of the largest magnitude, or within the ten-thousandth that",
        "the module allows. Modules with dynamic sizes hold no values: XLA's CPU compiler runs them on random inputs. Those of the",
        "interpreter's tests hold everything, and run as written, without passes.",
        "",
        f"Counted {datetime.now(UTC):%Y-%m-%d} at {commit.stdout.strip()}: {len(found):,} modules.",
        "",
        "| Modules | Number | Right | Refused | Not judged | Wrong |",
        "|---|--:|--:|--:|--:|--:|",
        *rows,
        "",
        "## What is refused",
        "",
        *[f"- {n}: {text}" for text, n in reasons.most_common(20)],
        "",
        "## What differs, and why",
        "",
        "The [list](../../tests/stablehlo/differs.txt) is exact.",
        "",
        *[f"- {line[2:]}" for line in LISTED.read_text().split("\n\n", 1)[-1].splitlines() if line.startswith("# ")],
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("patterns", nargs="*", help="of names of modules, such as 'scatter_*'")
    parser.add_argument("-n", type=int, default=1, help="processes")
    parser.add_argument("--page", action="store_true", help="write docs/generated/stablehlo.md")
    given = parser.parse_intermixed_args()
    folder = given.checkout / "stablehlo" / "testdata"
    if not folder.is_dir():
        parser.error(f"{folder} is no folder: expected a checkout of StableHLO's repository")
    named = modules(given.checkout)
    wanted = [
        (n, *at) for n, at in named.items() if not given.patterns or any(fnmatch.fnmatch(n, q) for q in given.patterns)
    ]
    with multiprocessing.get_context("spawn").Pool(given.n, maxtasksperchild=400) as pool:
        found = dict(sorted(pool.imap_unordered(judged, wanted, chunksize=4)))
    wrong = faults(found, is_whole=not given.patterns)
    for fault in wrong:
        print(fault[:300])
    count = collections.Counter(map(kind_of, found.values()))
    print(f"[stablehlo] {len(found)} modules: " + ", ".join(f"{count[k]} {k}" for k in KINDS))
    if given.page and not given.patterns:
        PAGE.write_text(page(found))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
