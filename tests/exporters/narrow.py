"""Compute kept models in half precision, and with a given error, and hold the results to single precision.

    narrow.py FOLDER [--only TEXT ...]

Asked of each model with weights of f32 (see kept.py for the folder): with `precision="f16"`, results are finite and within 2 percent in
true half arithmetic, which is the evaluator's; with `max_error=0.01`, results for other operands than those that it measured with are within
2 percent. Over all models, half precision takes at most 0.51 of the bytes of weights (geometric mean). narrow.txt lists what has other results,
and why; the list must be exact. What onnxruntime's converter makes is judged in the same way, and its casts are counted.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from compare import is_quantized, listed, run  # noqa: E402
from kept import Feeds, load_feeds, seed_of  # noqa: E402

WITHIN = 0.02
BYTES = 0.51
LEAST_WEIGHTS = 1000  # elements
FOUR_BITS = (onnx.TensorProto.UINT4, onnx.TensorProto.INT4)
FLOATS = {onnx.TensorProto.FLOAT: 4, onnx.TensorProto.FLOAT16: 2}


@dataclass
class Row:
    name: str
    error: float = math.nan  # in half precision
    bytes: float = math.nan  # a share of those in single precision
    casts: int = 0
    casts_of_rival: int = 0
    error_of_rival: float = math.nan
    chosen_error: float = math.nan  # with max_error, on other operands
    chosen_bytes: float = math.nan
    seconds: float = 0
    faults: list[str] = field(default_factory=list)


def graphs_of(graph: onnx.GraphProto):
    yield graph
    for node in graph.node:
        for a in node.attribute:
            for inner in ([a.g] if a.HasField("g") else []) + list(a.graphs):
                yield from graphs_of(inner)


def bytes_of(model: onnx.ModelProto, types: dict[int, int] | None = None) -> int:
    """Of the initializers with these types; of all without."""
    stored = [t for g in graphs_of(model.graph) for t in g.initializer]
    if types is None:
        # NumPy has a byte for 4 bits.
        return sum(onnx.numpy_helper.to_array(t).nbytes // (2 if t.data_type in FOUR_BITS else 1) for t in stored)
    return sum(math.prod(t.dims) * types.get(t.data_type, 0) for t in stored)


def casts_of(model: onnx.ModelProto) -> int:
    return sum(n.op_type == "Cast" for g in graphs_of(model.graph) for n in g.node)


def error_of(want: list, got: list) -> float:
    """The largest difference of a float, as a share of the largest of its result; infinite where one is not finite."""
    most = 0.0
    for w, g in zip(want, got, strict=True):
        if not isinstance(w, np.ndarray) or w.dtype.kind != "f":
            continue
        a, b = w.astype(np.float64), np.asarray(g, np.float64)
        finite = np.isfinite(a)
        if a.shape != b.shape or not np.array_equal(finite, np.isfinite(b)):
            return math.inf
        largest, far = np.abs(a[finite]).max(initial=0), np.abs(a[finite] - b[finite]).max(initial=0)
        most = max(most, far / largest if largest else float(far))
    return most


def others(feeds: Feeds, name: str) -> Feeds:
    """The same elements at other places."""
    drawn = np.random.default_rng(seed_of(name))
    return {k: drawn.permutation(v.ravel()).reshape(v.shape) if v.dtype.kind == "f" else v for k, v in feeds.items()}


def ask_rival(row: Row, path: Path, feeds: Feeds, want: list) -> None:
    """What onnxruntime's converter makes of the model."""
    import sardonyx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    row.error_of_rival = math.inf
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = convert_float_to_float16(onnx.load(path), keep_io_types=True)
        row.casts_of_rival = casts_of(made) - casts_of(onnx.load(path))
        row.error_of_rival = error_of(want, list(sardonyx.evaluate(made, feeds).values()))
    except Exception:  # a rival may raise anything, and write what nothing runs
        return


def examine(name: str, path: Path) -> Row | None:
    """None for a model that has few weights, is quantized, or that the evaluator does not run."""
    import sardonyx

    model = onnx.load(path)
    if bytes_of(model, FLOATS) < 4 * LEAST_WEIGHTS or is_quantized(model):
        return None
    feeds = load_feeds(path.with_suffix(".npz"))[0]
    feeds = {i.name: feeds[i.name] for i in model.graph.input if i.name in feeds}
    try:
        want = run(path, [feeds], optimize=False)[0]
        sardonyx.evaluate(model, feeds)
    except Exception:
        return None
    if want is None:
        return None
    row = Row(name)
    single, half = sardonyx.optimize(model), sardonyx.optimize(model, precision="f16")
    row.bytes = bytes_of(half, FLOATS) / max(bytes_of(single, FLOATS), 1)
    row.casts = casts_of(half) - casts_of(single)
    ask_rival(row, path, feeds, want)
    row.error = error_of(want, list(sardonyx.evaluate(half, feeds).values()))
    if not row.error < WITHIN:
        row.faults.append(f"half precision is off by {row.error:.1%}")
    start = time.process_time()
    chosen = sardonyx.optimize(model, max_error=0.01, calibration=[feeds])
    row.seconds = time.process_time() - start
    row.chosen_bytes = bytes_of(chosen) / max(bytes_of(single), 1)
    other = others(feeds, name)
    wants, gots = run(path, [other], optimize=False)[0], run(chosen.SerializeToString(), [other], optimize=True)[0]
    if wants is not None:
        row.chosen_error = math.inf if gots is None else error_of(wants, gots)
        if not row.chosen_error < WITHIN:
            row.faults.append(f"with max_error=0.01, other operands are off by {row.chosen_error:.1%}")
    return row


def mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", metavar="TEXT")
    arguments = parser.parse_args()
    known, rows, missed = listed(HERE / "narrow.txt"), [], []
    for path in sorted(arguments.folder.glob("*/*.onnx")):
        name = f"{path.parent.name}/{path.stem}"
        if arguments.only and not any(text in name for text in arguments.only):
            continue
        try:
            row = examine(name, path)
        except Exception as error:
            row = Row(name, faults=[f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"])
        if row is None:
            continue
        rows.append(row)
        print(
            f"{len(rows):>4} {name}: f16 {row.bytes:.3f} of the bytes, off by {row.error:.2%}, {row.casts} casts (onnxruntime's converter:"
            f" {row.error_of_rival:.2%}, {row.casts_of_rival}); 1 %: {row.chosen_bytes:.3f}, {row.chosen_error:.2%}, {row.seconds:.1f} s",
            flush=True,
        )
        if row.faults and name not in known:
            missed += [f"{name}: {fault}" for fault in row.faults]
        if not row.faults and name in known:
            missed.append(f"{name}: narrow.txt lists it, and nothing is wrong")
    share, chosen = (
        mean([v for v in values if v > 0]) for values in zip(*((r.bytes, r.chosen_bytes) for r in rows), strict=True)
    )
    right, both = [r for r in rows if r.error < WITHIN], [r for r in rows if r.error_of_rival < WITHIN]
    print(
        f"{len(rows)} models: half precision is right for {len(right)}, {share:.3f} of the bytes of weights (onnxruntime's converter:"
        f" {len(both)}; where it is, {sum(r.casts for r in both)} casts beside {sum(r.casts_of_rival for r in both)});"
        f" max_error=0.01: {chosen:.3f} of the bytes"
    )
    if not arguments.only and not share <= BYTES:
        missed.append(f"half precision takes {share:.3f} of the bytes, more than {BYTES}")
    print(*missed, sep="\n")
    return 1 if missed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
