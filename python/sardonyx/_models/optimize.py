"""`sardonyx.optimize`: a thin front for the native passes."""

import importlib.util
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from sardonyx import _sardonyx as native
from sardonyx import report as reports
from sardonyx._error import Error, WrongType
from sardonyx._models.evaluate import _from_native, _to_native
from sardonyx._models.options import DEFAULTS, DOC, FIELDS, OptimizeOptions
from sardonyx._models.session import Session
from sardonyx._models.sources import bytes_of
from sardonyx._progress import shown
from sardonyx._require import one_of, require, with_options
from sardonyx._values import precision_of, shapes


@with_options(DEFAULTS, DOC)
def optimize(
    model: Any,
    output_path: str | os.PathLike | None = None,
    *,
    progress: bool | Callable[[str, int, int], Any] = False,
    return_report: bool = False,
    **options: Unpack[OptimizeOptions],
) -> Any:
    """Make an ONNX model smaller and faster, with the same results.

    Args:
        model: A path, an `onnx.ModelProto`, its bytes, a file that is open for bytes, a `sardonyx.ir.Model`,
            an `onnx_ir.Model`, or the `ONNXProgram` that `torch.onnx.export` returns. It is not changed.
        output_path: Where to write the result. From a path as `model`, weights stream from file to file.
        progress: True shows a bar: tqdm's where it is installed, else a line of text. A function is called with what is
            done next, how many steps are done, and of how many.
        return_report: Return (model, report): the report has the figures of what each pass did.
        **options:

    Returns:
        `output_path` if given; otherwise the same type as `model` (an `onnx.ModelProto` for a path, a file or
        an `ONNXProgram`).

    Raises:
        sardonyx.Error: damaged models, unknown passes and options. No partial file remains.
    """
    wanted = request(options)
    name = os.path.basename(os.fspath(model)) if isinstance(model, str | os.PathLike) else ""
    with shown(progress, name or "optimizing") as step:
        made, numbers = _optimized(model, output_path, wanted | {"progress": step})
    report = reports.finished(reports.of_optimization(name or "model", numbers, output_path))
    return reports.Reported(made, report) if return_report else made


def _optimized(model, output_path, wanted):
    """The result, and native code's figures."""
    path = None if output_path is None else os.fspath(output_path)
    if isinstance(model, str | os.PathLike):
        model = os.fspath(model)
        if path is not None:
            return path, native.optimize_path(model, path, wanted)
        onnx = require("onnx", "onnx")
        try:
            with open(model, "rb") as file:
                data = file.read()
        except OSError as e:
            raise Error(f"cannot read {model}: {e.strerror or e}", "io") from None
        data, numbers = native.optimize_bytes(data, os.path.dirname(model) or ".", wanted)
        return onnx.ModelProto.FromString(data), numbers
    if path is None and not isinstance(model, native.ir.ModelBase):
        data, in_callers_type = bytes_of(model)
        data, numbers = native.optimize_bytes(data, "", wanted)
        return in_callers_type(data), numbers
    if path is not None:
        native.require_output_name(path)
        if path.endswith(".sx"):
            raise Error("only a file is optimized into text", notes=["help: save the model, and pass its path"])
    if not isinstance(model, native.ir.ModelBase):
        model = native.ir.read_bytes(bytes_of(model)[0], "")
    made, numbers = native.optimize_model(model, wanted)
    if path is None:
        return made, numbers
    native.ir.write_path(made, path, False, "", 1024, 0)
    return path, numbers


