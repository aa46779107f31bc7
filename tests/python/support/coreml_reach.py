"""What converts to Core ML: the onnx package's tests of single operators, and the rows of the sweep over JAX,
each converted, run on the evaluator and compared."""

from __future__ import annotations

import collections
import functools
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import sardonyx
from onnx import TensorProto, numpy_helper

TARGETS = ("iOS15", "iOS16", "iOS17", "iOS18")
NEWEST = TARGETS[-1]

# Element types that Core ML has, or that an integer or float of 32 bits stands for.
TYPES = {
    TensorProto.FLOAT16: "f16",
    TensorProto.FLOAT: "f32",
    TensorProto.DOUBLE: "f64",
    TensorProto.INT8: "i8",
    TensorProto.INT16: "i16",
    TensorProto.INT32: "i32",
    TensorProto.INT64: "i64",
    TensorProto.UINT8: "u8",
    TensorProto.UINT16: "u16",
    TensorProto.UINT32: "u32",
    TensorProto.UINT64: "u64",
    TensorProto.BOOL: "bool",
}

# Operands that are parameters rather than data: shapes, axes, counts, weights. The onnx package's tests pass them
# as inputs; models have them as constants, and so must many of Core ML's ops.
PARAMETERS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BatchNormalization": (1, 2, 3, 4),
    "CenterCropPad": (1,),
    "Clip": (1, 2),
    "Col2Im": (1, 2),
    "Conv": (1, 2),
    "ConvInteger": (1, 2, 3),
    "ConvTranspose": (1, 2),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "DeformConv": (1, 3),
    "Dropout": (1, 2),
    "Expand": (1,),
    "GRU": (1, 2, 3, 4),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LSTM": (1, 2, 3, 4, 7),
    "LayerNormalization": (1, 2),
    "MatMulInteger": (1, 2, 3),
    "MaxUnpool": (2,),
    "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1, 2),
    "PRelu": (1,),
    "Pad": (1, 2, 3),
    "QLinearConv": (1, 2, 3, 4, 5, 6, 7, 8),
    "QLinearMatMul": (1, 2, 3, 4, 5, 6, 7),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "RMSNormalization": (1,),
    "RNN": (1, 2, 3, 4),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
PARAMETERS |= {
    f"Reduce{kind}": (1,)
    for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
}


# Tolerances as a share of the largest result, beside those of the tests: sums and products round in another order.
APART = {np.dtype(np.float16): 4e-3, np.dtype(np.float32): 4e-6, np.dtype(np.float64): 4e-6}


@dataclass(frozen=True)
class Test:
    """One of the onnx package's tests of single operators."""

    name: str
    op: str  # the operator tested, also where the model is its function body
    model: onnx.ModelProto
    inputs: tuple[np.ndarray, ...]
    results: tuple[np.ndarray, ...]
    rtol: float
    atol: float

    @property
    def type(self) -> str:
        """The element type of the first input."""
        ports = self.model.graph.input or self.model.graph.output
        return TYPES[ports[0].type.tensor_type.elem_type]


@dataclass(frozen=True)
class Outcome:
    kind: str  # right, refused, wrong
    reason: str = ""


def _plain(model: onnx.ModelProto) -> bool:
    """Whether all inputs and results are tensors of element types that Core ML has."""
    for port in (*model.graph.input, *model.graph.output):
        if not port.type.HasField("tensor_type") or port.type.tensor_type.elem_type not in TYPES:
            return False
    return True


def _array(x) -> np.ndarray:
    return numpy_helper.to_array(x) if isinstance(x, TensorProto) else np.asarray(x)


