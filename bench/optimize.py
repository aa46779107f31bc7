"""Size and speed of ONNX models after optimizers, and the optimizers' own cost: Sardonyx and the installed
rivals.

    bench/optimize.py [--only NAME ...] [--runs 42] [--out build/bench]

The models are exports of the demonstration models without any pass, the light models of the `onnx` package,
and graphs as PyTorch's exporters write them. Each tool works in a fresh process, including reading and
writing. RIVALS_PYTHON names the Python of another environment that has the rivals. README.md in this folder
explains the columns.
"""

import json
import math
import statistics
import sys
import time
from pathlib import Path

from common import RIVALS, ROOT, asked_to_work, finish, measure, parser, resident

TOOLS = ("sardonyx", "onnxsim", "onnxslim", "onnxoptimizer", "onnxscript", "onnxruntime")
LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
SIZES = {"batch": 2, "length": 17, "height": 64, "width": 96, "B": 2, "T": 17}


# ---- in the process that is measured ---------------------------------------------------------------------------------


def run_tool(tool: str, source: str, target: str) -> dict:
    """CPU seconds after the imports, those of the imports, and the maximum growth of the resident set."""
    if tool == "sardonyx":
        from sardonyx import optimize

        def work() -> None:
            optimize(source, target)
    elif tool == "onnxruntime":
        import onnxruntime

        def work() -> None:
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
            options.optimized_model_filepath = target
            options.intra_op_num_threads = 1
            onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    else:
        import onnx

        if tool == "onnxsim":
            import onnxsim

            def work() -> None:
                onnx.save(onnxsim.simplify(onnx.load(source))[0], target)
        elif tool == "onnxslim":
            import onnxslim

            def work() -> None:
                onnxslim.slim(source, target)
        elif tool == "onnxoptimizer":
            import onnxoptimizer

            def work() -> None:
                passes = onnxoptimizer.get_fuse_and_elimination_passes()
                onnx.save(onnxoptimizer.optimize(onnx.load(source), passes, fixed_point=True), target)
        else:
            from onnxscript import optimizer

            def work() -> None:
                onnx.save(optimizer.optimize(onnx.load(source)), target)

    imports, before = time.process_time(), resident("VmRSS")
    work()
    seconds = time.process_time() - imports
    return {"seconds": seconds, "imports": imports, "growth": resident("VmHWM") - before}


# ---- in the process that measures ------------------------------------------------------------------------------------


def with_weights(model):
    """Replaces a light model's ConstantOfShape nodes by weights of seeded noise."""
    import numpy as np
    from onnx import numpy_helper

    rng = np.random.default_rng(0)
    graph = model.graph
    values = {i.name: i for i in graph.initializer}
    variances = {n.input[4] for n in graph.node if n.op_type == "BatchNormalization"}
    made = [n for n in graph.node if n.op_type == "ConstantOfShape" and n.input[0] in values]
    shapes = {n.input[0] for n in made}
    for node in made:
        shape = numpy_helper.to_array(values[node.input[0]])
        fan = max(int(np.prod(shape[1:])), 1)
        weights = rng.standard_normal(shape) * (2 / fan) ** 0.5 if len(shape) > 1 else rng.standard_normal(shape) * 0.1
        if node.output[0] in variances:
            weights = 1 + np.abs(weights)
        graph.initializer.append(numpy_helper.from_array(weights.astype(np.float32), node.output[0]))
        graph.node.remove(node)
    for item in [i for i in graph.initializer if i.name in shapes]:
        graph.initializer.remove(item)
    for item in [i for i in graph.input if i.name in values]:  # otherwise the caller could override the weights
        graph.input.remove(item)
    model.ir_version = max(model.ir_version, 4)
    return model


