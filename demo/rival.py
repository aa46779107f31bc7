"""Export one demonstration model with jax2onnx and print the times as JSON: `rival.py NAME OUT.onnx OPSET`."""

import json
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
from models import by_name


def main(name: str, path: str, opset: str) -> None:
    import jax2onnx

    model = by_name(name)
    fn = model.make()
    start = time.perf_counter()
    jax.make_jaxpr(fn)(*model.symbolic_inputs())
    trace = time.perf_counter() - start
    start = time.perf_counter()
    jax2onnx.to_onnx(fn, list(model.inputs), model_name=name, opset=int(opset), return_mode="file", output_path=path)
    print(json.dumps({"trace": trace, "total": time.perf_counter() - start}))


if __name__ == "__main__":
    main(*sys.argv[1:])
