"""Write docs/evaluator_trial.md: how exact the evaluator's functions are, and where it differs from onnxruntime.

scripts/evaluator_page.py   (takes half a minute; a test compares the page with what this writes)
"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "python"))
warnings.filterwarnings("ignore")

import evaluator_trial  # noqa: E402

evaluator_trial.PAGE.write_text(evaluator_trial.page())
