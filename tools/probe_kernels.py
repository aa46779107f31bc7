"""Asks onnxruntime's CPU provider which element types it computes each operator in, and prints src/lower/kernels.def.

A session is made for a model of one node per operator and type. Types that the operator's schema refuses count as
missing too. Run again when onnxruntime is updated:  python tools/probe_kernels.py > src/lower/kernels.def
"""

import onnxruntime
from onnx import helper

TYPES = {
    "f64": 11,
    "f32": 1,
    "f16": 10,
    "bf16": 16,
    "i8": 3,
    "i16": 5,
    "i32": 6,
    "i64": 7,
    "u8": 2,
    "u16": 4,
    "u32": 12,
    "u64": 13,
    "bool": 9,
}
UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Cos Cosh Erf Exp Floor IsInf IsNaN Log Neg Not Reciprocal "
    "Relu Round Sigmoid Sign Sin Sinh Softmax Softplus Sqrt Tan Tanh"
)
BINARY = (
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual MatMul Max Min "
    "Mod Mul Or Pow Sub Xor"
)
REDUCE = "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
PREDICATES = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN", "IsInf"}
ATTRIBUTES = {"Mod": {"fmod": 1}, "BitShift": {"direction": "LEFT"}, "Einsum": {"equation": "ij,kj->ik"}}
# Computing in a wider type and keeping the low bits is right: results depend on the operands modulo 2^bits only.
MODULAR = set(
    "Add BitwiseAnd BitwiseOr BitwiseXor BitwiseNot Mul Sub Neg Where MatMul Einsum Gemm ReduceSum ReduceProd CumSum Pad "
    "Expand Tile Trilu Conv ConvTranspose Equal OneHot".split()
)


def loads(op, inputs, outputs, shapes=None, constants=None, **attributes):
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
    results = [helper.make_tensor_value_info(n, t, None) for n, t in zip(names, outputs)]
    graph = helper.make_graph([node], "g", graph_inputs, results, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:  # whatever it says, it does not run
        return False
    return True


def probe(t):
    """Operator -> whether a model of it on element type t loads."""
    found = {}
    for op in UNARY.split():
        found[op] = loads(op, [t], [9 if op in PREDICATES else t])
    for op in BINARY.split():
        shapes = {0: [3, 3], 1: [3, 3]} if op == "MatMul" else None
        found[op] = loads(op, [t, t], [9 if op in PREDICATES else t], shapes, **ATTRIBUTES.get(op, {}))
    for op in REDUCE.split():
        found[op] = loads(op, [t, 7], [t], constants={1: [1]})
    for op in ("ArgMax", "ArgMin"):
        found[op] = loads(op, [t], [7], axis=1)
    found["Where"] = loads("Where", [9, t, t], [t])
    found["Clip"] = loads("Clip", [t, t, t], [t], {1: [], 2: []})
    found["CumSum"] = loads("CumSum", [t, 7], [t], constants={1: 1})
    found["TopK"] = loads("TopK", [t, 7], [t, 7], constants={1: [2]}, axis=1)
    found["Pad"] = loads("Pad", [t, 7, t], [t], {2: []}, {1: [0, 1, 0, 1]})
    found["Tile"] = loads("Tile", [t, 7], [t], constants={1: [1, 2]})
    found["Expand"] = loads("Expand", [t, 7], [t], constants={1: [5, 2, 3]})
    found["MaxPool"] = loads("MaxPool", [t], [t], {0: [1, 2, 5, 5]}, kernel_shape=[2, 2])
    found["AveragePool"] = loads("AveragePool", [t], [t], {0: [1, 2, 5, 5]}, kernel_shape=[2, 2])
    found["Conv"] = loads("Conv", [t, t], [t], {0: [1, 2, 5, 5], 1: [3, 2, 2, 2]})
    found["ConvTranspose"] = loads("ConvTranspose", [t, t], [t], {0: [1, 2, 5, 5], 1: [2, 2, 2, 2]})
    found["Gemm"] = loads("Gemm", [t, t, t], [t], {0: [3, 3], 1: [3, 3], 2: [3]})
    found["Einsum"] = loads("Einsum", [t, t], [t], equation="ij,kj->ik")
    found["Range"] = loads("Range", [t, t, t], [t], {0: [], 1: [], 2: []})
    found["Trilu"] = loads("Trilu", [t], [t])
    return found


def main():
    onnxruntime.set_default_logger_severity(4)
    by_type = {name: probe(t) for name, t in TYPES.items()}
    print(
        f"// Element types in which onnxruntime {onnxruntime.__version__}'s CPU provider computes each operator at opset 23."
    )
    print("// Operators that are not listed take every type. Written by tools/probe_kernels.py; do not edit.")
    print("// kModular: the result modulo 2^bits depends on the operands modulo 2^bits only.")
    for op in sorted(by_type["f32"]):
        types = " ".join(name for name in TYPES if by_type[name][op])
        kind = "kModular" if op in MODULAR else "kOrdered"
        print(f'SX_KERNEL("{op}", {kind}, "{types}")')


if __name__ == "__main__":
    main()
