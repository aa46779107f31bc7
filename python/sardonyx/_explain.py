"""`sardonyx.explain`: the primitives of a function, and whether it can be exported."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sardonyx import _sardonyx as native
from sardonyx import _source, plugins
from sardonyx import report as reports
from sardonyx._convert import _one_error, _read_program, _target
from sardonyx._error import Error
from sardonyx._require import known_keywords


@dataclass
class Primitive:
    """The equations of one primitive, including those in bodies of loops and calls."""

    count: int
    lowering: (
        str | None
    )  # the function or row that lowers it, "python", or a plugin's path; None if there is no lowering
    lines: list[str] = field(default_factory=list)  # "model.py:41 (attention)", each once, in order


@dataclass
class Explanation:
    """The result of `explain`. `str()` gives the table that the command prints."""

    name: str
    primitives: dict[str, Primitive]  # by name, the most frequent first
    refused: list[str] = field(
        default_factory=list
    )  # what keeps it from being exported, equation by equation, with lines

    @property
    def missing(self) -> list[str]:
        """Primitives without a lowering."""
        return [name for name, p in self.primitives.items() if p.lowering is None]

    def _repr_html_(self) -> str:
        return reports.preformatted(self)

    def __str__(self) -> str:
        total = sum(p.count for p in self.primitives.values())
        width = max([len("primitive"), *map(len, self.primitives)])
        wide = max([len("lowering"), *(len(p.lowering or "MISSING") for p in self.primitives.values())])
        said = [f"{self.name}: {total} equations of {len(self.primitives)} primitives"]
        said.append(f"  {'primitive':<{width}}  {'count':>6}  {'lowering':<{wide}}  lines")
        for name, p in self.primitives.items():
            more = f" and {len(p.lines) - 1} more" if len(p.lines) > 1 else ""
            line = f"{p.lines[0]}{more}" if p.lines else ""
            said.append(f"  {name:<{width}}  {p.count:>6}  {p.lowering or 'MISSING':<{wide}}  {line}".rstrip())
        if self.refused:
            said += ["refused:", *(f"  {line}" for text in self.refused for line in text.splitlines())]
        if self.missing:
            said.append(
                'help: a plugin can add a lowering: @sardonyx.lowering("primitive"), see docs/inside/lowerings.md'
            )
        return "\n".join(said)


@known_keywords
def explain(
    fn: Any,
    inputs: Sequence[Any] = (),
    *,
    input_params: Mapping[str, Any] | None = None,
    enable_double_precision: bool = False,
    opset: int | None = None,
    target: str | None = None,
) -> Explanation:
    """All primitives of a function: how many equations each has, their source lines, whether there is a lowering, and
    what `to_onnx` would refuse.

    Takes the arguments of `to_onnx`. The function is traced and lowered, and nothing is written.

        >>> print(sardonyx.explain(model, ["f32[B,3]"]))
    """
    target, opset = _target(target, opset)
    name = _source.callable_name(fn)
    program, _, lowerings = _read_program(
        reports.Report(name), fn, inputs, input_params, enable_double_precision=enable_double_precision
    )
    found = {}
    for primitive, count, origin, lines in program.primitives(plugins._paths()):
        python = primitive in lowerings
        found[primitive] = Primitive(count, "python" if python else (os.fspath(origin) or None), lines)
    refused: list[str] = []
    try:
        with _one_error(f"converting {name}"):
            native.convert(program, opset=opset, target=target, lowerings=lowerings, libraries=plugins._paths())
    except Error as e:
        refused = [e.message, *e.notes]
    return Explanation(name, dict(sorted(found.items(), key=lambda item: (-item[1].count, item[0]))), refused)
