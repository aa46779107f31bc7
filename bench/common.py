"""Code shared by the benchmarks: fresh processes, the memory of a process, and the file of figures that each
writes."""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "bench"
RIVALS = os.environ.get("RIVALS_PYTHON", sys.executable)  # the Python of an environment that has the rivals
os.environ.setdefault("JAX_PLATFORMS", "cpu")
STARTED = time.time()


def resident(field: str) -> int:
    """VmRSS (now) or VmHWM (the peak) of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def parser(about: str) -> argparse.ArgumentParser:
    """A parser with the options of every benchmark. `about` is its module docstring; the help shows the first
    line."""
    made = argparse.ArgumentParser(description=about.splitlines()[0])
    made.add_argument("--out", type=Path, default=OUT, help="the folder that figures are kept in")
    return made


def asked_to_work(argv: list[str] | None = None) -> list[str] | None:
    """The work for a process that measure() started; None in other processes."""
    argv = sys.argv if argv is None else argv
    return argv[2:] if argv[1:2] == ["--worker"] else None


def measure(script: str, python: str, *arguments: object, timeout: float | None = None) -> dict:
    """What `script --worker arguments` prints as JSON in its last line, or {"error": ...}."""
    # Byte code is cached, as it is for an installed package.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["JAX_TRACEBACK_FILTERING"] = "off"  # else the last line of an error is advice
    command = [python, script, "--worker", *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {timeout:.0f} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}, without a word"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def commit() -> str:
    """The commit that is checked out; "+" is appended if the tree differs from it."""
    done = subprocess.run(["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


TOOLS = ("jax", "jax2onnx", "onnx", "onnxruntime", "onnxsim", "onnxslim", "onnxoptimizer", "onnxscript", "coremltools")
VERSIONS = """
import json, sys
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try: found[name] = metadata.version(name)
    except metadata.PackageNotFoundError: pass
print(json.dumps(found))
"""


def machine() -> str:
    """The machine, with the versions of the tools measured on it."""
    found: dict[str, str] = {}
    for python in dict.fromkeys((sys.executable, RIVALS)):
        done = subprocess.run([python, "-c", VERSIONS, *TOOLS], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout) | found
    told = ", ".join(f"{name} {version}" for name, version in found.items())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = f"{os.cpu_count()} cores, {memory / 2**30:.0f} GiB"
    return f"{processor()}, {size}. Python {sys.version.split()[0]}, {told}."


def finish(out: Path, name: str, results: object, missed: list[str]) -> int:
    """Writes the figures to `out`/`name`.json, prints the missed targets, and returns the exit status."""
    out.mkdir(parents=True, exist_ok=True)
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    asked = sys.argv[1:]
    if "--out" in asked:  # the folder for figures does not affect them
        del asked[asked.index("--out") : asked.index("--out") + 2]
    kept = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "command": [Path(sys.argv[0]).name, *asked],
        "load": os.getloadavg()[1],
        "seconds": time.time() - STARTED,
        "cpu": sum(u.ru_utime + u.ru_stime for u in (own, children)),
        "results": results,
        "missed": missed,
    }
    (out / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0
