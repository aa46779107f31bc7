"""The keywords of optimizations. Made by scripts/tables/keywords.py from src/convert/optimize_options.def."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict


class OptimizeOptions(TypedDict, total=False):
    passes: str | Sequence[str]
    """A preset ("onnx", the default; "onnx-spec"; "none"), the name of a pass, a list of these, or a file
    with one a line ("pass.option=value" sets an option)."""
    skip: Sequence[str]
    """Passes to skip, or single rules: "pass/rule"."""
    options: Mapping[str, Any] | None
    """Options of single passes: `{"legalize.target": "ort-1.23"}`."""
    input_shapes: Mapping[str, Sequence[int | str]] | None
    """New shapes of inputs: `{"x": (1, 3, 224, 224)}`. A string is a named size."""
    inputs: Sequence[str]
    """Names of values that become the inputs: only the part behind them is kept. None keeps the model's
    own."""
    outputs: Sequence[str]
    """The same of results: only the part before them is kept."""
    opset: int | None
    """The opset to convert the model to first: newer (fusions may use its operators: Gelu since 20,
    Attention since 23) or older. `None` keeps the model's. Raises when that opset cannot express a node."""
    precision: str | None
    """"f16": compute in half precision, and store weights in it, but for what that would make wrong. Inputs
    and results keep their types, calls of functions are inlined. The report counts what stayed, and why.
    "int8": compute with constant weights in integers of 8 bits, scaled by what values are in `calibration`;
    without it products alone, which each run scales by its data."""
    keep_f32: str | Sequence[str]
    """Names of nodes or values that stay in single precision."""
    calibration: Sequence[Mapping[str, Any]] | None
    """The inputs of runs, by name. For half precision: what overflows or vanishes there stays in single
    precision. For "int8": what chooses the scales of values. For `max_error`: where errors are measured.
    For `weights`: what products are rounded for, so that they change least; `max_error` uses half of
    several runs for that. onnxruntime runs the model where it is installed."""
    weights: Literal["int8", "uint8", "int4", "uint4", "f16", "bf16"] | None
    """Store weights as integers, from which DequantizeLinear makes floats again. int8 and uint8 have a
    scale for each channel, int4 and uint4 for each block of 32; signed ones have no zero points. 4 bits
    raise the opset to 21, 8 bits to 13 (of half precision to 19), if it is older. "f16" and "bf16" store
    them in half the bytes, for a Cast."""
    max_error: float | str | None
    """Choose the types of values and weights: the smallest model whose results stay within this error on
    the inputs of `calibration`, or on random ones, with a margin for others; or one with up to a tenth more
    bytes that takes at most 0.8 of the time. A share of the largest element of each result: 0.01 or "1%".
    With `precision="f32"` only weights get other types. onnxruntime runs the trials where it is installed,
    and tells the time."""
    metric: Callable[[list[Any], list[Any]], float] | None
    """Measures the error for `max_error`: a function of the results of a run before and after, lists of
    arrays, whose value may then be at most `max_error`, without a margin. None: the largest difference, as
    a share of the largest element."""
    fold_budget: int
    """Bytes by which folding may grow the model. 0: 4 KiB for each removed node, 1 % in all."""
    prune_inputs: bool
    """Drop unused inputs."""
    keep_names: bool
    """Keep a name only where it means the same elements: changed weights get new names. Otherwise they keep
    theirs."""
    allow_empty: bool
    """Allow named input sizes to be zero. Otherwise passes assume that they are at least one."""
    inline: bool
    """Inline calls of model-local functions."""
    strict: bool
    """Raise when a pass fails. Otherwise it is skipped and reported."""
    verify: Literal["off", "model", "pass"] | bool
    """Evaluate before and after on random inputs. "model", or True: end to end, a difference raises.
    "pass": each rewrite; one that would change results is undone, its rule is disabled, and `faults` in the
    report names it, and the whole is compared as well."""
    rtol: float | None
    """For `verify`: compare floats by |a - b| <= atol + rtol |a| instead."""
    atol: float | None
    """As rtol."""
    declare_types: bool
    """Write inferred types as value_info."""
    count_savings: bool
    """Count what each pass saved (nodes, bytes of constants, arithmetic), for the report. Costs about a
    tenth of the time."""


