"""Break passes on purpose and see whether some test notices.

    scripts/mutate.py [PASS...] [--sample N] [--seed N] [--tests REGEX] [--report FILE] [--list]
    scripts/mutate.py [PASS...] --cases [--report FILE]
    scripts/mutate.py [PASS...] --suggest FOLDER [--seconds N] [--seed N]

PASS is the name of a file or of a folder (`onnx`, `mil`).

A mutant is one change of one source below src/passes:

- condition dropped: one operand of an `and` or an `or`, a whole `if`, the `sole` of a pattern
- comparison turned: `==` and `!=`, `<` and `>=`
- operands swapped: of operators that do not commute, in patterns, in what is built, in arithmetic
- number changed: the next one; `true` and `false`
- return negated: of a function or a condition that says yes or no
- guard dropped: a condition that only asks whether there is something to look at: `v == nullptr`, `!v->ranked()`, `n.unchecked()`, and `!axis`
  before `*axis`.
  Most of them stand before what would say no anyway, or against what the verifier lets nobody build: they are tried and counted, but apart

The sources are not touched. All mutants of a file go into one copy of it in build/mutants, which asks at run time which of them is awake
(tests/mutants/mutant.h), so that each file is compiled once and a mutant costs one run of the tests that reach it: the cases of its own
file, those of all passes, the rules on random graphs, the C++ tests, the random graphs of `make test`. It dies when one of them fails, crashes
or takes ten times as long as it should. A mutant whose copy does not compile is none. The copies are compiled with the
standard library's own checks: a mutant that reads an optional without a value or behind a vector crashes, which would go unseen without.
First all cases run in one process that wakes one mutant after the other (tests/mutants/suggest_main.cc); only what they do not tell costs
runs of its own. --cases ends there, with a table of the files: what the text cases alone kill.

Survivors are what to look at: either a case is missing, or the mutant means the same. The latter stand in tests/mutants/equivalent.txt
with the reason, and are not counted; one that stands there and dies is an error.

--suggest looks for the cases that are missing, file by file: the cases there are, with small changes, on which the pass makes something
else with the mutant than without it (tests/mutants/suggest_main.cc). FOLDER gets a text for each file, with the fewest cases that kill what
it can; whether what the pass makes of them is right, and what they are called, is for people to say.
"""

import argparse
import functools
import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "build" / "release"
WORK = ROOT / "build" / "mutants"
EQUIVALENT = ROOT / "tests" / "mutants" / "equivalent.txt"
FOLDER = ROOT / "src" / "passes"
# The tables of passes are no passes.
NO_PASSES = {"catalog.cc", "run_passes.cc"}

COMPARISONS = {"==", "!=", "<", ">", "<=", ">="}
UNORDERED = {"-", "/", "%"}
ORDERED_OPS = set(
    """Sub Div Pow MatMul Mod Less Greater LessOrEqual GreaterOrEqual Gather Reshape Expand BitShift PRelu
    sub real_div floor_div pow mod less less_equal greater greater_equal matmul gather""".split()
)
# Literals there are part of a type or of a table, or have to be constants.
FIXED = {
    "template_argument_list",
    "template_parameter_list",
    "static_assert_declaration",
    "array_declarator",
    "enumerator",
    "preproc_def",
    "preproc_function_def",
    "preproc_include",
    "preproc_call",
    "preproc_if",
    "alignas_qualifier",
    "bitfield_clause",
}


@dataclass
class Mutant:
    id: int
    path: Path
    line: int
    kind: str
    text: str  # the place as the source has it
    alive: bool | None = None
    killer: str = ""

    @property
    def is_pass(self) -> bool:
        return self.path.with_suffix(".sx").exists() and self.path.parent.name == "onnx"

    @property
    def key(self) -> str:
        return f"{self.path.relative_to(FOLDER)} | {self.kind} | {self.text}"

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.kind}: {self.text}"


