"""Graphs of a thousand to a million nodes, and models with 4 GB of weights, through the command line.

    bench/scale.py [--sizes 1000 10000 100000 1000000] [--gigabytes 4] [--out build/bench]

Reading, verifying and writing must be linear in the number of nodes, and so must the default passes. The
large models must take about as long as `cp` and little memory. The files are written here byte by byte, since
no other library makes them in reasonable time.
"""

import itertools
import os
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from common import ROOT, finish, parser

# Upper bounds: (seconds, bytes) for a million nodes, anonymous bytes for 4 GB of weights. "none": without
# passes.
AT_A_MILLION = {"none": (0.8, 0.3e9), "onnx": (1.5, 0.5e9)}
ANONYMOUS = {"none": 150e6, "onnx": 200e6}


# ---- protobuf, the subset that a chain needs
# --------------------------------------------------------------------------


def varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def value_info(name: str, dims: list[int]) -> bytes:
    shape = b"".join(field(1, field(1, d)) for d in dims)
    tensor = field(1, 1) + field(2, shape)  # elem_type float, shape
    return field(1, name) + field(2, field(1, tensor))


def model(graph: bytes) -> bytes:
    opset = field(1, "") + field(2, 21)
    return field(1, 10) + field(2, "bench") + field(8, opset) + field(7, graph)


def write_chain(path: Path, nodes: int) -> None:
    """x -> Relu -> Neg -> Tanh -> ... -> y, each node with a name."""
    ops = [field(4, op) for op in ("Relu", "Neg", "Tanh")]
    names = [field(1, "x")[2:]] + [f"v{i}".encode() for i in range(1, nodes)] + [b"y"]
    parts = []
    for i in range(nodes):
        source, target, label = names[i], names[i + 1], b"n%d" % i
        body = b"".join((
            b"\x0a", bytes((len(source),)), source,
            b"\x12", bytes((len(target),)), target,
            b"\x1a", bytes((len(label),)), label,
            ops[i % 3],
        ))  # fmt: skip
        parts.append(b"\x0a" + varint(len(body)) + body)
    parts += [field(2, "chain"), field(11, value_info("x", [2, 3])), field(12, value_info("y", [2, 3]))]
    path.write_bytes(model(b"".join(parts)))


