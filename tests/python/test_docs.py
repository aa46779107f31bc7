"""The pages on exporting and plugins: their code runs in order, and prints what the page says."""

import contextlib
import io
import re
from pathlib import Path

import pytest
from sardonyx import plugins

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["exporting.md", "plugins.md"])
def test_the_page_says_what_happens(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugins, "_lowerings", {})
    monkeypatch.setattr(plugins, "_plugins", {})
    text = (DOCS / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5 and sum(bool(expected) for _, expected in blocks) >= 5
    scope: dict = {}
    for source, expected in blocks:
        out = io.StringIO()
        line = text[: text.index(source)].count("\n")
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * line + source, str(DOCS / page), "exec"), scope)
        assert out.getvalue().strip() == expected.strip()