def make_models(folder: Path, only: list[str] | None) -> dict[str, Path]:
    """Name -> file. Existing files are kept."""
    import onnx

    sys.path[:0] = [str(ROOT / "demo"), str(ROOT / "bench")]
    from models import MODELS
    from torch_graphs import GRAPHS

    folder.mkdir(parents=True, exist_ok=True)
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    found: dict[str, Path] = {}
    for model in MODELS:
        found[model.name] = folder / f"{model.name}.onnx"
    for name in GRAPHS:
        found[name] = folder / f"{name}.onnx"
    for name in LIGHT:
        found[f"light_{name}"] = folder / f"light_{name}.onnx"
    found = {name: path for name, path in found.items() if not only or name in only}
    for name, path in found.items():
        if path.exists():
            continue
        if name in GRAPHS:
            onnx.save(GRAPHS[name](), path)
        elif name.startswith("light_"):
            onnx.save(with_weights(onnx.load(light / f"{name}.onnx")), path)
        else:
            import sardonyx

            model = next(m for m in MODELS if m.name == name)
            sardonyx.to_onnx(model.make(), list(model.inputs), passes="none", return_mode="file", output_path=str(path))
    return found


def count_nodes(path: Path) -> int:
    import onnx

    def count(graph) -> int:
        bodies = [a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
        return sum(n.op_type != "Constant" for n in graph.node) + sum(count(b) for b in bodies)

    model = onnx.load(path, load_external_data=False)
    return count(model.graph) + sum(sum(n.op_type != "Constant" for n in f.node) for f in model.functions)


def inputs_for(session) -> dict:
    import numpy as np

    rng = np.random.default_rng(0)
    feeds = {}
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else SIZES.get(d, 2) for d in i.shape]
        if "float" in i.type:
            feeds[i.name] = rng.standard_normal(shape).astype(np.float32)
        else:
            kind = {"tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(uint32)": np.uint32}[i.type]
            feeds[i.name] = rng.integers(0, 2 if i.name == "mask" else 100, shape).astype(kind)
    return feeds


def session_of(path: Path, optimize: bool):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run_times(files: dict[str, Path], reference: Path, runs: int) -> dict[str, dict]:
    """Median processor time in onnxruntime with its default settings, on one thread, the files taking turns
    in rotating order. Also the largest difference of a result from the original model's, relative to that
    result's largest magnitude.

    Processor time of the thread, since other processes may use the machine meanwhile."""
    import numpy as np

    plain = session_of(reference, optimize=False)
    feeds = inputs_for(plain)
    want = plain.run(None, feeds)
    del plain
    sessions, answers = {}, {}
    for tool, path in files.items():
        try:
            sessions[tool] = session_of(path, optimize=True)
            got = sessions[tool].run(None, feeds)
            off = [
                float(np.abs(g.astype(np.float64) - w).max() / max(np.abs(w.astype(np.float64)).max(), 1e-30))
                if g.shape == w.shape
                else math.inf
                for g, w in zip(got, want, strict=True)
                if w.size
            ]
            answers[tool] = {"off": max(off, default=0.0), "times": []}
        except Exception as error:  # a rival's file may not run
            sessions.pop(tool, None)
            answers[tool] = {"error": str(error).splitlines()[0][:100]}
    turns = list(sessions.items())
    for _ in range(runs):
        turns = turns[1:] + turns[:1]
        for tool, session in turns:
            start, times = time.thread_time(), 0
            while time.thread_time() - start < 5e-3:
                session.run(None, feeds)
                times += 1
            answers[tool]["times"].append((time.thread_time() - start) / times)
    for answer in answers.values():
        if "times" in answer:
            times = answer.pop("times")
            answer["run"] = statistics.median(times)
            answer["halves"] = [statistics.median(times[::2]), statistics.median(times[1::2] or times)]
    return answers


