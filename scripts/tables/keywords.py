"""Write what is made from the tables of options, src/convert/{coreml,optimize}_options.def: the keywords of Python
functions (python/sardonyx/_coreml/options.py, _models/options.py), and the tables in the guides.

scripts/tables/keywords.py   (a test compares the files with this output)
"""

import ast
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- options: scripts/tables/keywords.py -->\n", "<!-- end of options -->\n"


class Row(NamedTuple):
    field: str | None  # of the native options; none for a part of another one
    keyword: str
    type: str
    default: str
    option: str  # of the command
    text: str


@dataclass
class Table:
    source: str
    of: str  # what the options are of, for people
    name: str  # of the type
    imports: str
    module_path: str
    page_path: str

    @property
    def module_file(self) -> Path:
        return ROOT / self.module_path

    @property
    def page_file(self) -> Path:
        return ROOT / self.page_path

    def rows(self) -> list[Row]:
        found = []
        for kind, words, texts in re.findall(
            r'^SX_(OPTION|KEYWORD)\(([\w., ]+?),\s*(".*?")\)$', (ROOT / self.source).read_text(), re.M | re.S
        ):
            *field, keyword = words.split(", ")
            # Strings beside each other are one, in Python as in C++.
            found.append(Row(field[0] if kind == "OPTION" else None, keyword, *ast.literal_eval(f"({texts},)")))
        return found

    def module(self) -> str:
        table = self.rows()
        out = [
            f'"""The keywords of {self.of}. Made by scripts/tables/keywords.py from {self.source}."""',
            f"\nfrom __future__ import annotations\n\n{self.imports}\n",
            f"\nclass {self.name}(TypedDict, total=False):",
        ]
        for row in table:
            doc = textwrap.fill(f'"""{row.text}"""', 108, initial_indent="    ", subsequent_indent="    ")
            out += [f"    {row.keyword}: {row.type}", doc]
        out += ["", "", "DEFAULTS: dict[str, Any] = {"]
        out += [f'    "{row.keyword}": {row.default},' for row in table]
        out += ["}", "# The keyword of each field of the native options.", "FIELDS = {"]
        out += [f'    "{row.field}": "{row.keyword}",' for row in table if row.field]
        out += ["}", 'DOC = """\\']
        for row in table:
            text = f"{row.keyword}: {row.text}"
            out.append(textwrap.fill(text, 108, initial_indent=" " * 8, subsequent_indent=" " * 12))
        return "\n".join([*out, '"""', ""])

    def page(self) -> str:
        before, _, rest = self.page_file.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        table = ["| Keyword | Option | |", "|---|---|---|"]
        table += [
            f"| `{row.keyword}` | {f'`{row.option}`' if row.option else ''} | {row.text.replace('|', chr(92) + '|')} |"
            for row in self.rows()
        ]
        return f"{before}{BEGIN}\n" + "\n".join(table) + f"\n\n{END}{after}"


TABLES = [
    Table(
        "src/convert/coreml_options.def",
        "conversions to Core ML",
        "CoremlOptions",
        "import os\nfrom collections.abc import Mapping, Sequence\nfrom typing import Any, TypedDict\n\n"
        "from sardonyx._values import Image, Metadata",
        "python/sardonyx/_coreml/options.py",
        "docs/guide/coreml_convert.md",
    ),
    Table(
        "src/convert/optimize_options.def",
        "optimizations",
        "OptimizeOptions",
        "from collections.abc import Callable, Mapping, Sequence\nfrom typing import Any, Literal, TypedDict",
        "python/sardonyx/_models/options.py",
        "docs/guide/optimizing.md",
    ),
]


if __name__ == "__main__":
    for table in TABLES:
        table.module_file.write_text(table.module())
        table.page_file.write_text(table.page())
