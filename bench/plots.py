"""Bar charts as SVG: groups of bars, one bar per tool. No library needed."""

import math
from html import escape
from pathlib import Path

COLORS = ("#b8404a", "#4a6fa5", "#7d9d6c", "#c29545", "#7a6a9b", "#8d8d8d")
BAR, GAP, LEFT, WIDTH, TOP = 11, 10, 150, 760, 56


def bars(path: Path, title: str, unit: str, groups: dict[str, dict[str, float]], log: bool = False) -> list[str]:
    """Draws the chart and returns the lines that show it on a page beside its folder; none if there is
    nothing to draw.

    `groups`: label -> tool -> value. With `log`, bar lengths are logarithmic and start at half of the
    smallest value."""
    tools = list(dict.fromkeys(tool for values in groups.values() for tool in values))
    values = [v for group in groups.values() for v in group.values() if v > 0]
    if not values:
        return []
    low, high = (math.log10(min(values)) - 0.3, math.log10(max(values))) if log else (0.0, max(values))
    room = WIDTH - LEFT - 90

    def length(v: float) -> float:
        return max(1.0, room * ((math.log10(v) if log else v) - low) / (high - low)) if v > 0 else 1.0

    marks, y = [], TOP
    for label, group in groups.items():
        middle = y + BAR * len(group) / 2 + 4
        marks.append(f'<text x="{LEFT - 8}" y="{middle:.0f}" text-anchor="end">{escape(label)}</text>')
        for tool, v in group.items():
            color = COLORS[tools.index(tool) % len(COLORS)]
            marks.append(f'<rect x="{LEFT}" y="{y}" width="{length(v):.1f}" height="{BAR - 1}" fill="{color}"/>')
            marks.append(f'<text x="{LEFT + length(v) + 4:.1f}" y="{y + BAR - 2}" class="v">{v:.3g}</text>')
            y += BAR
        y += GAP
    x = LEFT
    legend = []
    for i, tool in enumerate(tools):
        legend.append(f'<rect x="{x}" y="32" width="10" height="10" fill="{COLORS[i % len(COLORS)]}"/>')
        legend.append(f'<text x="{x + 14}" y="41">{escape(tool)}</text>')
        x += 30 + 7 * len(tool)
    scale = f"{unit}, logarithmic" if log else unit
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" font-size="11">',
                f'<rect width="{WIDTH}" height="{y}" fill="white"/><style>.v{{font-size:9px;fill:#555}}</style>',
                f'<text x="10" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
                f'<text x="10" y="41" fill="#555">{escape(scale)}</text>',
                *legend,
                *marks,
                "</svg>",
                "",
            ]
        )
    )
    return [f"![{title}]({path.parent.name}/{path.name})", ""]
