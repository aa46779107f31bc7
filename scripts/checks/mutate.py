"""Break passes on purpose and see whether some test notices.

    scripts/checks/mutate.py [PASS...] [--sample N] [--seed N] [--tests REGEX] [--report FILE] [--list]

PASS is the name of a file or of a folder (`onnx`, `mil`).

A mutant is one change of one source below src/passes:

- condition dropped: one operand of an `and` or an `or`, a whole `if`, the `sole` of a pattern
- comparison reversed: `==` and `!=`, `<` and `>=`
- operands swapped: of operators that do not commute, in patterns, in replacements, in arithmetic
- number changed: the next one; `true` and `false`
- return negated: of a function or a condition that returns a boolean
- guard dropped: a condition that only checks that a value exists: `v == nullptr`, `!v->ranked()`, `n.unchecked()`, and
  `!axis` before `*axis`. Most of them precede a check that would fail anyway, or guard against graphs that the verifier
  refuses. They are tried and counted separately

The sources are not touched. All mutants of a file go into one copy of it in build/mutants, which checks at
run time which of them is active (tests/mutants/mutant.h). So each file is compiled once, and a mutant costs
one run of the tests that reach it: the cases of its own file, those of all passes, the rules on random
graphs, the C++ tests, random graphs with pieces of the cases. A mutant is killed when one of them fails,
crashes or takes ten times as long as it should. A mutant whose copy does not compile does not count. The
copies are compiled with the standard library's own checks, so a mutant that reads an empty optional or beyond
a vector crashes instead of going unnoticed.

Look at the survivors: either a case is missing, or the mutant is equivalent, as some always are. So the share
of killed mutants is compared with that of the last run, and never reaches 100 %.
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "build" / "release"
WORK = ROOT / "build" / "mutants"
FOLDER = ROOT / "src" / "passes"
# The tables of passes are not passes.
NO_PASSES = {"catalog.cc", "run_passes.cc"}

COMPARISONS = {"==", "!=", "<", ">", "<=", ">="}
UNORDERED = {"-", "/", "%"}
ORDERED_OPS = set(
    """Sub Div Pow MatMul Mod Less Greater LessOrEqual GreaterOrEqual Gather Reshape Expand BitShift PRelu
    sub real_div floor_div pow mod less less_equal greater greater_equal matmul gather""".split()
)
# Literals in these are part of a type or of a table, or must be constants.
FIXED = set(
    """template_argument_list template_parameter_list static_assert_declaration array_declarator enumerator preproc_def
    preproc_function_def preproc_include preproc_call preproc_if alignas_qualifier bitfield_clause""".split()
)


@dataclass
class Mutant:
    id: int
    path: Path
    line: int
    kind: str
    text: str  # the source text at this place
    alive: bool | None = None
    killer: str = ""

    @property
    def is_pass(self) -> bool:
        return self.path.with_suffix(".sx").exists() and self.path.is_relative_to(FOLDER / "onnx")

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.kind}: {self.text}"


class Writer:
    """One source with all its mutants written in. Line numbers stay the same."""

    def __init__(self, path: Path, first_id: int, dropped: set[int], wanted: set[int] | None = None) -> None:
        self.path, self.next, self.dropped, self.wanted = path, first_id, dropped, wanted
        self.source = path.read_bytes()
        self.mutants: list[Mutant] = []
        self.tree = Parser(Language(tree_sitter_cpp.language())).parse(self.source)
        self.text = self.render(self.tree.root_node)

    def raw(self, n: Node) -> str:
        return self.source[n.start_byte : n.end_byte].decode()

    def add(self, n: Node, kind: str) -> int | None:
        """The number of a new mutant; None where none is wanted."""
        number = self.next
        self.next += 1  # also counts skipped mutants, so that numbers stay the same
        if number in self.dropped or (self.wanted is not None and number not in self.wanted):
            return None
        text = " ".join(self.raw(n).split())
        self.mutants.append(Mutant(number, self.path, n.start_point[0] + 1, kind, text[:120]))
        return number

    def inside(self, n: Node, special: Node | None = None, text: str = "") -> str:
        """The node's text with its children's mutants; `text` in place of the child `special`."""
        out, at = [], n.start_byte
        for c in n.children:
            out += [self.source[at : c.start_byte].decode(), text if c == special else self.render(c)]
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
        """Whether the statement is m.refuse("why"), which only returns false."""
        return n.type == "call_expression" and re.match(r"m_?\.refuse\(", self.raw(n)) is not None

    def operator(self, n: Node) -> str:
        if n.type != "binary_expression":
            return ""
        return self.raw(n.child_by_field_name("operator"))

    def render_binary_expression(self, n: Node) -> str:
        op = self.operator(n)
        left, right = n.child_by_field_name("left"), n.child_by_field_name("right")
        if op in ("&&", "||"):
            return self.leaf(left, op) + self.between(left, right) + self.leaf(right, op)
        if op in COMPARISONS:
            inside = self.inside(n)
            id_ = self.add(n, "comparison turned")
            return inside if id_ is None else f"sx_mutant::no({id_}, ({inside}))"
        if op in UNORDERED and self.raw(left) != self.raw(right):
            a, b = self.render(left), self.render(right)
            id_ = self.add(n, "operands swapped")
            if id_ is None:
                return a + self.between(left, right) + b
            gap = "\n" * self.raw(n).count("\n") if "\n" not in a + b else ""
            return f"sx_mutant::swapped({id_}, [](const auto& p, const auto& q) {{ return p {op} q; }}, {a}, {gap}{b})"
        return self.inside(n)

    def between(self, left: Node, right: Node) -> str:
        return self.source[left.end_byte : right.start_byte].decode()

    def drop_kind(self, n: Node) -> str:
        text = self.raw(n)
        is_guard = re.fullmatch(
            r"!?[^&|?<>=!]*(->|\.)(ranked|unchecked|has_value)\(\)", text.replace("->", ".")
        ) or re.fullmatch(r"[^&|?]*[!=]= nullptr", text)
        return "guard dropped" if is_guard or self.is_optional(n) else "condition dropped"

    def is_optional(self, n: Node) -> bool:
        """Whether `x` or `!x` checks an optional value that the function then reads as `*x` or `x->`."""
        name = self.raw(n).removeprefix("!")
        around = n
        while around.parent is not None and around.type != "function_definition":
            around = around.parent
        return name.isidentifier() and re.search(rf"(?<!\w)(\*{name}\b|{name}->)", self.raw(around)) is not None

    def leaf(self, n: Node, op: str) -> str:
        """An operand of `and` or `or`. A dropped one is true in the former and false in the latter."""
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
            return self.inside(n, clause, self.raw(clause))
        value = clause.child_by_field_name("value") if clause.type == "condition_clause" else None
        if value is None or value.type == "declaration":
            return self.inside(n)
        inside = self.render(value)
        if self.operator(value) not in ("&&", "||"):
            id_ = self.add(value, self.drop_kind(value))
            if id_ is not None:
                inside = f"!sx_mutant::awake({id_}) && ({inside})"
        before = self.source[clause.start_byte : value.start_byte].decode()
        after = self.source[value.end_byte : clause.end_byte].decode()
        return self.inside(n, clause, before + inside + after)

    def render_for_statement(self, n: Node) -> str:
        """Skips loops over counters: their bounds are not conditions of a rule, and every test would notice a
        change."""
        body = n.child_by_field_name("body")
        return self.source[n.start_byte : body.start_byte].decode() + self.render(body)

    def render_case_statement(self, n: Node) -> str:
        value = n.child_by_field_name("value")
        return self.inside(n) if value is None else self.inside(n, value, self.raw(value))

    # --- return statements

    def says_yes_or_no(self, n: Node) -> bool:
        """Whether the return statement belongs to a function or lambda that returns a boolean."""
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
        return self.inside(n, value, inside)

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
        if number is not None:  # a bare number is unclear in the report
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
    """A test program. The mutants it reaches are found once."""

    name: str
    command: list[str]
    only: str = ""  # the option that selects a pass
    seconds: float = 0
    reached: set[int] = field(default_factory=set)

    def run(self, mutant: int | None, report: Path | None = None, more: list[str] | None = None) -> str:
        """ "" when the tests pass, else how they ended."""
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


# The headers that nearly all passes include. The compiler reads them once.
COMMON = '#include "mutant.h"\n#include "passes/catalog.h"\n#include "rewrite/pass.h"\n' + "".join(
    f"#include <{name}>\n" for name in "algorithm map optional set string unordered_map vector fmt/format.h".split()
)


def compile_flags() -> list[str]:
    """The compile flags of the library's sources, from the release build: fast, and without warnings."""
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
    """The object of the copy with its mutants. Mutants that do not compile, by the lines in the compiler's
    errors, are removed."""
    copy = WORK / "src" / path.relative_to(ROOT / "src")
    copy.parent.mkdir(parents=True, exist_ok=True)
    target = copy.with_suffix(".o")
    # A mutant that did not compile last time will not compile now; one that did is still in the object.
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


