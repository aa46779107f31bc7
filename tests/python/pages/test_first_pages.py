"""Follows the pages on the first pass and the first lowering, file by file and command by command."""

import contextlib
import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import tree_overlay
from sardonyx import plugins

ROOT = Path(__file__).resolve().parents[3]


def matches(told: str, expected: str) -> bool:
    """Whether the lines match the page's, where "..." matches anything."""
    pattern = re.escape(expected.strip()).replace(re.escape("..."), "(?s:.*)")
    return re.fullmatch(pattern, told.strip()) is not None


class Reader:
    """Follows a page in a folder that looks like the repository."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.tree = tree_overlay.Overlay(folder)
        (folder / "include").symlink_to(ROOT / "include")
        self.scope: dict = {}
        self.last = ""  # the last file written

    def follow(self, text: str) -> None:
        blocks = [*re.finditer(r"^```(\w+)\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL)]
        done = 0
        for block in blocks:
            prose = text[done : block.start()].strip()
            done = block.end()
            kind, content = block.groups()
            if kind == "text":
                assert matches(self.told, content), self.told
            elif kind == "sh":
                self.told = "".join(self.shell(line) for line in content.splitlines())
            elif kind == "python":
                self.told = self.python(content)
            else:
                self.file(prose.splitlines()[-1] if prose else "", prose, content)

    def file(self, line: str, prose: str, content: str) -> None:
        if at_end := re.search(r"At the end of `([^`]+)`:$", line):
            self.tree.append(at_end[1], content)
        elif replaced := re.search(r"Replace\s+`([^`]+)` by$", prose):
            path = self.folder / self.last
            assert path.read_text().count(replaced[1]) == 1
            path.write_text(path.read_text().replace(replaced[1], content.strip()))
        else:
            self.last = re.search(r"`([^`]+)`:$", line)[1]
            self.tree.write(self.last, content)

    def shell(self, line: str) -> str:
        if build := re.fullmatch(r"ninja -C build/release (.*)", line):
            for target in build[1].split():
                self.tree.build(target)
            return ""
        ran = subprocess.run(line, shell=True, check=False, capture_output=True, text=True, cwd=self.folder)
        assert ran.returncode == 0 or "sx_test" in line, ran.stderr
        return ran.stdout + ran.stderr

    def python(self, source: str) -> str:
        script = self.folder / "scores.py"
        out = io.StringIO()
        line = script.read_text().count("\n") if script.exists() else 0
        with script.open("a") as file:
            file.write(source)
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * line + source, "scores.py", "exec"), self.scope)
        return out.getvalue()


@pytest.mark.parametrize("page", ["inside/passes.md", "inside/lowerings.md"])
def test_the_page_works(page, tmp_path, monkeypatch):
    if not tree_overlay.is_built() or shutil.which("ninja") is None:
        pytest.skip("needs the release build")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugins, "_lowerings", {})
    monkeypatch.setattr(plugins, "_plugins", {})
    text = (ROOT / "docs" / page).read_text().partition("\n## In full\n")[0]
    reader = Reader(tmp_path)
    if page == "inside/lowerings.md":  # the command of the build, until the page builds its own
        (tmp_path / "build" / "release" / "sardonyx").symlink_to(ROOT / "build" / "release" / "sardonyx")
    reader.follow(text)
