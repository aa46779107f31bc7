"""Write what is made from src/convert/coreml_options.def: python/sardonyx/_coreml/options.py, and the table in docs/guide/coreml_convert.md.

scripts/tables/coreml_options.py   (a test compares the files with this output)
"""

import ast
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "src" / "convert" / "coreml_options.def"
MODULE = ROOT / "python" / "sardonyx" / "_coreml" / "options.py"
PAGE = ROOT / "docs" / "guide" / "coreml_convert.md"
BEGIN, END = "<!-- options: scripts/tables/coreml_options.py -->\n", "<!-- end of options -->\n"

HEAD = '''"""The keywords of conversions to Core ML. Made by scripts/tables/coreml_options.py from src/convert/coreml_options.def."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from sardonyx._values import Image, Metadata
'''


def rows() -> list[tuple[str | None, str, str, str, str, str]]:
    """Field (none of a part of another one), keyword, type, default, option and text of each row."""
    found = []
    for kind, words, texts in re.findall(
        r'^SX_(OPTION|KEYWORD)\(([\w, ]+?),\s*(".*?")\)$', TABLE.read_text(), re.M | re.S
    ):
        *field, keyword = words.split(", ")
        # Strings beside each other are one, in Python as in C++.
        found.append((field[0] if kind == "OPTION" else None, keyword, *ast.literal_eval(f"({texts},)")))
    return found


def module() -> str:
    out = [HEAD, "", "class CoremlOptions(TypedDict, total=False):"]
    table = rows()
    for _, keyword, kind, _, _, text in table:
        doc = textwrap.fill(f'"""{text}"""', 108, initial_indent="    ", subsequent_indent="    ")
        out += [f"    {keyword}: {kind}", doc]
    out += ["", "", "DEFAULTS: dict[str, Any] = {"]
    out += [f'    "{keyword}": {default},' for _, keyword, _, default, _, _ in table]
    out += ["}", "# The keyword of each field of the native options.", "FIELDS = {"]
    out += [f'    "{field}": "{keyword}",' for field, keyword, *_ in table if field]
    out += ["}", 'DOC = """\\']
    for _, keyword, _, _, _, text in table:
        out.append(textwrap.fill(f"{keyword}: {text}", 108, initial_indent=" " * 8, subsequent_indent=" " * 12))
    out += ['"""', ""]
    return "\n".join(out)


def page() -> str:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    table = ["| Keyword | Option | |", "|---|---|---|"]
    table += [f"| `{keyword}` | `{option}` | {text} |" for _, keyword, _, _, option, text in rows()]
    return f"{before}{BEGIN}\n" + "\n".join(table) + f"\n\n{END}{after}"


if __name__ == "__main__":
    MODULE.write_text(module())
    PAGE.write_text(page())
