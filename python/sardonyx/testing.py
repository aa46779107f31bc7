"""Checks for tests of exported models, and test cases of plugins.

For example:

    from sardonyx.testing import expect_graph

    check = expect_graph(
        ["Transpose:Bx3x28x28 -> Conv -> Relu", "Gemm:Bx10"],
        counts={"Conv": 1},
        must_absent=["Expand"],
    )
    assert check(model)
"""

import fnmatch
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sardonyx import _sardonyx as native
from sardonyx._cases import construct_and_call, run_cases, with_prng_key, with_requested_dtype, with_rng_seed
from sardonyx._error import Error

__all__ = [
    "expect_graph",
    "describe_graph",
    "construct_and_call",
    "run_cases",
    "with_prng_key",
    "with_requested_dtype",
    "with_rng_seed",
]

# Nodes that a path may pass without naming them: they move, convert or combine what flows along.
HELPERS = frozenset("Add Cast CastLike Concat Flatten Gather Identity Reshape Shape Squeeze Unsqueeze Where".split())

_ENTRY_OPTIONS = ("attrs", "counts", "graph", "inputs", "match", "must_absent", "path", "symbols")
_PREDICATES = ("absent", "const", "const_bool", "initializer_name")


@dataclass(frozen=True)
class _Step:
    op: str  # "*" matches any operator
    shape: tuple[int | str, ...] | None  # "?" matches any size


@dataclass
class _Entry:
    path: str
    steps: list[_Step]
    match: str
    attrs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    must_absent: tuple[str, ...] = ()
    symbols: Mapping[str, int | str | None] = field(default_factory=dict)
    graph: str | None = None


def expect_graph(
    specs: Sequence[str | tuple[str, Mapping[str, Any]] | Mapping[str, Any]],
    *,
    mode: Literal["all", "any"] = "all",
    match: Literal["path", "exact"] = "path",
    attrs: Mapping[str, Mapping[str, Any]] | None = None,
    counts: Mapping[str, int] | None = None,
    inputs: Mapping[int, Mapping[str, Any]] | None = None,
    symbols: Mapping[str, int | str | None] | None = None,
    must_absent: Iterable[str] = (),
    no_unused_inputs: bool = False,
    no_unused_function_inputs: bool = False,
    search_functions: bool = False,
    explain_on_fail: bool = True,
) -> Callable[[Any], bool]:
    """Returns a function that checks whether a model's graph looks as described.

    Args:
        specs: Paths such as `"Transpose:Bx3x28x28 -> Conv -> Relu"`: operators in the order in which a value
            flows through them, each with the shape of its first result if that matters. A size is a number, a
            name, or `?` for any; `[]` is a scalar. `*` stands for any operator. Either a string, a pair of a
            string and a dict of options, or a dict with `"path"`. The options `attrs`, `counts`, `inputs`, `match`,
            `must_absent`, `symbols` concern that path, and `graph` says where it lies: `"top"`, or the name
            or domain of a function (also as `"fn:name"`).
        mode: Whether "all" paths must be there or "any".
        match: With "path", helpers between two steps (`sardonyx.testing.HELPERS`) need not be named. With
            "exact", each step uses its predecessor, the first step uses no node's result, the last step's
            result has no users, and a graph has no nodes outside the paths.
        attrs: Values of attributes by operator, which all nodes of that operator have: `{"Softmax": {"axis":
            -1}}`. An attribute that is not written has its default.
        counts: How many nodes of an operator there are.
        inputs: Operands of a node of the path, by position: `{1: {"const": 0.5}}`, `{"const_bool": True}`,
            `{"initializer_name": "kernel"}` (with * and ?) or `{"absent": True}`. One node of the path must
            satisfy all of them.
        symbols: Sizes by name: a number, the name in the model, or None for one that is found and must then
            be the same everywhere. A name that is not listed is the model's own.
        must_absent: Operators that must not occur.
        no_unused_inputs: Require that every input of the graph is used.
        no_unused_function_inputs: The same for functions; needs `search_functions`.
        search_functions: Look into the bodies of model-local functions as well. Bodies of If, Loop and Scan
            belong to the graph that holds them.
        explain_on_fail: Print what is missing, and the graphs, when the check fails.
    """
    if mode not in ("all", "any"):
        raise Error(f"mode={mode!r} is not known", notes=['expected "all" or "any"'])
    if no_unused_function_inputs and not search_functions:
        raise Error("no_unused_function_inputs needs search_functions=True")
    if isinstance(specs, str):
        raise Error("expect_graph takes a list of paths, found a string")
    entries = [_entry(s, match, attrs, inputs) for s in specs]
    absent = _names("must_absent", must_absent)

    def check(model: Any) -> bool:
        graphs = _graphs(_as_ir(model), search_functions)
        problems = []
        everything = Counter(op for g in graphs for op in g.ops)
        problems += [f"{op} occurs {everything[op]} times and must be absent" for op in absent if everything[op]]
        for op, wanted in (counts or {}).items():
            if everything[op] != wanted:
                problems.append(f"{everything[op]} nodes of {op}, {wanted} expected")
        if no_unused_inputs:
            problems += [f"input '{name}' of the graph has no reader" for name in graphs[0].unused_inputs()]
        if no_unused_function_inputs:
            problems += [f"input '{name}' of {g.name} has no reader" for g in graphs[1:] for name in g.unused_inputs()]
        bound = dict(symbols or {})
        failures = [f"{e.path}: {why}" for e in entries if (why := _find(e, graphs, bound)) is not None]
        if mode == "all" or len(failures) == len(entries):
            problems += failures
        exact = [e for e in entries if e.match == "exact"]
        if exact and not failures:
            problems += _others(exact, graphs)
        if problems and explain_on_fail:
            print(_explanation(problems, graphs), file=sys.stderr)
        return not problems

    return check