class Writer:
    """One source with all its mutants written in; lines stay where they are."""

    def __init__(self, path: Path, first_id: int, dropped: set[int], wanted: set[int] | None = None) -> None:
        self.path, self.next, self.dropped, self.wanted = path, first_id, dropped, wanted
        self.source = path.read_bytes()
        self.mutants: list[Mutant] = []
        self.tree = Parser(Language(tree_sitter_cpp.language())).parse(self.source)
        self.text = self.render(self.tree.root_node)

    def raw(self, n: Node) -> str:
        return self.source[n.start_byte : n.end_byte].decode()

    def add(self, n: Node, kind: str) -> int | None:
        """The number of a new mutant; None where one is not wanted."""
        number = self.next
        self.next += 1  # also of those that are left out, so that numbers stay
        if number in self.dropped or (self.wanted is not None and number not in self.wanted):
            return None
        text = " ".join(self.raw(n).split())
        self.mutants.append(Mutant(number, self.path, n.start_point[0] + 1, kind, text[:120]))
        return number

    def inside(self, n: Node) -> str:
        """The node's text with its children's mutants."""
        if not n.children:
            return self.raw(n)
        out, at = [], n.start_byte
        for c in n.children:
            out += [self.source[at : c.start_byte].decode(), self.render(c)]
            at = c.end_byte
        return "".join(out) + self.source[at : n.end_byte].decode()

    def render(self, n: Node) -> str:
        if n.type in FIXED or self.is_constant(n):
            return self.raw(n)
        special = getattr(self, f"render_{n.type}", None)
        return special(n) if special else self.inside(n)

    def is_constant(self, n: Node) -> bool:
        if n.type in ("declaration", "field_declaration"):
            return any(c.type == "type_qualifier" and self.raw(c) in ("constexpr", "constinit") for c in n.children)
        return False

    # --- conditions

    def is_refusal(self, n: Node) -> bool:
        """m.refuse("why") only says no."""
        return n.type == "call_expression" and re.match(r"m_?\.refuse\(", self.raw(n)) is not None

    def operator(self, n: Node) -> str:
        if n.type != "binary_expression":
            return ""
        return self.raw(n.child_by_field_name("operator"))

    def render_binary_expression(self, n: Node) -> str:
        op = self.operator(n)
        left, right = n.child_by_field_name("left"), n.child_by_field_name("right")
        if op in ("&&", "||"):
            between = self.source[left.end_byte : right.start_byte].decode()
            return self.leaf(left, op) + between + self.leaf(right, op)
        if op in COMPARISONS:
            inside = self.inside(n)
            id_ = self.add(n, "comparison turned")
            return inside if id_ is None else f"sx_mutant::no({id_}, ({inside}))"
        if op in UNORDERED and self.raw(left) != self.raw(right):
            a, b = self.render(left), self.render(right)
            id_ = self.add(n, "operands swapped")
            if id_ is None:
                return self.inside_of_parts(n, left, a, right, b)
            gap = "\n" * self.raw(n).count("\n") if "\n" not in a + b else ""
            return f"sx_mutant::swapped({id_}, [](const auto& p, const auto& q) {{ return p {op} q; }}, {a}, {gap}{b})"
        return self.inside(n)

    def inside_of_parts(self, n: Node, left: Node, a: str, right: Node, b: str) -> str:
        return a + self.source[left.end_byte : right.start_byte].decode() + b

    def drop_kind(self, n: Node) -> str:
        text = self.raw(n)
        is_guard = re.fullmatch(
            r"!?[^&|?<>=!]*(->|\.)(ranked|unchecked|has_value)\(\)", text.replace("->", ".")
        ) or re.fullmatch(r"[^&|?]*[!=]= nullptr", text)
        return "guard dropped" if is_guard or self.is_optional(n) else "condition dropped"

    def is_optional(self, n: Node) -> bool:
        """`x` or `!x` of what may not be there: the function looks into it, as `*x` or `x->`."""
        name = self.raw(n).removeprefix("!")
        around = n
        while around.parent is not None and around.type != "function_definition":
            around = around.parent
        return name.isidentifier() and re.search(rf"(?<!\w)(\*{name}\b|{name}->)", self.raw(around)) is not None

    def leaf(self, n: Node, op: str) -> str:
        """An operand of `and` or `or`; one that is dropped is true in the former and false in the latter."""
        inside = self.render(n)
        if self.operator(n) == op or self.is_refusal(n):
            return inside
        id_ = self.add(n, self.drop_kind(n))
        if id_ is None:
            return inside
        return f"(sx_mutant::awake({id_}) || ({inside}))" if op == "&&" else f"(!sx_mutant::awake({id_}) && ({inside}))"

    def render_if_statement(self, n: Node) -> str:
        clause = n.child_by_field_name("condition")
        if any(c.type == "constexpr" or self.raw(c) == "constexpr" for c in n.children if c is not clause):
            return self.inside_except(n, clause, self.raw(clause))
        value = clause.child_by_field_name("value") if clause.type == "condition_clause" else None
        if value is None or value.type == "declaration":
            return self.inside(n)
        inside = self.render(value)
        if self.operator(value) not in ("&&", "||"):
            id_ = self.add(value, self.drop_kind(value))
            if id_ is not None:
                inside = f"!sx_mutant::awake({id_}) && ({inside})"
        before = "".join(self.source[a:b].decode() for a, b in self.gaps_before(clause, value))
        after = self.source[value.end_byte : clause.end_byte].decode()
        return self.inside_except(n, clause, before + inside + after)

    def gaps_before(self, clause: Node, value: Node):
        yield clause.start_byte, value.start_byte

    def inside_except(self, n: Node, special: Node, text: str) -> str:
        out, at = [], n.start_byte
        for c in n.children:
            out += [self.source[at : c.start_byte].decode(), text if c == special else self.render(c)]
            at = c.end_byte
        return "".join(out) + self.source[at : n.end_byte].decode()

    def render_for_statement(self, n: Node) -> str:
        """Loops over counters: their bounds are no conditions of a rule, and every test would notice."""
        body = n.child_by_field_name("body")
        return self.source[n.start_byte : body.start_byte].decode() + self.render(body)

    def render_case_statement(self, n: Node) -> str:
        value = n.child_by_field_name("value")
        return self.inside(n) if value is None else self.inside_except(n, value, self.raw(value))

    # --- what is returned

    def says_yes_or_no(self, n: Node) -> bool:
        """Whether the return statement belongs to a function or lambda that returns a truth value."""
        at = n.parent
        while at is not None and at.type not in ("function_definition", "lambda_expression"):
            at = at.parent
        if at is None:
            return False
        if at.type == "function_definition":
            kind = at.child_by_field_name("type")
            return kind is not None and self.raw(kind) == "bool"
        head = self.source[at.start_byte : at.child_by_field_name("body").start_byte].decode()
        if re.search(r"->\s*bool\s*$", head):
            return True
        if at.parent is not None and at.parent.type == "initializer_pair":
            return self.raw(at.parent).startswith(".when")
        return False

    def render_return_statement(self, n: Node) -> str:
        value = n.named_children[0] if n.named_children else None
        if value is None:
            return self.raw(n)
        inside = self.render(value)
        logical = self.operator(value) in ("&&", "||") or (
            value.type == "unary_expression" and self.raw(value)[0] == "!"
        )
        plain = value.type in ("true", "false") or self.operator(value) in COMPARISONS or self.is_refusal(value)
        if not plain and (logical or self.says_yes_or_no(n)):
            id_ = self.add(value, "return negated")
            if id_ is not None:
                inside = f"sx_mutant::no({id_}, static_cast<bool>({inside}))"
        return (
            self.source[n.start_byte : value.start_byte].decode()
            + inside
            + self.source[value.end_byte : n.end_byte].decode()
        )

    # --- literals

    def render_number_literal(self, n: Node) -> str:
        id_ = self.add_literal(n)
        return self.raw(n) if id_ is None else f"sx_mutant::other({id_}, {self.raw(n)})"

    def render_true(self, n: Node) -> str:
        return self.render_number_literal(n)

    def render_false(self, n: Node) -> str:
        return self.render_number_literal(n)

    def add_literal(self, n: Node) -> int | None:
        number = self.add(n, "number changed")
        if number is not None:  # a bare number says nothing
            around = n.parent
            while (
                around.parent is not None
                and len(self.raw(around)) < 12
                and around.parent.type not in ("compound_statement",)
            ):
                around = around.parent
            self.mutants[-1].text = f"{self.raw(n)} in {' '.join(self.raw(around).split())[:100]}"
        return number

    # --- calls

    def render_call_expression(self, n: Node) -> str:
        function, arguments = n.child_by_field_name("function"), n.child_by_field_name("arguments")
        operands = arguments.named_children if arguments is not None else []
        name = self.raw(function).split("::")[-1].split(".")[-1] if function is not None else ""
        if name == "sole" and len(operands) == 1:
            inside = self.render(operands[0])
            id_ = self.add(n, "condition dropped")
            whole = f"{self.raw(function)}({inside})"
            if id_ is None:
                return whole
            return f"[&](const sardonyx::Pattern& p) {{ return sx_mutant::awake({id_}) ? p : {self.raw(function)}(p); }}({inside})"
        if name in ORDERED_OPS and len(operands) == 2 and self.raw(operands[0]) != self.raw(operands[1]):
            a, b = (self.render(o) for o in operands)
            id_ = self.add(n, "operands swapped")
            callee = self.raw(function)
            if id_ is None:
                return f"{callee}({a}, {b})"
            gap = "\n" * (self.raw(n).count("\n") - (a + b).count("\n") - callee.count("\n"))
            return f"sx_mutant::swapped({id_}, [&](const auto& p, const auto& q) {{ return {callee}(p, q); }}, {a}, {gap}{b})"
        return self.inside(n)