def request(options: Mapping[str, Any], of_passes: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """The options of the native optimization, by the names of their fields. `of_passes`: more options of passes."""
    given = {**DEFAULTS, **options}
    wanted = {field: _AS_NATIVE.get(keyword, bool)(given[keyword]) for field, keyword in FIELDS.items()}
    wanted["request.passes"], of_file = _pipeline("passes", given["passes"])
    wanted["request.options"] = [*of_file, *wanted["request.options"], *of_passes]
    in_integers = given["precision"] == "int8"
    if in_integers:
        of_runs = ["quantize_values"] if given["calibration"] else []
        wanted["request.passes"] = [*wanted["request.passes"], *of_runs, "quantize_products"]
    elif given["precision"] is not None:
        wanted["request.options"].append(("precision", precision_of(given["precision"], more=("int8",))))
    chooses = given["max_error"] is not None
    if given["metric"] is not None and not chooses:
        raise Error("metric is for max_error", notes=["help: max_error=0.5 bounds what the metric gives"])
    if chooses:
        if given["metric"] is not None:
            wanted["metric"] = _metric(given["metric"])
        elif wanted["max_error"] >= 1:
            raise _no_share(given["max_error"])
        if given["precision"] not in (None, "f32") or given["weights"] is not None:
            raise Error(
                "max_error chooses the types, which precision and weights name",
                notes=['help: leave these out; precision="f32" is allowed, and only weights get other types'],
            )
    if given["keep_f32"] and (given["precision"] is None or in_integers):
        raise Error("keep_f32 is for half precision", notes=['help: precision="f16"'])
    narrows = given["weights"] is not None
    learns = narrows or "quantize_values" in given["passes"]
    if given["calibration"] and given["precision"] is None and not chooses and not learns:
        raise Error(
            "calibration is for precision, max_error and weights",
            notes=['help: precision="int8", or weights="int4"'],
        )
    if (chooses or given["calibration"]) and (runner := _runner()) is not None:
        wanted["runner"] = runner
    if given["keep_f32"]:
        wanted["request.options"].append(("cast_to_half.keep", ",".join(_names("keep_f32", given["keep_f32"]))))
    if narrows:
        one_of("weights", given["weights"], ("int8", "uint8", "int4", "uint4", "f16", "bf16"))
        wanted["request.passes"] = [*wanted["request.passes"], "quantize_weights"]
        wanted["request.options"].append(("quantize_weights.type", given["weights"]))
    rtol, atol = (_tolerance(name, given[name]) for name in ("rtol", "atol"))
    return wanted if rtol is None and atol is None else wanted | {"tolerance": (rtol or 0.0, atol or 0.0)}


def optimize_bytes(data: bytes, folder: str, request) -> bytes:
    """Optimizes a model's bytes. External weights are in `folder`; the result contains them."""
    data, numbers = native.optimize_bytes(data, folder, request)
    reports.finished(reports.of_optimization("model", numbers))
    return data


def _verify(how: str | bool) -> str:
    how = "model" if how is True else "off" if how is False else how
    one_of("verify", how, ("off", "model", "pass"))
    return how


def _runs(given: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """The inputs of each run, as native code takes them."""
    if given is not None and (isinstance(given, Mapping) or not all(isinstance(run, Mapping) for run in given)):
        raise WrongType(
            "calibration is a list of runs, each a mapping of inputs to arrays", notes=['help: [{"x": array}]']
        )
    return [{str(name): _to_native(value) for name, value in run.items()} for run in given or ()]


def _share(given: float | str | None) -> float:
    if given is None:
        return 0.0
    try:
        share = float(given[:-1]) / 100 if isinstance(given, str) and given.endswith("%") else float(given)
    except (TypeError, ValueError):
        share = 0.0
    if not 0 < share < math.inf:
        raise _no_share(given)
    return share


def _no_share(given: object) -> Error:
    return Error(f"max_error={given!r} is not a share between 0 and 1", notes=['help: 0.01, or "1%"'])


def _metric(given: Callable[[list, list], float]) -> Callable[[list, list], float]:
    """The error of results as native code has them."""
    if not callable(given):
        raise WrongType(f"metric is a function of results before and after, not {given!r:.200}")
    return lambda before, after: float(given(*([_from_native(v) for v in results] for results in (before, after))))


def _runner() -> Callable[[bytes], Callable[[list], list]] | None:
    """How native code runs models on the inputs of `calibration`: in onnxruntime, where that is installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None

    def prepare(data: bytes) -> Callable[[list], list]:
        session = Session(data)
        names = [i.name for i in session.inputs]

        def run(values: list) -> list:
            feeds = {name: _from_native(v) for name, v in zip(names, values, strict=True) if v is not None}
            return [_to_native(v) for v in session.run(feeds)]

        return run

    return prepare


def _pipeline(option: str, passes) -> tuple[list[str], list[tuple[str, str]]]:
    """Names of passes and their options, from a list or a file."""
    return native.read_pipeline(passes) if isinstance(passes, str) else (_names(option, passes), [])


def _names(option: str, names) -> list[str]:
    if isinstance(names, str):
        return [n.strip() for n in names.split(",") if n.strip()]
    if not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise Error(f"{option} must be a name or a list of names, found {names!r}")
    return list(names)


def _tolerance(name: str, value) -> float | None:
    if value is not None and not float(value) >= 0:
        raise Error(f"{name}={value!r} is not a tolerance", notes=["expected a number from 0"])
    return None if value is None else float(value)


def _option(name: str, value) -> tuple[str, str]:
    """An option of a pass as native code reads it."""
    if name.endswith(".ranges") and isinstance(value, Mapping):  # of values by name: (lowest, highest[, least])
        return name, "".join(_range(of, *ends) for of, ends in value.items())
    return name, _text(value)


def _range(name: str, low: float, high: float, least: float = 0) -> str:
    return f"{float(low)!r} {float(high)!r}{f'/{float(least)!r}' if least else ''} {name}\n"


def _text(value) -> str:
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(map(_text, value))
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


_AS_NATIVE: dict[str, Callable[[Any], Any]] = {
    "passes": lambda given: [],  # request() sets them, with the options of a file
    "skip": lambda given: _names("skip", given),
    "options": lambda given: [(str(k), _text(v)) for k, v in (given or {}).items()],
    "input_shapes": shapes,
    "calibration": _runs,
    "max_error": _share,
    "inputs": lambda given: _names("inputs", given),
    "outputs": lambda given: _names("outputs", given),
    "opset": lambda given: 0 if given is None else int(given) or -1,
    "fold_budget": int,
    "verify": _verify,
}
