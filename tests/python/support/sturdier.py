"""Small models that onnxruntime's own optimizer breaks in one of the supported releases, at one of its levels.

sturdier.py FILE    (run by scripts/pages/sturdier_page.py: judges the pickled models in the onnxruntime that it finds)
"""

import json
import pickle
import sys
from dataclasses import dataclass

import numpy as np

LEVELS = {0: "none", 1: "basic", 2: "extended", 99: "all"}
_TYPES = {1: "f4", 2: "u1", 3: "i1", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8"}
# For each width of floats: results of fused kernels are rounded otherwise, and a wrong one is off by far more.
_TOLERANCE = {2: 4e-3, 4: 1e-4, 8: 1e-6}


@dataclass
class Row:
    name: str
    signature: str
    body: str
    initializers: str = ""
    opset: int = 17
    issue: int | None = None  # of onnxruntime, where there is one
    half: bool = False  # in f16 instead of f32
    negative: bool = False  # inputs below zero
    scale: float = 1.5  # of inputs
    reason: str = ""  # why the optimized model is not right, either

    def model(self):
        import onnx
        import onnx.parser

        initializers = f"<{self.initializers}>" if self.initializers else ""
        model = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": {self.opset}]> g {self.signature} {initializers} {{ {self.body} }}'
        )
        if self.half:
            for v in (*model.graph.input, *model.graph.output):
                if v.type.tensor_type.elem_type == 1:
                    v.type.tensor_type.elem_type = 10
            for t in model.graph.initializer:
                if t.data_type == 1:
                    halves = onnx.numpy_helper.to_array(t).astype(np.float16)
                    t.CopyFrom(onnx.numpy_helper.from_array(halves, t.name))
        onnx.checker.check_model(model)
        return model

    def feeds(self, model) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(7)
        feeds = {}
        for i in model.graph.input:
            shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
            dtype = np.dtype(_TYPES[i.type.tensor_type.elem_type])
            x = rng.integers(-5, 5, shape) if dtype.kind in "iu" else rng.standard_normal(shape) * self.scale
            feeds[i.name] = np.asarray(-np.abs(x) - 1 if self.negative else x).astype(dtype)
        return feeds


