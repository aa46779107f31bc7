"""Write the worked example of docs/inside/architecture.md: one function from the jaxpr to the file, as the program
prints each stage.

    scripts/pages/architecture_example.py     (a test compares the page with this output)
"""

import re
import tempfile
from pathlib import Path

import jax
import onnx
import sardonyx

PAGE = Path(__file__).resolve().parents[2] / "docs" / "inside" / "architecture.md"
BEGIN, END = "<!-- example: scripts/pages/architecture_example.py -->\n", "<!-- end of example -->\n"

SOURCE = """\
def layer(x, w, b):
    return jax.nn.gelu(x @ w + b, approximate=False)


sardonyx.to_onnx(layer, [("B", 3), (3, 5), (5,)])
"""


def bare(text: str) -> str:
    """The graph without the comments on where nodes come from."""
    return re.sub(r" *//.*| meta \{.*?\}", "", text[text.index("graph") :])


def example(folder: Path) -> str:
    scope = {"jax": jax, "sardonyx": sardonyx}
    exec(SOURCE.rpartition("\n\n")[0], scope)
    final = sardonyx.to_onnx(scope["layer"], [("B", 3), (3, 5), (5,)], debug_dump=folder)

    path = folder / "step.sx"
    path.write_text(bare((folder / "1_lowered.sx").read_text()))
    sardonyx.optimize(path, path, passes="none")  # reprinted, for comparison with the later steps
    lowered = bare(path.read_text())
    parts = [
        ("", "python", SOURCE),
        ("1. JAX traces the function. The jaxpr becomes a graph of the jax dialect: one node per equation.", "sx",
         bare((folder / "0_program.sx").read_text())),
        ("2. Each equation is lowered by itself. `broadcast_in_dim` leaves nothing, as Add broadcasts; `erfc` becomes Erf and Sub; `copy` goes.",
         "sx", lowered),
    ]  # fmt: skip
    before, number = lowered, 3
    _, report = sardonyx.optimize(path, folder / "all.sx", return_report=True)
    changed = [p["name"] for p in report.passes if p["changed"]]
    for name in [*changed, *changed]:  # presets run in rounds: a later pass can make work for an earlier one
        sardonyx.optimize(path, path, passes=[name])
        after = bare(path.read_text())
        if after != before:
            parts.append((f"{number}. After the pass `{name}`:", "sx", after))
            number += 1
        before = after
    assert bare((folder / "all.sx").read_text()) == before, "the passes one by one give what the preset gives"
    message = onnx.printer.to_text(final)
    parts.append(
        (
            f"{number}. The writer gives names to values, and the file holds:",
            "text",
            re.sub(r" \[.*?\]", "", message[message.index("jax_model") :]),
        )
    )
    return "\n".join(
        f"{said}\n\n```{kind}\n{text.strip()}\n```\n" if said else f"```{kind}\n{text.strip()}\n```\n"
        for said, kind, text in parts
    )


def page(now: str) -> str:
    head, rest = now.split(BEGIN)
    with tempfile.TemporaryDirectory() as folder:
        return head + BEGIN + "\n" + example(Path(folder)) + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
