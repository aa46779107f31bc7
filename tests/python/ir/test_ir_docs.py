"""The builder's guide: its code runs in order and prints what the page shows."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "ir_builder.md"


def test_the_guide_says_what_happens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 10 and sum(bool(expected) for _, expected in blocks) > 6
    scope: dict = {}
    for source, expected in blocks:
        out = io.StringIO()
        line = text[: text.index(source)].count("\n")
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * line + source, str(PAGE), "exec"), scope)
        assert out.getvalue().strip() == expected.strip()
