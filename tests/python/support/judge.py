"""Runs an exported model and compares it with JAX: shapes, dtypes and integers exactly, floats up to
rounding."""

import importlib.metadata

import jax
import jax.numpy as jnp
import numpy as np
import onnx

# The versions of onnxruntime and JAX, and the newest opset that onnxruntime loads. The oldest supported
# versions do less.
RUNTIME = tuple(map(int, importlib.metadata.version("onnxruntime").split(".")[:2]))
OF_JAX = tuple(map(int, jax.__version__.split(".")[:2]))
NEWEST_OPSET = 28 if RUNTIME >= (1, 32) else 26 if RUNTIME >= (1, 25) else 25 if RUNTIME >= (1, 24) else 23

# Tolerances for float results, as a share of the largest magnitude in that output. Both sides round: a value
# goes through at most a handful of elementary functions, each accurate to about two units in the last place
# (2**-24 for f32, 2**-11 for f16, 2**-8 for bf16, 2**-53 for f64), or through sums in a different order. A
# wrong formula, constant or axis is off by far more than this.
TOLERANCE = {
    np.dtype(np.float32): 4e-6,
    np.dtype(np.float64): 1e-13,
    np.dtype(np.float16): 2e-3,
    np.dtype(jnp.bfloat16): 1.6e-2,
}


def in_pairs(x: np.ndarray) -> np.ndarray:
    """Complex numbers as in exports: real and imaginary parts in a last axis of 2."""
    return np.stack([x.real, x.imag], axis=-1) if x.dtype.kind == "c" else x


def outputs(model: onnx.ModelProto, inputs: list[np.ndarray], optimize: bool = False) -> list[np.ndarray]:
    """The model's results in onnxruntime, or in onnx's reference evaluator where onnxruntime lacks a kernel.

    onnxruntime's CPU provider has no kernels for many legal pairs of operator and type (most of bfloat16, much of
    float16 and the narrow integers). That is its limit and no fault of the model, which the reference
    evaluator then judges instead.
    """
    try:
        return in_onnxruntime(model, inputs, optimize)
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        if optimize:  # older releases fuse nodes into some for which they have no kernel
            return outputs(model, inputs)
    inputs = [in_pairs(x) for x in inputs]
    if any(
        v.type.tensor_type.elem_type in _WIDE and not _is_bfloat(v) for v in (*model.graph.input, *model.graph.output)
    ):
        import sardonyx

        return list(sardonyx.evaluate(model, inputs).values())
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, {i.name: x for i, x in zip(model.graph.input, inputs, strict=True)})


def in_onnxruntime(model: onnx.ModelProto, inputs: list[np.ndarray], optimize: bool) -> list[np.ndarray]:
    """The model's results in onnxruntime. Without `optimize` its graph optimizations are off, and the graph runs as
    written; with it, it runs as people will have it."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        _with_wide_border(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    inputs = [in_pairs(x) for x in inputs]
    wide = [x.astype(_WIDE[_number(x.dtype)]) if _number(x.dtype) in _WIDE else x for x in inputs]
    found = session.run(None, dict(zip((i.name for i in session.get_inputs()), wide, strict=True)))
    own = [o.type.tensor_type.elem_type for o in model.graph.output]
    return [y.astype(_numpy(t)) if t in _WIDE else y for y, t in zip(found, own, strict=True)]


def _is_bfloat(value: onnx.ValueInfoProto) -> bool:
    return value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16


# Dtypes that NumPy and onnxruntime do not exchange, and the dtypes that carry their numbers.
_P = onnx.TensorProto
_WIDE = dict.fromkeys((_P.BFLOAT16, _P.FLOAT8E4M3FN, _P.FLOAT8E4M3FNUZ, _P.FLOAT8E5M2, _P.FLOAT8E5M2FNUZ), np.float32)
_WIDE |= dict.fromkeys((_P.INT4, 26), np.int8) | dict.fromkeys(
    (_P.UINT4, 25), np.uint8
)  # 25, 26: of 2 bits, in onnx from 1.20 on


def _number(dtype: np.dtype) -> int:
    try:
        return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    except ValueError:
        return _P.UNDEFINED


def _numpy(number: int) -> np.dtype:
    return onnx.helper.tensor_dtype_to_np_dtype(number)


def _with_wide_border(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model that converts inputs and results of such dtypes from and to wider ones."""
    wide = {n: _number(np.dtype(t)) for n, t in _WIDE.items()}
    if not any(v.type.tensor_type.elem_type in wide for v in (*model.graph.input, *model.graph.output)):
        return model
    wrapped = onnx.ModelProto()
    wrapped.CopyFrom(model)
    graph = wrapped.graph
    for value in graph.input:
        own = value.type.tensor_type.elem_type
        if own in wide:
            more = {"saturate": 0} if 17 <= own <= 20 else {}  # keeps infinity
            graph.node.insert(0, onnx.helper.make_node("Cast", [f"{value.name} wide"], [value.name], to=own, **more))
            value.name += " wide"
            value.type.tensor_type.elem_type = wide[own]
    for value in graph.output:
        own = value.type.tensor_type.elem_type
        if own in wide:
            graph.node.append(onnx.helper.make_node("Cast", [value.name], [f"{value.name} wide"], to=wide[own]))
            value.name += " wide"
            value.type.tensor_type.elem_type = wide[own]
    return wrapped


