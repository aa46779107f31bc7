"""Results that were wrong in Core ML without a word, beside onnxruntime and a second hand."""

import itertools

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install -r requirements-dev.txt")

import onnxruntime as ort  # noqa: E402
import sardonyx  # noqa: E402
from onnx import TensorProto as T  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from sardonyx import coreml  # noqa: E402

rng = np.random.default_rng(7)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def model_of(nodes, inputs, outputs, weights=None, opset=21):
    """inputs: name to array, or to (element type, shape); outputs: name to element type."""
    ports = []
    for name, x in inputs.items():
        dtype, shape = (helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) if isinstance(x, np.ndarray) else x
        ports.append(helper.make_tensor_value_info(name, dtype, shape))
    results = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()]
    weights = [numpy_helper.from_array(np.asarray(w), name) for name, w in (weights or {}).items()]
    graph = helper.make_graph(nodes, "model", ports, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def in_onnxruntime(model, feeds):
    """The results, which do not depend on the runtime's optimizations."""
    found = []
    for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.log_severity_level = 4
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found.append(session.run(None, feeds))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return found[0]


def check(model, feeds, path, target="iOS17", **options):
    """Converts, compares with onnxruntime, and returns the converted program."""
    program = sardonyx.to_coreml(model, output_path=path, precision="f32", target=target, **options)
    package = coreml.load(path)
    given = [x.astype(np.int32) if x.dtype.kind in "iu" else x.astype(np.float32) for x in feeds.values()]
    found = list(package.run([np.atleast_1d(x) for x in given]).values())
    for got, wanted in zip(found, in_onnxruntime(model, feeds), strict=True):
        assert got.shape == np.atleast_1d(wanted).shape
        np.testing.assert_allclose(got, wanted.astype(got.dtype), rtol=2e-5, atol=2e-5)
    return program


# --- GRU: Core ML resets the state before the product, PyTorch after it


@pytest.mark.parametrize("target", ["iOS15", "iOS17", "iOS18"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize(
    ("batch", "steps", "direction"), [(1, 5, "forward"), (3, 5, "bidirectional"), (3, 1, "reverse")]
)
def test_gru_resets_before_or_after_the_product(after, batch, steps, direction, bias, target, tmp_path):
    n, width, directions = 2, 7, 2 if direction == "bidirectional" else 1
    weights = {"w": normal(directions, 3 * n, width), "r": normal(directions, 3 * n, n)}
    if bias:
        weights["b"] = normal(directions, 6 * n)
    node = helper.make_node(
        "GRU",
        ["x", "w", "r", "b" if bias else "", "", "h"],
        ["y", "last"],
        hidden_size=n,
        direction=direction,
        linear_before_reset=after,
    )
    feeds = {"x": normal(steps, batch, width), "h": normal(directions, batch, n)}
    model = model_of([node], feeds, {"y": T.FLOAT, "last": T.FLOAT}, weights)
    program = check(model, feeds, tmp_path / "gru.mlpackage", target)
    # The op is the one that Core ML's own tests cover: one sequence, the state reset before the product.
    assert ("gru" in program.op_counts()) == (batch == 1 and not after)


# --- a Loop that appends rows, as TorchScript writes lists


def appending_loop(axis, rows):
    shape = [5, 3]
    shape[axis] = rows
    empty = [5, 3]
    empty[axis] = 0
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=T.FLOAT),
            helper.make_node("Mul", ["row", "f"], ["m"]),
            helper.make_node("Concat", ["all", "m"], ["more"], axis=axis),
            helper.make_node("Identity", ["c"], ["again"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", T.INT64, []),
            helper.make_tensor_value_info("c", T.BOOL, []),
            helper.make_tensor_value_info("all", T.FLOAT, None),
        ],
        [helper.make_tensor_value_info("again", T.BOOL, []), helper.make_tensor_value_info("more", T.FLOAT, None)],
    )
    weights = {"three": np.int64(3), "yes": np.bool_(True), "none": np.zeros(empty, np.float32)}
    node = helper.make_node("Loop", ["three", "yes", "none"], ["y"], body=body)
    return node, weights, shape


@pytest.mark.parametrize(("axis", "rows"), [(0, 1), (0, 2), (1, 1), (1, 3)])
def test_a_loop_appends_all_its_rows(axis, rows, tmp_path):
    node, weights, shape = appending_loop(axis, rows)
    feeds = {"row": normal(*shape)}
    check(model_of([node], feeds, {"y": T.FLOAT}, weights), feeds, tmp_path / "loop.mlpackage")


# --- GridSample: of four places at the border each counts as the border


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
def test_grid_sample_beyond_the_image(mode, padding, align, tmp_path):
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=align)
    feeds = {"x": normal(1, 2, 5, 7), "grid": (rng.random((1, 3, 11, 2)) * 3.2 - 1.6).astype(np.float32)}
    check(model_of([node], feeds, {"y": T.FLOAT}), feeds, tmp_path / "grid.mlpackage")


# --- integers of fewer than 32 bits, which Core ML holds in 32

NARROW = {T.UINT8: np.uint8, T.INT8: np.int8, T.UINT16: np.uint16, T.INT16: np.int16}
FAR = np.array([9, -9, 300, -5, 1000, -300, 70000, -70000, 255.75, -128.5, 127, 0.5], np.float32)


@pytest.mark.parametrize("to", [*NARROW, T.INT4, T.UINT4])
@pytest.mark.parametrize("source", [T.FLOAT, T.INT32])
def test_casts_keep_the_lower_bits(to, source, tmp_path):
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], to=to),
        helper.make_node("Cast", ["narrow"], ["y"], to=T.INT32),
    ]
    # The standard and JAX cut fractions off; onnxruntime rounds before it takes 4 bits.
    numbers = np.trunc(FAR) if to in (T.INT4, T.UINT4) else FAR
    feeds = {"x": numbers if source == T.FLOAT else numbers.astype(np.int32)}
    check(model_of(nodes, feeds, {"y": T.INT32}), feeds, tmp_path / "cast.mlpackage")


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_sums_and_products_of_narrow_integers_wrap(op, dtype, tmp_path):
    info = np.iinfo(NARROW[dtype])
    ends = [info.min, info.min + 1, info.max - 1, info.max, 3, 100]
    pairs = np.array([(a, b) for a, b in itertools.product(ends, ends) if op != "Div" or b != 0])
    nodes = [
        helper.make_node("Cast", ["a"], ["x"], to=dtype),
        helper.make_node("Cast", ["b"], ["z"], to=dtype),
        helper.make_node(op, ["x", "z"], ["w"]),
        helper.make_node("Cast", ["w"], ["y"], to=T.INT32),
    ]
    feeds = {"a": pairs[:, 0].astype(np.int32), "b": pairs[:, 1].astype(np.int32)}
    if op == "Div":  # no processor divides the least number by -1 in the same way
        kept = ~((feeds["a"] == info.min) & (feeds["b"] == -1))
        feeds = {k: v[kept] for k, v in feeds.items()}
    model = model_of(nodes, feeds, {"y": T.INT32})
    wanted = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}.get(op)
    path = tmp_path / "narrow.mlpackage"
    if wanted is not None and op != "Div":  # the second hand
        program = sardonyx.to_coreml(model, output_path=path, precision="f32")
        assert program is not None
        (found,) = coreml.load(path).run(list(feeds.values())).values()
        x, z = (v.astype(NARROW[dtype]) for v in feeds.values())
        np.testing.assert_array_equal(found, wanted(x, z).astype(np.int32))
    if dtype in (T.UINT8, T.INT8):  # onnxruntime has no kernels for 16 bits
        check(model, feeds, tmp_path / "again.mlpackage")