def bench_model(name: str, source: Path, folder: Path, pythons: dict[str, str], runs: int) -> dict:
    result: dict = {"before": count_nodes(source), "tools": {}}
    files = {"before": source}
    for tool, python in pythons.items():
        target = folder / f"{name}.{tool}.onnx"
        answer = measure(__file__, python, tool, source, target, timeout=600)
        if "error" not in answer and not target.exists():
            answer = {"error": "it wrote nothing"}
        result["tools"][tool] = answer
        if "error" in answer:
            answer["error"] = answer["error"][:100]
            continue
        answer |= {"nodes": count_nodes(target), "bytes": target.stat().st_size}
        files[tool] = target
    for tool, answer in run_times(files, source, runs).items():
        result["tools"].setdefault(tool, {"nodes": result["before"]}).update(answer)
    for tool in files:
        if tool != "before":
            files[tool].unlink()
    return result


def show(results: dict) -> None:
    print(f"{'model':16}{'tool':>14}{'nodes':>7}{'bytes':>10}{'CPU':>10}{'memory':>9}{'run':>10}{'off':>9}")
    for name, result in results.items():
        for tool, r in result["tools"].items():
            print(f"{name:16}{tool:>14}", end="")
            if "nodes" in r:
                print(f"{r['nodes']:>7}", end="")
            if "seconds" in r:
                print(f"{r['bytes'] / 1e6:>7.1f} MB{1e3 * r['seconds']:>7.0f} ms{r['growth'] / 1e6:>6.0f} MB", end="")
            elif "run" in r:
                print(" " * 29, end="")
            print(f"{1e3 * r['run']:>7.1f} ms{r['off']:>9.0e}" if "run" in r else f"  {r['error']}")


def verdict(results: dict) -> list[str]:
    """The targets that Sardonyx missed."""
    missed, shares, best = [], [], []
    for name, result in results.items():
        ours, others = result["tools"]["sardonyx"], {t: r for t, r in result["tools"].items() if t in TOOLS[1:]}
        if "error" in ours:
            missed.append(f"{name}: {ours['error']}")
            continue
        sound = {t: r for t, r in others.items() if "run" in r and r["off"] < 1e-3}
        shares.append(ours["nodes"] / result["before"])
        best.append(min((r["nodes"] for r in sound.values()), default=result["before"]) / result["before"])
        for tool, r in sound.items():
            if r["nodes"] < ours["nodes"]:
                missed.append(f"{name}: {ours['nodes']} nodes, {tool} leaves {r['nodes']}")
            if all(a > 1.05 * b + 1e-4 for a, b in zip(ours["halves"], r["halves"], strict=True)):
                missed.append(f"{name}: runs {1e3 * ours['run']:.1f} ms, {tool}'s {1e3 * r['run']:.1f} ms")
            least = {"onnxsim": 10, "onnxruntime": 3}.get(tool, 1)
            if ours["seconds"] * least > r["seconds"]:
                missed.append(
                    f"{name}: {1e3 * ours['seconds']:.0f} ms of CPU, {tool} takes {1e3 * r['seconds']:.0f} ms"
                )
    if shares:
        ours, others = (math.exp(statistics.fmean(map(math.log, s))) for s in (shares, best))
        print(f"geometric mean of nodes left: {ours:.3f}; of the best rival on each model: {others:.3f}")
    return missed


def main() -> int:
    if (work := asked_to_work()) is not None:
        print(json.dumps(run_tool(*work)))
        return 0
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", metavar="NAME")
    options.add_argument("--tools", nargs="+", default=TOOLS, choices=TOOLS)
    options.add_argument("--runs", type=int, default=42)
    arguments = options.parse_args()
    pythons = {t: sys.executable if t in ("sardonyx", "onnxruntime") else RIVALS for t in arguments.tools}
    folder = arguments.out / "models"
    results = {}
    for name, source in make_models(folder, arguments.only).items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        results[name] = bench_model(name, source, folder, pythons, arguments.runs)
    show(results)
    return finish(arguments.out, "optimize", results, verdict(results))


if __name__ == "__main__":
    sys.exit(main())
