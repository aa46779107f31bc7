"""Writes src/dialects/onnx/generated/wrong_kernels.gen.inc: integer kernels of onnxruntime's CPU provider that compute
wrong results, by release.

Every release runs models of one node on extreme integers (ends of the range, powers of two and their
neighbors, random bits). The results are compared with exact arithmetic modulo 2^bits. Unpack the wheels of
the releases first, as for gen_runtime_kernels.py:

    python scripts/tables/gen_wrong_kernels.py 1.17=ort-1.17 1.18=ort-1.18 ... > src/dialects/onnx/generated/wrong_kernels.gen.inc

Cases that the standard leaves undefined are not tried: division by zero and its overflow, shifts by the width
or more, conversions of floats out of range, averages that are not integers. Only text and facts are written;
nothing is copied from onnxruntime.
"""

import argparse
import datetime
import itertools
import json
import os
import subprocess
import sys

import numpy as np

INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
SIGNED, UNSIGNED = INTS[:4], INTS[4:]
NUMPY = {t: np.dtype(("int" if t[0] == "i" else "uint") + t[1:]) for t in INTS} | {
    "f32": np.dtype("float32"),
    "f64": np.dtype("float64"),
    "bool": np.dtype("bool"),
}
OPSETS = (13, 18, 20, 23)  # opsets in which kernels change; a release is tried with those it loads


def bits(t: str) -> int:
    return int(t[1:])


def wrapped(values, t: str) -> np.ndarray:
    """Exact integers modulo 2^bits, in that dtype."""
    n = bits(t)
    flat = np.array([int(v) % 2**n for v in np.asarray(values, dtype=object).ravel()], dtype=np.uint64)
    return flat.astype(f"uint{n}").view(NUMPY[t]).reshape(np.shape(values))


def extremes(t: str) -> np.ndarray:
    n = bits(t)
    low, high = (-(2 ** (n - 1)), 2 ** (n - 1) - 1) if t in SIGNED else (0, 2**n - 1)
    near = {0, 1, 2, 3, 7, low, low + 1, high, high - 1}
    for k in (7, 8, 15, 16, 24, 31, 32, 33, 52, 53, 54, 62, 63):
        near |= {s * 2**k + d for s in (1, -1) for d in (-1, 0, 1)}
    rng = np.random.default_rng(7)
    near |= {int(v) for v in rng.integers(low, high, 12, dtype=NUMPY[t], endpoint=True)}
    return np.array(sorted(v for v in near if low <= v <= high), dtype=NUMPY[t])


def exact(x: np.ndarray) -> np.ndarray:
    return np.array([int(v) for v in x.ravel()], dtype=object).reshape(x.shape)


def quotient(x: int, y: int) -> int:  # rounds toward zero
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def sign(x: int) -> int:
    return (x > 0) - (x < 0)


# ----------------------------------------------------------------------------------------------------------------------
# Cases: (operator, row of types, attributes, inputs by name, expected results; None: not compared)


