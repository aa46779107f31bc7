"""Sardonyx: a native graph compiler for machine-learning models.

`to_onnx(fn, inputs)` exports a JAX function as ONNX. `optimize(model)` makes an ONNX model smaller and
faster. Everything else is imported on first use. If JAX is imported already, the exporter is imported at once,
so that the first export takes no longer than later ones.
"""

import sys

from sardonyx._error import Error
from sardonyx._sardonyx import prepare as _prepare
from sardonyx._sardonyx import version as _version

__all__ = [
    "Error",
    "allclose",
    "coreml",
    "evaluate",
    "explain",
    "ir",
    "load_plugin",
    "lowering",
    "onnx_function",
    "optimize",
    "report",
    "save_program",
    "simplify",
    "slim",
    "to_onnx",
]
__version__ = _version()

_LAZY = {
    "to_onnx": ("sardonyx._convert", "to_onnx"),
    "save_program": ("sardonyx._convert", "save_program"),
    "onnx_function": ("sardonyx._functions", "onnx_function"),
    "optimize": ("sardonyx._optimize", "optimize"),
    "allclose": ("sardonyx._check", "allclose"),
    "evaluate": ("sardonyx._evaluate", "evaluate"),
    "explain": ("sardonyx._explain", "explain"),
    "coreml": ("sardonyx.coreml", None),
    "ir": ("sardonyx.ir", None),
    "load_plugin": ("sardonyx.plugins", "load"),
    "lowering": ("sardonyx.plugins", "lowering"),
    "plugins": ("sardonyx.plugins", None),
    "report": ("sardonyx.report", None),
    "simplify": ("sardonyx._drop_in", "simplify"),
    "slim": ("sardonyx._drop_in", "slim"),
    "testing": ("sardonyx.testing", None),
}


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'sardonyx' has no attribute '{name}'")
    import importlib

    module, attribute = _LAZY[name]
    value = importlib.import_module(module)
    if attribute is not None:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_LAZY})


if "jax" in sys.modules:
    from sardonyx import _convert, _functions, _inputs, _trace, plugins  # noqa: F401

    _prepare()
