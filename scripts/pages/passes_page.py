"""Write docs/generated/catalogue.md: all passes and presets, from `sardonyx passes --json`.

scripts/pages/passes_page.py [--sardonyx build/release/sardonyx]   (a test compares the page with this output)
"""

import argparse
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "generated" / "catalogue.md"

FOLDERS = {
    "onnx": "On ONNX models",
    "mil": "On Core ML programs (`common::name` in coremltools' spelling is accepted)",
}


def page(listed: dict) -> str:
    lines = [
        "# Passes",
        "",
        "`scripts/pages/passes_page.py` writes this page. `sardonyx passes NAME` shows a pass with its patterns. The header comment of its",
        "file states exactly what it does, and the cases beside it show that.",
        "",
        "*exact*: the same bits. *rounds*: at most twice the previous error plus 4 ulp. *relaxed*: as its file states.",
        "",
    ]
    for folder, title in FOLDERS.items():
        passes = [p for p in listed["passes"] if p["dialect"] == folder]
        if not passes:
            continue
        lines += [f"## {title}", "", "| Pass | What it does | Numerics | Options |", "|---|---|---|---|"]
        for p in passes:
            (source,) = (ROOT / "src" / "passes" / folder).rglob(f"{p['name']}.cc")
            options = "; ".join(f"`{k}`: {v}" for k, v in p["options"].items())
            lines.append(
                f"| [{p['name']}](../../{source.relative_to(ROOT)}) | {p['about']} | {p['numerics']} | {options} |"
            )
        lines.append("")
    lines += ["## Presets", ""]
    for p in listed["presets"]:
        lines.append(f"- **{p['name']}**: {p['about']}. {len(p['passes'])} passes" + (":" if p["passes"] else "."))
        if p["passes"]:
            lines.append("  " + ", ".join(p["passes"]) + ".")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sardonyx", default=ROOT / "build" / "release" / "sardonyx")
    options = parser.parse_args()
    listed = subprocess.run([options.sardonyx, "passes", "--json"], check=True, capture_output=True, text=True).stdout
    PAGE.write_text(page(json.loads(listed)[0]))


if __name__ == "__main__":
    main()
