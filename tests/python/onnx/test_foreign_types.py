"""Types of onnxruntime's own operators: their results' sizes fold, and equal those that onnxruntime infers."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import sardonyx
from judge import RUNTIME
from onnx import TensorProto, helper, numpy_helper

F, I8, U8, I32, I64 = np.float32, np.int8, np.uint8, np.int32, np.int64
RNG = np.random.default_rng(0)


def array(dtype: type, *shape: int) -> np.ndarray:
    if dtype is F:
        return RNG.standard_normal(shape).astype(F)
    return RNG.integers(0, 3, shape).astype(dtype)


def scale(*shape: int) -> np.ndarray:
    return np.full(shape, 0.5, F)


ZERO = np.array(3, U8)
Q = [scale(), ZERO]  # scale and zero point

# Operator: attributes, inputs, constants after or between them (None: absent), number of results. Inputs may
# vary in a test.
CASES: dict[str, tuple[str, dict, list, int]] = {
    "QLinearAdd": ("QLinearAdd", {}, ["u8[2,1,5]", *Q, "u8[3,1]", *Q, *Q], 1),
    "QLinearMul": ("QLinearMul", {}, ["u8[3,5]", *Q, "u8[2,3,5]", *Q, *Q], 1),
    "QLinearSigmoid": ("QLinearSigmoid", {}, ["u8[2,3,5]", *Q, *Q], 1),
    "QLinearLeakyRelu": ("QLinearLeakyRelu", {"alpha": 0.1}, ["u8[2,3,5]", *Q, *Q], 1),
    "QLinearSoftmax": ("QLinearSoftmax", {"axis": -1, "opset": 13}, ["u8[2,3,5]", *Q, *Q], 1),
    "QLinearGlobalAveragePool": ("QLinearGlobalAveragePool", {}, ["u8[2,3,5,7]", *Q, *Q], 1),
    "QLinearGlobalAveragePool, channels last": ("QLinearGlobalAveragePool", {"channels_last": 1}, ["u8[2,5,7,3]", *Q, *Q], 1),
    "QLinearAveragePool": (
        "QLinearAveragePool",
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
        ["u8[2,3,11,7]", *Q, *Q],
        1,
    ),
    "QLinearConcat": ("QLinearConcat", {"axis": 1}, [*Q, "u8[2,3,5]", *Q, "u8[2,7,5]", *Q, "u8[2,1,5]", *Q], 1),
    "QLinearWhere": ("QLinearWhere", {}, ["bool[5]", "u8[3,1]", *Q, "u8[2,1,1]", *Q, *Q], 1),
    "QGemm": ("QGemm", {"transB": 1}, ["u8[3,5]", *Q, array(U8, 7, 5), *Q, None, *Q], 1),
    "QGemm to floats": ("QGemm", {"transA": 1}, ["u8[5,3]", *Q, array(U8, 5, 7), *Q], 1),
    "QuantizeLinear": ("QuantizeLinear", {}, ["f32[2,3]", scale(), np.array(3, np.uint16)], 1),
    "DequantizeLinear": ("DequantizeLinear", {}, ["u8[2,3]", *Q], 1),
    "DynamicQuantizeMatMul": ("DynamicQuantizeMatMul", {}, ["f32[2,3,5]", array(U8, 5, 7), scale(), ZERO], 1),
    "MatMulIntegerToFloat": ("MatMulIntegerToFloat", {}, ["u8[2,3,5]", array(U8, 5, 7), scale(), scale(), ZERO, ZERO], 1),
    "MatMulNBits": (
        "MatMulNBits", {"K": 32, "N": 7, "bits": 4, "block_size": 16}, ["f32[2,3,32]", array(U8, 7, 2, 8), scale(14)], 1,
    ),
    "GatherBlockQuantized": (
        "GatherBlockQuantized",
        {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": 4},
        [array(U8, 11, 16), "i64[2,3]", scale(11, 2)],
        1,
    ),
    "Gelu": ("Gelu", {}, ["f32[2,3]"], 1),
    "FastGelu": ("FastGelu", {}, ["f32[2,3]", array(F, 3)], 1),
    "BiasGelu": ("BiasGelu", {}, ["f32[2,3]", array(F, 3)], 1),
    "QuickGelu": ("QuickGelu", {"alpha": 1.7}, ["f32[2,3]"], 1),
    "FusedMatMul": ("FusedMatMul", {"transA": 1, "transB": 1}, ["f32[2,5,3]", "f32[2,7,5]"], 1),
    "FusedMatMul of vectors": ("FusedMatMul", {}, ["f32[2,3,5]", "f32[5]"], 1),
    "FusedConv": (
        "FusedConv", {"activation": "Relu", "strides": [2, 1], "kernel_shape": [3, 2]}, ["f32[2,3,11,7]", array(F, 5, 3, 3, 2)], 1,
    ),
    "FusedGemm": ("FusedGemm", {"activation": "Relu", "transB": 1}, ["f32[3,5]", array(F, 7, 5), array(F, 7)], 1),
    "SkipLayerNormalization": (
        "SkipLayerNormalization", {}, ["f32[2,3,5]", "f32[2,3,5]", array(F, 5), array(F, 5)], 1,
    ),
    "SkipLayerNormalization with its sum": (
        "SkipLayerNormalization", {}, ["f32[2,3,5]", "f32[2,3,5]", array(F, 5), array(F, 5), array(F, 5)], 4,
    ),
    "SkipSimplifiedLayerNormalization": (
        "SkipSimplifiedLayerNormalization", {}, ["f32[2,3,5]", "f32[2,3,5]", array(F, 5)], 1,
    ),
    "EmbedLayerNormalization": (
        "EmbedLayerNormalization",
        {},
        ["i32[2,3]", "i32[2,3]", array(F, 11, 8), array(F, 13, 8), array(F, 3, 8), array(F, 8), array(F, 8), "i32[2,3]"],
        2,
    ),
    "Attention": ("Attention", {"num_heads": 2}, ["f32[2,3,6]", array(F, 6, 24), array(F, 24)], 1),
    "Attention with a past": (
        "Attention", {"num_heads": 2, "unidirectional": 1},
        ["f32[2,3,6]", array(F, 6, 24), array(F, 24), None, "f32[2,2,2,5,4]"], 2,
    ),
    "Attention of other widths": (
        "Attention", {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 6]}, ["f32[2,3,6]", array(F, 6, 22), array(F, 22)], 1,
    ),
    "MultiHeadAttention": ("MultiHeadAttention", {"num_heads": 2}, ["f32[2,3,8]", "f32[2,5,8]", "f32[2,5,6]"], 1),
    "MultiHeadAttention of heads": ("MultiHeadAttention", {"num_heads": 2}, ["f32[2,3,8]", "f32[2,2,5,4]", "f32[2,2,5,4]"], 1),
    "MultiHeadAttention with a past": (
        "MultiHeadAttention", {"num_heads": 2},
        ["f32[2,3,8]", "f32[2,3,8]", "f32[2,3,8]", None, None, None, "f32[2,2,5,4]", "f32[2,2,5,4]"], 3,
    ),
    "GroupQueryAttention": (
        "GroupQueryAttention", {"num_heads": 4, "kv_num_heads": 2},
        ["f32[2,3,32]", "f32[2,3,16]", "f32[2,3,16]", None, None, np.array([2, 2], I32), np.array(3, I32)], 1,
    ),
    "GroupQueryAttention, packed": (
        "GroupQueryAttention", {"num_heads": 4, "kv_num_heads": 2},
        ["f32[2,3,64]", None, None, None, None, np.array([2, 2], I32), np.array(3, I32)], 1,
    ),
    "RotaryEmbedding": (
        "RotaryEmbedding", {}, ["f32[2,2,3,8]", "i64[2,3]", array(F, 11, 4), array(F, 11, 4)], 1,
    ),
    "CDist": ("CDist", {"metric": "euclidean"}, ["f32[3,5]", "f32[7,5]"], 1),
}  # fmt: skip
CASES["SimplifiedLayerNormalization"] = (":SimplifiedLayerNormalization", {"axis": -1}, ["f32[2,3,5]", array(F, 5)], 1)
CASES["LayerNormalization before opset 17"] = (
    ":LayerNormalization",
    {"axis": -1},
    ["f32[2,3,5]", array(F, 5), array(F, 5)],
    1,
)

TYPES = {"f32": (TensorProto.FLOAT, F), "u8": (TensorProto.UINT8, U8), "i32": (TensorProto.INT32, I32)}
TYPES |= {"i64": (TensorProto.INT64, I64), "bool": (TensorProto.BOOL, np.bool_)}


def model_of(case: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The operator, and the shape of each result that it has."""
    op, attributes, operands, results = CASES[case]
    inputs, constants, names, feeds = [], [], [], {}
    for i, operand in enumerate(operands):
        name = f"x{i}"
        if operand is None:
            name = ""
        elif isinstance(operand, str):
            dtype, _, shape = operand.rstrip("]").partition("[")
            sizes = [int(n) for n in shape.split(",")]
            number, kind = TYPES[dtype]
            inputs.append(helper.make_tensor_value_info(name, number, sizes))
            feeds[name] = array(kind, *sizes)
        else:
            constants.append(numpy_helper.from_array(operand, name))
        names.append(name)
    used = [0, 3] if results == 4 else list(range(results))
    outputs = [f"y{i}" if i in used else "" for i in range(results)]
    domain = "" if op.startswith(":") else "com.microsoft"
    node = helper.make_node(op.lstrip(":"), names, outputs, domain=domain, **attributes)
    shapes = [helper.make_node("Shape", [f"y{i}"], [f"s{i}"]) for i in used]
    graph = helper.make_graph(
        [node, *shapes],
        "g",
        inputs,
        [helper.make_tensor_value_info(f"s{i}", TensorProto.INT64, None) for i in used],
        constants,
    )
    imports = [helper.make_opsetid("", 16), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), feeds