ROWS = [
    Row(
        "Identity before a product by one",
        "(float[3,5] x) => (float[3,5] y)",
        "mid = Identity(x) d = Div(one, one) y = Mul(mid, d)",
        initializers="float one = {1}",
        issue=32413,
    ),
    Row(
        "Identity before a product by one on the left",
        "(float[3,5] x) => (float[3,5] y)",
        "mid = Identity(x) d = Div(one, one) y = Mul(d, mid)",
        initializers="float one = {1}",
        issue=32413,
    ),
    Row(
        "Cast to its own type before a product by one",
        "(float[3,5] x) => (float[3,5] y)",
        "mid = Cast<to=1>(x) d = Div(one, one) y = Mul(mid, d)",
        initializers="float one = {1}",
        issue=32416,
    ),
    Row(
        "Cast to its own type before a product by one on the left",
        "(float[3,5] x) => (float[3,5] y)",
        "mid = Cast<to=1>(x) d = Div(one, one) y = Mul(d, mid)",
        initializers="float one = {1}",
        issue=32416,
    ),
    Row(
        "Dropout before a product by one",
        "(float[3,5] x) => (float[3,5] y)",
        "mid = Dropout(x) d = Div(one, one) y = Mul(mid, d)",
        initializers="float one = {1}",
        issue=32414,
    ),
    Row(
        "Dropout before a product by one on the left",
        "(float[3,5] x) => (float[3,5] y)",
        "mid = Dropout(x) d = Div(one, one) y = Mul(d, mid)",
        initializers="float one = {1}",
        issue=32414,
    ),
    Row(
        "Identity before a product by a reciprocal",
        "(float[3,5] x, float[3,5] w) => (float[3,5] y)",
        "mid = Identity(x) d = Div(one, w) y = Mul(mid, d)",
        initializers="float one = {1}",
        issue=32413,
    ),
    Row(
        "a reciprocal with more axes times a value",
        "(float[3,5] x, float[5] w) => (float[1,3,5] y)",
        "d = Div(one, w) y = Mul(x, d)",
        initializers="float[1,1,1] one = {1}",
        reason="a reciprocal that adds axes: other spellings take a node more",
    ),
    Row(
        "identity transpose of A, square",
        "(float[3,3] x) => (float[3,3] y)",
        "t = Transpose<perm=[0,1]>(x) p = MatMul(t, w) y = Add(p, b)",
        initializers="float[3,3] w = {1,2,3,4,5,6,7,8,10}, float[3] b = {1,2,3}",
        issue=32228,
    ),
    Row(
        "identity transpose of B, square",
        "(float[3,3] x, float[3,3] v) => (float[3,3] y)",
        "t = Transpose<perm=[0,1]>(v) p = MatMul(x, t) y = Add(p, b)",
        initializers="float[3,3] w = {1,2,3,4,5,6,7,8,10}, float[3] b = {1,2,3}",
        issue=32228,
    ),
    Row(
        "identity transpose of A in Gemm",
        "(float[3,5] x, float[5,7] w, float[7] b) => (float[3,7] y)",
        "t = Transpose<perm=[0,1]>(x) y = Gemm(t, w, b)",
        issue=32417,
    ),
    Row(
        "identity transpose of B in Gemm",
        "(float[3,5] x, float[5,7] w, float[7] b) => (float[3,7] y)",
        "t = Transpose<perm=[0,1]>(w) y = Gemm(x, t, b)",
        issue=32418,
    ),
    Row(
        "allowzero lost",
        "(float[0,6,2] x) => (float[0,0,3] y)",
        "a = Reshape(x, s) y = Reshape<allowzero=1>(a, t)",
        initializers="int64[3] s = {3,2,-1}, int64[3] t = {0,0,3}",
        issue=28349,
    ),
    Row(
        "Relu before Clip of double",
        "(double[3,5] x) => (double[3,5] y)",
        "r = Relu(x) y = Clip(r, lo, hi)",
        initializers="double lo = {-1}, double hi = {1}",
        issue=23116,
    ),
    Row(
        "Relu before Clip of int32",
        "(int32[3,5] x) => (int32[3,5] y)",
        "r = Relu(x) y = Clip(r, lo, hi)",
        initializers="int32 lo = {-1}, int32 hi = {2}",
        issue=23116,
    ),
    Row(
        "Relu before Clip of int8",
        "(int8[3,5] x) => (int8[3,5] y)",
        "r = Relu(x) y = Clip(r, lo, hi)",
        initializers="int8 lo = {-1}, int8 hi = {2}",
        issue=23116,
    ),
    Row(
        "Add before LayerNormalization with scale of rank 3, float",
        "(float[2,3,5] x, float[2,3,5] z) => (float[2,3,5] y)",
        "s = Add(x, z) y = LayerNormalization<axis=-1>(s, g, b)",
        initializers="float[1,1,5] g = {1,2,3,4,5}, float[1,1,5] b = {1,2,3,4,5}",
        issue=27455,
    ),
    Row(
        "quick GELU of double",
        "(double[3,5] x) => (double[3,5] y)",
        "a = Mul(x, c) s = Sigmoid(a) y = Mul(x, s)",
        initializers="double c = {1.702}",
        issue=32421,
        reason="a spelling that it leaves alone takes a node more; `legalize` for a release before 1.31 writes it",
    ),
    Row(
        "MatMul, transpose, double",
        "(double[3,5] x, double[3,7] w) => (double[5,7] y)",
        "t = Transpose(x) y = MatMul(t, w)",
    ),
    Row(
        "transpose of A by a vector",
        "(float[3,5] x, float[3] v) => (float[5] y)",
        "t = Transpose(x) y = MatMul(t, v)",
    ),
    Row(
        "transposes of several matrices by a vector",
        "(float[2,3,5] x, float[3] v) => (float[2,5] y)",
        "t = Transpose<perm=[0,2,1]>(x) y = MatMul(t, v)",
    ),
    Row(
        "transpose of A by a vector, double",
        "(double[3,5] x, double[3] v) => (double[5] y)",
        "t = Transpose(x) y = MatMul(t, v)",
    ),
    Row(
        "RMS norm written out, double",
        "(double[3,5] x) => (double[3,5] y)",
        "q = Pow(x, two) v = ReduceMean<axes=[-1],keepdims=1>(q) e = Add(v, eps) r = Sqrt(e) "
        "n = Div(x, r) y = Mul(n, g)",
        initializers="double two = {2}, double eps = {0.001}, double[5] g = {1,2,3,4,5}",
        issue=29153,
    ),
    Row(
        "layer norm written out, double",
        "(double[3,5] x) => (double[3,5] y)",
        "mu = ReduceMean<axes=[-1],keepdims=1>(x) c = Sub(x, mu) q = Pow(c, two) "
        "v = ReduceMean<axes=[-1],keepdims=1>(q) e = Add(v, eps) r = Sqrt(e) n = Div(c, r) "
        "k = Mul(n, g) y = Add(k, b)",
        initializers="double two = {2}, double eps = {0.001}, double[5] g = {1,2,3,4,5}, double[5] b = {1,2,3,4,5}",
        issue=29153,
    ),
    Row(
        "quick GELU of a scalar with a list of one",
        "(float x, float[1] z) => (float[2] y)",
        "a = Mul(x, c) s = Sigmoid(a) q = Mul(x, s) y = Concat<axis=0>(q, z)",
        initializers="float[1] c = {1.702}",
        issue=24340,
    ),
    Row(
        "GELU of scalar with lists of one",
        "(float x, float[1] z) => (float[2] y)",
        "a = Div(x, r) e = Erf(a) p = Add(e, one) q = Mul(x, p) k = Mul(q, h) y = Concat<axis=0>(k, z)",
        initializers="float[1] r = {1.4142135}, float one = {1}, float h = {0.5}",
        issue=24340,
    ),
    Row(
        "layer norm by a scale that broadcasts",
        "(float[3,1] x) => (float[3,5] y)",
        "mu = ReduceMean<axes=[-1],keepdims=1>(x) c = Sub(x, mu) q = Pow(c, two) "
        "v = ReduceMean<axes=[-1],keepdims=1>(q) e = Add(v, eps) r = Sqrt(e) n = Div(c, r) "
        "y = Mul(n, g)",
        initializers="float two = {2}, float eps = {0.001}, float[5] g = {1,2,3,4,5}",
        issue=31980,
    ),
    Row(
        "layer norm by a scale and bias that broadcast",
        "(float[3,1] x) => (float[3,5] y)",
        "mu = ReduceMean<axes=[-1],keepdims=1>(x) c = Sub(x, mu) q = Pow(c, two) "
        "v = ReduceMean<axes=[-1],keepdims=1>(q) e = Add(v, eps) r = Sqrt(e) n = Div(c, r) "
        "k = Mul(n, g) y = Add(k, b)",
        initializers="float two = {2}, float eps = {0.001}, float[5] g = {1,2,3,4,5}, float[5] b = {1,2,3,4,5}",
        issue=31980,
    ),
    Row(
        "RMS norm by a scale that broadcasts",
        "(float[3,1] x) => (float[3,5] y)",
        "q = Pow(x, two) v = ReduceMean<axes=[-1],keepdims=1>(q) e = Add(v, eps) r = Sqrt(e) "
        "n = Div(x, r) y = Mul(n, g)",
        initializers="float two = {2}, float eps = {0.001}, float[5] g = {1,2,3,4,5}",
        issue=31980,
    ),
    Row(
        "layer norm with epsilon of rank 3",
        "(float[3,5] x) => (float[1,3,5] y)",
        "mu = ReduceMean<axes=[-1],keepdims=1>(x) c = Sub(x, mu) q = Pow(c, two) "
        "v = ReduceMean<axes=[-1],keepdims=1>(q) e = Add(v, eps) r = Sqrt(e) n = Div(c, r) "
        "k = Mul(n, g) y = Add(k, b)",
        initializers=(
            "float two = {2}, float[1,1,1] eps = {0.001}, float[5] g = {1,2,3,4,5}, float[5] b = {1,2,3,4,5}"
        ),
    ),
    Row(
        "Add before LayerNormalization from axis 1",
        "(float[2,3,5] x, float[2,3,5] z) => (float[2,3,5] y)",
        "s = Add(x, z) y = LayerNormalization<axis=1>(s, g)",
        initializers="float[3,5] g = {1,2,3,4,5,1,2,3,4,5,1,2,3,4,5}",
        issue=27455,
    ),
    Row(
        "a constant of 8-bit integers",
        "(float[2,2] x) => (float[2,2] y)",
        "f = DequantizeLinear(w, s) r = Reshape(f, d) y = Add(x, r)",
        initializers="int8[4] w = {12,-45,7,-3}, float s = {0.02}, int64[2] d = {2,2}",
        issue=28491,
    ),
    Row(
        "Constant of 8-bit integers",
        "(float[2,2] x) => (float[2,2] y)",
        "w = Constant<value = int8[4] {12,-45,7,-3}>() s = Constant<value_float=0.02>() "
        "d = Constant<value_ints=[2,2]>() f = DequantizeLinear(w, s) r = Reshape(f, d) "
        "y = Add(x, r)",
        issue=28491,
    ),
    Row(
        "quantized Resize",
        "(float[1,1,1,3] x) => (float[1,1,1,7] y)",
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) "
        'r = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(d, , , n) '
        "p = QuantizeLinear(r, s, z) y = DequantizeLinear(p, s, z)",
        initializers="float s = {1}, int8 z = {0}, int64[4] n = {1,1,1,7}",
        issue=28448,
        scale=5,
        reason="kernels on integers round otherwise, which quantized models ask for",
    ),
    Row(
        "quantized average",
        "(float[1,1,5,7] x) => (float[1,1,4,6] y)",
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) "
        "r = AveragePool<kernel_shape=[2,2]>(d) p = QuantizeLinear(r, s, z) "
        "y = DequantizeLinear(p, s, z)",
        initializers="float s = {0.1}, int8 z = {0}",
        issue=32132,
        reason="kernels on integers round otherwise, which quantized models ask for",
    ),
    Row(
        "quantized sum",
        "(float[3,5] x, float[3,5] w) => (float[3,5] y)",
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) q2 = QuantizeLinear(w, t, z) "
        "d2 = DequantizeLinear(q2, t, z) r = Add(d, d2) p = QuantizeLinear(r, s, z) "
        "y = DequantizeLinear(p, s, z)",
        initializers="float s = {0.1}, float t = {0.07}, int8 z = {0}",
        issue=32132,
        reason="kernels on integers round otherwise, which quantized models ask for",
    ),
    Row(
        "double quantization",
        "(float[3,5] x) => (float[3,5] y)",
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) q2 = QuantizeLinear(d, t, z) "
        "y = DequantizeLinear(q2, t, z)",
        initializers="float s = {0.1}, float t = {0.23}, int8 z = {0}",
        issue=25259,
        reason="onnxruntime drops the inner pair, which quantized models ask for",
    ),
    Row(
        "SiLU of double",
        "(double[3,5] x) => (double[3,5] y)",
        "s = Sigmoid(x) y = Mul(x, s)",
        issue=32421,
        reason="a spelling that it leaves alone takes a node more; `legalize` for a release before 1.31 writes it",
    ),
    Row(
        "SiLU of double, other order",
        "(double[3,5] x) => (double[3,5] y)",
        "s = Sigmoid(x) y = Mul(s, x)",
        issue=32421,
        reason="a spelling that it leaves alone takes a node more; `legalize` for a release before 1.31 writes it",
    ),
    Row(
        "zeros before MaxPool, opset 11",
        "(float[2,3,11,13] x) => (float[2,3,6,7] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        opset=11,
        negative=True,
    ),
    Row(
        "zeros before MaxPool, opset 13",
        "(float[2,3,11,13] x) => (float[2,3,6,7] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        opset=13,
        negative=True,
    ),
    Row(
        "zeros before MaxPool, opset 17",
        "(float[2,3,11,13] x) => (float[2,3,6,7] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        negative=True,
    ),
    Row(
        "zeros before MaxPool, opset 18",
        "(float[2,3,11,13] x) => (float[2,3,6,7] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        opset=18,
        negative=True,
    ),
    Row(
        "zeros before MaxPool, opset 21",
        "(float[2,3,11,13] x) => (float[2,3,6,7] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        opset=21,
        negative=True,
    ),
    Row(
        "zeros before MaxPool, opset 22",
        "(float[2,3,11,13] x) => (float[2,3,6,7] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        opset=22,
        negative=True,
    ),
    Row(
        "zeros before MaxPool, opset 23",
        "(float[2,3,11,13] x) => (float[2,3,6,7] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        opset=23,
        negative=True,
    ),
    Row(
        "zeros before MaxPool, opset 9",
        "(float[2,3,11,13] x) => (float[2,3,6,7] y)",
        "p = Pad<pads=[0,0,1,1,0,0,1,1]>(x) y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(p)",
        opset=9,
        negative=True,
    ),
    Row(
        "zeros, given, before MaxPool",
        "(float[2,3,11,13] x) => (float[2,3,6,7] y)",
        "p = Pad(x, pads, zero) y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[0,0,0,0]>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}, float zero = {0}",
        negative=True,
    ),
    Row(
        "zeros before MaxPool with pads",
        "(float[2,3,11,13] x) => (float[2,3,7,7] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,0,0,1]>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        negative=True,
    ),
    Row(
        "zeros before MaxPool with pads, opset 21",
        "(float[2,3,11,13] x) => (float[2,3,7,7] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,0,0,1]>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        opset=21,
        negative=True,
    ),
    Row(
        "zeros before MaxPool with ceil_mode",
        "(float[2,3,11,13] x) => (float[2,3,5,5] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[2,2], strides=[3,3], ceil_mode=1>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        opset=21,
        negative=True,
    ),
    Row(
        "zeros before MaxPool of a cast",
        "(float16[2,3,11,13] x) => (float[2,3,6,7] y)",
        "p = Pad(x, pads) c = Cast<to=1>(p) y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(c)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        negative=True,
    ),
    Row(
        "zeros before MaxPool of one axis",
        "(float[2,3,11] x) => (float[2,3,11] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3]>(p)",
        initializers="int64[6] pads = {0,0,1,0,0,1}",
        negative=True,
    ),
    Row(
        "zeros before MaxPool of three axes",
        "(float[1,2,5,7,3] x) => (float[1,2,5,7,3] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3,3]>(p)",
        initializers="int64[10] pads = {0,0,1,1,1,0,0,1,1,1}",
        negative=True,
    ),
    Row(
        "zeros before MaxPool, double",
        "(double[2,3,11] x) => (double[2,3,11] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3]>(p)",
        initializers="int64[6] pads = {0,0,1,0,0,1}",
        negative=True,
    ),
    Row(
        "zeros before MaxPool, int8",
        "(int8[2,3,11] x) => (int8[2,3,11] y)",
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3]>(p)",
        initializers="int64[6] pads = {0,0,1,0,0,1}",
        negative=True,
    ),
    Row(
        "zeros after Conv, before MaxPool, as in ResNetV2",
        "(float[2,3,11,13] x, float[5,3,3,3] w) => (float[2,5,5,6] y)",
        "q = Conv(x, w) p = Pad(q, pads) y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(p)",
        initializers="int64[8] pads = {0,0,1,1,0,0,1,1}",
        opset=21,
    ),
]


