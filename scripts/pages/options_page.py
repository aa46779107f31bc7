"""Write the table of options in docs/reference/command_line.md.

scripts/pages/options_page.py   (a test compares the page with this output)
"""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "command_line.md"
BEGIN, END = "<!-- options: scripts/pages/options_page.py -->\n", "<!-- end of options -->\n"


def page(sardonyx: Path) -> str:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    table = subprocess.run([sardonyx, "completion", "markdown"], capture_output=True, text=True, check=True).stdout
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(ROOT / "build" / "release" / "sardonyx"))