@pytest.mark.parametrize("case", CASES)
def test_shapes_are_those_of_onnxruntime(case: str) -> None:
    model, feeds = model_of(case)
    if case.startswith("GroupQueryAttention") and RUNTIME < (1, 27):
        pytest.skip("this onnxruntime has another form of the operator")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    want = session.run(None, feeds)
    done = sardonyx.optimize(model)
    assert not [n.op_type for n in done.graph.node if n.op_type == "Shape"], "a size is not known"
    constants = {t.name: numpy_helper.to_array(t) for t in done.graph.initializer}
    constants |= {
        n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in done.graph.node if n.op_type == "Constant"
    }
    renamed = {n.output[0]: n.input[0] for n in done.graph.node if n.op_type == "Identity"}
    got = [constants[renamed.get(o.name, o.name)] for o in done.graph.output]
    assert [g.tolist() for g in got] == [w.tolist() for w in want]


def test_what_a_rule_refuses_stays_as_it_was_declared() -> None:
    """Operands that do not broadcast: no error, and the declared type is kept."""
    text = """
      <ir_version: 8, opset_import: ["" : 16, "com.microsoft" : 1]>
      g (float[2,3] x, float[5] w) => (float[2,3] y) <float[2,3] h> { h = com.microsoft.BiasGelu(x, w) y = Relu(h) }
    """
    model = onnx.parser.parse_model(text)
    done = sardonyx.optimize(model)
    assert [n.op_type for n in done.graph.node] == ["BiasGelu", "Relu"]
    assert list(done.graph.value_info) == list(model.graph.value_info)


def test_a_local_function_of_the_name_goes_first() -> None:
    text = """
      <ir_version: 8, opset_import: ["" : 16, "com.microsoft" : 1]>
      g (float[2,3] x) => (int64[s] y) { h = com.microsoft.Gelu(x) y = Shape(h) }
      <domain: "com.microsoft", opset_import: ["" : 16]>
      Gelu (x) => (y) { y = Transpose<perm=[1,0]>(x) }
    """
    done = sardonyx.optimize(onnx.parser.parse_model(text))
    (shape,) = (numpy_helper.to_array(t) for t in done.graph.initializer)
    assert shape.tolist() == [3, 2]
