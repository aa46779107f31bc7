"""Graphs as PyTorch's exporters write them, built with `onnx.helper`: sizes read at run time, weights of
seeded noise."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["GRAPHS"]


class Writer:
    """Appends nodes with unique names. Integers become Constant nodes, as in a trace."""

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
        """A shape of run-time sizes and integers, with one Unsqueeze each."""
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
        centered = w.op("Sub", x, w.op("ReduceMean", x, axes=[-1]))
        variance = w.op("ReduceMean", w.op("Pow", centered, f32(2)), axes=[-1])
        y = w.op("Div", centered, w.op("Sqrt", w.op("Add", variance, f32(1e-5))))
        return w.op("Add", w.op("Mul", y, w.weight(width)), w.weight(width))

    def gelu(x: str) -> str:
        half = w.op("Mul", x, w.op("Add", w.op("Erf", w.op("Div", x, f32(2**0.5))), f32(1)))
        return w.op("Mul", half, f32(0.5))

    batch, length = w.size("ids", 0), w.size("ids", 1)
    # Tensor.expand's idiom: -1 keeps the size.
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


def f32(w: Writer, value: float) -> str:
    return w.constant(np.array(value, np.float32))


def layer_norm(w: Writer, x: str, width: int) -> str:
    return w.op("LayerNormalization", x, w.weight(width), w.weight(width), axis=-1, epsilon=1e-5)


def gelu_erf(w: Writer, x: str) -> str:
    erf = w.op("Erf", w.op("Div", x, f32(w, 2**0.5)))
    return w.op("Mul", w.op("Mul", x, w.op("Add", erf, f32(w, 1))), f32(w, 0.5))


def vit(layers: int = 12, width: int = 768, heads: int = 12, patch: int = 16, size: int = 224) -> onnx.ModelProto:
    """ViT-B/16: patches by a convolution, a class token by Expand, heads out of one product, static sizes but the batch."""
    w = Writer(2)
    head, tokens = width // heads, (size // patch) ** 2 + 1
    patches = w.op(
        "Conv",
        "image",
        w.weight(width, 3, patch, patch, scale=0.02),
        w.weight(width),
        kernel_shape=[patch, patch],
        strides=[patch, patch],
    )
    batch = w.size(patches, 0)
    flat = w.op("Concat", w.op("Unsqueeze", batch, w.ints(0)), w.ints(width), w.ints(tokens - 1), axis=0)
    x = w.op("Transpose", w.op("Reshape", patches, flat), perm=[0, 2, 1])
    token = w.op("Expand", w.weight(1, 1, width), w.shape(batch, 1, width))
    x = w.op("Add", w.op("Concat", token, x, axis=1), w.weight(1, tokens, width))
    for _ in range(layers):
        y = layer_norm(w, x, width)
        y = w.op("Add", w.op("MatMul", y, w.weight(width, 3 * width, scale=0.02)), w.weight(3 * width))
        y = w.op("Reshape", y, w.shape(batch, tokens, 3, heads, head))
        y = w.op("Transpose", y, perm=[2, 0, 3, 1, 4])
        q, k, v = (w.op("Gather", y, w.constant(np.array(i, np.int64)), axis=0) for i in range(3))
        scores = w.op("MatMul", w.op("Mul", q, f32(w, head**-0.5)), w.op("Transpose", k, perm=[0, 1, 3, 2]))
        y = w.op("MatMul", w.op("Softmax", scores, axis=-1), v)
        y = w.op("Reshape", w.op("Transpose", y, perm=[0, 2, 1, 3]), w.shape(batch, tokens, width))
        y = w.op("Add", w.weight(width), w.op("MatMul", y, w.weight(width, width, scale=0.02)))
        x = w.op("Add", x, y)
        y = w.op("MatMul", layer_norm(w, x, width), w.weight(width, 4 * width, scale=0.02))
        y = gelu_erf(w, w.op("Add", w.weight(4 * width), y))
        y = w.op("Add", w.weight(width), w.op("MatMul", y, w.weight(4 * width, width, scale=0.02)))
        x = w.op("Add", x, y)
    first = w.op("Gather", layer_norm(w, x, width), w.constant(np.array(0, np.int64)), axis=1)
    w.renamed = {"logits": w.op("Gemm", first, w.weight(1000, width, scale=0.02), w.weight(1000), transB=1)}
    image = [("image", TensorProto.FLOAT, ["batch", 3, size, size])]
    return w.model(image, [("logits", ["batch", 1000])])


def gpt2(layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50257) -> onnx.ModelProto:
    """GPT-2-small: Gemm between Reshapes, a causal mask cut out of a constant, Gelu by tanh, logits by the tied embedding."""
    w = Writer(3)
    head, longest = width // heads, 1024
    zero = w.constant(np.array([0], np.int64))

    def linear(x: str, a: int, b: int) -> str:
        flat = w.op("Reshape", x, w.ints(-1, a))
        y = w.op("Gemm", flat, w.weight(a, b, scale=0.02), w.weight(b))
        return w.op("Reshape", y, w.shape(w.size(x, 0), w.size(x, 1), b))

    def gelu(x: str) -> str:
        inner = w.op("Add", x, w.op("Mul", w.op("Pow", x, f32(w, 3)), f32(w, 0.044715)))
        tanh = w.op("Tanh", w.op("Mul", inner, f32(w, (2 / np.pi) ** 0.5)))
        return w.op("Mul", w.op("Mul", x, f32(w, 0.5)), w.op("Add", tanh, f32(w, 1)))

    batch, length = w.size("ids", 0), w.size("ids", 1)
    ids = w.op("Reshape", "ids", w.op("Concat", w.ints(-1), w.op("Unsqueeze", length, w.ints(0)), axis=0))
    positions = w.op("Range", w.constant(np.int64(0)), length, w.constant(np.int64(1)))
    positions = w.op("Reshape", w.op("Unsqueeze", positions, w.ints(0)), w.shape(-1, length))
    embedding = w.weight(vocabulary, width, scale=0.02)
    x = w.op("Add", w.op("Gather", embedding, ids), w.op("Gather", w.weight(longest, width, scale=0.02), positions))
    lower = numpy_helper.from_array(np.tril(np.ones((1, 1, longest, longest), np.bool_)), "lower")
    w.weights.append(lower)
    for _ in range(layers):
        y = linear(layer_norm(w, x, width), width, 3 * width)

        def split(part: str) -> str:
            part = w.op("Reshape", part, w.shape(w.size(part, 0), w.size(part, 1), heads, head))
            return w.op("Transpose", part, perm=[0, 2, 1, 3])

        q, k, v = (split(part) for part in w.op("Split", y, w.ints(width, width, width), outputs=3, axis=2))
        scores = w.op("MatMul", q, w.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = w.op("Div", scores, w.op("Sqrt", f32(w, head)))
        rows = w.op("Unsqueeze", w.size(k, 2), w.ints(0))
        mask = w.op("Slice", "lower", zero, rows, w.ints(2), w.ints(1))
        mask = w.op("Slice", mask, zero, rows, w.ints(3), w.ints(1))
        scores = w.op("Where", mask, scores, f32(w, np.finfo(np.float32).min))
        y = w.op("Transpose", w.op("MatMul", w.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        y = w.op("Reshape", y, w.shape(w.size(y, 0), w.size(y, 1), width))
        x = w.op("Add", x, linear(y, width, width))
        y = linear(gelu(linear(layer_norm(w, x, width), width, 4 * width)), 4 * width, width)
        x = w.op("Add", x, y)
    x = w.op("Reshape", layer_norm(w, x, width), w.shape(batch, length, width))
    w.renamed = {"logits": w.op("MatMul", x, w.op("Transpose", embedding, perm=[1, 0]))}
    return w.model([("ids", TensorProto.INT64, ["batch", "length"])], [("logits", ["batch", "length", vocabulary])])


def unet(width: int = 32, levels: int = 4) -> onnx.ModelProto:
    """A U-Net: convolutions with batch norms, max pooling, transposed convolutions, padding by run-time sizes, Concat."""
    w = Writer(4)

    def conv(x: str, a: int, b: int) -> str:
        y = w.op("Conv", x, w.weight(b, a, 3, 3, scale=0.05), w.weight(b), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        mean, variance = w.weight(b), w.op("Abs", w.weight(b))
        return w.op("Relu", w.op("BatchNormalization", y, w.weight(b), w.weight(b), mean, variance))

    def twice(x: str, a: int, b: int) -> str:
        return conv(conv(x, a, b), b, b)

    skips, x, a = [], twice("image", 3, width), width
    for _ in range(levels):
        skips.append((x, a))
        x, a = twice(w.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), a, 2 * a), 2 * a
    for skip, b in reversed(skips):
        up = w.op(
            "ConvTranspose", x, w.weight(a, b, 2, 2, scale=0.05), w.weight(b), kernel_shape=[2, 2], strides=[2, 2]
        )
        missing = [w.op("Sub", w.size(skip, axis), w.size(up, axis)) for axis in (2, 3)]
        two = w.constant(np.array(2, np.int64))
        before = [w.op("Div", m, two) for m in missing]
        after = [w.op("Sub", m, half) for m, half in zip(missing, before, strict=True)]
        pads = w.shape(0, 0, *before, 0, 0, *after)
        x, a = twice(w.op("Concat", skip, w.op("Pad", up, pads, f32(w, 0)), axis=1), 2 * b, b), b
    w.renamed = {"mask": w.op("Conv", x, w.weight(2, width, 1, 1), w.weight(2), kernel_shape=[1, 1])}
    image = [("image", TensorProto.FLOAT, ["batch", 3, "height", "width"])]
    return w.model(image, [("mask", ["batch", 2, "height", "width"])])


def swin(width: int = 96, depths: tuple[int, ...] = (2, 2, 6, 2), window: int = 7, size: int = 224) -> onnx.ModelProto:
    """Swin-T: windows by Reshape and Transpose, shifts by Slice and Concat, biases by Gather, patches merged by strided Slice."""
    w = Writer(5)
    area = window * window

    def roll(x: str, by: int) -> str:
        for axis in (1, 2):
            cut, far = w.ints(-by if by < 0 else by), w.ints(np.iinfo(np.int64).max)
            low = w.op("Slice", x, w.ints(0), cut, w.ints(axis)) if by > 0 else w.op("Slice", x, cut, far, w.ints(axis))
            high = (
                w.op("Slice", x, cut, far, w.ints(axis)) if by > 0 else w.op("Slice", x, w.ints(0), cut, w.ints(axis))
            )
            x = w.op("Concat", high, low, axis=axis) if by > 0 else w.op("Concat", low, high, axis=axis)
        return x

    def block(x: str, batch: str, side: int, c: int, heads: int, shift: int) -> str:
        count, head = side // window, c // heads
        y = w.op("Reshape", layer_norm(w, x, c), w.shape(batch, side, side, c))
        if shift:
            y = roll(y, shift)
        y = w.op("Reshape", y, w.shape(batch, count, window, count, window, c))
        y = w.op("Reshape", w.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), w.ints(-1, area, c))
        y = w.op("Add", w.op("MatMul", y, w.weight(c, 3 * c, scale=0.02)), w.weight(3 * c))
        y = w.op("Reshape", y, w.shape(w.size(y, 0), area, 3, heads, head))
        y = w.op("Transpose", y, perm=[2, 0, 3, 1, 4])
        q, k, v = (w.op("Gather", y, w.constant(np.array(i, np.int64)), axis=0) for i in range(3))
        scores = w.op("MatMul", w.op("Mul", q, f32(w, head**-0.5)), w.op("Transpose", k, perm=[0, 1, 3, 2]))
        places = w.constant(w.rng.integers(0, (2 * window - 1) ** 2, area * area))
        bias = w.op("Gather", w.weight((2 * window - 1) ** 2, heads), places, axis=0)
        bias = w.op("Transpose", w.op("Reshape", bias, w.ints(area, area, heads)), perm=[2, 0, 1])
        scores = w.op("Add", scores, w.op("Unsqueeze", bias, w.ints(0)))
        if shift:
            mask = w.constant((w.rng.integers(0, 2, (count * count, area, area)) * -100).astype(np.float32))
            shape = w.shape(
                w.op("Div", w.size(y, 1), w.constant(np.int64(count * count))), count * count, heads, area, area
            )
            mask = w.op("Unsqueeze", w.op("Unsqueeze", mask, w.ints(1)), w.ints(0))
            scores = w.op("Add", w.op("Reshape", scores, shape), mask)
            scores = w.op("Reshape", scores, w.ints(-1, heads, area, area))
        y = w.op("Transpose", w.op("MatMul", w.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        y = w.op("Reshape", y, w.ints(-1, area, c))
        y = w.op("Add", w.weight(c), w.op("MatMul", y, w.weight(c, c, scale=0.02)))
        y = w.op("Reshape", y, w.shape(-1, count, count, window, window, c))
        y = w.op("Reshape", w.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), w.shape(batch, side, side, c))
        if shift:
            y = roll(y, -shift)
        x = w.op("Add", x, w.op("Reshape", y, w.shape(batch, side * side, c)))
        y = w.op("Add", w.weight(4 * c), w.op("MatMul", layer_norm(w, x, c), w.weight(c, 4 * c, scale=0.02)))
        y = w.op("Add", w.weight(c), w.op("MatMul", gelu_erf(w, y), w.weight(4 * c, c, scale=0.02)))
        return w.op("Add", x, y)

    patches = w.op(
        "Conv", "image", w.weight(width, 3, 4, 4, scale=0.05), w.weight(width), kernel_shape=[4, 4], strides=[4, 4]
    )
    side, c, heads, batch = size // 4, width, 3, w.size("image", 0)
    x = w.op("Transpose", w.op("Reshape", patches, w.shape(batch, c, side * side)), perm=[0, 2, 1])
    x = layer_norm(w, x, c)
    for stage, depth in enumerate(depths):
        for i in range(depth):
            x = block(x, batch, side, c, heads, window // 2 if i % 2 and side > window else 0)
        if stage + 1 == len(depths):
            break
        y, far, two = w.op("Reshape", x, w.shape(batch, side, side, c)), np.iinfo(np.int64).max, w.ints(2)
        parts = []
        for column, row in ((0, 0), (0, 1), (1, 0), (1, 1)):
            part = w.op("Slice", y, w.ints(row), w.ints(far), w.ints(1), two)
            parts.append(w.op("Slice", part, w.ints(column), w.ints(far), w.ints(2), two))
        side, heads = side // 2, 2 * heads
        x = w.op("Reshape", w.op("Concat", *parts, axis=-1), w.shape(batch, -1, 4 * c))
        x = w.op("MatMul", layer_norm(w, x, 4 * c), w.weight(4 * c, 2 * c, scale=0.02))
        c = 2 * c
    x = w.op("ReduceMean", w.op("Transpose", layer_norm(w, x, c), perm=[0, 2, 1]), axes=[-1], keepdims=0)
    w.renamed = {"logits": w.op("Gemm", x, w.weight(1000, c, scale=0.02), w.weight(1000), transB=1)}
    image = [("image", TensorProto.FLOAT, ["batch", 3, size, size])]
    return w.model(image, [("logits", ["batch", 1000])])


GRAPHS = {
    "torch_encoder": encoder,
    "torch_detector": detector,
    "torch_vit_b16": vit,
    "torch_gpt2": gpt2,
    "torch_unet": unet,
    "torch_swin": swin,
}
