"""Weights of Core ML packages in fewer bits: bytes, squared error and processor time, beside coremltools.

    bench/coreml_weights.py [--side 1024] [--out build/bench]

Needs scikit-learn and kmeans1d beside bench/requirements-coreml.txt, which coremltools clusters with. Both compress the same
packages in half precision: a product with weights of three distributions, and a demonstration model, a
transformer's block. coremltools expands all of them; errors are those of its numbers. README.md in this
folder explains the columns.
"""

import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from common import finish, parser
from onnx import numpy_helper

os.environ.setdefault("TQDM_DISABLE", "1")

import coremltools as ct  # noqa: E402
import coremltools.optimize.coreml as cto  # noqa: E402
import sardonyx  # noqa: E402
from coremltools.converters.mil.frontend.milproto.load import load as load_program  # noqa: E402

WEIGHTS = "Data/com.apple.CoreML/weights"
TARGET_ERROR, TARGET_TIME = 1.0, 0.02  # of palettes, as shares of coremltools'
DRAWS: dict[str, Callable] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "laplace": lambda rng, size: rng.laplace(size=size),
    "t, 4 degrees": lambda rng, size: rng.standard_t(4, size),
}


def quantized(dtype: str, **how):
    config = cto.OpLinearQuantizerConfig(mode="linear_symmetric", dtype=dtype, **how)
    return lambda model: cto.linear_quantize_weights(model, cto.OptimizationConfig(global_config=config))


def palettized(bits: int):
    config = cto.OpPalettizerConfig(mode="kmeans", nbits=bits)
    return lambda model: cto.palettize_weights(model, cto.OptimizationConfig(global_config=config))


FORMS: dict[str, Callable] = {
    "int8": quantized("int8"),
    "int4": quantized("int4", granularity="per_block", block_size=32),
    "palette4": palettized(4),
    "palette8": palettized(8),
}


def with_weights(text: str, draw: Callable, shapes: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    rng = np.random.default_rng(7)
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    for name, shape in shapes.items():
        w = (draw(rng, shape) / np.sqrt(shape[0])).astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(w, name))
    return proto


def product(side: int, draw: Callable) -> onnx.ModelProto:
    return with_weights(
        f"g (float[8,{side}] x) => (float[8,{side}] y) {{ y = MatMul(x, w) }}", draw, {"w": (side, side)}
    )


def block(side: int) -> onnx.ModelProto:
    """Attention with one head and two layers behind it, as in a transformer."""
    wide = 4 * side
    text = f"""g (float[8,{side}] x) => (float[8,{side}] y) {{
        q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
        t = Transpose(k) s = MatMul(q, t) p = Softmax(s) a = MatMul(p, v) o = MatMul(a, wo) h = Add(x, o)
        u = MatMul(h, wu) r = Relu(u) d = MatMul(r, wd) y = Add(h, d) }}"""
    shapes = {f"w{name}": (side, side) for name in "qkvo"} | {"wu": (side, wide), "wd": (wide, side)}
    return with_weights(text, DRAWS["laplace"], shapes)


def weights_in(package: Path) -> list[np.ndarray]:
    """The large constants of a package in the order of its ops, expanded."""
    spec = ct.models.MLModel(str(package), skip_model_load=True).get_spec()
    ops = load_program(spec, spec.specificationVersion, str(package / WEIGHTS)).functions["main"].operations
    found = []
    for op in ops:
        if op.op_type in ("matmul", "linear"):
            w = op.y if op.op_type == "matmul" else op.weight
            maker = w.op
            if maker is None:
                continue
            compressed = maker.op_type.startswith("constexpr_")
            if compressed or maker.op_type == "const":
                found.append((maker.materialized_val_inference() if compressed else w.val).astype(np.float64))
    return found


def measure(make: Callable, made: Path, exact: list[np.ndarray]) -> dict[str, float]:
    start = time.process_time()
    make()
    seconds = time.process_time() - start
    found = weights_in(made)
    assert [w.shape for w in found] == [w.shape for w in exact]
    count = sum(w.size for w in exact)
    error = sum(((a - b) ** 2).sum() for a, b in zip(exact, found, strict=True)) / sum((w**2).sum() for w in exact)
    stored = (made / WEIGHTS / "weight.bin").stat().st_size
    return {"error": float(error), "bits": 8 * stored / count, "ns": 1e9 * seconds / count}


def compared(model: onnx.ModelProto, folder: Path) -> dict[str, dict]:
    whole = folder / "whole.mlpackage"
    sardonyx.to_coreml(model, output_path=whole, target="iOS18")
    exact = weights_in(whole)
    results = {}
    for form, theirs in FORMS.items():
        ours, rivals = folder / f"{form}.mlpackage", folder / f"{form}_coremltools.mlpackage"

        def compress(form=form, ours=ours):
            sardonyx.coreml.optimize(whole, ours, passes="none", weights=form)

        def rival(theirs=theirs, rivals=rivals):
            theirs(ct.models.MLModel(str(whole), skip_model_load=True)).save(str(rivals))

        results[form] = {"sardonyx": measure(compress, ours, exact), "coremltools": measure(rival, rivals, exact)}
    return results


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--side", type=int, default=1024)
    arguments = options.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    models = {f"product, {name}": product(arguments.side, draw) for name, draw in DRAWS.items()}
    models["transformer's block"] = block(arguments.side)
    results: dict[str, dict] = {}
    missed = []
    print(f"{'':<36}{'error':>12}{'of theirs':>11}{'bits':>8}{'ns/weight':>11}{'of theirs':>11}")
    for name, model in models.items():
        with tempfile.TemporaryDirectory() as folder:
            results[name] = compared(model, Path(folder))
        print(name)
        for form, tools in results[name].items():
            ours, theirs = tools["sardonyx"], tools["coremltools"]
            error, seconds = ours["error"] / theirs["error"], ours["ns"] / theirs["ns"]
            for tool, r in tools.items():
                shares = (f"{error:.5f}", f"{seconds:.4f}") if tool == "sardonyx" else ("", "")
                print(
                    f"  {form + ', ' + tool:<34}{r['error']:>12.4g}{shares[0]:>11}{r['bits']:>8.2f}{r['ns']:>11.1f}{shares[1]:>11}"
                )
            if form.startswith("palette") and error > TARGET_ERROR + 5e-6:
                missed.append(f"{name}, {form}: {error:.5f} of coremltools' error, at most {TARGET_ERROR} is wanted")
            if form.startswith("palette") and seconds > TARGET_TIME:
                missed.append(f"{name}, {form}: {seconds:.4f} of coremltools' time, at most {TARGET_TIME} is wanted")
    return finish(arguments.out, "coreml_weights", results, missed)


if __name__ == "__main__":
    sys.exit(main())
