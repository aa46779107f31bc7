"""Write src/dialects/onnx/generated/providers.gen.inc: the operators that onnxruntime's execution providers publish.

    scripts/tables/gen_provider_ops.py --web FOLDER --coreml FILE --qnn FILE --date YYYY-MM

FOLDER is the unpacked npm package onnxruntime-web (npm pack onnxruntime-web), which has the tables of WebGPU and
WebNN. The files are the pages on Core ML and QNN of onnxruntime's documentation, as Markdown.
"""

import argparse
import json
import re
from pathlib import Path

OUTPUT = Path(__file__).resolve().parents[2] / "src" / "dialects" / "onnx" / "generated" / "providers.gen.inc"
ANY = (1, 0)


def merged(ranges: str) -> list[tuple[int, int]]:
    """The ranges of versions, "6-12,13+", without gaps between neighbors; last = 0: no end."""
    found: list[tuple[int, int]] = []
    for part in ranges.replace(" ", "").split(","):
        first, _, last = part.rstrip("+").partition("-")
        end = 0 if part.endswith("+") else int(last or first)
        if found and found[-1][1] == int(first) - 1:
            found[-1] = (found[-1][0], end)
        else:
            found.append((int(first), end))
    return found


def web_rows(page: Path) -> list[tuple[str, str, int, int]]:
    rows = []
    for line in page.read_text().splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) < 4 or not re.fullmatch(r"[A-Z]\w*", cells[1]) or "(" not in cells[2]:
            continue
        for domain, ranges in re.findall(r"([\w.]+)\(([^)]*)\)", cells[2]):
            if domain in ("ai.onnx", "com.microsoft"):
                rows += [(domain.replace("ai.onnx", ""), cells[1], *r) for r in merged(ranges)]
    return rows


def listed_rows(page: Path) -> list[tuple[str, str, int, int]]:
    """Rows "|ai.onnx:Add|notes|" of the documentation, which names no versions."""
    # Two names are misspelt there.
    names = {"Argmax": "ArgMax", "Prelu": "PRelu"}
    found = re.findall(r"^\|(ai\.onnx|com\.microsoft):(\w+)\|", page.read_text(), re.MULTILINE)
    return [(domain.replace("ai.onnx", ""), names.get(op, op), *ANY) for domain, op in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--web", type=Path, required=True)
    parser.add_argument("--coreml", type=Path, required=True)
    parser.add_argument("--qnn", type=Path, required=True)
    parser.add_argument("--date", required=True, help="when the pages were read")
    args = parser.parse_args()
    release = "onnxruntime-web " + json.loads((args.web / "package.json").read_text())["version"]
    tables = [
        ("WebGPU", release, web_rows(args.web / "docs" / "webgpu-operators.md")),
        ("WebNN", release, web_rows(args.web / "docs" / "webnn-operators.md")),
        ("CoreML", f"its documentation, {args.date}", listed_rows(args.coreml)),
        ("QNN", f"its documentation, {args.date}", listed_rows(args.qnn)),
    ]
    lines = [
        "// Written by scripts/tables/gen_provider_ops.py. Do not edit.",
        "// SX_PROVIDER(name, source), then its operators:",
        "// SX_PROVIDER_OP(domain, name, first version, last version or 0)",
    ]
    for name, source, rows in tables:
        assert len(rows) > 40, f"{name}: only {len(rows)} operators were found"
        lines.append(f'SX_PROVIDER({name}, "{source}")')
        lines += [f'SX_PROVIDER_OP("{d}", "{op}", {first}, {last})' for d, op, first, last in sorted(set(rows))]
        lines.append("SX_PROVIDER_END")
    OUTPUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