def compare(expected, found: list[np.ndarray], tolerance: float | None = None) -> None:
    """Raises AssertionError with the output's number, the difference and its size."""
    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(expected)]
    assert len(found) == len(expected), f"{len(found)} results, JAX has {len(expected)}"
    for n, (want, got) in enumerate(zip(expected, found, strict=True)):
        want, got = in_pairs(want), np.asarray(got)
        assert got.shape == want.shape, f"result {n}: shape {got.shape}, JAX has {want.shape}"
        assert got.dtype == want.dtype, f"result {n}: {got.dtype}, JAX has {want.dtype}"
        if not jnp.issubdtype(want.dtype, jnp.floating):
            wrong = np.flatnonzero(got != want)
            assert not wrong.size, f"result {n}: {wrong.size} of {want.size} differ, at {wrong[:3]}: " + _pairs(
                got, want, wrong
            )
            continue
        bound = tolerance if tolerance is not None else TOLERANCE.get(want.dtype, 0.0)  # of 8 bits: exact
        a, b = got.astype(np.float64), want.astype(np.float64)
        special = ~np.isfinite(b)
        with np.errstate(invalid="ignore"):
            same = np.where(np.isnan(b), np.isnan(a), a == b)
            scale = np.max(np.abs(b[~special]), initial=0.0)
            near = np.abs(a - b) <= bound * scale
        wrong = np.flatnonzero(~np.where(special, same, near))
        assert not wrong.size, (
            f"result {n}: {wrong.size} of {want.size} differ by more than {bound:g} of {scale:g}, at {wrong[:3]}: "
            + _pairs(got, want, wrong)
        )


def _pairs(got, want, where) -> str:
    return ", ".join(f"{got.flat[i]!r} for {want.flat[i]!r}" for i in where[:3])


def check_structure(model: onnx.ModelProto, static: bool, f64: bool) -> None:
    """Properties of every exported graph, whatever it computes."""
    onnx.checker.check_model(model, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(model)
    for graph in graphs(inferred.graph):
        types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info, *graph.output)}
        types |= {t.name: t.data_type for t in graph.initializer}
        given = {v.name for v in graph.input} | {t.name for t in graph.initializer}
        results = {v.name for v in graph.output}
        for node in graph.node:
            if static:
                assert node.op_type not in ("Shape", "Size"), f"{node.op_type} of a shape that is known: {node.name}"
            if node.op_type == "Identity":
                # The format needs an Identity only for an input, a constant or another result that is
                # returned again, or, in a body, for a value of the enclosing graph.
                local = {o for n in graph.node for o in n.output}
                source = node.input[0]
                needed = node.output[0] in results and (source in given | results or source not in local)
                assert needed, f"Identity without need: {node.output[0]}"
            if node.op_type == "Cast":
                before, after = types.get(node.input[0]), types.get(node.output[0])
                assert before is None or before != after, f"Cast to the type it has: {node.output[0]}"
        if not f64:
            double = [name for name, t in types.items() if t == onnx.TensorProto.DOUBLE]
            assert not double, f"f64 in an f32 export: {double}"


def graphs(graph: onnx.GraphProto):
    stack = [graph]
    while stack:
        current = stack.pop()
        yield current
        for node in current.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    stack.append(attribute.g)
                stack.extend(attribute.graphs)
