"""What holds for the built site: every link and anchor leads somewhere on it, nothing is loaded from elsewhere, pages read without scripts."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes whose address a browser loads by itself.
LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
    ("use", "href"),
    ("image", "href"),
}
QUIET_LINKS = {"canonical", "next", "prev", "alternate", "edit"}


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.twice: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.words = 0
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = dict(attrs)
        if at.get("id"):
            (self.twice if at["id"] in self.ids else self.ids).add(at["id"])
        if tag == "a" and at.get("name"):
            self.ids.add(at["name"])
        if tag == "a" and at.get("href"):
            self.links.append(at["href"])
        for name, value in attrs:
            if value and (tag, name) in LOADED and at.get("rel") not in QUIET_LINKS:
                self.loaded.append(value)
            if name == "style" and value:
                self.loaded += re.findall(r"url\(([^)]+)\)", value)
        if tag in ("article", "script", "style"):
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.inside and self.inside[-1] == tag:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if self.inside and self.inside[-1] == "article":
            self.words += len(data.split())


def is_elsewhere(address: str) -> bool:
    parts = urlsplit(address.strip("'\""))
    return parts.scheme not in ("", "data") or bool(parts.netloc)


def faults(site: Path) -> list[str]:
    """One line for each fault; none is what a release needs."""
    pages: dict[Path, Page] = {}
    for file in sorted(site.rglob("*.html")):
        page = Page()
        page.feed(file.read_text())
        pages[file.resolve()] = page
    found = [] if pages else [f"there are no pages in {site}"]
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        if name.name == "404.html":
            continue
        if page.words < 8:
            found.append(f"{name} has no text without scripts")
        found += [f"{name} has the id {i!r} twice" for i in sorted(page.twice) if not i.startswith("__")]
        for address in page.loaded:
            if is_elsewhere(address):
                found.append(f"{name} loads {address}")
            elif not urlsplit(address).scheme and not (file.parent / unquote(urlsplit(address).path)).exists():
                found.append(f"{name} loads {address}, which is not there")
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                found.append(f"{name} links to {link}, which is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                found.append(f"{name} links to {link}: no such place")
    for sheet in sorted(site.rglob("*.css")):
        addresses = re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')\s;]+)", sheet.read_text())
        found += [f"{sheet.relative_to(site)} loads {a}" for a in addresses if is_elsewhere(a)]
    return found
