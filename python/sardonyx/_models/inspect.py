"""`sardonyx.info`, `check`, `diff` and `show`: what the commands of these names say, as objects."""

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sardonyx import _sardonyx as native
from sardonyx._error import Error
from sardonyx._models.comparison import Comparison, of_models
from sardonyx._models.sources import source_of
from sardonyx._page import Page
from sardonyx._require import known_keywords, one_of
from sardonyx._values import shapes
from sardonyx.report import preformatted


@dataclass(frozen=True)
class Info:
    """What a model consists of."""

    format: str  # "onnx" or "coreml"
    version: int  # of the intermediate representation (ONNX) or of the specification (Core ML)
    opsets: dict[str, Any]  # by domain; Core ML: by function
    producer: str
    inputs: dict[str, str]  # types by name, "f32[B,3]"
    outputs: dict[str, str]
    nodes: int
    ops: dict[str, int]  # nodes by operator
    functions: int
    tensors: int
    parameters: int
    tensor_bytes: int
    file_bytes: int
    sizes: dict[str, tuple[int | None, int | None]]  # named sizes of the inputs: smallest and largest
    flops: str  # an expression in these sizes; a multiply-add counts as 2
    bytes_moved: str  # the same, of operands and results
    peak_bytes: int  # of activations alive at once, with every named size at its minimum
    largest_tensors: dict[str, int]  # bytes by name
    modules: dict[str, tuple[int, int, int]]  # nodes, parameters and bytes by module path
    oldest_runtime: str  # the oldest onnxruntime that loads it, "ort-1.17"; "" if none does
    not_run: dict[str, list[str]]  # by older runtime or provider: what it refuses or leaves to the CPU

    def _repr_html_(self) -> str:
        return preformatted(self)

    def __str__(self) -> str:
        lines = [f"{self.format}, version {self.version}, " + ", ".join(f"{k} {v}" for k, v in self.opsets.items())]
        lines += [f"input   {name}: {kind}" for name, kind in self.inputs.items()]
        lines += [f"output  {name}: {kind}" for name, kind in self.outputs.items()]
        lines.append(f"{self.nodes} nodes, {self.parameters} parameters, {self.tensor_bytes} bytes of tensors")
        lines.append(
            f"{self.flops} FLOP, {self.bytes_moved} bytes moved, {self.peak_bytes} bytes of activations at once"
        )
        lines += [f"  {n:6} {op}" for op, n in sorted(self.ops.items(), key=lambda item: (-item[1], item[0]))]
        return "\n".join(lines)


@dataclass(frozen=True)
class Check:
    """What is wrong with a model. True where nothing is."""

    nodes: int
    faults: list[str]
    warnings: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.faults

    def _repr_html_(self) -> str:
        return preformatted(self)

    def __str__(self) -> str:
        lines = [f"fault: {f}" for f in self.faults] + [f"warning: {w}" for w in self.warnings]
        end = (
            f"{len(self.faults)} of {self.nodes} nodes are ill-typed"
            if self.faults
            else f"{self.nodes} nodes, no faults"
        )
        return "\n".join([*lines, end])


