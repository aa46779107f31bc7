"""The start pages and guides: their code and commands run in order, and print what the pages say."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import command
import pytest
from sardonyx import plugins
from test_first_pages import matches

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
# Pages, and what of them is followed elsewhere: by tests/libraries/keras_models.py, by test_first_pages.py.
PAGES = {
    "guide/coming_from.md": "",
    "guide/files.md": "",
    "guide/inspect.md": "",
    "guide/jax.md": r"^## Keras\n.*?(?=^## )",
    "guide/optimizing.md": "",
    "guide/smaller.md": "",
    "guide/trust.md": "",
    "inside/lowerings.md": r"\A.*?(?=^## In full\n)",
    "reference/command_line.md": "",
    "start/coreml.md": "",
    "start/jax.md": "",
    "start/onnx.md": "",
}

LONG = {"guide/coming_from.md", "guide/jax.md", "guide/optimizing.md", "inside/lowerings.md"}
PAGES_WITH_COMMANDS = [
    page
    for page in (ROOT / "README.md", *sorted(DOCS.glob("*/*.md")))
    if page.parent.name != "generated" and re.search(r"^sardonyx ", page.read_text(), re.MULTILINE)
]


def follow(page: Path, folder: Path, elsewhere: str = "") -> int:
    """Does what the page says, in a folder; the number of outputs that were compared."""
    text = page.read_text()
    if elsewhere:
        text = re.sub(elsewhere, lambda m: "\n" * m[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    environment = os.environ | {
        "PATH": f"{command.BUILD}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(command.BUILD / "python"), os.environ.get("PYTHONPATH", "")]),
    }
    scope: dict = {}
    told, compared = "", 0
    for block in re.finditer(r"^```(\w+)\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL):
        kind, content = block.groups()
        line = text[: block.start(2)].count("\n")
        if kind == "py":  # a file that the reader saves
            name = re.findall(r"`([\w/]+\.py)`", text[: block.start()])[-1]
            (folder / name).write_text(content)
        elif kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * line + content, str(page), "exec"), scope)
            told = out.getvalue()
            assert not told or text.startswith("```text\n", block.end()), f"{page.name}:{line}: it printed\n{told}"
        elif kind == "sh":
            done = subprocess.run(
                ["bash", "-ec", content], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{page.name}:{line}: {content}{done.stdout}{done.stderr}"
            told = done.stdout
        elif kind == "text":
            assert matches(told, content), f"{page.name}:{line}: it printed\n{told}"
            compared += 1
    return compared


@pytest.mark.parametrize("page", PAGES)
def test_the_guide_says_what_happens(page, tmp_path, monkeypatch):
    if "import coremltools" in (DOCS / page).read_text():
        pytest.importorskip("coremltools")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_lowerings", {})
    monkeypatch.setattr(plugins, "_plugins", {})
    monkeypatch.delitem(sys.modules, "net", raising=False)
    assert follow(DOCS / page, tmp_path, PAGES[page]) >= (4 if page in LONG else 1)
    sys.modules.pop("net", None)


def test_a_page_that_says_something_else_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(6 * 7)\n```\n```text\n41\n```\n")
    with pytest.raises(AssertionError, match=r"page.md:4: it printed\n\s*42"):
        follow(page, tmp_path)
    page.write_text("```sh\nsardonyx optimize\n```\n")
    with pytest.raises(AssertionError, match="page.md:1"):
        follow(page, tmp_path)


def commands(text: str) -> list[list[str]]:
    """The lines of a page's blocks that run the command, in words."""
    blocks = re.findall(r"^```(?:sh|console)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("sardonyx ")]
    return [shlex.split(re.split(r" [|>]| \|\|", line)[0], comments=True) for line in lines]


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_the_options_that_pages_show(page):
    """Of all blocks, those that no test runs included."""
    for _, name, *words in commands(page.read_text()):
        shown = command.sardonyx(name, "--help").stdout
        for option in (word.partition("=")[0] for word in words if word.startswith("-") and word != "-"):
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", shown), f"sardonyx {name} has no {option}"
