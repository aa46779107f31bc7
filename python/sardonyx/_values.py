"""Values of options: what a keyword takes that is more than a name or a number."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sardonyx._error import Error, WrongType


@dataclass(frozen=True)
class Image:
    """An input or a result that is an image: the model gets `scale * number + bias` of the numbers 0 to 255."""

    color: str
    """ "rgb", "bgr", "gray", or "gray16" for half precision."""
    scale: float = 1.0
    bias: float | Sequence[float] = ()
    """A number for each channel, or one for all."""


@dataclass(frozen=True)
class Classifier:
    """The labels of the classes, and the names of the results that a classifier has."""

    labels: object
    """Texts, numbers, or a file with one label a line."""
    name: str = "classLabel"
    """The result that is the label of the most probable class."""
    probabilities: str | None = None
    """The result of the model that has one probability for each class, if several may."""


@dataclass(frozen=True)
class Metadata:
    """Metadata of a package."""

    author: str = ""
    license: str = ""
    version: str = ""
    description: str = ""
    user: Mapping[str, str] = field(default_factory=dict)
    """Keys of your own."""


_PRECISIONS = {
    "f16": ("f16", "fp16", "float16", "half"),
    "f32": ("f32", "fp32", "float32", "single"),
}


def precision_of(given: object, more: Sequence[str] = ()) -> str:
    """ "f16" or "f32", also by other tools' spellings, or one of `more`."""
    if given in more:
        return str(given)
    for precision, spellings in _PRECISIONS.items():
        if given in spellings:
            return precision
    known = ", ".join(f'"{p}"' for p in (*_PRECISIONS, *more))
    notes = [f"expected one of {known}"]
    if given in ("bf16", "bfloat16"):
        notes.append('help: weights="bf16" stores the weights of an ONNX model in it; CPUs compute nothing in it')
    raise Error(f"precision={given!r} is not known", notes=notes)


def shapes(given: Mapping[str, Sequence[int | str | None]] | None) -> dict[str, list[int | str | None]]:
    """Shapes of inputs as native code takes them."""
    if given is not None and not isinstance(given, Mapping):
        raise WrongType(
            f"input_shapes are a mapping of inputs to shapes, not {given!r:.200}",
            notes=['help: input_shapes={"x": (1, 3, 224, 224)}'],
        )
    found = {}
    for name, shape in (given or {}).items():
        try:
            found[str(name)] = [d if d is None or isinstance(d, str) else operator.index(d) for d in shape]
        except TypeError:
            raise WrongType(
                f"the shape of '{name}' is a sequence of whole numbers and names, not {shape!r:.200}"
            ) from None
    return found
