"""Export the demonstration models, run them in onnxruntime, and compare with JAX.

    demo/run.py [--out build/demo] [--only NAME ...] [--rivals]

Leaves one .onnx per model, one Core ML package, `summary.md` and `summary.json` in the output folder. Ends with status 1 if a model
could not be exported or differs from JAX by more than it may. With `--rivals` the same is done with jax2onnx,
if it is installed here or in the environment that RIVALS_PYTHON points to.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from models import MODELS, DemoModel, by_name
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

OPSET = 23
RUNS = 5
PACKAGE = "resnet50"  # the model that also becomes a Core ML package


@dataclass
class Row:
    """What one exporter made of one model. Times in seconds."""

    model: str
    title: str
    tool: str
    trace: float | None = None
    stages: dict[str, float] = field(default_factory=dict)
    total: float | None = None
    nodes: int | None = None
    bytes: int | None = None
    difference: float | None = None  # the largest |difference| in any output at any size
    relative: float | None = None  # the same, as a share of the largest magnitude in that output
    tolerance: float = 0.0
    run: float | None = None
    run_at: str = ""
    error: str | None = None

    @property
    def good(self) -> bool:
        return self.error is None and self.relative is not None and self.relative <= self.tolerance


def jax_results(fn: Callable, inputs: Iterable[np.ndarray]) -> list[np.ndarray]:
    """What JAX computes. The weights are arguments of the compiled program: as constants XLA would fold them for long."""
    inputs = [jax.numpy.asarray(x) for x in inputs]
    closed = jax.make_jaxpr(fn)(*inputs)
    run = jax.jit(lambda consts, *args: jax.core.eval_jaxpr(closed.jaxpr, consts, *args))
    return [np.asarray(y) for y in run(closed.consts, *inputs)]


class Reference:
    """JAX's results for one model at each of its sizes, computed once for all exporters."""

    def __init__(self, model: DemoModel, fn: Callable):
        self.cases = []
        for sizes in model.sizes:
            inputs = model.sample(sizes)
            self.cases.append((sizes, inputs, jax_results(fn, inputs)))

    def judge(self, row: Row, path: Path) -> None:
        """Runs the file in onnxruntime at every size; fills in the differences and the time of the largest."""
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 3  # errors; its warnings about a rival's leftovers are not ours to show
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        row.difference = row.relative = 0.0
        for _, inputs, expected in self.cases:
            feeds = dict(zip(names, inputs, strict=True))
            found = session.run(None, feeds)
            if len(found) != len(expected):
                raise ValueError(f"{len(found)} results, JAX has {len(expected)}")
            for want, got in zip(expected, found, strict=True):
                if got.shape != want.shape or got.dtype != want.dtype:
                    raise ValueError(f"{got.dtype}{list(got.shape)} where JAX has {want.dtype}{list(want.shape)}")
                if not np.isfinite(got).all():
                    raise ValueError("a result is not finite")
                largest = float(np.max(np.abs(got.astype(np.float64) - want.astype(np.float64)), initial=0.0))
                row.difference = max(row.difference, largest)
                row.relative = max(row.relative, largest / max(float(np.max(np.abs(want), initial=0.0)), 1e-30))
        times = []
        for _ in range(RUNS):
            start = time.perf_counter()
            session.run(None, feeds)
            times.append(time.perf_counter() - start)
        row.run = statistics.median(times)
        row.run_at = ", ".join(f"{k}={v}" for k, v in self.cases[-1][0].items()) or "as it is"


def inspect(row: Row, path: Path) -> None:
    """Counts the nodes, those in bodies and functions included, and the bytes, external data included."""
    import onnx

    row.bytes = sum(p.stat().st_size for p in path.parent.glob(f"{path.name}*"))
    model = onnx.load(str(path), load_external_data=False)
    stack = [list(model.graph.node), *(list(f.node) for f in model.functions)]
    row.nodes = 0
    while stack:
        nodes = stack.pop()
        row.nodes += len(nodes)
        for node in nodes:
            for a in node.attribute:
                stack.extend(list(g.node) for g in ([a.g] if a.HasField("g") else []) + list(a.graphs))


def ours(model: DemoModel, fn: Callable, path: Path, row: Row) -> None:
    import sardonyx

    start = time.perf_counter()
    _, report = sardonyx.to_onnx(
        fn,
        list(model.inputs),
        model_name=model.name,
        opset=OPSET,
        return_mode="file",
        output_path=str(path),
        return_report=True,
    )
    row.total = time.perf_counter() - start
    row.stages = dict(report.stages)
    row.trace = row.stages.pop("trace", None)


