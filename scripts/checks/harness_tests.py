"""Compare JAX's own harnesses of its primitives, some 5,600 small functions that come with the jax package, with
their models in onnxruntime.

    scripts/checks/harness_tests.py [-n PROCESSES] [--again | --unequal] [NAME ...]     (NAME: a pattern such as 'scatter_*')
    scripts/checks/harness_tests.py --page

Outcomes are kept in build/harnesses/outcomes.jsonl until Sardonyx or the judge (tests/python/support/harnesses.py) changes, so
that an interrupted run continues. --again forgets them; --unequal keeps those that were equal, whatever has changed.
--page runs nothing and writes docs/generated/harnesses.md from the outcomes that are kept. The run fails unless exactly the harnesses that tests/harnesses/differs.txt lists
differ.
"""

import argparse
import collections
import fnmatch
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "harnesses" / "outcomes.jsonl"
PACKAGE = ROOT / "build" / "release" / "python"
JUDGE = ROOT / "tests" / "python" / "support"
PAGE = ROOT / "docs" / "generated" / "harnesses.md"
sys.path[:0] = [str(PACKAGE), str(JUDGE)]


def digest() -> str:
    found = hashlib.sha256(importlib.metadata.version("jax").encode())
    product = [*sorted(PACKAGE.glob("sardonyx/**/*.py")), *sorted(PACKAGE.glob("sardonyx/*.so"))]
    for file in [*product, JUDGE / "harnesses.py", JUDGE / "judge.py"]:
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


class Run:
    """The outcomes of all harnesses, and the processes that find those that are missing."""

    def __init__(self, key: str, again: bool, unequal: bool):
        self.key = key
        self.known = {}
        self.lock = threading.Lock()
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        lines = KEPT.read_text().splitlines() if KEPT.exists() and not again else []
        for outcome in map(json.loads, lines):
            if outcome["key"] == key or (
                unequal and (not outcome["text"] or outcome["text"].startswith("JAX refuses"))
            ):
                self.known[outcome["harness"]] = outcome
            else:
                self.known.pop(outcome["harness"], None)
        KEPT.write_text("".join(json.dumps(o) + "\n" for o in self.known.values()))

    def keep(self, outcome: dict) -> None:
        with self.lock, KEPT.open("a") as file:
            self.known[outcome["harness"]] = outcome | {"key": self.key}
            file.write(json.dumps(self.known[outcome["harness"]]) + "\n")
            if outcome["text"]:
                print(f"[harnesses] {outcome['harness']}: {outcome['text']}"[:300], flush=True)

    def find(self, names: list[str]) -> None:
        """Runs these in one process after another: a harness that ends its process is an outcome, too."""
        environment = os.environ | {"PYTHONPATH": f"{PACKAGE}{os.pathsep}{JUDGE}", "JAX_PLATFORMS": "cpu"}
        log = KEPT.parent / f"log-{threading.get_ident()}.txt"
        while names := [n for n in names if n not in self.known]:
            begun = None
            with log.open("w") as errors, subprocess.Popen(
                [sys.executable, "-W", "ignore", JUDGE / "harnesses.py"], env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            ) as process:  # fmt: skip
                process.stdin.write("\n".join(names))
                process.stdin.close()
                for line in process.stdout:
                    answer = json.loads(line) if line.startswith("{") else {}
                    begun = answer.get("begins", begun)
                    if "harness" in answer:
                        self.keep(answer)
            if process.returncode:
                if begun is None or begun in self.known:
                    raise SystemExit(f"the judge does not run: {log.read_text()[-2000:]}")
                self.keep({"harness": begun, "text": f"ends the process: {process.returncode}, see {log.name}"})


def faults(found: dict[str, str], is_whole: bool) -> list[str]:
    import harnesses

    lines = []
    for name, text in found.items():
        if text.startswith("JAX refuses"):
            continue
        wanted = harnesses.expected(name)
        if not text.startswith(wanted) or (text and not wanted):
            lines.append(f"{name}: {text or 'is equal'}" + (f"; differs.txt expects '{wanted}'" if wanted else ""))
    if is_whole:
        unused = [p for p, _ in harnesses.listed() if not fnmatch.filter(found, p)]
        lines += [f"{p}: no harness has this name (differs.txt)" for p in unused]
    return lines


