"""Build the documentation site: the pages that docs/README.md lists, pages of the repository, generated catalogues and interfaces, into build/site.

    build/docs-venv/bin/python scripts/pages/build_site.py [--sardonyx build/release/sardonyx]      (`make docs` sets up what it needs)

The pages stay plain Markdown that any viewer of the repository shows; links are rewritten here. Needs Graphviz and the built command,
and no network. A broken link, a page outside of the navigation, or anything that a browser would load from elsewhere is an error.

Links to sources lead to the repository where SARDONYX_REPOSITORY names it (https://host/owner/name; in GitHub's workflows it is known),
and are plain text elsewhere.
"""

import argparse
import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from docs_site import catalogues, check, interfaces
from docs_site.graphs import Printer

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "scripts" / "pages" / "docs_site"
PAGES = ROOT / "build" / "site-pages"

# Pages of the repository that the site has, too.
OTHERS = {
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code_of_conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "overview.md",
    "SECURITY.md": "security.md",
    "bench/README.md": "measuring.md",
}
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")
QUIET = re.compile(r"^```.*?^```$|`[^`\n]+`(?!\])|<!--.*?-->", re.MULTILINE | re.DOTALL)


def repository() -> str:
    """Where sources can be read, with the commit, or ""."""
    where = os.environ.get("SARDONYX_REPOSITORY", "")
    if not where and "GITHUB_REPOSITORY" in os.environ:
        where = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{os.environ['GITHUB_REPOSITORY']}"
    return f"{where}/blob/{os.environ.get('GITHUB_SHA', 'main')}" if where else ""


class Links:
    """Rewrites the links of a page that lies elsewhere on the site than in the repository."""

    def __init__(self, staged: dict[str, str], sources: dict[str, str]):
        self.staged = staged  # path in the repository -> page
        self.sources = sources  # path in the repository -> page about it
        self.repository = repository()

    def title(self, page: str) -> str:
        return re.search(r"^# (.*)$", (ROOT / page).read_text(), re.MULTILINE)[1]

    def rewrite(self, text: str, origin: str, page: str) -> str:
        """`origin`: the page's path in the repository."""
        quiet: list[str] = []

        def hide(match: re.Match) -> str:
            quiet.append(match[0])
            return f"\0{len(quiet) - 1}\0"

        def one(match: re.Match) -> str:
            shown, link = match.groups()
            path, hash_, anchor = link.partition("#")
            if "://" in link or link.startswith("mailto:") or not path:
                return match[0]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
            to = self.staged.get(target) or self.sources.get(target)
            if to is not None:
                if re.fullmatch(r"\[(\.\./)*[\w/]+\.md\]", shown):  # a file's name says little where pages have titles
                    shown = f"[{self.title(target)}]"
                return f"{shown}({posixpath.relpath(to, posixpath.dirname(page) or '.')}{hash_}{anchor})"
            if not (ROOT / target).exists():
                raise ValueError(f"{origin}: there is no {target}")
            if self.repository:
                return f"{shown}({self.repository}/{target})"
            return shown.strip("[]!")

        text = LINK.sub(one, QUIET.sub(hide, text))
        return re.sub("\0(\\d+)\0", lambda m: quiet[int(m[1])], text)


def staged_pages() -> dict[str, str]:
    """Path in the repository -> page or picture of the site."""
    found = [p for p in sorted((ROOT / "docs").rglob("*")) if p.suffix in (".md", ".svg", ".png")]
    staged = {str(p.relative_to(ROOT)): str(p.relative_to(ROOT / "docs")) for p in found}
    return staged | {"docs/README.md": "index.md"} | OTHERS


def navigation(index: str, staged: dict[str, str]) -> str:
    """The tabs of the site, in YAML: the sections of docs/README.md with the pages that they list."""
    lines = []
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        lines.append(f"  - {section.partition(chr(10))[0]}:")
        lines += ["      - index.md"] if len(lines) == 1 else []
        for title, path in re.findall(r"^- \[([^\]]+)\]\(([^)#]+)\)", section, re.MULTILINE):
            lines.append(f"      - {title}: {staged[posixpath.normpath(posixpath.join('docs', path))]}")
    return "\n".join(lines) + "\n"


