"""Time and memory of exporting, compared with tracing: Sardonyx and jax2onnx on the demonstration models.

    bench/convert.py [--only NAME ...] [--repeat 5] [--rivals] [--out build/bench]

Every figure comes from a fresh process, and the exporters take turns within one run. Only ratios are compared
with targets. README.md in this folder explains the columns.
"""

import gc
import importlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from common import RIVALS, ROOT, asked_to_work, finish, measure, parser, resident

sys.path.insert(0, str(ROOT / "demo"))

TARGETS = {"ratio": 0.25, "memory": 0.10, "import": 0.15, "rival": 10}
MEASURABLE = 10e6  # bytes of weights; a tenth of fewer is less than the allocator's rounding


# ---- in the process that is measured ---------------------------------------------------------------------------------


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def export(tool: str, model, fn, path: Path) -> tuple[float, dict[str, float]]:
    """Total seconds, and seconds by stage if the exporter reports them."""
    keywords = {"model_name": model.name, "opset": 23, "return_mode": "file", "output_path": str(path)}
    if tool == "sardonyx":
        import sardonyx

        start = time.perf_counter()
        _, report = sardonyx.to_onnx(fn, list(model.inputs), **keywords, return_report=True)
        total = time.perf_counter() - start
        return total, dict(report.stages)
    import jax2onnx

    start = time.perf_counter()
    jax2onnx.to_onnx(fn, list(model.inputs), **keywords)
    return time.perf_counter() - start, {}


def after_tracing(tool: str, model, fn, exports: int = 3) -> float:
    """Processor time from the end of tracing to a graph in memory, the minimum of some exports. All exporters
    have this figure."""
    import jax

    exporter = importlib.import_module(tool)
    trace, ended = jax.make_jaxpr, []

    def timed(*arguments, **options):
        run = trace(*arguments, **options)

        def and_note(*values, **more):
            try:
                return run(*values, **more)
            finally:
                ended.append(time.process_time())  # the first trace is the program's; later ones belong to the exporter

        return and_note

    jax.make_jaxpr = timed
    seconds = []
    try:
        for _ in range(exports):
            ended.clear()
            exporter.to_onnx(fn, list(model.inputs), model_name=model.name, opset=23, return_mode="ir")
            seconds.append(time.process_time() - ended[0])
    finally:
        jax.make_jaxpr = trace
    return min(seconds)


def worker(what: str, tool: str, name: str) -> dict:
    if what == "import":
        import jax

        start = time.perf_counter()
        __import__(tool)
        return {"import": time.perf_counter() - start}
    import jax
    from models import by_name

    model = by_name(name)
    fn = model.make()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        if what == "after":
            return {"after": after_tracing(tool, model, fn)}
        if what == "trace":
            start = time.perf_counter()
            closed = jax.make_jaxpr(fn)(*model.symbolic_inputs())
            seconds = time.perf_counter() - start
            return {"trace": seconds, "weights": sum(getattr(c, "nbytes", 0) for c in closed.consts)}
        if what == "time":
            first, stages = export(tool, model, fn, path)
            second, later = export(tool, model, fn, path)
            return {"first": first, "stages": stages, "second": second, "later": later}
        closed = jax.make_jaxpr(fn)(*model.symbolic_inputs())
        weights = sum(getattr(c, "nbytes", 0) for c in closed.consts)
        __import__(tool)
        before = resident("VmRSS")
        del closed
        gc.collect()
        reset_peak()
        if what == "memory of tracing":  # the exporter traces again, and JAX keeps some of each trace
            jax.make_jaxpr(fn)(*model.symbolic_inputs())
        else:
            export(tool, model, fn, path)
        return {"growth": resident("VmHWM") - before, "weights": weights}


# ---- in the process that measures ------------------------------------------------------------------------------------


def median(values) -> float:
    return statistics.median(values)


def bench_model(name: str, tools: dict[str, str], repeat: int, memory_runs: int) -> dict:
    """Traces and exports in turn, so that a slow minute of the machine affects all of them."""
    runs: dict[str, list[dict]] = {tool: [] for tool in ("trace", *tools)}
    for _ in range(repeat):
        runs["trace"].append(measure(__file__, sys.executable, "trace", "none", name))
        for tool, python in tools.items():
            runs[tool].append(measure(__file__, python, "time", tool, name))
    trace = median(r["trace"] for r in runs["trace"])
    result: dict = {"trace": trace, "weights": runs["trace"][0]["weights"]}
    for tool, python in tools.items():
        failed = next((r for r in runs[tool] if "error" in r), None)
        if failed:
            result[tool] = failed
            continue
        if len(tools) > 1:
            times = [measure(__file__, python, "after", tool, name) for _ in range(repeat)]
            if all("after" in t for t in times):
                result.setdefault("cpu_after", {})[tool] = median(t["after"] for t in times)
        growths = {
            what: [measure(__file__, python, what, tool, name)["growth"] for _ in range(memory_runs)]
            for what in ("memory", "memory of tracing")
        }
        answer = {
            "total": median(r["first"] for r in runs[tool]),
            "second": median(r["second"] for r in runs[tool]),
            "growth": median(growths["memory"]) - median(growths["memory of tracing"]),
        }
        answer["total_ratio"] = answer["total"] / trace
        if runs[tool][0]["stages"]:

            def after(run: dict, stages: str, total: str) -> float:
                return run[total] - run[stages].get("trace", 0) - run[stages].get("write", 0)

            answer["traced"] = median(r["stages"]["trace"] for r in runs[tool])
            answer["write"] = median(r["stages"].get("write", 0) for r in runs[tool])
            answer["after"] = median(after(r, "stages", "first") for r in runs[tool])
            answer["after_second"] = median(after(r, "later", "second") for r in runs[tool])
            answer["ratio"] = answer["after"] / trace
        result[tool] = answer
    return result


