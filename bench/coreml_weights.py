"""Weights of Core ML packages in fewer bits: bytes, squared error and processor time, beside coremltools.

    bench/coreml_weights.py [--side 1024] [--out build/bench]

Needs kmeans1d, with which coremltools clusters halves; without, it uses scikit-learn and takes longer. Both compress
the same packages in half precision: a product with weights of three distributions, and a demonstration model.
coremltools expands all of them; errors are those of its numbers. README.md in this folder explains the columns.
"""

import logging
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from common import ROOT, finish, parser
from onnx import numpy_helper

os.environ.setdefault("TQDM_DISABLE", "1")
sys.path.append(str(ROOT))

import coremltools as ct  # noqa: E402
import coremltools.optimize.coreml as cto  # noqa: E402
import sardonyx  # noqa: E402
from coremltools.converters.mil.frontend.milproto.load import load as load_program  # noqa: E402

RUNS = 5
DEMONSTRATION = "mixer_s16"
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


def product(side: int, draw: Callable, package: Path) -> None:
    text = f"g (float[8,{side}] x) => (float[8,{side}] y) {{ y = MatMul(x, w) }}"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    w = draw(np.random.default_rng(7), (side, side)) / np.sqrt(side)
    proto.graph.initializer.append(numpy_helper.from_array(w.astype(np.float32), "w"))
    sardonyx.to_coreml(proto, output_path=package, target="iOS18")


def demonstration(name: str, package: Path) -> None:
    from demo.models import by_name

    model = by_name(name)
    shapes = [tuple(1 if isinstance(size, str) else size for size in one.shape) for one in model.inputs]
    sardonyx.to_coreml(model.make(), shapes, output_path=package, target="iOS18")


def weights_in(package: Path) -> list[np.ndarray]:
    """The weights of a package in the order of its ops, expanded."""
    spec = ct.models.MLModel(str(package), skip_model_load=True).get_spec()
    ops = load_program(spec, spec.specificationVersion, str(package / WEIGHTS)).functions["main"].operations
    makers = [
        (op.y if op.op_type == "matmul" else op.weight).op for op in ops if op.op_type in ("conv", "linear", "matmul")
    ]
    constants = [m for m in makers if m is not None and (m.op_type == "const" or m.op_type.startswith("constexpr_"))]
    values = (m.outputs[0].val if m.op_type == "const" else m.materialized_val_inference() for m in constants)
    return [w.astype(np.float64) for w in values]


def measure(make: Callable, made: Path, exact: list[np.ndarray]) -> dict[str, float]:
    times: list[float] = []
    while len(times) < RUNS and sum(times) < 1:  # of short runs the best
        shutil.rmtree(made, ignore_errors=True)
        start = time.process_time()
        make()
        times.append(time.process_time() - start)
    seconds = min(times)
    found = weights_in(made)
    assert [w.shape for w in found] == [w.shape for w in exact]
    count = sum(w.size for w in exact)
    error = sum(((a - b) ** 2).sum() for a, b in zip(exact, found, strict=True)) / sum((w**2).sum() for w in exact)
    stored = (made / WEIGHTS / "weight.bin").stat().st_size
    return {"error": float(error), "bits": 8 * stored / count, "ns": 1e9 * seconds / count}


def compared(make: Callable[[Path], None], folder: Path) -> dict[str, dict]:
    whole = folder / "whole.mlpackage"
    make(whole)
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
    with tempfile.TemporaryDirectory() as folder:  # so that imports are not measured
        compared(partial(product, 128, DRAWS["normal"]), Path(folder))
    models = {f"product, {name}": partial(product, arguments.side, draw) for name, draw in DRAWS.items()}
    models[DEMONSTRATION] = partial(demonstration, DEMONSTRATION)
    results: dict[str, dict] = {}
    missed = []
    print(f"{'':<36}{'error':>12}{'of theirs':>11}{'bits':>8}{'ns/weight':>11}{'of theirs':>11}")
    for name, make in models.items():
        with tempfile.TemporaryDirectory() as folder:
            results[name] = compared(make, Path(folder))
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