@dataclass
class Suite:
    """A test program; what it reaches is asked once."""

    name: str
    command: list[str]
    only: str = ""  # the option that chooses a pass
    seconds: float = 0
    reached: set[int] = field(default_factory=set)

    def run(self, mutant: int | None, report: Path | None = None, more: list[str] | None = None) -> str:
        """ "" when the tests hold, else how they ended."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("SX_MUTANT")}
        if mutant is not None:
            env["SX_MUTANT"] = str(mutant)
        if report:
            env["SX_MUTANT_REACHED"] = str(report)
        limit = 600 if mutant is None else 5 + 10 * self.seconds
        try:
            done = subprocess.run(
                ["bash", "-c", 'ulimit -v 8000000; exec "$0" "$@"', *self.command, *(more or [])],
                cwd=ROOT, env=env, capture_output=True, timeout=limit, check=False
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "takes too long"
        if done.returncode == 0:
            return ""
        return "fails" if done.returncode > 0 else "crashes"

    def measure(self) -> None:
        report = WORK / "reached" / re.sub(r"\W", "_", self.name)
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)
        begin = time.monotonic()
        how = self.run(None, report)
        self.seconds = time.monotonic() - begin
        if how:
            sys.exit(f"without a mutant, {self.name} {how}: {shlex.join(self.command)}")
        self.reached = {int(line) for line in report.read_text().split()} if report.exists() else set()


# What nearly all passes include; the compiler reads it once.
COMMON = """#include "mutant.h"
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>
#include <fmt/format.h>
#include "passes/catalog.h"
#include "rewrite/pass.h"
"""


def compile_flags() -> list[str]:
    """How the library's sources are compiled, from the release build: without warnings, quickly."""
    WORK.mkdir(parents=True, exist_ok=True)
    for entry in json.loads((RELEASE / "compile_commands.json").read_text()):
        if entry["file"].endswith("src/passes/catalog.cc"):
            words = shlex.split(entry["command"])
            cut = words[: words.index("-o")]
            flags = [w for w in cut if not w.startswith(("-W", "-O")) and not w.endswith("ccache")]
            flags += ["-w", "-O0", "-D_GLIBCXX_ASSERTIONS", "-Wno-narrowing", "-I", str(ROOT / "tests" / "mutants")]
            (WORK / "common.h").write_text(COMMON)
            subprocess.run([*flags, "-x", "c++-header", WORK / "common.h", "-o", WORK / "common.h.gch"], check=True)
            return flags
    sys.exit("build/release is not configured: run make build")