def link(objects: list[Path], flags: list[str]) -> None:
    """Link sx_test, sx_unit and sx_fuzz with the copies in place of the library's own files."""
    switch, source = WORK / "mutant.o", ROOT / "tests" / "mutants" / "mutant.cc"
    subprocess.run([*flags, "-o", switch, "-c", source], check=True)
    for program in ("sx_test", "sx_unit", "sx_fuzz"):
        subprocess.run(["ninja", "-C", RELEASE, "--quiet", program], check=True)
        commands = subprocess.run(
            ["ninja", "-C", RELEASE, "-t", "commands", "-s", program], capture_output=True, text=True, check=True
        ).stdout
        line = next(x for x in reversed(commands.splitlines()) if f"-o {program}" in x).split("&&")
        words = shlex.split(next(x for x in line if f"-o {program}" in x))
        words[words.index("-o") + 1] = str(WORK / program)
        at = words.index("libsardonyx.a")
        words[at:at] = [str(switch), *map(str, objects)]
        subprocess.run(words, cwd=RELEASE, check=True)


def suites(named: str) -> list[Suite]:
    """The suites whose names match, the fastest first."""
    found = [Suite(f.stem, [f"{WORK}/sx_test", str(f.relative_to(ROOT))]) for f in sorted(FOLDER.rglob("*.sx"))]
    listed = subprocess.run(
        [f"{WORK}/sx_unit", "--gtest_list_tests"], capture_output=True, text=True, check=True
    ).stdout
    for suite in re.findall(r"(?m)^(\S+\.)$", listed):
        found.append(Suite(f"sx_unit {suite[:-1]}", [f"{WORK}/sx_unit", "--gtest_brief=1", f"--gtest_filter={suite}*"]))
    found.append(Suite("rules on random graphs", [f"{WORK}/sx_test", "--fuzz", "src/passes"], "--filter={}"))
    found.append(
        Suite(
            "random graphs",
            [f"{WORK}/sx_fuzz", "--seed=1", "--count=250", "--cases=src/passes/onnx", "--no-shrink"],
            "--passes={}",
        )
    )
    return [t for t in found if re.search(named, t.name)]


