"""Draw docs/images/before_after.svg, a Flax transformer block before and after the default passes, and write
README.md's figures.

    scripts/pages/readme_page.py     (a test compares both with this output)

The figures come from docs/generated/{exporters,benchmarks,coreml}.md.
"""

import re
from collections import defaultdict
from html import escape
from pathlib import Path

import jax
import onnx
import sardonyx
from flax import nnx

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "images" / "before_after.svg"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures: scripts/pages/readme_page.py -->\n", "<!-- end of figures -->\n"

WIDTH, MARGIN = 900, 16
INK, LINE, PAPER = "#3b2a20", "#c9b3a3", "#fdfaf6"
MOVES = {"Reshape", "Transpose", "Expand", "Unsqueeze", "Squeeze", "Shape", "Concat", "Slice", "Gather"}
BIG = {"MatMul", "Gemm", "Attention", "LayerNormalization", "Gelu", "Softmax"}


class Block(nnx.Module):
    """Attention and a perceptron, each after a layer normalization. Biases are random, as zeros would be
    removed."""

    def __init__(self, rngs):
        bias = nnx.initializers.normal(0.02)
        self.norm1 = nnx.LayerNorm(64, bias_init=bias, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, 64, decode=False, bias_init=bias, rngs=rngs)
        self.norm2 = nnx.LayerNorm(64, bias_init=bias, rngs=rngs)
        self.up = nnx.Linear(64, 256, bias_init=bias, rngs=rngs)
        self.down = nnx.Linear(256, 64, bias_init=bias, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(jax.nn.gelu(self.up(self.norm2(x)), approximate=False))


def color(op: str) -> str:
    return "#e8a87c" if op in BIG else "#dfe6ee" if op in MOVES else "#fff"


def drawing(model: onnx.ModelProto, top: float, upright: bool) -> tuple[list[str], float]:
    """Draws nodes in columns by their longest path from an input. Returns the y of the lowest edge.
    `upright`: names run from bottom to top."""
    nodes = list(model.graph.node)
    maker = {name: i for i, n in enumerate(nodes) for name in n.output if name}
    column: list[int] = []
    for n in nodes:
        column.append(max((column[maker[name]] + 1 for name in n.input if name in maker), default=0))
    # A node without computed operands is placed beside its first user.
    for i in range(len(nodes) - 1, -1, -1):
        users = [column[j] for j, n in enumerate(nodes) if set(n.input) & set(nodes[i].output)]
        if users:
            column[i] = max(column[i], min(users) - 1)
    rows: dict[int, list[int]] = defaultdict(list)
    for i, c in enumerate(column):
        rows[c].append(i)
    pitch = (WIDTH - 2 * MARGIN) / (max(column) + 1)
    across, along = (min(14, pitch - 3), 78) if upright else (pitch - 10, 26)
    lanes = max(len(r) for r in rows.values())
    step = along + 8
    height = lanes * step
    place = {}
    for c, members in rows.items():
        for k, i in enumerate(members):
            place[i] = (MARGIN + pitch * (c + 0.5), top + height / 2 + (k - (len(members) - 1) / 2) * step)
    lines, boxes = [], []
    for i, n in enumerate(nodes):
        x, y = place[i]
        for name in dict.fromkeys(n.input):
            if name in maker:
                a, b = place[maker[name]]
                # An edge that passes other nodes is drawn outside its row.
                aside = (
                    (along + (14 if upright else 44)) * 2 / 3
                    if column[i] - column[maker[name]] > 1 and abs(b - y) < 1
                    else 0
                )
                a, to, bend = a + across / 2, x - across / 2, max(6, (x - a) / 2)
                lines.append(
                    f'<path d="M{a:.0f} {b:.0f}C{a + bend / 2:.0f} {b - aside:.0f} {to - bend / 2:.0f} {y - aside:.0f} {to:.0f} {y:.0f}"/>'
                )
        boxes.append(
            f'<rect x="{x - across / 2:.1f}" y="{y - along / 2:.0f}" width="{across:.1f}" height="{along}" rx="4" fill="{color(n.op_type)}"/>'
        )
        turn = f' transform="rotate(-90 {x:.1f} {y:.0f})"' if upright else ""
        shift = 3 if upright else 4
        name = {"LayerNormalization": "LayerNorm"}.get(n.op_type, n.op_type)
        boxes.append(f'<text x="{x:.1f}" y="{y + shift:.0f}"{turn}>{escape(name)}</text>')
    size = 9 if upright else 9.5
    return [
        f'<g fill="none" stroke="{LINE}">', *lines, "</g>",
        f'<g font-size="{size}" text-anchor="middle" fill="{INK}"><g stroke="{LINE}">', *boxes[::2], "</g>", *boxes[1::2], "</g>",
    ], top + height  # fmt: skip


def picture() -> str:
    block = Block(nnx.Rngs(0))
    before = sardonyx.to_onnx(block, [("B", "T", 64)], passes="none")
    after = sardonyx.to_onnx(block, [("B", "T", 64)])
    first, y = drawing(before, 40, True)
    second, end = drawing(after, y + 44, False)
    title = f"A transformer block of Flax: {len(before.graph.node)} nodes as JAX traced it, {len(after.graph.node)} after the default passes"
    end += 12
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {end:.0f}" width="{WIDTH}" height="{end:.0f}" '
            'font-family="system-ui, -apple-system, \'Segoe UI\', Helvetica, Arial, sans-serif" role="img" aria-labelledby="title">',
            f'<title id="title">{title}</title>',
            f'<rect width="{WIDTH}" height="{end:.0f}" rx="14" fill="{PAPER}"/>',
            f'<text x="{MARGIN}" y="26" font-size="15" fill="{INK}">A transformer block of Flax as JAX traced it: {len(before.graph.node)} nodes</text>',
            *first,
            f'<text x="{MARGIN}" y="{y + 28:.0f}" font-size="15" fill="{INK}">After the default passes: {len(after.graph.node)} nodes, the same results</text>',
            *second,
            "</svg>",
            "",
        ]
    )


def figures() -> str:
    page = (ROOT / "docs" / "generated" / "exporters.md").read_text()
    rows = {}
    for row in re.findall(
        r"^\| (\w+) \| \d+ of (\d+) \| (\d+) \| ([\d.]+) \| [\d.]+ \| ([\d.]+) \|$", page, re.MULTILINE
    ):
        tool, of_all, *rest = row
        rows[tool] = rest
    table = [
        f"| {of_all} models of real exporters | " + " | ".join(rows) + " |",
        "|---|" + "--:|" * len(rows),
        *(
            f"| {label} | " + " | ".join(row[i] for row in rows.values()) + " |"
            for i, label in enumerate(("fewest nodes of the six", "nodes left, mean", "processor time"))
        ),
    ]
    generated = ROOT / "docs" / "generated"
    export = re.search(
        r"Geometric mean: ([\d.]+) times faster than jax2onnx", (generated / "benchmarks.md").read_text()
    )
    convert = sorted(int(n) for n in re.findall(r" \((\d+) x\) ", (generated / "coreml.md").read_text()))
    return (
        "\n".join(table)
        + f"\n\nExporting from JAX: {export[1]} times faster than jax2onnx, tracing included (geometric mean). Converting to Core ML: "
        f"{convert[0]} to {convert[-1]} times faster than coremltools from PyTorch.\n"
    )


def readme(now: str) -> str:
    head, rest = now.split(BEGIN)
    return head + BEGIN + figures() + END + rest.split(END)[1]


if __name__ == "__main__":
    PICTURE.write_text(picture())
    README.write_text(readme(README.read_text()))