@functools.cache
def newest_header() -> float:
    headers = [
        p
        for folder in ("src", "include", "tests/mutants")
        for p in (ROOT / folder).rglob("*.*")
        if p.suffix in (".h", ".inc", ".def")
    ]
    return max(p.stat().st_mtime for p in headers)


def first_id(path: Path) -> int:
    return 10000 * sorted(FOLDER.rglob("*.cc")).index(path)


def compile_copy(path: Path, flags: list[str], wanted: set[int] | None) -> tuple[Path, list[Mutant]]:
    """The object of the copy with its mutants. Those that do not compile are taken out, by the lines that the compiler names."""
    copy = WORK / "src" / path.relative_to(ROOT / "src")
    copy.parent.mkdir(parents=True, exist_ok=True)
    target = copy.with_suffix(".o")
    # What did not compile last time will not compile now; what did is there still.
    memory = copy.with_suffix(".dropped")
    dropped: set[int] = set(json.loads(memory.read_text())) if memory.exists() else set()
    if copy.exists() and target.exists():
        writer = Writer(path, first_id(path), dropped, wanted)
        if copy.read_text() == writer.text and target.stat().st_mtime >= max(copy.stat().st_mtime, newest_header()):
            return target, writer.mutants
        dropped = set()
    for _ in range(8):
        writer = Writer(path, first_id(path), dropped, wanted)
        copy.write_text(writer.text)
        command = [*flags, "-include", WORK / "common.h", "-o", target, "-c", copy]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            memory.write_text(json.dumps(sorted(dropped)))
            return target, writer.mutants
        lines = {
            int(x) for x in re.findall(rf"{re.escape(str(copy))}:(\d+):\d+:\s+(?:error|required from)", done.stderr)
        }
        lines |= {int(x) for x in re.findall(rf"{re.escape(str(copy))}:(\d+):\d+: error", done.stderr)}
        bad = {m.id for m in writer.mutants if m.line in lines and m.kind in ("operands swapped", "number changed")}
        bad = bad or {m.id for m in writer.mutants if m.line in lines}
        if not bad:
            (WORK / "errors.txt").write_text(done.stderr)
            sys.exit(f"{copy} does not compile; see {WORK / 'errors.txt'}")
        dropped |= bad
    sys.exit(f"{copy} does not compile after eight attempts")