def describe_graph(model: Any, *, search_functions: bool = False) -> str:
    """The call of `expect_graph` that describes a model, as text to paste into a test and shorten.

    Each node is in one path, with the shape of its first result where that is known.
    """
    graphs = _graphs(_as_ir(model), search_functions)
    lines = ["expect_graph(", "    ["]
    for g in graphs:
        for path in _paths(g):
            selector = "top" if not g.name else f"fn:{g.domain}"
            lines.append(
                f"        {path!r}," if len(graphs) == 1 else f"        ({path!r}, {{'graph': {selector!r}}}),"
            )
    lines.append("    ],")
    counts = Counter(op for g in graphs for op in g.ops)
    lines.append("    counts={" + ", ".join(f"{op!r}: {n}" for op, n in sorted(counts.items())) + "},")
    if not graphs[0].unused_inputs():
        lines.append("    no_unused_inputs=True,")
    if search_functions:
        lines.append("    search_functions=True,")
    return "\n".join([*lines, ")"]).replace("'", '"')


def _paths(g: "_Graph") -> Iterator[str]:
    """Every node once: each path follows the first user that no path has yet."""
    seen: set[int] = set()
    for start in range(len(g.nodes)):
        node: int | None = start
        steps: list[str] = []
        while node is not None and node not in seen:
            seen.add(node)
            steps.append(g.ops[node] + _shape_text(g.nodes[node]))
            node = next((r for r in g.readers[node] if r not in seen), None)
        if steps:
            yield " -> ".join(steps)


def _shape_text(node) -> str:
    shape = node.outputs[0].shape if node.outputs else None
    if shape is None:
        return ""
    dims = [str(d) for d in shape.dims]
    dims = ["?" if d == "None" or any(c in d for c in ",->'\"") else d for d in dims]
    if dims and all(re.fullmatch(r"\d+|[A-Z]\w*|\?", d) and "x" not in d for d in dims):
        return ":" + "x".join(dims)
    return ":[" + ",".join(dims) + "]"


# ----------------------------------------------------------------------------------------------------------------------
# Parsing the specifications


