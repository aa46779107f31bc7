"""The demonstration models as jax.export writes them, text and portable artifact, become right ONNX models and packages."""

import jax
import numpy as np
import onnxruntime as ort
import pytest
import sardonyx
from jax import export
from models import MODELS

LARGE = {"resnet50", "vit_b16", "gpt2_124m", "mixer_s16"}
CASES = [pytest.param(m, id=m.name, marks=[pytest.mark.slow] if m.name in LARGE else []) for m in MODELS]


def error(found, wanted) -> float:
    pairs = [(np.asarray(f, float), np.asarray(w, float)) for f, w in zip(found, wanted, strict=True)]
    return max(np.abs(f - w).max() / max(np.abs(w).max(), 1e-9) for f, w in pairs)


@pytest.mark.parametrize("model", CASES)
def test_both_forms_become_right_models(model, tmp_path):
    fn = model.make()
    exported = export.export(jax.jit(fn))(*model.symbolic_inputs())
    (tmp_path / "m.mlir").write_text(str(exported.mlir_module()))
    (tmp_path / "m.mlirbc").write_bytes(exported.mlir_module_serialized)
    sessions = []
    for name in ("m.mlir", "m.mlirbc"):
        sardonyx.convert(tmp_path / name, tmp_path / "m.onnx")
        sessions.append(ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"]))
    sardonyx.convert(tmp_path / "m.mlirbc", tmp_path / "m.mlpackage")
    package = sardonyx.coreml.load(tmp_path / "m.mlpackage")
    for sizes in model.sizes[:2]:
        inputs = [np.asarray(a) for a in model.sample(sizes)]
        wanted = jax.tree.leaves(fn(*inputs))
        for session in sessions:
            names = [i.name for i in session.get_inputs()]
            assert error(session.run(None, dict(zip(names, inputs, strict=True))), wanted) < 1e-5
        ports = list(sardonyx.info(package).inputs)
        assert error(package.run(dict(zip(ports, inputs, strict=True))).values(), wanted) < 0.01