def stage(sardonyx: Path, environment: dict[str, str]) -> int:
    """Writes what mkdocs reads into build/site-pages."""
    listed = catalogues.listed_passes(sardonyx)
    printer = Printer(sardonyx, ROOT / "build" / "site-graphs")
    drawings = catalogues.Drawings(printer)
    generated = catalogues.pass_pages(ROOT, listed, drawings)
    generated |= catalogues.primitive_pages(ROOT, drawings)
    generated |= interfaces.header_pages(ROOT) | interfaces.python_pages(ROOT)
    generated["operators.md"] = catalogues.operator_page(ROOT, listed, printer)
    generated["options.md"] = catalogues.option_page(sardonyx, environment, listed)
    figures = drawings.draw()

    staged = staged_pages()
    sources = {
        str(catalogues.source_of(ROOT, p).relative_to(ROOT)): f"passes/{p['dialect']}/{p['name']}.md"
        for p in listed["passes"]
    }
    sources["docs"] = "index.md"
    sources |= {f"include/sardonyx/{h.name}": f"cpp/{h.stem}.md" for h in (ROOT / "include" / "sardonyx").glob("*.h")}
    links = Links(staged, sources)
    shutil.rmtree(PAGES, ignore_errors=True)
    for origin, page in staged.items():
        at = PAGES / page
        at.parent.mkdir(parents=True, exist_ok=True)
        if page.endswith(".md"):
            text = (ROOT / origin).read_text()
            if page == "generated/catalogue.md":  # each pass has its options on its page
                text = re.sub(r"^(\|.*\|)[^|\n]*\|$", r"\1", text, flags=re.MULTILINE)
            if page == "generated/primitives.md":
                known = {Path(p).stem for p in generated if p.startswith("primitives/")}
                text = catalogues.with_primitive_links(text, known)
                links.staged = staged | {f"docs/generated/primitives/{n}.md": f"primitives/{n}.md" for n in known}
            at.write_text(links.rewrite(text, origin, page))
        else:
            shutil.copy(ROOT / origin, at)
    for page, text in generated.items():
        at = PAGES / page
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(catalogues.put_in(text, figures))
    for asset in ("site.css", "iframe-worker.js"):
        (PAGES / "assets").mkdir(exist_ok=True)
        shutil.copy(HERE / asset, PAGES / "assets" / asset)
    return len(figures)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sardonyx", type=Path, default=ROOT / "build" / "release" / "sardonyx", help="the built command"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    options = parser.parse_args()
    started = time.monotonic()
    sardonyx = options.sardonyx.absolute()
    python = ROOT / ".venv" / "bin"  # the command runs Python for some of its help texts
    environment = dict(os.environ) | {
        "PATH": f"{python}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(sardonyx.parent / "python"),
    }
    drawn = stage(sardonyx, environment)
    pages = len(list(PAGES.rglob("*.md")))
    print(f"[docs] {pages} pages, {drawn} drawings: {time.monotonic() - started:.0f} s", flush=True)
    index = "      - cpp/index.md\n"
    headers = "".join(f"      - {h}.h: cpp/{h}.md\n" for h in interfaces.headers(ROOT))
    config = ROOT / "build" / "mkdocs.yml"
    tabs = navigation((ROOT / "docs" / "README.md").read_text(), staged_pages())
    config.write_text(
        (HERE / "mkdocs.yml").read_text().replace(index, index + headers).replace("nav:\n", "nav:\n" + tabs)
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--clean",
            "-f",
            config,
            "-d",
            options.out.absolute(),
        ],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    if done.returncode:
        return done.returncode
    faults = check.faults(options.out)
    for fault in faults:
        print(f"[docs] error: {fault}")
    print(f"[docs] {options.out}/index.html: {len(faults)} faults, {time.monotonic() - started:.0f} s in all")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