def link(
    objects: list[Path],
    flags: list[str],
    programs: tuple[str, ...] = ("sx_test", "sx_unit", "sx_fuzz"),
    suggesting: list[Path] | None = None,
) -> None:
    """sx_test, sx_unit and sx_fuzz with the copies in place of the library's own; of `suggesting`, sx_suggest in place of sx_test."""
    switch = compile_own("mutant", flags)
    for program in programs:
        subprocess.run(["ninja", "-C", RELEASE, "--quiet", program], check=True)
        commands = subprocess.run(
            ["ninja", "-C", RELEASE, "-t", "commands", "-s", program], capture_output=True, text=True, check=True
        ).stdout
        line = next(x for x in reversed(commands.splitlines()) if f"-o {program}" in x).split("&&")
        words = shlex.split(next(x for x in line if f"-o {program}" in x))
        words[words.index("-o") + 1] = str(WORK / ("sx_suggest" if suggesting else program))
        at = words.index("libsardonyx.a")
        words[at:at] = [str(switch), *map(str, objects)]
        if suggesting:
            words = [w for w in words if not w.endswith("sx_test_main.cc.o")]
            check = "CMakeFiles/sx_fuzz.dir/tests/fuzz/check.cc.o"
            subprocess.run(["ninja", "-C", RELEASE, "--quiet", check], check=True)
            words[at - 1 : at - 1] = [*map(str, suggesting), check]
        subprocess.run(words, cwd=RELEASE, check=True)


