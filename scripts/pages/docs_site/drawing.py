"""Graphs as SVG, placed by Graphviz: boxes with constants and attributes inside them, edges for values. Colors come from drawings.css."""

import re
import subprocess
from collections import Counter
from html import escape

from docs_site.graphs import Graph, Node, is_value, read_model, split

FONT = "DejaVu Sans"  # wider than what browsers show, so that texts fit into their boxes
LINES, LETTERS = 4, 30  # of small text in a box
ELEMENT_TYPES = dict(
    zip(map(str, range(1, 17)), "f32 u8 i8 u16 i16 i32 i64 str bool f16 f64 u32 u64 c64 c128 bf16".split(), strict=True)
)
LARGE = 60  # nodes beyond which a graph is not drawn


def shortened(constant: str) -> str:
    """f32 0.5 as 0.5; i64[2]{0,1} as [0,1]; what is larger as its type."""
    if scalar := re.fullmatch(r"\w+ (.*)", constant):
        return scalar[1].strip('"')
    if array := re.fullmatch(r"\w+\[[^\]]*\]\{(.*)\}", constant):
        return f"[{array[1]}]" if len(array[1]) <= 9 and "#" not in array[1] else constant[: constant.index("{")]
    return constant


def lines_of(node: Node, constants: dict[str, str]) -> list[str]:
    """The small text in a box: operands, where some are constants (a dot for each that is an edge), then attributes."""
    words, shows = [], False
    for operand in node.operands:
        keyword, _, text = operand.rpartition("=") if re.match(r"\w+=", operand) else ("", "", operand)
        if is_value(text) and text in constants:
            text = constants[text]
        if is_value(text) or text.startswith("("):
            words.append(f"{keyword} ·" if keyword and "·" not in words else "·")
        else:
            words.append(f"{keyword} {shortened(text)}".strip())
            shows = True
    lines = []
    if shows:
        for word in words:
            if lines and len(lines[-1]) + len(word) + 2 <= LETTERS:
                lines[-1] += ", " + word
            else:
                lines.append(word)
    for attribute in node.attributes:
        name, _, text = attribute.partition("=")
        if name == "to" and node.op in ("Cast", "CastLike"):
            text = ELEMENT_TYPES.get(text, text)
        lines.append(f"{name} {shortened(text)}")
    lines = [line if len(line) <= LETTERS else line[: LETTERS - 1] + "…" for line in lines]
    return lines if len(lines) <= LINES else [*lines[: LINES - 1], "…"]


def count(graph: Graph) -> int:
    return sum(1 + sum(count(body) for _, body in node.bodies) for node in graph.nodes)


# How nodes are compared in pictures of what changed: by the first of these that differs.
OPERATORS, WIRING, NAMES, ORDER = range(4)


def looks(graph: Graph, detail: int, number: int = 0) -> dict[int, tuple]:
    """By the id of each node, bodies' included, what it looks like."""
    found: dict[int, tuple] = {}
    makers = {r: n.op for n in graph.nodes for r in n.results}
    for node in graph.nodes:
        look = (node.op, len(node.operands), len(node.results), *lines_of(node, graph.constants))
        if detail >= WIRING:
            look += (*(makers.get(v, v) for v in operands_of(node)),)
        if detail >= NAMES:
            look += (*results_of(node, graph),)
        if detail >= ORDER:
            look += (number + len(found),)
        found[id(node)] = look
        for _, body in node.bodies:
            found |= looks(body, detail, number + len(found))
    return found


def results_of(node: Node, graph: Graph) -> list[str]:
    return [f"{label(r)}: {graph.declared[r]}" if r in graph.declared else label(r) for r in node.results]


