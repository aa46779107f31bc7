"""A drawing of a model: what `sardonyx.show` returns."""

import html
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, repr=False)
class Page:
    """A drawing of a model. Notebooks show it; `save` writes it as one file."""

    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Page of {len(self.html)} characters: save(path) writes it>"

    def _repr_html_(self) -> str:
        frame = "width:100%;height:640px;border:1px solid #8884"
        return f'<iframe sandbox="allow-scripts" style="{frame}" srcdoc="{html.escape(self.html)}"></iframe>'
