"""Products in 8 bits beside onnxruntime's quantize_dynamic: error, time in onnxruntime, bytes, processor time.

    bench/int8_products.py [--out build/bench]

The demonstration models at opset 20 (quantize_dynamic writes newer attention in a form that onnxruntime does not load),
before it the default optimization for both, so that just the quantization differs. Errors are shares of the largest
number of each result; time is the best of nine runs in turns, in one thread, over that of the optimized model.
"""

import json
import os
import sys
import time
from pathlib import Path

from common import ROOT, asked_to_work, finish, measure, parser

sys.path.insert(0, str(ROOT))
TOOLS = ("sardonyx", "onnxruntime")


def convert(tool: str, before: str, after: str) -> None:
    """Prints the processor time of one conversion."""
    if tool == "sardonyx":
        import sardonyx

        start = time.process_time()
        sardonyx.optimize(before, after, passes="none", precision="int8")
    else:
        from onnxruntime.quantization import quantize_dynamic

        start = time.process_time()
        quantize_dynamic(before, after)
    print(json.dumps({"seconds": time.process_time() - start}))


def session(path: Path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def best_times(sessions: dict, inputs: dict) -> dict[str, float]:
    best = dict.fromkeys(sessions, float("inf"))
    for _ in range(9):
        for name, one in sessions.items():
            start = time.perf_counter()
            one.run(None, inputs)
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def error(found, wanted) -> float:
    import numpy as np

    pairs = [(f.astype(float), w.astype(float)) for f, w in zip(found, wanted, strict=True) if w.dtype.kind == "f"]
    return max(float(np.abs(f - w).max() / np.abs(w).max()) for f, w in pairs)


def main(argv: list[str] | None = None) -> int:
    args = parser(__doc__).parse_args(argv)
    import numpy as np
    import onnx
    import sardonyx

    from demo.models import MODELS

    args.out.mkdir(parents=True, exist_ok=True)
    rows, missed = [], []
    for model in MODELS:
        path = args.out / f"{model.name}.onnx"
        shapes = [tuple(s.shape) if np.dtype(s.dtype) == np.float32 else s for s in model.inputs]
        sardonyx.to_onnx(model.make(), shapes, output_path=path, opset=20)
        proto = onnx.load(path, load_external_data=False)
        inputs = dict(zip([i.name for i in proto.graph.input], model.sample(model.sizes[-1]), strict=True))
        row = {"model": model.name, "bytes": path.stat().st_size}
        sessions = {"f32": session(path)}
        for tool in TOOLS:
            after = args.out / f"{model.name}.{tool}.onnx"
            row[tool] = measure(__file__, sys.executable, tool, path, after)
            try:
                sessions[tool] = session(after)
            except Exception as e:  # the rival's file may not load
                row[tool]["error"] = str(e).splitlines()[0][:200]
                continue
            row[tool]["bytes"] = after.stat().st_size
        wanted = sessions["f32"].run(None, inputs)
        times = best_times(sessions, inputs)
        for tool in TOOLS:
            if tool in sessions:
                row[tool]["off"] = error(sessions[tool].run(None, inputs), wanted)
                row[tool]["time"] = times[tool] / times["f32"]
                os.unlink(args.out / f"{model.name}.{tool}.onnx")
        os.unlink(path)
        rows.append(row)
        print(model.name, json.dumps({k: v for k, v in row.items() if k != "model"}), flush=True)
        ours = row["sardonyx"]
        if "error" in ours:
            missed.append(f"{model.name} does not run")
        elif ours["bytes"] < row["bytes"] and ours["time"] > 1.05:  # some products are in 8 bits
            missed.append(f"{model.name} is slower in 8 bits")
    return finish(args.out, "int8_products", rows, missed)


if __name__ == "__main__":
    if (work := asked_to_work()) is not None:
        convert(*work)
    else:
        sys.exit(main())
