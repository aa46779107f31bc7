"""Names of weights: where in the exported object each captured array was found."""

import functools
import types

_MOST_OBJECTS = 1_000_000


def names(fn, consts) -> list[str]:
    """One name per const, "" where none was found: `layers.0.kernel`, as a path of attributes, keys and positions below `fn`."""
    wanted = {id(c) for c in consts if getattr(c, "ndim", 0)}
    if not wanted:
        return []
    found = {}
    try:
        for path, array in _walk(fn):
            if id(array) in wanted:
                found.setdefault(id(array), path)
                if len(found) == len(wanted):
                    break
    except Exception:  # somebody's attribute raised: names are a courtesy, no reason to fail
        pass
    return [found.get(id(c), "") for c in consts]


def _walk(root):
    """(path, array) of all arrays below an object, nearest first. Each object is visited once."""
    seen = set()
    level = [("", root)]
    visited = 0
    while level:
        following = []
        for path, value in level:
            if id(value) in seen or isinstance(value, (str, bytes, int, float, complex, type, types.ModuleType)):
                continue
            seen.add(id(value))
            visited += 1
            if visited > _MOST_OBJECTS:
                return
            if hasattr(value, "dtype") and hasattr(value, "shape") and not _is_box(value):
                yield path, value
                continue
            for step, child in _children(value):
                if child is not None:
                    following.append((f"{path}.{step}" if path and step else step or path, child))
        level = following


def _is_box(value) -> bool:
    """A variable of Flax: looks like an array and holds one."""
    return hasattr(value, "_raw_value") or hasattr(value, "raw_value")


def _children(value):
    if isinstance(value, types.FunctionType):
        # Cells of a closure are named after the variables.
        cells = value.__closure__ or ()
        for name, cell in zip(value.__code__.co_freevars, cells, strict=False):
            try:
                content = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            # A module that a function closes over is what is exported: its name would be on every weight.
            yield ("" if hasattr(content, "__dict__") and not hasattr(content, "dtype") else name), content
        names = value.__code__.co_names
        for name in names:
            content = value.__globals__.get(name)
            if hasattr(content, "dtype") or isinstance(content, (dict, list, tuple)):
                yield name, content
        if wrapped := getattr(value, "__wrapped__", None):
            yield "", wrapped
    elif isinstance(value, types.MethodType):
        yield "", value.__self__
        yield "", value.__func__
    elif isinstance(value, functools.partial):
        yield "", value.func
        for i, a in enumerate(value.args):
            yield str(i), a
        yield from value.keywords.items()
    elif isinstance(value, dict):
        for key, child in value.items():
            yield str(key), child
    elif isinstance(value, (list, tuple)):
        fields = getattr(value, "_fields", None) or range(len(value))
        for field, child in zip(fields, value, strict=False):
            yield str(field), child
    elif _is_box(value):
        yield "", getattr(value, "_raw_value", None) if hasattr(value, "_raw_value") else value.raw_value
    else:
        if hasattr(value, "__wrapped__"):
            yield "", value.__wrapped__
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            for key, child in attributes.items():
                if not key.startswith("__"):
                    yield key, child
        for cls in type(value).__mro__:
            for slot in getattr(cls, "__slots__", ()):
                if isinstance(slot, str) and not slot.startswith("__") and hasattr(value, slot):
                    yield slot, getattr(value, slot, None)
