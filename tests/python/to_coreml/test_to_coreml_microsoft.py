"""onnxruntime's own operators (com.microsoft) as Core ML: Sardonyx's evaluator beside onnxruntime, at two sizes."""

import zlib

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import sardonyx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from test_to_coreml import Builder, check, run_onnx  # noqa: E402

SIZES = {"B": (2, 3), "T": (5, 7), "S": (7, 11), "P": (3, 2)}
TYPES = {
    "f32": (TensorProto.FLOAT, np.float32),
    "i32": (TensorProto.INT32, np.int32),
    "i64": (TensorProto.INT64, np.int64),
}
TYPES |= {"u8": (TensorProto.UINT8, np.uint8), "bool": (TensorProto.BOOL, np.bool_)}
RNG = np.random.default_rng(3)


def f(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape):
    return RNG.integers(0, 256, shape).astype(np.uint8)


def model_of(op, attributes, operands, results=(0,), domain="com.microsoft"):
    """One node. Operands: a type ("f32[B,3]"; with a bound for integers, "i32[B,T]<7"), a constant, or None for an absent one."""
    inputs, constants, names = [], [], []
    for i, operand in enumerate(operands):
        names.append("" if operand is None else f"x{i}")
        if isinstance(operand, str):
            dtype, shape = operand.partition("<")[0].rstrip("]").split("[")
            sizes = [int(n) if n.isdigit() else n for n in shape.split(",")]
            inputs.append(helper.make_tensor_value_info(f"x{i}", TYPES[dtype][0], sizes))
        elif operand is not None:
            constants.append(numpy_helper.from_array(operand, f"x{i}"))
    outputs = [f"y{i}" if i in results else "" for i in range(max(results) + 1)]
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    dtypes = dict.fromkeys(results, TensorProto.FLOAT)
    if op.startswith("QLinear") or (op == "QGemm" and len(operands) > 7):
        dtypes[0] = TensorProto.UINT8
    if op == "QuantizeLinear":
        dtypes[0] = TensorProto.UINT16
    if op.endswith("Integer"):
        dtypes[0] = TensorProto.INT32
    if op == "EmbedLayerNormalization":
        dtypes[1] = TensorProto.INT32
    outputs = [helper.make_tensor_value_info(f"y{i}", dtypes[i], None) for i in results]
    graph = helper.make_graph([node], "g", inputs, outputs, constants)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def feeds_of(case, operands, which):
    rng = np.random.default_rng([zlib.crc32(case.encode()), which])
    feeds = {}
    for i, operand in enumerate(operands):
        if not isinstance(operand, str):
            continue
        kind, _, bound = operand.partition("<")
        dtype, shape = kind.rstrip("]").split("[")
        sizes = [int(n) if n.isdigit() else SIZES[n][which] for n in shape.split(",")]
        if dtype == "f32":
            feeds[f"x{i}"] = rng.standard_normal(sizes).astype(np.float32)
        else:
            feeds[f"x{i}"] = rng.integers(0, int(bound or 256), sizes).astype(TYPES[dtype][1])
    return feeds


def q(scale, zero):
    return [np.array(scale, np.float32), np.array(zero, np.uint8)]


A, W, Y = q(0.06, 131), q(0.09, 117), q(0.11, 126)  # scales and zero points

