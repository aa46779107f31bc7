"""Small networks whose products, sums and moves compute in 8 bits, and inputs for them."""

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def with_weights(proto: onnx.ModelProto, **shapes: tuple[int, ...]) -> onnx.ModelProto:
    for seed, (name, shape) in enumerate(shapes.items()):
        summed = np.prod(shape) / shape[0] if len(shape) > 2 else shape[0]
        scale = 0.3 if len(shape) == 1 else np.sqrt((0.02 if name == "wq" else 2) / summed)
        proto.graph.initializer.append(numpy_helper.from_array(drawn(seed, *shape) * np.float32(scale), name))
    return proto


def network() -> onnx.ModelProto:
    """Residual, grouped, depthwise and concatenated convolutions, pools and a classifier."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        cnn (float[B,3,29,31] x) => (float[B,23] y, float[B,34,6,7] features) {
            s = Conv<kernel_shape = [7, 7], strides = [2, 2], pads = [3, 3, 3, 3]>(x, w0, b0)
            r = Relu(s)
            p = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(r)
            c1 = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(p, w1, b1)
            r1 = Clip(c1, zero, six)
            c2 = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 2>(r1, w2)
            a = Add(c2, p)
            ra = Relu(a)
            d = Conv<kernel_shape = [3, 3], pads = [0, 1, 0, 0], group = 34>(ra, w3, b3)
            rd = Relu(d)
            e = Conv(rd, w4, b4)
            g = Sigmoid(e)
            m = Mul(e, g)
            l = LeakyRelu(ra)
            f = Slice(l, from, to, axes)
            j = Concat<axis = 1>(m, f)
            features = Conv(j, w5, b5)
            k = GlobalAveragePool(features)
            q = Flatten(k)
            y = Gemm<transB = 1>(q, w6, b6)
        }""")
    constants = {"zero": np.float32(0), "six": np.float32(6)}
    constants |= {"from": np.array([0, 1]), "to": np.array([6, 8]), "axes": np.array([2, 3])}
    proto.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in constants.items())
    return with_weights(
        proto,
        w0=(34, 3, 7, 7), b0=(34,), w1=(34, 34, 3, 3), b1=(34,), w2=(34, 17, 3, 3), w3=(34, 1, 3, 3), b3=(34,),
        w4=(17, 34, 1, 1), b4=(17,), w5=(34, 51, 1, 1), b5=(34,), w6=(23, 34), b6=(23,),
    )  # fmt: skip


def block() -> onnx.ModelProto:
    """A transformer's block: attention between products, a normalization, and a residual of floats."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        block (float[B,T,37] x) => (float[B,T,37] y) {
            n = LayerNormalization(x, scale)
            q = MatMul(n, wq)
            k = MatMul(n, wk)
            kt = Transpose<perm = [0, 2, 1]>(k)
            s = MatMul(q, kt)
            p = Softmax(s)
            v = MatMul(n, wv)
            vb = Add(v, bv)
            o = MatMul(p, vb)
            h = Add(o, x)
            u = MatMul(h, w1)
            ub = Add(u, b1)
            r = Relu(ub)
            z = MatMul(r, w2)
            y = Add(h, z)
        }""")
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(37, np.float32), "scale"))
    return with_weights(proto, wq=(37, 37), wk=(37, 37), wv=(37, 37), bv=(37,), w1=(37, 149), b1=(149,), w2=(149, 37))


def mlp(rows: str = "B") -> onnx.ModelProto:
    return with_weights(
        onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        mlp (float[{rows},37] x) => (float[{rows},19] y) {{
            a = Gemm(x, w1, b1)
            r = Relu(a)
            b = MatMul(r, w2)
            c = Add(b, b2)
            s = Relu(c)
            y = Gemm<transB = 1>(s, w3, b3)
        }}"""),
        w1=(37, 131), b1=(131,), w2=(131, 73), b2=(73,), w3=(19, 73), b3=(19,),
    )  # fmt: skip


MODELS = {"cnn": (network, (3, 29, 31)), "block": (block, (11, 37)), "mlp": (mlp, (37,))}


def inputs(name: str, seed: int, batch: int = 5) -> dict[str, np.ndarray]:
    return {"x": drawn(100 + seed, batch, *MODELS[name][1])}