def difference(wanted: list[np.ndarray], found: list[np.ndarray]) -> str:
    for a, b in zip(wanted, found, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}"
        if a.dtype.kind != "f":
            if not np.array_equal(a, b):
                return "other values"
            continue
        bound = _TOLERANCE[a.dtype.itemsize]
        if not np.allclose(a.astype("f8"), b.astype("f8"), bound, bound, equal_nan=True):
            return "other values"
    return ""


def run(model: bytes, feeds: dict[str, np.ndarray], level: int) -> list[np.ndarray]:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel(level)
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def judged(model: bytes, feeds: dict[str, np.ndarray], wanted: list[np.ndarray]) -> dict[str, str]:
    """By level: what is wrong."""
    wrong = {}
    for level, name in LEVELS.items():
        try:
            wrong[name] = difference(wanted, run(model, feeds, level))
        except Exception as e:
            wrong[name] = f"does not run: {str(e).splitlines()[0][:160]}"
    return {name: text for name, text in wrong.items() if text}


def main() -> None:
    import onnxruntime

    with open(sys.argv[1], "rb") as file:
        rows = pickle.load(file)
    results = []
    for before, after, feeds in rows:
        wanted = run(before, feeds, 0)
        results.append([judged(before, feeds, wanted), judged(after, feeds, wanted)])
    print(json.dumps({"release": onnxruntime.__version__, "rows": results}))


if __name__ == "__main__":
    main()
