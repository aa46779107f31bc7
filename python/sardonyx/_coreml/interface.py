"""The interface of a coremltools program. Its input and output types become options of passes, and changes
are written back."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

_TYPES = "update_output_dtypes"
_IMAGES = "image_input_preprocess"
_RANDOM = "WeightRandomizer"
# Passes that are no-ops without options.
BY_OPTION = (_TYPES, _IMAGES)


def options(prog: Any, passes: Sequence[str], given: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Options that the program's `output_types` and `input_types` stand for. They refer to positions, since
    passes may change names."""
    bare = {p.split("::")[-1] for p in passes}
    asked = {key.split("::")[-1].split(".")[0] for key, _ in given}
    found = []
    main = prog.functions.get("main")
    if _IMAGES in bare and isinstance(getattr(main, "input_types", None), list):
        main.input_types = tuple(main.input_types)  # as coremltools' pass leaves them, whether or not it finds an image
    if _TYPES in bare and _TYPES not in asked and (types := _output_types(prog)):
        found.append((f"{_TYPES}.types", types))
    if _IMAGES in bare and _IMAGES not in asked and (images := _image_inputs(prog)):
        found.append((f"{_IMAGES}.inputs", images))
    if _RANDOM in bare and _RANDOM not in asked:
        found.append((f"{_RANDOM}.seed", int(np.random.randint(2**31))))  # coremltools uses NumPy's generator
    return found


def functions(prog: Any) -> dict[str, Any]:
    """The functions of a program by name; a function with several names counts once, under the first."""
    once = {}
    for name, f in prog.functions.items():
        once.setdefault(id(f), (name, f))
    return dict(once.values())


def _output_types(prog: Any) -> str:
    from coremltools import _logger
    from coremltools.converters.mil.mil import types

    lines = []
    for name, function in functions(prog).items():
        wanted = function.output_types
        if not wanted:
            continue
        if len(wanted) != len(function.outputs):
            raise ValueError(
                f"function '{name}' returns {len(function.outputs)} values, and there are types for {len(wanted)}"
            )
        for i, (one, var) in enumerate(zip(wanted, function.outputs, strict=True)):
            if one.dtype is None:
                continue
            if any(var is v for v in function.inputs.values()):
                if one.dtype != var.dtype:
                    _logger.warning(  # coremltools' text, which programs look for
                        f"Output var '{var.name}' is also an input var, hence the dtype cannot be changed: "
                        f"output var '{var.name}' remains dtype {types.builtin_to_string(var.dtype)}"
                    )
                continue
            lines.append(f"{name}\t#{i}={types.builtin_to_string(one.dtype)}\n")
    return "".join(lines)


def _image_inputs(prog: Any) -> str:
    from coremltools.converters.mil.input_types import ImageType

    main = prog.functions.get("main")
    if main is None or not main.input_types:
        return ""
    names = list(main.inputs)
    return "".join(
        f"#{names.index(t.name)}:nhwc\n"
        for t in main.input_types
        if isinstance(t, ImageType) and not t.channel_first and t.name in names
    )


def warn_of_renamed(what: str, before: Sequence[str], after: Sequence[str]) -> None:
    """Warns of renamed inputs or outputs."""
    if len(before) != len(after):
        return
    for old, new in zip(before, after, strict=True):
        if old != new:
            warnings.warn(f"the {what} '{old}' is called '{new}' in the Core ML model", stacklevel=2)


def change_inputs(function: Any, now: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Renames inputs of a function and moves the channels of images to the front, as InputEdits say. Yields
    (number, variable) of new variables."""
    before = list(function.inputs.items())
    if len(before) != len(now):
        return
    after = [edit.name for edit in now]
    if after != [old for old, _ in before]:
        _rename(function, before, after)
    for edit in now:
        if edit.has_new_type:
            yield edit.value, _with_channels_first(function, edit.name)


def _rename(function: Any, before: Sequence[tuple[str, Any]], after: Sequence[str]) -> None:
    placeholders = dict(function.placeholder_inputs)
    for (old, var), new in zip(before, after, strict=True):
        if old == new:
            continue
        if old in function.placeholder_inputs:
            function.placeholder_inputs.pop(old)
        if old in placeholders:
            placeholders[old].set_name(new)
            function.placeholder_inputs[new] = placeholders[old]
        var.name = new
        for t in function.input_types or ():
            if t.name == old:
                t.name = new
                break
    function._input_dict = OrderedDict(zip(after, (v for _, v in before), strict=True))
    warn_of_renamed("input", [old for old, _ in before], after)


def _channels_first(axes: Any) -> Any:
    return axes[:-3] + axes[-1:] + axes[-3:-1] if axes is not None else None


def _with_channels_first(function: Any, name: str) -> Any:
    placeholder = function.placeholder_inputs[name]
    placeholder.__init__(_channels_first(list(placeholder.sym_shape)), dtype=placeholder.dtype, name=placeholder.name)
    var = placeholder.outputs[0]
    function._input_dict[name] = var
    function.input_types = tuple(
        _type_with_channels_first(t) if t.name == name else t for t in function.input_types or ()
    )
    return var


def _type_with_channels_first(t: Any) -> Any:
    from coremltools.converters.mil import input_types

    def shape_of(shape):
        return shape.shape if isinstance(shape, input_types.Shape) else shape

    if isinstance(t.shape, input_types.EnumeratedShapes):
        shape = input_types.EnumeratedShapes(
            shapes=[_channels_first(shape_of(s)) for s in t.shape.shapes], default=_channels_first(t.shape.default)
        )
    else:
        shape = input_types.Shape(shape=_channels_first(t.shape.shape), default=_channels_first(t.shape.default))
    return input_types.ImageType(
        name=t.name, shape=shape, bias=t.bias, scale=t.scale, color_layout=t.color_layout, channel_first=True
    )