def page(found: dict[str, str]) -> str:
    import harnesses

    of = collections.defaultdict(collections.Counter)
    for name, text in found.items():
        kind = "equal" if not text else "JAX refuses" if text.startswith("JAX refuses") else "differs"
        for group in (harnesses.harnesses()[name].group_name, "all"):
            of[group][kind] += 1
    whole = of.pop("all")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("jax", "onnxruntime"))
    rows = [
        f"| `{g}` | {c.total()} | {c['equal']} | {c['differs']} | {c['JAX refuses']} |"
        for g, c in sorted(of.items())
        if c["equal"] < c.total()
    ]
    alike = ", ".join(f"`{g}` {c.total()}" for g, c in sorted(of.items()) if c["equal"] == c.total())
    return "\n".join(
        [
            "# JAX's own harnesses",
            "",
            "JAX tests its compilers with harnesses: small functions that use each primitive over its dtypes, shapes and",
            "parameters. `make test-harnesses` exports each, runs it in onnxruntime at its default level, and compares it",
            "with the jitted function on the CPU: shapes, dtypes, integers and booleans exactly, floats within a few units in",
            "the last place of the largest magnitude.",
            "",
            f"Counted {datetime.now(UTC):%Y-%m-%d} at {commit.stdout.strip()} with {versions}: {whole.total():,} of"
            f" {len(harnesses.harnesses()):,} harnesses ran. JAX itself",
            f"does not run {whole['JAX refuses']}; of the others {whole['equal']:,} are equal and {whole['differs']} differ.",
            "",
            "| Primitive | Harnesses | Equal | Differ | Not run by JAX |",
            "|---|--:|--:|--:|--:|",
            *rows,
            "",
            f"All equal: {alike}.",
            "",
            "## What differs, and why",
            "",
            "The [list](../../tests/harnesses/differs.txt) is exact: another harness that differs fails the run, and so does a listed",
            "one that is equal. `make test` runs a sample of 60 harnesses.",
            "",
            *reasons(found),
            "",
        ]
    )  # fmt: skip


def reasons(found: dict[str, str]) -> list[str]:
    """The comments of differs.txt as a list, each with the number of harnesses below it."""
    import harnesses

    counts, reason = {}, ""
    for line in harnesses.LISTED.read_text().split("\n\n", 1)[-1].splitlines():
        if line.startswith("#"):
            reason = line[1:].strip()
        elif line:
            pattern = line.split(": ", 1)[0]
            counts[reason] = counts.get(reason, 0) + len(fnmatch.filter(found, pattern))
    return [f"- {reason} ({n})" for reason, n in counts.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("-n", type=int, default=1, help="processes")
    parser.add_argument("--again", action="store_true", help="forget what is known")
    parser.add_argument("--unequal", action="store_true", help="keep what was equal before a change")
    parser.add_argument("--page", action="store_true", help="write docs/generated/harnesses.md from what is kept")
    given = parser.parse_args()
    import harnesses

    if given.page:
        kept = [json.loads(line) for line in KEPT.read_text().splitlines()]
        PAGE.write_text(page({o["harness"]: o["text"] for o in kept}))
        return 0

    wanted = [
        h for h in harnesses.harnesses() if not given.names or any(fnmatch.fnmatchcase(h, p) for p in given.names)
    ]
    run = Run(digest(), given.again, given.unequal)
    missing = [h for h in wanted if h not in run.known]
    threads = [threading.Thread(target=run.find, args=(missing[i :: given.n],)) for i in range(given.n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {h: run.known[h]["text"] for h in wanted if h in run.known}
    wrong = faults(found, is_whole=not given.names)
    for fault in wrong:
        print(fault[:300])
    equal = sum(not text for text in found.values())
    not_run = sum(text.startswith("JAX refuses") for text in found.values())
    print(
        f"[harnesses] {len(found)} harnesses: {equal} equal, {not_run} that JAX does not run, "
        f"{len(found) - equal - not_run} differ, {len(wrong)} not as listed"
    )
    return 1 if wrong or len(found) < len(wanted) or not found else 0


if __name__ == "__main__":
    sys.exit(main())
