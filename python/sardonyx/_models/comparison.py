"""What `sardonyx.compare` returns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sardonyx.report import preformatted


@dataclass(frozen=True, repr=False)
class Comparison:
    """Whether two models compute the same. True where they do, so `assert sardonyx.compare(a, b)` holds or shows why
    not. Unpacks as (same, text)."""

    same: bool
    text: str  # how far they agree, or the first difference
    largest_error: float = 0.0  # of floats: |a - b|
    largest_error_at: str = ""  # the result and the element
    inputs: Mapping[str, str] = field(default_factory=dict)  # types of a JAX function's inputs by name
    fault: str = ""  # what changed the results, if that is known
    evaluations: int = 1
    numerics: str = ""  # of two models: "exact", "rounds", "relaxed" or "half"
    not_compared: str = ""  # why nothing was
    runtime: str = ""
    load_problems: tuple[
        str, ...
    ] = ()  # what keeps the runtime from loading the second model, though it loads the first

    def __bool__(self) -> bool:
        return self.same

    @property
    def difference(self) -> str | None:
        return None if self.same else self.text

    def __iter__(self) -> Iterator[Any]:
        return iter((self.same, str(self).partition("\n")[0]))

    def __str__(self) -> str:
        lines = [f"{self.text}; {self.fault}" if self.fault else self.text]
        if not self.same and self.largest_error_at:
            lines.append(f"largest error: {self.largest_error:.6g} at {self.largest_error_at}")
        if not self.same and self.inputs:
            lines.append("inputs: " + ", ".join(f"{name}: {kind}" for name, kind in self.inputs.items()))
        return "\n  ".join(lines)

    def __repr__(self) -> str:
        return f"<Comparison: {self}>"

    def _repr_html_(self) -> str:
        return preformatted(self)


def of_models(
    *,
    numerics: str,
    evaluations: int,
    difference: str | None,
    largest_error: float,
    largest_error_at: str,
    not_compared: str,
    runtime: str,
    load_problems: list[str],
) -> Comparison:
    """What native code found."""
    where = f" ({largest_error_at})" if largest_error_at else ""
    if difference is not None:
        text = f"the models differ: {difference}"
    elif load_problems:
        text = f"{runtime} loads the first model, and not the second: {'; '.join(load_problems)}"
    elif evaluations == 0:
        text = f"nothing could be compared: {not_compared}"
    else:
        text = f"the models compute the same on {evaluations} inputs, largest error {largest_error:.3g}{where}"
    return Comparison(
        same=difference is None and not load_problems and evaluations > 0,
        text=text,
        largest_error=largest_error,
        largest_error_at=largest_error_at,
        evaluations=evaluations,
        numerics=numerics,
        not_compared=not_compared,
        runtime=runtime,
        load_problems=tuple(load_problems),
    )
