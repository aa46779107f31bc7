"""Small graphs that half precision breaks when each node is cast: masks, tiny epsilons, squares, positions, long sums.

Each has at least one product with a weight, which becomes half precision. `x` is f32[7,61], `h` is x times a weight,
and the nodes compute `y`. In constants, floats are f32 scalars and lists are of int64.
"""

from typing import NamedTuple

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

N, D = 7, 61
LOWEST = float(np.finfo(np.float32).min)
LAST, FIRST, ONE = [-1], [0], [1]
ROOT = 61.0**0.5


def normal(*shape, seed=0, scale=1.0, mean=0.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale + mean).astype(np.float32)


class Graph(NamedTuple):
    name: str
    nodes: str
    inputs: dict
    constants: dict
    stays: bool = False  # whether all of it has to stay in single precision


def graph(name, nodes, *, x=None, inputs=None, stays=False, **constants):
    inputs = {"x": normal(N, D) if x is None else x} | (inputs or {})
    kinds = {float: np.float32, list: np.int64, int: np.int64}
    given = {k: np.asarray(v, kinds.get(type(v))) for k, v in constants.items()}
    return Graph(name, nodes, inputs, given, stays)


def model_of(g: Graph) -> onnx.ModelProto:
    types = {"float32": "float", "int64": "int64", "bool": "bool", "uint8": "uint8"}
    header = ", ".join(f"{types[str(v.dtype)]}[{','.join(map(str, v.shape))}] {k}" for k, v in g.inputs.items())
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 20]>
        g ({header}) => (float[] y) {{ h = MatMul(x, w) {g.nodes} }}""")
    weight = normal(D, D, seed=1, scale=D**-0.5)
    for name, value in ({"w": weight} | g.constants).items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    return model


SEEN = np.tril(np.ones((N, N), np.float32), -1)  # the first row sees nothing
SCORES = "t = Transpose <perm = [1, 0]> (h) z = MatMul(h, t) s = Div(z, root)"
VARIANCE = "m = ReduceMean <keepdims = 1> (a, last) c = Sub(a, m) q = Mul(c, c) v = ReduceMean <keepdims = 1> (q, last)"

GRAPHS = [
    # Masks and softmax.
    graph(
        "mask of -1e9 times zero or one",
        f"{SCORES} b = Sub(one, seen) k = Mul(b, low) a = Add(s, k) p = Softmax(a) y = MatMul(p, h)",
        inputs={"seen": SEEN}, one=1.0, low=-1e9, root=ROOT,
    ),
    graph(
        "mask of -1e4 times zero or one",
        f"{SCORES} b = Sub(one, seen) k = Mul(b, low) a = Add(s, k) p = Softmax(a) y = MatMul(p, h)",
        inputs={"seen": SEEN}, one=1.0, low=-1e4, root=ROOT,
    ),
    graph(
        "mask by Where with the lowest number, scaled before",
        f"{SCORES} a = Where(seen, s, low) p = Softmax(a) y = MatMul(p, h)",
        inputs={"seen": SEEN > 0}, low=LOWEST, root=ROOT,
    ),
    graph(
        "mask by Where with infinity",
        f"{SCORES} a = Where(seen, s, low) p = Softmax(a) y = MatMul(p, h)",
        inputs={"seen": np.tril(np.ones((N, N), bool))}, low=-np.inf, root=ROOT,
    ),
    graph(
        "masks of Trilu",
        f"{SCORES} f = Expand(low, size) k = Trilu <upper = 1> (f, one) a = Add(s, k) p = Softmax(a) "
        "y = MatMul(p, h)",
        low=LOWEST, size=[N, N], one=1, root=ROOT,
    ),
    graph(
        "two masks that are added",
        f"{SCORES} b = Sub(one, seen) k = Mul(b, low) e = Add(k, k) a = Add(s, e) p = Softmax(a) "
        "y = MatMul(p, h)",
        inputs={"seen": SEEN}, one=1.0, low=LOWEST / 2, root=ROOT,
    ),
    graph(
        "a softmax that is written out, with masks",
        f"{SCORES} b = Sub(one, seen) k = Mul(b, low) a = Add(s, k) "
        "m = ReduceMax <keepdims = 1> (a, last) d = Sub(a, m) e = Exp(d) "
        "n = ReduceSum <keepdims = 1> (e, last) p = Div(e, n) y = MatMul(p, h)",
        inputs={"seen": SEEN}, one=1.0, low=-1e9, last=LAST, root=ROOT,
    ),
    graph(
        "the largest of masked values",
        "a = Where(seen, h, low) m = ReduceMax <keepdims = 1> (a, last) y = Mul(m, half)",
        inputs={"seen": normal(N, D, seed=3) > 0}, low=-1e9, last=LAST, half=0.5,
    ),
    graph(
        "a softmax of temperature 1e-3",
        "a = Div(h, t) p = Softmax(a) y = MatMul(p, u)",
        t=1e-3, u=normal(D, 13, seed=2), x=normal(N, D, scale=0.03),
    ),
    graph(
        "LogSoftmax",
        "l = Mul(h, k) y = LogSoftmax(l)",
        k=30.0,
    ),
    graph(
        "a logarithm of a softmax",
        "l = Mul(h, k) p = Softmax(l) y = Log(p)",
        k=8.0,
    ),
    graph(
        "ReduceLogSumExp of large numbers",
        "l = Mul(h, k) y = ReduceLogSumExp <keepdims = 1> (l, last)",
        k=50.0, last=LAST,
    ),
    graph(
        "a logarithm of a sum of exponentials",
        "l = Mul(h, k) e = Exp(l) s = ReduceSum <keepdims = 1> (e, last) y = Log(s)",
        k=6.0, last=LAST,
    ),
    # Variances and norms.
    graph(
        "variance as a difference of squares",
        "a = Add(h, k) q = Mul(a, a) e = ReduceMean <keepdims = 1> (q, last) "
        "m = ReduceMean <keepdims = 1> (a, last) o = Mul(m, m) y = Sub(e, o)",
        k=20.0, last=LAST,
    ),
    graph(
        "L2 normalization of tiny values",
        "a = Mul(h, k) n = ReduceL2 <keepdims = 1> (a, last) m = Max(n, eps) u = Div(a, m) "
        "y = MatMul(u, v)",
        k=1e-6, eps=1e-12, last=LAST, v=normal(D, 13, seed=2),
    ),
    graph(
        "L2 normalization of large values",
        "a = Mul(h, k) n = ReduceL2 <keepdims = 1> (a, last) u = Div(a, n) y = MatMul(u, v)",
        k=1e4, last=LAST, v=normal(D, 13, seed=2),
    ),
    graph(
        "LpNormalization of large values",
        "a = Mul(h, k) u = LpNormalization <p = 2, axis = -1> (a) y = MatMul(u, v)",
        k=3e3, v=normal(D, 13, seed=2),
    ),
    graph(
        "cosine similarity",
        "q = Mul(h, h) s = ReduceSum <keepdims = 1> (q, last) r = Sqrt(s) n = Max(r, eps) "
        "u = Div(h, n) t = Transpose <perm = [1, 0]> (u) y = MatMul(u, t)",
        eps=1e-8, last=LAST, x=normal(N, D, scale=60),
    ),
    graph(
        "layer normalization with an epsilon of 1e-12",
        f"a = Mul(h, k) {VARIANCE} e = Add(v, eps) d = Sqrt(e) z = Div(c, d) y = MatMul(z, u)",
        k=1e-2, eps=1e-12, last=LAST, u=normal(D, 13, seed=2),
    ),
    graph(
        "layer normalization of small values",
        f"a = Mul(h, k) {VARIANCE} e = Add(v, eps) d = Sqrt(e) z = Div(c, d) y = MatMul(z, u)",
        k=1e-4, eps=1e-12, last=LAST, u=normal(D, 13, seed=2),
    ),
    graph(
        "layer normalization of large values",
        f"a = Mul(h, k) {VARIANCE} e = Add(v, eps) d = Sqrt(e) z = Div(c, d) y = MatMul(z, u)",
        k=1e3, eps=1e-5, last=LAST, u=normal(D, 13, seed=2),
    ),
    graph(
        "LayerNormalization with an epsilon of 1e-12",
        "a = Mul(h, k) z = LayerNormalization <epsilon = 1e-12> (a, g, b) y = MatMul(z, u)",
        k=1e-3, g=np.ones(D, np.float32), b=np.zeros(D, np.float32), u=normal(D, 13, seed=2),
    ),
    graph(
        "group normalization with a large mean",
        "a = Add(h, k) r = Reshape(a, shape) z = InstanceNormalization(r, g, b) y = Reshape(z, back)",
        k=100.0, shape=[N, 1, D], g=np.ones(1, np.float32), b=np.zeros(1, np.float32), back=[N, D],
    ),
    graph(
        "batch normalization with tiny variances",
        "z = BatchNormalization <epsilon = 1e-12> (h, g, b, m, v) y = MatMul(z, u)",
        g=np.full(D, 1e-4, np.float32), b=np.zeros(D, np.float32), m=normal(D, seed=4), v=np.full(D, 1e-8, np.float32),
        u=normal(D, 13, seed=2),
    ),
    graph(
        "RMS normalization of values near 300",
        "a = Mul(h, k) q = Mul(a, a) v = ReduceMean <keepdims = 1> (q, last) e = Add(v, eps) "
        "d = Sqrt(e) i = Reciprocal(d) z = Mul(a, i) y = MatMul(z, u)",
        k=300.0, eps=1e-6, last=LAST, u=normal(D, 13, seed=2),
    ),
    graph(
        "RMS normalization by Pow",
        "a = Mul(h, k) q = Pow(a, two) v = ReduceMean <keepdims = 1> (q, last) e = Add(v, eps) "
        "d = Sqrt(e) z = Div(a, d) y = MatMul(z, u)",
        k=400.0, two=2.0, eps=1e-6, last=LAST, u=normal(D, 13, seed=2),
    ),
    graph(
        "a square root of x + 1e-12",
        "q = Mul(h, h) e = Add(q, eps) r = Sqrt(e) y = MatMul(r, u)",
        eps=1e-12, u=normal(D, 13, seed=2),
    ),
    graph(
        "ReduceSumSquare",
        "a = Mul(h, k) s = ReduceSumSquare <keepdims = 1> (a, last) y = Div(a, s)",
        k=90.0, last=LAST,
    ),
    graph(
        "a norm over a convolution's weights",
        "n = ReduceL2 <keepdims = 1> (v, last) u = Div(v, n) y = MatMul(h, u)",
        v=normal(D, 13, seed=2, scale=500), last=LAST,
    ),
    # Activations.
    graph(
        "GELU by tanh with a cube",
        "a = Mul(h, k) p = Pow(a, three) c = Mul(p, coefficient) s = Add(a, c) f = Mul(s, factor) "
        "t = Tanh(f) o = Add(t, one) g = Mul(a, o) y = Mul(g, half)",
        k=16.0, three=3.0, coefficient=0.044715, factor=0.7978846, one=1.0, half=0.5,
    ),
    graph(
        "GELU by erf",
        "d = Div(h, root) e = Erf(d) o = Add(e, one) g = Mul(h, o) y = Mul(g, half)",
        root=2.0**0.5, one=1.0, half=0.5,
    ),
    graph(
        "swish of 300",
        "a = Mul(h, k) s = Sigmoid(a) y = Mul(a, s)",
        k=100.0,
    ),
    graph(
        "softplus written out",
        "a = Mul(h, k) e = Exp(a) o = Add(one, e) y = Log(o)",
        k=10.0, one=1.0,
    ),
    graph(
        "Softplus",
        "a = Mul(h, k) y = Softplus(a)",
        k=30.0,
    ),
    graph(
        "a kernel exp(-d^2)",
        "t = Transpose <perm = [1, 0]> (h) s = MatMul(h, t) q = Mul(h, h) "
        "n = ReduceSum <keepdims = 1> (q, last) o = Transpose <perm = [1, 0]> (n) b = Add(n, o) "
        "c = Mul(s, two) d = Sub(b, c) e = Mul(d, gamma) y = Exp(e)",
        last=LAST, two=2.0, gamma=-0.01,
    ),
    graph(
        "the eighth power",
        "y = Pow(h, eight)",
        eight=8.0, x=normal(N, D, scale=0.5),
    ),
    graph(
        "clipped to 1e38",
        "c = Clip(h, low, high) y = MatMul(c, u)",
        low=-1e38, high=1e38, u=normal(D, 13, seed=2),
    ),
    graph(
        "sinh and cosh",
        "a = Mul(h, k) p = Sinh(a) q = Cosh(a) y = Div(p, q)",
        k=5.0,
    ),
    graph(
        "the reciprocal of 1e-6",
        "a = Mul(h, k) b = Abs(a) e = Add(b, eps) r = Reciprocal(e) y = Mul(r, eps)",
        k=1e-5, eps=1e-6, stays=True,
    ),
    graph(
        "a quotient by a small sum",
        "b = Abs(h) a = Mul(b, k) s = ReduceSum <keepdims = 1> (a, last) y = Div(a, s)",
        k=1e-7, last=LAST,
    ),
    # Long sums and large counts.
    graph(
        "a mean of 70,000",
        "r = Tile(h, times) e = Exp(r) y = ReduceMean <keepdims = 0> (e, first)",
        times=[10007, 1], first=FIRST,
    ),
    graph(
        "a running sum of 5000",
        "a = Abs(h) r = Tile(a, times) y = CumSum(r, zero)",
        times=[719, 1], zero=0,
    ),
    graph(
        "an exclusive running sum, backward",
        "a = Abs(h) r = Tile(a, times) y = CumSum <exclusive = 1, reverse = 1> (r, zero)",
        times=[719, 1], zero=0,
    ),
    graph(
        "a count of 5000",
        "e = Exp(h) r = Tile(e, times) p = Greater(r, zero) f = Cast <to = 1> (p) "
        "y = ReduceSum <keepdims = 0> (f, first)",
        times=[719, 1], first=FIRST, zero=0.0,
    ),
    graph(
        "a sum over an image",
        'r = Reshape(h, shape) u = Resize <mode = "nearest"> (r, , scales) e = Exp(u) '
        "y = ReduceSum <keepdims = 0> (e, axes)",
        shape=[1, N, D, 1], scales=np.array([1, 1, 16, 128], np.float32), axes=[2, 3],
    ),
    graph(
        "a product of 61 numbers",
        "a = Mul(h, k) y = ReduceProd <keepdims = 1> (a, last)",
        k=2.0, last=LAST,
    ),
    graph(
        "a geometric mean",
        "a = Abs(h) e = Add(a, eps) l = Log(e) m = ReduceMean <keepdims = 1> (l, last) y = Exp(m)",
        eps=0.01, last=LAST,
    ),
    # Positions, angles, integers.
    graph(
        "rotary angles up to 100,000",
        "f = Cast <to = 1> (ids) c = Unsqueeze(f, one) a = Mul(c, frequencies) s = Sin(a) o = Cos(a) "
        "p = Mul(h, s) q = Mul(h, o) y = Add(p, q)",
        inputs={"ids": np.array([0, 1, 2051, 30011, 49999, 70001, 99991])}, one=ONE,
        frequencies=np.geomspace(1, 1e-4, D, dtype=np.float32),
    ),
    graph(
        "rotary angles by a product",
        "f = Cast <to = 1> (ids) c = Unsqueeze(f, one) a = MatMul(c, frequencies) s = Sin(a) "
        "y = Mul(h, s)",
        inputs={"ids": np.array([0, 1, 2051, 30011, 49999, 70001, 99991])}, one=ONE,
        frequencies=np.geomspace(1, 1e-4, D, dtype=np.float32)[None],
    ),
    graph(
        "a table of sinusoids by Range",
        "n = Cast <to = 1> (count) r = Range(zero, n, step) c = Unsqueeze(r, one) "
        "a = Mul(c, frequencies) s = Sin(a) g = Gather(s, ids) y = Add(h, g)",
        inputs={"count": np.array(5003), "ids": np.array([0, 1, 2051, 3001, 4001, 4999, 5002])}, zero=0.0, step=1.0,
        one=ONE, frequencies=np.geomspace(1, 1e-4, D, dtype=np.float32),
    ),
    graph(
        "floors of positions",
        "f = Cast <to = 1> (ids) d = Div(f, seven) g = Floor(d) i = Cast <to = 7> (g) e = Gather(t, i) "
        "y = Add(h, e)",
        inputs={"ids": np.array([0, 6, 2051, 3001, 4001, 4999, 5002])}, seven=7.0, t=normal(719, D, seed=5),
    ),
    graph(
        "remainders of positions",
        "f = Cast <to = 1> (ids) r = Mod <fmod = 1> (f, period) c = Unsqueeze(r, one) y = Mul(h, c)",
        inputs={"ids": np.array([0, 6, 20511, 30011, 40013, 49999, 50021])}, period=24.0, one=ONE,
    ),
    graph(
        "times in seconds",
        "f = Cast <to = 1> (ids) d = Div(f, day) g = Floor(d) b = Mul(g, day) r = Sub(f, b) "
        "e = Div(r, day) c = Unsqueeze(e, one) y = Add(h, c)",
        inputs={"ids": np.array([0, 86399, 86401, 200003, 400009, 900001, 1600033])}, day=86400.0, one=ONE,
    ),
    graph(
        "one-hot by Equal of floats",
        "f = Cast <to = 1> (ids) c = Unsqueeze(f, one) e = Equal(c, classes) o = Cast <to = 1> (e) "
        "g = MatMul(o, t) y = Add(h, g)",
        inputs={"ids": np.array([0, 1, 2049, 2050, 3001, 3002, 3003])}, one=ONE,
        classes=np.arange(3011, dtype=np.float32), t=normal(3011, D, seed=6),
    ),
    graph(
        "indices by GatherND",
        "f = Cast <to = 1> (ids) d = Div(f, sixty) c = Cast <to = 7> (d) g = GatherND(t, c) "
        "z = Unsqueeze(g, one) y = Add(h, z)",
        inputs={"ids": np.stack([np.arange(N) * 10007, np.arange(N) * 61], 1)}, sixty=61.0, t=normal(1009, 11, seed=7),
        one=ONE,
    ),
    graph(
        "bins of a histogram",
        "s = Sigmoid(h) k = Mul(s, bins) f = Floor(k) i = Cast <to = 7> (f) r = Reshape(i, flat) "
        "y = Gather(t, r)",
        bins=11.0, flat=[-1], t=np.arange(12, dtype=np.float32), x=np.zeros((N, D), np.float32),
    ),
    graph(
        "pixel coordinates of a 4k image",
        "f = Cast <to = 1> (ids) d = Div(f, width) p = Mul(d, two) q = Sub(p, one) "
        "c = Unsqueeze(q, axis) y = Mul(h, c)",
        inputs={"ids": np.array([0, 1, 2047, 2049, 3001, 3839, 3840])}, width=1920.0, two=2.0, one=1.0, axis=ONE,
    ),
    graph(
        "areas of boxes above 65504",
        "a = Abs(h) k = Mul(a, size) b = Slice(k, zero, one, last) c = Slice(k, one, two, last) "
        "d = Mul(b, c) e = Sub(d, b) y = Div(d, e)",
        size=500.0, zero=FIRST, one=ONE, two=[2], last=LAST,
    ),
    graph(
        "intersection over union",
        "a = Abs(h) k = Mul(a, size) b = Slice(k, zero, three, last) c = Slice(k, three, six, last) "
        "m = Min(b, c) i = ReduceProd <keepdims = 1> (m, last) p = ReduceProd <keepdims = 1> (b, last) "
        "q = ReduceProd <keepdims = 1> (c, last) s = Add(p, q) u = Sub(s, i) y = Div(i, u)",
        size=200.0, zero=FIRST, three=[3], six=[6], last=LAST,
    ),
    graph(
        "GridSample",
        'r = Reshape(h, shape) y = GridSample <padding_mode = "border"> (r, grid)',
        shape=[1, 1, N, D], inputs={"grid": np.linspace(-1, 1, 2 * 13 * 17, dtype=np.float32).reshape(1, 13, 17, 2)},
    ),
    graph(
        "Resize to sizes",
        'r = Reshape(h, shape) y = Resize <mode = "linear"> (r, , , sizes)',
        shape=[1, 1, N, D], sizes=[1, 1, 13, 101],
    ),
    graph(
        "RoiAlign",
        "r = Reshape(h, shape) y = RoiAlign <output_height = 3, output_width = 2> (r, rois, batch)",
        shape=[1, 1, N, D],
        inputs={"rois": np.array([[0.3, 0.2, 40.7, 5.9], [10, 1, 59.99, 6]], np.float32), "batch": np.array([0, 0])},
    ),
    # Losses and images.
    graph(
        "binary cross entropy with log(p + 1e-8)",
        "s = Sigmoid(h) p = Add(s, eps) l = Log(p) n = Sub(one, s) o = Add(n, eps) m = Log(o) "
        "q = Add(l, m) y = MatMul(q, u)",
        eps=1e-8, one=1.0, u=normal(D, 13, seed=2), x=normal(N, D, scale=4),
    ),
    graph(
        "divergence of Kullback and Leibler",
        "p = Softmax(h) l = LogSoftmax(h) q = Softmax(g) m = Log(q) d = Sub(l, m) k = Mul(p, d) "
        "y = ReduceSum <keepdims = 1> (k, last)",
        inputs={"g": normal(N, D, seed=8)}, last=LAST,
    ),
    graph(
        "Huber",
        "a = Mul(h, k) b = Abs(a) q = Mul(a, a) s = Mul(q, half) l = Sub(b, half) c = Less(b, one) "
        "e = Where(c, s, l) y = ReduceMean <keepdims = 1> (e, last)",
        k=500.0, half=0.5, one=1.0, last=LAST,
    ),
    graph(
        "an image divided by 255, with mean and deviation",
        "f = Cast <to = 1> (image) d = Div(f, most) c = Sub(d, mean) n = Div(c, deviation) "
        "y = MatMul(n, u)",
        inputs={"image": (np.arange(N * D).reshape(N, D) % 256).astype(np.uint8)}, most=255.0, mean=0.485,
        deviation=0.229, u=normal(D, 13, seed=2),
    ),
    graph(
        "tiny scales of DequantizeLinear",
        "q = QuantizeLinear(h, scale, zero) d = DequantizeLinear(q, scale, zero) m = Mul(d, k) "
        "y = MatMul(m, u)",
        scale=1e-6, zero=np.int8(0), k=1e4, u=normal(D, 13, seed=2), x=normal(N, D, scale=3e-5),
    ),
    # Comparisons.
    graph(
        "IsInf and IsNaN",
        "b = IsInf(h) c = IsNaN(h) o = Or(b, c) z = Where(o, zero, h) y = MatMul(z, u)",
        zero=0.0, u=normal(D, 13, seed=2), x=normal(N, D, scale=300),
    ),
    graph(
        "numbers beyond 65504 that come back",
        "a = Mul(h, k) m = ReduceMax <keepdims = 1> (a, last) y = Div(a, m)",
        k=1e6, last=LAST, stays=True,
    ),
    # Bodies.
    graph(
        "a counter of a loop in floats",
        "e, c = Loop <body = b (int64 i, bool go, float f) => (bool on, float u, float r) { u = Add(f, step) "
        "r = Mul(f, third) on = Less(u, most) }> (, yes, zero) l = Sub(c, zero) "
        "t = ReduceMax <keepdims = 0> (l) y = Mul(h, t)",
        zero=0.0, step=1.0, third=0.25, most=4001.0, yes=np.array(True),
    ),
    graph(
        "a sum that Scan carries",
        "r = Tile(h, times) "
        "s, y = Scan <num_scan_inputs = 1, body = b (float[61] a, float[61] v) => (float[61] u, float[61] o) "
        "{ q = Mul(v, v) "
        "u = Add(a, q) o = Identity(u) }> (start, r)",
        times=[401, 1], start=np.zeros(D, np.float32),
    ),
    graph(
        "branches of an If",
        "y = If <then_branch = a () => (float[7,61] p) { k = Mul(h, large) q = Mul(k, k) "
        "n = ReduceMean <keepdims = 1> (q, last) r = Sqrt(n) "
        "p = Div(k, r) }, else_branch = b () => (float[7,61] e) { e = Tanh(h) }> (yes)",
        inputs={"yes": np.array(True)}, large=400.0, last=LAST,
    ),
    graph(
        "an Einsum of squares",
        'a = Mul(h, k) s = Einsum <equation = "ij,ij->i"> (a, a) r = Sqrt(s) c = Unsqueeze(r, one) '
        "y = Div(a, c)",
        k=100.0, one=ONE,
    ),
    graph(
        "an LSTM of 97 steps",
        "r = Reshape(h, shape) t = Tile(r, times) y, last, cell = LSTM <hidden_size = 13> (t, v, q)",
        shape=[N, 1, D], times=[14, 1, 1], v=normal(1, 52, D, seed=9, scale=0.3),
        q=normal(1, 52, 13, seed=10, scale=0.3),
    ),
    graph(
        "attention over 4099 keys",
        "k = MatMul(keys, w) t = Transpose <perm = [1, 0]> (k) s = MatMul(h, t) p = Softmax(s) "
        "y = MatMul(p, k)",
        inputs={"keys": normal(4099, D, seed=11)},
    ),
]  # fmt: skip
