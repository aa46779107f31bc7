"""Core ML in 8 bits beside coremltools' linear_quantize_activations and linear_quantize_weights: pairs of ops and error.

    bench/coreml_int8.py [--only NAME ...] [--side 64] [--out build/bench]

Networks of image_models.py in half precision, with the same four runs to learn from. The evaluator runs the model for
both, as coremltools needs a Mac for that. Errors are those of the norm, on eight other inputs, of results in single
precision. README.md in this folder explains the columns.
"""

import logging
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import sardonyx
from common import finish, parser
from image_models import dense, mobile, residual
from sardonyx import coreml

os.environ.setdefault("TQDM_DISABLE", "1")

import coremltools as ct  # noqa: E402
import coremltools.optimize.coreml as cto  # noqa: E402

NETWORKS = {
    "ResNet-50": residual,
    "ResNeXt-50": lambda size: residual(width=128, groups=32, expansion=2, size=size),
    "DenseNet-121": dense,
    "MobileNetV2": mobile,
}


def runs(count: int, side: int, seed: int) -> list[dict[str, np.ndarray]]:
    """Images: something smooth, and noise."""
    rng, shape = np.random.default_rng(seed), (1, 3, side, side)
    found = []
    for _ in range(count):
        smooth = rng.standard_normal((1, 3, 8, 8)).repeat(side // 8, 2).repeat(side // 8, 3)
        found.append({"x": (smooth + 0.4 * rng.standard_normal(shape)).astype(np.float32)})
    return found


def by_coremltools(source: Path, folder: Path, given: list[dict[str, np.ndarray]]) -> coreml.Program:
    def predict(model, feeds):
        model.save(str(folder / "observed.mlpackage"))
        return coreml.load(folder / "observed.mlpackage", mmap=False).run(feeds)

    ct.models.MLModel.predict = predict
    config = cto.OptimizationConfig(
        global_config=cto.OpLinearQuantizerConfig(mode="linear_symmetric", weight_threshold=0)
    )
    model = ct.models.MLModel(str(source), skip_model_load=True)
    made = cto.linear_quantize_weights(cto.linear_quantize_activations(model, config, given), config)
    made.save(str(folder / "theirs.mlpackage"))
    return coreml.load(folder / "theirs.mlpackage")


def compared(name: str, side: int, folder: Path) -> dict[str, dict[str, float]]:
    proto, shapes = NETWORKS[name](size=side), {"x": (1, 3, side, side)}
    source = folder / "half.mlpackage"
    half = sardonyx.to_coreml(proto, output_path=source, input_shapes=shapes)
    exact = sardonyx.to_coreml(proto, precision="f32", input_shapes=shapes)
    given = runs(4, side, seed=1)
    makers = {
        "half precision": lambda: half,
        "sardonyx": lambda: coreml.optimize(source, precision="int8", calibration=given),
        "coremltools": lambda: by_coremltools(source, folder, given),
    }
    results: dict[str, dict[str, float]] = {}
    for tool, make in makers.items():
        start = time.process_time()
        made = make()
        results[tool] = {"seconds": time.process_time() - start, "pairs": made.op_counts().get("quantize", 0)}
        errors = []
        for feeds in runs(8, side, seed=2):
            (wanted,), (found,) = exact.run(feeds).values(), made.run(feeds).values()
            errors.append(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
        results[tool]["error"] = float(np.mean(errors))
    return results


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    options.add_argument("--side", type=int, default=64, help="of images: a multiple of 32")
    arguments = options.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    results, missed = {}, []
    print(f"{'':<32}{'pairs':>8}{'error':>10}{'s':>8}")
    for name in arguments.only:
        with tempfile.TemporaryDirectory() as folder:
            results[name] = compared(name, arguments.side, Path(folder))
        for tool, r in results[name].items():
            print(f"{name + ', ' + tool:<32}{r['pairs']:>8}{100 * r['error']:>8.2f} %{r['seconds']:>8.1f}")
        ours, theirs = results[name]["sardonyx"], results[name]["coremltools"]
        for figure in "error", "pairs":
            if ours[figure] > theirs[figure]:
                missed.append(f"{name}: {figure} {ours[figure]:.3g}, and {theirs[figure]:.3g} by coremltools")
    return finish(arguments.out, "coreml_int8", results, missed)


if __name__ == "__main__":
    sys.exit(main())
