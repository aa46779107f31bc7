"""Weights of 4 and 8 bits: the squared error of products and of models, beside onnxruntime's MatMulNBitsQuantizer.

    bench/quantize_weights.py [--rows 256] [--models mixer_s16 gpt2_124m] [--out build/bench]

Both quantize the same products of the sizes of a transformer, with random weights: normal, Laplace and of
Student's t, whose tails are as heavy as those of trained ones. Each quantized model is given the unit matrix
in onnxruntime, which shows its weights; products with random numbers are then computed in double precision: with
independent ones, and with what a LayerNorm makes of a residual stream in which few directions are large. Demonstration
models are run on inputs that calibration has not seen. README.md in this folder explains the columns.
"""

import logging
import math
import sys
import time

import numpy as np
import onnx
import onnxruntime
import sardonyx
from common import ROOT, finish, parser
from onnx import numpy_helper
from onnxruntime.quantization import matmul_nbits_quantizer

TARGET = 0.7  # of the error of the rival's default
CALIBRATED = 0.4  # with calibration, where inputs are dependent
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


def independent(rng: np.random.Generator, rows: int, size: int) -> np.ndarray:
    return rng.normal(size=(rows, size)).astype(np.float32)


def normalized(rng: np.random.Generator, rows: int, size: int) -> np.ndarray:
    """What a LayerNorm makes of a stream with a sixth of its directions above noise."""
    fixed = np.random.default_rng(size)
    directions = fixed.normal(size=(size // 6, size)) / np.sqrt(size / 6)
    sizes = 2 / np.sqrt(1 + np.arange(size // 6) / 8)
    stream = (rng.normal(size=(rows, size // 6)) * sizes) @ directions + 0.3 * rng.normal(size=(rows, size))
    stream -= stream.mean(1, keepdims=True)
    return (stream / stream.std(1, keepdims=True) * np.exp(0.5 * fixed.normal(size=size))).astype(np.float32)


INPUTS = {"independent inputs": independent, "inputs behind LayerNorm": normalized}


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


def tools_with(runs: list[dict[str, np.ndarray]]) -> dict:
    """What makes quantized models, by name. The runs are those to learn from."""

    def ours(bits: str, calibration):
        return lambda m: sardonyx.optimize(m, passes="none", weights=bits, calibration=calibration)

    tools = {f"onnxruntime, {name}": lambda m, how=how: theirs(m, *how) for name, how in RIVALS.items()}
    tools |= {f"sardonyx, {name}": ours(name, None) for name in OURS}
    return tools | {f"sardonyx, {name}, calibrated": ours(name, runs) for name in OURS}


def report(kind: str, results: dict[str, dict[str, float]], aims: tuple[float, float], missed: list[str]) -> None:
    """Prints the figures of one kind of products, and adds what misses the aims, without calibration and with it."""
    print(kind)
    for name, r in results.items():
        bits = name.split(", ")[1]
        like = OURS.get(bits) if name.startswith("sardonyx") else None
        r["of default"] = r["error"] / results["onnxruntime, blocks of 128"]["error"]
        r["of its like"] = r["error"] / results[f"onnxruntime, {like}"]["error"] if like else 1.0
        print(
            f"  {name:<38}{r['error']:>16.3g}{r['of default']:>12.3f}{r['of its like']:>13.3f}{r['bits']:>8.2f}{r['ns']:>11.1f}"
        )
        wanted = aims[name.endswith("calibrated")]
        if like and "4" in bits and r["of default"] > wanted:
            missed.append(
                f"{name}: {r['of default']:.3f} of the default's error for {kind}, at most {wanted} is wanted"
            )


def products(rows: int, results: dict, missed: list[str]) -> None:
    for inputs, draw_inputs in INPUTS.items():
        for weights, draw in DRAWS.items():
            rng = np.random.default_rng(7)
            measured: dict[str, list[dict[str, float]]] = {}
            for size in SIZES:
                w = (draw(rng, size) / math.sqrt(size[0])).astype(np.float32)
                x = draw_inputs(rng, rows, size[0]).astype(np.float64)
                runs = [{"x": draw_inputs(rng, 512, size[0])} for _ in range(4)]
                for name, make in tools_with(runs).items():
                    measured.setdefault(name, []).append(measure(product(w), make, x @ w.astype(np.float64), x))
            kind = f"{weights} weights, {inputs}"
            results[kind] = {
                name: {k: math.exp(np.mean([math.log(r[k]) for r in all_]).item()) for k in all_[0]}
                for name, all_ in measured.items()
            }
            report(kind, results[kind], (TARGET, CALIBRATED if draw_inputs is normalized else TARGET), missed)


def run(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0].astype(np.float64)


def whole_model(model, out, results: dict, missed: list[str]) -> None:
    """The same of the results of a demonstration model, whose weights are random."""
    path = out / f"{model.name}.onnx"
    out.mkdir(parents=True, exist_ok=True)
    shapes = [tuple(s.shape) if np.dtype(s.dtype) == np.float32 else s for s in model.inputs]
    sardonyx.to_onnx(model.make(), shapes, output_path=path, opset=21)
    proto = sardonyx.optimize(onnx.load(path))
    sizes = {name: max(size, 4) for name, size in model.sizes[-1].items()}
    unseen, *runs = (
        dict(zip([i.name for i in proto.graph.input], model.sample(sizes, seed), strict=True)) for seed in range(9)
    )
    exact = run(proto, unseen)
    count = sum(math.prod(t.dims) for t in proto.graph.initializer)
    found = {}
    for name, make in tools_with(runs).items():
        start = time.process_time()
        made = make(proto)
        seconds = time.process_time() - start
        error = float(((run(made, unseen) - exact) ** 2).sum() / (exact**2).sum())
        found[name] = {"error": error, "bits": 8 * made.ByteSize() / count, "ns": 1e9 * seconds / count}
    results[model.name] = found
    report(model.name, found, (math.inf, CALIBRATED), missed)  # the rival leaves weights on the left in floats


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=256)
    options.add_argument("--models", nargs="*", default=["mixer_s16"], help="names of demonstration models")
    arguments = options.parse_args()
    logging.disable(logging.INFO)
    results: dict[str, dict] = {}
    missed: list[str] = []
    print(f"{'':<40}{'relative error':>16}{'of default':>12}{'of its like':>13}{'bits':>8}{'ns/weight':>11}")
    products(arguments.rows, results, missed)
    sys.path.insert(0, str(ROOT))
    from demo.models import MODELS

    for model in MODELS:
        if model.name in arguments.models:
            whole_model(model, arguments.out, results, missed)
    return finish(arguments.out, "quantize_weights", results, missed)


if __name__ == "__main__":
    sys.exit(main())