@dataclass
class Package:
    """What the conversion to Core ML made of a model, read from the package again. Times in seconds."""

    title: str
    path: str
    total: float
    ops: int
    bytes: int
    relative: float  # as of Row, at the first size, on Sardonyx's evaluator
    tolerance: float

    @property
    def good(self) -> bool:
        return self.relative <= self.tolerance

    def __str__(self) -> str:
        verdict = "agrees" if self.good else "DIFFERS"
        return (
            f"{self.title} to Core ML: {self.path}, {self.ops} ops, {self.bytes / 1e6:.4g} MB, in "
            f"{milliseconds(self.total)} ms; {verdict} with JAX to {self.relative:.1e} of the largest value "
            f"(may be {self.tolerance:.0e})"
        )


def package(model: DemoModel, fn: Callable, reference: "Reference", out: Path) -> Package:
    """Writes the model as a package, reads it again, evaluates it, and compares with JAX."""
    import warnings

    import sardonyx
    from sardonyx import coreml

    path = out / f"{model.name}.mlpackage"
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about sizes without a bound
        sardonyx.to_coreml(fn, list(model.inputs), output_path=path, precision="f32")
    total = time.perf_counter() - start
    program = coreml.load(path)
    _, inputs, expected = reference.cases[0]
    found = program.run(inputs).values()
    relative = max(
        float(np.max(np.abs(got - want))) / float(np.max(np.abs(want)))
        for got, want in zip(found, expected, strict=True)
    )
    return Package(
        model.title,
        str(path),
        total,
        sum(n for op, n in program.op_counts().items() if op != "const"),
        sum(f.stat().st_size for f in path.rglob("*") if f.is_file()),
        relative,
        model.tolerance,
    )


def rival_python() -> str | None:
    """A Python that has jax2onnx: the one RIVALS_PYTHON names, or this one."""
    candidates = [os.environ.get("RIVALS_PYTHON"), sys.executable]
    for python in filter(None, candidates):
        probe = [python, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('jax2onnx') is None)"]
        if Path(python).exists() and subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return python
    return None


