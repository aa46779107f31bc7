"""`sardonyx.optimize`: a thin front for the native passes."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from sardonyx import _sardonyx as native
from sardonyx import report as reports
from sardonyx._error import Error
from sardonyx._models.sources import bytes_of
from sardonyx._progress import shown
from sardonyx._require import known_keywords, one_of, require


@known_keywords
def optimize(
    model: Any,
    output_path: str | os.PathLike | None = None,
    *,
    passes: str | Sequence[str] = "onnx",
    skip: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    opset: int | None = None,
    fold_budget: int = 0,
    prune_inputs: bool = False,
    keep_names: bool = False,
    allow_empty: bool = False,
    inline: bool = False,
    strict: bool = False,
    verify: Literal["off", "model", "pass"] | bool = "off",
    rtol: float | None = None,
    atol: float | None = None,
    count_savings: bool = False,
    progress: bool | Callable[[str, int, int], Any] = False,
    return_report: bool = False,
) -> Any:
    """Make an ONNX model smaller and faster, with the same results.

    Args:
        model: A path, an `onnx.ModelProto`, its bytes, a file that is open for bytes, a `sardonyx.ir.Model`,
            an `onnx_ir.Model`, or the `ONNXProgram` that `torch.onnx.export` returns. It is not changed.
        output_path: Where to write the result. From a path as `model`, weights stream from file to file.
        passes: A preset ("onnx", the default; "onnx-spec"; "none"), the name of a pass, a list of these, or a
            file with one a line ("pass.option=value" sets an option).
        skip: Passes to skip, or single rules: "pass/rule".
        options: Options of single passes: `{"legalize.target": "ort-1.23"}`.
        input_shapes: New shapes of inputs: `{"x": (1, 3, 224, 224)}`. A string is a named size.
        inputs, outputs: Names of values that become the inputs and results: only the part between them is kept.
            None keeps the model's own.
        opset: The opset to convert the model to first: newer (fusions may use its operators: Gelu since 20,
            Attention since 23) or older. `None` keeps the model's. Raises when that opset cannot express a
            node.
        fold_budget: Bytes by which folding may grow the model. 0: 4 KiB for each removed node, 1 % in all.
        prune_inputs: Drop unused inputs.
        keep_names: Keep a name only where it means the same elements: changed weights get new names.
            Otherwise they keep theirs.
        inline: Inline calls of model-local functions.
        allow_empty: Allow named input sizes to be zero. Otherwise passes assume that they are at least one.
        strict: Raise when a pass fails. Otherwise it is skipped and reported.
        verify: Evaluate before and after on random inputs. "model", or True: end to end, a difference raises. "pass":
            each rewrite; one that would change results is undone, its rule is disabled, and `faults` in the
            report names it, and the whole is compared as well.
        rtol, atol: For `verify`: compare floats by |a - b| <= atol + rtol |a| instead.
        count_savings: Count what each pass saved (nodes, bytes of constants, arithmetic), for the report. Costs about a
            tenth of the time.
        progress: True shows a bar: tqdm's where it is installed, else a line of text. A function is called with what is
            done next, how many steps are done, and of how many.
        return_report: Return (model, report): the report has the figures of what each pass did.

    Returns:
        `output_path` if given; otherwise the same type as `model` (an `onnx.ModelProto` for a path, a file or
        an `ONNXProgram`).

    Raises:
        sardonyx.Error: damaged models, unknown passes and options. No partial file remains.
    """
    wanted = request(
        passes=passes,
        skip=skip,
        options=options,
        input_shapes=input_shapes,
        inputs=inputs,
        outputs=outputs,
        opset=opset,
        fold_budget=fold_budget,
        prune_inputs=prune_inputs,
        keep_names=keep_names,
        allow_empty=allow_empty,
        inline=inline,
        strict=strict,
        verify=verify,
        rtol=rtol,
        atol=atol,
        count_savings=count_savings,
    )
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


def request(
    *,
    passes="onnx",
    skip=(),
    options=None,
    input_shapes=None,
    inputs=(),
    outputs=(),
    opset=None,
    verify="off",
    rtol=None,
    atol=None,
    fold_budget=0,
    **flags,
) -> dict[str, Any]:
    """The keywords of `optimize` as native code reads them."""
    verify = "model" if verify is True else "off" if verify is False else verify
    one_of("verify", verify, ("off", "model", "pass"))
    names, of_file = _pipeline("passes", passes)
    return _request(
        passes=names,
        skip=_names("skip", skip),
        options=[*of_file, *((str(k), _text(v)) for k, v in (options or {}).items())],
        input_shapes=[f"{name}:{','.join(map(str, shape))}" for name, shape in (input_shapes or {}).items()],
        inputs=_names("inputs", inputs),
        outputs=_names("outputs", outputs),
        rtol=_tolerance("rtol", rtol),
        atol=_tolerance("atol", atol),
        opset=0 if opset is None else int(opset) or -1,
        fold_budget=int(fold_budget),
        verify=verify,
        **{name: bool(flag) for name, flag in flags.items()},
    )


def _request(**given) -> dict[str, Any]:
    """The options of a run for native code."""
    request: dict[str, Any] = {
        "passes": [],
        "skip": [],
        "options": [],
        "input_shapes": [],
        "inputs": [],
        "outputs": [],
        "rtol": None,
        "atol": None,
        "opset": 0,
        "fold_budget": 0,
        "verify": "off",
        "progress": None,
    }
    request |= dict.fromkeys(
        (
            "prune_inputs",
            "keep_names",
            "allow_empty",
            "inline",
            "strict",
            "link_weights",
            "count_savings",
            "declare_types",
        ),
        False,
    )
    assert given.keys() <= request.keys()
    return request | given


def optimize_bytes(data: bytes, folder: str, request) -> bytes:
    """Optimizes a model's bytes. External weights are in `folder`; the result contains them."""
    data, numbers = native.optimize_bytes(data, folder, request)
    reports.finished(reports.of_optimization("model", numbers))
    return data


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
    if name.endswith(".ranges") and isinstance(value, Mapping):  # of values by name: (lowest, highest)
        return name, "".join(f"{float(low)!r} {float(high)!r} {of}\n" for of, (low, high) in value.items())
    return name, _text(value)


def _text(value) -> str:
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(map(_text, value))
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
