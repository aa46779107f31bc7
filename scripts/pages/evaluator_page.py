"""Write docs/generated/evaluator_trial.md: the accuracy of the evaluator's functions, and its differences from
onnxruntime.

    scripts/pages/evaluator_page.py   (takes half a minute; a test compares the page with this output)
"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "python" / "support"))
warnings.filterwarnings("ignore")

import evaluator_trial  # noqa: E402

if __name__ == "__main__":
    evaluator_trial.PAGE.write_text(evaluator_trial.page())
