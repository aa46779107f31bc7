"""PyTorch models to Core ML: torch -> ONNX -> Sardonyx beside torch -> coremltools; JAX beside stablehlo-coreml; long models.

    bench/to_coreml.py [--only NAME ...] [--nodes 25000 50000 100000] [--weights 68] [--page] [--out build/bench]

Needs torch, which RIVALS_PYTHON's environment may have. Both tools start from the traced model: coremltools from a TorchScript in
memory, Sardonyx from the ONNX file. Operations and bytes are in half precision, both tools' default; values in single precision
beside PyTorch's. `--page` writes the table into docs/generated/coreml.md.
"""

import json
import os
import shutil
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

from common import RIVALS, ROOT, asked_to_work, finish, measure, parser

sys.path.insert(0, os.environ.get("PYTHONPATH", "").split(":")[0] or str(ROOT / "build" / "release" / "python"))
PAGE = ROOT / "docs" / "generated" / "coreml.md"
BEGIN, END = "<!-- figures: bench/to_coreml.py -->\n", "<!-- end of figures -->\n"
SECONDS, MEMORY, FASTER = 0.5, 0.1, 20  # after tracing at most; of the weights at most; than coremltools at least
MORE_OPS = 0.02
TOLERANCE = 1e-4


class Memory:
    """The largest growth of this process's own memory (mapped files do not count) while it lives, in bytes."""

    def __enter__(self):
        self.peak = self.start = self.now()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.done.wait(0.002):
            self.peak = max(self.peak, self.now())

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.grown = self.peak - self.start

    @staticmethod
    def now() -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        return 0


def size_of(path: Path) -> int:
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def ops_of(package: Path) -> int:
    from sardonyx import coreml

    return sum(n for op, n in coreml.load(package).op_counts().items() if op != "const")


def timed(work) -> tuple[float, float]:
    """(processor seconds, bytes of memory)"""
    with Memory() as memory:
        start = time.process_time()
        work()
        seconds = time.process_time() - start
    return seconds, memory.grown


def difference(package: Path, x, wanted) -> float:
    import numpy as np
    from sardonyx import coreml

    (found,) = coreml.load(package).run([x]).values()
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def ours(name: str, folder: Path) -> dict:
    """Converts folder/model.onnx, after another model, so that the library is loaded."""
    import numpy as np
    import sardonyx

    onnx, x, wanted = folder / "model.onnx", np.load(folder / "x.npy"), np.load(folder / "y.npy")
    small = folder / "small.onnx"
    sardonyx.to_coreml(small, output_path=folder / "small.mlpackage")
    out = folder / "ours.mlpackage"
    seconds, memory = timed(lambda: sardonyx.to_coreml(onnx, output_path=out))
    exact = folder / "ours32.mlpackage"
    sardonyx.to_coreml(onnx, output_path=exact, precision="f32")
    x = x.astype(np.int32) if x.dtype.kind == "i" else x
    return {
        "seconds": seconds,
        "memory": memory,
        "ops": ops_of(out),
        "bytes": size_of(out),
        "difference": difference(exact, x, wanted),
        "weights": onnx.stat().st_size,
    }


def traced(name: str, folder: Path) -> dict:
    """Writes folder/model.onnx, its input and its result."""
    import numpy as np
    import torch
    from torch_models import made

    for file, which in (("model.onnx", name), ("small.onnx", "conv net")):
        model, x = made(which)
        with torch.no_grad():
            torch.onnx.export(
                model, (x,), str(folder / file), opset_version=17, dynamo=False, input_names=["x"], output_names=["y"]
            )
            if which == name:
                np.save(folder / "x.npy", x.numpy())
                np.save(folder / "y.npy", model(x).numpy())
    return {}


def theirs(name: str, folder: Path) -> dict:
    """coremltools, from TorchScript."""
    import coremltools as ct
    import numpy as np
    import torch
    from torch_models import made

    def convert(which, precision):
        model, x = made(which)
        kind = np.int32 if x.dtype == torch.int64 else np.float32
        with torch.no_grad():
            script = torch.jit.trace(model, x)
        out = folder / f"theirs{precision}.mlpackage"

        def work():
            ct.convert(
                script,
                inputs=[ct.TensorType("x", shape=x.shape, dtype=kind)],
                outputs=[ct.TensorType("y", dtype=np.float32)],  # as the model has it
                minimum_deployment_target=ct.target.iOS17,
                compute_precision=getattr(ct.precision, precision),
                skip_model_load=True,
            ).save(str(out))

        return (*timed(work), out)

    convert("conv net", "FLOAT16")
    seconds, memory, out = convert(name, "FLOAT16")
    return {"seconds": seconds, "memory": memory, "ops": ops_of(out), "bytes": size_of(out)}


