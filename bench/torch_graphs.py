"""Graphs as PyTorch's exporters spell them, built with `onnx.helper`: sizes read at run time, weights of seeded noise."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["GRAPHS"]


class Writer:
    """Appends nodes under unique names; integers become Constant nodes, as tracing leaves them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes):
        names = [f"/{kind}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"/{kind}_{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value) -> str:
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value)))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def weight(self, *shape: int, scale: float = 0.1) -> str:
        name = f"weight_{len(self.weights)}"
        values = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def size(self, x: str, axis: int) -> str:
        return self.op("Gather", self.op("Shape", x), self.constant(np.array(axis, np.int64)), axis=0)

    def shape(self, *parts: str | int) -> str:
        """A shape of sizes read at run time and integers, one Unsqueeze each."""
        pieces = []
        for part in parts:
            scalar = self.constant(np.array(part, np.int64)) if isinstance(part, int) else part
            pieces.append(self.op("Unsqueeze", scalar, self.ints(0)))
        return self.op("Concat", *pieces, axis=0)

    def model(self, inputs: list, outputs: list[tuple[str, list]]) -> onnx.ModelProto:
        for name, _ in outputs:
            self.nodes.append(helper.make_node("Identity", [self.renamed[name]], [name]))
        graph = helper.make_graph(
            self.nodes,
            "main_graph",
            [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    renamed: dict[str, str] = {}


def encoder(layers: int = 4, width: int = 64, heads: int = 4, vocabulary: int = 211) -> onnx.ModelProto:
    """A transformer encoder with dynamic batch and length: a mask by Expand, heads by View, LayerNorm and Gelu in pieces."""
    w = Writer(0)
    head = width // heads

    def f32(value: float) -> str:
        return w.constant(np.array(value, np.float32))

    def linear(x: str, a: int, b: int) -> str:
        return w.op("Add", w.weight(b, scale=0.01), w.op("MatMul", x, w.weight(a, b)))

    def norm(x: str) -> str:
        centred = w.op("Sub", x, w.op("ReduceMean", x, axes=[-1]))
        variance = w.op("ReduceMean", w.op("Pow", centred, f32(2)), axes=[-1])
        y = w.op("Div", centred, w.op("Sqrt", w.op("Add", variance, f32(1e-5))))
        return w.op("Add", w.op("Mul", y, w.weight(width)), w.weight(width))

    def gelu(x: str) -> str:
        half = w.op("Mul", x, w.op("Add", w.op("Erf", w.op("Div", x, f32(2**0.5))), f32(1)))
        return w.op("Mul", half, f32(0.5))

    batch, length = w.size("ids", 0), w.size("ids", 1)
    # The idiom of Tensor.expand: -1 means the size that is there.
    wanted = w.shape(batch, 1, length, length)
    ones = w.op("ConstantOfShape", w.op("Shape", wanted), value=numpy_helper.from_array(np.array([1], np.int64)))
    negative = w.op("Equal", wanted, w.op("Mul", ones, w.constant(np.array(-1, np.int64))))
    mask = w.op("Unsqueeze", w.op("Unsqueeze", "mask", w.ints(1)), w.ints(2))
    mask = w.op("Expand", mask, w.op("Where", negative, ones, wanted))
    mask = w.op("Sub", f32(1), w.op("Cast", mask, to=TensorProto.FLOAT))
    mask = w.op("Where", w.op("Cast", mask, to=TensorProto.BOOL), f32(np.finfo(np.float32).min), mask)

    positions = w.op("Range", w.constant(np.int64(0)), length, w.constant(np.int64(1)))
    positions = w.op("Gather", w.weight(128, width), w.op("Unsqueeze", positions, w.ints(0)))
    x = norm(w.op("Add", w.op("Gather", w.weight(vocabulary, width), "ids"), positions))
    for _ in range(layers):

        def split(y: str) -> str:
            y = w.op("Reshape", y, w.shape(w.size(y, 0), w.size(y, 1), heads, head))
            return w.op("Transpose", y, perm=[0, 2, 1, 3])

        q, k, v = (split(linear(x, width, width)) for _ in range(3))
        scores = w.op("MatMul", q, w.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = w.op("Add", w.op("Div", scores, f32(head**0.5)), mask)
        y = w.op("Transpose", w.op("MatMul", w.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        y = w.op("Reshape", y, w.shape(w.size(y, 0), w.size(y, 1), width))
        x = norm(w.op("Add", w.op("Identity", linear(y, width, width)), x))
        x = norm(w.op("Add", linear(gelu(linear(x, width, 4 * width)), 4 * width, width), x))
    w.renamed = {"hidden": x}
    ids = [("ids", TensorProto.INT64, ["batch", "length"]), ("mask", TensorProto.INT64, ["batch", "length"])]
    return w.model(ids, [("hidden", ["batch", "length", width])])


def detector(size: int = 3) -> onnx.ModelProto:
    """A detector's head: three maps with batch norms, resized by run-time sizes, anchors, boxes from Split and Concat."""
    w = Writer(1)
    anchors, classes, width = 3, 5, 13

    def conv(x: str, a: int, b: int, kernel: int, stride: int = 1) -> str:
        y = w.op(
            "Conv",
            x,
            w.weight(b, a, kernel, kernel),
            kernel_shape=[kernel] * 2,
            pads=[kernel // 2] * 4,
            strides=[stride] * 2,
        )
        ones = [w.op("Abs", w.weight(b)) for _ in range(2)]
        y = w.op("BatchNormalization", y, ones[0], w.weight(b), w.weight(b), ones[1])
        return w.op("Mul", y, w.op("Sigmoid", y))

    maps, x = [], conv("image", 3, width, 3, 2)
    for _ in range(size):
        x = conv(x, width, width, 3, 2)
        maps.append(x)
    for i in range(size - 2, -1, -1):
        target = w.shape(w.size(maps[i], 2), w.size(maps[i], 3))
        start = w.op("Slice", w.op("Shape", maps[i + 1]), w.ints(0), w.ints(2), w.ints(0))
        sizes = w.op("Concat", start, w.op("Cast", target, to=TensorProto.INT64), axis=0)
        up = w.op(
            "Resize",
            maps[i + 1],
            "",
            "",
            sizes,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        maps[i] = conv(w.op("Concat", up, maps[i], axis=1), 2 * width, width, 1)
    results = []
    for level, feature in enumerate(maps):
        each = classes + 5
        y = w.op("Conv", feature, w.weight(anchors * each, width, 1, 1), w.weight(anchors * each), kernel_shape=[1, 1])
        b, rows, columns = w.size(y, 0), w.size(y, 2), w.size(y, 3)
        y = w.op("Transpose", w.op("Reshape", y, w.shape(b, anchors, each, rows, columns)), perm=[0, 1, 3, 4, 2])
        y = w.op("Sigmoid", y)
        place, extent, rest = w.op("Split", y, w.ints(2, 2, classes + 1), outputs=3, axis=4)
        zero, one = w.constant(np.int64(0)), w.constant(np.int64(1))
        down = w.op("Reshape", w.op("Range", zero, rows, one), w.ints(-1, 1))
        across = w.op("Reshape", w.op("Range", zero, columns, one), w.ints(1, -1))
        full = w.shape(rows, columns)
        grid = [w.op("Unsqueeze", w.op("Expand", g, full), w.ints(-1)) for g in (across, down)]
        grid = w.op("Cast", w.op("Concat", *grid, axis=-1), to=TensorProto.FLOAT)
        grid = w.op("Reshape", grid, w.shape(1, 1, rows, columns, 2))
        stride = w.constant(np.array(2.0 ** (level + 2), np.float32))
        place = w.op(
            "Mul",
            w.op("Add", w.op("Sub", w.op("Mul", place, w.constant(np.float32(2))), w.constant(np.float32(0.5))), grid),
            stride,
        )
        extent = w.op(
            "Mul",
            w.op("Pow", w.op("Mul", extent, w.constant(np.float32(2))), w.constant(np.float32(2))),
            w.weight(1, anchors, 1, 1, 2),
        )
        y = w.op("Concat", place, extent, rest, axis=4)
        results.append(w.op("Reshape", y, w.shape(b, -1, each)))
    w.renamed = {"boxes": w.op("Concat", *results, axis=1)}
    image = [("image", TensorProto.FLOAT, ["batch", 3, "height", "width"])]
    return w.model(image, [("boxes", ["batch", "count", classes + 5])])


GRAPHS = {"torch_encoder": encoder, "torch_detector": detector}