@functools.cache
def node_tests() -> tuple[list[Test], int]:
    """The tests whose element types Core ML has, and the number of all."""
    from onnx.backend.test.loader import load_model_tests

    tests, everything = [], 0
    operators: dict[str, str] = {}
    cases = load_model_tests(kind="node")
    for case in sorted(cases, key=lambda c: len(c.name)):
        everything += 1
        model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
        nodes = model.graph.node
        base = case.name.partition("_expanded")[0]
        op = nodes[0].op_type if len(nodes) == 1 else operators.get(base, nodes[-1].op_type)
        operators.setdefault(case.name, op)
        if not case.data_sets or not _plain(model):
            continue
        inputs, results = ([_array(x) for x in given] for given in case.data_sets[0])
        tests.append(Test(case.name, op, model, tuple(inputs), tuple(results), case.rtol, case.atol))
    return sorted(tests, key=lambda t: t.name), everything


def with_constants(test: Test) -> tuple[onnx.ModelProto, list[np.ndarray]] | None:
    """The test with its parameters as constants, and the other inputs. None if there are no parameters."""
    slots = PARAMETERS.get(test.op, ())
    names = [p.name for p in test.model.graph.input]
    nodes = test.model.graph.node
    if len(nodes) == 1:
        chosen = {nodes[0].input[i] for i in slots if i < len(nodes[0].input)}
    else:
        chosen = {names[i] for i in slots if i < len(names)}
    chosen &= set(names)
    if not chosen or len(chosen) == len(names):
        return None
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    del model.graph.input[:]
    left = []
    for port, x in zip(test.model.graph.input, test.inputs, strict=True):
        if port.name in chosen:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(x), port.name))
        else:
            model.graph.input.append(port)
            left.append(x)
    return model, left


def with_open_sizes(test: Test) -> onnx.ModelProto | None:
    """The test with a name for each size of its inputs. Equal sizes have equal names."""
    made = with_constants(test)
    model = onnx.ModelProto()
    model.CopyFrom(made[0] if made else test.model)
    opened = False
    for port in model.graph.input:
        for dim in port.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and dim.dim_value > 1:
                dim.dim_param, opened = f"size_{dim.dim_value}", True
    for port in model.graph.output:
        port.type.tensor_type.ClearField("shape")
    return model if opened else None


def _reason(error: Exception) -> str:
    """Why a model was refused, without names and numbers."""
    text = str(error)
    notes = [line.strip() for line in text.splitlines()[1:] if line.strip()]
    lines = notes if text.startswith(("cannot convert", "error: cannot convert")) and notes else [text.splitlines()[0]]
    what = re.sub(r" of [^:]*->[^:]*(?=: )", "", lines[0])
    what = re.sub(r"^(note: )?", "", what)
    what = re.sub(r"'[^']*'", "'...'", what)
    return re.sub(r"\b\d+\b", "N", what)[:150]


def _same(found: np.ndarray, wanted: np.ndarray, rtol: float, atol: float) -> bool:
    wanted = np.asarray(wanted)
    if wanted.dtype == np.uint32:
        wanted = wanted.astype(np.int32)  # the same bits, as the program holds them
    if wanted.dtype in APART:
        finite = np.abs(wanted[np.isfinite(wanted)].astype(np.float64))
        atol = max(atol, APART[wanted.dtype] * finite.max(initial=0))
    if tuple(found.shape) != tuple(wanted.shape):
        return False
    if wanted.dtype.kind in "iub":
        return bool((found.astype(np.float64) == wanted.astype(np.float64)).all())
    return np.allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True)


