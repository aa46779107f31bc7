"""Find files of more than 900 lines and functions of more than 120.

    scripts/checks/sizes.py    lists them all; fails if there is one

Counts hand-written sources, without the docstring of a Python function. `make lint` runs this.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES = 900
FUNCTION_LINES = 120

# Comments, string and character literals of C++. Braces in them do not count.
_CXX_QUIET = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL
)
_NO_FUNCTION = re.compile(r"^(template\s*<[^{}]*>\s*)?(namespace|class|struct|enum|union|extern)\b|=\s*$")


def cxx_functions(text: str) -> Iterator[tuple[int, int]]:
    """(first line, lines) of each function that is not inside another."""
    text = _CXX_QUIET.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.MULTILINE)
    depth, function, start = 0, None, 0  # `function`: (first line, depth) of the open one
    for m in re.finditer(r"[{};]", text):
        line = text.count("\n", 0, m.start()) + 1
        if m[0] == "{":
            head = text[start : m.start()].strip()
            head = re.sub(r"^(public|private|protected):\s*", "", head)
            if function is None and "(" in head and not _NO_FUNCTION.search(head):
                first = line - head.count("\n")
                function = first, depth
            depth += 1
        elif m[0] == "}":
            depth -= 1
            if function is not None and depth == function[1]:
                yield function[0], line - function[0] + 1
                function = None
        if function is None:
            start = m.end()


def python_functions(text: str) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = node.end_lineno - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node) is not None:
                lines -= first.end_lineno - first.lineno + 1
            yield node.lineno, lines


def sources() -> Iterator[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.cc", "*.h", "*.py"],
        cwd=ROOT, text=True, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    yield from sorted(f for f in listed.stdout.split("\0") if f and (ROOT / f).exists())


def too_long() -> Iterator[str]:
    """Yields a message for each."""
    for file in sources():
        text = (ROOT / file).read_text(encoding="utf-8")
        if "Written by scripts/tables/" in text.partition("\n")[0]:
            continue
        lines = text.count("\n")
        if lines > FILE_LINES:
            yield f"{file}: {lines} lines, more than {FILE_LINES}"
        functions = python_functions(text) if file.endswith(".py") else cxx_functions(text)
        for line, length in functions:
            if length > FUNCTION_LINES:
                yield f"{file}:{line}: a function of {length} lines, more than {FUNCTION_LINES}"


def main() -> int:
    found = list(too_long())
    print("\n".join(found) or "sizes: all files and functions are short enough")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
