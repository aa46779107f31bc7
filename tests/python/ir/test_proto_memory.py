"""A message holds the weights once, and filling it never holds them a second time."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
import sardonyx

GROWTH = """
import gc, jax.numpy as jnp, numpy as np, sardonyx

def memory(key):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(x for x in lines if x.startswith(key)).split()[1]) * 1024

weights = [np.full((1024, 2048), i, np.float32) + np.eye(1024, 2048, dtype=np.float32) for i in range(16)]

def f(x, used):
    return [x @ w for w in used]

sardonyx.to_onnx(lambda x: f(x, [w[:2, :2] for w in weights]), [(3, 2)])
gc.collect()
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
model = sardonyx.to_onnx(lambda x: f(x, weights), [(3, 1024)], return_mode="proto")
print((memory("VmHWM") - before) / sum(w.nbytes for w in weights))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_weights_are_copied_once():
    run = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 1.35, run.stdout


def test_all_tensors_are_filled():
    weights = [np.arange(20_000, dtype=np.float32).reshape(100, 200) + i for i in range(3)]

    def f(x):
        return x @ weights[0] + x @ weights[1] + (x @ weights[2])[:1]

    model = sardonyx.to_onnx(f, [("B", 100)], return_mode="proto")
    onnx.checker.check_model(model, full_check=True)
    held = {onnx.numpy_helper.to_array(t).tobytes() for t in model.graph.initializer}
    assert {w.tobytes() for w in weights} <= held
    assert not any(t.external_data or t.data_location for t in model.graph.initializer)
    assert onnx.ModelProto.FromString(model.SerializeToString()) == model
