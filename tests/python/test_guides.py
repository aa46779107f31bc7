"""The start pages and guides: their code and commands run in order, and print what the pages say."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import command
import pytest
from sardonyx import plugins
from test_first_pages import matches

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# Pages, and what of them is followed elsewhere: by tests/libraries/keras_models.py, by test_first_pages.py.
PAGES = {
    "guide/coming_from.md": "",
    "guide/files.md": "",
    "guide/inspect.md": "",
    "guide/jax.md": r"^## Keras\n.*?(?=^## )",
    "guide/optimizing.md": "",
    "guide/trust.md": "",
    "inside/lowerings.md": r"\A.*?(?=^## In full\n)",
    "reference/command_line.md": "",
    "start/coreml.md": "",
    "start/jax.md": "",
    "start/onnx.md": "",
}


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
    assert follow(DOCS / page, tmp_path, PAGES[page]) >= 1
    sys.modules.pop("net", None)


def test_a_page_that_says_something_else_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(6 * 7)\n```\n```text\n41\n```\n")
    with pytest.raises(AssertionError, match=r"page.md:4: it printed\n\s*42"):
        follow(page, tmp_path)
    page.write_text("```sh\nsardonyx optimize\n```\n")
    with pytest.raises(AssertionError, match="page.md:1"):
        follow(page, tmp_path)
