"""Optimize kept models with Sardonyx and with its rivals, hold the results to onnxruntime, and print how small they are.

    compare.py FOLDER [--only TEXT ...] [--page FILE] [--coreml] [--write-coreml]

FOLDER has a folder for each family of models (see kept.py). Asked of each model: what Sardonyx makes of it loads and runs in onnxruntime,
with its optimizations off and on, with the same results, for all kept sizes; a second run changes no byte; no rival that keeps the results
leaves fewer nodes, but for the models that exceptions.txt lists; what exporters refuse is what refused.txt lists. The same, without rivals, is
asked of each model raised to opset 23, where attention and normalizations are operators; newer.txt lists what cannot be. Converted to Core ML in
single precision, it has the same results on the evaluator; coreml.txt lists what is refused. All lists must be exact.
What rivals leave is kept in results.json until the model changes.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import json
import math
import os
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "bench")]
import to_coreml  # noqa: E402
from kept import Feeds, load_feeds  # noqa: E402

RIVALS = ("onnxsim", "onnxslim", "onnxoptimizer", "onnxscript", "onnxruntime")
TOLERANCE = {np.dtype(np.float16): 4e-3}  # others: 1e-5, as a result of f64 may come from f32
# A result behind a rounding to 8 bits: where a float lies between two steps, the last bit decides which it is.
QUANTIZED = 0.04
SECONDS = 120  # for one model and one tool
NEWER = 23  # opset of Attention, RMSNormalization, RotaryEmbedding


# ---- running ---------------------------------------------------------------------------------------------------------


def run(model: Path | bytes, feeds: list[Feeds], optimize: bool) -> list[list | None]:
    """Results for each size; None where the model cannot run with it. Raises where it cannot be loaded."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    source = model if isinstance(model, bytes) else str(model)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}
    found = []
    for one in feeds:
        try:
            found.append(session.run(None, {k: v for k, v in one.items() if k in names}))
        except Exception:
            found.append(None)
    return found


def difference(want: object, got: object, bound: float | None) -> str | None:
    """Why two results are not the same; `bound` is a share of the largest magnitude, None: as the dtype rounds."""
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(want) != len(got):
            return "another number of values"
        return next((why for a, b in zip(want, got) if (why := difference(a, b, bound))), None)
    if isinstance(want, dict):
        if not isinstance(got, dict) or want.keys() != got.keys():
            return "other keys"
        return difference(list(want.values()), [got[k] for k in want], bound)
    want, got = np.asarray(want), np.asarray(got)
    if (want.dtype, want.shape) != (got.dtype, got.shape):
        return f"{want.dtype}{list(want.shape)} became {got.dtype}{list(got.shape)}"
    if want.dtype.kind != "f":
        return None if np.array_equal(want, got) else "other elements"
    a, b = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "other infinities or NaNs"
    largest, far = np.abs(a[finite]).max(initial=0), np.abs(a[finite] - b[finite]).max(initial=0)
    allowed = TOLERANCE.get(want.dtype, 1e-5) if bound is None else bound
    return None if far <= allowed * largest else f"off by {far / largest if largest else math.inf:.1e}"


def judged(
    want: list[list | None], model: Path | bytes, feeds: list[Feeds], optimize: bool, bound: float | None
) -> str | None:
    """What onnxruntime holds against a model: why it does not load, run, or agree."""
    try:
        got = run(model, feeds, optimize)
    except Exception as error:
        return f"does not load: {str(error).splitlines()[0][:200]}"
    for i, (a, b) in enumerate(zip(want, got)):
        if a is None:
            continue
        if b is None:
            return f"does not run with size {i}"
        if why := difference(a, b, bound):
            return f"size {i}: {why}"
    return None


# ---- the tools -------------------------------------------------------------------------------------------------------


class Tool:
    """A process of its own for one rival, fed with one model after another; it is started again when a model ends it."""

    def __init__(self, name: str) -> None:
        self.name, self.process = name, None

    def work(self, source: Path, target: Path) -> dict:
        """What it answers; asked again in a new process if it fails in a used one: onnxslim's recursion grows with every model."""
        is_used = self.process is not None
        answer = self._ask(source, target)
        if "error" in answer and is_used:
            self.stop()
            answer = self._ask(source, target)
        return answer

    def _ask(self, source: Path, target: Path) -> dict:
        if self.process is None:
            command = [sys.executable, __file__, "--worker", self.name]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
            )
        self.process.stdin.write(f"{source}\t{target}\n")
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if ready.select(SECONDS) else ""
        if not line:
            self.stop()
            return {"error": "it ended, or took too long"}
        return json.loads(line)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def be_worker(name: str) -> None:
    from optimize import run_tool

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # rivals print
    for line in sys.stdin:
        source, target = line.rstrip("\n").split("\t")
        try:
            answer = run_tool(name, source, target)
        except BaseException as error:  # onnxslim exits
            answer = {"error": f"{type(error).__name__}: {str(error)[:120]}"}
        answers.write(json.dumps(answer) + "\n")


