"""Run every benchmark that is a script here, one after the other: what `make bench` does after the native ones."""

import subprocess
import sys
from pathlib import Path

SCRIPTS = ("convert.py", "scale.py", "optimize.py")


def main() -> int:
    status = 0
    for script in SCRIPTS:
        print(f"== {script}", flush=True)
        status |= subprocess.run([sys.executable, str(Path(__file__).parent / script)], check=False).returncode
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
