"""Node counts and speed of the models of `tests/python/support/zoo` and the demonstration: Sardonyx and jax2onnx.

    RIVALS_PYTHON=... bench/nodes.py [--only TEXT ...] [--static] [--time] [--run] [--rounds 21] [--out build/bench]

Counts the nodes of the graph, its bodies and its functions, except Constant nodes. Each exporter runs in its
own process. A model misses its target if jax2onnx makes fewer nodes. `--time` adds the processor time from
the end of tracing to a graph in memory, the minimum of nine exports; the target is a tenth of jax2onnx's
time. `--run` also times both models in onnxruntime, in one process, alternating, on one thread; the target is
a median at most 5 % above that of jax2onnx's, in two series.
"""

import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from common import RIVALS, ROOT, asked_to_work, finish, measure, parser

from convert import TARGETS, after_tracing

TOOLS = {"sardonyx": sys.executable, "jax2onnx": RIVALS}


def all_nodes(model):
    todo = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    while todo:
        node = todo.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                todo.extend(graph.node)


def models() -> list:
    sys.path[:0] = [str(ROOT / "tests" / "python" / "support"), str(ROOT / "demo")]
    from models import MODELS
    from zoo import all_models

    return [*all_models(), *MODELS]


def file_of(folder: str, tool: str, name: str) -> Path:
    return Path(folder) / f"{tool}-{''.join(c if c.isalnum() else '_' for c in name)}.onnx"


def worker(tool: str, static: bool, timed: bool, folder: str, only: list[str]) -> dict:
    """For each model, nodes by operator (or why there are none), and seconds after tracing if `timed`. Writes
    the models to the folder."""
    import importlib
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    exporter = importlib.import_module(tool)
    import jax
    import onnx

    found = {}
    for model in models():
        if only and not any(text in model.name for text in only):
            continue
        try:
            inputs = list(model.inputs)
            if static:
                inputs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in model.sample(model.sizes[0])]
            proto = exporter.to_onnx(model.make(), inputs, model_name="model", opset=23)
            ops = Counter(n.op_type for n in all_nodes(proto) if n.op_type != "Constant")
            onnx.save(proto, file_of(folder, tool, model.name))
            found[model.name] = {"nodes": sum(ops.values()), "ops": dict(ops.most_common())}
            if timed:
                found[model.name]["after"] = after_tracing(tool, model, model.make(), exports=9)
        except Exception as error:
            found[model.name] = {"error": f"{type(error).__name__}: {error}".split("\n")[0]}
    return found


def run_both(folder: str, name: str, rounds: int) -> dict:
    """Processor time of each exporter's model, alternating: minimum and median of each of two series."""
    import onnxruntime as ort

    model = next(m for m in models() if m.name == name)
    arrays = model.sample(model.sizes[0])
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 4
    runs = {}
    for tool in TOOLS:
        try:
            session = ort.InferenceSession(
                str(file_of(folder, tool, name)), settings, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            return {"error": f"{tool}'s does not load: {error}".split("\n")[0]}
        wanted = session.get_inputs()
        if len(wanted) != len(arrays):
            return {"error": f"{tool}'s model has {len(wanted)} inputs for {len(arrays)} arguments"}
        runs[tool] = (session, {i.name: x for i, x in zip(wanted, arrays, strict=True)})

    def once(tool: str, repeat: int) -> float:
        session, feed = runs[tool]
        start = time.process_time()
        for _ in range(repeat):
            session.run(None, feed)
        return (time.process_time() - start) / repeat

    # Repeat small models for at least a millisecond: the clock and the call cost more than they do.
    repeat = max(1, round(1e-3 / min(once(tool, 3) for tool in TOOLS)))
    series = []
    for _ in range(2):
        times: dict[str, list[float]] = {tool: [] for tool in TOOLS}
        for _ in range(rounds):
            for tool in TOOLS:
                times[tool].append(once(tool, repeat))
        series.append({tool: {"least": min(t), "median": statistics.median(t)} for tool, t in times.items()})
    return {"series": series}


def main() -> int:
    if (work := asked_to_work()) is not None:
        if work[0] == "run":
            print(json.dumps(run_both(work[1], work[2], int(work[3]))))
        else:
            print(json.dumps(worker(work[0], work[1] == "static", work[2] == "time", work[3], work[4:])))
        return 0
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="models with that in their names")
    options.add_argument("--static", action="store_true", help="no dynamic sizes")
    options.add_argument("--time", action="store_true", help="time the exporters after tracing, too")
    options.add_argument("--run", action="store_true", help="time the models in onnxruntime, too")
    options.add_argument("--rounds", type=int, default=21, help="runs of each model in a series (21)")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return compare(arguments, folder)


def compare(arguments, folder: str) -> int:
    results = {}
    for tool, python in TOOLS.items():
        results[tool] = measure(
            __file__,
            python,
            tool,
            "static" if arguments.static else "dynamic",
            "time" if arguments.time else "count",
            folder,
            *arguments.only,
        )
        if "error" in results[tool]:
            print(f"{tool} does not run in {python}: {results[tool]['error']}")
            return 1
    missed = []
    print(f"{'model':44}{'sardonyx':>10}{'jax2onnx':>10}" + ("   run, sardonyx/jax2onnx" if arguments.run else ""))
    for name, ours in results["sardonyx"].items():
        theirs = results["jax2onnx"].get(name, {"error": "not there"})
        print(f"{name:44}{ours.get('nodes', 'fails'):>10}{theirs.get('nodes', 'fails'):>10}", end="", flush=True)
        # A random generator node has no key: it draws other numbers than JAX, so this is a different program.
        other = any(op.startswith("Random") for op in theirs.get("ops", ()))
        print("  " + ("draws other numbers than JAX" if other else theirs.get("error", "")[:90]), end="")
        if "after" in ours and "after" in theirs:
            times = theirs["after"] / ours["after"]
            print(f"  {1e6 * ours['after']:7.0f} us, jax2onnx {times:4.1f} times as much", end="")
            if times < TARGETS["rival"]:
                missed.append(
                    f"{name}: jax2onnx needs {times:.1f} times the time after tracing, {TARGETS['rival']} is wanted"
                )
        if "error" in ours:
            missed.append(f"{name}: {ours['error']}")
        elif not other and ours["nodes"] > theirs.get("nodes", ours["nodes"]):
            missed.append(f"{name}: {ours['nodes']} nodes, jax2onnx makes {theirs['nodes']}")
        if arguments.run and not other and "nodes" in ours and "nodes" in theirs:
            runs = results.setdefault("runs", {})[name] = measure(
                __file__, sys.executable, "run", folder, name, arguments.rounds
            )
            print(show_runs(runs), end="")
            if runs.get("error", "").startswith("sardonyx"):
                missed.append(f"{name}: {runs['error']}")
            if "series" in runs and min(ratio(s, "median") for s in runs["series"]) > 1.05:
                missed.append(f"{name}: runs {min(ratio(s, 'median') for s in runs['series']):.2f} times as long")
        print()
    return finish(arguments.out, "nodes", results, missed)


def ratio(series: dict, figure: str) -> float:
    return series["sardonyx"][figure] / series["jax2onnx"][figure]


def show_runs(runs: dict) -> str:
    if "error" in runs:
        return runs["error"][:90]
    least = min(s["sardonyx"]["least"] for s in runs["series"])
    medians = " and ".join(f"{ratio(s, 'median'):.2f}" for s in runs["series"])
    return f"{1e3 * least:8.3f} ms; medians {medians}, least {min(ratio(s, 'least') for s in runs['series']):.2f}"


if __name__ == "__main__":
    sys.exit(main())