# Operator, attributes, operands, results that are used.
CASES = {
    "Gelu": ("Gelu", {}, ["f32[B,3]"]),
    "QuickGelu": ("QuickGelu", {}, ["f32[B,3]"]),
    "QuickGelu, which is silu": ("QuickGelu", {"alpha": 1.0}, ["f32[B,3]"]),
    "BiasGelu": ("BiasGelu", {}, ["f32[B,T,3]", f(3)]),
    "FastGelu": ("FastGelu", {}, ["f32[B,T,3]"]),
    "FastGelu with a bias": ("FastGelu", {}, ["f32[B,T,3]", f(3)]),
    "SkipLayerNormalization": ("SkipLayerNormalization", {}, ["f32[B,T,5]", "f32[B,T,5]", f(5)]),
    "SkipLayerNormalization with its sum": (
        "SkipLayerNormalization", {"epsilon": 0.1}, ["f32[B,T,5]", "f32[B,T,5]", f(5), f(5), f(5)], (0, 3),
    ),
    "SkipLayerNormalization of a computed gamma, skip for all batches": (
        "SkipLayerNormalization", {}, ["f32[B,T,5]", "f32[T,5]", "f32[5]", "f32[5]"],
    ),
    "SkipSimplifiedLayerNormalization": (
        "SkipSimplifiedLayerNormalization", {"epsilon": 0.1}, ["f32[B,T,5]", "f32[B,T,5]", f(5), f(5)], (0, 3),
    ),
    "SkipSimplifiedLayerNormalization, no bias": (
        "SkipSimplifiedLayerNormalization", {}, ["f32[B,T,5]", "f32[B,T,5]", f(5)],
    ),
    "SimplifiedLayerNormalization": ("SimplifiedLayerNormalization", {"epsilon": 0.1}, ["f32[B,T,5]", f(5)]),
    "SimplifiedLayerNormalization with its factor": (
        "SimplifiedLayerNormalization", {"axis": 1, "epsilon": 0.1}, ["f32[B,3,5]", f(3, 5)], (0, 1),
    ),
    "FusedMatMul": ("FusedMatMul", {"alpha": 0.25}, ["f32[B,2,T,3]", "f32[B,2,3,S]"]),
    "FusedMatMul, transposed": ("FusedMatMul", {"transA": 1, "transB": 1}, ["f32[B,3,T]", "f32[B,S,3]"]),
    "FusedMatMul of a vector": ("FusedMatMul", {"transB": 1, "alpha": 3.0}, ["f32[B,T,3]", f(3)]),
    "FusedConv": (
        "FusedConv", {"activation": "Relu", "strides": [2, 1], "pads": [1, 0, 1, 0]}, ["f32[B,3,11,7]", f(5, 3, 3, 2), f(5)],
    ),
    "FusedConv with a summand": (
        "FusedConv", {"activation": "LeakyRelu", "activation_params": [0.25]}, ["f32[B,3,11,7]", f(5, 3, 3, 2), None, "f32[B,5,9,6]"],
    ),
    "FusedConv, clipped": (
        "FusedConv", {"activation": "Clip", "activation_params": [-0.5, 0.75], "group": 3}, ["f32[B,3,T,S]", f(3, 1, 3, 2), f(3)],
    ),
    "FusedConv, hard sigmoid": (
        "FusedConv", {"activation": "HardSigmoid", "activation_params": [0.25, 0.75]}, ["f32[B,3,11,7]", f(5, 3, 3, 2)],
    ),
    "FusedGemm": ("FusedGemm", {"activation": "Tanh", "transB": 1, "alpha": 0.5}, ["f32[B,5]", f(7, 5), f(7)]),
    "FusedGemm, leaky": ("FusedGemm", {"activation": "LeakyRelu", "activation_alpha": 0.25}, ["f32[B,5]", f(5, 7)]),
    "MatMulNBits": (
        "MatMulNBits", {"K": 32, "N": 7, "bits": 4, "block_size": 16}, ["f32[B,T,32]", u8(7, 2, 8), f(7, 2)],
    ),
    "MatMulNBits with zero points and a bias": (
        "MatMulNBits", {"K": 48, "N": 7, "bits": 4, "block_size": 16},
        ["f32[B,48]", u8(7, 3, 8), f(21), u8(14), None, f(7)],
    ),
    "MatMulNBits of a part of a block": (
        "MatMulNBits", {"K": 19, "N": 7, "bits": 4, "block_size": 16}, ["f32[B,2,T,19]", u8(7, 2, 8), f(7, 2), u8(7, 1)],
    ),
    "MatMulNBits of bytes": (
        "MatMulNBits", {"K": 32, "N": 7, "bits": 8, "block_size": 16}, ["f32[B,T,32]", u8(7, 2, 16), f(7, 2), u8(7, 2)],
    ),
    "MatMulNBits with computed zero points": (
        "MatMulNBits", {"K": 32, "N": 7, "bits": 4, "block_size": 16}, ["f32[B,T,32]", u8(7, 2, 8), f(7, 2), f(7, 2)],
    ),
    "GatherBlockQuantized": (
        "GatherBlockQuantized", {"quantize_axis": 1, "block_size": 16},
        [u8(11, 16), "i64[B,T]<11", f(11, 2), u8(11, 1)],
    ),
    "GatherBlockQuantized of bytes, without zero points": (
        "GatherBlockQuantized", {"quantize_axis": 1, "block_size": 16, "bits": 8}, [u8(11, 32), "i64[B,T]<11", f(11, 2)],
    ),
    "EmbedLayerNormalization": (
        "EmbedLayerNormalization", {"epsilon": 0.1},
        ["i32[B,T]<11", "i32[B,T]<3", f(11, 8), f(13, 8), f(3, 8), f(8), f(8), "i32[B,T]<2"], (0, 1, 2),
    ),
    "EmbedLayerNormalization with positions": (
        "EmbedLayerNormalization", {},
        ["i32[B,T]<11", None, f(11, 8), f(13, 8), None, f(8), f(8), None, "i32[B,T]<13"], (0, 1),
    ),
    "Attention": ("Attention", {"num_heads": 2}, ["f32[B,T,6]", f(6, 24), f(24)]),
    "Attention of other widths": (
        "Attention", {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 6], "scale": 0.7}, ["f32[B,T,6]", f(6, 22), f(22)],
    ),
    "Attention with a mask": (
        "Attention", {"num_heads": 2, "mask_filter_value": -3.0}, ["f32[B,T,6]", f(6, 24), f(24), "i32[B,T]<2"],
    ),
    "Attention with a mask for each query": ("Attention", {"num_heads": 2}, ["f32[B,T,6]", f(6, 24), f(24), "i32[B,T,T]<2"]),
    "Attention with lengths": ("Attention", {"num_heads": 2}, ["f32[B,T,6]", f(6, 24), f(24), "i32[B]<6"]),
    "Attention to what came before, with a mask": (
        "Attention", {"num_heads": 2, "unidirectional": 1, "mask_filter_value": -3.0}, ["f32[B,T,6]", f(6, 24), f(24), "i32[B,T]<2"],
    ),
    "Attention with a bias of scores": (
        "Attention", {"num_heads": 2}, ["f32[B,T,6]", f(6, 24), f(24), None, None, "f32[B,2,T,T]"],
    ),
    "Attention with a past": (
        "Attention", {"num_heads": 2, "unidirectional": 1},
        ["f32[B,T,6]", f(6, 24), f(24), None, "f32[2,B,2,P,4]"], (0, 1),
    ),
    "MultiHeadAttention": ("MultiHeadAttention", {"num_heads": 2}, ["f32[B,T,8]", "f32[B,S,8]", "f32[B,S,6]"]),
    "MultiHeadAttention with biases and a mask": (
        "MultiHeadAttention", {"num_heads": 2, "scale": 0.7, "mask_filter_value": -3.0},
        ["f32[B,T,8]", "f32[B,S,8]", "f32[B,S,6]", f(22), "i32[B,S]<2", "f32[1,2,T,S]"],
    ),
    "MultiHeadAttention of heads": ("MultiHeadAttention", {"num_heads": 2}, ["f32[B,T,8]", "f32[B,2,S,4]", "f32[B,2,S,4]"]),
    "MultiHeadAttention with a past": (
        "MultiHeadAttention", {"num_heads": 2, "unidirectional": 1},
        ["f32[B,T,8]", "f32[B,T,8]", "f32[B,T,8]", None, None, None, "f32[B,2,P,4]", "f32[B,2,P,4]"], (0, 1, 2),
    ),
    "RotaryEmbedding": ("RotaryEmbedding", {}, ["f32[B,2,T,6]", "i64[B,T]<11", f(11, 3), f(11, 3)]),
    "RotaryEmbedding, flat, from the first position on": (
        "RotaryEmbedding", {"interleaved": 1}, ["f32[B,T,12]", np.array([3]), f(13, 3), f(13, 3)],
    ),
    "RotaryEmbedding of a part": (
        "RotaryEmbedding", {"num_heads": 2, "rotary_embedding_dim": 4}, ["f32[B,T,12]", "i64[B,T]<11", f(11, 2), f(11, 2)],
    ),
    "QLinearAdd": ("QLinearAdd", {}, ["u8[B,T,5]", *A, "u8[T,5]", *W, *Y]),
    "QLinearAdd of a constant": ("QLinearAdd", {}, ["u8[B,5]", *A, u8(5), *W, *Y]),
    "QLinearMul": ("QLinearMul", {}, ["u8[B,T,5]", *A, u8(5), *W, *q(0.8317, 126)]),
    "QLinearWhere": ("QLinearWhere", {}, ["bool[B,1]", "u8[B,5]", *A, "u8[B,5]", *W, *Y]),
    "QLinearConcat": ("QLinearConcat", {"axis": 1}, [*Y, "u8[B,3]", *A, "u8[B,5]", *W, "u8[B,7]", *Y]),
    "QLinearSigmoid": ("QLinearSigmoid", {}, ["u8[B,5]", *A, *q(1 / 256, 0)]),
    "QLinearLeakyRelu": ("QLinearLeakyRelu", {"alpha": 0.3}, ["u8[B,5]", *A, *Y]),
    "QLinearLeakyRelu without a zero point": ("QLinearLeakyRelu", {}, ["u8[B,5]", A[0], None, *Y]),
    "QLinearSoftmax": ("QLinearSoftmax", {"axis": -1, "opset": 13}, ["u8[B,T,5]", *A, *q(1 / 256, 0)]),
    "QLinearSoftmax over an axis inside": ("QLinearSoftmax", {"axis": 1, "opset": 17}, ["u8[B,5,T]", *A, *q(1 / 256, 0)]),
    "QLinearGlobalAveragePool": ("QLinearGlobalAveragePool", {}, ["u8[B,3,T,S]", *A, *q(0.02, 126)]),
    "QLinearAveragePool": (
        "QLinearAveragePool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}, ["u8[B,3,11,7]", *A, *q(0.0437, 126)],
    ),
    "DynamicQuantizeMatMul": ("DynamicQuantizeMatMul", {}, ["f32[B,T,11]", u8(11, 7), np.abs(f(7)), u8(7), f(7)]),
    "DynamicQuantizeMatMul of one scale": ("DynamicQuantizeMatMul", {}, ["f32[B,11]", u8(11, 7), np.array(0.07, np.float32)]),
    "MatMulIntegerToFloat": (
        "MatMulIntegerToFloat", {}, ["u8[B,T,11]", u8(11, 7), A[0], np.abs(f(7)), A[1], u8(7), f(7)],
    ),
    "QGemm": ("QGemm", {"transB": 1}, ["u8[B,11]", *A, u8(7, 11), *W, RNG.integers(-999, 999, 7, np.int32), *q(0.7, 126)]),
    "QGemm to floats": ("QGemm", {"alpha": 0.5}, ["u8[B,11]", *A, u8(11, 7), *W]),
    "QGemm of a scale for each column": (
        "QGemm", {"transB": 1},
        ["u8[B,11]", *A, u8(7, 11), np.abs(f(7)), u8(7), RNG.integers(-999, 999, 7, np.int32), *q(3.3, 126)],
    ),
    "QuantizeLinear": ("QuantizeLinear", {}, ["f32[B,5]", np.array(0.01, np.float32), np.array(33, np.uint16)]),
    "DequantizeLinear": ("DequantizeLinear", {}, ["u8[B,5]", *A]),
}  # fmt: skip


