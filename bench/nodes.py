"""How many nodes the models of `tests/python/zoo` become: Sardonyx and jax2onnx.

    RIVALS_PYTHON=... bench/nodes.py [--only TEXT ...] [--static] [--out build/bench]

Nodes of the graph, its bodies and its functions, Constant nodes not counted. Each exporter runs in a process of its own. Missed is a
model of which jax2onnx makes fewer.
"""

import json
import sys
from collections import Counter

from common import RIVALS, ROOT, asked_to_work, finish, measure, parser


def all_nodes(model):
    todo = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    while todo:
        node = todo.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                todo.extend(graph.node)


def worker(tool: str, static: bool, only: list[str]) -> dict:
    """Nodes by operator, or why there are none, of each model."""
    import importlib
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "demo")]
    exporter = importlib.import_module(tool)
    import jax
    from zoo import all_models

    found = {}
    for model in all_models():
        if only and not any(text in model.name for text in only):
            continue
        try:
            inputs = list(model.inputs)
            if static:
                inputs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in model.sample(model.sizes[0])]
            proto = exporter.to_onnx(model.make(), inputs, model_name="model", opset=23)
            ops = Counter(n.op_type for n in all_nodes(proto) if n.op_type != "Constant")
            found[model.name] = {"nodes": sum(ops.values()), "ops": dict(ops.most_common())}
        except Exception as error:
            found[model.name] = {"error": f"{type(error).__name__}: {error}".split("\n")[0]}
    return found


def main() -> int:
    if (work := asked_to_work()) is not None:
        print(json.dumps(worker(work[0], work[1] == "static", work[2:])))
        return 0
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="models with that in their names")
    options.add_argument("--static", action="store_true", help="no dynamic sizes")
    arguments = options.parse_args()
    tools = {"sardonyx": sys.executable, "jax2onnx": RIVALS}
    results = {}
    for tool, python in tools.items():
        results[tool] = measure(__file__, python, tool, "static" if arguments.static else "dynamic", *arguments.only)
        if "error" in results[tool]:
            print(f"{tool} does not run in {python}: {results[tool]['error']}")
            return 1
    missed = []
    print(f"{'model':44}{'sardonyx':>10}{'jax2onnx':>10}")
    for name, ours in results["sardonyx"].items():
        theirs = results["jax2onnx"].get(name, {"error": "not there"})
        print(f"{name:44}{ours.get('nodes', 'fails'):>10}{theirs.get('nodes', 'fails'):>10}", end="")
        # A generator of ONNX's own has no key: those are other numbers than JAX draws, and another program.
        other = any(op.startswith("Random") for op in theirs.get("ops", ()))
        print("  " + ("draws other numbers than JAX" if other else theirs.get("error", "")[:90]))
        if "error" in ours:
            missed.append(f"{name}: {ours['error']}")
        elif not other and ours["nodes"] > theirs.get("nodes", ours["nodes"]):
            missed.append(f"{name}: {ours['nodes']} nodes, jax2onnx makes {theirs['nodes']}")
    return finish(arguments.out, "nodes", results, missed)


if __name__ == "__main__":
    sys.exit(main())
