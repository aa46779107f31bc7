"""Patches: attributes that have other values while a thread traces for Sardonyx."""

import contextlib
import contextvars
import functools
import importlib
import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sardonyx._error import Error

lock = threading.RLock()  # for patches and the registries of plugins

# Whether this thread traces for Sardonyx, and which plugin's abstract_eval runs.
tracing: contextvars.ContextVar[bool] = contextvars.ContextVar("sardonyx_tracing", default=False)
evaluating: contextvars.ContextVar[str | None] = contextvars.ContextVar("sardonyx_abstract_eval", default=None)


@dataclass(frozen=True)
class AssignSpec:
    """While tracing, `target.attr` is `value`. `target` is an object or its dotted name."""

    target: Any
    attr: str
    value: Any
    delete_if_missing: bool = True


@dataclass(frozen=True)
class MonkeyPatchSpec:
    """While tracing, `target.attr` is `make_value(original)`. `target` is an object or its dotted name.

    A patched function must not be called by an `abstract_eval`, unless `in_abstract_eval` allows it.
    """

    target: Any
    attr: str
    make_value: Callable[[Any], Any]
    delete_if_missing: bool = False
    in_abstract_eval: bool = False


@dataclass
class _Installed:
    target: Any
    attr: str
    original: Any  # as stored in the target: a staticmethod stays one
    missing: bool
    users: int = 0


installed: dict[tuple[int, int, str], _Installed] = {}  # (plugin, target, attribute) -> what to restore


def resolve(target: Any) -> Any:
    if not isinstance(target, str):
        return target
    # The longest prefix that is a module; the rest are attributes.
    parts = target.split(".")
    for n in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError as e:
            if e.name and not ".".join(parts[:n]).startswith(e.name):
                raise
            continue
        for part in parts[n:]:
            value = getattr(value, part)
        return value
    raise Error(f"there is no '{target}' to patch")


def _shim(plugin_name: str, label: str, original: Any, replacement: Any, in_abstract_eval: bool = False) -> Any:
    """Calls the replacement in a thread that traces, and the original in all others."""
    if not callable(replacement) or inspect.isclass(replacement):
        return replacement

    def shim(*args, **kwargs):
        if not tracing.get():
            return original(*args, **kwargs)
        if not in_abstract_eval and (name := evaluating.get()) is not None:
            raise Error(
                f"plugin {name}: abstract_eval calls {label}, which plugin {plugin_name} has patched",
                notes=["help: compute the shape without it, or call the original that make_value() was given"],
            )
        return replacement(*args, **kwargs)

    with contextlib.suppress(AttributeError, TypeError):
        functools.update_wrapper(shim, original)
    shim.__sardonyx_original__ = original  # type: ignore[attr-defined]
    return shim


def _install(plugin, spec) -> tuple[int, int, str]:
    """Installs a patch; returns the key for _uninstall()."""
    target = resolve(spec.target)
    key = (id(plugin), id(target), spec.attr)
    if key not in installed:
        current = getattr(target, spec.attr, None)
        missing = not hasattr(target, spec.attr)
        held = inspect.getattr_static(target, spec.attr, None)
        inherited = inspect.isclass(target) and spec.attr not in vars(target)
        if isinstance(spec, AssignSpec):
            value = spec.value
        else:
            value = spec.make_value(None if missing else current)
        label = f"{getattr(target, '__name__', target)}.{spec.attr}"
        everywhere = getattr(spec, "in_abstract_eval", False)
        setattr(target, spec.attr, _shim(type(plugin).__name__, label, current, value, everywhere))
        installed[key] = _Installed(target, spec.attr, held, missing or inherited)
    installed[key].users += 1
    return key


def _uninstall(key: tuple[int, int, str]) -> None:
    entry = installed[key]
    entry.users -= 1
    if entry.users:
        return
    del installed[key]
    if entry.missing:
        with contextlib.suppress(AttributeError):
            delattr(entry.target, entry.attr)
    else:
        setattr(entry.target, entry.attr, entry.original)


class Tracing:
    """Inside, this thread traces for Sardonyx."""

    def __enter__(self):
        self._token = tracing.set(True)

    def __exit__(self, *_):
        tracing.reset(self._token)


@contextlib.contextmanager
def patched(plugins, remembered: bool = False):
    """Applies the patches of these plugins for this thread. `remembered`: the caller separates JAX's cached
    traces itself."""
    done: list[tuple[int, int, str]] = []
    with contextlib.ExitStack() as stack:
        stack.callback(_put_back, done)
        with lock:
            for plugin in plugins:
                if plugin._PRIM is not None or hasattr(plugin, "abstract_eval") or hasattr(plugin, "impl"):
                    plugin.primitive()
                for spec in plugin.binding_specs():
                    done.append(_install(plugin, spec))
        if done and not remembered:
            # JAX caches traces of jitted functions. A trace made without patches must not be reused here.
            stack.enter_context(_own_trace_cache())
        with Tracing():
            yield


def _put_back(done) -> None:
    with lock:
        for key in reversed(done):
            _uninstall(key)


@contextlib.contextmanager
def _own_trace_cache():
    """Marks equations traced inside; the mark is part of JAX's cache key for traces."""
    try:
        from jax.experimental.xla_metadata import set_xla_metadata
    except ImportError:
        import jax

        jax.clear_caches()
        yield
        jax.clear_caches()
        return
    with set_xla_metadata(sardonyx="patched"):
        yield
