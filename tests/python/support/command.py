"""Runs the sardonyx command as it was built."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import IO

BUILD = Path(os.environ.get("SARDONYX_BUILD", Path(__file__).parents[3] / "build" / "release"))


def sardonyx(*arguments: object, ok: bool = True, stdin: IO[bytes] | None = None) -> subprocess.CompletedProcess[str]:
    program = BUILD / "sardonyx"
    if not program.exists():
        found = shutil.which("sardonyx")
        assert found, f"the command is not built: no {program}"
        program = Path(found)
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, stdin=stdin)
    if ok:
        assert done.returncode == 0, done.stderr
    return done