def try_mutant(mutant: Mutant, tests: list[Suite]) -> Mutant:
    own = {mutant.path.stem}
    reaching = [t for t in tests if mutant.id in t.reached]
    reaching.sort(key=lambda t: (t.name not in own, t.seconds > 2, t.seconds if t.seconds > 2 else 0))
    for test in reaching:
        # Suites that draw graphs draw them for the mutant's own pass, where it belongs to one.
        how = test.run(mutant.id, more=[test.only.format(mutant.path.stem)] if test.only and mutant.is_pass else None)
        if how:
            mutant.alive, mutant.killer = False, f"{test.name} {how}"
            return mutant
    mutant.alive = True
    mutant.killer = "" if reaching else "no test reaches it"
    return mutant


def print_shares(mutants: list[Mutant]) -> None:
    """Print the shares killed: per file, the worst first, per kind, and in all."""

    def row(name: str, some: list[Mutant]) -> None:
        killed = sum(not m.alive for m in some)
        print(f"{name:45} {killed:6} of {len(some):6} killed  {100 * killed / max(len(some), 1):5.1f} %")

    guards = [m for m in mutants if m.kind == "guard dropped"]
    counted = [m for m in mutants if m.kind != "guard dropped"]
    files = sorted({m.path for m in counted}, key=lambda p: -sum(bool(m.alive) for m in counted if m.path == p))
    for path in files:
        row(str(path.relative_to(FOLDER)), [m for m in counted if m.path == path])
    print()
    for kind in sorted({m.kind for m in counted}):
        row(kind, [m for m in counted if m.kind == kind])
    row("guard dropped (not counted)", guards)
    row("all", counted)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("passes", nargs="*", help="names of files or folders in src/passes; else all")
    parser.add_argument("--sample", type=int, default=0, help="how many mutants; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tests", default="", metavar="REGEX", help="only tests so named")
    parser.add_argument("--report", type=Path, help="where to write the survivors")
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
    random.Random(arguments.seed).shuffle(mutants)
    link([o for o, _ in compiled], flags)
    tests = suites(arguments.tests)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(Suite.measure, tests))
        print(f"the tests take {sum(t.seconds for t in tests):.0f} s without mutants", flush=True)
        for m in pool.map(lambda m: try_mutant(m, tests), mutants):
            if m.alive:
                print(f"survives: {m}{f' ({m.killer})' if m.killer else ''}", flush=True)
    print()
    print_shares(mutants)
    if arguments.report:
        survivors = sorted((m for m in mutants if m.alive), key=lambda m: m.id)
        arguments.report.write_text("".join(f"{m}\n" for m in survivors))
    return 0


if __name__ == "__main__":
    sys.exit(main())
