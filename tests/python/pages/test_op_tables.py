"""The tables of operators and fields equal the output of their scripts for the installed packages."""

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

ROOT = Path(__file__).resolve().parents[3]
ROWS = ROOT / "src" / "dialects" / "onnx" / "generated" / "ops_rows.gen.inc"


def test_tables_are_up_to_date():
    if f"of onnx {onnx.__version__}." not in ROWS.read_text().splitlines()[0]:
        pytest.skip(f"the tables were written from another onnx than {onnx.__version__}")
    script = ROOT / "scripts" / "tables" / "gen_onnx_ops.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_schema_has_a_row():
    rows = ROWS.read_text()
    for schema in onnx.defs.get_all_schemas_with_history():
        head = f'SX_ROW(kOnnx, "{schema.domain}", "{schema.name}", {schema.since_version}, '
        assert rows.count(head) == 1, head


def test_mil_tables_are_up_to_date():
    coremltools = pytest.importorskip("coremltools", reason="coremltools is not installed")
    rows = ROOT / "src" / "dialects" / "mil" / "generated" / "ops_rows.gen.inc"
    if f"of coremltools {coremltools.__version__}." not in rows.read_text().splitlines()[0]:
        pytest.skip(f"the tables were written from another coremltools than {coremltools.__version__}")
    script = ROOT / "scripts" / "tables" / "gen_mil_ops.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_fields_are_up_to_date():
    coremltools = pytest.importorskip("coremltools", reason="coremltools is not installed")
    for name, package in (("onnx", onnx), ("coreml", coremltools)):
        head = (ROOT / "src" / "io" / name / f"fields_{name}.h").read_text().splitlines()[0]
        if f" {package.__version__}." not in head:
            pytest.skip(f"the fields were written from another package than {package.__name__} {package.__version__}")
    script = ROOT / "scripts" / "tables" / "gen_fields.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
