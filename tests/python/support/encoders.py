"""An encoder as exporters of opset 14 spell it: its roundings add up over the layers."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class _Maker:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.count = [], {}, 0

    def name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def weight(self, *shape, scale=None):
        name = self.name("w")
        scale = shape[0] ** -0.5 if scale is None else scale
        self.weights[name] = (self.random.standard_normal(shape) * scale).astype(np.float32)
        return name

    def constant(self, value, dtype=np.float32):
        name = self.name("c")
        self.weights[name] = np.array(value, dtype)
        return name

    def op(self, kind, *operands, **attributes):
        name = self.name("v")
        self.nodes.append(helper.make_node(kind, list(operands), [name], **attributes))
        return name

    def affine(self, x, rows, columns):
        return self.op("Add", self.op("MatMul", x, self.weight(rows, columns)), self.weight(columns, scale=0.1))

    def norm(self, x, width):
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        variance = self.op("ReduceMean", self.op("Pow", centred, self.constant(2.0)), axes=[-1])
        scaled = self.op("Div", centred, self.op("Sqrt", self.op("Add", variance, self.constant(1e-12))))
        return self.op("Add", self.op("Mul", scaled, self.weight(width, scale=1)), self.weight(width, scale=0.1))

    def attention(self, x, width, heads):
        def split(t):
            shape = self.constant([0, 0, heads, width // heads], np.int64)
            return self.op("Transpose", self.op("Reshape", t, shape), perm=[0, 2, 1, 3])

        q, k, v = (split(self.affine(x, width, width)) for _ in range(3))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.op("Div", scores, self.constant((width // heads) ** 0.5))
        seen = self.op("Transpose", self.op("MatMul", self.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        return self.affine(self.op("Reshape", seen, self.constant([0, 0, width], np.int64)), width, width)

    def gelu(self, x):
        shifted = self.op("Add", self.op("Erf", self.op("Div", x, self.constant(2**0.5))), self.constant(1.0))
        return self.op("Mul", self.op("Mul", x, shifted), self.constant(0.5))


def encoder(layers=4, width=32, heads=4, tokens=17, seed=0):
    m = _Maker(seed)
    x = "x"
    for _ in range(layers):
        x = m.norm(m.op("Add", x, m.attention(x, width, heads)), width)
        hidden = m.gelu(m.affine(x, width, 4 * width))
        x = m.norm(m.op("Add", x, m.affine(hidden, 4 * width, width)), width)
    first = m.op("Gather", x, m.constant(0, np.int64), axis=1)
    m.nodes.append(helper.make_node("Tanh", [m.op("Gemm", first, m.weight(width, width))], ["y"]))
    graph = helper.make_graph(
        m.nodes,
        "encoder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", tokens, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", width])],
        [numpy_helper.from_array(value, name) for name, value in m.weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
