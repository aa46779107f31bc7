"""Names of weights: where in the exported object each captured array was found."""

import contextlib
import functools
import types
import weakref

_MOST_OBJECTS = 1_000_000


def names(fn, consts) -> list[str]:
    """One name per const, "" where none was found: `layers.0.kernel`, as a path of attributes, keys and positions below `fn`."""
    wanted = {id(c) for c in consts if getattr(c, "ndim", 0)}
    if not wanted:
        return []
    found: dict[int, str] = {}
    with contextlib.suppress(Exception):  # somebody's attribute raised: names are a courtesy, no reason to fail
        _find(fn, wanted, found)
    return [found.get(id(c), "") for c in consts]


def _find(root, wanted: set[int], found: dict[int, str]) -> None:
    """The paths of the wanted objects below `root`, nearest first. Each object is visited once."""
    values, parents, steps = [root], [-1], [""]
    seen = {id(root)}
    for i in range(_MOST_OBJECTS):
        if i == len(values) or len(found) == len(wanted):
            return
        for step, child in _children(values[i]):
            key = id(child)
            if type(child) in _LEAVES or key in seen:
                continue
            seen.add(key)
            if key in wanted:
                found[key] = _path(i, step, parents, steps)
                continue
            values.append(child)
            parents.append(i)
            steps.append(step)


def _path(i: int, step: str, parents: list[int], steps: list[str]) -> str:
    parts = [step]
    while i > 0:
        parts.append(steps[i])
        i = parents[i]
    return ".".join(part for part in reversed(parts) if part)


_LEAVES = {type(None), str, bytes, int, float, complex, bool, type, types.ModuleType, weakref.ref, slice, range}


def _children(value):
    kind = type(value)
    look = _LOOKS.get(kind)
    if look is None:
        look = _LOOKS[kind] = _look_at(value)
    return look(value)


def _look_at(value):
    """How the children of such an object are found."""
    if isinstance(value, types.FunctionType):
        return _of_function
    if isinstance(value, types.MethodType):
        return lambda v: (("", v.__self__), ("", v.__func__))
    if isinstance(value, functools.partial):
        return lambda v: (("", v.func), *((str(i), a) for i, a in enumerate(v.args)), *v.keywords.items())
    if isinstance(value, dict):
        return lambda v: ((str(key), child) for key, child in v.items())
    if isinstance(value, (list, tuple)):
        fields = getattr(value, "_fields", None)
        if fields:
            return lambda v: zip(fields, v, strict=False)
        return lambda v: ((str(i), child) for i, child in enumerate(v))
    if isinstance(value, type):
        return lambda v: ()
    # A variable of Flax: looks like an array and holds one.
    for name in ("_raw_value", "raw_value"):
        if hasattr(value, name):
            return lambda v: (("", getattr(v, name, None)),)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return lambda v: ()
    slots = [
        slot
        for cls in type(value).__mro__
        for slot in getattr(cls, "__slots__", ())
        if isinstance(slot, str) and not slot.startswith("__")
    ]
    return functools.partial(_of_object, slots)


_LOOKS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # by type; types come and go


def _of_function(value):
    # Cells of a closure are named after the variables.
    cells = value.__closure__ or ()
    for name, cell in zip(value.__code__.co_freevars, cells, strict=False):
        try:
            content = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        # A module that a function closes over is what is exported: its name would be on every weight.
        yield ("" if hasattr(content, "__dict__") and not hasattr(content, "dtype") else name), content
    for name in value.__code__.co_names:
        content = value.__globals__.get(name)
        if hasattr(content, "dtype") or isinstance(content, (dict, list, tuple)):
            yield name, content
    if wrapped := getattr(value, "__wrapped__", None):
        yield "", wrapped


def _of_object(slots, value):
    attributes = getattr(value, "__dict__", None)
    if not isinstance(attributes, dict) or "__wrapped__" in attributes:
        yield "", getattr(value, "__wrapped__", None)
    if isinstance(attributes, dict):
        for key, child in attributes.items():
            if not key.startswith("__"):
                yield key, child
    for slot in slots:
        yield slot, getattr(value, slot, None)