class Nodes:
    """Named nodes, one after another."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def op(self, kind: str, *inputs: str, attribute: bytes = b"") -> str:
        label = len(self.parts) + 1
        body = b"".join(field(1, i) for i in inputs) + field(2, f"v{label}") + field(3, f"n{label}") + field(4, kind)
        self.parts.append(field(1, body + attribute))
        return f"v{label}"

    def write(self, path: Path, name: str, result: str, extra: bytes = b"") -> None:
        self.parts.append(field(1, field(1, result) + field(2, "y") + field(3, "last") + field(4, "Identity")))
        ports = field(11, value_info("x", [2, 3, 5])) + field(12, value_info("y", [2, 3, 5]))
        path.write_bytes(model(b"".join(self.parts) + field(2, name) + extra + ports))


def write_pairs(path: Path, count: int) -> None:
    """Pairs of casts, transposes and reshapes, alone and around elementwise nodes. Two of twelve nodes
    remain."""

    def ints(name: str, values: list[int]) -> bytes:
        return field(5, field(1, name) + b"".join(field(8, v) for v in values) + field(20, 7))

    def i64s(name: str, values: list[int]) -> bytes:
        raw = struct.pack(f"<{len(values)}q", *values)
        return field(5, field(1, len(values)) + field(2, 7) + field(8, name) + field(9, raw))

    to64, to32 = (field(5, field(1, "to") + field(3, t) + field(20, 2)) for t in (11, 1))
    there, further, back = (ints("perm", p) for p in ([0, 2, 1], [2, 0, 1], [1, 2, 0]))
    n, v = Nodes(), "x"
    while len(n.parts) < count - 12:
        v = n.op("Cast", n.op("Cast", v, attribute=to64), attribute=to32)
        v = n.op("Transpose", n.op("Relu", n.op("Transpose", v, attribute=there)), attribute=there)
        v = n.op("Transpose", n.op("Transpose", v, attribute=further), attribute=back)
        v = n.op("Reshape", n.op("Neg", n.op("Reshape", v, "flat")), "deep")
        v = n.op("Cast", n.op("Add", v, "one"), attribute=to32)
    one = field(5, field(2, 1) + field(8, "one") + field(9, struct.pack("<f", 1)))
    n.write(path, "pairs", v, i64s("flat", [0, 15]) + i64s("deep", [0, 3, 5]) + one)


def write_mesh(path: Path, count: int) -> None:
    """Rows of nodes, each computed twice. Half of them are removed."""
    n = Nodes()
    u = v = "x"
    while len(n.parts) < count - 6:
        p, q = n.op("Exp", u), n.op("Exp", v)
        r, s = n.op("Mul", p, u), n.op("Mul", v, q)
        u, v = n.op("Add", r, q), n.op("Add", p, s)
    n.write(path, "mesh", n.op("Sub", u, v))


def write_large(path: Path, gigabytes: float) -> int:
    """y = Relu(Relu(x @ w0) @ w1) ..., with weights of 64 MiB each in one external file. Returns the bytes of
    the weights."""
    import numpy as np

    side = 4096
    size = 4 * side * side
    count = max(1, round(gigabytes * 1e9 / size))
    data = path.with_suffix(".data")
    block = np.random.default_rng(0).integers(0, 2**32, size // 4, dtype=np.uint32) & 0x3FFFFFFF  # no nan, no inf
    with open(data, "wb") as file:
        for i in range(count):
            file.write(np.roll(block, i).data)
    nodes, tensors = [], []
    for i in range(count):
        entries = (("location", data.name), ("offset", str(i * size)), ("length", str(size)))
        external = b"".join(field(13, field(1, k) + field(2, v)) for k, v in entries)
        tensors.append(field(5, field(1, side) * 2 + field(2, 1) + field(8, f"w{i}") + external + field(14, 1)))
        source, target = ("x" if i == 0 else f"s{i}"), ("y" if i == count - 1 else f"s{i + 1}")
        nodes.append(field(1, field(1, source) + field(1, f"w{i}") + field(2, f"m{i}") + field(4, "MatMul")))
        nodes.append(field(1, field(1, f"m{i}") + field(2, target) + field(4, "Relu")))
    ports = field(11, value_info("x", [1, side])) + field(12, value_info("y", [1, side]))
    path.write_bytes(model(b"".join(nodes) + field(2, "large") + b"".join(tensors) + ports))
    return count * size


# ---- running and watching --------------------------------------------------------------------------------------------


def watch(command: list[str]) -> dict:
    """Wall and processor time, and the peaks of resident and anonymous memory. Samples every 10 ms (2 at
    first), since more frequent sampling would slow the process down.

    Memory does not come from wait4: the kernel includes this process's own size in a child's peak.
    """
    seen = {"VmHWM": 0, "RssAnon": 0}
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    done = threading.Event()

    def sample() -> None:
        while not done.is_set():
            try:
                for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                    key, _, value = line.partition(":")
                    if key in seen:
                        seen[key] = max(seen[key], int(value.split()[0]) * 1024)
            except (FileNotFoundError, ProcessLookupError):
                return
            time.sleep(0.002 if time.perf_counter() - start < 0.05 else 0.01)

    thread = threading.Thread(target=sample)
    thread.start()
    error = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    done.set()
    thread.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {error.strip()[-500:]}")
    cpu = usage.ru_utime + usage.ru_stime
    return {"seconds": seconds, "cpu": cpu, "peak": seen["VmHWM"], "anonymous": seen["RssAnon"]}


def best(command: list[str], repeat: int) -> dict:
    runs = [watch(command) for _ in range(repeat)]
    return {key: min(run[key] for run in runs) for key in runs[0]}


def command(tool: str, source: Path, target: Path, passes: str) -> list[str]:
    """Reads, verifies, runs the passes and writes."""
    return [tool, "optimize", str(source), "-o", str(target), "--passes", passes, "--quiet"]


def bench_large(arguments, folder: Path, missed: list[str]) -> dict:
    source, target = folder / "large.onnx", folder / "copy" / "large.onnx"
    data = source.with_suffix(".data")
    size = write_large(source, arguments.gigabytes)
    commands = {
        "cp": ["cp", str(source), str(data), str(target.parent)],
        "none": command(arguments.tool, source, target, "none"),
        "onnx": command(arguments.tool, source, target, "onnx"),
    }
    runs: dict[str, list] = {name: [] for name in commands}
    for _ in range(arguments.repeat):  # in turn, with all files in the page cache
        for name, what in commands.items():
            shutil.rmtree(target.parent, ignore_errors=True)  # left by an interrupted run
            target.parent.mkdir()
            runs[name].append(watch(what))
            shutil.rmtree(target.parent)
    seconds = {name: statistics.median(r["seconds"] for r in all_runs) for name, all_runs in runs.items()}
    result = {"bytes": size, "seconds": seconds}
    for passes in ("none", "onnx"):
        anonymous = result[f"anonymous {passes}"] = max(r["anonymous"] for r in runs[passes])
        ratio = seconds[passes] / seconds["cp"]
        print(
            f"{size / 1e9:.1f} GB of weights, passes {passes}: {seconds[passes]:.2f} s, cp {seconds['cp']:.2f} s,",
            end=" ",
        )
        print(f"ratio {ratio:.2f}, anonymous memory {anonymous / 1e6:.0f} MB")
        if ratio > 1.25:
            missed.append(f"the large model takes {ratio:.2f} times as long as cp ({passes})")
        if anonymous > ANONYMOUS[passes]:
            missed.append(f"the large model takes {anonymous / 1e6:.0f} MB of anonymous memory ({passes})")
    return result


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    options.add_argument("--gigabytes", type=float, default=4.0, help="0 leaves the large model out")
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--tool", default=str(ROOT / "build" / "release" / "sardonyx"))
    arguments = options.parse_args()
    folder = arguments.out / "scale"
    folder.mkdir(parents=True, exist_ok=True)
    results: dict = {"graphs": {}}
    missed = []

    print(
        f"{'graph':>7}{'passes':>8}{'nodes':>9}{'file':>10}{'wall s':>9}{'cpu s':>9}{'us/node':>9}{'peak':>9}{'bytes/node':>11}"
    )
    kinds = (("chain", "none", write_chain), ("pairs", "onnx", write_pairs), ("mesh", "onnx", write_mesh))
    for (kind, passes, write), nodes in itertools.product(kinds, arguments.sizes):
        source = folder / f"{kind}{nodes}.onnx"
        write(source, nodes)
        r = best(command(arguments.tool, source, folder / "out.onnx", passes), arguments.repeat)
        results["graphs"][f"{kind} {nodes}"] = r
        print(f"{kind:>7}{passes:>8}{nodes:>9}{source.stat().st_size / 1e6:>7.1f} MB{r['seconds']:>9.3f}", end="")
        print(f"{r['cpu']:>9.3f}{1e6 * r['cpu'] / nodes:>9.2f}{r['peak'] / 1e6:>6.0f} MB{r['peak'] / nodes:>11.0f}")
        if nodes == 1_000_000:
            seconds, size = AT_A_MILLION[passes]
            if r["cpu"] > seconds:
                missed.append(f"{kind}: 1M nodes take {r['cpu']:.2f} s, at most {seconds} is wanted")
            if r["peak"] > size:
                missed.append(f"{kind}: 1M nodes take {r['peak'] / 1e6:.0f} MB, at most {size / 1e6:.0f} are wanted")
        source.unlink()

    if arguments.gigabytes:
        needed = 2.2e9 * arguments.gigabytes
        if shutil.disk_usage(folder).free < needed:
            print(f"the large model is left out: it needs {needed / 1e9:.0f} GB of free disk")
        else:
            results["large"] = bench_large(arguments, folder, missed)
    shutil.rmtree(folder)
    return finish(arguments.out, "scale", results, missed)


if __name__ == "__main__":
    sys.exit(main())