def count_nodes(path: Path) -> int:
    from optimize import count_nodes

    return count_nodes(path)


# ---- one model -------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    name: str
    before: dict
    ours: dict = field(default_factory=dict)
    rivals: dict[str, dict] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    newer: list[str] = field(default_factory=list)  # faults at opset NEWER
    coreml: to_coreml.Outcome | None = None

    def best(self) -> tuple[int, str] | None:
        return min(((r["nodes"], t) for t, r in self.rivals.items() if "nodes" in r and "error" not in r), default=None)


def is_quantized(model: onnx.ModelProto) -> bool:
    """Whether onnxruntime computes a part of it in integers: with accuracy_level 4, MatMulNBits rounds its operand to 8 bits, too."""

    def in_integers(n: onnx.NodeProto) -> bool:
        by_level = any(a.name == "accuracy_level" and a.i == 4 for a in n.attribute)
        return by_level or "Quantize" in n.op_type or "QLinear" in n.op_type or "Integer" in n.op_type

    return any(map(in_integers, model.graph.node))


def ask_rivals(
    row: Row, source: Path, tools: dict[str, Tool], want: list, feeds: list[Feeds], bound: float, kept: dict
) -> None:
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    if kept.get("digest") != digest:
        kept.clear()
        kept |= {"digest": digest, "rivals": {}}
    for name, tool in tools.items():
        if name not in kept["rivals"]:
            target = source.with_suffix(f".{name}.out.pb")
            answer = tool.work(source, target)
            if "error" not in answer and target.exists():
                answer = {"seconds": answer["seconds"], "nodes": count_nodes(target), "bytes": target.stat().st_size}
                if why := judged(want, target, feeds, False, bound):
                    answer["error"] = why
            elif "error" not in answer:
                answer["error"] = "it wrote nothing"
            target.unlink(missing_ok=True)
            kept["rivals"][name] = answer
    row.rivals = kept["rivals"]


def optimized(
    source: Path, target: Path, want: list[list], feeds: list[Feeds], bound: float | None, **options: int
) -> tuple[dict, list[str]]:
    """What Sardonyx leaves, and what is wrong with it; `want`: results with onnxruntime's optimizations off and on."""
    import sardonyx

    again = target.with_suffix(".again.pb")
    start = time.process_time()
    try:
        sardonyx.optimize(str(source), str(target), **options)
    except Exception as error:
        return {}, [f"optimize: {type(error).__name__}: {str(error).splitlines()[0][:200]}"]
    found = {"seconds": time.process_time() - start, "nodes": count_nodes(target), "bytes": target.stat().st_size}
    faults = []
    sardonyx.optimize(str(target), str(again), **options)
    if again.read_bytes() != target.read_bytes():
        faults.append(f"a second run changes it: {found['nodes']} nodes become {count_nodes(again)}")
    for level in (False, True):
        if why := judged(want[level], target, feeds, level, bound):
            faults.append(f"onnxruntime, optimizations {'on' if level else 'off'}: {why}")
    target.unlink()
    again.unlink()
    return found, faults


def examine(name: str, source: Path, tools: dict[str, Tool] | None, kept: dict) -> Row:
    """Without tools: the conversion to Core ML only."""
    feeds = load_feeds(source.with_suffix(".npz"))
    row = Row(name, {"nodes": count_nodes(source), "bytes": source.stat().st_size})
    try:
        want = run(source, feeds, False)
    except Exception as error:
        row.before["error"] = f"does not load as it is: {str(error).splitlines()[0][:120]}"
        return row
    if want[0] is None:
        row.before["error"] = "does not run as it is"
        return row
    proto = onnx.load(source)
    bound = QUANTIZED if is_quantized(proto) else None
    row.coreml = to_coreml.converted(source, want, feeds, bound)
    wrong = [f"to Core ML: {row.coreml.reason}"] if row.coreml.kind == "wrong" else []
    if tools is None:
        row.faults = wrong
        return row
    wanted = [want, want]
    # Its optimizations round otherwise: they are held to what they make of the model as it was.
    with contextlib.suppress(Exception):
        wanted[1] = run(source, feeds, True)
    target = source.with_suffix(".ours.out.pb")
    row.ours, row.faults = optimized(source, target, wanted, feeds, bound)
    row.faults += wrong
    if all(i.version < NEWER for i in proto.opset_import if i.domain in ("", "ai.onnx")):
        _, row.newer = optimized(source, target, wanted, feeds, bound, opset=NEWER)
    if row.ours:
        ask_rivals(row, source, tools, want, feeds, bound or 1e-3, kept)
    return row


