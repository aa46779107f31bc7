"""Reports of exports, optimizations and conversions: what `return_report=True` returns beside the model."""

import html
import logging
import math
import os
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["Report", "Reported", "Shadow"]


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
    # Of an optimization: "nodes", "ops", "parameters", "tensor_bytes", "file_bytes"; with count_savings= "flops", "flops_at" too.
    before: dict | None = None
    after: dict | None = None
    # "name", "changed", "seconds", "counts", "error" of each; with count_savings= "saved" too: "nodes", "tensor_bytes",
    # "flops" (an expression in the named sizes), "flops_at" (its value where these have the values of `at`).
    passes: list[dict] = field(default_factory=list)
    saved_beside: dict[str, dict] = field(default_factory=dict)  # the same of what no pass did
    at: str = ""  # "B=1"
    faults: list[str] = field(default_factory=list)  # differences that verify= found
    largest_error: float | None = None  # |before - after| over the floats that verify= compared
    evaluations: int = 0  # how many runs before and after verify= compared
    # What max_error= tried: "types", "bytes" of constants, "error": a share of the largest element of a result,
    # or what metric= gave; "time": of the processor for a run, as a share of that in f32; None where it was not measured.
    precision_curve: list[dict] = field(default_factory=list)
    precision_chosen: int = 0  # the point that the model has
    precision_bound: float = 0  # that errors had to stay within: max_error less a margin for other inputs
    has_metric: bool = False
    # Of a conversion with precision="int8": how many ops are "in int8", and "in floats: ..." by reason.
    integers: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    shadow: "Shadow | None" = None  # of to_onnx(shadow=): how another exporter's model compares

    def _repr_html_(self) -> str:
        return preformatted(self.table) + chart(self) + curve(self)

    @property
    def savings(self) -> list[tuple[str, dict]]:
        """What saved something, in order: passes, then what no pass did. Empty without count_savings=."""
        rows = [(p["name"], p["saved"]) for p in self.passes if "saved" in p]
        rows += self.saved_beside.items()
        return [(name, s) for name, s in rows if s["nodes"] or s["tensor_bytes"] or s["flops"] != "0"]

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
        if self.precision_curve:
            lines.append(f"  {'':<9}{'constants':>10} {'error':>8}{'' if self.has_metric else '  '} time")
        for i, point in enumerate(self.precision_curve):
            mark = "chosen" if i == self.precision_chosen else ""
            error = f"{point['error']:8.3g}" if self.has_metric else f"{100 * point['error']:8.3g} %"
            lines.append(f"  {mark:<9}{_short(point['bytes'], 'B'):>10} {error} {_time(point):>4}  {point['types']}")
        if self.precision_curve and not self.has_metric:
            bound = f"{100 * self.precision_bound:8.3g} %"
            lines.append(f"  {'':<9}{'':>10} {bound}       at most on these inputs, as others may be off by more")
        if self.savings:
            width = max(len("saved by"), *(len(name) for name, _ in self.savings))
            at = f" at {self.at}" if self.at else ""
            lines.append(f"  {'saved by':<{width}} {'nodes':>8} {'constants':>12} {'FLOP':>12}{at}")
        for name, s in self.savings:
            cells = [_short(s["nodes"]), _short(s["tensor_bytes"], "B"), _flops(s)]
            lines.append(f"  {name:<{width}} {cells[0]:>8} {cells[1]:>12} {cells[2]:>12}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table


class Reported(NamedTuple):
    """What a call with `return_report=True` returns."""

    model: Any  # what the call returns otherwise
    report: Report


def _short(n: float, unit: str = "") -> str:
    """The number with three digits: "-", "12", "-1.43 MB"."""
    prefix, size = "", abs(n)
    for larger in "kMGTP":
        if size < 1000:
            break
        size, prefix = size / 1000, larger
    digits = f"{size:.3g}" if prefix else f"{size:.0f}"
    return f"{'-' if n < 0 else ''}{digits} {prefix}{unit}".rstrip() if n else "-"


def _time(point: dict) -> str:
    """The time of a point of the curve; "" where it was not measured."""
    return "" if point["time"] is None else f"{point['time']:.2f}"


def _flops(saved: dict) -> str:
    return _short(saved["flops_at"]) if saved["flops_at"] is not None else saved["flops"] or "?"


def chart(report: Report) -> str:
    """What each pass saved, as a drawing (SVG): a bar for its nodes, then its bytes and FLOPs. Empty where nothing was counted."""
    rows = report.savings
    if not rows:
        return ""
    high, left, wide = 20, 270, 220
    scale = wide / max(1, *(abs(s["nodes"]) for _, s in rows))
    cell = '<text x="{}" y="{}" text-anchor="{}">{}</text>'
    heads = [(left - 8, "end", "saved by"), (left, "start", "nodes"), (left + wide + 150, "end", "constants")]
    heads.append((left + wide + 250, "end", f"FLOP at {report.at}" if report.at else "FLOP"))
    lines = [cell.format(x, 14, anchor, html.escape(text)) for x, anchor, text in heads]
    for i, (name, s) in enumerate(rows):
        top = high * (i + 1)
        length = max(1, abs(s["nodes"]) * scale) if s["nodes"] else 0
        color = "#59a14f" if s["nodes"] > 0 else "#e15759"
        lines.append(f'<rect x="{left}" y="{top + 4}" width="{length:.1f}" height="{high - 7}" fill="{color}"/>')
        cells = [(left - 8, "end", name), (left + length + 6, "start", _short(s["nodes"]))]
        cells += [(left + wide + 150, "end", _short(s["tensor_bytes"], "B")), (left + wide + 250, "end", _flops(s))]
        lines += [cell.format(f"{x:.1f}", top + 15, anchor, html.escape(text)) for x, anchor, text in cells]
    return _drawing(left + wide + 270, high * (len(rows) + 1) + 6, lines)


def curve(report: Report) -> str:
    """Errors over bytes of what max_error= tried, as a drawing (SVG): a point for each, the chosen one with its name."""
    points = [p for p in report.precision_curve if math.isfinite(p["error"])]
    most = max((p["error"] for p in points), default=0)
    if most <= 0:
        return ""
    wide, high, left = 420, 180, 70
    largest = max(p["bytes"] for p in points) or 1
    places = [(left + wide * p["bytes"] / largest, 10 + high * (1 - p["error"] / most)) for p in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in sorted(places))
    top = f"{most:.3g}" if report.has_metric else f"{100 * most:.3g} %"
    lines = [
        f'<path d="M{left} 10V{high + 10}H{left + wide}" fill="none" stroke="currentColor" opacity=".4"/>',
        f'<polyline points="{path}" fill="none" stroke="#4e79a7" opacity=".6"/>',
        f'<text x="{left - 6}" y="16" text-anchor="end">{top}</text>',
        f'<text x="{left - 6}" y="{high + 10}" text-anchor="end">error</text>',
        f'<text x="{left + wide}" y="{high + 28}" text-anchor="end">{_short(largest, "B")} of constants</text>',
    ]
    chosen = report.precision_curve[report.precision_chosen]
    for p, (x, y) in zip(points, places, strict=True):
        color = "#59a14f" if p is chosen else "#4e79a7"
        time = f", {_time(p)} of the time" if p["time"] is not None else ""
        text = html.escape(f"{p['types']}: {_short(p['bytes'], 'B')}{time}")
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"><title>{text}</title></circle>')
        if p is chosen:
            lines.append(f'<text x="{x + 8:.1f}" y="{max(y - 6, 22):.1f}">{text}</text>')
    return _drawing(left + wide + 200, high + 36, lines)


def _drawing(width: int, height: int, lines: list[str]) -> str:
    style = "font:12px system-ui,sans-serif;fill:currentColor"
    size = f'width="{width}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="{style}">{"".join(lines)}</svg>'


_log = logging.getLogger("sardonyx")
_log.addHandler(logging.NullHandler())  # silent unless the program sets up logging


def of_optimization(name: str, numbers: dict[str, Any], path: str | os.PathLike | None = None) -> Report:
    """The report of what native code optimized."""
    after = numbers["after"]
    return Report(
        model_name=name,
        stages=numbers["stages"],
        nodes=after["nodes"],
        bytes=after["file_bytes"],
        ops=after["ops"],
        path=None if path is None else os.fspath(path),
        before=numbers["before"],
        after=after,
        saved_beside=numbers.get("saved_beside", {}),
        at=numbers.get("at", ""),
        passes=numbers["passes"],
        faults=numbers["faults"],
        evaluations=numbers["evaluations"],
        largest_error=numbers["largest_error"],
        precision_curve=numbers["precision_curve"],
        precision_chosen=numbers["precision_chosen"],
        precision_bound=numbers["precision_bound"],
        has_metric=numbers["has_metric"],
        warnings=numbers["warnings"],
    )


def finished(report: Report) -> Report:
    """Logs the report, and returns it."""
    for text in (*report.warnings, *report.faults):
        _log.warning("%s", text)
    if not _log.isEnabledFor(logging.INFO):
        return report
    _log.info("%s, %.1f ms", report.table.partition("\n")[0], 1000 * sum(report.stages.values()))
    for p in report.passes:
        if p["changed"]:
            _log.debug("%s: %s, %.1f ms", p["name"], p["counts"] or "changed", 1000 * p["seconds"])
    return report


def __getattr__(name: str) -> Any:
    if name == "last":
        raise AttributeError(
            "sardonyx.report.last() does not exist: model, report = sardonyx.optimize(..., return_report=True)"
        )
    raise AttributeError(f"module 'sardonyx.report' has no attribute '{name}'")
