"""Static models of 8 bits beside onnxruntime's quantize_static: error, time, bytes, processor time.

    bench/static_int8.py [--only NAME ...] [--kernels] [--out build/bench]

Networks of image_models.py and demonstration models, after the default optimization for both, with the same four
runs to learn from. Errors are those of eight other inputs: of the norm, and of the largest number. Time is the best of
fifteen runs in turns over that of floats. --kernels measures what src/passes/onnx/quantize/code_choice.cc knows of
single kernels. README.md in this folder explains the columns.
"""

import json
import logging
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import sardonyx
from common import ROOT, asked_to_work, finish, measure, parser
from image_models import MODELS, Network
from onnx import helper

sys.path.insert(0, str(ROOT))
DEMONSTRATIONS = ("mixer_s16", "vit_b16")
# Tools by their names, and whether weights have all 8 bits, which needs VNNI on x86.
TOOLS = {"sardonyx": False, "sardonyx, 8 bits": True, "onnxruntime": False, "onnxruntime, 8 bits": True}


def runs(path: Path, count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """Images: noise, and something smoother."""
    rng, found = np.random.default_rng(seed), []
    x = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs()[0]
    shape = [1, *(d for d in x.shape[1:])]
    coarse = [d // 8 if d > 8 else d for d in shape]
    for _ in range(count):
        smooth = rng.standard_normal(coarse)
        for axis, size in enumerate(shape):
            smooth = smooth.repeat(size // coarse[axis], axis)
        found.append({x.name: (smooth + 0.4 * rng.standard_normal(shape)).astype(np.float32)})
    return found


def convert(tool: str, before: str, after: str) -> None:
    """Prints the processor time of one conversion."""
    given, whole = runs(Path(before), 4, 1), TOOLS[tool]
    onnx.load(before)  # and what both load on first use
    if tool.startswith("sardonyx"):
        start = time.process_time()
        sardonyx.optimize(
            before, after, passes=["quantize_values"], calibration=given, options={"quantize_values.full_range": whole}
        )
    else:
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        from onnxruntime import quantization as q

        class Reader(q.CalibrationDataReader):
            def __init__(self):
                self.left = iter(given)

            def get_next(self):
                return next(self.left, None)

        start = time.process_time()
        q.quantize_static(
            before,
            after,
            Reader(),
            quant_format=q.QuantFormat.QDQ,
            per_channel=True,
            reduce_range=not whole,
            activation_type=q.QuantType.QUInt8,
            weight_type=q.QuantType.QInt8,
        )
    print(json.dumps({"seconds": time.process_time() - start}))


def session(model: Path | onnx.ModelProto, threads: int = 1):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    data = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def best_times(sessions: dict, inputs: dict, clock, count: int = 15) -> dict[str, float]:
    best = dict.fromkeys(sessions, float("inf"))
    for _ in range(count):
        for name, one in sessions.items():
            start = clock()
            one.run(None, inputs)
            best[name] = min(best[name], clock() - start)
    return best


def compare(name: str, out: Path) -> dict:
    path = out / f"{name}.onnx"
    if name in MODELS:
        onnx.save(sardonyx.optimize(MODELS[name]()), path)
    else:
        from demo.models import MODELS as OWN

        own = next(m for m in OWN if m.name == name)
        shapes = [tuple(s.shape) if np.dtype(s.dtype) == np.float32 else s for s in own.inputs]
        sardonyx.to_onnx(own.make(), shapes, output_path=path, opset=20)
    row: dict = {"model": name, "bytes": path.stat().st_size}
    files = {tool: out / f"{name}.{tool}.onnx" for tool in TOOLS}
    for tool, file in files.items():
        row[tool] = measure(__file__, sys.executable, tool, path, file)
        row[tool]["bytes"] = file.stat().st_size
    inputs = runs(path, 8, 2)
    for threads, clock in ((1, time.thread_time), (2, time.perf_counter)):
        sessions = {"f32": session(path, threads)} | {tool: session(file, threads) for tool, file in files.items()}
        times = best_times(sessions, inputs[0], clock)
        row[f"f32, {threads}"] = times["f32"]
        for tool in TOOLS:
            row[tool][f"time, {threads}"] = times[tool] / times["f32"]
    for tool in TOOLS:
        pairs = [(sessions[tool].run(None, x)[0], sessions["f32"].run(None, x)[0]) for x in inputs]
        row[tool]["error"] = float(np.mean([np.linalg.norm(f - w) / np.linalg.norm(w) for f, w in pairs]))
        row[tool]["largest"] = max(float(np.abs(f - w).max() / np.abs(w).max()) for f, w in pairs)
    for file in (path, *files.values()):
        os.unlink(file)
    return row


def missed_by(row: dict) -> list[str]:
    missed = []
    for ours, theirs in (("sardonyx", "onnxruntime"), ("sardonyx, 8 bits", "onnxruntime, 8 bits")):
        a, b, name = row[ours], row[theirs], f"{row['model']}, {ours}"
        if a["time, 1"] > 1.03 * min(b["time, 1"], 1):
            missed.append(f"{name}: {a['time, 1']:.3f} of the time of floats, {theirs} {b['time, 1']:.3f}")
        if a["error"] > b["error"]:
            missed.append(f"{name}: an error of {a['error']:.2%}, {theirs} {b['error']:.2%}")
        if a["seconds"] > 0.1 * b["seconds"]:
            missed.append(f"{name}: {a['seconds'] / b['seconds']:.2f} of {theirs}'s processor time")
    return missed


# --- kernels


class Pairs:
    """The same chain of nodes in floats and in codes."""

    def __init__(self, in_codes: bool):
        self.net, self.in_codes = Network(), in_codes

    def rounded(self, x: str, zero: int = 0) -> str:
        if not self.in_codes:
            return x
        of = self.net.constant(np.float32(0.03)), self.net.constant(np.uint8(zero))
        return self.net.op("DequantizeLinear", self.net.op("QuantizeLinear", x, *of), *of)

    def conv(self, x: str, channels: int, size: int, groups: int) -> str:
        weight = self.net.rng.integers(-64, 64, (channels, channels // groups, size, size))
        w = self.net.constant(weight.astype(np.int8 if self.in_codes else np.float32))
        if self.in_codes:
            scales, zeros = np.full(channels, 1e-4, np.float32), np.zeros(channels, np.int8)
            w = self.net.op("DequantizeLinear", w, self.net.constant(scales), self.net.constant(zeros), axis=0)
        pads = [size // 2] * 4
        y = self.net.op(
            "Conv", x, w, self.net.normal((channels,), 1), kernel_shape=[size, size], pads=pads, group=groups
        )
        return self.rounded(self.net.op("Relu", y))

    def node(self, x: str, kind: str) -> str:
        if kind == "Swish":
            return self.rounded(self.net.op("Mul", x, self.rounded(self.net.op("Sigmoid", x))))
        if kind == "MaxPool":
            if self.in_codes:  # as they are
                quantized = next(n for n in self.net.nodes if n.output[0] == x)
                y = self.net.op(kind, quantized.input[0], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
                return self.net.op("DequantizeLinear", y, *quantized.input[1:])
            y = self.net.op(kind, x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        else:
            y = self.net.op(kind, x, *([x] if kind in ("Add", "Mul") else []))
        return self.rounded(y)


def kernels() -> list[dict]:
    """Picoseconds for each element of a result, of nodes between convolutions of one place."""
    rows = []

    def timed(channels: int, size: int, build) -> list[float]:
        found = []
        for in_codes in (False, True):
            times = []
            for is_there in (False, True):
                pairs = Pairs(in_codes)
                y = pairs.conv(pairs.rounded("x", 128), channels, 1, 1)
                y = pairs.conv(build(pairs, y) if is_there else y, channels, 1, 1)
                model = pairs.net.model(size, y)
                model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = channels
                model.graph.output[0].CopyFrom(helper.make_empty_tensor_value_info(y))
                x = np.random.default_rng(0).standard_normal((1, channels, size, size)).astype(np.float32)
                times.append(best_times({"": session(model)}, {"x": x}, time.thread_time, 25)[""])
            found.append((times[1] - times[0]) * 1e12 / (channels * size * size))
        return found

    for channels, size in ((64, 56), (128, 28), (256, 14)):
        for places, groups in (
            (1, 1),
            (3, 1),
            (3, channels),
            (3, channels // 4),
            (3, channels // 16),
            (3, channels // 32),
        ):
            f32, codes = timed(channels, size, lambda p, y, c=channels, k=places, g=groups: p.conv(y, c, k, g))
            rows.append({"node": f"Conv {places}x{places}, {channels // groups} channels", "f32": f32, "codes": codes})
        for kind in ("Add", "Mul", "Swish", "LeakyRelu", "MaxPool"):
            f32, codes = timed(channels, size, lambda p, y, kind=kind: p.node(y, kind))
            rows.append({"node": kind, "f32": f32, "codes": codes})
        for row in rows[-11:]:
            print(f"{channels:>4} x {size}^2  {row['node']:<24} {row['f32']:>9.0f} {row['codes']:>9.0f} ps", flush=True)
    return rows


def main(argv: list[str] | None = None) -> int:
    args = parser(__doc__)
    args.add_argument("--only", nargs="+", default=[*MODELS, *DEMONSTRATIONS], help="names of models")
    args.add_argument("--kernels", action="store_true", help="measure single kernels instead")
    args = args.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.kernels:
        return finish(args.out, "static_int8_kernels", kernels(), [])
    rows, missed = [], []
    for name in args.only:
        row = compare(name, args.out)
        rows.append(row)
        missed += missed_by(row)
        print(f"{name}: f32 {row['f32, 1'] * 1e3:.1f} ms, {row['bytes'] / 1e6:.1f} MB")
        for tool in TOOLS:
            r = row[tool]
            print(
                f"  {tool:<20} time {r['time, 1']:.3f}, in two threads {r['time, 2']:.3f}; error {r['error']:.2%}, "
                f"largest {r['largest']:.2%}; {r['bytes'] / row['bytes']:.2f} of the bytes; {r['seconds']:.2f} s",
                flush=True,
            )
    return finish(args.out, "static_int8", rows, missed)


if __name__ == "__main__":
    if (work := asked_to_work()) is not None:
        convert(*work)
    else:
        sys.exit(main())