def _names(option: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise Error(f"{option} is a list of operators, found the text {names!r}")
    return tuple(names or ())


def _entry(spec, match, attrs, inputs) -> _Entry:
    if isinstance(spec, str):
        options: dict[str, Any] = {"path": spec}
    elif isinstance(spec, Mapping):
        options = dict(spec)
    elif isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[0], str) and isinstance(spec[1], Mapping):
        options = {"path": spec[0], **spec[1]}
    else:
        raise Error(f"a path is a text, (text, options) or a dict with 'path', found {spec!r}")
    if unknown := [k for k in options if k not in _ENTRY_OPTIONS]:
        raise Error(f"the option {unknown[0]!r} is not known", notes=["expected " + ", ".join(_ENTRY_OPTIONS)])
    if not isinstance(options.get("path"), str) or not options["path"].strip():
        raise Error(f"a path must be a text that is not empty, found {options.get('path')!r}")
    kind = options.get("match", match)
    if kind not in ("path", "exact"):
        raise Error(f"match={kind!r} is not known", notes=['expected "path" or "exact"'])
    wanted = {_position(k): v for k, v in (options.get("inputs", inputs) or {}).items()}
    for predicate in (p for v in wanted.values() for p in v):
        if predicate not in _PREDICATES:
            raise Error(f"the predicate {predicate!r} is not known", notes=["expected " + ", ".join(_PREDICATES)])
    return _Entry(
        path=options["path"],
        steps=[_step(s, options["path"]) for s in options["path"].split("->")],
        match=kind,
        attrs=options.get("attrs", attrs) or {},
        counts=options.get("counts") or {},
        inputs=wanted,
        must_absent=_names("must_absent", options.get("must_absent", ())),
        symbols=options.get("symbols") or {},
        graph=options.get("graph"),
    )


def _position(key) -> int:
    try:
        return int(key)
    except (TypeError, ValueError):
        raise Error(f"inputs maps positions to predicates, found the key {key!r}") from None


def _step(text: str, path: str) -> _Step:
    op, colon, shape = text.strip().partition(":")
    if not op.strip():
        raise Error(f"the path {path!r} has an empty step")
    if not colon:
        return _Step(op.strip(), None)
    shape = shape.strip()
    if shape.startswith("[") and shape.endswith("]"):
        dims = [d.strip() for d in shape[1:-1].split(",") if d.strip()]
    else:
        dims = [d.strip() for d in shape.split("x")]
        if not all(dims):
            raise Error(
                f"{shape!r} in the path {path!r} is not a shape", notes=["expected sizes such as Bx3x28 or [B,3,28]"]
            )
    return _Step(op.strip(), tuple(int(d) if re.fullmatch(r"\d+", d) else d for d in dims))


# ----------------------------------------------------------------------------------------------------------------------
# The graphs of a model


class _Graph:
    """A graph, or the body of a function, with the bodies of its control flow."""

    def __init__(self, name: str, domain: str, graph):
        self.name, self.domain, self.graph = name, domain, graph
        self.nodes = [n for n in _all_nodes(graph) if n.op_type != "Constant"]
        self.ops = [n.op_type for n in self.nodes]
        self._places = {id(n): i for i, n in enumerate(self.nodes)}
        self.readers: list[list[int]] = [[] for _ in self.nodes]
        self.producers: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for value in node.inputs:
                made_by = None if value is None else value.producer()
                j = None if made_by is None else self._places.get(id(made_by))
                if j is not None:
                    self.readers[j].append(i)
                    self.producers[i].append(j)

    def unused_inputs(self) -> list[str]:
        results = list(self.graph.outputs)  # held, so that identities of handles stay valid
        return [v.name or "" for v in self.graph.inputs if not v.uses() and not any(v is r for r in results)]

    def answers_to(self, selector: str) -> bool:
        if selector == "top" or not self.name:
            return selector == "top" and not self.name
        wanted = re.sub(r"_\d+$", "", selector.removeprefix("fn:"))
        plain = re.sub(
            r"\.(\d+|unique(\.\d+)?)$", "", self.domain
        )  # the domain of an exported function, without its number
        return wanted in (self.name, self.domain, plain, f"{self.domain}:{self.name}", f"{self.domain}.{self.name}")


def _all_nodes(graph) -> Iterator[Any]:
    for node in graph:
        yield node
        for attribute in node.attributes.values():
            if attribute.is_ref():
                continue
            if attribute.type.name == "GRAPH":
                yield from _all_nodes(attribute.value)
            elif attribute.type.name == "GRAPHS":
                for body in attribute.value:
                    yield from _all_nodes(body)