def elementwise(t: str):
    x = extremes(t)
    unary = {
        "Abs": (abs, t),
        "Sign": (sign, t),
        "BitwiseNot": (lambda v: ~v, t),
        "Identity": (lambda v: v, t),
        "Relu": (lambda v: max(v, 0), t),
    }
    if t in SIGNED:
        unary["Neg"] = (lambda v: -v, t)
    for op, (f, out) in unary.items():
        # Single elements, and enough to fill vector registers.
        for data in (x, np.tile(x, 41)):
            yield op, t, {}, [data], [wrapped([f(int(v)) for v in data], out)]
    pairs = np.array(list(itertools.product(x, x)), dtype=NUMPY[t])
    a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
    low = int(np.iinfo(NUMPY[t]).min)
    divides = np.array([int(v) != 0 and not (t in SIGNED and int(u) == low and int(v) == -1) for u, v in pairs])
    shifts = np.array([0 <= int(v) < bits(t) for v in b])
    everywhere = np.ones(len(a), bool)
    binary = {
        "Add": (lambda u, v: u + v, {}, everywhere),
        "Sub": (lambda u, v: u - v, {}, everywhere),
        "Mul": (lambda u, v: u * v, {}, everywhere),
        "Div": (quotient, {}, divides),
        "Mod": (lambda u, v: u % v, {}, divides),
        "Mod fmod": (lambda u, v: u - v * quotient(u, v), {"fmod": 1}, divides),
        "Max": (max, {}, everywhere),
        "Min": (min, {}, everywhere),
        "BitwiseAnd": (lambda u, v: u & v, {}, everywhere),
        "BitwiseOr": (lambda u, v: u | v, {}, everywhere),
        "BitwiseXor": (lambda u, v: u ^ v, {}, everywhere),
        "BitShift left": (lambda u, v: u << v, {"direction": "LEFT"}, shifts),
        "BitShift right": (lambda u, v: u >> v, {"direction": "RIGHT"}, shifts),
    }
    compare = {
        "Equal": lambda u, v: u == v,
        "Less": lambda u, v: u < v,
        "LessOrEqual": lambda u, v: u <= v,
        "Greater": lambda u, v: u > v,
        "GreaterOrEqual": lambda u, v: u >= v,
    }
    for op, (f, attributes, asked) in binary.items():
        u, v = a[asked], b[asked]
        yield op, t, attributes, [u, v], [wrapped([f(int(p), int(q)) for p, q in zip(u, v, strict=True)], t)]
        for scalar in x[:: max(1, len(x) // 9)]:  # an operand of rank 0 takes another code path
            for left in (True, False):
                rest = x[[_asked(op, t, int(scalar) if left else int(e), int(e) if left else int(scalar)) for e in x]]
                if len(rest) == 0:
                    continue
                one = np.array(scalar)
                results = [f(int(scalar), int(e)) if left else f(int(e), int(scalar)) for e in rest]
                yield op, t, attributes, [one, rest] if left else [rest, one], [wrapped(results, t)]
    for op, f in compare.items():
        yield op, t, {}, [a, b], [np.array([f(int(p), int(q)) for p, q in zip(a, b, strict=True)])]
        for scalar in x[:: max(1, len(x) // 9)]:
            yield op, t, {}, [x, np.array(scalar)], [np.array([f(int(p), int(scalar)) for p in x])]
    small = np.array([2, 3, 5], dtype=NUMPY[t])
    powers = [(int(p), k) for p in x for k in (0, 1, 2, 3, 5) if low <= int(p) ** k <= int(np.iinfo(NUMPY[t]).max)]
    base, exponent = (np.array(c, dtype=NUMPY[t]) for c in zip(*powers, strict=True))
    yield "Pow", t, {}, [base, exponent], [wrapped([p**k for p, k in powers], t)]
    for k in small:
        fits = np.array([low <= int(p) ** int(k) <= int(np.iinfo(NUMPY[t]).max) for p in x])
        yield "Pow", t, {}, [x[fits], np.array(k)], [wrapped([int(p) ** int(k) for p in x[fits]], t)]
    condition = np.arange(len(a)) % 3 == 0
    yield "Where", t, {}, [condition, a, b], [np.where(condition, a, b)]
    yield "Where", t, {}, [condition, a, b[:1].reshape(())], [np.where(condition, a, b[0])]
    for lo, hi in itertools.product(x[::5], x[::5]):
        if lo <= hi:
            yield "Clip", t, {}, [x, np.array(lo), np.array(hi)], [np.clip(x, lo, hi)]
    for op, f in (("Sum", None), ("Max", max), ("Min", min)):
        rows = [a, b, a[::-1].copy()]
        columns = zip(*rows, strict=True)
        found = [sum(map(int, c)) if f is None else f(map(int, c)) for c in columns]
        yield op, t, {}, rows, [wrapped(found, t)]


def _asked(op: str, t: str, u: int, v: int) -> bool:
    if op.startswith(("Div", "Mod")):
        return v != 0 and not (t in SIGNED and v == -1 and u == np.iinfo(NUMPY[t]).min)
    return 0 <= v < bits(t) if op.startswith("BitShift") else True


def tensors(t: str):
    """Tensors whose reductions take each of onnxruntime's code paths: short and long, over inner, outer and
    middle axes."""
    x = extremes(t)
    rng = np.random.default_rng(11)
    for shape in ((1,), (2,), (5,), (8,), (17,), (1031,)):
        yield rng.choice(x, shape), [0]
    yield np.array([0, 1, np.iinfo(NUMPY[t]).max, 2, 1], dtype=NUMPY[t]), [0]
    for shape, axes in (
        ((5, 7), [0]),
        ((5, 7), [1]),
        ((37, 64), [1]),
        ((37, 64), [0]),
        ((3, 5, 7), [1]),
        ((3, 5, 7), [0, 2]),
        ((3, 5, 7), [0, 1, 2]),
        ((3, 5, 7), [2]),
        ((3, 16, 32), [1]),
    ):
        yield rng.choice(x, shape), axes


def reductions(t: str):
    def reduced(x, axes, f):
        moved = np.moveaxis(exact(x), axes, range(len(axes)))
        rest = moved.shape[len(axes) :]
        return wrapped(
            np.array([f(list(c)) for c in moved.reshape(-1, int(np.prod(rest))).T], dtype=object), t
        ).reshape(rest)

    def product(values):
        result = 1
        for v in values:
            result = result * v % 2**64
        return result

    folds = {
        "ReduceSum": sum,
        "ReduceProd": product,
        "ReduceMax": max,
        "ReduceMin": min,
        "ReduceL1": lambda vs: sum(map(abs, vs)),
        "ReduceSumSquare": lambda vs: sum(v * v for v in vs),
    }
    for x, axes in tensors(t):
        for op, f in folds.items():
            yield op, t, {"keepdims": 0}, [x, np.array(axes)], [reduced(x, axes, f)]
        axis = axes[-1]
        for op, pick in (("ArgMax", max), ("ArgMin", min)):
            for last in (0, 1):

                def at(column, pick=pick, last=last):
                    hits = [i for i, v in enumerate(column) if v == pick(column)]
                    return hits[-1] if last else hits[0]

                found = np.apply_along_axis(at, axis, exact(x)).astype(np.int64)
                yield op, t, {"axis": axis, "keepdims": 0, "select_last_index": last}, [x], [found]
        for largest, k in itertools.product((0, 1), (1, min(2, x.shape[axis]))):
            order = np.sort(x, axis)
            if largest:
                order = np.flip(order, axis)
            best = np.take(order, range(k), axis)
            yield "TopK", t, {"axis": axis, "largest": largest}, [x, np.array([k])], [best, None]
        for exclusive, reverse in itertools.product((0, 1), (0, 1)):
            way = np.flip(exact(x), axis) if reverse else exact(x)
            total = np.cumsum(way, axis)
            if exclusive:
                total = total - way
            total = np.flip(total, axis) if reverse else total
            yield "CumSum", t, {"exclusive": exclusive, "reverse": reverse}, [x, np.array(axis)], [wrapped(total, t)]
        yield "Unique", t, {}, [x], [np.unique(x), None, None, None]
    # Averages are compared where they are integers.
    for v in extremes(t):
        if abs(int(v)) * 4 < 2 ** (bits(t) - 1):
            yield "ReduceMean", t, {"keepdims": 0}, [np.full((3, 4), v), np.array([1])], [np.full(3, v)]


def products(t: str):
    rng, x = np.random.default_rng(13), extremes(t)
    for a, b in (((3, 5), (5, 7)), ((2, 3, 5), (2, 5, 7)), ((5,), (5,)), ((64, 33), (33, 48)), ((1, 5), (5, 1))):
        u, v = rng.choice(x, a), rng.choice(x, b)
        yield "MatMul", t, {}, [u, v], [wrapped(exact(u) @ exact(v), t)]
    u, v, c = rng.choice(x, (3, 5)), rng.choice(x, (5, 7)), rng.choice(x, (7,))
    yield "Gemm", t, {}, [u, v, c], [wrapped(exact(u) @ exact(v) + exact(c), t)]
    yield "Einsum", t, {"equation": "ij,jk->ik"}, [u, v], [wrapped(exact(u) @ exact(v), t)]
    yield "Einsum sum", t, {"equation": "ij->j"}, [u], [wrapped(exact(u).sum(0), t)]
    yield "Einsum", t, {"equation": "ij->ji"}, [u], [u.T.copy()]
    yield "Einsum", t, {"equation": "ij,ij->ij"}, [u, u], [wrapped(exact(u) * exact(u), t)]


def movements(t: str):
    x = extremes(t)
    n = len(x)
    index = np.arange(n)[::-1].copy()
    yield "Expand", t, {}, [x, np.array([3, n])], [np.tile(x, (3, 1))]
    yield "Tile", t, {}, [x, np.array([3])], [np.tile(x, 3)]
    for value in x[::4]:
        filled = np.concatenate([[value], x, [value]]).astype(x.dtype)
        yield "Pad", t, {}, [x, np.array([1, 1]), np.array(value)], [filled]
        shown = np.where(np.eye(5, dtype=bool), value, x[0])
        yield "OneHot", t, {}, [np.arange(5), np.array(5), np.array([x[0], value])], [shown]
    yield "Pad", t, {"mode": "reflect"}, [x, np.array([2, 1])], [np.pad(x, (2, 1), "reflect")]
    yield "Gather", t, {}, [x, index], [x[index]]
    yield "GatherElements", t, {}, [x, index], [x[index]]
    yield "GatherND", t, {}, [x, index[:, None].copy()], [x[index]]
    yield "Slice", t, {}, [x, np.array([-1]), np.array([-(10**9)]), np.array([0]), np.array([-1])], [x[::-1].copy()]
    yield "Concat", t, {"axis": 0}, [x, x], [np.concatenate([x, x])]
    yield "Transpose", t, {}, [np.stack([x, x[::-1]])], [np.stack([x, x[::-1]]).T.copy()]
    yield "Trilu", t, {}, [np.tile(x, (n, 1))], [np.triu(np.tile(x, (n, 1)))]
    yield "NonZero", t, {}, [x], [np.stack(np.nonzero(x))]
    yield "Compress", t, {}, [x, index % 2 == 0], [x[index % 2 == 0]]
    yield "ReverseSequence", t, {"batch_axis": 0, "time_axis": 1}, [x[None], np.array([n])], [x[None, ::-1].copy()]
    old = np.resize(x[::-1], n)
    ways = {
        "add": lambda p, q: p + q,
        "mul": lambda p, q: p * q,
        "max": max,
        "min": min,
        "none": lambda p, q: q,
    }
    for way, f in ways.items():
        found = wrapped([f(int(p), int(q)) for p, q in zip(old, x[index], strict=True)], t)
        attributes = {} if way == "none" else {"reduction": way}
        yield f"ScatterElements {way}", t, attributes, [old, np.arange(n), x[index]], [found]
        yield f"ScatterND {way}", t, attributes, [old, np.arange(n)[:, None], x[index]], [found]
    starts = [(int(v), d) for v in x for d in (1, 3) if int(v) + 4 * d <= np.iinfo(x.dtype).max]
    for first, step in starts[::5]:
        row = np.array([first + i * step for i in range(4)], dtype=x.dtype)
        operands = [np.array(v, dtype=x.dtype) for v in (first, first + 4 * step, step)]
        yield "Range", t, {}, operands, [row]
    for other in INTS:
        yield f"Cast {other}", t, {"to": other}, [x], [wrapped(exact(x), other)]
    for other in ("f32", "f64"):
        yield f"Cast {other}", t, {"to": other}, [x], [x.astype(NUMPY[other])]
    yield "Cast bool", t, {"to": "bool"}, [x], [x != 0]
    for source in ("f32", "f64"):
        back = x[[abs(int(v)) <= 2 ** (24 if source == "f32" else 53) for v in x]]
        yield f"Cast of {source}", t, {"to": t}, [back.astype(NUMPY[source])], [back]


def cases(t: str):
    for family in (elementwise, reductions, products, movements):
        yield from family(t)


# ----------------------------------------------------------------------------------------------------------------------
# Code that runs in a release's own Python


def model_of(op: str, opset: int, attributes: dict, inputs, outputs) -> bytes | None:
    import onnx
    from onnx import helper

    numbers = {d: helper.np_dtype_to_tensor_dtype(d) for d in NUMPY.values()}
    attributes = {k: int(numbers[NUMPY[v]]) if k == "to" else v for k, v in attributes.items()}
    try:
        schema = onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        return None
    inputs = list(inputs)
    if op.startswith("Reduce") and "axes" in schema.attributes:
        attributes["axes"] = [int(a) for a in inputs.pop()]
    if any(a not in schema.attributes for a in attributes) or len(inputs) > schema.max_input:
        return None
    names = [f"i{k}" for k in range(len(inputs))]
    results = [f"o{k}" for k in range(len(outputs))]
    ins = [helper.make_tensor_value_info(n, numbers[v.dtype], v.shape) for n, v in zip(names, inputs, strict=True)]
    outs = [
        helper.make_tensor_value_info(n, 7 if v is None else numbers[v.dtype], None)
        for n, v in zip(results, outputs, strict=True)
    ]
    node = helper.make_node(op, names, results, **attributes)
    graph = helper.make_graph([node], "g", ins, outs)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    ).SerializeToString(), inputs


def ask(shard: list[str]) -> None:
    """Prints the wrong results of the importable onnxruntime as JSON lines: operator, dtype, opset, what
    differed."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    found, asked = {}, 0
    for t in shard:
        lacking, sessions = set(), {}
        for name, row, attributes, inputs, expected in cases(t):
            op = name.split()[0]
            for opset in OPSETS:
                if (name, opset) in lacking or (name, row) in found:
                    continue
                built = model_of(op, opset, attributes, inputs, expected)
                if built is None:
                    continue
                data, fed = built
                try:
                    if data not in sessions:
                        sessions = {
                            data: onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
                        }
                except Exception:  # whatever the error, there is no kernel
                    lacking.add((name, opset))
                    continue
                try:
                    got = sessions[data].run(None, {f"i{k}": v for k, v in enumerate(fed)})
                except Exception as error:
                    found[name, row] = f"opset {opset}: {str(error).splitlines()[0][-90:]}"
                    continue
                asked += 1
                for g, e in zip(got, expected, strict=True):
                    if e is not None and not (g.shape == e.shape and np.array_equal(g, e)):
                        found[name, row] = witness(opset, fed, g, e)
    json.dump({"asked": asked, "wrong": [[*key, text] for key, text in found.items()]}, sys.stdout)


def witness(opset: int, inputs, got, expected) -> str:
    """One element where the two differ, with its operands if they have as many elements."""
    if got.shape != expected.shape:
        return f"opset {opset}: a result of shape {got.shape}, not {expected.shape}"
    at = tuple(int(i) for i in np.argwhere(got != expected)[0])

    def shown(v):
        if v.shape == got.shape:
            return str(v[at])
        return str(v.tolist()) if v.size <= 5 else f"a tensor of {'x'.join(map(str, v.shape))}"

    return f"of {', '.join(map(shown, inputs))}: {got[at]}, not {expected[at]}"


def vectors() -> str:
    """The processor's vector extensions, which decide some of the kernels' results."""
    with open("/proc/cpuinfo") as file:
        flags = set(file.read().split())
    return "AVX-512" if "avx512dq" in flags else "AVX2" if "avx2" in flags else "neither AVX-512 nor AVX2"


def print_table(releases: dict) -> None:
    """`releases`: per release, the wrong results by (operator, dtype)."""
    names = list(releases)
    print(
        "// Integer kernels of onnxruntime's CPU provider that compute wrong results. Written by scripts/tables/gen_wrong_kernels.py on"
    )
    print(
        f"// {datetime.date.today()}, of onnxruntime {names[0]} to {names[-1]}, on a processor with {vectors()}; do not edit."
    )
    print("// SX_WRONG(operator, element type, first release, last release)  // an example of the last")
    rows = []
    for key in sorted({k for found in releases.values() for k in found}):
        where = [n for n in names if key in releases[n]]
        for _, run in itertools.groupby(where, lambda n, where=where: names.index(n) - where.index(n)):
            run = list(run)
            rows.append((*key, run[0], run[-1], releases[run[-1]][key]))
    for op, t, first, last, text in rows:
        print(f'SX_WRONG("{op}", "{t}", "ort-{first}", "ort-{last}")  // {text}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", metavar="RELEASE=FOLDER")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--ask", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask is not None:
        ask(arguments.ask)
        return
    releases = {}
    for text in arguments.releases:
        name, _, folder = text.partition("=")
        env = {**os.environ, "PYTHONPATH": folder} if folder else os.environ
        command = [arguments.python, os.path.abspath(__file__), "--ask", *INTS]
        answer = json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)
        print(f"{name}: {answer['asked']} results, {len(answer['wrong'])} kernels wrong", file=sys.stderr)
        releases[name] = {(op, t): text for op, t, text in answer["wrong"]}
    print_table(releases)


if __name__ == "__main__":
    main()
