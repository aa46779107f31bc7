"""`to_onnx(shadow=)`: a second exporter on the same function, and how its model compares with ours."""

from collections import Counter

import numpy as np

from sardonyx._check import values as _compare
from sardonyx._error import Error
from sardonyx._models.session import Session, release
from sardonyx._require import require
from sardonyx._trace import module_state as _module_state
from sardonyx._trace import trace as _trace
from sardonyx.report import Shadow


def compare(shadow, fn, inputs, input_params, model, spec, opset, double, inputs_as_nchw, outputs_as_nchw) -> Shadow:
    """Compares the models. A failure of the other exporter is reported, not raised: ours has succeeded."""
    name, run = _exporter(shadow, opset, double, input_params, inputs_as_nchw, outputs_as_nchw, spec)
    ours = Counter(model.op_counts())
    shadow = Shadow(name, nodes=sum(ours.values()))
    try:
        with _module_state.kept(fn, input_params):
            other = run(fn, inputs)
    except Exception as e:
        shadow.text = f"it failed: {type(e).__name__}: {(str(e).splitlines() or [''])[0]}"
        return shadow
    if not hasattr(other, "graph") or not hasattr(other, "SerializeToString"):
        raise Error(f"shadow must return an onnx.ModelProto, found {type(other).__name__}")
    theirs = _counts(other)
    shadow.other_nodes = sum(theirs.values())
    shadow.more, shadow.fewer = dict(sorted((ours - theirs).items())), dict(sorted((theirs - ours).items()))
    sizes = _compare.two_rounds(spec)[0]
    with _trace.x64(double):
        import jax

        leaves = jax.tree_util.tree_leaves(_compare.draw_values(spec.args, spec, sizes, double))
    params = {k: spec.values[k] for k in spec.kwargs}
    try:
        session, second = Session(model.serialize()), Session(other)
        feeds = _compare.feeds_of(session, leaves, params, inputs_as_nchw)
        mine = session.run(feeds)
        if len(second.inputs) != len(session.inputs):
            shadow.text = f"it has {len(second.inputs)} inputs, {len(session.inputs)} are here"
            return shadow
        given = {b.name: feeds[a.name] for a, b in zip(session.inputs, second.inputs, strict=True)}
        found = second.run(given)
    except Exception as e:
        shadow.text = f"its model does not run: {(str(e).splitlines() or [''])[0]}"
        return shadow
    names = [o.name for o in session.outputs]
    shadow.same_results, shadow.text = _differences(mine, found, names, double)
    if not shadow.same_results:
        sides = {"ours": (session, feeds, mine), "theirs": (second, given, found)}
        shadow.text += "".join(
            f"; {whose}: {fault}" for whose, side in sides.items() if (fault := _fault(*side, names, double))
        )
    return shadow


def _fault(session, feeds, results, names, double) -> str:
    """Who is at fault if the optimizations of onnxruntime change these results."""
    try:
        written = session.as_written().run(feeds)
    except Error:
        return ""
    return (
        ""
        if _differences(results, written, names, double)[0]
        else f"{release()} changes it when it optimizes the graph"
    )


def _exporter(shadow, opset, double, input_params, inputs_as_nchw, outputs_as_nchw, spec):
    if callable(shadow):
        return getattr(shadow, "__name__", type(shadow).__name__), shadow
    if shadow != "jax2onnx":
        raise Error(f"shadow={shadow!r} is not known", notes=['expected "jax2onnx" or a function of (fn, inputs)'])
    jax2onnx = require("jax2onnx", "shadow")
    options = {"opset": opset, "enable_double_precision": double, "input_params": input_params}
    options |= {"inputs_as_nchw": inputs_as_nchw, "outputs_as_nchw": outputs_as_nchw}
    options = {k: v for k, v in options.items() if v is not None}

    def run(fn, inputs):
        fn, inputs = _as_shapes(fn, inputs, spec)
        return jax2onnx.to_onnx(fn, inputs, **options)

    return "jax2onnx", run


def _as_shapes(fn, inputs, spec):
    """Converts inputs for jax2onnx, which takes one shape per argument: pytrees are spread over arguments,
    and strings become shapes with a dtype."""
    if all(isinstance(x, tuple) and all(isinstance(d, int | str) for d in x) for x in inputs):
        return fn, inputs
    import jax

    leaves, tree = jax.tree_util.tree_flatten(spec.args)

    def spread(*arrays, **params):
        return jax.tree_util.tree_leaves(fn(*spec.with_static(tree.unflatten(arrays)), **params))

    shapes = [tuple(d if isinstance(d, int) else str(d) for d in x.shape) for x in leaves]
    return spread, [jax.ShapeDtypeStruct(s, x.dtype) for s, x in zip(shapes, leaves, strict=True)]


def _counts(model) -> Counter:
    counts: Counter = Counter()
    stack = [model.graph.node, *(f.node for f in model.functions)]
    while stack:
        for node in stack.pop():
            if node.op_type != "Constant":
                counts[node.op_type] += 1
            for a in node.attribute:
                stack += [a.g.node] if a.HasField("g") else []
                stack += [g.node for g in a.graphs]
    return counts


def _differences(mine, found, names, double) -> tuple[bool, str]:
    if len(mine) != len(found):
        return False, f"it has {len(found)} results, {len(mine)} are here"
    worst = 0.0
    for name, a, b in zip(names, mine, found, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False, f"'{name}' is {b.dtype}{list(b.shape)} there, {a.dtype}{list(a.shape)} here"
        if not a.size:
            continue
        difference = np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))
        worst = max(worst, float(np.nanmax(difference)))
        tolerance = {"rtol": 1e-9, "atol": 1e-9} if double else {"rtol": 1e-3, "atol": 1e-5}
        if not np.allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), equal_nan=True, **tolerance):
            return False, f"'{name}' differs by up to {worst:.6g}"
    return True, f"results agree; the largest difference is {worst:.3g}"