def _as_ir(model):
    from sardonyx import ir

    if isinstance(model, (str, os.PathLike)):
        model = ir.load(model)
    elif not isinstance(model, ir.Model):
        if not hasattr(model, "SerializeToString"):
            raise Error(
                f"expect_graph checks an onnx.ModelProto, a sardonyx.ir.Model or a file, found {type(model).__name__}"
            )
        model = ir.from_proto(model)
    else:
        model = model.clone()
    native.ir.infer_types(model)
    return model


def _graphs(model, search_functions: bool) -> list[_Graph]:
    graphs = [_Graph("", "", model.graph)]
    if search_functions:
        graphs += [_Graph(f.name, f.domain, f) for f in model.functions.values()]
    return graphs


# ----------------------------------------------------------------------------------------------------------------------
# Searching


def _find(entry: _Entry, graphs: list[_Graph], bound: dict[str, Any]) -> str | None:
    """None if the path is there, else the reason. Binds the sizes that it finds for later paths."""
    searched = [g for g in graphs if entry.graph is None or g.answers_to(entry.graph)]
    if not searched:
        return f"there is no graph {entry.graph!r}"
    reasons = []
    for graph in searched:
        reason, sizes = _find_in(entry, graph, {**bound, **entry.symbols})
        if reason is None:
            bound.update({k: v for k, v in sizes.items() if k in bound})
            return None
        reasons.append(f"in {graph.domain}:{graph.name}: {reason}" if graph.name else reason)
    return "; ".join(reasons)


def _find_in(entry: _Entry, g: _Graph, sizes) -> tuple[str | None, dict]:
    present = Counter(g.ops)
    for op in entry.must_absent:
        if present[op]:
            return f"{op} must be absent", sizes
    for op, wanted in entry.counts.items():
        if present[op] != wanted:
            return f"{present[op]} nodes of {op}, {wanted} expected", sizes
    for op, attributes in entry.attrs.items():
        if not present[op]:
            return f"no {op}, whose attributes are expected", sizes
        for node in (n for n in g.nodes if n.op_type == op):
            for name, value in attributes.items():
                found = _attribute(node, name)
                if not _equal(found, value):
                    return f"{name} of {op} is {found!r}, {value!r} expected", sizes
    best = [f"no {entry.steps[0].op}"]
    for start in range(len(g.nodes)):
        for chain, found in _chains(entry, g, start, 0, dict(sizes), best):
            why = _inputs_hold(entry, g, chain)
            if why is not None:
                best.append(why)
                continue
            if entry.match == "exact" and (g.producers[chain[0]] or g.readers[chain[-1]]):
                best.append("the path goes on before its first or after its last step")
                continue
            return None, found
    return best[-1], sizes


def _chains(entry, g: _Graph, node: int, step: int, sizes: dict, best: list[str]) -> Iterator[tuple[list[int], dict]]:
    """Node numbers of the steps from `step` on, starting at `node`, and the sizes bound on the way."""
    wanted = entry.steps[step]
    if wanted.op not in ("*", g.ops[node]) and wanted.op != re.sub(r"_\d+$", "", g.ops[node]):
        return
    sizes = dict(sizes)
    if wanted.shape is not None and (why := _fits(wanted, g.nodes[node], sizes)) is not None:
        best.append(why)
        return
    if step + 1 == len(entry.steps):
        yield [node], sizes
        return
    seen, waiting, any_reader = {node}, list(g.readers[node]), False
    while waiting:
        reader = waiting.pop(0)
        if reader in seen:
            continue
        seen.add(reader)
        for rest, found in _chains(entry, g, reader, step + 1, sizes, best):
            any_reader = True
            yield [node, *rest], found
        if entry.match == "path" and g.ops[reader] in HELPERS:
            waiting += g.readers[reader]
    if not any_reader:
        best.append(f"after {wanted.op} comes no {entry.steps[step + 1].op}")