DEFAULTS: dict[str, Any] = {
    "passes": "onnx",
    "skip": (),
    "options": None,
    "input_shapes": None,
    "inputs": (),
    "outputs": (),
    "opset": None,
    "precision": None,
    "keep_f32": (),
    "calibration": None,
    "weights": None,
    "max_error": None,
    "metric": None,
    "fold_budget": 0,
    "prune_inputs": False,
    "keep_names": False,
    "allow_empty": False,
    "inline": False,
    "strict": False,
    "verify": "off",
    "rtol": None,
    "atol": None,
    "declare_types": False,
    "count_savings": False,
}
# The keyword of each field of the native options.
FIELDS = {
    "request.passes": "passes",
    "request.skip": "skip",
    "request.options": "options",
    "input_shapes": "input_shapes",
    "inputs": "inputs",
    "outputs": "outputs",
    "opset": "opset",
    "calibrate": "calibration",
    "max_error": "max_error",
    "request.fold_budget": "fold_budget",
    "request.prune_inputs": "prune_inputs",
    "keep_names": "keep_names",
    "request.allow_empty": "allow_empty",
    "request.inline_functions": "inline",
    "request.strict": "strict",
    "request.verify": "verify",
    "declare_types": "declare_types",
    "count_savings": "count_savings",
}
DOC = """\
        passes: A preset ("onnx", the default; "onnx-spec"; "none"), the name of a pass, a list of these, or
            a file with one a line ("pass.option=value" sets an option).
        skip: Passes to skip, or single rules: "pass/rule".
        options: Options of single passes: `{"legalize.target": "ort-1.23"}`.
        input_shapes: New shapes of inputs: `{"x": (1, 3, 224, 224)}`. A string is a named size.
        inputs: Names of values that become the inputs: only the part behind them is kept. None keeps the
            model's own.
        outputs: The same of results: only the part before them is kept.
        opset: The opset to convert the model to first: newer (fusions may use its operators: Gelu since 20,
            Attention since 23) or older. `None` keeps the model's. Raises when that opset cannot express a
            node.
        precision: "f16": compute in half precision, and store weights in it, but for what that would make
            wrong. Inputs and results keep their types, calls of functions are inlined. The report counts
            what stayed, and why. "int8": compute with constant weights in integers of 8 bits, scaled by
            what values are in `calibration`; without it products alone, which each run scales by its data.
        keep_f32: Names of nodes or values that stay in single precision.
        calibration: The inputs of runs, by name. For half precision: what overflows or vanishes there stays
            in single precision. For "int8": what chooses the scales of values. For `max_error`: where
            errors are measured. For `weights`: what products are rounded for, so that they change least;
            `max_error` uses half of several runs for that. onnxruntime runs the model where it is
            installed.
        weights: Store weights as integers, from which DequantizeLinear makes floats again. int8 and uint8
            have a scale for each channel, int4 and uint4 for each block of 32; signed ones have no zero
            points. 4 bits raise the opset to 21, 8 bits to 13 (of half precision to 19), if it is older.
            "f16" and "bf16" store them in half the bytes, for a Cast.
        max_error: Choose the types of values and weights: the smallest model whose results stay within this
            error on the inputs of `calibration`, or on random ones, with a margin for others; or one with
            up to a tenth more bytes that takes at most 0.8 of the time. A share of the largest element of
            each result: 0.01 or "1%". With `precision="f32"` only weights get other types. onnxruntime runs
            the trials where it is installed, and tells the time.
        metric: Measures the error for `max_error`: a function of the results of a run before and after,
            lists of arrays, whose value may then be at most `max_error`, without a margin. None: the
            largest difference, as a share of the largest element.
        fold_budget: Bytes by which folding may grow the model. 0: 4 KiB for each removed node, 1 % in all.
        prune_inputs: Drop unused inputs.
        keep_names: Keep a name only where it means the same elements: changed weights get new names.
            Otherwise they keep theirs.
        allow_empty: Allow named input sizes to be zero. Otherwise passes assume that they are at least one.
        inline: Inline calls of model-local functions.
        strict: Raise when a pass fails. Otherwise it is skipped and reported.
        verify: Evaluate before and after on random inputs. "model", or True: end to end, a difference
            raises. "pass": each rewrite; one that would change results is undone, its rule is disabled, and
            `faults` in the report names it, and the whole is compared as well.
        rtol: For `verify`: compare floats by |a - b| <= atol + rtol |a| instead.
        atol: As rtol.
        declare_types: Write inferred types as value_info.
        count_savings: Count what each pass saved (nodes, bytes of constants, arithmetic), for the report.
            Costs about a tenth of the time.
"""
