"""Export programs of JAX libraries (tests/libraries) and compare them with the jitted function in
onnxruntime.

    scripts/checks/library_tests.py [--again] [PROGRAM ...]     (without names: all of them)

The libraries have their own environment, build/libraries/env, pinned in tests/libraries/requirements.txt;
LIBRARIES_PYTHON names the Python of another one. Outcomes are cached in build/libraries/outcomes.json until
the program, Sardonyx or the pins change, so an interrupted run can continue; --again discards them. The run
fails unless exactly the programs listed in tests/libraries/differs.txt differ.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "libraries"
BUILD = ROOT / "build" / "libraries"
PACKAGE = ROOT / "build" / "release" / "python"
SECONDS = 900  # limit for one file of programs


def python() -> str:
    """The Python of the environment. Creates it if it does not exist or has other pins."""
    if given := os.environ.get("LIBRARIES_PYTHON"):
        return given
    pins = FOLDER / "requirements.txt"
    env = BUILD / "env"
    stamp = env / f"installed-{_digest([pins])}"
    if not stamp.exists():
        print("[libraries] installing; the first time this downloads about 700 MB", flush=True)
        venv.create(env, with_pip=True, clear=True)
        command = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "-r", pins]
        subprocess.run([env / "bin" / "python", *command], check=True)
        stamp.touch()
    return str(env / "bin" / "python")


def _digest(files) -> str:
    found = hashlib.sha256()
    for file in files:
        found.update(Path(file).read_bytes())
    return found.hexdigest()[:16]


def expected() -> dict[str, str]:
    """By program, the beginning of the outcome of each listed one."""
    lines = (FOLDER / "differs.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def outcomes(executable: str, names: set[str], again: bool) -> dict[str, str]:
    """By program, "" or the failure."""
    kept = BUILD / "outcomes.json"
    known = json.loads(kept.read_text()) if kept.exists() and not again else {}
    product = [*sorted(PACKAGE.glob("sardonyx/**/*.py")), *sorted(PACKAGE.glob("sardonyx/*.so"))]
    shared = [FOLDER / "catalog.py", FOLDER / "run.py", FOLDER / "requirements.txt"]
    environment = os.environ | {"PYTHONPATH": f"{PACKAGE}{os.pathsep}{FOLDER}", "JAX_PLATFORMS": "cpu"}
    found = {}
    for file in sorted(FOLDER.glob("*.py")):
        programs = _programs(file)
        wanted = [p for p in programs if not names or p in names]
        if not wanted:
            continue
        key = _digest([file, *shared, *product])
        missing = [p for p in wanted if known.get(p, {}).get("key") != key]
        if missing:
            command = [executable, "-W", "ignore", file.with_name("run.py"), file.stem, *missing]
            log = BUILD / f"{file.stem}.log"
            with log.open("w") as errors, subprocess.Popen(
                ["timeout", str(SECONDS), *command], env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as process:  # fmt: skip
                for line in process.stdout:
                    if not line.startswith("{"):
                        continue  # libraries print warnings
                    outcome = json.loads(line)
                    known[outcome["program"]] = {"key": key, "text": outcome["text"], "seconds": outcome["seconds"]}
                    kept.write_text(json.dumps(known, indent=1))
                    print(
                        f"[libraries] {outcome['program']}: {outcome['text'].splitlines()[0] if outcome['text'] else 'equal'}",
                        flush=True,
                    )
        for p in wanted:
            at = known.get(p, {})
            found[p] = at["text"] if at.get("key") == key else f"did not end, see {file.stem}.log"
    return found


def _programs(file: Path) -> list[str]:
    """The names of the functions that @program decorates."""
    lines = file.read_text().splitlines()
    return [lines[i + 1].split()[1].partition("(")[0] for i, line in enumerate(lines) if line.startswith("@program(")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--again", action="store_true", help="forget what is known")
    arguments = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    found = outcomes(python(), set(arguments.programs), arguments.again)
    listed = expected()
    faults = [
        f"{p}: no such program"
        for p in {*arguments.programs, *listed} - found.keys()
        if not arguments.programs or p in arguments.programs
    ]
    for name, text in found.items():
        wanted = listed.get(name)
        if wanted is None and text:
            faults.append(f"{name}: {text}")
        elif wanted is not None and not text.startswith(wanted):
            faults.append(f"{name}: {text or 'is equal'}; differs.txt expects '{wanted}'")
    equal = sum(not text for text in found.values())
    for fault in faults:
        print(fault)
    print(f"[libraries] {len(found)} programs: {equal} equal, {len(found) - equal} differ, {len(faults)} not as listed")
    return 1 if faults or not found else 0


if __name__ == "__main__":
    sys.exit(main())