@pytest.mark.parametrize("target", ["iOS15", "iOS18"])
@pytest.mark.parametrize("case", CASES)
def test_values(case, target, tmp_path):
    op, attributes, operands, *results = CASES[case]
    model = model_of(
        op, attributes, operands, *results, domain="" if op == "SimplifiedLayerNormalization" else "com.microsoft"
    )
    check(model, tmp_path, feeds_of(case, operands, 0), feeds_of(case, operands, 1), target=target)


REFUSED = {
    "mean and inv_std_var": ("SkipLayerNormalization", {}, ["f32[B,T,5]", "f32[B,T,5]", f(5)], (0, 1)),
    "transBatchA": ("FusedMatMul", {"transBatchA": 1}, ["f32[2,B,3]", "f32[B,3,2]"]),
    "the activation Softplus": ("FusedConv", {"activation": "Softplus"}, ["f32[B,3,11,7]", f(5, 3, 3, 2)]),
    "without its activation_params": ("FusedConv", {"activation": "LeakyRelu"}, ["f32[B,3,11,7]", f(5, 3, 3, 2)]),
    "wants them as constants": ("MatMulNBits", {"K": 16, "N": 7, "bits": 4, "block_size": 16}, ["f32[B,16]", "u8[7,1,8]", f(7, 1)]),
    "weights of 3 bits": ("MatMulNBits", {"K": 16, "N": 7, "bits": 3, "block_size": 16}, ["f32[B,16]", u8(7, 1, 6), f(7, 1)]),
    "g_idx": (
        "MatMulNBits", {"K": 16, "N": 7, "bits": 4, "block_size": 16},
        ["f32[B,16]", u8(7, 1, 8), f(7, 1), None, np.zeros(16, np.int32)],
    ),
    "not a matrix with blocks along its rows": (
        "GatherBlockQuantized", {"quantize_axis": 0, "block_size": 16, "bits": 8}, [u8(32, 11), "i64[B]<32", f(2, 11)],
    ),
    "do_rotary": ("Attention", {"num_heads": 2, "do_rotary": 1}, ["f32[B,T,6]", f(6, 24), f(24)]),
    "one of a number for each key": ("Attention", {"num_heads": 2}, ["f32[B,T,6]", f(6, 24), f(24), "i32[P]"]),
    "past_present_share_buffer": (
        "Attention", {"num_heads": 2, "past_present_share_buffer": 1},
        ["f32[B,T,6]", f(6, 24), f(24), None, "f32[2,B,2,P,4]", None, "i32[1]"], (0, 1),
    ),
    "packed in one tensor": ("MultiHeadAttention", {"num_heads": 2}, ["f32[B,T,2,3,4]"]),
    "is_packed_batching": ("RotaryEmbedding", {"is_packed_batching": 1}, ["f32[B,2,T,6]", "i64[B,T]", f(11, 3), f(11, 3)]),
    "positions that are scaled": ("RotaryEmbedding", {"scale": 2.0}, ["f32[B,2,T,6]", "i64[B,T]", f(11, 3), f(11, 3)]),
    "over several axes": ("QLinearSoftmax", {"axis": 1, "opset": 11}, ["u8[B,T,5]", *A, *Y]),
    "channels last": ("QLinearGlobalAveragePool", {"channels_last": 1}, ["u8[B,5,7,3]", *A, *Y]),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_refused_by_name(why):
    op, attributes, operands, *results = REFUSED[why]
    with pytest.raises(sardonyx.Error, match=why):
        sardonyx.to_coreml(model_of(op, attributes, operands, *results))


@pytest.mark.parametrize("bits", [4, 8])
def test_packed_weights_stay_packed(bits):
    weights = u8(7, 2, 2 * bits)
    attributes = {"K": 32, "N": 7, "bits": bits, "block_size": 16}
    model = model_of("MatMulNBits", attributes, ["f32[B,32]", weights, f(7, 2)])
    program = sardonyx.to_coreml(model, target="iOS18", precision="f32")
    assert program.op_counts()["constexpr_blockwise_shift_scale"] == 1


# 300 terms: sums of products of bytes could exceed the 2^24 that single precision holds, but not those of small weights.
SMALL = RNG.integers(128, 132, (300, 7)).astype(np.uint8)


@pytest.mark.parametrize(
    ("op", "operands"),
    [
        ("MatMulInteger", ["u8[B,300]", SMALL, np.array(3, np.uint8), np.array(130, np.uint8)]),
        ("ConvInteger", ["u8[B,300,5]", SMALL.T.reshape(7, 300, 1), np.array(3, np.uint8), np.array(130, np.uint8)]),
    ],
)
def test_integer_products_of_many_terms(op, operands, tmp_path):
    model = model_of(op, {}, operands, domain="")
    check(model, tmp_path, feeds_of(op, operands, 0), feeds_of(op, operands, 1), tolerance=0)
    operands = [operands[0], np.full_like(operands[1], 255)]
    with pytest.raises(sardonyx.Error, match="single precision cannot represent"):
        sardonyx.to_coreml(model_of(op, {}, operands, domain=""))


QUANTIZED = {
    "QLinearMatMul by columns": (
        "QLinearMatMul", {}, ["u8[B,T,300]", *A, u8(300, 7), np.abs(f(7)), u8(7), *q(7.7, 126)],
    ),
    "QLinearMatMul of many terms": ("QLinearMatMul", {}, ["u8[B,T,S]", *A, "u8[B,S,3]", *W, *q(0.5, 126)]),
    "QLinearConv": (
        "QLinearConv", {"strides": [2, 1], "pads": [1, 0, 1, 1]},
        ["u8[B,3,11,7]", *A, u8(5, 3, 3, 2), np.abs(f(5)), u8(5), *q(13, 126), RNG.integers(-999, 999, 5, np.int32)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["iOS15", "iOS18"])
@pytest.mark.parametrize("case", QUANTIZED)
def test_quantized_products(case, target, tmp_path):
    op, attributes, operands = QUANTIZED[case]
    model = model_of(op, attributes, operands, domain="")
    check(model, tmp_path, feeds_of(case, operands, 0), feeds_of(case, operands, 1), target=target)


def test_dynamically_quantized_products_fit_half_precision():
    """Their sums of integers do not."""
    b = Builder()
    quantized, scale, zero = b.op("DynamicQuantizeLinear", b.input("x", ["B", 300]), outputs=3)
    sums = b.op("MatMulInteger", quantized, b.constant(u8(300, 7)), zero, b.constant(np.array(127, np.uint8)))
    scales = b.op("Mul", scale, b.constant(np.float32(0.003)))
    model = b.model(y=b.op("Mul", b.op("Cast", sums, to=TensorProto.FLOAT), scales))
    x = {"x": f(5, 300)}
    wanted = run_onnx(model, x)["y"]
    program = sardonyx.to_coreml(model)
    assert np.abs(program.run(x)["y"] - wanted).max() < 0.01 * np.abs(wanted).max()
    assert program.op_counts()["constexpr_affine_dequantize"] == 1
