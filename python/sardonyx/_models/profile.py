"""`sardonyx.profile`: where a model spends its time in onnxruntime, by node, module and source line."""

import bisect
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sardonyx import _sardonyx as native
from sardonyx._error import Error
from sardonyx._models.session import _NUMPY, _as_error
from sardonyx._models.sources import source_of
from sardonyx._page import Page
from sardonyx._progress import shown
from sardonyx._require import known_keywords, one_of, require
from sardonyx._values import shapes
from sardonyx.report import preformatted

_SUFFIX = "_kernel_time"
_CONTAINERS = ("If", "Loop", "Scan")  # their time includes that of the nodes inside
_UNKNOWN = "(unknown)"
_WARM, _LEAST, _MOST = 2, 10, 200  # runs: that warm up, that are counted


@dataclass(frozen=True)
class NodeTime:
    """What one node takes. onnxruntime fuses nodes; the time of a fused one is given to the node it is named after."""

    name: str
    op: str  # as onnxruntime runs it
    seconds: float  # per run of the model, all its executions together: the mean of the middle half of all runs
    provider: str
    module: str  # "Decoder/blocks/3/up"; "" if the model does not tell
    lines: tuple[str, ...]  # source lines of the program: "model.py:41 (forward)"


@dataclass(frozen=True)
class Profile:
    """Where a model spends its time in onnxruntime."""

    model: str
    seconds: float  # per run, as the caller sees it: the median
    nodes: tuple[NodeTime, ...]  # the slowest first; If, Loop and Scan without what is inside
    runs: int
    onnxruntime: str
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of the inputs, as they were given
    _source: str | bytes = field(default="", repr=False, compare=False)
    _times: list[list[float]] = field(default_factory=list, repr=False, compare=False)  # ms by graph and node

    def page(self, against: "Profile | None" = None) -> Page:
        """The drawing of the model, colored by time; with another profile, of both models.

        The model is read again where it was given as a path. Time that no node of the model has is not drawn.

            >>> sardonyx.profile("model.onnx").page().save("time.html")
        """
        if against is None:
            return Page(native.page(self._source, self.model, [], self._times))
        names = (os.path.basename(self.model), os.path.basename(against.model))
        return Page(native.diff_page(self._source, against._source, *names, self._times, against._times))

    def _repr_html_(self) -> str:
        return preformatted(self)

    def by(self, what: Literal["node", "operator", "module", "line"]) -> dict[str, float]:
        """Seconds per run by node, operator, module or source line, the slowest first.

        A node with several source lines counts for each in equal parts.
        """
        one_of("what", what, ("node", "operator", "module", "line"))
        keys: Callable[[NodeTime], Sequence[str]] = {
            "node": lambda n: (n.name,),
            "operator": lambda n: (n.op,),
            "module": lambda n: (n.module or _UNKNOWN,),
            "line": lambda n: n.lines or (_UNKNOWN,),
        }[what]
        sums: dict[str, float] = {}
        for n in self.nodes:
            parts = keys(n)
            for key in parts:
                sums[key] = sums.get(key, 0.0) + n.seconds / len(parts)
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def table(
        self,
        by: Literal["node", "operator", "module", "line"] = "node",
        most: int = 20,
        against: "Profile | None" = None,
    ) -> str:
        """The slowest rows as text, beside those of another profile if one is given."""
        ours = self.by(by)
        theirs = against.by(by) if against else {}
        names = list(dict.fromkeys([*ours, *theirs]))
        names.sort(key=lambda name: -max(ours.get(name, 0.0), theirs.get(name, 0.0)))
        width = max([len(by), *(len(name) for name in names[:most])], default=8)
        total = sum(ours.values()) or 1.0  # of the nodes: onnxruntime itself takes the rest of a run
        head = f"{by:<{width}}  {'ms':>9}  {'share':>6}" + (f"  {'other ms':>9}" if against else "")
        lines = [self._summary()] + ([against._summary()] if against else []) + ["", head]
        for name in names[:most]:
            row = f"{name:<{width}}  {ours.get(name, 0) * 1e3:9.3f}  {ours.get(name, 0) / total:6.1%}"
            lines.append(row + (f"  {theirs.get(name, 0) * 1e3:9.3f}" if against else ""))
        if len(names) > most:
            lines.append(f"... and {len(names) - most} more")
        return "\n".join(lines)

    def _summary(self) -> str:
        shapes = ", ".join(f"{name}[{','.join(map(str, shape))}]" for name, shape in self.shapes.items())
        return (
            f"{self.model}: {self.seconds * 1e3:.3f} ms per run, median of {self.runs}"
            f"{f', at {shapes}' if shapes else ''} (onnxruntime {self.onnxruntime})"
        )

    def __str__(self) -> str:
        return self.table()


