"""Pages that are generated: one for each pass and each primitive, with a drawing of one of its own cases, and the tables of operators."""

import json
import re
import subprocess
from collections import defaultdict
from html import escape
from pathlib import Path

from docs_site import drawing
from docs_site.graphs import Case, Printer, read_cases, read_model

SMALL = 14  # nodes of a case that is drawn by preference
PICTURE = "\0picture {}\0"  # stands for a drawing until all are drawn


class Drawings:
    """Collects the cases to draw; Graphviz draws all of them in one go."""

    def __init__(self, printer: Printer):
        self.printer = printer
        self.texts: list[str] = []
        self.captions: list[tuple[str, str]] = []

    def best(self, cases: list[Case]) -> Case | None:
        """The first case whose graphs are small, else the smallest one."""
        found = []
        for case in cases:
            if not case.after or case.about not in ("", "exactly"):
                continue
            pair = drawing.dots(self.printer(case.before), self.printer(case.after))
            if pair is None:
                continue
            if max(pair[1]) <= SMALL:
                return case
            found.append((max(pair[1]), len(found), case))
        return min(found)[2] if found else None

    def figure(self, case: Case, titles: tuple[str, str], mark: bool = True) -> str:
        pair = drawing.dots(self.printer(case.before), self.printer(case.after), mark)
        places = []
        for text, size, title in zip(*pair, titles, strict=True):
            places.append(PICTURE.format(len(self.texts)))
            self.texts.append(text)
            self.captions.append((title, f"{size} node{'s' * (size != 1)}"))
        return f'<div class="sx-pair" data-search-exclude>{"".join(places)}</div>'

    def draw(self) -> list[str]:
        figures = []
        for svg, (title, size) in zip(drawing.svgs(self.texts), self.captions, strict=True):
            figures.append(
                f"<figure><figcaption><strong>{escape(title)}</strong> {escape(size)}</figcaption>{svg}</figure>"
            )
        return figures


def put_in(page: str, figures: list[str]) -> str:
    return re.sub(PICTURE.format(r"(\d+)"), lambda m: figures[int(m[1])], page)


def code(text: str, language: str = "sx") -> list[str]:
    return [f"```{language}", *text.strip("\n").splitlines(), "```", ""]


def comment_of(source: Path) -> str:
    """The comment at the head of a file, without its slashes or stars."""
    lines = []
    text = source.read_text()
    if text.startswith("/*"):
        return "\n".join(re.sub(r"^\s*\* ?", "", line) for line in text[2 : text.index("*/")].strip().splitlines())
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").removeprefix(" "))
    return "\n".join(lines)


def prose(comment: str) -> list[str]:
    """A comment as Markdown: what is indented or draws stays as it is, the rest are paragraphs."""
    lines = []
    for paragraph in re.split(r"\n\s*\n", comment):
        if not paragraph.strip():
            continue
        if re.search(r"^ ?- ", paragraph, re.MULTILINE) and "──" not in paragraph:
            head, *items = re.split(r"^ ?- ", paragraph, flags=re.MULTILINE)
            lines += [plain(" ".join(head.split())), ""] if head.strip() else []
            lines += [*("- " + plain(" ".join(item.split())) for item in items), ""]
            continue
        drawn = [bool(re.match(r"\s{2,}|.*(──|=>)", line)) for line in paragraph.splitlines()]
        block: list[str] = []
        for line, is_drawn in zip(paragraph.splitlines(), drawn, strict=True):
            if is_drawn:
                if block and not block[0].startswith("\1"):
                    lines += [" ".join(block), ""]
                    block = []
                block.append("\1" + line)
            else:
                if block and block[0].startswith("\1"):
                    lines += code("\n".join(x[1:] for x in block), "text")
                    block = []
                block.append(plain(line.strip()))
        if block and block[0].startswith("\1"):
            lines += code("\n".join(x[1:] for x in block), "text")
        elif block:
            lines += [" ".join(block), ""]
    return lines


