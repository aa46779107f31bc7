"""Write docs/coreml_reach.md: which ONNX operators and JAX functions convert to Core ML.

    scripts/coreml_reach_page.py [SHARE]   (takes some minutes; a test compares its figures for the newest target)

SHARE is the part of the rows of the sweep over JAX that run, a fifth if none is given.
"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "python"))
warnings.filterwarnings("ignore")

import coreml_reach  # noqa: E402

coreml_reach.PAGE.write_text(
    coreml_reach.page(coreml_reach.sweep_rows(float(sys.argv[1]) if len(sys.argv) > 1 else 0.2))
)
