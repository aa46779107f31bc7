"""Writes src/dialects/onnx/generated/runtime_kernels.gen.inc: the kernels of onnxruntime's CPU provider, by release.

Queries each release itself. It lists the kernels that the release registers (operator, versions, dtypes) and
the newest opset and IR version that it loads. An operator may also run by expansion into a function or by
conversion from f16; for these, it tries whether the release creates a session for a model of one node. Unpack
the wheels of the releases first:

    pip download --no-deps onnxruntime==1.17.0 && python -m zipfile -e onnxruntime-1.17.0-*.whl ort-1.17
    python scripts/tables/gen_runtime_kernels.py 1.17=ort-1.17 1.18=ort-1.18 ... > src/dialects/onnx/generated/runtime_kernels.gen.inc

Releases before 1.19 need a Python with NumPy 1, given by --python. Only text and facts are written; nothing
is copied from onnxruntime.
"""

import argparse
import itertools
import json
import os
import pickle
import subprocess
import sys
import tempfile

OLDEST, NEWEST = 7, 28  # opsets: the oldest that convert_opset writes to the newest that a release loads
OPEN = 2**31 - 1
EXPANDED = -1
TYPES = {
    "float": "f32",
    "double": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "bool",
    "string": "str",
    "float8e4m3fn": "f8e4m3fn",
    "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2",
    "float8e5m2fnuz": "f8e5m2fnuz",
    "uint4": "u4",
    "int4": "i4",
    "float4e2m1": "f4e2m1",
    "float8e8m0": "f8e8m0",
    "uint2": "u2",
    "int2": "i2",
}
ORDER = list(TYPES.values())
PROBED = ("f64", "f32", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")


# ----------------------------------------------------------------------------------------------------------------------
# Code that runs in a release's own Python


def ask(models_file: str) -> None:
    """Prints facts about the importable onnxruntime as JSON: its kernels, and which of the pickled models
    load."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    kernels = [
        [k.op_name, *k.version_range, {name: sorted(types) for name, types in k.type_constraints.items()}]
        for k in state.get_all_opkernel_def()
        if k.provider == "CPUExecutionProvider" and k.domain == ""
    ]
    with open(models_file, "rb") as file:
        models = pickle.load(file)
    levels = onnxruntime.GraphOptimizationLevel

    def loads(model) -> bool:
        """Tries with and without onnxruntime's own optimizations: some pairs run in only one of the two."""
        for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.graph_optimization_level = level
            try:
                onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            except Exception:  # whatever the error, it does not run
                return False
        return True

    loaded = [loads(model) for model in models]
    json.dump({"kernels": kernels, "loaded": loaded}, sys.stdout)


# ----------------------------------------------------------------------------------------------------------------------
# Models of one node

UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity IsInf "
    "IsNaN LeakyRelu Log LogSoftmax Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign "
    "Sqrt Swish Tan Tanh ThresholdedRelu Transpose"
)
BINARY = (
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual MatMul Max Mean Min Mod "
    "Mul Or PRelu Pow Sub Sum Xor"
)
REDUCE = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
PREDICATES = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN", "IsInf"}
ATTRIBUTES = {"Mod": {"fmod": 1}, "BitShift": {"direction": "LEFT"}}
NUMBERS = dict(zip(TYPES.values(), (1, 11, 10, 16, 3, 5, 6, 7, 2, 4, 12, 13, 9, 8), strict=False))


