"""Pages on the interfaces: C++ from the comments in include/sardonyx, Python for mkdocstrings."""

import ast
import re
from pathlib import Path

from docs_site.catalogues import code, comment_of, prose

# In the order of the page that lists them.
HEADERS = (
    "error version io convert coreml inspect ir node type dim dtype tensor attr op name builder onnx_builder onnx_attrs mil_builder "
    "mil_operand lower lowering passes observe eval tolerance infer plugin"
).split()


def headers(root: Path) -> list[str]:
    there = {p.stem for p in (root / "include" / "sardonyx").glob("*.h")}
    return [h for h in HEADERS if h in there] + sorted(there - set(HEADERS))


def header_pages(root: Path) -> dict[str, str]:
    folder = root / "include" / "sardonyx"
    pages = {}
    lines = [
        "# C++ headers", "",
        "What a program that links `sardonyx::sardonyx` includes ([guide](../start/cpp.md)). The pages show the public declarations",
        "with their comments.", "", "| Header | Contents |", "|---|---|",
    ]  # fmt: skip
    for name in headers(root):
        text = (folder / f"{name}.h").read_text()
        about = " ".join(prose(re.sub(r"^Written by.*\n", "", comment_of(folder / f"{name}.h"))))
        lines.append(
            f"| [{name}.h]({name}.md) | {re.split(r'(?<=[.:]) ', about)[0].rstrip(':.') or 'The version of the library'} |"
        )
        pages[f"cpp/{name}.md"] = header_page(name, text, comment_of(folder / f"{name}.h"))
    pages["cpp/index.md"] = "\n".join([*lines, ""])
    return pages


def header_page(name: str, text: str, comment: str) -> str:
    lines = [
        "---",
        "search: {boost: 0.2}",
        "---",
        "",
        f"# {name}.h",
        "",
        *code(f"#include <sardonyx/{name}.h>", "cpp"),
        *prose(comment),
    ]
    body = text.splitlines()[len(comment.splitlines()) if comment else 0 :]
    for said, declaration in declarations(body):
        title = title_of(declaration)
        if declaration == [""]:
            lines += [f"## {said}", ""]
            continue
        if title:
            lines += [f"### {title}", ""]
        lines += prose(said) if said else []
        lines += code("\n".join(without_private(declaration)), "cpp")
    return "\n".join(lines)


def declarations(body: list[str]) -> list[tuple[str, list[str]]]:
    """(comment before it, its lines) of each declaration outside of others; (title, [""]) of a heading in comments."""
    found: list[tuple[str, list[str]]] = []
    comment: list[str] = []
    block: list[str] = []
    depth = 0

    def end() -> None:
        nonlocal comment, block
        if block:
            found.append(("\n".join(comment), block))
        comment, block = [], []

    for line in body:
        inner = re.sub(r'//.*|"(\\.|[^"\\])*"', "", line)
        if (
            depth == 0
            and block
            and re.match(r"//|(class|struct|enum|template)\b", line)
            and block[-1].rstrip().endswith(("}", ";", "};"))
        ):
            end()
        if depth == 0 and not block:
            if re.match(
                r"#(pragma|include|ifn?def|endif|undef|else|if)|(inline )?namespace [\w:]+ \{|\} +// namespace|\}$|extern \"C\"",
                line,
            ) or line.startswith("// ----"):
                if not line.startswith("// ----"):
                    end()
                continue
            if line.startswith("//"):
                comment.append(re.sub(r"^///? ?", "", line))
                continue
        if not line.strip() and depth == 0:
            if not block and len(comment) == 1 and not comment[0].endswith("."):
                found.append((comment[0], [""]))
                comment = []
            elif comment and not block:
                comment.append("")
            end() if block else None
            continue
        if re.match(r"\} +// namespace", line) and depth == 0:
            end()
            continue
        block.append(line)
        depth += inner.count("{") + inner.count("(") - inner.count("}") - inner.count(")")
    end()
    return found


def title_of(lines: list[str]) -> str:
    """The name of the type, or of the functions, that is declared."""
    text = re.sub(r"//.*", "", "\n".join(lines))
    text = re.sub(r"^template <.*?>\n", "", text)
    if match := re.match(r"(?:typedef )?(?:class|struct|enum class|enum|union)\s+(\w+)(?=[^;]*\{)", text):
        return match[1]
    if match := re.match(r"(?:using (\w+) =|#define (\w+))", text):
        return match[1] or match[2]
    names = re.findall(r"^[\w:\[<][^\n=;{]*?\b(operator\S+?|\w+)\((?!\))?", text, re.MULTILINE)
    names = [n for n in dict.fromkeys(names) if n not in ("if", "return", "static_assert", "noexcept")]
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def without_private(lines: list[str]) -> list[str]:
    kept, private = [], False
    for line in lines:
        if re.match(r" (private|protected):", line):
            private = True
        elif re.match(r" public:", line) or line.startswith("}"):
            private = False
        if not private:
            kept.append(line)
    while len(kept) > 1 and not kept[-2].strip():
        kept.pop(-2)
    return kept


# ---- Python

MODULES = ("compat", "coreml", "ir", "plugins", "report", "testing")


def python_pages(root: Path) -> dict[str, str]:
    """Directives for mkdocstrings. sardonyx's functions are found where its __init__ imports them from."""
    package = root / "python" / "sardonyx"
    tree = ast.parse((package / "__init__.py").read_text())
    values = {t.id: ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name) and t.id in ("__all__", "_LAZY")}  # fmt: skip
    lines = [
        "# The Python package", "",
        "`import sardonyx` costs milliseconds: everything is imported when it is first used. Modules with pages of their own:",
        ", ".join(f"[sardonyx.{m}]({m}.md)" for m in MODULES) + ".", "",
    ]  # fmt: skip
    for name in values["__all__"]:
        module, attribute = values["_LAZY"].get(name, ("sardonyx._error", "Error"))
        if attribute is None:
            continue
        lines += [
            f"::: {module}.{attribute}",
            "    options:",
            f"      heading: sardonyx.{name}",
            f"      toc_label: {name}",
            "",
        ]
    pages = {"python/index.md": "\n".join(lines)}
    for module in MODULES:
        path = package / f"{module}.py"
        path = path if path.exists() else package / module / "__init__.py"
        names = public_names(path)
        aliases = [n for n in names if n.endswith("Protocol")]
        names = [n for n in names if n not in aliases]
        lines = [
            f"# sardonyx.{module}",
            "",
            f"::: sardonyx.{module}",
            "    options:",
            "      show_root_heading: false",
            "      show_root_toc_entry: false",
        ]
        inner = [n for n in names if path.with_name(f"{n}.py").exists()] if module == "compat" else []
        members = "[" + ", ".join(names) + "]" if names else "true"
        lines += [f"      members: {'false' if inner else members}", ""]
        for name in inner:
            functions = ", ".join(public_names(path.with_name(f"{name}.py")))
            lines += [
                f"## sardonyx.compat.{name}",
                "",
                f"::: sardonyx.compat.{name}",
                "    options:",
                "      show_root_heading: false",
                "      show_root_toc_entry: false",
                f"      members: [{functions}]",
                "",
            ]
        if aliases:
            lines += [
                "## Aliases",
                "",
                "Names of onnx_ir's protocols: " + ", ".join(f"`{n}`" for n in aliases) + ".",
                "",
            ]
        pages[f"python/{module}.md"] = "\n".join(lines)
    return pages


def public_names(path: Path) -> list[str]:
    """__all__ of a module, or nothing where it has none."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return []
