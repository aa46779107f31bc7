"""Sardonyx: a native graph compiler for machine-learning models.

`to_onnx(fn, inputs)` exports a JAX function as ONNX. `optimize(model)` makes an ONNX model smaller and
faster. Everything else is imported on first use. If JAX is imported already, the exporter is imported at once,
so that the first export takes no longer than later ones.
"""

import sys
from typing import TYPE_CHECKING

from sardonyx._error import Error
from sardonyx._sardonyx import prepare as _prepare
from sardonyx._sardonyx import version as _version

if TYPE_CHECKING:  # what _LAZY imports when it is first used
    from sardonyx import coreml, ir, plugins, report, testing
    from sardonyx._check import allclose
    from sardonyx._convert import save_program, to_onnx
    from sardonyx._drop_in import simplify, slim
    from sardonyx._evaluate import evaluate
    from sardonyx._explain import explain
    from sardonyx._functions import onnx_function
    from sardonyx._inspect import check, diff, info, show, verify
    from sardonyx._optimize import optimize
    from sardonyx._profile import profile
    from sardonyx._to_coreml import to_coreml
    from sardonyx._values import Classifier, Image, Metadata
    from sardonyx.plugins import load as load_plugin
    from sardonyx.plugins import lowering

__all__ = [
    "Classifier",
    "Error",
    "Image",
    "Metadata",
    "allclose",
    "check",
    "coreml",
    "diff",
    "evaluate",
    "explain",
    "info",
    "ir",
    "load_plugin",
    "lowering",
    "onnx_function",
    "optimize",
    "plugins",
    "profile",
    "report",
    "save_program",
    "show",
    "simplify",
    "slim",
    "testing",
    "to_coreml",
    "to_onnx",
    "verify",
]
__version__ = _version()

_LAZY = {
    "Classifier": ("sardonyx._values", "Classifier"),
    "Image": ("sardonyx._values", "Image"),
    "Metadata": ("sardonyx._values", "Metadata"),
    "to_onnx": ("sardonyx._convert", "to_onnx"),
    "to_coreml": ("sardonyx._to_coreml", "to_coreml"),
    "save_program": ("sardonyx._convert", "save_program"),
    "onnx_function": ("sardonyx._functions", "onnx_function"),
    "optimize": ("sardonyx._optimize", "optimize"),
    "allclose": ("sardonyx._check", "allclose"),
    "check": ("sardonyx._inspect", "check"),
    "diff": ("sardonyx._inspect", "diff"),
    "info": ("sardonyx._inspect", "info"),
    "profile": ("sardonyx._profile", "profile"),
    "show": ("sardonyx._inspect", "show"),
    "verify": ("sardonyx._inspect", "verify"),
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
    return [*__all__, "__version__"]


if "jax" in sys.modules:
    from sardonyx import _convert, _functions, _inputs, _trace, plugins  # noqa: F401

    _prepare()