def long_model(nodes: int, folder: Path) -> dict:
    """A chain of additions, products and activations."""
    import numpy as np
    import onnx
    import sardonyx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(7)
    weights = [numpy_helper.from_array(rng.normal(size=7).astype(np.float32), f"w{i}") for i in range(101)]
    kinds = ("Add", "Mul", "Tanh", "Sub", "Sin")
    made = []
    for i in range(nodes):
        kind, before = kinds[i % len(kinds)], f"v{i - 1}" if i else "x"
        second = [f"w{i % 101}"] if kind in ("Add", "Mul", "Sub") else []
        made.append(helper.make_node(kind, [before, *second], [f"v{i}"]))
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [5, 7]) for n in ("x", f"v{nodes - 1}")]
    graph = helper.make_graph(made, "chain", info[:1], info[1:], weights)
    path = folder / "long.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    del made, graph
    seconds, memory = timed(lambda: sardonyx.to_coreml(path, output_path=folder / "long.mlpackage"))
    return {"seconds": seconds, "memory": memory, "ops": ops_of(folder / "long.mlpackage")}


def large_weights(count: int, folder: Path) -> dict:
    """Products with `count` matrices of 64 MiB in a file beside the model; copying that file for comparison. The least of five
    turns each: the first also take the time to find memory for the files."""
    import numpy as np
    import sardonyx
    from onnx import TensorProto, helper

    side = 4096
    rng = np.random.default_rng(7)
    weights, nodes = [], []
    with open(folder / "w.bin", "wb") as data:
        for i in range(count):
            place = {"location": "w.bin", "offset": str(data.tell()), "length": str(side * side * 4)}
            w = TensorProto(
                name=f"w{i}", data_type=TensorProto.FLOAT, dims=[side, side], data_location=TensorProto.EXTERNAL
            )
            for key, value in place.items():
                w.external_data.add(key=key, value=value)
            weights.append(w)
            (rng.standard_normal((side, side), dtype=np.float32) * 0.02).tofile(data)
            nodes.append(helper.make_node("MatMul", [f"v{i - 1}" if i else "x", f"w{i}"], [f"v{i}"]))
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, side]) for n in ("x", f"v{count - 1}")]
    graph = helper.make_graph(nodes, "large", info[:1], info[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path, out, copy = folder / "large.onnx", folder / "large.mlpackage", folder / "copy.bin"
    path.write_bytes(model.SerializeToString())
    found = {"bytes": (folder / "w.bin").stat().st_size}
    how = {
        "copied": lambda: shutil.copyfile(folder / "w.bin", copy),
        "fp32": lambda: sardonyx.to_coreml(path, output_path=out, precision="f32"),
        "fp16": lambda: sardonyx.to_coreml(path, output_path=out),
    }
    for _ in range(5):
        for name, work in how.items():
            seconds, memory = timed(work)
            found[name] = min(seconds, found.get(name, seconds))
            found[f"{name} memory"] = max(memory, found.get(f"{name} memory", 0))
            copy.unlink(missing_ok=True)
            shutil.rmtree(out, ignore_errors=True)
    (folder / "w.bin").unlink()
    return found


def jax_models():
    import jax
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(7)

    def weight(*shape):
        return (rng.standard_normal(shape) * 0.05).astype(np.float32)

    width, heads, layers = 384, 6, 6
    blocks = [
        [weight(width, 3 * width), weight(width, width), weight(width, 4 * width), weight(4 * width, width)]
        for _ in range(layers)
    ]

    def norm(x):
        x = x - x.mean(-1, keepdims=True)
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def transformer(x):
        batch, length, _ = x.shape
        for qkv, out, up, down in blocks:
            q, k, v = jnp.moveaxis((norm(x) @ qkv).reshape(batch, length, 3, heads, width // heads), 2, 0)
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width // heads) ** 0.5
            y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v).reshape(batch, length, width)
            x = x + y @ out
            x = x + jax.nn.gelu(norm(x) @ up, approximate=False) @ down
        return norm(x)

    kernels = [weight(3, 3, a, b) for a, b in ((3, 32), (32, 64), (64, 128), (128, 128))]

    def conv(x):
        for i, w in enumerate(kernels):
            x = jax.lax.conv_general_dilated(x, w, (1 + i % 2,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x)
        return x.mean((1, 2))

    return {"transformer": (transformer, (1, 64, width)), "convolutions": (conv, (1, 96, 96, 3))}


def jax_ours(name: str, folder: Path) -> dict:
    import jax
    import numpy as np
    import sardonyx
    from sardonyx import coreml

    models = jax_models()
    fn, shape = models[name]
    sardonyx.to_coreml(lambda x: x + 1, [(3,)])
    start = time.process_time()
    jax.make_jaxpr(fn)(jax.ShapeDtypeStruct(shape, np.float32))
    trace = time.process_time() - start
    jax.clear_caches()
    out = folder / "jax.mlpackage"
    seconds, memory = timed(lambda: sardonyx.to_coreml(fn, [shape], output_path=out))
    exact = coreml.load(sardonyx_path(fn, shape, folder))
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    wanted = np.asarray(jax.jit(fn)(x))
    (found,) = exact.run([x]).values()
    return {
        "seconds": max(seconds - trace, 0),
        "ops": ops_of(out),
        "bytes": size_of(out),
        "difference": float(np.abs(found - wanted).max() / np.abs(wanted).max()),
    }


def sardonyx_path(fn, shape, folder: Path) -> Path:
    import sardonyx

    out = folder / "jax32.mlpackage"
    sardonyx.to_coreml(fn, [shape], output_path=out, precision="f32")
    return out


def jax_theirs(name: str, folder: Path) -> dict:
    import coremltools as ct
    import jax
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir
    from stablehlo_coreml import build_pass_pipeline, convert

    def work(fn, shape, out):
        exported = jax.export.export(jax.jit(fn))(jax.ShapeDtypeStruct(shape, np.float32))
        context = mlir.make_ir_context()
        module = ir.Module.parse(exported.mlir_module(), context=context)

        def after():
            program = convert(module, minimum_deployment_target=ct.target.iOS18)
            ct.convert(
                program,
                source="milinternal",
                minimum_deployment_target=ct.target.iOS18,
                pass_pipeline=build_pass_pipeline(),
                skip_model_load=True,
            ).save(str(out))

        return timed(after)

    models = jax_models()
    work(lambda x: x + 1, (3,), folder / "warm.mlpackage")
    out = folder / "theirs.mlpackage"
    seconds, memory = work(*models[name], out)
    return {"seconds": seconds, "ops": ops_of(out), "bytes": size_of(out)}


WORK = {f.__name__: f for f in (ours, traced, theirs, long_model, large_weights, jax_ours, jax_theirs)}


def row(name: str, a: dict, b: dict, missed: list[str], large: bool) -> str:
    for who, found in (("Sardonyx", a), ("coremltools", b)):
        if "error" in found:
            print(f"{name}: {who}: {found['error']}")
    if "error" in a:
        missed.append(f"{name}: {a['error']}")
        return f"| {name} | refused | | | | | |"
    if a["difference"] > TOLERANCE:
        missed.append(f"{name}: differs from PyTorch by {a['difference']:.1e}")
    if large and a["seconds"] > SECONDS:
        missed.append(f"{name}: {a['seconds']:.2f} s")
    share = a["memory"] / a["weights"]
    if large and a["weights"] > 10e6 and share > MEMORY:
        missed.append(f"{name}: memory of {share:.2f} of the weights")
    cells = [
        f"{a['seconds']:.3f}",
        f"{share:.2f}" if large else "",
        f"{a['ops']}",
        f"{a['bytes'] / 1e6:.4g}",
        f"{a['difference']:.0e}",
    ]
    if "error" in b:
        return f"| {name} | {' | '.join(f'{c}' for c in cells)} |"
    if a["ops"] > b["ops"] * (1 + MORE_OPS):
        missed.append(f"{name}: {a['ops']} ops, coremltools has {b['ops']}")
    if a["bytes"] > b["bytes"]:
        missed.append(f"{name}: {a['bytes']} bytes, coremltools has {b['bytes']}")
    if large and b["seconds"] < FASTER * a["seconds"]:
        missed.append(f"{name}: {b['seconds'] / a['seconds']:.1f} times as fast as coremltools")
    cells[0] += f" / {b['seconds']:.2f} ({b['seconds'] / a['seconds']:.0f} x)"
    cells[2] += f" / {b['ops']}"
    cells[3] += f" / {b['bytes'] / 1e6:.4g}"
    return f"| {name} | {' | '.join(cells)} |"


def main() -> int:
    from_torch = ["conv net", "transformer block", "causal block", "lstm", "u-net, small"]
    large = ["resnet50", "mobilenet_v2", "vit_b16", "bert_base", "gpt2", "unet"]
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", default=None, metavar="NAME")
    options.add_argument("--nodes", nargs="*", type=int, default=[25000, 50000, 100000])
    options.add_argument("--weights", type=int, default=68, help="matrices of 64 MiB; 0: none")
    options.add_argument("--page", action="store_true", help="write the table into docs/generated/coreml.md")
    arguments = options.parse_args()
    script = str(Path(__file__).resolve())
    missed: list[str] = []
    figures: dict[str, dict] = {}
    lines = [
        "| PyTorch model | seconds: Sardonyx / coremltools | memory / weights | ops | MB | of the largest value |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    with tempfile.TemporaryDirectory() as top:

        def ask(work, name):
            folder = Path(top) / str(len(figures))
            shared = Path(top) / "torch"
            folder = shared if work in ("ours", "traced", "theirs") else folder
            folder.mkdir(exist_ok=True)
            found = measure(script, RIVALS, work, name, folder, timeout=600)
            figures[f"{work}: {name}"] = found
            return found

        for name in arguments.only if arguments.only is not None else from_torch + large:
            done = ask("traced", name)
            a = ask("ours", name) if "error" not in done else done
            lines.append(row(name, a, ask("theirs", name), missed, name in large))
            print(lines[-1], flush=True)
            shutil.rmtree(Path(top) / "torch", ignore_errors=True)
        if arguments.only is None:
            lines += [
                "",
                "| JAX program | seconds after tracing: Sardonyx / stablehlo-coreml | ops | MB | of the largest value |",
                "|---|--:|--:|--:|--:|",
            ]
            for name in ("transformer", "convolutions"):
                a, b = ask("jax_ours", name), ask("jax_theirs", name)
                if "error" in a or "error" in b:
                    print(name, a.get("error"), b.get("error"))
                if "error" in a:
                    missed.append(f"{name}: {a['error']}")
                    continue
                cells = [f"{a['seconds']:.3f}", f"{a['ops']}", f"{a['bytes'] / 1e6:.4g}"]
                if "error" not in b:
                    cells = [
                        f"{c} / {d}"
                        for c, d in zip(
                            cells, (f"{b['seconds']:.2f}", b["ops"], f"{b['bytes'] / 1e6:.4g}"), strict=True
                        )
                    ]
                lines.append(f"| {name} | {' | '.join(cells)} | {a['difference']:.0e} |")
                print(lines[-1], flush=True)
        lines += (
            ["", "| Nodes of a chain | seconds | microseconds a node |", "|--:|--:|--:|"] if arguments.nodes else []
        )
        per_node = []
        for nodes in arguments.nodes:
            a = ask("long_model", nodes)
            if "error" in a:
                missed.append(f"{nodes} nodes: {a['error']}")
                continue
            per_node.append(a["seconds"] / nodes)
            lines.append(f"| {nodes:,} | {a['seconds']:.2f} | {1e6 * a['seconds'] / nodes:.1f} |")
            print(lines[-1], flush=True)
        if arguments.weights:
            a = ask("large_weights", arguments.weights)
            if "error" in a:
                missed.append(f"large weights: {a['error']}")
            else:
                lines += ["", "| Weights | copied | fp32 | fp16 | memory, fp32 and fp16 |", "|--:|--:|--:|--:|--:|"]
                cells = [f"{a[name]:.2f} s" for name in ("copied", "fp32", "fp16")]
                memory = [f"{a[f'{name} memory'] / 1e6:.1f}" for name in ("fp32", "fp16")]
                lines.append(f"| {a['bytes'] / 1e9:.1f} GB | {' | '.join(cells)} | {' and '.join(memory)} MB |")
                print(lines[-1], flush=True)
        if len(per_node) > 1 and per_node[-1] > 1.5 * per_node[0]:
            missed.append(f"time per node grows: {per_node}")
    if arguments.page:
        text = PAGE.read_text()
        head, rest = text.split(BEGIN)
        PAGE.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END)[1])
    return finish(arguments.out, "to_coreml", {"figures": figures}, missed)


if __name__ == "__main__":
    if (work := asked_to_work()) is not None:
        warnings.filterwarnings("ignore")
        name = int(work[1]) if work[0] in ("long_model", "large_weights") else work[1]
        print(json.dumps(WORK[work[0]](name, Path(work[2]))))
        sys.exit(0)
    sys.exit(main())
