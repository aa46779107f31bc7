"""Convolutional networks with random weights, in the shapes that are usual: for measuring, without PyTorch."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Network:
    """A graph that grows by one node a call."""

    def __init__(self, seed: int = 0):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, array) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.weights)}"))
        return self.weights[-1].name

    def op(self, kind: str, *operands: str, **attributes) -> str:
        self.nodes.append(helper.make_node(kind, operands, [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def normal(self, shape: tuple[int, ...], deviation: float) -> str:
        return self.constant((self.rng.standard_normal(shape) * deviation).astype(np.float32))

    def conv(self, x: str, channels: int, made: int, size=3, stride=1, groups=1, act="Relu", gain=1.0) -> str:
        """A convolution and its activation. Channels differ in scale, as they do once normalizations are folded in."""
        weight = self.rng.standard_normal((made, channels // groups, size, size))
        weight *= np.exp(0.5 * self.rng.standard_normal((made, 1, 1, 1)))
        weight *= np.sqrt(2 * gain / (channels // groups * size * size))
        y = self.op(
            "Conv",
            x,
            self.constant(weight.astype(np.float32)),
            self.normal((made,), 0.1),
            kernel_shape=[size, size],
            pads=[size // 2] * 4,
            strides=[stride, stride],
            group=groups,
        )
        if act == "Clip":
            return self.op("Clip", y, self.constant(np.float32(0)), self.constant(np.float32(6)))
        if act == "Swish":
            return self.op("Mul", y, self.op("Sigmoid", y))
        return self.op(act, y) if act else y

    def classifier(self, x: str, channels: int, classes: int = 1000) -> str:
        pooled = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        w, b = self.normal((classes, channels), channels**-0.5), self.normal((classes,), 0.1)
        return self.op("Gemm", pooled, w, b, transB=1)

    def model(self, size: int, result: str) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 3, size, size])
        y = helper.make_tensor_value_info(result, TensorProto.FLOAT, ["B", None])
        graph = helper.make_graph(self.nodes, "network", [x], [y], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def residual(blocks=(3, 4, 6, 3), width=64, groups=1, expansion=4, size=224) -> onnx.ModelProto:
    """ResNet-50; with groups and another expansion, a ResNeXt."""
    net = Network()
    y = net.op("MaxPool", net.conv("x", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, count in enumerate(blocks):
        inner = width << stage
        for i in range(count):
            stride = 2 if stage and i == 0 else 1
            z = net.conv(net.conv(y, channels, inner, 1), inner, inner, 3, stride, groups)
            z = net.conv(z, inner, expansion * inner, 1, act="", gain=0.3)
            if channels != expansion * inner or stride != 1:
                y = net.conv(y, channels, expansion * inner, 1, stride, act="", gain=0.5)
            channels = expansion * inner
            y = net.op("Relu", net.op("Add", z, y))
    return net.model(size, net.classifier(y, channels))


# Of MobileNetV2: expansion, channels, how often, stride.
MOBILE = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobile(act="Clip", squeeze=False, stages=MOBILE, size=224) -> onnx.ModelProto:
    """MobileNetV2; with Swish and squeeze, an EfficientNet."""
    net = Network()
    y, channels = net.conv("x", 3, 32, 3, 2, act=act), 32
    for expansion, made, count, first in stages:
        for i in range(count):
            stride, inner, z = first if i == 0 else 1, channels * expansion, y
            if expansion != 1:
                z = net.conv(z, channels, inner, 1, act=act)
            z = net.conv(z, inner, inner, 3, stride, inner, act=act)
            if squeeze:
                gate = net.conv(net.op("GlobalAveragePool", z), inner, channels // 4, 1, act=act)
                z = net.op("Mul", z, net.op("Sigmoid", net.conv(gate, channels // 4, inner, 1, act="")))
            z = net.conv(z, inner, made, 1, act="", gain=2 if squeeze else 0.6)
            y = net.op("Add", y, z) if stride == 1 and channels == made else z
            channels = made
    return net.model(size, net.classifier(net.conv(y, channels, 1280, 1, act=act), 1280))


def dense(blocks=(6, 12, 24, 16), growth=32, size=224) -> onnx.ModelProto:
    """DenseNet-121."""
    net = Network()
    y = net.op("MaxPool", net.conv("x", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, count in enumerate(blocks):
        for _ in range(count):
            z = net.conv(net.conv(y, channels, 4 * growth, 1), 4 * growth, growth)
            y = net.op("Concat", y, z, axis=1)
            channels += growth
        if stage + 1 < len(blocks):
            y = net.op("AveragePool", net.conv(y, channels, channels // 2, 1), kernel_shape=[2, 2], strides=[2, 2])
            channels //= 2
    return net.model(size, net.classifier(y, channels))


MODELS = {
    "ResNet-50": residual,
    "ResNeXt-50": lambda: residual(width=128, groups=32, expansion=2),
    "MobileNetV2": mobile,
    "EfficientNet": lambda: mobile("Swish", squeeze=True),
    "DenseNet-121": dense,
}
