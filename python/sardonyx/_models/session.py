"""Running a model in onnxruntime, in every dtype that it takes."""

import contextlib
import functools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx import _sardonyx as native
from sardonyx._error import Error
from sardonyx._models.evaluate import evaluate
from sardonyx._models.inspect import info
from sardonyx._models.program import Program, load
from sardonyx._models.sources import bytes_of
from sardonyx._require import require

# onnxruntime passes these to and from NumPy as plain bytes of the same width.
_BY_BYTES = {"bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20}
_BY_TYPE = {
    "tensor(bfloat16)": "bfloat16", "tensor(float8e4m3fn)": "float8_e4m3fn", "tensor(float8e4m3fnuz)": "float8_e4m3fnuz",
    "tensor(float8e5m2)": "float8_e5m2", "tensor(float8e5m2fnuz)": "float8_e5m2fnuz",
}  # fmt: skip
_NUMPY = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_,
    **{f"{u}int{n}": np.dtype(f"{u}int{n}").type for u in ("", "u") for n in (8, 16, 32, 64)},
}  # fmt: skip


class Session:
    """A model, loaded once, as users load it: onnxruntime optimizes the graph. One thread works.

    onnxruntime's optimizations may change results, or break the graph. `as_written()` runs the graph without
    them, and `blamed()` tells whose fault a difference is.

    Where an input or a result has integers of 2 or 4 bits, which onnxruntime's Python interface does not
    support, the evaluator computes instead; onnxruntime still loads the model.
    """

    def __init__(self, model: Any, optimized: bool = True):
        self.model = model
        self.optimized = optimized
        self._as_written: Session | None = None
        ort = require("onnxruntime", "onnx")
        options = ort.SessionOptions()
        levels = ort.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
        options.enable_mem_pattern = False
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        source: str | bytes
        if isinstance(model, native.ir.ModelBase):
            source = native.ir.serialize(model)
        else:
            source = os.fspath(model) if isinstance(model, str | os.PathLike) else bytes_of(model)[0]
        with self._as_error("load"):
            self.session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self.inputs = self.session.get_inputs()
        self.outputs = self.session.get_outputs()

    @functools.cached_property
    def of_largest(self) -> float:
        """What half precision may cost, as a share of the largest element of a result: 0 where nothing but inputs and
        results shows what the model computes in."""
        if any("float16" in port.type for port in (*self.inputs, *self.outputs)):
            return 0.0
        source = os.fspath(self.model) if isinstance(self.model, str | os.PathLike) else self.model
        if not isinstance(source, str | native.ir.ModelBase):
            source = bytes_of(source)[0]
        return native.half_share(source)

    def as_written(self) -> "Session":
        """The same model without onnxruntime's optimizations."""
        if not self.optimized:
            return self
        if self._as_written is None:
            self._as_written = Session(self.model, optimized=False)
        return self._as_written

    def blamed(self, feeds: dict[str, np.ndarray], compare: Callable[..., Any]) -> str:
        """For results that differ from what was expected: who changed them, if it is onnxruntime's optimizer.
        `compare` is true of results that are as expected."""
        if not self.optimized:
            return ""
        try:
            if not compare(self.as_written().run(feeds)):
                return ""
        except Error:
            return ""
        return f"{release()} changes the results when it optimizes the graph; without its optimizations they agree"

    @contextlib.contextmanager
    def _as_error(self, what: str, feeds: dict[str, np.ndarray] | None = None):
        """Like `_as_error`; where the graph as written works, the error says so."""
        try:
            with _as_error(what):
                yield
        except Error as e:
            if not self.optimized:
                raise
            try:
                written = self.as_written()
                if feeds is not None:
                    written.run(feeds)
            except Error:
                raise e from None
            reason = e.message.partition(": ")[2]
            raise Error(
                f"{release()} does not {what} the model as it optimizes the graph: {reason}",
                "unsupported",
                [f"without its optimizations it does {what} it: the model is right", DISABLED],
            ) from e

    def run(self, feeds: dict[str, np.ndarray], expected: Any = None) -> list[np.ndarray]:
        import onnxruntime as ort

        if any("int4" in i.type or "int2" in i.type for i in (*self.inputs, *self.outputs)):
            results = evaluate(self.model, feeds)
            return [results[o.name] for o in self.outputs]
        if not any(i.type in _BY_TYPE for i in (*self.inputs, *self.outputs)):
            with self._as_error("run", feeds):
                return self.session.run(None, feeds)
        values = {}
        for name, x in feeds.items():
            if (number := _BY_BYTES.get(x.dtype.name)) is not None:
                raw = np.asarray(x, order="C").view(f"u{x.dtype.itemsize}")
                values[name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, number)
            else:
                values[name] = ort.OrtValue.ortvalue_from_numpy(np.asarray(x, order="C"))
        with self._as_error("run", feeds):
            results = self.session.run_with_ort_values(None, values)
        return [self._array(o, r) for o, r in zip(self.outputs, results, strict=True)]

    @staticmethod
    def _array(meta, value) -> np.ndarray:
        import ml_dtypes

        name = _BY_TYPE.get(meta.type)
        if name is None:
            return value.numpy()
        dtype = np.dtype(getattr(ml_dtypes, name))
        import ctypes

        shape = tuple(value.shape())
        count = int(np.prod(shape))
        raw = ctypes.string_at(value.data_ptr(), count * dtype.itemsize) if count else b""
        return np.frombuffer(raw, dtype).reshape(shape)


