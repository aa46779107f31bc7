"""The evaluator's trial: its functions against high-precision references, and each operator in each dtype
against onnxruntime."""

from __future__ import annotations

import collections
import functools
import re
from pathlib import Path

import ml_dtypes
import mpmath
import numpy as np
import onnx
import onnxruntime
import sardonyx
from onnx import TensorProto, helper

# ---- units in the last place -----------------------------------------------------------------------------------------

mpmath.mp.prec = 200
FLOATS = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
SAMPLES = 500


def softplus(x):
    return mpmath.log1p(mpmath.exp(x))


def sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


def attribute(value: float) -> mpmath.mpf:
    """Attributes are f32."""
    return mpmath.mpf(float(np.float32(value)))


SELU = attribute(1.67326319217681884765625), attribute(1.05070102214813232421875)

# Operator, and how it approximates -> the function, and the points at which it is tested.
FUNCTIONS: dict[str, tuple] = {
    "Exp": (mpmath.exp, (-80, 80)),
    "Log": (mpmath.log, (0, 1e4)),
    "Sin": (mpmath.sin, (-1e4, 1e4)),
    "Cos": (mpmath.cos, (-1e4, 1e4)),
    "Tan": (mpmath.tan, (-1e4, 1e4)),
    "Asin": (mpmath.asin, (-1, 1)),
    "Acos": (mpmath.acos, (-1, 1)),
    "Atan": (mpmath.atan, (-1e4, 1e4)),
    "Sinh": (mpmath.sinh, (-80, 80)),
    "Cosh": (mpmath.cosh, (-80, 80)),
    "Tanh": (mpmath.tanh, (-20, 20)),
    "Asinh": (mpmath.asinh, (-1e4, 1e4)),
    "Acosh": (mpmath.acosh, (1, 1e4)),
    "Atanh": (mpmath.atanh, (-1, 1)),
    "Erf": (mpmath.erf, (-6, 6)),
    "Sqrt": (mpmath.sqrt, (0, 6e4)),
    "Reciprocal": (lambda x: 1 / x, (-6e4, 6e4)),
    "Sigmoid": (sigmoid, (-80, 80)),
    "Softplus": (softplus, (-80, 80)),
    "Softsign": (lambda x: x / (1 + abs(x)), (-1e4, 1e4)),
    "Mish": (lambda x: x * mpmath.tanh(softplus(x)), (-80, 80)),
    "Elu": (lambda x: x if x > 0 else mpmath.expm1(x), (-80, 80)),
    "Selu": (lambda x: SELU[1] * (x if x > 0 else SELU[0] * mpmath.expm1(x)), (-80, 80)),
    "Celu": (lambda x: x if x > 0 else mpmath.expm1(x), (-80, 80)),
    "Gelu": (lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2, (-10, 10)),
    "Gelu tanh": (lambda x: x * sigmoid(2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf(0.044715) * x**3)), (-10, 10)),
    "Swish": (lambda x: x * sigmoid(x), (-80, 80)),
}