def show(results: dict, tools: dict[str, str]) -> None:
    print(f"{'model':12}{'tool':>10}{'trace':>9}{'after':>9}{'ratio':>7}{'write':>9}{'in all':>9}{'/trace':>8}", end="")
    print(f"{'2nd':>9}{'memory':>9}{'/weights':>9}")
    for name, result in results["models"].items():
        for tool in tools:
            r = result[tool]
            if "error" in r:
                print(f"{name:12}{tool:>10}  {r['error'][:110]}")
                continue
            milliseconds = [result["trace"], r.get("after"), r.get("write"), r["total"], r["second"]]
            trace, after, write, total, second = ("" if s is None else f"{1e3 * s:.0f} ms" for s in milliseconds)
            ratio = f"{r['ratio']:.2f}" if "ratio" in r else ""
            growth = f"{r['growth'] / 1e6:.1f} MB"
            share = f"{r['growth'] / result['weights']:.3f}" if result["weights"] else ""
            print(f"{name:12}{tool:>10}{trace:>9}{after:>9}{ratio:>7}{write:>9}{total:>9}", end="")
            print(f"{r['total_ratio']:>8.2f}{second:>9}{growth:>9}{share:>9}")
    for name, result in results["models"].items():
        if len(cpu := result.get("cpu_after", {})) > 1:
            print(f"{name:12} after tracing, processor time: ", end="")
            print(", ".join(f"{tool} {1e3 * s:.1f} ms" for tool, s in cpu.items()), end="")
            print(f", {cpu['jax2onnx'] / cpu['sardonyx']:.1f} times as much")
    for tool, seconds in results["import"].items():
        print(f"import {tool}, JAX being there: {seconds:.3f} s")


def main() -> int:
    if (work := asked_to_work()) is not None:
        print(json.dumps(worker(*work)))
        return 0
    from models import MODELS

    options = parser(__doc__)
    options.add_argument("--only", nargs="+", default=[m.name for m in MODELS], metavar="NAME")
    options.add_argument("--repeat", type=int, default=5)
    # Some runs find room in the heap that JAX left, others do not.
    options.add_argument("--memory-runs", type=int, default=7, help="processes that tell an exporter's memory (7)")
    options.add_argument(
        "--rivals", action="store_true", help="jax2onnx too: here, or in the Python RIVALS_PYTHON names"
    )
    arguments = options.parse_args()
    tools = {"sardonyx": sys.executable}
    if arguments.rivals:
        tools["jax2onnx"] = RIVALS
    results: dict = {"models": {}, "import": {}}
    for tool, python in tools.items():
        measure(__file__, python, "time", tool, "lstm")  # writes byte code; not counted
    for tool, python in tools.items():
        times = [measure(__file__, python, "import", tool, "none") for _ in range(arguments.repeat)]
        if any("error" in t for t in times):
            print(f"{tool} cannot be imported by {python}: {times[0]['error']}")
            return 1
        results["import"][tool] = median(t["import"] for t in times)
    for name in arguments.only:
        print(f"{name} ...", file=sys.stderr, flush=True)
        results["models"][name] = bench_model(name, tools, arguments.repeat, arguments.memory_runs)
    show(results, tools)

    missed = []
    for name, result in results["models"].items():
        r = result["sardonyx"]
        if "error" in r:
            missed.append(f"{name}: {r['error']}")
            continue
        if r.get("ratio", 0) > TARGETS["ratio"]:
            missed.append(f"{name}: {r['ratio']:.2f} of the trace, at most {TARGETS['ratio']} is wanted")
        if len(cpu := result.get("cpu_after", {})) > 1 and cpu["jax2onnx"] < TARGETS["rival"] * cpu["sardonyx"]:
            missed.append(
                f"{name}: jax2onnx needs {cpu['jax2onnx'] / cpu['sardonyx']:.1f} times the time after tracing, 10 is wanted"
            )
        if result["weights"] > MEASURABLE and r["growth"] > TARGETS["memory"] * result["weights"]:
            missed.append(f"{name}: memory grows by {r['growth'] / result['weights']:.2f} of the weights")
    if results["import"]["sardonyx"] > TARGETS["import"]:
        missed.append(f"import takes {results['import']['sardonyx']:.2f} s, at most {TARGETS['import']} is wanted")
    return finish(arguments.out, "convert", results, missed)


if __name__ == "__main__":
    sys.exit(main())