def rival(python: str, model: DemoModel, path: Path, row: Row) -> None:
    """The export runs in a process of its own, which answers in JSON."""
    here = Path(__file__).parent
    done = subprocess.run(
        [python, str(here / "rival.py"), model.name, str(path), str(OPSET)],
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_TRACEBACK_FILTERING": "off"},  # or the last line of an error is advice
        check=False,
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
    answer = json.loads(done.stdout.splitlines()[-1])
    row.total, row.trace = answer["total"], answer["trace"]


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.1f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"


def columns(rows: list[Row], narrow: bool = False) -> list[tuple[str, Callable[[Row], str]]]:
    """The columns of the summary: a heading and what a row shows under it. `narrow` keeps to 100 characters or so."""
    stages = list(dict.fromkeys(name for row in rows for name in row.stages))

    def stage(name: str) -> tuple[str, Callable[[Row], str]]:
        return f"{name} ms", lambda row: milliseconds(row.stages.get(name))

    def verdict(row: Row) -> str:
        return "failed" if row.error else "agrees" if row.good else "DIFFERS"

    parts = [
        ("model", lambda row: row.model if narrow else row.title),
        ("exporter", lambda row: row.tool),
        ("trace ms" if narrow else "JAX trace ms", lambda row: milliseconds(row.trace)),
        *(stage(name) for name in stages),
        ("all ms", lambda row: milliseconds(row.total)),
        ("nodes", lambda row: "" if row.nodes is None else f"{row.nodes}"),
        ("MB", lambda row: "" if row.bytes is None else f"{row.bytes / 1e6:.4g}"),
        ("largest difference", lambda row: "" if row.difference is None else f"{row.difference:.1e}"),
        ("of largest value", lambda row: "" if row.relative is None else f"{row.relative:.1e}"),
        ("may be", lambda row: f"{row.tolerance:.0e}"),
        ("ORT ms", lambda row: milliseconds(row.run)),
        ("at", lambda row: row.run_at),
        ("with JAX", verdict),
    ]
    dropped = {"largest difference", "at", "may be"} if narrow else set()
    if all(row.tool == "sardonyx" for row in rows):
        dropped.add("exporter")
    return [part for part in parts if part[0] not in dropped]


def show(console: Console, rows: list[Row]) -> None:
    table = Table(title="From JAX to ONNX")
    parts = columns(rows, narrow=console.width < 160)
    for heading, _ in parts:
        text = heading in ("model", "exporter", "at", "with JAX")
        table.add_column(heading, justify="left" if text else "right", no_wrap=heading == "model")
    for row in rows:
        style = "red" if not row.good else "dim" if row.tool != "sardonyx" else None
        table.add_row(*(cell(row) for _, cell in parts), style=style)
    console.print(table)
    for row in rows:
        if row.error:
            console.print(f"{row.title} ({row.tool}): {row.error}", style="red", markup=False, highlight=False)


def write_summary(out: Path, rows: list[Row], packages: list[Package]) -> None:
    parts = columns(rows)
    lines = [
        "# Demonstration: from JAX to ONNX",
        "",
        "Times are of this machine and this run. `JAX trace` is the time in `jax.make_jaxpr`; the stages after it are",
        "the exporter's own. Differences are the largest over all outputs at all tested sizes, in onnxruntime on the CPU.",
        "",
        "| " + " | ".join(heading for heading, _ in parts) + " |",
        "|" + "---|" * len(parts),
        *("| " + " | ".join(cell(row) for _, cell in parts) + " |" for row in rows),
        "",
        "Why a model may differ as much as it may:",
        "",
        *(f"- {model.title}: {model.why}" for model in MODELS),
    ]
    if packages:
        lines += ["", "One of them as a Core ML package, read again and evaluated without a Mac:", ""]
        lines += [f"- {one}" for one in packages]
    failed = [row for row in rows if row.error]
    if failed:
        lines += ["", "Failed:", "", *(f"- {row.title} ({row.tool}): {row.error}" for row in failed)]
    (out / "summary.md").write_text("\n".join(lines) + "\n")
    (out / "summary.json").write_text(json.dumps([asdict(row) | {"good": row.good} for row in rows], indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/demo"))
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME", help="only these models")
    parser.add_argument("--rivals", action="store_true", help="beside jax2onnx, where it is installed")
    parser.add_argument("--debug", action="store_true", help="show the whole traceback of a failure")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    chosen = [by_name(name) for name in arguments.only] if arguments.only else MODELS

    console = Console() if sys.stdout.isatty() else Console(width=220)
    python = rival_python() if arguments.rivals else None
    if arguments.rivals and python is None:
        console.print("jax2onnx is not installed here; RIVALS_PYTHON=/path/to/python names an environment that has it")
    tools = ["sardonyx"] + (["jax2onnx"] if python else [])

    rows: list[Row] = []
    packages: list[Package] = []
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task("", total=len(chosen) * (1 + 2 * len(tools)))

        def step(text: str, advance: int = 1) -> None:
            progress.update(task, description=escape(text), advance=advance)
            if not console.is_terminal:
                print(text, flush=True)

        for model in chosen:
            step(f"{model.name}: making it, running it in JAX", 0)
            fn = model.make()
            reference = Reference(model, fn)
            step(f"{model.name}: made", 1)
            for tool in tools:
                row = Row(model.name, model.title, tool, tolerance=model.tolerance)
                rows.append(row)
                path = arguments.out / f"{model.name}{'' if tool == 'sardonyx' else '.' + tool}.onnx"
                for old in arguments.out.glob(f"{path.name}*"):
                    old.unlink()
                try:
                    step(f"{model.name}: exporting with {tool}", 0)
                    if tool == "sardonyx":
                        ours(model, fn, path, row)
                    else:
                        rival(python, model, path, row)
                    step(f"{model.name}: running the export of {tool} in onnxruntime", 1)
                    inspect(row, path)
                    reference.judge(row, path)
                    step(f"{model.name}: compared", 1)
                except Exception as error:
                    if arguments.debug:
                        traceback.print_exc()
                    row.error = (str(error).strip().splitlines() or [repr(error)])[0]
                    step(f"{model.name}: {tool} failed: {row.error}", 1)
            if model.name == PACKAGE:
                step(f"{model.name}: as a Core ML package", 0)
                packages.append(package(model, fn, reference, arguments.out))
            del fn, reference
    show(console, rows)
    for one in packages:
        console.print(str(one), style=None if one.good else "red", highlight=False)
    write_summary(arguments.out, rows, packages)
    console.print(f"files and summary.md are in {arguments.out}", highlight=False)
    return 0 if all(row.good for row in (*packages, *(row for row in rows if row.tool == "sardonyx"))) else 1


if __name__ == "__main__":
    sys.exit(main())
