"""Weights of 4 and 8 bits: the squared error of products, beside onnxruntime's MatMulNBitsQuantizer.

    bench/quantize_weights.py [--rows 64] [--out build/bench]

Both quantize the same products of the sizes of a transformer, with random weights: normal, Laplace and of
Student's t, whose tails are as heavy as those of trained ones. Each quantized model is given the unit matrix
in onnxruntime, which shows its weights; products with normal numbers are then computed in double precision.
README.md in this folder explains the columns.
"""

import logging
import math
import sys
import time

import numpy as np
import onnx
import onnxruntime
import sardonyx
from common import finish, parser
from onnx import numpy_helper
from onnxruntime.quantization import matmul_nbits_quantizer

TARGET = 0.7  # of the error of the rival's default
SIZES = [(768, 768), (768, 3072), (3072, 768)]
DRAWS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "laplace": lambda rng, size: rng.laplace(size=size),
    "t, 4 degrees": lambda rng, size: rng.standard_t(4, size),
}
# Of the rival: bits, block size and whether there is no zero point; its defaults are 4, 128 and False.
RIVALS = {
    "blocks of 128": (4, 128, False),
    "blocks of 32": (4, 32, False),
    "blocks of 32, symmetric": (4, 32, True),
    "8 bits, blocks of 32": (8, 32, False),
}
OURS = {
    "uint4": "blocks of 32",
    "int4": "blocks of 32, symmetric",
    "uint8": "8 bits, blocks of 32",
    "int8": "8 bits, blocks of 32",
}


def product(w: np.ndarray) -> onnx.ModelProto:
    rows, columns = w.shape
    text = f'<ir_version: 10, opset_import: ["" : 21]> g (float[B,{rows}] x) => (float[B,{columns}] y) {{ y = MatMul(x, w) }}'
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return proto


def theirs(proto: onnx.ModelProto, bits: int, block: int, symmetric: bool) -> onnx.ModelProto:
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(copy, bits=bits, block_size=block, is_symmetric=symmetric)
    quantizer.process()
    return quantizer.model.model


def weights_in(proto: onnx.ModelProto, rows: int) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.eye(rows, dtype=np.float32)})[0].astype(np.float64)


def measure(proto: onnx.ModelProto, make, exact: np.ndarray, x: np.ndarray) -> dict[str, float]:
    start = time.process_time()
    made = make(proto)
    seconds = time.process_time() - start
    error = float(((x @ weights_in(made, x.shape[1]) - exact) ** 2).sum() / (exact**2).sum())
    count = math.prod(proto.graph.initializer[0].dims)
    return {"error": error, "bits": 8 * made.ByteSize() / count, "ns": 1e9 * seconds / count}


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=64)
    arguments = options.parse_args()
    logging.disable(logging.INFO)
    rng = np.random.default_rng(7)
    tools = {f"onnxruntime, {name}": lambda m, how=how: theirs(m, *how) for name, how in RIVALS.items()}
    tools |= {
        f"sardonyx, {name}": lambda m, name=name: sardonyx.optimize(m, passes="none", weights=name) for name in OURS
    }
    results: dict[str, dict] = {}
    missed = []
    print(f"{'':<40}{'relative error':>16}{'of default':>12}{'of its like':>13}{'bits':>8}{'ns/weight':>11}")
    for kind, draw in DRAWS.items():
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in tools}
        for size in SIZES:
            w = (draw(rng, size) / math.sqrt(size[0])).astype(np.float32)
            x = rng.normal(size=(arguments.rows, size[0]))
            for name, make in tools.items():
                runs[name].append(measure(product(w), make, x @ w.astype(np.float64), x))
        mean = {
            name: {k: math.exp(np.mean([math.log(r[k]) for r in all_]).item()) for k in all_[0]}
            for name, all_ in runs.items()
        }
        results[kind] = mean
        print(kind)
        for name, r in mean.items():
            like = OURS.get(name.removeprefix("sardonyx, "))
            r["of default"] = r["error"] / mean["onnxruntime, blocks of 128"]["error"]
            r["of its like"] = r["error"] / mean[f"onnxruntime, {like}"]["error"] if like else 1.0
            print(
                f"  {name:<38}{r['error']:>16.3g}{r['of default']:>12.3f}{r['of its like']:>13.3f}{r['bits']:>8.2f}{r['ns']:>11.1f}"
            )
            if like and "4" in name and r["of default"] > TARGET:
                missed.append(
                    f"{name}: {r['of default']:.3f} of the default's error on {kind} weights, at most {TARGET} is wanted"
                )
    return finish(arguments.out, "quantize_weights", results, missed)


if __name__ == "__main__":
    sys.exit(main())
