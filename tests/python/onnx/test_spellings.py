"""Patterns that TensorFlow's exporter writes for one operator, or in its own layout, fuse to that operator,
with the same results."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import sardonyx
from onnx import parser

ROWS = "(float[B,7,11] x) => (float[B,7,11] y)"
IMAGE = "(float[B,13,17,5] x) => (float[B,13,17,5] y)"
PLANES = "(float[B,5,13,17] x) => (float[B,5,13,17] y)"
THROUGH = "(float[B,13,17,5] x) => (float[B,13,17,3] y)"
HEADS = "(float[B,7,12] x) => (float[B,7,12] y)"
RNG = np.random.default_rng(0)


def constant(name: str, *shape: int) -> str:
    """A weight of that shape."""
    values = ",".join(f"{0.1 + abs(v):.3f}" for v in RNG.standard_normal(int(np.prod(shape))) * 0.3)
    return f"{name} = Constant<value = float[{','.join(map(str, shape))}] {{{values}}}>() "


def numbers(**named: float) -> str:
    return "".join(f"{name} = Constant<value = float {{{value}}}>() " for name, value in named.items())


def ints(**named: list[int]) -> str:
    return "".join(
        f"{name} = Constant<value = int64[{len(v)}] {{{','.join(map(str, v))}}}>() " for name, v in named.items()
    )


LAST = ints(last=[2])
BATCH_NORM = constant("w", 3, 5, 1, 1) + constant("g", 3) + constant("b", 3) + constant("m", 3) + constant("v", 3)
CUBE = numbers(h=0.5, o=1, k=0.044715, r=0.7978845608, t=3)
RELU6 = numbers(t=3, z=0, s=6, k=0.16666667)
MOMENTS = (
    LAST + numbers(e=1e-3) + constant("g", 11) + constant("b", 11) + "u = ReduceMean<keepdims=1>(x,last) d = Sub(x,u) "
)
INVERSE = "q = Mul(d,d) v = ReduceMean<keepdims=1>(q,last) w = Add(v,e) s = Sqrt(w) r = Reciprocal(s) "
SHIFTED = LAST + "a = ReduceMax<keepdims=1>(x,last) d = Sub(x,a) e = Exp(d) s = ReduceSum<keepdims=1>(e,last) "
NHWC = "xt = Transpose<perm=[0,3,1,2]>(x) c = Conv(xt,w) n = Transpose<perm=[0,2,3,1]>(c) "
BLOCKS = "a = Reshape(n,s) t = Transpose<perm=[0,1,3,2,4,5]>(a) z = Reshape(t,u) y = Transpose<perm=[0,3,1,2]>(z)"
QKV = constant("wq", 12, 12) + constant("wk", 12, 12) + constant("wv", 12, 12) + numbers(f=0.5)
SPLIT = ints(two=[-1, 12], four=[-1, 7, 3, 4], back=[-1, 7, 12])

# name: (signature, opset, body, operators that are left)
SPELLINGS: dict[str, tuple[str, int, str, list[str]]] = {
    "gelu by tanh": (
        ROWS, 20,
        CUBE + "p = Pow(x,t) q = Mul(k,p) s = Add(x,q) u = Mul(r,s) v = Tanh(u) w = Add(o,v) a = Mul(h,x) y = Mul(a,w)",
        ["Gelu"],
    ),
    "gelu by tanh, BERT's distribution function": (
        ROWS, 20,
        CUBE + "p = Pow(x,t) q = Mul(p,k) s = Add(q,x) u = Mul(s,r) v = Tanh(u) w = Add(v,o) a = Mul(w,h) y = Mul(x,a)",
        ["Gelu"],
    ),
    "gelu by erf": (
        ROWS, 20,
        numbers(h=0.5, o=1, k=0.70710677) + "d = Mul(x,k) e = Erf(d) w = Add(e,o) a = Mul(w,h) y = Mul(a,x)",
        ["Gelu"],
    ),
    "swish": (IMAGE, 24, "s = Sigmoid(x) y = Mul(s,x)", ["Swish"]),
    "hard swish by relu6": (IMAGE, 20, RELU6 + "a = Add(x,t) c = Clip(a,z,s) d = Mul(c,k) y = Mul(x,d)", ["HardSwish"]),
    "hard swish by relu6, divided last": (
        IMAGE, 20, RELU6 + "a = Add(x,t) c = Clip(a,z,s) d = Mul(x,c) y = Div(d,s)", ["HardSwish"],
    ),
    "hard swish by a minimum": (
        IMAGE, 20, RELU6 + "a = Add(x,t) r = Relu(a) c = Min(r,s) d = Mul(c,k) y = Mul(d,x)", ["HardSwish"],
    ),
    "hard sigmoid of Keras": (
        IMAGE, 20, numbers(k=0.2, h=0.5, z=0, o=1) + "a = Mul(x,k) c = Add(a,h) y = Clip(c,z,o)", ["HardSigmoid"],
    ),
    "leaky relu as a maximum": (IMAGE, 20, numbers(k=0.2) + "a = Mul(k,x) y = Max(x,a)", ["LeakyRelu"]),
    "prelu of parts": (
        IMAGE, 20,
        constant("k", 1, 1, 5) + "a = Relu(x) n = Neg(x) c = Relu(n) m = Neg(k) d = Mul(m,c) y = Add(a,d)", ["PRelu"],
    ),
    "prelu by the absolute value": (
        IMAGE, 20,
        numbers(h=0.5) + constant("k", 1, 1, 5) +
        "a = Relu(x) n = Abs(x) c = Sub(x,n) d = Mul(k,c) e = Mul(d,h) y = Add(a,e)", ["PRelu"],
    ),
    "softmax": (ROWS, 20, SHIFTED + "y = Div(e,s)", ["Softmax"]),
    "softmax by a reciprocal": (ROWS, 20, SHIFTED + "r = Reciprocal(s) y = Mul(e,r)", ["Softmax"]),
    "log softmax": (ROWS, 20, SHIFTED + "l = Log(s) y = Sub(d,l)", ["LogSoftmax"]),
    "layer norm as batch normalization": (
        ROWS, 20, MOMENTS + INVERSE + "i = Mul(r,g) n = Mul(x,i) o = Mul(u,i) c = Sub(b,o) y = Add(n,c)",
        ["LayerNormalization"],
    ),
    "layer norm, scale and bias last": (
        ROWS, 20, MOMENTS + INVERSE + "n = Mul(d,r) o = Mul(n,g) y = Add(o,b)", ["LayerNormalization"],
    ),
    "layer norm by a power": (
        ROWS, 20,
        MOMENTS + numbers(two=2, p=-0.5) +
        "q = Pow(d,two) v = ReduceMean<keepdims=1>(q,last) w = Add(v,e) r = Pow(w,p) n = Mul(d,r) o = Mul(n,g) y = Add(o,b)",
        ["LayerNormalization"],
    ),
    "batch normalization behind a transpose": (
        THROUGH, 20,
        BATCH_NORM + numbers(e=1e-3) + NHWC +
        "a = Add(v,e) q = Sqrt(a) r = Reciprocal(q) k = Mul(r,g) s = Mul(n,k) o = Mul(m,k) d = Sub(b,o) y = Add(s,d)",
        ["Transpose", "Conv", "Transpose"],
    ),
    "batch normalization by difference and quotient": (
        THROUGH, 20, BATCH_NORM + NHWC + "d = Sub(n,m) q = Div(d,v) k = Mul(q,g) y = Add(k,b)",
        ["Transpose", "Conv", "Transpose"],
    ),
    "resize between transposes": (
        PLANES.replace("13,17] y", "26,34] y"), 20,
        "sc = Constant<value = float[4] {1,2,2,1}>() t = Transpose<perm=[0,2,3,1]>(x) "
        'u = Resize<mode="nearest",coordinate_transformation_mode="asymmetric",nearest_mode="floor">(t,,sc) '
        "y = Transpose<perm=[0,3,1,2]>(u)",
        ["Resize"],
    ),
    "depth to space, channels last": (
        "(float[B,8,3,5] x) => (float[B,2,6,10] y)", 20,
        ints(s=[-1, 3, 5, 2, 2, 2], u=[-1, 6, 10, 2]) + "n = Transpose<perm=[0,2,3,1]>(x) " + BLOCKS,
        ["DepthToSpace"],
    ),
    "space to depth, channels last": (
        "(float[B,2,6,10] x) => (float[B,8,3,5] y)", 20,
        ints(s=[-1, 3, 2, 5, 2, 2], u=[-1, 3, 5, 8]) + "n = Transpose<perm=[0,2,3,1]>(x) " + BLOCKS,
        ["SpaceToDepth"],
    ),
    "pads before a convolution, channels last": (
        THROUGH, 20,
        constant("w", 3, 5, 3, 3) + ints(p=[0, 1, 1, 0, 0, 1, 1, 0]) +
        'a = Pad(x,p) t = Transpose<perm=[0,3,1,2]>(a) c = Conv<auto_pad="VALID",kernel_shape=[3,3]>(t,w) '
        "y = Transpose<perm=[0,2,3,1]>(c)",
        ["Transpose", "Conv", "Transpose"],
    ),
    "zeros before the first maximum of ResNet": (
        "(float[B,5,13,17] x) => (float[B,5,7,9] y)", 20,
        ints(p=[0, 0, 1, 1, 0, 0, 1, 1]) +
        'r = Relu(x) a = Pad(r,p) y = MaxPool<auto_pad="VALID",kernel_shape=[3,3],strides=[2,2]>(a)',
        ["Relu", "MaxPool"],
    ),
    "a dense layer over the last axis": (
        HEADS, 20,
        constant("w", 12, 12) + constant("b", 12) + ints(two=[-1, 12], axes=[0, 1], width=[12]) +
        "h = Shape(x) f = Gather<axis=0>(h,axes) a = Reshape(x,two) c = MatMul(a,w) o = Concat<axis=0>(f,width) "
        "r = Reshape(c,o) y = Add(r,b)",
        ["MatMul", "Add"],
    ),
    "attention of flattened products": (
        HEADS, 23,
        QKV + SPLIT + "a = Reshape(x,two) "
        "q0 = MatMul(a,wq) q1 = Reshape(q0,four) q = Transpose<perm=[0,2,1,3]>(q1) "
        "k0 = MatMul(a,wk) k1 = Reshape(k0,four) k2 = Transpose<perm=[0,2,1,3]>(k1) k = Transpose<perm=[0,1,3,2]>(k2) "
        "v0 = MatMul(a,wv) v1 = Reshape(v0,four) v = Transpose<perm=[0,2,1,3]>(v1) "
        "s0 = MatMul(q,k) s = Mul(s0,f) p = Softmax(s) o = MatMul(p,v) t = Transpose<perm=[0,2,1,3]>(o) y = Reshape(t,back)",
        ["MatMul", "MatMul", "MatMul", "Attention"],
    ),
    "attention of Keras, by einsum": (
        HEADS, 23,
        "".join(constant(w, 12, 3, 4) for w in ("wq", "wk", "wv")) + constant("wo", 3, 4, 12) + numbers(f=0.5) +
        "".join(constant(w, 3, 4) for w in ("bq", "bk", "bv")) +
        "".join(
            f'{v}0 = Einsum<equation="abc,cde->abde">(x,w{v}) {v}1 = Add({v}0,b{v}) ' for v in "qkv"
        ) +
        'q = Mul(q1,f) s = Einsum<equation="aecd,abcd->acbe">(k1,q) p = Softmax<axis=-1>(s) '
        'o = Einsum<equation="acbe,aecd->abcd">(p,v1) y = Einsum<equation="abcd,cde->abe">(o,wo)',
        ["MatMul", "Add", "MatMul", "Add", "MatMul", "Add", "Attention", "MatMul"],
    ),
}  # fmt: skip


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("name", SPELLINGS)
def test_tensorflow(name: str) -> None:
    signature, opset, body, left = SPELLINGS[name]
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> graph {signature} {{ {body} }}')
    onnx.checker.check_model(model)
    small = sardonyx.optimize(model, verify="model")
    assert [n.op_type for n in small.graph.node] == left
    if left == ["Swish"]:  # onnxruntime's CPU has it in some releases only; verify= has evaluated it
        return
    shape = [d.dim_value or 3 for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    before, after = run(model, x), run(small, x)
    assert np.abs(before - after).max() <= 2e-6 * np.abs(before).max()


@pytest.mark.parametrize("verify", ["model", "pass"])
def test_large_scores_of_attention_raise_no_alarm(verify: str) -> None:
    """The operator's scale comes after the sum: two rounded roots would cost more digits than the rule
    allows."""
    signature, opset, body, left = SPELLINGS["attention of flattened products"]
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> graph {signature} {{ {body} }}')
    rng = np.random.default_rng(0)
    for node in model.graph.node:
        value = node.attribute[0].t if node.op_type == "Constant" else None
        if value is not None and list(value.dims) == [12, 12]:
            value.CopyFrom(onnx.numpy_helper.from_array(rng.standard_normal((12, 12)).astype(np.float32)))
    small, report = sardonyx.optimize(model, verify=verify, return_report=True)
    assert [n.op_type for n in small.graph.node] == left
    assert report.faults == []