def plain(text: str) -> str:
    """Text that means nothing to Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text).replace("\\<", "&lt;").replace("\\>", "&gt;")


def claims(title: str, cases: list[Case]) -> list[str]:
    if not cases:
        return []
    return [title, "", *(f"- {plain(c.claim)}" for c in cases), ""]


WIDE = ["---", "hide: [navigation]", "---", ""]  # pages that no list on the left has, which leaves room for drawings


def beside(names: list[str], name: str) -> str:
    """Links to the neighbors of a page among those of its kind."""
    at = names.index(name)
    before = f"[← {names[at - 1]}]({names[at - 1]}.md) · " if at else ""
    after = f" · [{names[at + 1]} →]({names[at + 1]}.md)" if at + 1 < len(names) else ""
    return f"{before}{{}}{after}"


def pass_page(about: dict, presets: list[str], source: Path, drawings: Drawings, neighbors: str) -> str:
    cases = read_cases(source.with_suffix(".sx"))
    fires = [c for c in cases if c.after and not c.about.startswith("error")]
    kept = [c for c in cases if c.about == "same"]
    kind = {"onnx": "ONNX models", "mil": "Core ML programs"}[about["dialect"]]
    where = (
        f"in the presets {', '.join(presets)}"
        if len(presets) > 1
        else f"in the preset {presets[0]}"
        if presets
        else "on request"
    )
    lines = [
        *WIDE, f"# {about['name']}", "", neighbors.format("[all passes](../../generated/catalogue.md)"), "",
        f"{plain(about['about'])}.", "",
        f"For {kind}; results: **{about['numerics']}**; {where}.", "",
    ]  # fmt: skip
    case = drawings.best(fires)
    if case is not None:
        lines += [drawings.figure(case, ("Before", "After")), ""]
        lines += [f"One of its cases, “{plain(case.claim)}”. Boxes that the other side lacks are colored.", ""]
        lines += [*code(case.before), "becomes", "", *code(case.after)]
    lines += ["## In full", "", *prose(comment_of(source)), f"Source: `{where_of(source)}`, its cases beside it.", ""]
    if about["options"]:
        lines += ["## Options", "", "| Option | Meaning |", "|---|---|"]
        lines += [f"| `--option {about['name']}.{k}=...` | {plain(v)} |" for k, v in about["options"].items()]
        lines.append("")
    lines += ["## What its cases claim", ""]
    lines += claims("It changes the graph:", fires) + claims("It leaves the graph alone:", kept)
    if about["rules"]:
        lines += ["## Rules", "", '??? note "The patterns, as `sardonyx passes` prints them"', ""]
        for rule in about["rules"]:
            lines += ["    ```text", *("    " + x for x in wrapped(rule)), "    ```", ""]
    return "\n".join(lines)


def where_of(source: Path) -> str:
    return "/".join(source.parts[source.parts.index("src") :])


def wrapped(rule: str, width: int = 100) -> list[str]:
    lines = [""]
    for word in re.split(r"(?<=,) ", rule):
        if lines[-1] and len(lines[-1]) + len(word) + 1 > width:
            lines.append("    " + word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip() if len(lines) == 1 else f"{lines[-1]} {word}"
    return lines


def source_of(root: Path, about: dict) -> Path:
    (source,) = (root / "src" / "passes" / about["dialect"]).rglob(f"{about['name']}.cc")
    return source


def pass_pages(root: Path, listed: dict, drawings: Drawings) -> dict[str, str]:
    used = defaultdict(list)
    for preset in listed["presets"]:
        for name in preset["passes"]:
            used[name].append(preset["name"])
    pages = {}
    for about in listed["passes"]:
        presets = list(dict.fromkeys(used[about["name"]]))
        names = [p["name"] for p in listed["passes"] if p["dialect"] == about["dialect"]]
        page = pass_page(about, presets, source_of(root, about), drawings, beside(names, about["name"]))
        pages[f"passes/{about['dialect']}/{about['name']}.md"] = page
    return pages


# ---- primitives


def primitive_rows(root: Path) -> dict[str, tuple[str, str]]:
    """From docs/generated/primitives.md: the dtypes that agreed with JAX, of static and of symbolic sizes."""
    table = (root / "docs" / "generated" / "primitives.md").read_text().split("\n## ")[0]
    rows = re.findall(r"^\| ([\w-]+) \| ([^|]*) \| ([^|]*) \|$", table, re.MULTILINE)
    return {name: (static.strip(), symbolic.strip()) for name, static, symbolic in rows if name != "Primitive"}


def lowerings(root: Path) -> dict[str, str]:
    """By primitive, the function that lowers it, or the ONNX operator that it is."""
    text = (root / "src/lower/jax_to_onnx/lowerings.def").read_text()
    found = {name: f"lower_{name}" for name in re.findall(r"^SX_LOWERING\((\w+)\)", text, re.MULTILINE)}
    found |= dict(re.findall(r'^SX_LOWERING_AS\("([^"]+)", (\w+)\)', text, re.MULTILINE))
    text = (root / "src/lower/jax_to_onnx/arithmetic/elementwise.def").read_text()
    for name, operators in re.findall(r'^SX_ELEMENTWISE\w*\("([^"]+)", ([\w, ]+)\)', text, re.MULTILINE):
        found[name] = operators
    return found


# Types of a primitive's operands and result, for primitives whose cases show them in no small graph.
SIGNATURES = (
    (("f32[B,3]",), "f32[B,3]"),
    (("f32[B,3]", "f32[B,3]"), "f32[B,3]"),
    (("f32[B,3]", "f32[B,3]"), "bool[B,3]"),
    (("i32[B,3]",), "i32[B,3]"),
    (("i32[B,3]", "i32[B,3]"), "i32[B,3]"),
)


def example(primitive: str, printer: Printer) -> Case | None:
    """The primitive alone in a program, and what it is lowered to."""
    for operands, result in SIGNATURES:
        names = "xy"[: len(operands)]
        inputs = ", ".join(f"{n}: {t}" for n, t in zip(names, operands, strict=True))
        call = f"  z: {result} = {primitive}({', '.join(names)})\n"
        program = f"graph jax({inputs}) {{\n{call}  return z\n}}\n"
        if re.fullmatch(r"\w+", primitive) and (after := printer.lowered(program)):
            after = re.sub(r'  // .*| meta \{[^}]*\}|^producer .*\n+| "jax_model"', "", after, flags=re.MULTILINE)
            return Case("", "", program, after.strip(), "")
    return None


def primitive_pages(root: Path, drawings: Drawings) -> dict[str, str]:
    rows, made = primitive_rows(root), lowerings(root)
    sources = {f: f.read_text() for f in sorted((root / "src" / "lower" / "jax_to_onnx").rglob("*.cc"))}
    cases = [(f, c) for f in sorted((root / "src" / "lower" / "jax_to_onnx").rglob("*.sx")) for c in read_cases(f)]
    pages = {}
    names = sorted({n for n in {*rows, *made} if n.replace("_", "-") not in made or "_" not in n})
    for name in names:
        own = [c for f, c in cases if f.stem == name.replace("-", "_")]
        used = [c for _, c in cases if re.search(rf"= {re.escape(name)}[<(]", c.before)]
        lines = [*WIDE, f"# {name}", "", beside(names, name).format("[all primitives](../generated/primitives.md)"), ""]
        how = made.get(name, "")
        if how and not how.startswith("lower_"):
            first, *second = how.split(", ")
            lines += [f"It is ONNX's {first}" + (f", on bools {second[0]}" if second else "") + ".", ""]
        case = drawings.best(own) or drawings.best(used)
        if case is None and name in made and not used:
            case = example(name, drawings.printer)
            case = case and drawings.best([case])
        if case is not None:
            said = (
                f"A case of its lowering, “{plain(case.claim)}”." if case.claim else "The primitive alone in a program."
            )
            lines += [drawings.figure(case, ("JAX", "ONNX"), mark=False), "", said, ""]
            lines += [*code(case.before), "becomes", "", *code(case.after)]
        if name in rows:
            static, symbolic = rows[name]
            lines += ["## Tested against JAX", "", "| Sizes | Dtypes of the first operand |", "|---|---|"]
            lines += [f"| known | {static or 'none'} |", f"| symbolic | {symbolic or 'none'} |", ""]
        source = next((f for f, t in sources.items() if re.search(rf"^std::vector<Value\*> {re.escape(how)}\(|^Value\* {re.escape(how)}\(", t, re.MULTILINE)), None)  # fmt: skip
        if source is not None and comment_of(source):
            lines += ["## The lowering", "", *prose(comment_of(source))]
        lines += claims("## What its cases claim", [c for c in own if not c.about.startswith("error")])
        pages[f"primitives/{name}.md"] = "\n".join(lines)
    return pages


def with_primitive_links(page: str, known: set[str]) -> str:
    """docs/generated/primitives.md, where each primitive of the table leads to its page, and those without a test of their own follow."""
    table, rest = page.split("\n## ", 1)
    table = re.sub(
        r"^\| ([\w-]+) \|",
        lambda m: f"| [{m[1]}](primitives/{m[1]}.md) |" if m[1] in known else m[0],
        table,
        flags=re.MULTILINE,
    )
    others = sorted(n for n in known if f"(primitives/{n}.md)" not in table)
    more = ", ".join(f"[{n}](primitives/{n}.md)" for n in others)
    return f"{table}\nWith a lowering, and without a row of their own: {more}.\n\n## {rest}"


# ---- operators


def operator_page(root: Path, listed: dict, printer: Printer) -> str:
    """Which operators of ONNX and of Core ML are known, in which versions, which are evaluated, and which passes make them."""
    makers = defaultdict(list)
    for about in listed["passes"]:
        link = f"passes/{about['dialect']}/{about['name']}.md"
        new: set[str] = set()
        for case in read_cases(source_of(root, about).with_suffix(".sx")):
            if case.after and case.about in ("", "exactly"):
                before, after = (ops(printer(t)) for t in (case.before, case.after))
                new |= after - before
        for op in new:
            makers[about["dialect"], op].append(f"[{about['name']}]({link})")
    lines = [
        "# Operators", "",
        "The operators whose types Sardonyx infers and checks, from the tables that the compiler itself reads. Others are kept",
        "as they are ([what happens to them](guide/optimizing.md#which-passes)). *Evaluated*: the [reference evaluator](guide/trust.md#the-reference-evaluator) runs it, so",
        "`--verify` covers it. *Made by*: passes whose cases have it after and not before.", "",
    ]  # fmt: skip
    onnx = (root / "src/dialects/onnx/generated/ops_rows.gen.inc").read_text()
    versions: dict[tuple[str, str], list[str]] = defaultdict(list)
    for domain, name, since in re.findall(r'^SX_ROW\(kOnnx, "([^"]*)", "(\w+)", (\d+), true', onnx, re.MULTILINE):
        versions[domain, name].append(since)
    runs = set(re.findall(r"^SX_\w*KERNEL\w*\((\w+)", (root / "src/eval/onnx/kernels.def").read_text(), re.MULTILINE))
    schemas = re.search(r"schemas of (onnx [\d.]+\d)", onnx)[1]
    for domain in dict.fromkeys(d for d, _ in versions):
        title = domain or f"ONNX ({schemas})"
        lines += [f"## {title}", "", "| Operator | Since opset | Evaluated | Made by |", "|---|---|---|---|"]
        for (d, name), since in sorted(versions.items()):
            if d == domain:
                lines.append(
                    f"| {name} | {', '.join(since)} | {'yes' if name in runs else ''} | {', '.join(makers['onnx', name])} |"
                )
        lines.append("")
    mil = (root / "src/dialects/mil/generated/ops_rows.gen.inc").read_text()
    sets: dict[str, list[int]] = defaultdict(list)
    for name, since in re.findall(r'^SX_ROW\("(\w+)", (\d+),', mil, re.MULTILINE):
        sets[name].append(int(since))
    kernels = (root / "src/eval/mil/mil_kernels.def").read_text()
    runs = set(re.findall(r"^SX_MIL_\w+\((\w+)", kernels, re.MULTILINE))
    definitions = re.search(r"of (coremltools [\d.]+\d)", mil)[1]
    lines += [
        f"## Core ML ({definitions})",
        "",
        "Version 4 of the specification is iOS 13, and so on to 9, iOS 18.",
        "",
        "| Op | Versions | Evaluated | Made by |",
        "|---|---|---|---|",
    ]
    for name, since in sorted(sets.items()):
        lines.append(
            f"| {name} | {', '.join(map(str, since))} | {'yes' if name in runs else ''} | {', '.join(makers['mil', name])} |"
        )
    return "\n".join([*lines, ""])


def ops(text: str) -> set[str]:
    graph, functions = read_model(text)
    return {op.split("::")[-1] for g in (graph, *functions.values()) for op in names(g)}


def names(graph) -> set[str]:
    return {n.op for n in graph.nodes} | {op for n in graph.nodes for _, b in n.bodies for op in names(b)}


# ---- options of the command


def option_page(sardonyx: Path, environment: dict[str, str], listed: dict) -> str:
    """Every command with its options, from its --help, and the options of passes."""
    lines = [
        "# Options of the command", "",
        "What `sardonyx COMMAND --help` prints. [Command line](reference/command_line.md) is the guide.", "",
    ]  # fmt: skip
    todo: list[tuple[str, ...]] = [()]
    while todo:
        command = todo.pop(0)
        done = subprocess.run(
            [sardonyx, *command, "--help"],
            capture_output=True,
            text=True,
            check=False,
            env=environment | {"COLUMNS": "100", "NO_COLOR": "1"},
        )
        if done.returncode or not done.stdout.strip():
            raise RuntimeError(f"sardonyx {' '.join(command)} --help: exit code {done.returncode}\n{done.stderr}")
        text = done.stdout.replace(str(sardonyx), "sardonyx")
        subcommands = re.search(r"^(?:Subcommands|Commands):\n((?:  .*\n?)*)", text, re.MULTILINE)
        below = (
            [(*command, name) for name in re.findall(r"^  (\w[\w-]*) ", subcommands[1], re.MULTILINE)]
            if subcommands
            else []
        )
        todo = ([] if command == ("help",) else below) + todo  # `help` lists the commands once more
        lines += [f"## {' '.join(('sardonyx', *command))}", "", *help_lines(text), ""]
    lines += ["## Options of passes", "", "Set by `--option pass.option=value`, or by `options=` in Python.", ""]
    lines += ["| Option | Meaning |", "|---|---|"]
    for about in listed["passes"]:
        link = f"passes/{about['dialect']}/{about['name']}.md"
        lines += [f"| [{about['name']}]({link}).{k} | {plain(v)} |" for k, v in about["options"].items()]
    lines.append("")
    return "\n".join(lines)


def help_lines(text: str) -> list[str]:
    """A help text as Markdown: prose, the usage as code, and a definition for each option."""
    usage = re.search(r"^usage: .*(?:\n +\S.*)*", text, re.MULTILINE | re.IGNORECASE)
    head = text[: usage.start()].strip() if usage else ""
    lines = [plain(" ".join(head.split())) + ("." if head and not head.endswith(".") else ""), ""] if head else []
    if usage:
        lines += code(re.sub(r"^usage: ", "", usage[0], flags=re.IGNORECASE), "text")
        text = text[usage.end() :]
    title = ""
    for section in re.split(r"^(?=\S.*:\n)", text, flags=re.MULTILINE):
        match = re.match(r"(\S.*):\n((?:[ \t].*\n?|\n)*)", section)
        if match is None:
            if section.strip():
                lines += code(section, "text")
            continue
        title, entries = match.groups()
        if title.lower() not in ("arguments", "commands", "options", "positional arguments"):
            lines += [f"{plain(title)}:", ""]
        lines += ['<dl class="sx-options">']
        for entry in re.split(r"\n(?=  ? ?\S)", "\n" + entries.strip("\n")):
            words = re.match(r"\s*(\S+(?: \S+)*)(?:\s{2,}|\s*\n\s*|$)((?:.|\n)*)", entry)
            if words is not None and words[1]:
                meaning = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(" ".join(words[2].split())))
                lines.append(f"<dt><code>{escape(words[1])}</code></dt><dd>{meaning or '&nbsp;'}</dd>")
        lines += ["</dl>", ""]
        for paragraph in re.split(r"\n\s*\n|(?<=\.)\n", section[match.end() :].strip()):
            lines += [plain(" ".join(paragraph.split())), ""] if paragraph.strip() else []
    return lines


def listed_passes(sardonyx: Path) -> dict:
    return json.loads(
        subprocess.run([sardonyx, "passes", "--json"], check=True, capture_output=True, text=True).stdout
    )[0]
