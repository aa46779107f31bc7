"""Code shared by gen_onnx_ops.py and gen_mil_ops.py: rows of C++ tables, traits, and writing changed files."""

from __future__ import annotations

import struct
import sys
from collections.abc import Container, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CPP_WORDS = {"and", "or", "not", "xor", "if", "while", "const", "default", "switch", "operator", "template", "new"}


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def identifier(name: str) -> str:
    return name + "_" if name in CPP_WORDS else name


def cpp_double(value: float) -> str:
    """The shortest decimal that gives the same f32; attributes are f32."""
    as_f32 = struct.unpack("f", struct.pack("f", value))[0]
    for digits in range(1, 18):
        text = f"{as_f32:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == as_f32:
            break
    return text if any(c in text for c in ".en") else text + ".0"


class Pool:
    """Sequences of rows in one array. Equal sequences share their rows."""

    def __init__(self):
        self.rows: list[str] = []
        self.where: dict[tuple[str, ...], int] = {}

    def place(self, rows: list[str]) -> int:
        key = tuple(rows)
        if not key:
            return 0
        if key not in self.where:
            self.where[key] = len(self.rows)
            self.rows += rows
        return self.where[key]


def traits(name: str, having: Mapping[str, Container[str]]) -> str:
    """The traits whose name lists contain `name`, as one expression."""
    return " | ".join(trait for trait, names in having.items() if name in names) or "0"


def write(files: Mapping[Path, str], script: str) -> int:
    """Writes the files that changed; with --check, names them and returns 1."""
    stale = [p for p, text in files.items() if not p.exists() or p.read_text() != text]
    if "--check" in sys.argv[1:]:
        for p in stale:
            print(f"{p.relative_to(ROOT)} is not what scripts/tables/{script} writes")
        return 1 if stale else 0
    for p in stale:
        p.write_text(files[p])
    print(f"{len(stale)} files changed")
    return 0