class Dot:
    """Writes one picture. `own`: what its nodes look like; `others`: what the other side has. A box that it lacks is marked."""

    def __init__(self, own: dict[int, tuple], others: Counter, ports: set[tuple[str, str]], detail: int):
        self.own, self.others, self.other_ports, self.detail = own, Counter(others), ports, detail
        self.lines = [
            f'digraph g {{ rankdir=TB; nodesep=0.25; ranksep=0.3; bgcolor=transparent; fontname="{FONT}"; fontsize=10;',
            f'node [fontname="{FONT}", fontsize=11, shape=box, style=rounded, margin="0.12,0.05", height=0.1, width=0.1];',
            f'edge [fontname="{FONT}", fontsize=9, arrowsize=0.55];',
        ]
        self.edges: list[str] = []  # written last: an edge within a cluster would draw both its ends into it
        self.number = 0

    def id(self) -> str:
        self.number += 1
        return f"n{self.number}"

    def port(self, text: str, small: str, changed: bool = False) -> str:
        at = self.id()
        rows = f"{escape(text)}" + (f'<br/><font point-size="9">{escape(small)}</font>' if small else "")
        self.lines.append(
            f'{at} [class={"lost" if changed else "port"}, shape=plain, style="", label=<{rows or " "}>];'
        )
        return at

    def graph(self, graph: Graph, outer: dict[str, str]) -> list[str]:
        """The ids of what stands for its results."""
        made = dict(outer)
        constants = graph.constants
        used = {v for n in graph.nodes for v in operands_of(n)} | {v for _, v in graph.results} | captured(graph)
        for name, type_ in graph.inputs:
            if name in used or not outer:
                lost = bool(self.other_ports) and not outer and (name, type_) not in self.other_ports
                made[name] = self.port(label(name), type_, lost)
        for node in graph.nodes:
            at = self.id()
            lines = lines_of(node, constants)
            if self.detail == NAMES:
                lines.append(("= " + ", ".join(results_of(node, graph)))[:LETTERS])
            if self.detail == ORDER:
                lines.append(f"no. {self.own[id(node)][-1] + 1}")
            changed = self.others[self.own[id(node)]] <= 0
            self.others[self.own[id(node)]] -= 1
            small = "".join(f'<br/><font point-size="9">{escape(line)}</font>' for line in lines)
            self.lines.append(
                f"{at} [class={'changed' if changed else 'kept'}, label=<{escape(node.op.split('::')[-1])}{small}>];"
            )
            for value in operands_of(node):
                if value in made:
                    self.edges.append(f"{made[value]} -> {at};")
            for name, body in node.bodies:
                self.lines.append(f'subgraph cluster_{self.id()} {{ class=body; style=rounded; label="{name}";')
                scope = {k: v for k, v in made.items() if k not in {i for i, _ in body.inputs}}
                ends = self.graph(body, scope or {"": ""})
                self.lines.append("}")
                self.edges += [f"{end} -> {at} [class=yields, style=dashed];" for end in ends]
            for result in node.results:
                made[result] = at
        ends = []
        for name, value in graph.results:
            if outer:
                ends.append(made.get(value) or self.port(label(name), ""))
            else:
                end = self.port(label(name), "")
                if value in made:
                    self.edges.append(f"{made[value]} -> {end};")
                ends.append(end)
        return list(dict.fromkeys(ends))

    def text(self, graph: Graph, functions: dict[str, Graph]) -> str:
        self.graph(graph, {})
        for name, function in functions.items():
            self.lines.append(
                f'subgraph cluster_{self.id()} {{ class=body; style=rounded; label="{name.split("::")[-1]}";'
            )
            self.graph(function, {})
            self.lines.append("}")
        return "\n".join([*self.lines, *self.edges, "}"])


def label(name: str) -> str:
    return name.lstrip("%").strip('"')


def operands_of(node: Node) -> list[str]:
    found = []
    for operand in node.operands:
        text = operand.split("=", 1)[1] if re.match(r"\w+=", operand) else operand
        found += [v for v in (split(text[1:-1]) if text.startswith("(") else [text]) if is_value(v)]
    return found


def captured(graph: Graph) -> set[str]:
    """What bodies of the graph's nodes use."""
    found: set[str] = set()
    for node in graph.nodes:
        for _, body in node.bodies:
            found |= {v for n in body.nodes for v in operands_of(n)} | {v for _, v in body.results} | captured(body)
    return found


def dots(before: str, after: str, mark: bool = True) -> tuple[list[str], list[int]] | None:
    """The two pictures for Graphviz and their numbers of nodes; None where they are too large to be read."""
    sides = [read_model(before), read_model(after)]
    sizes = [count(g) + sum(count(f) for f in fs.values()) for g, fs in sides]
    if max(sizes) > LARGE:
        return None
    for detail in range(ORDER + 1):
        own = [{k: v for g in (side, *fs.values()) for k, v in looks(g, detail).items()} for side, fs in sides]
        have = [Counter(o.values()) for o in own]
        if have[0] != have[1] or sides[0][0].inputs != sides[1][0].inputs or not mark:
            break
    ports = [set(g.inputs) if mark else set() for g, _ in sides]
    texts = []
    for i, side in enumerate(sides):
        others = have[1 - i] if mark else have[i]
        texts.append(Dot(own[i], others, ports[1 - i], detail).text(*side))
    return texts, sizes


def svgs(texts: list[str]) -> list[str]:
    """Graphviz's pictures, as elements to put into a page: no fixed size, no colors, no ids. One call draws them all."""
    if not texts:
        return []
    done = subprocess.run(["dot", "-Tsvg"], input="\n".join(texts), capture_output=True, text=True, check=True)
    found = re.findall(r"<svg.*?</svg>", done.stdout, re.DOTALL)
    if len(found) != len(texts):
        raise ValueError(f"Graphviz drew {len(found)} of {len(texts)} pictures: {done.stderr[:400]}")
    return [plain(svg) for svg in found]


def plain(svg: str) -> str:
    width, height = (
        round(float(x) * 4 / 3) for x in re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups()
    )
    box = re.search(r'viewBox="([^"]*)"', svg)[1]
    inside = svg[svg.index(">") + 1 :]
    inside = re.sub(r"<!--.*?-->|<title>.*?</title>", "", inside, flags=re.DOTALL)
    inside = re.sub(r' (id|font-family|fill|stroke)="[^"]*"', "", inside)
    inside = re.sub(r"\s*\n\s*", "", inside)
    return f'<svg viewBox="{box}" width="{width}" height="{height}" aria-hidden="true">{inside}'
