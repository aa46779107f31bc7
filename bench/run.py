"""Run every benchmark script in this folder and write docs/generated/benchmarks.md: `make bench`.

    bench/run.py [--quick] [--only NAME ...] [--page]

Rivals are those of this environment, or of the Python that RIVALS_PYTHON names. --quick runs each benchmark
on its smallest case, in three minutes, and leaves the page alone unless --page is given.
"""

import subprocess
import sys
import time
from pathlib import Path

from common import OUT, parser

HERE = Path(__file__).parent
# Arguments of a full run and of a quick one.
SCRIPTS: dict[str, tuple[list[str], list[str]]] = {
    "convert": (
        ["--rivals", "--repeat", "3", "--memory-runs", "3"],
        ["--rivals", "--only", "lstm", "--repeat", "1", "--memory-runs", "1"],
    ),
    "equations": ([], ["--equations", "3000"]),
    "nodes": ([], ["--only", "lstm"]),
    "optimize": (["--runs", "15"], ["--only", "torch_encoder", "torch_detector", "--runs", "4"]),
    "coreml": (
        ["--alone", "8000", "32000", "100000", "--minutes", "10"],
        ["--only", "mobilenet", "--scale", "0.25", "--skip", "passes"],
    ),
    "scale": ([], ["--sizes", "1000", "10000", "--gigabytes", "0", "--repeat", "1"]),
    "instructions": ([], ["--only", "encoder"]),
}


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--quick", action="store_true", help="the smallest case of each, in three minutes")
    options.add_argument("--only", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    options.add_argument("--page", action="store_true", help="write the page after a quick run too")
    arguments = options.parse_args()
    where = [] if arguments.out == OUT else ["--out", arguments.out]
    status = 0
    for name in arguments.only:
        whole, quick = SCRIPTS[name]
        print(f"== {name}", flush=True)
        start = time.monotonic()
        command = [sys.executable, HERE / f"{name}.py", *(quick if arguments.quick else whole), *where]
        status |= subprocess.run(command, check=False).returncode
        print(f"({time.monotonic() - start:.0f} s)", flush=True)
    if not arguments.quick or arguments.page:
        status |= subprocess.run([sys.executable, HERE / "page.py", *where], check=False).returncode
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
