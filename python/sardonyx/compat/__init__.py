"""Other tools' functions under their own names and keywords, by Sardonyx: change the import and keep the call."""

import importlib
from types import ModuleType

__all__ = ["coremltools", "jax2onnx", "onnxsim", "onnxslim"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module 'sardonyx.compat' has no attribute '{name}'")
    return importlib.import_module(f"sardonyx.compat.{name}")


def __dir__() -> list[str]:
    return __all__