def _given(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    kind = x.dtype.kind
    if kind in "iu":
        return x.astype(np.int64).astype(np.int32)
    if kind == "b" or x.dtype == np.float64:
        return x.astype(np.float32)
    return x


def _bounds(model: onnx.ModelProto, inputs) -> dict[str, tuple[None, int]]:
    """Upper bounds of named sizes beyond 4096, where a range without one ends."""
    sizes = {}
    for port, x in zip(model.graph.input, inputs, strict=False):
        for dim, size in zip(port.type.tensor_type.shape.dim, np.shape(x), strict=False):
            if dim.dim_param and size > 4096:
                sizes[dim.dim_param] = size
    return {name: (None, size) for name, size in sizes.items()}


def run(model: onnx.ModelProto, inputs, results, target: str, rtol: float, atol: float) -> Outcome:
    """Converts the model for `target` and compares its results on the evaluator with those wanted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = sardonyx.to_coreml(model, target=target, precision="f32", sizes=_bounds(model, inputs))
        except sardonyx.Error as error:
            if "internal" in str(error):
                return Outcome("wrong", str(error).splitlines()[0][:200])
            return Outcome("refused", _reason(error))
        feeds = [_given(x) for x in inputs]
        if target == "iOS15":
            feeds = [x.astype(np.float32) if x.dtype == np.float16 else x for x in feeds]
        feeds = [x.reshape(1) if x.ndim == 0 else x for x in feeds]
        try:
            found = list(program.run(feeds).values())
        except sardonyx.Error as error:
            return Outcome("wrong", f"does not run: {str(error).splitlines()[0][:150]}")
    for y, wanted in zip(found, results, strict=True):
        if not _same(np.asarray(y), wanted, rtol, atol):
            return Outcome("wrong", "another result")
    return Outcome("right")


def outcome(test: Test, target: str) -> tuple[Outcome, bool]:
    """The outcome, and whether the parameters had to be constants."""
    first = run(test.model, test.inputs, test.results, target, test.rtol, test.atol)
    if first.kind != "refused":
        return first, False
    made = with_constants(test)
    if made is None:
        return first, False
    return run(*made, test.results, target, test.rtol, test.atol), True


def outcome_of_open_sizes(test: Test, target: str) -> Outcome | None:
    """The outcome with open sizes. None if the test has no size to open."""
    model = with_open_sizes(test)
    if model is None:
        return None
    made = with_constants(test)
    return run(model, made[1] if made else test.inputs, test.results, target, test.rtol, test.atol)


# ---- the sweep over JAX ----------------------------------------------------------------------------------------------


HALF_TOLERANCE = 0.02  # of the largest number of a result, as `sardonyx compare` has it


def _to_half(x) -> np.ndarray:
    """Numbers that half precision holds, for a comparison that ends where its range does."""
    x = np.asarray(x)
    return x.astype(np.float16).astype(np.float32) if x.dtype == np.float32 else x


def sweep_outcome(case, target: str = NEWEST, precision: str = "f32") -> Outcome | None:
    """A row of the sweep at two sizes, beside JAX. None where Core ML lacks its element types. In half precision both are given
    numbers that it holds."""
    import jax
    import jax.numpy as jnp
    from judge import TOLERANCE

    kinds = {np.dtype(a.dtype) for a in case.inputs}
    known = {np.dtype(t) for t in (np.float16, np.float32, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32)}
    if case.x64 or not kinds <= known | {np.dtype(np.bool_)}:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = sardonyx.to_coreml(case.fn, case.specs(), target=target, precision=precision)
        except sardonyx.Error as error:
            if "internal" in str(error):
                return Outcome("wrong", str(error).splitlines()[0][:200])
            return Outcome("refused", _reason(error))
        for sizes in case.sizes()[:2]:
            inputs = [_to_half(x) if precision == "f16" else x for x in case.sample(sizes)]
            values = [jnp.asarray(x) for x in inputs]
            try:
                wanted = jax.jit(case.fn)(*values)
            except jax.errors.ConcretizationTypeError:
                wanted = case.fn(*values)
            wanted = [np.asarray(y) for y in jax.tree.leaves(wanted)]
            if any(y.dtype.kind == "c" for y in wanted):
                return None
            try:
                found = list(program.run([x.reshape(1) if x.ndim == 0 else x for x in map(_given, inputs)]).values())
            except sardonyx.Error as error:
                return Outcome("wrong", f"does not run: {str(error).splitlines()[0][:150]}")
            for y, w in zip(found, wanted, strict=True):
                tolerance = (
                    HALF_TOLERANCE if precision == "f16" else max(case.tolerance or 0, TOLERANCE.get(w.dtype, 0))
                )
                w = w.astype(np.float32) if w.dtype == jnp.bfloat16 else w
                finite = np.abs(w[np.isfinite(w)].astype(np.float64)) if w.dtype.kind == "f" else np.zeros(0)
                if not _same(np.asarray(y), w, 0, tolerance * finite.max(initial=1e-30)):
                    lost = w.dtype.kind == "f" and not np.isfinite(np.asarray(y)[np.isfinite(w)]).all()
                    return Outcome("wrong", f"{'not finite' if lost else 'another result'} at {sizes}")
    return Outcome("right")


# ---- the page --------------------------------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[3] / "docs" / "generated" / "coreml_reach.md"


def counted(outcomes) -> collections.Counter:
    return collections.Counter(o.kind for o in outcomes)


def share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)"


def _cells(outcomes: list[tuple[Outcome, bool]]) -> str:
    """ "7 of 9": as given; "7 + 1 of 9": one more with its parameters as constants."""
    right = sum(o.kind == "right" and not constant for o, constant in outcomes)
    more = sum(o.kind == "right" and constant for o, constant in outcomes)
    return f"{right}{f' + {more}' if more else ''}"


def onnx_tables() -> tuple[dict, dict]:
    """(target -> test -> (outcome, constant), test -> outcome with open sizes), over all node tests."""
    tests, _ = node_tests()
    by_target = {target: {t.name: outcome(t, target) for t in tests} for target in TARGETS}
    return by_target, {t.name: outcome_of_open_sizes(t, NEWEST) for t in tests}


def sweep_rows(share_of_rows: float = 1, seed: int = 7, precision: str = "f32") -> dict[str, Outcome | None]:
    import importlib
    import pkgutil
    import random

    import jax
    import sweep

    rng = random.Random(seed)
    found = {}
    for _, module, _ in pkgutil.iter_modules(sweep.__path__):
        if not module.startswith("functions_"):
            continue
        for case in importlib.import_module(f"sweep.{module}").ROWS:
            if rng.random() >= share_of_rows:
                continue
            found[f"{module.removeprefix('functions_')}: {case.name}"] = sweep_outcome(case, precision=precision)
            if len(found) % 100 == 0:
                jax.clear_caches()
    return found


def _refusals(outcomes: dict[str, Outcome], op_of) -> list[str]:
    counts: collections.Counter = collections.Counter()
    for name, o in outcomes.items():
        if o.kind == "refused":
            counts[op_of(name), o.reason] += 1
    return [f"| {op} | {n} | {reason} |" for (op, reason), n in sorted(counts.items(), key=lambda i: (-i[1], i[0]))]


def page(jax_text: str) -> str:
    tests, everything = node_tests()
    by_target, open_sizes = onnx_tables()
    opened = {n: o for n, o in open_sizes.items() if o is not None}
    lines = [
        "# What converts to Core ML",
        "",
        "`scripts/pages/coreml_reach_page.py` writes this page; a test recomputes its figures for iOS 18.",
        "",
        "## ONNX operators",
        "",
        f"The `onnx` package has {everything:,} tests of single operators; {len(tests):,} of them have element types that Core ML has (no",
        "strings, bf16, narrow floats, 4-bit integers, sequences). Each is converted in single precision, runs on the evaluator,",
        "and is compared with the results that the package states.",
        "",
        "| Target | right as given | right with parameters as constants | together | refused | wrong |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for target, outcomes in by_target.items():
        found = list(outcomes.values())
        counts = counted(o for o, _ in found)
        given = sum(o.kind == "right" and not constant for o, constant in found)
        lines.append(
            f"| {target} | {given} | {counts['right'] - given} | {share(counts['right'], len(tests))} | {counts['refused']} | {counts['wrong']} |"
        )
    counts = counted(opened.values())
    lines += [
        "",
        f"With a name in place of each size of the inputs, {share(counts['right'], len(opened))} of {len(opened):,} are right for {NEWEST},",
        f"{counts['refused']} are refused and {counts['wrong']} are wrong.",
        "",
        "The tests pass shapes, axes and weights as inputs. Where Core ML wants constants, such a test is converted with these",
        "operands as constants, as models have them: `7 + 2` counts seven tests as given and two more in this way.",
        "",
        "| Operator | Tests | " + " | ".join(TARGETS) + " | open sizes | element types |",
        "|---|--:|" + "--:|" * (len(TARGETS) + 1) + "---|",
    ]
    by_op = collections.defaultdict(list)
    for t in tests:
        by_op[t.op].append(t)
    alike = []
    for op, of_op in sorted(by_op.items()):
        cells = [_cells([by_target[target][t.name] for t in of_op]) for target in TARGETS]
        free = [opened[t.name] for t in of_op if t.name in opened]
        right = sum(o.kind == "right" for o in free)
        types = sorted(
            {t.type for t in of_op if by_target[NEWEST][t.name][0].kind == "right"}, key=list(TYPES.values()).index
        )
        if set(cells) == {str(len(of_op))} and right == len(free):
            alike.append(f"{op} {len(of_op)} ({', '.join(types)})")
            continue
        lines.append(
            f"| {op} | {len(of_op)} | {' | '.join(cells)} | {f'{right} of {len(free)}' if free else ''} | {', '.join(types)} |"
        )
    lines += ["", f"All tests are right for every target, as given and with open sizes: {'; '.join(alike)}."]
    op_of = {t.name: t.op for t in tests}
    lines += ["", f"### Refused for {NEWEST}", "", "| Operator | Tests | Reason |", "|---|--:|---|"]
    lines += _refusals({n: o for n, (o, _) in by_target[NEWEST].items()}, op_of.__getitem__)
    return "\n".join(lines) + "\n" + jax_text


JAX_HEADING = "## JAX functions"


# Rows that are further off in half precision, and why.
FAR_IN_HALF = {
    "special: dawsn": "2.5 % of the largest result, by polynomials of high degree",
}


def _in_half(half: dict[str, Outcome | None]) -> list[str]:
    known = {n: o for n, o in half.items() if o is not None}
    counts = counted(known.values())
    wrong = [n for n, o in known.items() if o.kind == "wrong"]
    listed = "; ".join(f"{n} ({FAR_IN_HALF.get(n, known[n].reason)})" for n in wrong)
    return [
        f"In half precision, the default, and given numbers that it holds, {share(counts['right'], len(known))} are finite where JAX's results are and within",
        f"{HALF_TOLERANCE:.0%} of the largest; integers and booleans are equal. {counts['refused']} are refused. Further off: {listed or 'none'}.",
    ]


def jax_section(sweep: dict[str, Outcome | None], half: dict[str, Outcome | None], *, drawn: bool = True) -> str:
    """`sweep` and `half`: the rows in both precisions. `drawn`: they are a part of all."""
    known = {n: o for n, o in sweep.items() if o is not None}
    counts = counted(known.values())
    lines = [
        JAX_HEADING,
        "",
        "The rows of `tests/python/support/sweep` call each public function of JAX and its libraries. Of "
        + (f"{len(sweep):,} rows drawn by a fixed seed," if drawn else f"all {len(sweep):,} rows,"),
        f"{len(known):,} have element types that Core ML has. For {NEWEST}, {share(counts['right'], len(known))} are right at two sizes each, within the sweep's tolerances;",
        f"{counts['refused']} are refused and {counts['wrong']} are wrong.",
        "",
        *_in_half(half),
        "",
        "| Rows of | right | refused | wrong |",
        "|---|--:|--:|--:|",
    ]
    for table in sorted({n.partition(":")[0] for n in known}):
        c = counted(o for n, o in known.items() if n.partition(":")[0] == table)
        lines.append(f"| {table} | {c['right']} | {c['refused']} | {c['wrong']} |")
    lines += ["", "| Rows | Reason of the refusal |", "|--:|---|"]
    reasons = collections.Counter(o.reason for o in known.values() if o.kind == "refused")
    lines += [f"| {n} | {reason} |" for reason, n in sorted(reasons.items(), key=lambda i: (-i[1], i[0]))]
    return "\n".join(lines) + "\n"