@functools.cache
def points(low: float, high: float, dtype: np.dtype) -> np.ndarray:
    """Random numbers between two bounds: half uniform, half uniform in the exponent."""
    rng = np.random.default_rng(17)
    even = rng.uniform(low, high, SAMPLES // 2)
    sizes = np.exp2(rng.uniform(-9, np.log2(max(abs(low), abs(high))), SAMPLES // 2))
    signs = np.where(rng.random(SAMPLES // 2) < 0.5, -1, 1) if low < 0 else np.ones(SAMPLES // 2)
    x = np.concatenate([even, np.clip(sizes * signs, low, high)]).astype(dtype)
    wide = x.astype(np.float64)
    return x[(wide > low) & (wide < high)]


def ulps(got: np.ndarray, want: list[mpmath.mpf], dtype: np.dtype) -> float:
    """The largest error in units in the last place of the expected values. Subnormal numbers count in units
    of the smallest."""
    info = ml_dtypes.finfo(dtype)
    smallest, bits = int(np.log2(float(info.smallest_normal))), info.nmant
    worst = 0.0
    for g, w in zip(got.astype(np.float64), want, strict=True):
        if abs(w) >= float(info.max) or w == 0:
            continue
        exponent = max(mpmath.frexp(w)[1] - 1, smallest)
        worst = max(worst, float(abs(mpmath.mpf(float(g)) - w) / mpmath.ldexp(1, exponent - bits)))
    return worst


def function_model(op: str, dtype: np.dtype) -> onnx.ModelProto:
    op, _, approximate = op.partition(" ")
    attributes = {"approximate": approximate} if approximate else {}
    t = helper.np_dtype_to_tensor_dtype(dtype)
    ports = [[helper.make_tensor_value_info(name, t, ["N"])] for name in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "g", *ports)
    version = max(s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == op and s.domain == "")
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", max(version, 22))], ir_version=10)


def on_onnxruntime(model: onnx.ModelProto, inputs: dict) -> list | None:
    """Results; None if onnxruntime has no kernel or refuses the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, inputs)
    except Exception:
        return None


def ulp_table() -> dict[str, dict[str, tuple[float, float | None]]]:
    """Operator -> type -> (the evaluator's, onnxruntime's) largest error in ulp. The second is None where there is no kernel."""
    table: dict[str, dict[str, tuple[float, float | None]]] = {}
    for op, (function, (low, high)) in FUNCTIONS.items():
        for name, dtype in FLOATS.items():
            x = points(low, high, dtype)
            want = [function(mpmath.mpf(float(v))) for v in x.astype(np.float64)]
            model = function_model(op, dtype)
            (ours,) = sardonyx.evaluate(model, {"x": x}).values()
            theirs = on_onnxruntime(model, {"x": x}) if name != "bf16" else None
            table.setdefault(op, {})[name] = (
                ulps(np.asarray(ours).view(dtype), want, dtype),
                ulps(theirs[0], want, dtype) if theirs else None,
            )
    return table


# ---- operators beside onnxruntime ------------------------------------------------------------------------------------

TYPES = {
    "f16": TensorProto.FLOAT16,
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
    "i8": TensorProto.INT8,
    "i16": TensorProto.INT16,
    "i32": TensorProto.INT32,
    "i64": TensorProto.INT64,
    "u8": TensorProto.UINT8,
    "u16": TensorProto.UINT16,
    "u32": TensorProto.UINT32,
    "u64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
}
# As the standard spells them in the constraints of its operators.
SPELLED = {
    f"tensor({TensorProto.DataType.Name(t).lower()})".replace("(float16", "(float16"): n for n, t in TYPES.items()
}
CASES = (
    3  # of the onnx package's node tests for each operator: their attributes and shapes are used, their values are not
)
# Tolerances, as a share of the largest magnitude. onnxruntime sums in the dtype itself.
APART = {"f16": 4e-3, "f32": 2e-5, "f64": 1e-12}
RANDOM = ("Random", "Bernoulli", "Multinomial", "Dropout")


def newest_opset() -> int:
    """The newest opset that onnxruntime loads."""
    for version in range(onnx.defs.onnx_opset_version(), 20, -1):
        node = helper.make_node("Identity", ["x"], ["y"])
        ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [1])] for n in "xy"]
        model = helper.make_model(
            helper.make_graph([node], "g", *ports), opset_imports=[helper.make_opsetid("", version)], ir_version=10
        )
        if on_onnxruntime(model, {"x": np.zeros(1, np.float32)}):
            return version
    raise AssertionError("onnxruntime loads nothing")


def as_type(x: np.ndarray, name: str, rng: np.random.Generator) -> np.ndarray:
    """Random numbers in the shape of x: of the same magnitude for floats, x's own values for indices and
    sizes."""
    dtype = helper.tensor_dtype_to_np_dtype(TYPES[name])
    if x.dtype.kind in "iub":
        return x.astype(dtype)
    scale = max(1.0, float(np.abs(x[np.isfinite(x)].astype(np.float64)).mean())) if x.size else 1.0
    made = np.asarray(rng.standard_normal(x.shape) * min(scale, 4))
    if x.size and float(np.nanmin(x.astype(np.float64))) >= 0:
        made = np.abs(made)  # if a test uses no negative numbers, they may be variances or probabilities
    if dtype.kind == "f":
        return made.astype(dtype)
    made = np.rint(made * 2)
    return (np.abs(made) if dtype.kind in "ub" else made).astype(dtype)


@functools.cache
def seeds() -> dict[str, list]:
    """The onnx package's tests of single nodes whose inputs and results are tensors of numbers, by operator."""
    from onnx.backend.test.loader import load_model_tests

    found: dict[str, list] = collections.defaultdict(list)
    for case in load_model_tests(kind="node"):
        model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
        graph, sets = model.graph, case.data_sets
        if not sets or len(graph.node) != 1 or graph.node[0].domain or graph.node[0].op_type.startswith(RANDOM):
            continue
        inputs = sets[0][0]
        plain = all(isinstance(x, np.ndarray) and x.dtype.kind in "fiub" for x in inputs)
        tensors = all(v.type.HasField("tensor_type") for v in (*graph.input, *graph.output))
        if plain and tensors and graph.input and len(found[graph.node[0].op_type]) < CASES:
            found[graph.node[0].op_type].append((case.name, model, inputs))
    return dict(found)


def retyped(model: onnx.ModelProto, opset: int):
    """(dtype, model, names of the inputs with that dtype) for each dtype of the operator's first type
    variable."""
    node = model.graph.node[0]
    version = min(opset, next(o.version for o in model.opset_import if o.domain == ""))
    try:
        schema = onnx.defs.get_schema(node.op_type, version, "")
    except onnx.defs.SchemaError:  # newer than what onnxruntime loads
        return

    def variables(formal, names):
        """Names of the values by the type variable of their slot. The last slot may be variadic."""
        slots = [*formal, *[formal[-1]] * max(0, len(names) - len(formal))]
        return {name: slot.type_str for name, slot in zip(names, slots, strict=False) if name}

    into, out = variables(schema.inputs, list(node.input)), variables(schema.outputs, list(node.output))
    first = into.get(node.input[0])
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}.get(first, ())
    for spelled in sorted(allowed):
        name = SPELLED.get(spelled)
        if name is None:
            continue
        made = onnx.ModelProto()
        made.CopyFrom(model)
        made.ir_version = 10
        del made.opset_import[:]
        made.opset_import.append(helper.make_opsetid("", version))
        for ports, kinds in ((made.graph.input, into), (made.graph.output, out)):
            for port in ports:
                if kinds.get(port.name) == first:
                    port.type.tensor_type.elem_type = TYPES[name]
        for port in made.graph.output:
            port.type.tensor_type.ClearField("shape")
        yield name, made, {n for n, kind in into.items() if kind == first}


def difference(ours: list, theirs: list) -> str | None:
    for a, b in zip(ours, theirs, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{a.dtype}{list(a.shape)}, onnxruntime has {b.dtype}{list(b.shape)}"
        if a.dtype.kind not in "f":
            if not (a == b).all():
                k = np.flatnonzero((a != b).ravel())[0]
                return f"{a.ravel()[k]}, onnxruntime has {b.ravel()[k]}"
            continue
        name = {2: "f16", 4: "f32", 8: "f64"}[a.dtype.itemsize]
        u, v = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
        finite = np.isfinite(u) & np.isfinite(v)
        largest = max(1.0, np.abs(u[finite]).max()) if finite.any() else 1.0
        with np.errstate(invalid="ignore"):
            off = np.where(finite, np.abs(u - v) > APART[name] * largest, ~((u == v) | (np.isnan(u) & np.isnan(v))))
        if off.any():
            k = np.flatnonzero(off)[0]
            return f"{u[k]:.6g}, onnxruntime has {v[k]:.6g}"
    return None


def beside_onnxruntime() -> dict[tuple[str, str], tuple[str, str]]:
    """(operator, dtype) -> (outcome, example). The outcome is same, different, or who refused."""
    opset = newest_opset()
    found: dict[tuple[str, str], tuple[str, str]] = {}
    order = ("refused by onnxruntime", "refused by both", "same", "refused by the evaluator", "different")
    for op, cases in sorted(seeds().items()):
        for case, model, inputs in cases:
            for name, made, which in retyped(model, opset):
                rng = np.random.default_rng(len(found))
                feeds = {
                    port.name: as_type(x, name, rng) if port.name in which else x
                    for port, x in zip(made.graph.input, inputs, strict=True)
                }
                theirs = on_onnxruntime(made, feeds)
                try:
                    ours = list(sardonyx.evaluate(made, feeds).values())
                    what = (None if theirs is None else difference(ours, theirs)) or ""
                    answer = "refused by onnxruntime" if theirs is None else "different" if what else "same"
                except sardonyx.Error as error:
                    answer, what = "refused by both" if theirs is None else "refused by the evaluator", str(error)
                now = (answer, re.sub(r"\s+", " ", f"{case}: {what}")[:160])
                before = found.get((op, name))
                if before is None or order.index(answer) > order.index(before[0]):
                    found[op, name] = now
    return found


# Differences, judged by the text of the standard. Other releases of onnxruntime may have other differences.
LISTED_FOR = ("1.31.1", "1.32.0")
DISAGREEMENTS = {
    (
        "DFT",
        ("f64",),
    ): "The evaluator: onnxruntime's factors are f32 here, and its results are 7e-8 off the transform in f64.",
    (
        "Gelu",
        ("f64",),
    ): "The evaluator: `approximate=tanh` has sqrt(2 / pi) of the operand's type, onnxruntime's is f32.",
    (
        "GroupNormalization",
        ("f64",),
    ): "onnxruntime, by the letter: `stash_type` is 1, so the first stage is f32. The evaluator stays in f64 on purpose: "
    "it is what a check of passes compares with.",
    (
        "MaxUnpool",
        ("f16", "f32"),
    ): "The evaluator: indices are those of the shape that kernel and strides give, before `output_shape` enlarges it; the "
    "standard's own test has these places.",
    (
        "ReduceLogSumExp",
        ("i32", "i64"),
    ): "The evaluator: the function body computes in f64 and casts its result, which truncates; onnxruntime takes the "
    "largest value out of the logarithm first and rounds what is left.",
    (
        "Pow",
        ("i32", "i64"),
    ): "Neither: powers beyond the greatest integer are not defined. onnxruntime 1.32 gives the least one, the evaluator the greatest, as 1.31.",
    ("Shrink", ("f64",)): "The evaluator: `x + bias` in f64; onnxruntime computes in f32.",
}


# Differences of only one of these releases.
ONLY_IN = {"Pow": "1.32.0", "ReduceLogSumExp": "1.31.1"}


def disagreements() -> set[tuple[str, str]]:
    return {(op, t) for op, types in DISAGREEMENTS for t in types if ONLY_IN.get(op) in (None, onnxruntime.__version__)}


# ---- the page --------------------------------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[3] / "docs" / "generated" / "evaluator_trial.md"


def page() -> str:
    found = beside_onnxruntime()
    counts = collections.Counter(answer for answer, _ in found.values())
    lines = [
        "# The evaluator's trial",
        "",
        "`scripts/pages/evaluator_page.py` writes this page; a test recomputes it.",
        "",
        "## Functions",
        "",
        f"The largest error in units of the last place over {SAMPLES} numbers of all magnitudes, against values of 200 bits: the evaluator's, then",
        f"that of onnxruntime {onnxruntime.__version__} where it has a kernel. Rounding once gives 0.5. Results that onnxruntime flushes to zero or",
        "computes as a difference are wrong in every digit, but their error is small beside the largest value.",
        "",
        "| Operator | " + " | ".join(FLOATS) + " |",
        "|---|" + "--:|" * len(FLOATS),
    ]
    for op, row in ulp_table().items():
        cells = [f"{ours:.2f}" + ("" if theirs is None else f" ({theirs:.2g})") for ours, theirs in row.values()]
        lines.append(f"| {op} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Operators beside onnxruntime",
        "",
        f"Each operator that the `onnx` package tests with tensors of numbers ({len({op for op, _ in found})} of them), in each dtype of its first operand,",
        f"with attributes and shapes of up to {CASES} of those tests and newly drawn numbers: {len(found)} pairs, of which {counts['same']} agree,",
        f"{counts['different']} differ, {counts['refused by onnxruntime']} have no kernel in onnxruntime and {counts['refused by both']} are refused by both. A difference is more than",
        ", ".join(f"{share:g} ({name})" for name, share in APART.items())
        + " of the largest magnitude, or any difference of integers.",
        "",
        "| Operator | Types | Who is right |",
        "|---|---|---|",
    ]
    lines += [f"| {op} | {', '.join(types)} | {verdict} |" for (op, types), verdict in DISAGREEMENTS.items()]
    none = sorted({op for op, _ in found if not any(found.get((op, t), ("",))[0] == "same" for t in TYPES)})
    lines += ["", f"No kernel in onnxruntime to compare with: {', '.join(none)}.", ""]
    return "\n".join(lines)