# ---- all of them -----------------------------------------------------------------------------------------------------


def listed(path: Path) -> dict[str, str]:
    """`name: reason` a line; # begins a comment."""
    lines = [line.strip() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return {name.strip(): reason.strip() for name, _, reason in (line.partition(":") for line in lines)}


def verdict(rows: list[Row], families: set[str], refused: dict[str, str], whole: bool) -> list[str]:
    def of_families(name: str) -> dict[str, str]:
        return {k: v for k, v in listed(HERE / name).items() if k.split("/")[0] in families}

    missed = [f"{r.name}: {fault}" for r in rows for fault in r.faults]
    exceptions, expected, newer, coreml = (
        of_families(f"{name}.txt") for name in ("exceptions", "refused", "newer", "coreml")
    )
    missed += [f"{r.name}: at opset {NEWER}: {fault}" for r in rows if r.name not in newer for fault in r.newer]
    more = {r.name: r.best() for r in rows if r.ours and r.best() and r.best()[0] < r.ours["nodes"]}
    by_name = {r.name: r for r in rows}
    for name, (nodes, tool) in more.items():
        if name not in exceptions:
            missed.append(f"{name}: {by_name[name].ours['nodes']} nodes, {tool} leaves {nodes}")
    to_coreml_refused = {r.name: r.coreml.reason for r in rows if r.coreml and r.coreml.kind == "refused"}
    missed += [f"{k}: not converted to Core ML: {why}" for k, why in to_coreml_refused.items() if coreml.get(k) != why]
    refused = refused | {r.name: r.before["error"] for r in rows if "error" in r.before}
    missed += [f"{name}: not exported, {why}" for name, why in refused.items() if name not in expected]
    if whole:
        missed += [
            f"{name}: listed in exceptions.txt, but no rival leaves fewer nodes"
            for name in exceptions
            if name not in more
        ]
        missed += [f"{name}: listed in coreml.txt, but it converts" for name in coreml if name not in to_coreml_refused]
        missed += [f"{r.name}: listed in newer.txt, but it is right" for r in rows if r.name in newer and not r.newer]
        missed += [f"{name}: listed in refused.txt, but it is exported" for name in expected if name not in refused]
    return missed


def show(rows: list[Row]) -> None:
    print(f"{'model':42}{'nodes':>6}{'ours':>6}{'best':>6}  {'of':14}{'bytes':>9}{'ours':>9}{'ms':>7}")
    for r in rows:
        best = r.best()
        line = f"{r.name:42}{r.before['nodes']:>6}"
        if r.ours:
            line += f"{r.ours['nodes']:>6}{best[0] if best else '-':>6}  {best[1] if best else '':14}"
            line += f"{r.before['bytes']:>9}{r.ours['bytes']:>9}{1e3 * r.ours['seconds']:>7.1f}"
        else:
            line += f"  {r.before.get('error', '')}"
        print(line)


def coreml_lines(rows: list[Row]) -> list[str]:
    """What converts to Core ML, and why the rest does not."""
    tried = [r for r in rows if r.coreml]
    lines = [
        "",
        f"Converted to Core ML ({to_coreml.TARGET}, single precision), with onnxruntime's results at every size. Where the processor cuts off sums",
        "of quantized products, the onnx package's reference evaluator judges models whose weights are signed (`_s8`) instead:",
        "",
        "| family | right | refused | wrong |",
        "|---|--:|--:|--:|",
    ]
    for family in sorted({r.name.split("/")[0] for r in tried}):
        kinds = [r.coreml.kind for r in tried if r.name.startswith(family + "/")]
        lines.append(f"| {family} | {kinds.count('right')} | {kinds.count('refused')} | {kinds.count('wrong')} |")
    reasons: dict[str, list[str]] = {}
    for r in tried:
        if r.coreml.kind == "refused":
            reasons.setdefault(r.coreml.reason, []).append(r.name)
    lines += ["", "What is refused:", ""]
    return lines + [f"- {why}: {', '.join(f'`{n}`' for n in names)}" for why, names in sorted(reasons.items())]


def page(rows: list[Row]) -> str:
    """The table for the documentation: nodes, bytes and processor time of each tool."""
    done = [r for r in rows if r.ours]
    versions = {t: importlib.metadata.version(t) for t in RIVALS}
    for package in ("torch", "skl2onnx", "onnxmltools", "lightgbm", "xgboost", "catboost"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    lines = [
        "# Models of real exporters",
        "",
        "`make test-exporters` writes this page. The models are made on the spot, with fixed seeds, by PyTorch's two exporters, onnxruntime's quantizer and",
        "optimizer, skl2onnx, onnxmltools, CatBoost and tf2onnx. Every tool optimized each of them in one run. A rival's file counts if onnxruntime loads it",
        "and gets the same results. Times are processor time, with reading and writing; `-` is no file, or other results. Sardonyx keeps node",
        "metadata, of which PyTorch's newer exporter writes a lot; onnxsim, onnxoptimizer and onnxruntime drop it, hence their smaller files.",
        "",
        ", ".join(f"{k} {v}" for k, v in versions.items()) + ".",
        "",
        "| | of all | fewest nodes | nodes left, mean | bytes left, mean | time, as a share of ours |",
        "|---|---|---|---|---|---|",
    ]

    def mean(values: list[float]) -> float:
        return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan

    for tool in ("sardonyx", *RIVALS):
        found = [(r, r.ours if tool == "sardonyx" else r.rivals.get(tool, {})) for r in done]
        sound = [(r, x) for r, x in found if "nodes" in x and "error" not in x]
        fewest = sum(x["nodes"] <= min(r.ours["nodes"], (r.best() or (math.inf, ""))[0]) for r, x in sound)
        nodes = mean([max(x["nodes"], 1) / max(r.before["nodes"], 1) for r, x in sound])
        size = mean([x["bytes"] / r.before["bytes"] for r, x in sound])
        share = mean([x["seconds"] / r.ours["seconds"] for r, x in sound])
        lines.append(f"| {tool} | {len(sound)} of {len(done)} | {fewest} | {nodes:.3f} | {size:.3f} | {share:.1f} |")
    exceptions = listed(HERE / "exceptions.txt")
    if exceptions:
        lines += ["", "More nodes than the best rival, and why:", ""]
        lines += [f"- `{name}`: {why}" for name, why in exceptions.items()]
    lines += coreml_lines(rows)
    lines += [
        "",
        "Nodes:",
        "",
        "| model | before | sardonyx | " + " | ".join(RIVALS) + " |",
        "|---" * (3 + len(RIVALS)) + "|",
    ]
    alike = []
    for r in done:
        if r.best() and r.best()[0] == r.ours["nodes"]:
            alike.append(f"`{r.name}` {r.ours['nodes']}")
            continue
        cells = [
            str(x["nodes"]) if "nodes" in x and "error" not in x else "-" for x in (r.rivals.get(t, {}) for t in RIVALS)
        ]
        lines.append(f"| {r.name} | {r.before['nodes']} | {r.ours['nodes']} | " + " | ".join(cells) + " |")
    lines += ["", f"As few as the best rival's: {', '.join(alike)}."]
    return "\n".join(lines) + "\n"


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        be_worker(sys.argv[2])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", metavar="TEXT")
    parser.add_argument("--page", type=Path, help="write the table there, in Markdown")
    parser.add_argument("--coreml", action="store_true", help="only convert to Core ML")
    parser.add_argument("--write-coreml", action="store_true", help="write coreml.txt anew")
    arguments = parser.parse_args()
    store = arguments.folder / "results.json"
    kept: dict[str, dict] = json.loads(store.read_text()) if store.exists() else {}
    versions = {t: importlib.metadata.version(t) for t in RIVALS}
    if kept.get("versions") != versions:
        kept = {"versions": versions}
    tools = None if arguments.coreml else {t: Tool(t) for t in RIVALS}
    rows, families, refused = [], set(), {}
    for path in sorted(arguments.folder.glob("*/*.onnx")):
        name = f"{path.parent.name}/{path.stem}"
        if arguments.only and not any(text in name for text in arguments.only):
            continue
        families.add(path.parent.name)
        rows.append(examine(name, path, tools, kept.setdefault(name, {})))
        print(
            f"{len(rows):>4} {name}" + "".join(f"\n     {fault}" for fault in rows[-1].faults + rows[-1].newer),
            file=sys.stderr,
            flush=True,
        )
        store.write_text(json.dumps(kept))
    for tool in (tools or {}).values():
        tool.stop()
    for notes in arguments.folder.glob("*/refused.json"):
        found = {f"{notes.parent.name}/{name}": why for name, why in json.loads(notes.read_text()).items()}
        refused |= {n: w for n, w in found.items() if not arguments.only or any(text in n for text in arguments.only)}
    if arguments.write_coreml:
        found = [f"{r.name}: {r.coreml.reason}" for r in rows if r.coreml and r.coreml.kind == "refused"]
        head = "# Models that are refused on the way to Core ML. FAMILY/MODEL: why. `compare.py --write-coreml` writes it.\n"
        (HERE / "coreml.txt").write_text(head + "\n".join(found) + "\n")
    show(rows)
    whole = not arguments.only and not arguments.coreml
    missed = verdict(rows, families, refused, whole)
    if arguments.page and whole:
        arguments.page.write_text(page(rows))
    print(*missed, sep="\n")
    bad = {line.split(":")[0] for line in missed}
    print(f"{len(rows) - len(bad & {r.name for r in rows})} passed, {len(bad)} failed")
    return 1 if missed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