@known_keywords
def profile(
    model: Any,
    inputs: Mapping[str, Any] | None = None,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    runs: int | None = None,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    threads: int = 0,
    progress: bool | Callable[[str, int, int], Any] = False,
) -> Profile:
    """Run a model in onnxruntime's profiler, and give each node's time its module and source lines.

    Args:
        model: A path, an `onnx.ModelProto`, bytes, or what else `optimize` takes.
        inputs: Arrays by name. The others are random numbers from a fixed seed; integers are 0 or 1.
        input_shapes: Shapes of generated inputs: `{"x": (1, 3, 224, 224)}`. Open sizes are 1 otherwise.
        runs: How many runs are counted; two more warm up. By default as many as one second allows, 10 to 200.
        providers: Of onnxruntime.
        threads: Of one operator; 0 lets onnxruntime choose.
        progress: As of `optimize`: True shows a bar.

    Raises:
        sardonyx.Error: onnxruntime is not installed, refuses the model, or fails to run it.
    """
    ort = require("onnxruntime", "onnx")
    if runs is not None and runs < 1:
        raise Error(f"runs={runs}", notes=["expected at least 1"])
    missing = [p for p in providers if p not in ort.get_available_providers()]
    if missing:
        available = ", ".join(ort.get_available_providers())
        raise Error(f"onnxruntime has no {missing[0]} here", notes=[f"it has: {available}"])
    source = source_of(model)
    if isinstance(source, native.ir.ModelBase):
        source = native.ir.serialize(source)
    name = source if isinstance(source, str) else "model"
    if isinstance(source, str) and not os.path.isfile(source):
        raise Error(f"there is no file '{source}'", notes=["expected an ONNX model"])
    origins = _Origins(source)
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(folder, "profile")
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        with _as_error("load"):
            session = ort.InferenceSession(source, options, providers=list(providers))
        feeds = _feeds(session.get_inputs(), inputs or {}, shapes(input_shapes))
        with shown(progress, os.path.basename(name)) as report:
            done = 0
            while done < _WARM + (runs or _LEAST):
                if report:
                    report("running", done, _WARM + (runs or _LEAST))
                start = time.perf_counter()
                with _as_error("run"):
                    session.run(None, feeds)
                done += 1
                if runs is None and done == _WARM:
                    runs = _runs_for(time.perf_counter() - start, sum(map(len, origins.graphs)))
        runs = done - _WARM
        events = json.loads(Path(session.end_profiling()).read_text())
    calls = sorted((e["ts"], e["dur"]) for e in events if e.get("cat") == "Session" and e["name"] == "model_run")[
        _WARM:
    ]
    starts, whole = [start for start, _ in calls], sorted(length for _, length in calls)
    counted = [e for e in events if e.get("cat") == "Node" and e["name"].endswith(_SUFFIX) and e["ts"] >= starts[0]]
    nodes, times = _times(counted, origins, starts)
    return Profile(
        model=name,
        seconds=whole[len(whole) // 2] / 1e6,
        nodes=nodes,
        runs=runs,
        onnxruntime=ort.__version__,
        shapes={name: value.shape for name, value in feeds.items()},
        _source=source,
        _times=times,
    )


def _runs_for(seconds: float, nodes: int) -> int:
    """How many runs of so many seconds are counted. onnxruntime keeps a million events at most, and reading them takes time."""
    return max(_LEAST, min(int(1 / max(seconds, 1e-6)), _MOST, 100_000 // max(nodes, 1)))


def _middle(values: Sequence[float]) -> float:
    """The mean of the middle half. As a median it forgets runs that something disturbed; unlike one it resolves less than the
    microsecond that the profiler counts in."""
    ordered, left_out = sorted(values), len(values) // 4
    kept = ordered[left_out : len(ordered) - left_out]
    return sum(kept) / len(kept)


class _Origins:
    """Finds the nodes of the model that events of onnxruntime's profiler are about.

    onnxruntime calls a node by its name; one without a name by its operator and its place in the graph; and one that
    it made by the name of a node or a result with something appended, as "Conv_3_nchwc".
    """

    def __init__(self, source: str | bytes):
        self.graphs = native.node_origins(source)
        self.by_name: list[dict[str, tuple]] = []
        self.named = [{node[0] for node in graph if node[0]} for graph in self.graphs]
        for graph in self.graphs:
            names = {result: node for node in graph for result in node[2] if result}
            self.by_name.append(names | {node[0]: node for node in graph if node[0]})

    def find(self, event: Mapping[str, Any], graphs: Sequence[int]) -> tuple | None:
        """The node, among those of these graphs."""
        name = event["name"].removesuffix(_SUFFIX)
        op, index = event["args"].get("op_name"), int(event["args"].get("node_index", -1))
        for g in graphs:
            if name != f"{op}_{index}" or not 0 <= index < len(self.graphs[g]) or name in self.named[g]:
                continue
            node = self.graphs[g][index]  # results may have such names, too, of other nodes
            if node[1] == op and not node[0]:
                return node
        for g in graphs:
            end = len(name)
            while end > 0:
                if (node := self.by_name[g].get(name[:end])) is not None:
                    return node
                end = max(name.rfind("_", 0, end), name.rfind("/", 0, end))
        return None


def _fused(events: Sequence[dict], origins: _Origins) -> dict[int, tuple]:
    """By onnxruntime's number of a node: the first of those that were fused, where it has no name to find it by. They
    are numbered in the order of the model."""
    numbers: dict[str, set[int]] = {}
    seen = set()
    for e in events:
        if _is_nameless(e):
            op = str(e["args"].get("op_name")).removeprefix("Fused")
            numbers.setdefault(op, set()).add(int(e["args"].get("node_index", -1)))
        elif (node := origins.find(e, [0])) is not None:
            seen.add(id(node))
    found: dict[int, tuple] = {}
    for op, of_op in numbers.items():
        free = [node for node in origins.graphs[0] if node[1] == op and not node[0] and id(node) not in seen]
        if len(free) == len(of_op):
            found.update(zip(sorted(of_op), free, strict=True))
    return found


def _is_nameless(event: Mapping[str, Any]) -> bool:
    # "fused NAME" elsewhere; what else has the name gets a token.
    return re.fullmatch(r"fused ?(_token_\d+)?", event["name"].removesuffix(_SUFFIX)) is not None


def _times(
    events: Sequence[dict], origins: _Origins, starts: Sequence[int]
) -> tuple[tuple[NodeTime, ...], list[list[float]]]:
    """The nodes by time, and milliseconds by graph and node, in the order of the model. `starts`: when each run began."""
    fused = _fused(events, origins)
    by_run: dict[tuple, list[float]] = {}  # seconds
    found: dict[tuple, tuple] = {}
    containers: list[tuple[int, tuple, tuple | None]] = []  # those around the event: end, key, node
    for e in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        end = e["ts"] + e["dur"]
        while containers and containers[-1][0] < end:
            containers.pop()
        run = max(0, bisect.bisect_right(starts, e["ts"]) - 1)
        around = containers[-1][2] if containers else None
        node = fused.get(int(e["args"].get("node_index", -1))) if _is_nameless(e) else None
        node = node or origins.find(e, around[5] if around else range(len(origins.graphs)) if containers else [0])
        name = (node[0] or node[2][0]) if node else e["name"].removesuffix(_SUFFIX)
        key = (name, e["args"].get("op_name", ""), e["args"].get("provider", ""))
        by_run.setdefault(key, [0.0] * len(starts))[run] += e["dur"] / 1e6
        if node:
            found[key] = node
        if containers:  # what contains this one has only the rest for itself
            by_run[containers[-1][1]][run] -= e["dur"] / 1e6
        if e["args"].get("op_name") in _CONTAINERS:
            containers.append((end, key, node))
    sums = {key: _middle(seconds) for key, seconds in by_run.items()}
    nodes = []
    for key, seconds in sums.items():
        name, op, provider = key
        _, _, _, module, lines, _ = found.get(key, (name, op, [], "", [], []))
        nodes.append(
            NodeTime(name, op, max(0.0, seconds), provider.removesuffix("ExecutionProvider"), module, tuple(lines))
        )
    by_node: dict[int, float] = {}
    for key, node in found.items():
        by_node[id(node)] = by_node.get(id(node), 0.0) + max(0.0, sums[key]) * 1e3
    times = [[by_node.get(id(node), 0.0) for node in graph] for graph in origins.graphs]
    return tuple(sorted(nodes, key=lambda n: -n.seconds)), times


def _feeds(wanted: Sequence[Any], given: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    names = [i.name for i in wanted]
    unknown = [n for n in (*given, *sizes) if n not in names]
    for name, shape in sizes.items():
        if not all(isinstance(d, int) and d >= 0 for d in shape):
            raise Error(f"the shape of '{name}' has sizes that are no numbers: {shape}")
    if unknown:
        raise Error(f"the model has no input '{unknown[0]}'", notes=[f"its inputs are {', '.join(names)}"])
    draw = np.random.default_rng(0)
    feeds = {}
    for i in wanted:
        if i.name in given:
            feeds[i.name] = np.asarray(given[i.name])
            continue
        kind = i.type.removeprefix("tensor(").removesuffix(")")
        if kind not in _NUMPY:
            raise Error(
                f"cannot make values for input '{i.name}' of type {i.type}", notes=["help: give it in `inputs`"]
            )
        shape = sizes.get(i.name, [d if isinstance(d, int) else 1 for d in i.shape])
        dtype = np.dtype(_NUMPY[kind])
        values = draw.standard_normal(shape) if dtype.kind == "f" else draw.integers(0, 2, shape)
        feeds[i.name] = np.asarray(values, dtype)
    return feeds
