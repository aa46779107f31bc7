"""README's example runs, and links between pages have targets."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")])


def test_the_example_in_readme_agrees_with_jax(capsys):
    (source,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(source, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == "True"


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


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/passes.md"])
def test_files_that_pages_name_are_there(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    files = re.findall(r"`([\w./]+/[\w.]+\.(?:cc|h|def|py|sx|txt))`", text)
    assert files
    folders = [ROOT, ROOT / "src", *(ROOT / "src").iterdir()]
    missing = [f for f in files if not any((folder / f).exists() for folder in folders)]
    assert not missing


def test_the_page_on_cpp_shows_the_program_that_is_built():
    assert f"```cpp\n{(ROOT / 'tests/consumer/main.cc').read_text()}```" in (ROOT / "docs/cpp.md").read_text()


def test_every_page_is_listed():
    index = (ROOT / "docs" / "README.md").read_text()
    unlisted = [p.name for p in ROOT.glob("docs/*.md") if p.name != "README.md" and f"({p.name})" not in index]
    assert not unlisted
    navigation = (ROOT / "scripts" / "docs_site" / "mkdocs.yml").read_text()
    absent = [p.name for p in ROOT.glob("docs/*.md") if p.name != "README.md" and f": {p.name}\n" not in navigation]
    assert not absent, "add them to `nav` in scripts/docs_site/mkdocs.yml"


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
