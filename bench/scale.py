"""Chains of a thousand to a million nodes, and a model with 4 GB of weights, through the command line.

    bench/scale.py [--sizes 1000 10000 100000 1000000] [--gigabytes 4] [--out build/bench]

Reading, verifying and writing must stay linear in the nodes; the large model must take the time of `cp` and little memory.
The files are written here, byte by byte, since no other library can make them in reasonable time.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {"seconds at 1M": 0.8, "bytes at 1M": 0.3e9, "anonymous bytes at 4 GB": 150e6}


# ---- protobuf, as little of it as a chain needs ----------------------------------------------------------------------


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


def write_large(path: Path, gigabytes: float) -> int:
    """y = x + w0 + w1 + ..., the weights 64 MiB each in one external file. Returns the bytes of the weights."""
    import numpy as np

    size = 64 << 20
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
        tensors.append(field(5, field(1, size // 4) + field(2, 1) + field(8, f"w{i}") + external + field(14, 1)))
        source, target = ("x" if i == 0 else f"s{i}"), ("y" if i == count - 1 else f"s{i + 1}")
        nodes.append(field(1, field(1, source) + field(1, f"w{i}") + field(2, target) + field(4, "Add")))
    ports = field(11, value_info("x", [size // 4])) + field(12, value_info("y", [size // 4]))
    path.write_bytes(model(b"".join(nodes) + field(2, "large") + b"".join(tensors) + ports))
    return count * size


# ---- running and watching --------------------------------------------------------------------------------------------


def watch(command: list[str]) -> dict:
    """Wall and processor time, peak resident set and its largest anonymous part, sampled each 2 ms.

    Memory is not from wait4: the kernel counts this process's own size to a child's peak.
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
            time.sleep(0.002)

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


def copy_command(tool: str, source: Path, target: Path) -> list[str]:
    """Reads, verifies and writes again, with no pass in between."""
    return [tool, "optimize", str(source), "-o", str(target), "--passes", "none"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--gigabytes", type=float, default=4.0, help="0 leaves the large model out")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tool", default=str(ROOT / "build" / "release" / "sardonyx"))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    arguments = parser.parse_args()
    folder = arguments.out / "scale"
    folder.mkdir(parents=True, exist_ok=True)
    results: dict = {"chains": {}}
    missed = []

    print(f"{'nodes':>9}{'file':>10}{'wall s':>9}{'cpu s':>9}{'us/node':>9}{'peak':>9}{'bytes/node':>11}")
    for nodes in arguments.sizes:
        source = folder / f"chain{nodes}.onnx"
        write_chain(source, nodes)
        r = best(copy_command(arguments.tool, source, folder / "chain-out.onnx"), arguments.repeat)
        results["chains"][nodes] = r
        print(f"{nodes:>9}{source.stat().st_size / 1e6:>7.1f} MB{r['seconds']:>9.3f}{r['cpu']:>9.3f}", end="")
        print(f"{1e6 * r['cpu'] / nodes:>9.2f}{r['peak'] / 1e6:>6.0f} MB{r['peak'] / nodes:>11.0f}")
        if nodes == 1_000_000:
            if r["cpu"] > TARGETS["seconds at 1M"]:
                missed.append(f"1M nodes take {r['cpu']:.2f} s, at most {TARGETS['seconds at 1M']} is wanted")
            if r["peak"] > TARGETS["bytes at 1M"]:
                missed.append(f"1M nodes take {r['peak'] / 1e6:.0f} MB, at most 300 are wanted")
        source.unlink()

    if arguments.gigabytes:
        needed = 2.2e9 * arguments.gigabytes
        if shutil.disk_usage(folder).free < needed:
            print(f"the large model is left out: it needs {needed / 1e9:.0f} GB of free disk")
        else:
            source, target = folder / "large.onnx", folder / "copy" / "large.onnx"
            target.parent.mkdir(exist_ok=True)
            size = write_large(source, arguments.gigabytes)
            data = source.with_suffix(".data")
            ours, cp = [], []
            for _ in range(arguments.repeat):  # in turn, over files that are in memory for both
                cp.append(watch(["cp", str(source), str(data), str(target.parent)]))
                shutil.rmtree(target.parent)
                target.parent.mkdir()
                ours.append(watch(copy_command(arguments.tool, source, target)))
                shutil.rmtree(target.parent)
                target.parent.mkdir()
            seconds = statistics.median(r["seconds"] for r in ours)
            copying = statistics.median(r["seconds"] for r in cp)
            anonymous = max(r["anonymous"] for r in ours)
            results["large"] = {"bytes": size, "seconds": seconds, "cp": copying, "anonymous": anonymous}
            print(
                f"{size / 1e9:.1f} GB of weights: {seconds:.2f} s, cp {copying:.2f} s, ratio {seconds / copying:.2f}, ",
                end="",
            )
            print(f"anonymous memory {anonymous / 1e6:.0f} MB")
            if seconds > 1.25 * copying:
                missed.append(f"the large model takes {seconds / copying:.2f} times as long as cp")
            if anonymous > TARGETS["anonymous bytes at 4 GB"]:
                missed.append(
                    f"the large model takes {anonymous / 1e6:.0f} MB of anonymous memory, at most 150 are wanted"
                )
    shutil.rmtree(folder)
    (arguments.out / "scale.json").write_text(json.dumps(results, indent=1) + "\n")
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
