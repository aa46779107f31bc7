"""The version is written only in CMakeLists.txt."""

import re
from pathlib import Path

import sardonyx

ROOT = Path(__file__).resolve().parent.parent


def test_version_is_that_of_the_build():
    written = re.search(r"project\(sardonyx VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert written
    assert sardonyx.__version__ == written.group(1)
