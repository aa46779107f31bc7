"""Named scopes for Flax NNX, which sets none itself. Each module runs in a scope named after its attribute in
the calling module."""

import collections
import contextlib
import contextvars
import functools
import sys
import threading
from typing import Any

from sardonyx.plugins import _patches

_watcher: contextvars.ContextVar[Any] = contextvars.ContextVar("sardonyx_module_watcher", default=None)
_caller: contextvars.ContextVar["_Caller | None"] = contextvars.ContextVar("sardonyx_module", default=None)


class _Caller:
    """A running module, and the paths of the modules in it, which are found when the first of them is called."""

    def __init__(self, module):
        self.module = module
        self._paths = None

    def path_of(self, part) -> str | None:
        if self._paths is None:
            self._paths = {id(x): path for path, x in _inside(self.module)}
        return self._paths.get(id(part))


def _inside(module):
    """(path, part) of the module itself, and of the modules and containers in it. The nearest come first;
    each is listed once."""
    found, todo = set(), collections.deque([("", module)])
    while todo:
        path, x = todo.popleft()
        if _is_module(x):
            parts = vars(x).items()
        elif isinstance(x, (list, tuple)):
            parts = enumerate(x)
        else:
            parts = x.items() if isinstance(x, dict) else ()
        if parts and id(x) not in found:
            found.add(id(x))
            yield path, x
            todo.extend((f"{path}/{k}" if path else str(k), part) for k, part in parts)


def _is_module(x) -> bool:
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(x, nnx.Module)


def module_of(function):
    """The module that a function is, or that it is a method of; None for others."""
    return next(filter(_is_module, (function, getattr(function, "__self__", None))), None)


def scope(function):
    """The scope of the module whose method `function` is; none for others. A module that is called has its
    own."""
    module = None if _is_module(function) else module_of(function)
    return contextlib.nullcontext() if module is None else _entered(module)


@contextlib.contextmanager
def watched_by(watch):
    """Calls `watch(module, name, args, kwargs)` before each module runs in this block."""
    token = _watcher.set(watch)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextlib.contextmanager
def _entered(module):
    """Yields the module's name in the calling module."""
    import jax

    caller = _caller.get()
    if caller is not None and caller.module is module:  # called through super().__call__
        yield type(module).__name__
        return
    token = _caller.set(_Caller(module))
    try:
        # A module that the caller does not hold is a copy, made by nnx.remat for example.
        path = (caller and caller.path_of(module)) or type(module).__name__
        with jax.named_scope(path):
            yield path
    finally:
        _caller.reset(token)


def _scoped(original):
    """The replacement of a class's `__call__` while some thread traces. Made once and kept with the original."""
    kept = getattr(original, "__dict__", {})
    known = kept.get("_sardonyx_scoped")
    if known is not None and known.__wrapped__ is original:  # functools.wraps copies it
        return known

    @functools.wraps(original)
    def call(module, *args, **kwargs):
        if not _patches.tracing.get():
            return original(module, *args, **kwargs)
        with _entered(module) as path:
            if (watch := _watcher.get()) is not None:
                watch(module, path, args, kwargs)
            return original(module, *args, **kwargs)

    kept["_sardonyx_scoped"] = call
    return call


def _callable_classes():
    """Module classes that define `__call__` themselves."""
    nnx = sys.modules.get("flax.nnx")
    todo = [nnx.Module] if nnx is not None else []
    while todo:
        cls = todo.pop()
        todo.extend(cls.__subclasses__())
        if "__call__" in vars(cls):
            yield cls


_lock = threading.Lock()
_traces = 0  # traces in progress
_originals: list[tuple[type, Any]] = []  # restored when no trace is in progress


@contextlib.contextmanager
def active():
    """Around a trace. Traces cached by JAX stay valid with these scopes."""
    global _traces
    with _lock:
        _traces += 1
        if _traces == 1:
            for cls in _callable_classes():
                _originals.append((cls, vars(cls)["__call__"]))
                cls.__call__ = _scoped(vars(cls)["__call__"])
    try:
        yield
    finally:
        with _lock:
            _traces -= 1
            if _traces == 0:
                for cls, original in _originals:
                    cls.__call__ = original
                _originals.clear()
