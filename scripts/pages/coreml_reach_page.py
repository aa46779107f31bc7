"""Write docs/generated/coreml_reach.md: which ONNX operators and JAX functions convert to Core ML.

    scripts/pages/coreml_reach_page.py [SHARE] [jax | onnx]   (takes some minutes; a test compares its figures for the newest target)

SHARE is the part of the rows of the sweep over JAX that run, all (a quarter of an hour) if none is given. With "jax" or "onnx" only the
section on JAX or on ONNX is written anew.
"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "python" / "support"))
warnings.filterwarnings("ignore")

import coreml_reach as reach  # noqa: E402

arguments = [a for a in sys.argv[1:] if a not in ("jax", "onnx")]
share = float(arguments[0]) if arguments else 1.0
if "onnx" in sys.argv:
    text = reach.PAGE.read_text()
    section = text[text.index(reach.JAX_HEADING) :]
else:
    section = reach.jax_section(reach.sweep_rows(share), reach.sweep_rows(share, precision="f16"), drawn=share < 1)
if "jax" in sys.argv:
    text = reach.PAGE.read_text()
    reach.PAGE.write_text(text[: text.index(reach.JAX_HEADING)] + section)
else:
    reach.PAGE.write_text(reach.page("\n" + section))