def one_node(op, opset, inputs, outputs, shapes=None, constants=None, in_body=False, **attributes) -> bytes:
    """A model of one node. With `in_body`, the node is in both branches of an If, where some releases expand
    no functions."""
    from onnx import helper

    shapes, constants = shapes or {}, constants or {}
    graph_inputs, initializers = [], []
    for k, t in enumerate(inputs):
        if k in constants:
            values = constants[k]
            dims = [len(values)] if isinstance(values, list) else []
            initializers.append(helper.make_tensor(f"i{k}", t, dims, values if dims else [values]))
        else:
            graph_inputs.append(helper.make_tensor_value_info(f"i{k}", t, shapes.get(k, [2, 3])))
    names = [f"o{k}" for k in range(len(outputs))]
    node = helper.make_node(op, [f"i{k}" for k in range(len(inputs))], names, **attributes)
    results = [helper.make_tensor_value_info(n, t, None) for n, t in zip(names, outputs, strict=True)]
    if in_body:
        graph_inputs.append(helper.make_tensor_value_info("c", 9, []))
        branches = []
        for branch in ("then", "else"):
            inner = helper.make_node(op, node.input, [f"{branch}_{n}" for n in names], **attributes)
            typed = [
                helper.make_tensor_value_info(f"{branch}_{n}", t, None) for n, t in zip(names, outputs, strict=True)
            ]
            branches.append(helper.make_graph([inner], branch, [], typed))
        node = helper.make_node("If", ["c"], names, then_branch=branches[0], else_branch=branches[1])
    graph = helper.make_graph([node], "g", graph_inputs, results, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model.SerializeToString()


def probes(opset: int, t: int):
    """(operator, two models with dtype number t) for every operator that is tried."""

    def model(op, *args, **kwargs):
        return op, [one_node(op, opset, *args, in_body=b, **kwargs) for b in (False, True)]

    for op in UNARY.split():
        yield model(op, [t], [9 if op in PREDICATES else t])
    for op in BINARY.split():
        shapes = {0: [3, 3], 1: [3, 3]} if op == "MatMul" else None
        yield model(op, [t, t], [9 if op in PREDICATES else t], shapes, **ATTRIBUTES.get(op, {}))
    for op in REDUCE.split():
        if opset >= 18 or (opset >= 13 and op == "ReduceSum"):
            yield model(op, [t, 7], [t], constants={1: [1]})
        else:
            yield model(op, [t], [t], axes=[1])
    for op in ("ArgMax", "ArgMin"):
        yield model(op, [t], [7], axis=1)
    yield model("Where", [9, t, t], [t])
    if opset >= 11:
        yield model("Clip", [t, t, t], [t], {1: [], 2: []})
        yield model("Pad", [t, 7, t], [t], {2: []}, {1: [0, 1, 0, 1]})
    else:
        yield model("Clip", [t], [t], min=0.0, max=1.0)
        yield model("Pad", [t], [t], pads=[0, 1, 0, 1])
    yield model("CumSum", [t, 7], [t], constants={1: 1})
    if opset >= 10:
        yield model("TopK", [t, 7], [t, 7], constants={1: [2]}, axis=1)
    else:
        yield model("TopK", [t], [t, 7], k=2, axis=1)
    yield model("Tile", [t, 7], [t], constants={1: [1, 2]})
    yield model("Expand", [t, 7], [t], constants={1: [5, 2, 3]})
    yield model("MaxPool", [t], [t], {0: [1, 2, 5, 5]}, kernel_shape=[2, 2])
    yield model("AveragePool", [t], [t], {0: [1, 2, 5, 5]}, kernel_shape=[2, 2])
    yield model("GlobalAveragePool", [t], [t], {0: [1, 2, 5, 5]})
    yield model("GlobalMaxPool", [t], [t], {0: [1, 2, 5, 5]})
    yield model("Conv", [t, t], [t], {0: [1, 2, 5, 5], 1: [3, 2, 2, 2]})
    yield model("ConvTranspose", [t, t], [t], {0: [1, 2, 5, 5], 1: [2, 2, 2, 2]})
    yield model("Gemm", [t, t, t], [t], {0: [3, 3], 1: [3, 3], 2: [3]})
    yield model("Einsum", [t, t], [t], {0: [2, 3], 1: [4, 3]}, equation="ij,kj->ik")
    yield model("Trilu", [t], [t])
    yield model("Range", [t, t, t], [t], {0: [], 1: [], 2: []})
    yield model("LayerNormalization", [t, t, t], [t], {1: [3], 2: [3]})
    yield model("RMSNormalization", [t, t], [t], {1: [3]})
    yield model("GroupNormalization", [t, t, t], [t], {0: [2, 4, 5], 1: [4], 2: [4]}, num_groups=2)
    yield model("InstanceNormalization", [t, t, t], [t], {0: [2, 4, 5], 1: [4], 2: [4]})
    yield model("Attention", [t, t, t], [t], dict.fromkeys(range(3), [2, 4, 5, 8]))
    yield model("RotaryEmbedding", [t, t, t, 7], [t], {0: [2, 4, 5, 8], 1: [9, 4], 2: [9, 4], 3: [2, 5]})
    yield model("DepthToSpace", [t], [t], {0: [1, 8, 3, 3]}, blocksize=2)
    yield model("SpaceToDepth", [t], [t], {0: [1, 2, 4, 4]}, blocksize=2)


# The type variable that is tried, where it is not T.
VARIABLES = {"IsNaN": "T1", "IsInf": "T1", "RMSNormalization": "T", "Attention": "T1"}
ALSO = {"RMSNormalization": ("V",), "Attention": ("T2", "U")}  # other variables that take the same types


def asked(models: list[bytes], folder: str, python: str) -> dict:
    """The release's answers about the models."""
    with tempfile.TemporaryDirectory() as scratch:
        file = os.path.join(scratch, "models")
        with open(file, "wb") as f:
            pickle.dump(models, f)
        releases = subprocess.run(
            [python, os.path.abspath(__file__), "--ask", file],
            env={**os.environ, "PYTHONPATH": folder},
            stdout=subprocess.PIPE,
            check=True,
        )
    return json.loads(releases.stdout)


def release(name: str, folder: str, python: str) -> dict:
    """{"opset", "ir", "rows"}. Rows are (operator, from, to, {variable: types}); `to` is EXPANDED for a
    function without a kernel."""
    import onnx
    import onnx.defs

    opsets = range(OLDEST, onnx.defs.onnx_opset_version() + 1)
    loaded = asked([one_node("Identity", opset, [1], [1]) for opset in opsets], folder, python)["loaded"]
    newest = max(opset for opset, is_loaded in zip(opsets, loaded, strict=True) if is_loaded)

    loads, keys = [], []
    for ir in range(8, 16):
        keys.append(("ir", ir))
        model = onnx.ModelProto.FromString(one_node("Identity", OLDEST, [1], [1]))
        model.ir_version = ir
        loads.append(model.SerializeToString())
    # Each version of an operator is tried in its first and in its last opset: a function is expanded only in
    # the first if an operator in its body has changed since.
    for opset in range(OLDEST, newest + 1):
        for t in PROBED:
            for op, models in probes(opset, NUMBERS[t]):
                since = since_version(op, opset)
                if since is None:
                    continue
                if opset == max(since, OLDEST):
                    keys += [("type", op, since, t, n) for n in range(len(models))]
                    loads += models
                if opset == newest or since_version(op, opset + 1) != since:
                    keys += [("late", op, since, t, n) for n in range(len(models))]
                    loads += models
    answer = asked(loads, folder, python)
    loaded = dict(zip(keys, answer["loaded"], strict=True))

    rows = []
    for op, first, last, constraints in answer["kernels"]:
        if last >= OLDEST and first <= NEWEST:
            types = {v: [TYPES[t[7:-1]] for t in ts if t[7:-1] in TYPES] for v, ts in constraints.items()}
            rows.append((op, first, last, {v: ts for v, ts in types.items() if ts}))
    rows = [(op, first, last, with_f16(types)) for op, first, last, types in joined(rows)]

    for op in sorted({k[1] for k in keys if k[0] == "type"}):
        for since in sorted({k[2] for k in keys if k[0] == "type" and k[1] == op}):
            types = [t for t in PROBED if all(loaded[("type", op, since, t, n)] for n in (0, 1))]
            variable = VARIABLES.get(op, "T")
            here = [r for r in rows if r[0] == op and covers(r, since)]
            rows = [r for r in rows if r not in here]
            known = {t for r in here for t in r[3].get(variable, ())}
            if op.startswith("Reduce"):
                # Whether their functions expand depends on the rest of the graph, so only kernels count.
                types = [t for t in types if t in known]
            lasting = [t for t in types if t in known or all(loaded[("late", op, since, t, n)] for n in (0, 1))]
            rest = {v: ts for r in here[:1] for v, ts in r[3].items() if v != variable}
            span = (here[0][1], here[0][2]) if here else (since, since)
            for some, at in ((lasting, span), ([t for t in types if t not in lasting], (since, EXPANDED))):
                also = {v: [*some, *rest.get(v, ["bool"] if v == "U" else [])] for v in ALSO.get(op, ())}
                if some:
                    rows.append((op, *at, {variable: some, **rest, **also}))
    return {
        "opset": newest,
        "ir": max(k[1] for k in keys if k[0] == "ir" and loaded[k]),
        "rows": rows,
    }


def since_version(op: str, opset: int) -> int | None:
    import onnx.defs

    try:
        return onnx.defs.get_schema(op, opset, "").since_version
    except onnx.defs.SchemaError:
        return None


def covers(row, since: int) -> bool:
    """onnxruntime's own rule: a range without an end covers only its first version."""
    return row[1] == since or (row[1] < since <= row[2] and row[2] != OPEN)


def joined(rows):
    """Merges kernels of one operator and range whose types are independent of each other into one row."""
    groups: dict = {}
    for op, first, last, types in rows:
        groups.setdefault((op, first, last, tuple(sorted(types))), []).append(types)
    out = []
    for (op, first, last, variables), many in groups.items():
        union = {v: sorted({t for types in many for t in types[v]}, key=ORDER.index) for v in variables}
        combinations = {c for types in many for c in itertools.product(*(types[v] for v in variables))}
        if len(combinations) == len(list(itertools.product(*union.values()))):
            out.append((op, first, last, union))
        else:
            out += [(op, first, last, types) for types in many]
    return out


def with_f16(types: dict) -> dict:
    """Adds f16: where onnxruntime has no f16 kernel, it computes in f32 and converts before and after."""
    return {v: [*ts, "f16"] if "f32" in ts and "f16" not in ts else ts for v, ts in types.items()}


def spelled(types: dict) -> str:
    return "; ".join(f"{v}: {' '.join(sorted(set(ts), key=ORDER.index))}" for v, ts in sorted(types.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", metavar="RELEASE=FOLDER")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        ask(arguments.ask)
        return
    releases = {}
    for text in arguments.releases:
        name, _, folder = text.partition("=")
        releases[name] = release(name, folder, arguments.python)
    names = list(releases)
    print(
        "// What onnxruntime's CPU provider computes, release by release. Written by scripts/tables/gen_runtime_kernels.py; do not edit."
    )
    print("// SX_RUNTIME(name, newest opset, newest IR version); their numbers below count from 0.")
    for name in names:
        print(f'SX_RUNTIME("ort-{name}", {releases[name]["opset"]}, {releases[name]["ir"]})')
    print(
        "// SX_KERNEL(operator, first version, last version, first release, last release, element types by type variable)"
    )
    print("// SX_EXPANDED(operator, version, first release, last release, types): in models of that opset only")
    spans: dict = {}
    for n, name in enumerate(names):
        for op, first, last, types in releases[name]["rows"]:
            last = 0 if last == OPEN else last
            spans.setdefault((op, first, last, spelled(types)), []).append(n)
    rows = []
    for key, where in spans.items():
        for _, run in itertools.groupby(enumerate(sorted(set(where))), lambda p: p[1] - p[0]):
            run = [n for _, n in run]
            rows.append((key[0], key[1], run[0], key, run))
    for _, _, _, (op, first, last, types), run in sorted(rows, key=lambda r: (*r[:3], r[3])):
        if last == EXPANDED:
            print(f'SX_EXPANDED("{op}", {first}, {run[0]}, {run[-1]}, "{types}")')
        else:
            print(f'SX_KERNEL("{op}", {first}, {last}, {run[0]}, {run[-1]}, "{types}")')


if __name__ == "__main__":
    main()
