"""The same input gives the same bytes: over runs and over Python's hash seeds."""

import os
import subprocess
import sys

SCRIPT = """
import hashlib, jax, jax.numpy as jnp, numpy as np, sardonyx

weight = np.random.default_rng(0).standard_normal((7, 11)).astype(np.float32)

def net(p, x):
    def step(carry, row):
        return carry + row, jnp.tanh(carry * row)
    y = jax.nn.gelu(x @ weight + p["bias"]) * p["scale"]
    y = y - y.mean(-1, keepdims=True)
    _, rows = jax.lax.scan(step, y[0], y)
    return {"rows": rows, "soft": jax.nn.softmax(y), "sum": y.sum()}

spec = {"bias": jax.ShapeDtypeStruct((11,), np.float32), "scale": jax.ShapeDtypeStruct((11,), np.float32)}
digest = hashlib.sha256()
for passes in ("none", "onnx", "onnx-spec"):
    digest.update(sardonyx.to_onnx(net, [spec, ("B", 7)], passes=passes).SerializeToString())
print(digest.hexdigest())
"""


def run(hash_seed: str) -> str:
    environment = os.environ | {
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_exports_are_the_same_bytes_whatever_the_hash_seed():
    digests = {seed: run(seed) for seed in ("0", "1", "4242")}
    assert len(set(digests.values())) == 1, digests
    assert len(digests["0"].strip()) == 64
