"""Where models and their operands are kept, so that a run goes on where the last one stopped."""

from __future__ import annotations

import argparse
import json
import logging
import warnings
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

Feeds = dict[str, np.ndarray]
Export = Callable[[Path], list[Feeds]]  # writes the model and returns operands


def seed_of(name: str) -> int:
    return zlib.crc32(name.encode())


class Folder:
    """Models of one family: NAME.onnx, NAME.npz with operands for one or more sizes, and refused.json with the exports that failed."""

    def __init__(self, root: Path, family: str) -> None:
        self.path = root / family
        self.path.mkdir(parents=True, exist_ok=True)
        self.notes = self.path / "refused.json"
        self.refused: dict[str, str] = json.loads(self.notes.read_text()) if self.notes.exists() else {}

    def make(self, name: str, export: Export) -> None:
        """Runs `export` unless that was done before."""
        model, feeds = self.path / f"{name}.onnx", self.path / f"{name}.npz"
        if name in self.refused or (model.exists() and feeds.exists()):
            return
        print(f"{self.path.name}: {name}", flush=True)
        partial = self.path / f"{name}.partial"
        try:
            found = export(partial)
            np.savez(feeds, **{f"{i}:{key}": value for i, one in enumerate(found) for key, value in one.items()})
            partial.rename(model)
        except Exception as error:  # an exporter may raise anything
            self.refused[name] = (
                f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160] if str(error).strip() else ''}"
            )
            self.notes.write_text(json.dumps(self.refused, indent=1, sort_keys=True))
            partial.unlink(missing_ok=True)


def load_feeds(path: Path) -> list[Feeds]:
    found: dict[int, Feeds] = {}
    with np.load(path, allow_pickle=False) as stored:
        for key in stored.files:
            number, _, name = key.partition(":")
            found.setdefault(int(number), {})[name] = stored[key]
    return [found[i] for i in sorted(found)]


def make_all(family: str, help_text: str, exports: Iterable[tuple[str, Export]]) -> None:
    """The program of a family: makes the models that the command line names in the folder that it names."""
    parser = argparse.ArgumentParser(description=help_text.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", metavar="TEXT")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    folder = Folder(arguments.folder, family)
    for name, export in exports:
        if not arguments.only or any(text in name for text in arguments.only):
            folder.make(name, export)
