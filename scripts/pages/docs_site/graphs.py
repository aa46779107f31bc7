"""Cases of .sx files, and their graphs as data: nodes, operands, bodies. Reads what `sardonyx view` prints (docs/reference/text_form.md)."""

import hashlib
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

VALUE = re.compile(r'%?[A-Za-z_.][\w.]*(#\d+)?|%\d+(#\d+)?|%"(\\.|[^"\\])*"(#\d+)?')
WORDS = {"inf", "nan", "true", "false", "none", "_"}
PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}


@dataclass
class Case:
    claim: str
    options: str
    before: str  # the text of the graph
    after: str  # "" where the case expects the same graph or an error
    about: str  # what stands behind the arrow: "", "same", "exactly", error "..."


@dataclass
class Node:
    op: str
    results: list[str]
    types: list[str]
    operands: list[str]  # in order: names of values, constants as text, KEYWORD=either
    attributes: list[str]
    bodies: list[tuple[str, "Graph"]]


@dataclass
class Graph:
    inputs: list[tuple[str, str]]  # name, type
    nodes: list[Node]
    results: list[tuple[str, str]]  # name, value
    constants: dict[str, str] = field(default_factory=dict)
    declared: dict[str, str] = field(default_factory=dict)  # types that the file declares of values


def read_cases(path: Path) -> list[Case]:
    found = []
    for part in re.split(r"^case ", path.read_text(), flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        claim, options = re.fullmatch(r'"((?:\\.|[^"\\])*)"(.*)', head).groups()
        before, arrow, rest = (
            re.split(r"^(=>)", body, maxsplit=1, flags=re.MULTILINE) if "\n=>" in body else (body, "", "")
        )
        about, _, after = rest.partition("\n")
        found.append(Case(claim.replace('\\"', '"'), options.strip(), before, after.strip(), about.strip()))
    return found


class Printer:
    """The text of graphs in normal form, one node per line with its types: `sardonyx view`, whose answers are kept."""

    def __init__(self, sardonyx: Path, kept: Path):
        self.sardonyx, self.kept = sardonyx, kept
        self.version = hashlib.sha256(sardonyx.read_bytes()).hexdigest()[:8]
        kept.mkdir(parents=True, exist_ok=True)

    def __call__(self, text: str) -> str:
        name = self.kept / (hashlib.sha256((self.version + text).encode()).hexdigest()[:24] + ".sx")
        answer = name.with_suffix(".txt")
        if not answer.exists():
            name.write_text(text)
            done = subprocess.run([self.sardonyx, "view", name], capture_output=True, text=True, check=False)
            if done.returncode:
                raise ValueError(f"sardonyx view refuses a case: {done.stderr}\n{text}")
            answer.write_text(done.stdout)
        return answer.read_text()

    def lowered(self, program: str) -> str:
        """What `sardonyx convert` makes of a program; "" where it refuses."""
        name = self.kept / (hashlib.sha256((self.version + "lower" + program).encode()).hexdigest()[:24] + ".sx")
        answer = name.with_suffix(".txt")
        if not answer.exists():
            name.write_text(program)
            model = name.with_suffix(".onnx")
            done = subprocess.run([self.sardonyx, "convert", name, "-o", model], capture_output=True, check=False)
            view = [self.sardonyx, "view", model]
            answer.write_text(
                "" if done.returncode else subprocess.run(view, capture_output=True, text=True, check=True).stdout
            )
        return answer.read_text()


def closing(text: str, at: int) -> int:
    """The place of the bracket that closes the one at `at`."""
    stack = []
    while at < len(text):
        c = text[at]
        if c == '"':
            at = re.compile(r'"(\\.|[^"\\])*"').match(text, at).end()
            continue
        if text.startswith("//", at):
            at = text.index("\n", at)
            continue
        if c in PAIRS:
            stack.append(PAIRS[c])
        elif stack and c == stack[-1]:
            stack.pop()
            if not stack:
                return at
        at += 1
    raise ValueError(f"no closing bracket in {text[:80]!r}")


def split(text: str, separator: str = ",") -> list[str]:
    """The parts of a list, brackets and strings kept whole."""
    parts, start, at = [], 0, 0
    while at < len(text):
        c = text[at]
        if c == '"':
            at = re.compile(r'"(\\.|[^"\\])*"').match(text, at).end()
            continue
        if c in PAIRS:
            at = closing(text, at)
        elif c == separator:
            parts.append(text[start:at].strip())
            start = at + 1
        at += 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def is_value(text: str) -> bool:
    return text not in WORDS and VALUE.fullmatch(text) is not None


def read_model(text: str) -> tuple[Graph, dict[str, Graph]]:
    """The main graph, and the functions by their names."""
    functions: dict[str, Graph] = {}
    main = None
    for start in re.finditer(r"^(graph|function)\b", text, re.MULTILINE):
        graph, _ = read_graph(text, start.start())
        if start[1] == "graph":
            main = graph
        else:
            functions[re.match(r"function ([\w.:]+)", text[start.start() :])[1]] = graph
    if main is None:
        raise ValueError(f"no graph in {text[:80]!r}")
    return main, functions


def read_graph(text: str, at: int) -> tuple[Graph, int]:
    """The graph whose first word stands at `at`, and the place behind its last brace."""
    opens = text.index("(", at)
    closes = closing(text, opens)
    inputs = []
    for port in split(text[opens + 1 : closes]):
        match = re.match(r'(%?"(?:\\.|[^"\\])*"|[^\s:]+)(?:: (.*))?', port)
        inside = re.search(r" as (\S+)", port)
        type_ = re.split(r" (?:as|doc|meta|=) ", match[2] or "")[0]
        inputs.append((inside[1] if inside else match[1], type_))
    brace = text.index("{", closes)
    while re.search(r"\bmeta $", text[:brace]):  # metadata of the graph
        brace = text.index("{", closing(text, brace) + 1)
    end = closing(text, brace)
    graph = Graph(inputs, [], [])
    for statement, types in statements(text[brace + 1 : end]):
        read_statement(graph, statement, types)
    return graph, end + 1


def statements(body: str) -> list[tuple[str, str]]:
    """Each statement of a body, and the comment behind it: the types of its results."""
    found, start, at = [], 0, 0
    while at < len(body):
        c = body[at]
        if c == '"':
            at = re.compile(r'"(\\.|[^"\\])*"').match(body, at).end()
        elif c in PAIRS:
            at = closing(body, at) + 1
        elif c == "\n" or body.startswith("//", at):
            line_end = body.find("\n", at)
            line_end = len(body) if line_end < 0 else line_end
            if body[start:at].strip():
                found.append((body[start:at].strip(), body[at:line_end].lstrip("/ ").strip()))
            at = start = line_end + 1
        else:
            at += 1
    if body[start:].strip():
        found.append((body[start:].strip(), ""))
    return found


def read_statement(graph: Graph, text: str, types: str) -> None:
    if declared := re.match(r"info (\S+): (.*?)( doc | meta |$)", text):
        graph.declared[declared[1]] = declared[2]
        return
    if re.match(r"(info|raw) ", text):
        return
    if text == "return" or text.startswith("return "):
        for result in split(text[len("return") :]):
            port, _, value = (x.strip() for x in result.partition(" = "))
            name = re.split(r"[:\s]", port)[0] if not port.startswith('%"') else port
            graph.results.append((name, re.split(r" (?:doc|meta) ", value)[0] if value else name))
        return
    left, right = assignment(text)
    targets = [re.split(r":\s", t)[0].strip() for t in split(left)]
    call = re.match(r"(?:[\w.]+::)?\w+(?:![\d]+)?(?=[<(])", right)
    if call is None:
        graph.constants[targets[0]] = right
        return
    at, attributes, bodies = call.end(), [], []
    if right[at] == "<":
        end = closing(right, at)
        for item in split(right[at + 1 : end]):
            body = re.match(r"(\w+)(?:\[\])?=(?=graph\b)", item)
            if body:
                bodies.append((body[1], read_graph(item, body.end())[0]))
            else:
                attributes.append(item)
        at = end + 1
    operands = split(right[at + 1 : closing(right, at)])
    graph.nodes.append(Node(call[0], targets, split(types), operands, attributes, bodies))


def assignment(text: str) -> tuple[str, str]:
    """What stands before and behind the `=` of a statement; a node without results has none."""
    depth_free = re.match(r"(?:[\w.]+::)?\w+(?:![\d]+)?[<(]", text)
    if depth_free:
        return "", text
    at = 0
    while text[at] != "=":
        if text[at] == '"':
            at = re.compile(r'"(\\.|[^"\\])*"').match(text, at).end()
        elif text[at] in PAIRS:
            at = closing(text, at) + 1
        else:
            at += 1
    return text[:at].strip(), text[at + 1 :].strip()
