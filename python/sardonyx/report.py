"""The report of the last export or optimization: `sardonyx.report.last()`."""

import html
import logging
import threading
from dataclasses import dataclass, field

__all__ = ["Report", "Shadow", "last"]


def preformatted(text: object) -> str:
    """What notebooks show of an object that prints as lines."""
    return f'<pre style="line-height:1.35">{html.escape(str(text))}</pre>'


@dataclass
class Shadow:
    """Comparison with another exporter's model of the same function."""

    exporter: str
    nodes: int = 0  # ours
    other_nodes: int = 0
    more: dict[str, int] = field(default_factory=dict)  # by operator, how many more nodes ours has
    fewer: dict[str, int] = field(default_factory=dict)  # by operator, how many more nodes the other has
    same_results: bool | None = None  # None: it could not be compared
    text: str = ""  # how the results compare, or why there is nothing to compare

    def __str__(self) -> str:
        spelled = [f"{n} more {op}" for op, n in self.more.items()] + [
            f"{n} fewer {op}" for op, n in self.fewer.items()
        ]
        lines = [f"beside {self.exporter}: {self.nodes} nodes, there {self.other_nodes}", *spelled]
        return ", ".join(lines) + f"; {self.text}"


@dataclass
class Report:
    """Seconds by stage ("trace", "import", "lower", "optimize", "write"), and figures of the result."""

    model_name: str
    stages: dict[str, float] = field(default_factory=dict)
    equations: int = 0  # of the traced program, nested ones included
    nodes: int = 0  # of the ONNX graph, nested ones included
    bytes: int = 0  # of the serialized model with its external data; 0 when nothing was serialized
    data_sizes: dict[str, str] = field(default_factory=dict)  # sizes that depend on data, by symbol: their origin
    ops: dict[str, int] = field(default_factory=dict)  # nodes by operator
    path: str | None = None
    before: dict | None = None  # of an optimization: "nodes", "ops", "parameters", "tensor_bytes", "file_bytes"
    passes: list[dict] = field(default_factory=list)  # "name", "changed", "seconds", "counts", "error" of each
    faults: list[str] = field(default_factory=list)  # differences that verify= found
    largest_error: float | None = None  # |before - after| over the floats that verify= compared
    evaluations: int = 0  # how many runs before and after verify= compared
    warnings: list[str] = field(default_factory=list)
    shadow: "Shadow | None" = None  # of to_onnx(shadow=): how another exporter's model compares

    def _repr_html_(self) -> str:
        return preformatted(self.table)

    @property
    def table(self) -> str:
        """A few lines of text."""
        total = sum(self.stages.values())
        source = f"{self.equations} equations" if self.before is None else f"{self.before['nodes']} nodes"
        lines = [f"{self.model_name}: {source} became {self.nodes} nodes"]
        for name, seconds in self.stages.items():
            share = 100 * seconds / total if total else 0
            lines.append(f"  {name:<9}{1000 * seconds:10.1f} ms {share:4.0f} %")
        lines.append(f"  {'total':<9}{1000 * total:10.1f} ms")
        if self.bytes:
            lines.append(f"  {self.bytes:,} bytes" + (f" in {self.path}" if self.path else ""))
        if self.shadow is not None:
            lines.append(f"  {self.shadow}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table


_local = threading.local()
_log = logging.getLogger("sardonyx")
_log.addHandler(logging.NullHandler())  # silent unless the program sets up logging


def last() -> Report:
    """The report of this thread's last finished export or optimization."""
    report = getattr(_local, "last", None)
    if report is None:
        raise LookupError("nothing was exported or optimized in this thread yet")
    return report


def _set_last(report: Report) -> None:
    _local.last = report
    for text in (*report.warnings, *report.faults):
        _log.warning("%s", text)
    if not _log.isEnabledFor(logging.INFO):
        return
    _log.info("%s, %.1f ms", report.table.partition("\n")[0], 1000 * sum(report.stages.values()))
    for p in report.passes:
        if p["changed"]:
            _log.debug("%s: %s, %.1f ms", p["name"], p["counts"] or "changed", 1000 * p["seconds"])