def compile_own(name: str, flags: list[str]) -> Path:
    """An object of a source in tests/mutants."""
    target, source = WORK / f"{name}.o", ROOT / "tests" / "mutants" / f"{name}.cc"
    if not target.exists() or target.stat().st_mtime < max(source.stat().st_mtime, newest_header()):
        subprocess.run([*flags, "-o", target, "-c", source], check=True)
    return target


Compiled = list[tuple[Path, list[Mutant]]]  # the copies' objects, each with its mutants


def link_suggest(compiled: Compiled, flags: list[str]) -> None:
    fast = [*(f for f in flags if f != "-O0"), "-O1"]
    own = [compile_own(name, fast) for name in ("suggest_main", "alter")]
    link([o for o, _ in compiled], flags, ("sx_test",), own)


def run_suggest(path: Path, mutants: list[Mutant], skip: set[str], seconds: float, seed: int) -> tuple[str, str]:
    """What sx_suggest says of a file's mutants, and its complaints; those with a key in `skip` are left out."""
    named = {m.id: m for m in mutants}
    first = first_id(path)
    left_out = [i for i in range(first, max(named, default=first) + 1) if i not in named or named[i].key in skip]
    command = [
        f"{WORK}/sx_suggest", f"--first={first}", f"--last={max(named, default=first) + 1}", f"--own={path.stem}",
        f"--seed={seed}",
        f"--seconds={seconds}", f"--skip={','.join(map(str, left_out))}", str(FOLDER.relative_to(ROOT)),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


def killed_by_cases(paths: list[Path], compiled: Compiled, flags: list[str], jobs: int) -> set[int]:
    """The mutants with which some case of some pass comes out otherwise: all cases in one process, which is quick."""
    link_suggest(compiled, flags)
    with ThreadPoolExecutor(jobs) as pool:
        answers = pool.map(lambda p, c: run_suggest(p, c[1], set(), 0, 1)[0], paths, compiled)
    return {int(i) for a in answers for line in re.findall(r"(?m)^dead (.*)$", a) for i in line.split()}


def suggest(paths: list[Path], folder: Path, seconds: float, seed: int, jobs: int) -> None:
    """Cases for the mutants of each file that no case kills."""
    flags = compile_flags()
    with ThreadPoolExecutor(jobs) as pool:
        compiled = list(pool.map(lambda p: compile_copy(p, flags, None), paths))
    link_suggest(compiled, flags)
    folder.mkdir(parents=True, exist_ok=True)
    equivalent = read_equivalent()

    def one(path: Path, mutants: list[Mutant]) -> None:
        named = {m.id: m for m in mutants}
        stdout, stderr = run_suggest(path, mutants, set(equivalent), seconds, seed)
        out, counts = [], Counter()
        for block in stdout.split("----\n")[1:]:
            head, _, rest = block.partition("\n")
            kind, *ids = head.split()
            counts[kind] += len(ids) if kind != "bug" else 1
            if kind == "dead":
                continue
            out.append(f"==== {kind}\n" + "".join(f"// {named[int(i)]}\n" for i in ids) + rest)
        summary = f"{path.relative_to(ROOT)}: {len(named)} mutants, " + ", ".join(f"{k} {n}" for k, n in counts.items())
        (folder / f"{path.stem}.txt").write_text(
            summary + "\n" + "".join(out) + re.sub(r"(?m)^.*(Assertion|pointer|free|corrupt|memory).*\n", "", stderr)
        )
        print(summary, flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        pairs = sorted(zip(paths, compiled, strict=True), key=lambda pair: -len(pair[1][1]))
        list(pool.map(lambda pair: one(pair[0], pair[1][1]), pairs))


def print_table(paths: list[Path], mutants: list[Mutant]) -> None:
    """Of each file, the worst first: the mutants, guards and those that mean the same apart, and how many of them cases kill."""
    equivalent = read_equivalent()
    rows = []
    for p in paths:
        own = [m for m in mutants if m.path == p]
        guards = [m for m in own if m.kind == "guard dropped"]
        rest = [m for m in own if m.kind != "guard dropped"]
        same = sum(m.alive is None and m.key in equivalent for m in rest)
        killed = sum(m.alive is False for m in rest)
        dead_guards = sum(m.alive is False for m in guards)
        rows.append((str(p.relative_to(FOLDER)), killed, len(rest) - same, same, dead_guards, len(guards)))
    rows.sort(key=lambda r: (r[1] - r[2], r[0]))
    rows.append(("all", *(sum(r[i] for r in rows) for i in range(1, 6))))
    print(f"{'file':45} killed counted    %  left  same  guards")
    for name, killed, counted, same, dead_guards, guards in rows:
        share = 100 * killed / counted if counted else 100
        print(f"{name:45} {killed:6} {counted:7} {share:4.0f} {counted - killed:5} {same:5}  {dead_guards} of {guards}")


def suites(named: str) -> list[Suite]:
    """Those whose names match; the quickest first."""
    found = [Suite(f.stem, [f"{WORK}/sx_test", str(f.relative_to(ROOT))]) for f in sorted(FOLDER.rglob("*.sx"))]
    listed = subprocess.run(
        [f"{WORK}/sx_unit", "--gtest_list_tests"], capture_output=True, text=True, check=True
    ).stdout
    for suite in re.findall(r"(?m)^(\S+\.)$", listed):
        found.append(Suite(f"sx_unit {suite[:-1]}", [f"{WORK}/sx_unit", "--gtest_brief=1", f"--gtest_filter={suite}*"]))
    found.append(Suite("rules on random graphs", [f"{WORK}/sx_test", "--fuzz", "src/passes"], "--filter={}"))
    found.append(Suite("random graphs", [f"{WORK}/sx_fuzz", "--seed=1", "--count=250", "--no-shrink"], "--passes={}"))
    return [t for t in found if re.search(named, t.name)]


def try_mutant(mutant: Mutant, tests: list[Suite]) -> Mutant:
    own = {mutant.path.stem}
    reaching = [t for t in tests if mutant.id in t.reached]
    reaching.sort(key=lambda t: (t.name not in own, t.seconds > 2, t.seconds if t.seconds > 2 else 0))
    for test in reaching:
        # What draws graphs does so for the mutant's own pass, where it is one.
        how = test.run(mutant.id, more=[test.only.format(mutant.path.stem)] if test.only and mutant.is_pass else None)
        if how:
            mutant.alive, mutant.killer = False, f"{test.name} {how}"
            return mutant
    mutant.alive = True
    mutant.killer = "" if reaching else "no test reaches it"
    return mutant


def read_equivalent() -> dict[str, str]:
    """What means the same: `FILE | KIND | TEXT` on one line, the reason on the next, indented."""
    found: dict[str, str] = {}
    key = ""
    for line in EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []:
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith(" "):
            found[key] = (found[key] + " " + line.strip()).strip()
        else:
            key = line.strip()
            found[key] = ""
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("passes", nargs="*", help="names of files or folders in src/passes; else all")
    parser.add_argument("--sample", type=int, default=0, help="how many mutants; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--tests", default="", metavar="REGEX", help="of the tests after the cases, only those so named"
    )
    parser.add_argument("--report", type=Path, help="where to write the survivors")
    parser.add_argument("--again", type=Path, help="of these mutants only those that this report names")
    parser.add_argument("--suggest", type=Path, metavar="FOLDER", help="look for cases that kill those that survive")
    parser.add_argument("--seconds", type=float, default=60, help="how long --suggest looks, for each file")
    parser.add_argument("--cases", action="store_true", help="only what text cases kill, with a table of the files")
    parser.add_argument("--list", action="store_true", help="print the mutants and end")
    arguments = parser.parse_args()
    paths = [
        p for p in sorted(FOLDER.rglob("*.cc")) if p.name not in NO_PASSES and not re.search("_(test|bench)$", p.stem)
    ]
    if arguments.passes:
        paths = [p for p in paths if p.stem in arguments.passes or p.parent.name in arguments.passes]
    if not paths:
        sys.exit("there are no such passes")
    if arguments.list:
        for p in paths:
            for m in Writer(p, 0, set()).mutants:
                print(m)
        return 0

    if arguments.suggest:
        suggest(paths, arguments.suggest, arguments.seconds, arguments.seed, arguments.jobs)
        return 0

    listed = [m for p in paths for m in Writer(p, first_id(p), set()).mutants]
    random.Random(arguments.seed).shuffle(listed)
    chosen = {m.id for m in (listed[: arguments.sample] if arguments.sample else listed)}
    paths = [p for p in paths if any(m.path == p and m.id in chosen for m in listed)]
    print(f"{len(listed)} mutants; {len(chosen)} of them in {len(paths)} files", flush=True)

    flags = compile_flags()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        compiled = list(pool.map(lambda p: compile_copy(p, flags, chosen), paths))
    mutants = [m for _, found in compiled for m in found]
    print(f"{len(mutants)} of them compile", flush=True)
    by_cases = killed_by_cases(paths, compiled, flags, arguments.jobs)
    for m in mutants:
        if m.id in by_cases:
            m.alive, m.killer = False, "cases"
    print(f"{len(by_cases)} of them die of cases", flush=True)
    if arguments.cases:
        print_table(paths, mutants)
        if arguments.report:
            equivalent = read_equivalent()
            left = [m for m in mutants if m.alive is None and m.key not in equivalent]
            arguments.report.write_text("\n".join(f"{m.key}\n    line {m.line}\n" for m in left))
        return 0
    random.Random(arguments.seed).shuffle(mutants)
    link([o for o, _ in compiled], flags)
    tests = suites(arguments.tests)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(Suite.measure, tests))
    print(f"the tests take {sum(t.seconds for t in tests):.0f} s without mutants", flush=True)

    if arguments.again:
        keys = set(arguments.again.read_text().splitlines())
        mutants = [m for m in mutants if m.key in keys]
        print(f"again: {len(mutants)}", flush=True)
    equivalent = read_equivalent()
    done: list[Mutant] = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for m in pool.map(lambda m: m if m.alive is False else try_mutant(m, tests), mutants):
            done.append(m)
            if m.alive and m.key not in equivalent:
                print(f"survives: {m}{f' ({m.killer})' if m.killer else ''}", flush=True)
    wrong = [m for m in done if not m.alive and m.key in equivalent and sum(o.key == m.key for o in done) == 1]
    guards = [m for m in done if m.kind == "guard dropped"]
    counted = [m for m in done if not (m.alive and m.key in equivalent) and m.kind != "guard dropped"]
    killed = [m for m in counted if not m.alive]
    survivors = sorted((m for m in done if m.alive and m.key not in equivalent), key=lambda m: m.id)
    print()
    kinds = Counter(m.kind for m in counted)
    dead = Counter(m.kind for m in killed)
    for kind, number in sorted(kinds.items()):
        print(f"{kind:20} {dead[kind]:5} of {number:5} killed")
    by = Counter(
        "sx_unit"
        if m.killer.startswith("sx_unit")
        else re.sub(" (fails|crashes|takes too long)$", "", m.killer)
        if m.killer == "cases" or "random" in m.killer
        else "checks of cases"
        for m in killed
    )
    print("killed by " + ", ".join(f"{k}: {n}" for k, n in by.most_common()))
    print(f"guards: {sum(not m.alive for m in guards)} of {len(guards)} killed")
    share = 100 * len(killed) / len(counted) if counted else 0
    print(
        f"{len(killed)} of {len(counted)} mutants killed ({share:.1f} %); {len(done) - len(counted)} more mean the same"
    )
    for m in wrong:
        print(f"dies, though tests/mutants/equivalent.txt says that it means the same: {m} ({m.killer})")
    if arguments.report:
        lines = [f"{m.key}\n    line {m.line} {m.killer}\n" for m in survivors]
        arguments.report.write_text("\n".join(lines))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
