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
    from sardonyx import compat, coreml, ir, plugins, report, testing
    from sardonyx._convert import save_program, to_onnx
    from sardonyx._coreml.convert import to_coreml
    from sardonyx._dispatch import compare, convert
    from sardonyx._explain import explain
    from sardonyx._models.evaluate import evaluate
    from sardonyx._models.inspect import check, diff, info, show
    from sardonyx._models.optimize import optimize
    from sardonyx._models.profile import profile
    from sardonyx._trace.functions import onnx_function
    from sardonyx._values import Classifier, Image, Metadata
    from sardonyx.plugins import lowering

__all__ = [
    "Classifier",
    "Error",
    "Image",
    "Metadata",
    "check",
    "compare",
    "compat",
    "convert",
    "coreml",
    "diff",
    "evaluate",
    "explain",
    "info",
    "ir",
    "lowering",
    "onnx_function",
    "optimize",
    "plugins",
    "profile",
    "report",
    "save_program",
    "show",
    "testing",
    "to_coreml",
    "to_onnx",
]
__version__ = _version()

_LAZY = {
    "Classifier": ("sardonyx._values", "Classifier"),
    "Image": ("sardonyx._values", "Image"),
    "Metadata": ("sardonyx._values", "Metadata"),
    "to_onnx": ("sardonyx._convert", "to_onnx"),
    "to_coreml": ("sardonyx._coreml.convert", "to_coreml"),
    "save_program": ("sardonyx._convert", "save_program"),
    "onnx_function": ("sardonyx._trace.functions", "onnx_function"),
    "optimize": ("sardonyx._models.optimize", "optimize"),
    "compare": ("sardonyx._dispatch", "compare"),
    "convert": ("sardonyx._dispatch", "convert"),
    "check": ("sardonyx._models.inspect", "check"),
    "diff": ("sardonyx._models.inspect", "diff"),
    "info": ("sardonyx._models.inspect", "info"),
    "profile": ("sardonyx._models.profile", "profile"),
    "show": ("sardonyx._models.inspect", "show"),
    "evaluate": ("sardonyx._models.evaluate", "evaluate"),
    "explain": ("sardonyx._explain", "explain"),
    "compat": ("sardonyx.compat", None),
    "coreml": ("sardonyx.coreml", None),
    "ir": ("sardonyx.ir", None),
    "lowering": ("sardonyx.plugins", "lowering"),
    "plugins": ("sardonyx.plugins", None),
    "report": ("sardonyx.report", None),
    "testing": ("sardonyx.testing", None),
}


# Names that other tools have, or that Sardonyx had: how to spell them.
_ELSEWHERE = {
    "allclose": "sardonyx.compare, which returns a result that is true or false",
    "verify": "sardonyx.compare",
    "from_onnx": "sardonyx.to_coreml",
    "lint": "sardonyx.plugins.lint",
    "load_plugin": "sardonyx.plugins.load",
    "simplify": "sardonyx.compat.onnxsim.simplify; sardonyx.optimize is its native form",
    "slim": "sardonyx.compat.onnxslim.slim; sardonyx.optimize is its native form",
}


def __getattr__(name):
    if name not in _LAZY:
        where = f"; use {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        raise AttributeError(f"module 'sardonyx' has no attribute '{name}'{where}")
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
    from sardonyx import _convert, plugins  # noqa: F401
    from sardonyx._trace import functions as _functions  # noqa: F401
    from sardonyx._trace import inputs as _inputs  # noqa: F401
    from sardonyx._trace import trace as _trace  # noqa: F401

    _prepare()