DISABLED = (
    "help: SessionOptions.graph_optimization_level = ORT_DISABLE_ALL turns them off; another release may be right"
)


def release() -> str:
    import onnxruntime as ort

    return f"onnxruntime {ort.__version__}"


@dataclass(frozen=True)
class _Port:
    name: str
    type: str  # "f16[3,5]"


_PORT_TYPES = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "bool": np.bool_}


class PackageSession:
    """A program of Core ML, on the evaluator. It has fewer element types than JAX: results get those of `expected`."""

    def __init__(self, program: Any):
        self._program = program
        if program.make_state():
            raise Error("a program with states is not compared with JAX", notes=["help: compare runs of your own"])
        ports = info(program)
        self.inputs, self.outputs = ([_Port(*p) for p in named.items()] for named in (ports.inputs, ports.outputs))
        self.of_largest = program._native.half_share()  # what `sardonyx compare` allows

    def run(self, feeds: dict[str, np.ndarray], expected: Any = None) -> list[np.ndarray]:
        given: dict[str, np.ndarray] = {
            p.name: feeds[p.name].astype(_PORT_TYPES[p.type.partition("[")[0]]) for p in self.inputs
        }
        results = list(self._program.run(given).values())
        if len(results) != len(expected):
            return results
        return [np.asarray(r).astype(np.dtype(e.dtype)) for r, e in zip(results, expected, strict=True)]

    def blamed(self, feeds: dict[str, np.ndarray], compare: Callable[..., Any]) -> str:
        """As of `Session`: no optimizer runs here."""
        return ""


def package_session(model: Any) -> PackageSession | None:
    """Of a program of Core ML, or of the path of one; else None."""
    if isinstance(model, str | os.PathLike) and os.fspath(model).rstrip("/").endswith((".mlpackage", ".mlmodel")):
        model = load(model)
    return PackageSession(model) if isinstance(model, Program) else None


@contextlib.contextmanager
def _as_error(what: str):
    """Turns any exception of onnxruntime into an Error."""
    try:
        yield
    except Error:
        raise
    except Exception as e:
        import onnxruntime as ort

        text = re.sub(
            r"^(\[ONNXRuntimeError\] : \d+ : )?",
            "",
            str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__,
        )
        release = ".".join(ort.__version__.split(".")[:2])
        if re.search(
            r"NOT_IMPLEMENTED|opset|not a registered function|Could not find an implementation", text, re.IGNORECASE
        ):
            help_ = f'help: to_onnx(target="ort-{release}") writes what this release has kernels for; operators of a plugin need a runtime that knows them'
        else:
            help_ = 'help: to_onnx(passes="none") tells whether a pass is at fault; sardonyx.evaluate computes without onnxruntime'
        raise Error(f"onnxruntime {ort.__version__} does not {what} the model: {text}", "unsupported", [help_]) from e


def numpy_type(meta) -> np.dtype | None:
    """The dtype of a model's input, or None if NumPy has none."""
    import ml_dtypes

    if name := _BY_TYPE.get(meta.type):
        return np.dtype(getattr(ml_dtypes, name))
    word = meta.type.removeprefix("tensor(").removesuffix(")")
    return np.dtype(_NUMPY[word]) if word in _NUMPY else None