@dataclass(frozen=True)
class Diff:
    """How two models differ. True where they do. A node is its operator and its name."""

    same: bool
    interface: dict[str, tuple[str, str]]  # inputs, results and opsets that differ: (before, after), "" for none
    ops: dict[str, tuple[str, str]]  # operators of which one model has more
    tensor_bytes: tuple[int, int]
    lines: list[str]  # "- ..." only in the first, "+ ..." only in the second
    kept: int = 0  # nodes that are equal, in the same order
    moved: list[tuple[tuple[str, str], tuple[str, str]]] = field(default_factory=list)  # equal, in another order
    changed: list[tuple[tuple[str, str], tuple[str, str], list[str]]] = field(default_factory=list)  # and what changed
    removed: list[tuple[str, str]] = field(default_factory=list)
    added: list[tuple[str, str]] = field(default_factory=list)
    renamed_constants: list[tuple[str, str]] = field(default_factory=list)  # names before and after

    def __bool__(self) -> bool:
        return not self.same

    def _repr_html_(self) -> str:
        if self.same:
            return "<p>the models are the same</p>"
        rows = [
            ["", what, before or "none", after or "none"]
            for what, (before, after) in {**self.interface, **self.ops}.items()
        ]
        rows += [["\u2212", *node, ""] for node in self.removed] + [["+", *node, ""] for node in self.added]
        rows += [["~", *after, "; ".join(what)] for _, after, what in self.changed]
        counts = {"same": self.kept, "moved": len(self.moved), "changed": len(self.changed)}
        counts |= {"removed": len(self.removed), "added": len(self.added)}
        return f"<p>nodes: {', '.join(f'{n} {what}' for what, n in counts.items())}</p>{_table(rows)}"

    def __str__(self) -> str:
        if self.same:
            return "the models are the same"
        changes = {**self.interface, **self.ops}
        lines = [f"{what}: {a or 'none'} -> {b or 'none'}" for what, (a, b) in changes.items()]
        if self.renamed_constants:
            lines.append("renamed constants: " + ", ".join(f"{a} -> {b}" for a, b in self.renamed_constants))
        return "\n".join([*lines, *self.lines])


def _table(rows: Sequence[Sequence[str]]) -> str:
    """The rows as a table of HTML, a thousand at most."""
    most = 1000
    lines = ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[:most]]
    more = f"<p>and {len(rows) - most} more</p>" if len(rows) > most else ""
    return f'<table style="text-align:left">{"".join(lines)}</table>{more}'


@known_keywords
def show(model: Any, *, passes: str | Sequence[str] | None = None, against: Any = None) -> Page:
    """Draw a model, as `sardonyx view` does.

    Args:
        model: A path (ONNX or Core ML), an `onnx.ModelProto`, a model of `sardonyx.ir`, bytes, or what else `optimize` takes.
        passes: Show the model after each step of these passes or presets, such as "onnx".
        against: Draw both models, and what differs.

    Raises:
        sardonyx.Error: the model cannot be read, or this build has no viewer.

        >>> sardonyx.show("model.onnx", passes="onnx").save("passes.html")
    """
    if against is not None:
        if passes is not None:
            raise Error("passes and against exclude each other", "invalid_argument")
        return Page(
            native.diff_page(
                source_of(model), source_of(against), _name_of(model, "before"), _name_of(against, "after")
            )
        )
    chosen = [passes] if isinstance(passes, str) else list(passes or ())
    return Page(native.page(source_of(model), _name_of(model, "model"), chosen))


def _name_of(model: Any, otherwise: str) -> str:
    return os.fspath(model) if isinstance(model, str | os.PathLike) else otherwise


@known_keywords
def info(model: Any, *, input_shapes: Mapping[str, Sequence[int | str]] | None = None) -> Info:
    """Summarize a model: a path (ONNX or Core ML), an `onnx.ModelProto`, bytes, or what else `optimize` takes.

    Args:
        model: The model.
        input_shapes: Shapes to count with: `{"x": (1, 3, 224, 224)}`.
    """
    return Info(**native.info(source_of(model), shapes(input_shapes)))


def check(model: Any) -> Check:
    """Whether a model is valid, and what is wrong with it.

    Raises:
        sardonyx.Error: the model cannot be read, or its graph breaks a rule of the format.
    """
    return Check(**native.check(source_of(model)))


@known_keywords
def diff(before: Any, after: Any) -> Diff:
    """Compare the texts of two models: interface, operators, lines."""
    return Diff(**native.diff(source_of(before), source_of(after)))


def compare_models(
    before: Any,
    after: Any,
    numerics: Literal["exact", "rounds", "relaxed"] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    target: str | None = None,
) -> Comparison:
    """`sardonyx.compare` of two models."""
    if numerics is not None:
        one_of("numerics", numerics, ("exact", "rounds", "relaxed"))
    found = native.verify(source_of(before), source_of(after), numerics or "", target or "", rtol, atol)
    return of_models(**found)
