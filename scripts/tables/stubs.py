"""Write the stubs of the native module, python/sardonyx/_sardonyx/*.pyi, from the module as it was built.

    make build && PYTHONPATH=build/release/python .venv/bin/python scripts/tables/stubs.py

tests/python/pages/test_types.py says when they are stale.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

STUBS = Path(__file__).resolve().parents[2] / "python" / "sardonyx" / "_sardonyx"


def stubs() -> dict[str, str]:
    """The text of each stub by its file's name."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-r", "-m", "sardonyx._sardonyx", "-O", folder]
        subprocess.run(command, check=True)
        root = Path(folder) / "_sardonyx"
        return {str(p.relative_to(root)): p.read_text() for p in sorted(root.rglob("*.pyi"))}


def main() -> int:
    made = stubs()
    STUBS.mkdir(exist_ok=True)
    for old in STUBS.glob("*.pyi"):
        old.unlink()
    for name, text in made.items():
        (STUBS / name).write_text(text)
        print(STUBS / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
