"""Bars for long work: tqdm's where it is installed, a line of text elsewhere. Nothing is shown unless it is asked for."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from sardonyx._error import WrongType

Report = Callable[[str, int, int], Any]  # what is done next, how many steps are done, of how many


@contextlib.contextmanager
def shown(progress: bool | Report, title: str) -> Iterator[Report | None]:
    """What to call after each step; None where nothing is shown."""
    if progress is False or progress is None:
        yield None
        return
    if progress is not True:
        if not callable(progress):
            raise WrongType(
                f"progress={progress!r}", notes=["expected True, False, or a function of (what, done, total)"]
            )
        yield progress
        return
    bar = _tqdm(title) or _Line(title)
    try:
        yield bar.report
    finally:
        bar.close()


def _tqdm(title: str) -> "_Tqdm | None":
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return _Tqdm(tqdm(desc=title, leave=False, bar_format="{desc}: {percentage:3.0f}%|{bar}| {postfix} [{elapsed}]"))


class _Tqdm:
    def __init__(self, bar: Any):
        self.bar = bar

    def report(self, what: str, done: int, total: int) -> None:
        self.bar.total = total
        self.bar.n = max(self.bar.n, min(done, total))  # passes repeat; the bar does not go back
        self.bar.set_postfix_str(what, refresh=False)
        self.bar.refresh()

    def close(self) -> None:
        self.bar.close()


class _Line:
    """One line that is written over, on a terminal; elsewhere a new one every five seconds."""

    def __init__(self, title: str):
        self.title = title
        self.is_terminal = sys.stderr.isatty()
        self.next = time.monotonic() + (0 if self.is_terminal else 5)
        self.done = 0.0

    def report(self, what: str, done: int, total: int) -> None:
        self.done = max(self.done, done / max(total, 1))
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + (0.1 if self.is_terminal else 5)
        text = f"{self.title}: {self.done:4.0%} {what}"
        print(
            f"\r\x1b[2K{text[:79]}" if self.is_terminal else text, end="" if self.is_terminal else "\n", file=sys.stderr
        )
        sys.stderr.flush()

    def close(self) -> None:
        if self.is_terminal:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