def _fits(step: _Step, node, sizes: dict) -> str | None:
    shape = node.outputs[0].shape
    assert step.shape is not None
    if shape is None:
        return f"the shape of {step.op} is not known"
    dims = [d if isinstance(d, int) else str(d) for d in shape.dims]
    text = "x".join(map(str, dims)) or "[]"
    if len(dims) != len(step.shape):
        return f"{step.op} has shape {text}"
    for want, got in zip(step.shape, dims, strict=True):
        if want == "?":
            continue
        if isinstance(want, str) and want in sizes:
            if sizes[want] is None:
                sizes[want] = got
            want = sizes[want]
        if str(want) != str(got):
            return f"{step.op} has shape {text}"
    return None


def _inputs_hold(entry: _Entry, g: _Graph, chain: list[int]) -> str | None:
    if not entry.inputs:
        return None
    reasons = []
    for i in chain:
        problems = [p for k, v in entry.inputs.items() if (p := _input_differs(g.nodes[i], k, v)) is not None]
        if not problems:
            return None
        reasons.append(f"{g.ops[i]}: {problems[0]}")
    return "; ".join(reasons)


def _input_differs(node, position: int, wanted: Mapping[str, Any]) -> str | None:
    value = node.inputs[position] if position < len(node.inputs) else None
    for predicate, expected in wanted.items():
        if predicate == "absent":
            if (value is None) != bool(expected):
                return f"operand {position} is {'absent' if value is None else 'there'}"
            continue
        if value is None:
            return f"operand {position} is absent"
        if predicate == "initializer_name":
            if value.const_value is None or not fnmatch.fnmatchcase(value.name or "", expected):
                return f"operand {position} is '{value.name}', not the initializer '{expected}'"
            continue
        found = _constant(value)
        if found is None:
            return f"operand {position} is not a constant"
        same = found.dtype == np.bool_ if predicate == "const_bool" else True
        if not same or not np.all(np.isclose(found.astype(np.float64), np.asarray(expected, np.float64), rtol=1e-6)):
            return f"operand {position} is {found.tolist()!r}, {expected!r} expected"
    return None


def _constant(value) -> np.ndarray | None:
    """The number or array that a value holds, through nodes that only change its shape."""
    while value is not None:
        if value.const_value is not None:
            return value.const_value.numpy()
        node = value.producer()
        if node is None or node.op_type not in ("Cast", "Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze"):
            return None
        value = node.inputs[0]
    return None


def _attribute(node, name: str):
    if name in node.attributes:
        value = node.attributes[name].value
        return value.numpy() if hasattr(value, "numpy") else value
    import onnx

    try:
        version = node.graph.opset_imports.get(node.domain) if node.graph is not None else None
        schema = onnx.defs.get_schema(node.op_type, version or onnx.defs.onnx_opset_version(), node.domain)
        return onnx.helper.get_attribute_value(schema.attributes[name].default_value)
    except (KeyError, ValueError, onnx.defs.SchemaError):
        return None


def _equal(found, wanted) -> bool:
    if isinstance(found, bytes):
        found = found.decode()
    if isinstance(found, str) or isinstance(wanted, str):
        return found == wanted
    if found is None or wanted is None:
        return found is wanted
    a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-6, atol=0))


def _others(entries: list[_Entry], graphs: list[_Graph]) -> list[str]:
    problems = []
    for g in graphs:
        here = [e for e in entries if (g.answers_to(e.graph) if e.graph is not None else g is graphs[0])]
        if not here:
            continue
        named = Counter(s.op for e in here for s in e.steps)
        more = Counter(g.ops) - named
        if more and "*" not in named:
            problems.append(
                "more nodes than the paths name: " + ", ".join(f"{n} {op}" for op, n in sorted(more.items()))
            )
    return problems


def _explanation(problems: list[str], graphs: list[_Graph]) -> str:
    lines = ["the graph is not as expected:", *(f"  - {p}" for p in problems)]
    for g in graphs:
        lines.append(f"function {g.domain}:{g.name}" if g.name else "graph")
        for node, op in list(zip(g.nodes, g.ops, strict=True))[:60]:
            shape = node.outputs[0].shape if node.outputs else None
            text = "" if shape is None else ":" + ("x".join(map(str, shape.dims)) or "[]")
            lines.append(f"  {op}{text}({', '.join('_' if v is None else v.name or '.' for v in node.inputs)})")
        if len(g.nodes) > 60:
            lines.append(f"  and {len(g.nodes) - 60} more")
    return "\n".join(lines)
