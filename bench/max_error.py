"""What an accepted error saves: bytes and time of demonstration models by `sardonyx.optimize(max_error=)`.

    bench/max_error.py [--out build/bench] [--page] [--models hybrid lstm ...]

Errors are measured on two drawn inputs, and again on a third that the choice has not seen. Time is the best of nine runs
in turns in onnxruntime, one thread, over that of the optimized model in single precision. --page writes
docs/generated/smaller.md.
"""

import json
import sys
import time
from pathlib import Path

from common import ROOT, commit, finish, parser

sys.path.insert(0, str(ROOT))
SHARES = (0.001, 0.003, 0.01, 0.03)
PRECISIONS = (None, "f32")  # what may be chosen, or f32 but for weights
PAGE = ROOT / "docs" / "generated" / "smaller.md"


def drawn(proto, model, seed: int) -> dict:
    """Inputs of a demonstration model: its sample, or, where they are floats, others of the same shapes."""
    import numpy as np

    rng = np.random.default_rng(seed)
    names = [i.name for i in proto.graph.input]
    sample = dict(zip(names, model.sample(model.sizes[-1]), strict=True))
    return {
        n: rng.standard_normal(a.shape).astype(a.dtype)
        if a.dtype.kind == "f"
        else rng.integers(a.min(), a.max() + 1, a.shape).astype(a.dtype)
        for n, a in ((n, np.asarray(a)) for n, a in sample.items())
    }


def page(rows: list[dict]) -> str:
    lines = [
        "# What an accepted error saves",
        "",
        f"`bench/max_error.py --page` writes this page, last at {commit()[:8]}. [The guide](../guide/smaller.md#an-error-that-you-accept)",
        "says what `--max-error` does. The demonstration models have random weights, which are the hardest to quantize.",
        "",
        "| Model | Accepted | Error measured | On a new input | Bytes of f32 | Time of f32 | Types |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['model']} | {100 * row['share']:.2g} % | {100 * row['error']:.2g} % | {100 * row['unseen']:.2g} % "
            f"| {row['bytes']:.3f} | {row['time']:.2f} | {row['types']} |"
        )
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    made = parser(__doc__)
    made.add_argument("--page", action="store_true", help="write docs/generated/smaller.md")
    made.add_argument(
        "--models", nargs="+", default=["mixer_s16", "hybrid", "lstm"], help="names of demonstration models"
    )
    args = made.parse_args(argv)
    import numpy as np
    import onnx
    import sardonyx
    from int8_products import best_times, error, session

    from demo.models import MODELS

    args.out.mkdir(parents=True, exist_ok=True)
    rows, missed = [], []
    for model in MODELS:
        if model.name not in args.models:
            continue
        path, after = (args.out / f"{model.name}{suffix}" for suffix in (".onnx", ".small.onnx"))
        shapes = [tuple(s.shape) if np.dtype(s.dtype) == np.float32 else s for s in model.inputs]
        sardonyx.to_onnx(model.make(), shapes, output_path=path, opset=21)
        proto = onnx.load(path, load_external_data=False)
        runs = [drawn(proto, model, seed) for seed in (1, 2)]
        unseen = drawn(proto, model, 3)
        for precision, share in ((p, s) for p in PRECISIONS for s in SHARES):
            start = time.process_time()
            _, report = sardonyx.optimize(
                path, after, max_error=share, precision=precision, calibration=runs, return_report=True
            )
            seconds = time.process_time() - start
            chosen = report.precision_curve[report.precision_chosen]
            sessions = {"f32": session(path), "small": session(after)}
            off = [error(*(sessions[s].run(None, run) for s in ("small", "f32"))) for run in (*runs, unseen)]
            times = best_times(sessions, unseen)
            row = {
                "model": model.name, "share": share, "error": max(off[:2]), "unseen": off[2], "types": chosen["types"],
                "bytes": after.stat().st_size / path.stat().st_size, "time": times["small"] / times["f32"],
                "seconds": seconds,
            }  # fmt: skip
            rows.append(row)
            print(json.dumps(row), flush=True)
            if row["error"] > share:
                missed.append(f"{model.name} is off by {row['error']:.4f} where {share} was accepted")
        for file in (path, after):
            Path(file).unlink()
    if args.page:
        PAGE.write_text(page(rows), encoding="utf-8")
    return finish(args.out, "max_error", rows, missed)


if __name__ == "__main__":
    sys.exit(main())
