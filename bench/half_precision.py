"""Half precision beside onnxruntime's converter: what is right, bytes, casts, processor time, memory.

    bench/half_precision.py [--out build/bench]

The small graphs are those of tests/python/onnx: test_half_precision.py and half_graphs.py. They are judged in true half
arithmetic by the evaluator and by onnxruntime at its default level: right is within 2 percent of the largest number of
each result. The large
ones are the demonstration models, judged by onnxruntime only. Each conversion runs in a process of its own, from file
to file; memory is what its peak grows by beyond the imports.
"""

import json
import os
import sys
import time
from pathlib import Path

from common import ROOT, asked_to_work, finish, measure, parser, resident

sys.path[:0] = [str(ROOT), str(ROOT / "tests/python/onnx"), str(ROOT / "tests/python/support")]
RIGHT = 0.02
SECONDS = 60  # for one result


def convert(tool: str, before: str, after: str) -> None:
    """Prints the processor time and the memory of one conversion."""
    if tool == "sardonyx":
        import sardonyx

        start, memory = time.process_time(), resident("VmHWM")
        sardonyx.optimize(before, after, precision="f16")
    else:
        import onnx
        from onnxruntime.transformers.float16 import convert_float_to_float16

        start, memory = time.process_time(), resident("VmHWM")
        onnx.save(convert_float_to_float16(onnx.load(before), keep_io_types=True), after)
    print(json.dumps({"seconds": time.process_time() - start, "memory": resident("VmHWM") - memory}))


def errors(before: Path, after: Path, inputs: Path, is_small: bool) -> list[float]:
    """Of onnxruntime and, for small models, of the evaluator; infinite where the result does not run. In a process of its
    own, which onnxruntime may end; a loop whose counter rounds to itself has no end.
    """
    done = measure(__file__, sys.executable, "judge", before, after, inputs, *["small"] * is_small, timeout=SECONDS)
    if "error" in done:
        print(f"  {after.name}: {done['error'][:100]}", file=sys.stderr)
    return done.get("errors", [float("inf")])


def judge(before: str, after: str, inputs: str, *small: str) -> None:
    """Prints the errors."""
    import numpy as np
    import onnxruntime
    import sardonyx
    from test_half_precision import error

    feeds = dict(np.load(inputs))

    def session(path):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)

    found = []
    wanted = session(before)
    for run in [session] + [lambda path: list(sardonyx.evaluate(path, feeds).values())] * bool(small):
        try:
            off = error(run(after), wanted)
        except Exception as e:  # the rival's file may not load
            print(f"  {Path(after).name}: {str(e).splitlines()[0][:100]}", file=sys.stderr)
            off = np.inf
        found.append(off if np.isfinite(off) else np.inf)
    print(json.dumps({"errors": found}))


def casts_of(path: Path) -> int:
    import onnx

    return sum(n.op_type == "Cast" for n in onnx.load(path, load_external_data=False).graph.node)


def main(argv: list[str] | None = None) -> int:
    args = parser(__doc__).parse_args(argv)
    import numpy as np
    import onnx
    import sardonyx
    from half_graphs import GRAPHS, model_of
    from test_half_precision import CASES

    from demo.models import MODELS

    args.out.mkdir(parents=True, exist_ok=True)
    rows, missed = [], []
    work = []
    small = [(case.__name__, *case()) for case in CASES] + [(g.name, model_of(g), g.inputs) for g in GRAPHS]
    for name, model, inputs in small:
        path = args.out / f"{name}.onnx"
        onnx.save(model, path)
        work.append((name, path, inputs, True))
    for model in MODELS:
        path = args.out / f"{model.name}.onnx"
        shapes = [tuple(s.shape) if np.dtype(s.dtype) == np.float32 else s for s in model.inputs]
        sardonyx.to_onnx(model.make(), shapes, output_path=path)
        names = [i.name for i in onnx.load(path, load_external_data=False).graph.input]
        work.append((model.name, path, dict(zip(names, model.sample(model.sizes[-1]), strict=True)), False))
    for name, path, inputs, is_small in work:
        row = {"model": name, "bytes": path.stat().st_size}
        kept = args.out / "inputs.npz"
        np.savez(kept, **inputs)
        for tool in ("sardonyx", "onnxruntime"):
            after = args.out / f"{name}.{tool}.onnx"
            done = measure(__file__, sys.executable, tool, path, after)
            if "error" in done:
                row[tool] = done
                continue
            found = errors(path, after, kept, is_small)
            row[tool] = done | {"bytes": after.stat().st_size, "casts": casts_of(after), "errors": found,
                                "right": max(found) < RIGHT}  # fmt: skip
            os.unlink(after)
        os.unlink(path)
        rows.append(row)
        print(name, json.dumps({k: v for k, v in row.items() if k != "model"}), flush=True)
        if not row["sardonyx"].get("right"):
            missed.append(f"{name} is not right")
    for tool in ("sardonyx", "onnxruntime"):
        right = sum(bool(row[tool].get("right")) for row in rows)
        print(f"{tool}: {right} of {len(rows)} right")
    return finish(args.out, "half_precision", rows, missed)


if __name__ == "__main__":
    if (work := asked_to_work()) is not None:
        judge(*work[1:]) if work[0] == "judge" else convert(*work)
    else:
        sys.exit(main())
