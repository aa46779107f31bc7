"""Replaces coremltools' passes in its registry by Sardonyx's passes of the same names."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any

from sardonyx import _sardonyx
from sardonyx._coreml.session import SELECTING, require_coremltools, run

# Only native passes have this attribute.
_NAME = "sardonyx_name"
# Options here that are attributes of coremltools' classes: the attribute and its default.
_OF_CLASSES = {
    "prefer_int16_ops": ("_PREFER_INT16_OPS", {"gather", "gather_along_axis", "gather_nd", "squeeze", "topk"}),
    "dequant_first": ("_DEQUANT_FIRST", True),
}

_lock = threading.Lock()
_entered = 0  # how many blocks are open, in all threads
_made: dict[
    str, tuple[type, Any]
] = {}  # by key: the native pass and the pass that it replaces; cached, since making 60 classes takes time
_replaced: dict[str, tuple[type, Any]] = {}  # by key: the current and the previous entry of the registry
_pipeline: tuple[Any, Any] | None = None  # coremltools' apply_pipeline: ours and the original


@contextlib.contextmanager
def native_passes():
    """Inside, coremltools runs Sardonyx's passes instead of its own of the same names.

    The registry belongs to the process: blocks may nest and overlap in several threads, and the last one to
    be left restores it.
    """
    global _entered
    require_coremltools()
    with _lock:
        _replace()
        _entered += 1
    try:
        yield
    finally:
        with _lock:
            _entered -= 1
            if _entered == 0:
                _restore()


def _replace() -> None:
    global _pipeline
    from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipelineManager
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

    ours = _options_of_passes()
    for key, original in list(PASS_REGISTRY.passes.items()):
        namespace, _, name = key.partition("::")
        if namespace == "common" and name in ours and not hasattr(original, _NAME):
            if key not in _made or _made[key][1] is not original:
                _made[key] = _native_pass(name, ours[name], original), original
            _replaced[key] = _made[key]
            PASS_REGISTRY.passes[key] = _made[key][0]
    if _pipeline is None:
        _pipeline = staticmethod(_apply_pipeline), PassPipelineManager.__dict__["apply_pipeline"]
        PassPipelineManager.apply_pipeline = _pipeline[0]


def _restore() -> None:
    """Restores entry by entry: passes that others registered in the meantime stay."""
    global _pipeline
    from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipelineManager
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

    for key, (native, original) in _replaced.items():
        if PASS_REGISTRY.passes.get(key) is native:
            PASS_REGISTRY.passes[key] = original
    _replaced.clear()
    if _pipeline is not None and PassPipelineManager.__dict__["apply_pipeline"] is _pipeline[0]:
        PassPipelineManager.apply_pipeline = _pipeline[1]
    _pipeline = None


@functools.cache
def _options_of_passes() -> dict[str, frozenset[str]]:
    return {p["name"]: frozenset(p["options"]) for p in _sardonyx.list_passes() if p["dialect"] == "mil"}


def _native_pass(name: str, options: frozenset[str], original: Any) -> type:
    from coremltools.converters.mil.mil.passes.graph_pass import AbstractGraphPass

    def has_option(option):
        return option in options or (option == "op_selector" and name in SELECTING)

    class Native(AbstractGraphPass):
        def __init__(self):
            self.chosen = {}

        def __str__(self):
            return name

        def __getattr__(self, key):
            # Other attributes of coremltools' pass still work, with this class's `apply`.
            if key.startswith("__"):
                raise AttributeError(key)
            if key in self.chosen:
                return self.chosen[key]
            theirs = original() if isinstance(original, type) else original
            theirs.apply = self.apply
            return getattr(theirs, key)

        def __setattr__(self, key, value):
            # coremltools' options are attributes of the pass, too.
            if has_option(key):
                self.chosen[key] = value
            else:
                super().__setattr__(key, value)

        def set_options(self, pass_options=None):
            for option in pass_options or ():
                if not has_option(option.option_name):
                    raise NotImplementedError(f"The graph pass `{name}` doesn't support option `{option.option_name}`.")
                self.chosen[option.option_name] = option.option_val

        def apply(self, prog):
            run(prog, [name], _spelled(self))

    Native.__name__ = name
    setattr(Native, _NAME, name)
    Native.original = original
    return Native


def _spelled(graph_pass) -> list[tuple[str, Any]]:
    """The options of a native pass, under its name; what is set on coremltools' class counts as well."""
    name = getattr(type(graph_pass), _NAME)
    chosen = dict(graph_pass.chosen)
    for option, (attribute, usual) in _OF_CLASSES.items():
        value = getattr(type(graph_pass).original, attribute, usual)
        if value != usual:
            chosen.setdefault(option, ",".join(sorted(value)) if isinstance(value, set) else value)
    return [(f"{name}.{k}", v) for k, v in chosen.items()]


def _apply_pipeline(prog, pass_pipeline):
    """As coremltools' own, but consecutive native passes share one import of the program."""
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

    if pass_pipeline is None:
        raise ValueError("The pass_pipeline cannot be None.")
    pass_pipeline.validate()
    prog.validate()
    waiting, options = [], []

    def flush():
        if waiting and not prog.skip_all_passes:
            run(prog, waiting, options)
            prog.validate(check_essential_scope="dead_code_elimination" in waiting)
        waiting.clear()
        options.clear()

    for key in pass_pipeline.passes:
        graph_pass = PASS_REGISTRY[key]
        graph_pass.set_options(pass_pipeline.get_options(key))
        name = getattr(type(graph_pass), _NAME, None)
        if name is not None:
            if name in waiting and graph_pass.chosen or "op_selector" in graph_pass.chosen:
                flush()  # options belong to one run of a pass, and predicates see the ops that are there
            waiting.append(name)
            options.extend(_spelled(graph_pass))
            continue
        flush()
        graph_pass(prog)
        prog.validate(check_essential_scope=key == "common::dead_code_elimination")
    flush()
