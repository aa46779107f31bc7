"""Growth of export time with the number of equations: 3k, 30k and 300k.

    bench/equations.py [--equations 3000 30000 300000] [--out build/bench]

The program is a chain of layers: products with weights, sums, elementwise functions, reductions, broadcasts,
reshapes, transposes, and a shared call. A program misses its target if it takes more than twice as long per
equation after tracing as the smallest one.
"""

import json
import sys
import tempfile
from pathlib import Path

from common import asked_to_work, finish, measure, parser

TOLERATED = 2.0  # the smallest program fits into caches


def worker(equations: int, folder: str) -> dict:
    import jax
    import jax.numpy as jnp
    import numpy as np
    import sardonyx

    weights = [np.random.default_rng(i).standard_normal((7, 7)).astype(np.float32) / 3 for i in range(5)]
    shared = jax.jit(lambda x: jnp.tanh(x) * 0.5)

    def layer(x, i):
        y = shared(x @ weights[i % len(weights)])
        y = y - y.sum(axis=1, keepdims=True) * np.float32(i % 11)
        return (jnp.sin(y).reshape(-1, 7).T @ jnp.maximum(x, np.float32(0.1))) + jnp.cos(x) * np.float32(0.1)

    each = len(jax.make_jaxpr(lambda x: layer(x, 1))(weights[0]).jaxpr.eqns)
    layers = equations // each

    def program(x):
        for i in range(layers):
            x = layer(x, i)
        return x

    path = Path(folder) / "model.onnx"
    sardonyx.to_onnx(
        lambda x: layer(x, 0), [(7, 7)], return_mode="file", output_path=str(path)
    )  # warms up imports and caches
    _, report = sardonyx.to_onnx(program, [(7, 7)], return_mode="file", output_path=str(path), return_report=True)
    return {"equations": report.equations, "nodes": report.nodes, "stages": dict(report.stages)}


def main() -> int:
    if (work := asked_to_work()) is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(worker(int(work[0]), folder)))
        return 0
    options = parser(__doc__)
    options.add_argument("--equations", nargs="+", type=int, default=[3000, 30000, 300000])
    arguments = options.parse_args()
    results, missed = [], []
    stages = ("trace", "import", "lower", "optimize", "write")
    print(f"{'equations':>10}{'nodes':>9}" + "".join(f"{s:>11}" for s in stages) + f"{'after, each':>13}")
    for count in arguments.equations:
        result = measure(__file__, sys.executable, count)
        if "error" in result:
            print(f"{count}: {result['error']}")
            return 1
        results.append(result)
        seconds = [result["stages"].get(s, 0) for s in stages]
        each = sum(seconds[1:]) / result["equations"]
        print(f"{result['equations']:>10}{result['nodes']:>9}", end="")
        print("".join(f"{s:>9.3f} s" for s in seconds) + f"{1e6 * each:>10.1f} us", flush=True)
        first = sum(results[0]["stages"].get(s, 0) for s in stages[1:]) / results[0]["equations"]
        if each > TOLERATED * first:
            missed.append(f"{1e6 * each:.1f} us per equation of {count}, {1e6 * first:.1f} of the fewest")
    return finish(arguments.out, "equations", results, missed)


if __name__ == "__main__":
    sys.exit(main())