@pytest.mark.parametrize("op", ["Neg", "Abs"])
def test_the_least_narrow_integer_has_no_opposite(op, tmp_path):
    nodes = [
        helper.make_node("Cast", ["a"], ["x"], to=T.INT8),
        helper.make_node(op, ["x"], ["w"]),
        helper.make_node("Cast", ["w"], ["y"], to=T.INT32),
    ]
    feeds = {"a": np.array([-128, -127, 5, 127], np.int32)}
    check(model_of(nodes, feeds, {"y": T.INT32}), feeds, tmp_path / "least.mlpackage")


def test_scattered_sums_of_bytes_wrap(tmp_path):
    nodes = [
        helper.make_node("Cast", ["a"], ["x"], to=T.UINT8),
        helper.make_node("ScatterElements", ["x", "at", "more"], ["w"], axis=0, reduction="add"),
        helper.make_node("Cast", ["w"], ["y"], to=T.INT32),
    ]
    feeds = {"a": np.array([200, 3, 100, 250, 7], np.int32)}
    weights = {"at": np.array([0, 3, 0, 2, 1]), "more": np.array([50, 10, 40, 2, 1], np.uint8)}
    check(model_of(nodes, feeds, {"y": T.INT32}, weights), feeds, tmp_path / "scatter.mlpackage")


def test_a_cast_after_a_clip_needs_no_more_ops(tmp_path):
    nodes = [
        helper.make_node("Clip", ["x", "low", "high"], ["c"]),
        helper.make_node("Round", ["c"], ["r"]),
        helper.make_node("Cast", ["r"], ["n"], to=T.UINT8),
        helper.make_node("Cast", ["n"], ["y"], to=T.FLOAT),
    ]
    weights = {"low": np.float32(0), "high": np.float32(255)}
    feeds = {"x": normal(11) * 300}
    program = check(model_of(nodes, feeds, {"y": T.FLOAT}, weights), feeds, tmp_path / "clip.mlpackage")
    assert "mod" not in program.op_counts()
