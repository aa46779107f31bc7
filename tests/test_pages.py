"""README's example runs, and links between pages have targets."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])


def test_the_example_in_readme_agrees_with_jax():
    (source,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert "assert sardonyx.compare(" in source
    exec(compile(source, "README.md", "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    missing = []
    for link in re.findall(r"\]\(([^)]+)", text):
        if "://" in link:
            continue
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (heading and heading not in anchors(target)):
            missing.append(link)
    assert not missing


def anchors(page):
    """Anchor names of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/inside/architecture.md", "docs/inside/passes.md"])
def test_files_that_pages_name_are_there(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text().rpartition("\n## In full\n")[2], flags=re.DOTALL)
    files = re.findall(r"`([\w./]+/[\w.]+\.(?:cc|h|def|py|sx|txt))`", text)
    assert files
    folders = [ROOT, ROOT / "src", *(ROOT / "src").rglob("*")]
    missing = [f for f in files if not any((folder / f).exists() for folder in folders)]
    assert not missing


def test_the_page_on_cpp_shows_the_program_that_is_built():
    page = (ROOT / "docs/start/cpp.md").read_text()
    assert f"```cpp\n{(ROOT / 'tests/consumer/main.cc').read_text()}```" in page
    run = (ROOT / "tests/consumer/run.cmake").read_text()
    program = re.search(r"\[==\[\n(.*?)\]==\]", run, re.DOTALL)[1]
    printed = re.search(r'set\(expected "[^\n]*\n(.*?)error', run, re.DOTALL)[1]
    assert f"```text\n{program}```" in page and f"```text\n{printed}```" in page


def test_every_page_is_listed():
    """Once, as the navigation of the site follows this list."""
    index = (ROOT / "docs" / "README.md").read_text()
    listed = re.findall(r"^- \[[^\]]+\]\(([^)#]+)\)", index, re.MULTILINE)
    pages = [str(p.relative_to(ROOT / "docs")) for p in ROOT.glob("docs/*/*.md")]
    assert sorted(p for p in listed if not p.startswith("../")) == sorted(pages)


def test_pages_that_files_name_are_there():
    """Comments, help texts and errors name pages by their path from the root: docs/reference/text_form.md."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    missing = []
    for name in listed.split("\0"):
        file = ROOT / name
        if (
            not name
            or not file.is_file()
            or file.suffix in (".png", ".svg", ".onnx")
            or file == Path(__file__).resolve()
        ):
            continue
        for page in re.findall(r"(?<![\w/.])docs/[\w/]+\.md\b", file.read_text(errors="ignore")):
            if not (ROOT / page).exists() and page not in ("docs/ContribOperators.md", "docs/none.md"):
                missing.append(f"{name}: {page}")
    assert not missing


@pytest.mark.parametrize("form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.name)
def test_issue_forms_are_valid(form):
    yaml = pytest.importorskip("yaml")
    told = yaml.safe_load(form.read_text())
    if form.name == "config.yml":
        return
    assert {"name", "description", "body"} <= told.keys()
    ids = [part["id"] for part in told["body"] if part["type"] != "markdown"]
    assert len(set(ids)) == len(ids) and all("label" in p["attributes"] for p in told["body"] if "id" in p)


def test_the_citation_has_the_version_of_the_build():
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    built = re.search(r"project\(sardonyx VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert cited[1] == built[1]
