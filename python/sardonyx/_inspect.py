"""`sardonyx.info`, `check`, `diff` and `verify`: what the commands of these names say, as objects."""

import html
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sardonyx import _sardonyx as native
from sardonyx._error import Error
from sardonyx._require import known_keywords, one_of
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


@dataclass(frozen=True)
class Verification:
    """Whether two models compute the same. True where they do."""

    numerics: str  # "exact", "rounds" or "relaxed"
    evaluations: int
    difference: str | None
    largest_error: float  # of floats: |before - after|
    largest_error_at: str
    not_compared: str  # why nothing was
    runtime: str
    load_problems: list[str]  # what keeps the runtime from loading the second model, though it loads the first

    def __bool__(self) -> bool:
        return self.difference is None and not self.load_problems and self.evaluations > 0

    def _repr_html_(self) -> str:
        return preformatted(self)

    def __str__(self) -> str:
        if self.difference is not None:
            return f"the models differ: {self.difference}"
        if self.load_problems:
            return f"{self.runtime} loads the first model, and not the second: {'; '.join(self.load_problems)}"
        if self.evaluations == 0:
            return f"nothing could be compared: {self.not_compared}"
        where = f" ({self.largest_error_at})" if self.largest_error_at else ""
        return (
            f"the models compute the same on {self.evaluations} inputs, largest error {self.largest_error:.3g}{where}"
        )


def _table(rows: Sequence[Sequence[str]]) -> str:
    """The rows as a table of HTML, a thousand at most."""
    most = 1000
    lines = ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[:most]]
    more = f"<p>and {len(rows) - most} more</p>" if len(rows) > most else ""
    return f'<table style="text-align:left">{"".join(lines)}</table>{more}'


@dataclass(frozen=True, repr=False)
class Page:
    """A drawing of a model. Notebooks show it; `save` writes it as one file."""

    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Page of {len(self.html)} characters: save(path) writes it>"

    def _repr_html_(self) -> str:
        frame = "width:100%;height:640px;border:1px solid #8884"
        return f'<iframe sandbox="allow-scripts" style="{frame}" srcdoc="{html.escape(self.html)}"></iframe>'


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
            native.diff_page(_source(model), _source(against), _name_of(model, "before"), _name_of(against, "after"))
        )
    chosen = [passes] if isinstance(passes, str) else list(passes or ())
    return Page(native.page(_source(model), _name_of(model, "model"), chosen))


def _name_of(model: Any, otherwise: str) -> str:
    return os.fspath(model) if isinstance(model, str | os.PathLike) else otherwise


@known_keywords
def info(model: Any, *, input_shapes: Sequence[str] = ()) -> Info:
    """Summarize a model: a path (ONNX or Core ML), an `onnx.ModelProto`, bytes, or what else `optimize` takes.

    Args:
        model: The model.
        input_shapes: Shapes to count with, as "x:1,3,224,224".
    """
    return Info(**native.info(_source(model), list(input_shapes)))


def check(model: Any) -> Check:
    """Verify a model and its types.

    Raises:
        sardonyx.Error: the model cannot be read, or its graph breaks a rule of the format.
    """
    return Check(**native.check(_source(model)))


@known_keywords
def diff(before: Any, after: Any) -> Diff:
    """Compare the texts of two models: interface, operators, lines."""
    return Diff(**native.diff(_source(before), _source(after)))


@known_keywords
def verify(
    before: Any,
    after: Any,
    *,
    numerics: Literal["exact", "rounds", "relaxed"] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    target: str | None = None,
) -> Verification:
    """Evaluate two models on the same random inputs.

    Args:
        before, after: Paths, messages, bytes, what else `optimize` takes, or programs of Core ML.
        numerics: What counts as equal: "exact" (all bits), "rounds" (up to rounding: the default for ONNX), or
            "relaxed" (up to a thousandth: the default for Core ML). `optimize(verify=...)` asks the same.
        rtol, atol: Compare floats by |a - b| <= atol + rtol |a| instead.
        target: The runtime that must load the second model if it loads the first, such as "ort-1.23"; by
            default the newest.
    """
    if numerics is not None:
        one_of("numerics", numerics, ("exact", "rounds", "relaxed"))
    return Verification(**native.verify(_source(before), _source(after), numerics or "", target or "", rtol, atol))


def _source(model: Any) -> Any:
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    from sardonyx._optimize import _bytes_of

    if type(model).__name__ == "Program" and hasattr(model, "_native"):  # of sardonyx.coreml: not imported for this
        return model._native
    data, _ = _bytes_of(model)
    if len(data) == 0:
        raise Error("the model is empty")
    return data
