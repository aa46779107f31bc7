"""Weights stored as integers: results in onnxruntime stay within what the scales allow, and a second run changes
nothing."""

import json
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
import sardonyx
from command import BUILD
from command import sardonyx as command
from large_weights import first_row, save_with_holes
from onnx import numpy_helper

TYPES = ["int8", "uint8", "int4", "uint4"]
LEVELS = {
    "off": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "default": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def numbers(*shape: int, heavy: bool = False, seed: int = 7) -> np.ndarray:
    rng = np.random.default_rng(seed)
    drawn = rng.standard_t(3, shape) if heavy else rng.normal(size=shape)
    return (drawn / 8).astype(np.float32)


def model(text: str, opset: int = 21, **weights: np.ndarray) -> onnx.ModelProto:
    """A model in ONNX's own text form, with the arrays as initializers."""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    proto.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    return proto


def run(proto: onnx.ModelProto, level: str, **feeds: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def ops(proto: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in proto.graph.node]


def opset(proto: onnx.ModelProto) -> int:
    return next(i.version for i in proto.opset_import if not i.domain)


def narrow_bytes(proto: onnx.ModelProto) -> int:
    """Bytes of all initializers; two elements of 4 bits share one."""
    bits = {onnx.TensorProto.INT4: 4, onnx.TensorProto.UINT4: 4, onnx.TensorProto.INT8: 8, onnx.TensorProto.UINT8: 8}
    return sum(np.prod(t.dims) * bits.get(t.data_type, 32) / 8 for t in proto.graph.initializer)


def initializer(proto: onnx.ModelProto, name: str) -> np.ndarray:
    return numpy_helper.to_array(next(t for t in proto.graph.initializer if t.name == name))


def expanded(node: onnx.NodeProto, parameter: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A scale or zero point for each element."""
    attributes = {a.name: a.i for a in node.attribute}
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    if block:
        return np.repeat(parameter, block, axis).take(range(shape[axis]), axis)
    return np.broadcast_to(parameter.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def dequantized(proto: onnx.ModelProto, weight: str) -> np.ndarray:
    """What the model computes with in the place of `weight`, in double precision."""
    node = next(n for n in proto.graph.node if n.input[0] == f"{weight}_quantized")
    codes, scale, *zero = (initializer(proto, name).astype(np.float64) for name in node.input)
    if zero:
        codes = codes - expanded(node, zero[0], codes.shape)
    return codes * expanded(node, scale, codes.shape)


def allowed(proto: onnx.ModelProto, weight: str, w: np.ndarray) -> np.ndarray:
    """The bound on the sum of squares of a weight's error, for each element's own group: no more than rounding to the
    codes between the extremes costs at most."""
    node = next(n for n in proto.graph.node if n.input[0] == f"{weight}_quantized")
    codes, scale = initializer(proto, node.input[0]), initializer(proto, node.input[1])
    bits, is_signed = (4 if "int4" in codes.dtype.name else 8), len(node.input) == 2
    attributes = {a.name: a.i for a in node.attribute}
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    groups = np.arange(scale.size).reshape(scale.shape)
    of = expanded(node, groups, w.shape).ravel()
    bound = np.zeros(w.shape)
    assert scale.shape == (
        tuple(-(-d // block) if i == axis else d for i, d in enumerate(w.shape)) if block else (w.shape[axis],)
    )
    for group in range(scale.size):
        mine = w.ravel()[of == group].astype(np.float64)
        step = np.abs(mine).max() / (2 ** (bits - 1) - 1)
        if not is_signed:
            step = (max(mine.max(), 0) - min(mine.min(), 0)) / (2**bits - 1)
        # Zero points are rounded as well, and scales to the type of the weight.
        error = (step / 2 if is_signed else step) + np.abs(mine).max() * 2.0**-11
        bound.ravel()[of == group] = mine.size * error**2
    return bound


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("heavy", [False, True])
def test_codes_are_no_worse_than_rounding_between_the_extremes(type_, heavy):
    w = numbers(67, 37, heavy=heavy)
    narrow = sardonyx.optimize(model("g (float[B,67] x) => (float[B,37] y) { y = MatMul(x, w) }", w=w), weights=type_)
    assert ops(narrow) == ["DequantizeLinear", "MatMul"]
    error = (w.astype(np.float64) - dequantized(narrow, "w")) ** 2
    node = narrow.graph.node[0]
    attributes = {a.name: a.i for a in node.attribute}
    if attributes.get("block_size"):
        assert attributes == {"axis": 0, "block_size": 32}
        sums = np.add.reduceat(error, range(0, 67, 32), axis=0)
        sums = np.repeat(sums, 32, 0)[:67]
    else:
        assert attributes.get("axis", 1) == 1
        sums = np.broadcast_to(error.sum(0), w.shape)
    assert (sums <= allowed(narrow, "w", w)).all()


def product_bound(x: np.ndarray, w: np.ndarray, bound: np.ndarray, level: str) -> np.ndarray:
    """For x @ w with an error of w: by Cauchy and Schwarz over each group, of which `bound` repeats the sum of squares.
    Each group lies in one column."""
    total = np.zeros((x.shape[0], w.shape[1]))
    for j in range(w.shape[1]):
        for value in np.unique(bound[:, j]):
            mine = bound[:, j] == value
            total[:, j] += np.sqrt((x[:, mine].astype(np.float64) ** 2).sum(1) * value)
    total += 1e-5 * np.abs(x).astype(np.float64) @ np.abs(w)
    if level == "default":  # MatMulNBits rounds x to 8 bits in blocks
        most = np.repeat([np.abs(x[:, k : k + 32]).max(1) for k in range(0, x.shape[1], 32)], 32, 0)[: x.shape[1]].T
        total += most / 127 @ (np.abs(w) + np.sqrt(bound))
    return total


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize(
    ("body", "shape", "axes"),
    [
        ("y = MatMul(x, w)", (67, 37), (0, 1)),
        ("y = MatMul(x, w)", (64, 37), (0, 1)),
        ("y = Gemm(x, w, c)", (67, 37), (0, 1)),
        ("y = Gemm<transB=1>(x, w, c)", (37, 67), (1, 0)),
        ("y = Gemm<transB=1>(x, w, c)", (37, 96), (1, 0)),
        ("t = Transpose<perm=[1, 0]>(w)  y = MatMul(x, t)", (37, 67), None),
    ],
)
def test_products(level, type_, body, shape, axes):
    w = numbers(*shape, heavy=True)
    depth = max(shape)
    weights = {"w": w, **({"c": numbers(37, seed=3)} if "c)" in body else {})}
    wide = model(f"g (float[B,{depth}] x) => (float[B,37] y) {{ {body} }}", **weights)
    narrow = sardonyx.optimize(wide, weights=type_)
    assert "DequantizeLinear" in ops(narrow) and "Transpose" not in ops(narrow)
    x = numbers(5, depth, seed=11) * 8
    (name,) = {n.input[0].removesuffix("_quantized") for n in narrow.graph.node if n.op_type == "DequantizeLinear"}
    stored = dequantized(narrow, name)
    original = w if stored.shape == w.shape else w.T
    bound = allowed(narrow, name, original)
    swapped = axes == (1, 0) or (axes is None and stored.shape[0] != depth)
    error = np.abs(run(narrow, level, x=x)[0] - run(wide, "off", x=x)[0])
    assert (error <= product_bound(x, *((original.T, bound.T) if swapped else (original, bound)), level)).all()


@pytest.mark.parametrize("level", LEVELS)
def test_the_left_operand(level):
    w = numbers(37, 67)
    wide = model("g (float[67,B] x) => (float[37,B] y) { y = MatMul(w, x) }", w=w)
    narrow = sardonyx.optimize(wide, weights="int4")
    x = numbers(67, 5, seed=11) * 8
    error = np.abs(run(narrow, level, x=x)[0] - run(wide, "off", x=x)[0])
    assert (error.T <= product_bound(x.T, w.T, allowed(narrow, "w", w).T, "off")).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("y = Conv<pads=[2, 1, 2, 1]>(x, w)", (13, 7, 5, 3)),
        ("y = ConvTranspose<pads=[2, 1, 2, 1]>(x, w)", (7, 13, 5, 3)),
    ],
)
def test_convolutions_have_a_scale_for_each_channel(level, type_, body, shape):
    w = numbers(*shape)
    wide = model(f"g (float[B,7,11,17] x) => (float[B,13,11,17] y) {{ {body} }}", w=w)
    narrow = sardonyx.optimize(wide, weights=type_)
    assert [len(initializer(narrow, "w_scale").shape), initializer(narrow, "w_scale").size] == [1, 13]
    x = numbers(2, 7, 11, 17, seed=11)
    error = np.abs(run(narrow, level, x=x)[0] - run(wide, "off", x=x)[0])
    worst = np.sqrt(allowed(narrow, "w", w).max(axis=tuple(i for i in range(4) if shape[i] != 13)))
    padded = np.pad(x.astype(np.float64) ** 2, ((0, 0), (0, 0), (2, 2), (1, 1)))
    norms = np.sqrt(np.lib.stride_tricks.sliding_window_view(padded, (5, 3), (2, 3)).sum((1, 4, 5)))
    assert (error <= norms[:, None] * worst[None, :, None, None] + 1e-5).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_", ["int4", "uint4"])
def test_convolutions_of_many_channels_have_blocks(level, type_):
    w = numbers(13, 37, 5, 3)
    wide = model("g (float[B,37,11,17] x) => (float[B,13,7,15] y) { y = Conv(x, w) }", w=w)
    narrow = sardonyx.optimize(wide, weights=type_)
    assert initializer(narrow, "w_scale").shape == (13, 2, 5, 3)
    stored = onnx.ModelProto.FromString(wide.SerializeToString())
    stored.graph.initializer[0].CopyFrom(numpy_helper.from_array(dequantized(narrow, "w").astype(np.float32), "w"))
    x = numbers(2, 37, 11, 17, seed=11)
    assert np.allclose(run(narrow, level, x=x)[0], run(stored, "off", x=x)[0], atol=1e-4)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_", TYPES)
def test_tables(level, type_):
    w = numbers(131, 37, heavy=True)
    wide = model("g (int64[B,T] i) => (float[B,T,37] y) { y = Gather(w, i) }", w=w)
    narrow = sardonyx.optimize(wide, weights=type_)
    i = np.random.default_rng(3).integers(-131, 131, (2, 7))
    made = run(narrow, level, i=i)[0]
    assert np.allclose(made, dequantized(narrow, "w")[i], rtol=1e-6, atol=0)
    assert (np.abs(made - w[i]) <= np.sqrt(allowed(narrow, "w", w)[i])).all()


@pytest.mark.parametrize("type_", TYPES)
def test_tied_weights_are_stored_once(type_):
    w = numbers(131, 37)
    wide = model(
        "g (int64[B] i, float[B,37] x) => (float[B,37] e, float[B,131] y) { e = Gather(w, i)  y = Gemm<transB=1>(x, w) }",
        w=w,
    )
    narrow, report = sardonyx.optimize(wide, weights=type_, return_report=True)
    assert ops(narrow).count("DequantizeLinear") == 1
    done = next(p for p in report.passes if p["name"] == "quantize_weights")
    assert done["counts"]["weights"] == 1
    assert done["counts"]["bytes before"] == w.nbytes
    assert done["counts"]["bytes after"] == sum(len(t.raw_data) for t in narrow.graph.initializer)
    i, x = np.arange(7), numbers(7, 37, seed=11)
    stored = dequantized(narrow, "w")
    for level in LEVELS:
        e, y = run(narrow, level, i=i, x=x)
        assert np.allclose(e, stored[i], rtol=1e-6, atol=0)
        assert (
            np.abs(y - run(wide, "off", i=i, x=x)[1]) <= product_bound(x, w.T, allowed(narrow, "w", w).T, level)
        ).all()


@pytest.mark.parametrize("type_", TYPES)
def test_tied_weights_that_a_product_reads_transposed(type_):
    w = numbers(131, 37)
    wide = model(
        "g (int64[B,T] i) => (float[B,T,131] y) "
        "{ x = Gather(w, i)  h = Tanh(x)  t = Transpose<perm=[1, 0]>(w)  y = MatMul(h, t) }",
        w=w,
    )
    narrow = sardonyx.optimize(wide, weights=type_)
    assert sorted(ops(narrow)) == ["DequantizeLinear", "Gather", "MatMul", "Tanh", "Transpose"]
    assert sardonyx.optimize(narrow).SerializeToString() == narrow.SerializeToString()
    stored = onnx.ModelProto.FromString(wide.SerializeToString())
    stored.graph.initializer[0].CopyFrom(numpy_helper.from_array(dequantized(narrow, "w").astype(np.float32), "w"))
    i = np.arange(14).reshape(2, 7)
    assert np.allclose(run(narrow, "off", i=i)[0], run(stored, "off", i=i)[0], atol=1e-5)
    assert np.allclose(run(narrow, "default", i=i)[0], run(stored, "off", i=i)[0], atol=0.03)


@pytest.mark.parametrize("type_", TYPES)
def test_half_precision(type_):
    w = numbers(67, 37).astype(np.float16)
    wide = model("g (float16[B,67] x) => (float16[B,37] y) { y = MatMul(x, w) }", 17, w=w)
    narrow = sardonyx.optimize(wide, weights=type_)
    assert opset(narrow) == (21 if "4" in type_ else 19)
    assert initializer(narrow, "w_scale").dtype == np.float16
    x = numbers(5, 67, seed=11).astype(np.float16)
    bound = product_bound(x.astype(np.float32), w.astype(np.float32), allowed(narrow, "w", w), "default")
    exact = x.astype(np.float64) @ w.astype(np.float64)
    for level in LEVELS:
        rounded = 2.0**-10 * np.abs(x).astype(np.float64) @ np.abs(w).astype(np.float64)
        assert (np.abs(run(narrow, level, x=x)[0] - exact) <= bound + rounded).all()


@pytest.mark.parametrize("type_", TYPES)
def test_a_second_run_changes_nothing(type_):
    text = (
        "g (int64[B] i) => (float[B,67] y) "
        "{ x = Gather(t, i)  h = MatMul(x, v)  a = Add(h, c)  r = Relu(a)  s = Transpose<perm=[1, 0]>(w)  y = MatMul(r, s) }"
    )
    wide = model(text, 13, t=numbers(131, 37), v=numbers(37, 41), c=numbers(41, seed=3), w=numbers(67, 41, seed=5))
    narrow = sardonyx.optimize(wide, weights=type_)
    assert ops(narrow).count("DequantizeLinear") == 3
    assert sardonyx.optimize(narrow).SerializeToString() == narrow.SerializeToString()
    assert sardonyx.optimize(narrow, weights=type_).SerializeToString() == narrow.SerializeToString()


@pytest.mark.parametrize(("type_", "needed"), [("int4", 21), ("uint4", 21), ("int8", 13), ("uint8", 13)])
def test_an_older_opset_is_raised(type_, needed):
    wide = model("g (float[B,67] x) => (float[B,37] y) { y = MatMul(x, w) }", 11, w=numbers(67, 37))
    narrow = sardonyx.optimize(wide, weights=type_)
    assert opset(narrow) == needed
    onnx.checker.check_model(narrow)
    kept = sardonyx.optimize(model("g (float[B,67] x) => (float[B,37] y) { y = Relu(x) }", 11), weights=type_)
    assert opset(kept) == 11
    with pytest.raises(sardonyx.Error, match=f"need opset {needed}"):
        sardonyx.optimize(wide, weights=type_, opset=12)


@pytest.mark.parametrize(("type_", "ratio"), [("int4", 0.16), ("uint4", 0.18), ("int8", 0.26), ("uint8", 0.26)])
def test_the_file_becomes_smaller(type_, ratio, tmp_path):
    onnx.save(
        model("g (float[B,1024] x) => (float[B,256] y) { y = MatMul(x, w) }", w=numbers(1024, 256)), tmp_path / "m.onnx"
    )
    sardonyx.optimize(tmp_path / "m.onnx", tmp_path / "q.onnx", weights=type_)
    assert (tmp_path / "q.onnx").stat().st_size < ratio * (tmp_path / "m.onnx").stat().st_size


def test_threads_make_the_same_codes():
    wide = model("g (float[B,257] x) => (float[B,521] y) { y = MatMul(x, w) }", w=numbers(257, 521))
    narrow = [sardonyx.optimize(wide, weights="uint4").SerializeToString() for _ in range(50)]
    assert len(set(narrow)) == 1


def test_other_weights_stay():
    text = "g (float[B,67] x) => (float[B,37] y, float[67,37] z) { y = MatMul(x, w)  z = Exp(w) }"
    wide = model(text.replace("Exp(w)", "Mul(w, s)"), w=numbers(67, 37), s=numbers(1))
    assert "DequantizeLinear" not in ops(sardonyx.optimize(wide, weights="int8", passes="none"))
    small = model("g (float[B,31] x) => (float[B,31] y) { y = MatMul(x, w) }", w=numbers(31, 31))
    assert ops(sardonyx.optimize(small, weights="int8")) == ["MatMul"]
    fewer = sardonyx.optimize(small, weights="int8", options={"quantize_weights.min_elements": 31 * 31})
    assert ops(fewer) == ["DequantizeLinear", "MatMul"]


def test_a_weight_with_an_infinite_element_stays_and_a_warning_says_so():
    w = numbers(67, 37)
    w[5, 7] = np.inf
    wide = model("g (float[B,67] x) => (float[B,37] y) { y = MatMul(x, w) }", w=w)
    narrow, report = sardonyx.optimize(wide, weights="int4", return_report=True)
    assert ops(narrow) == ["MatMul"]
    assert [w for w in report.warnings if w.startswith("1 weight has infinite or NaN elements and stays as it is")]


def test_blocks_of_another_size():
    wide = model("g (float[B,67] x) => (float[B,37] y) { y = MatMul(x, w) }", w=numbers(67, 37))
    narrow = sardonyx.optimize(wide, weights="int8", options={"quantize_weights.block_size": 16})
    assert initializer(narrow, "w_scale").shape == (5, 37)


def test_verification_compares_the_model_before_its_weights_become_narrow():
    wide = model("g (float[B,67] x) => (float[B,37] y) { i = Identity(x)  y = MatMul(i, w) }", w=numbers(67, 37))
    narrow, report = sardonyx.optimize(wide, weights="int4", verify="model", return_report=True)
    assert ops(narrow) == ["DequantizeLinear", "MatMul"] and report.largest_error == 0


def test_bad_words():
    wide = model("g (float[B,67] x) => (float[B,37] y) { y = MatMul(x, w) }", w=numbers(67, 37))
    with pytest.raises(sardonyx.Error, match=r'(?s)weights=\'int5\' is not known.*"int8", "uint8", "int4", "uint4"'):
        sardonyx.optimize(wide, weights="int5")
    with pytest.raises(sardonyx.Error, match="cannot be stored as 'f8'"):
        sardonyx.optimize(wide, passes=["quantize_weights"], options={"quantize_weights.type": "f8"})


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_", TYPES)
def test_a_recurrent_network(level, type_):
    w, r = numbers(1, 68, 37), numbers(1, 68, 17, seed=3)
    wide = model("g (float[T,B,37] x) => (float[T,1,B,17] y) { y = LSTM<hidden_size=17>(x, w, r) }", w=w, r=r)
    narrow = sardonyx.optimize(wide, weights=type_)
    assert ops(narrow) == ["DequantizeLinear", "DequantizeLinear", "LSTM"]
    stored = onnx.ModelProto.FromString(wide.SerializeToString())
    for tensor in stored.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(dequantized(narrow, tensor.name).astype(np.float32), tensor.name))
    x = numbers(3, 2, 37, seed=11)
    assert np.allclose(run(narrow, level, x=x)[0], run(stored, "off", x=x)[0], atol=1e-5)


def test_variables_of_training_stay():
    wide = model("g (float[B,67] x) => (float[B,37] y) { y = MatMul(x, w) }", w=numbers(67, 37))
    training = wide.training_info.add()
    training.algorithm.CopyFrom(onnx.helper.make_graph([], "step", [], []))
    training.update_binding.add(key="w", value="w")
    assert ops(sardonyx.optimize(wide, weights="int8")) == ["MatMul"]


# --- calibration


def dependent(rows: int, size: int, seed: int) -> np.ndarray:
    """Rows of which few numbers are free, as those behind trained layers: the others follow them."""
    mixed = np.random.default_rng(size).normal(size=(13, size))
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(rows, 13)) @ mixed + 0.1 * rng.normal(size=(rows, size))).astype(np.float32)


def calibrated(report) -> int:
    (counts,) = (p["counts"] for p in report.passes if p["name"] == "quantize_weights")
    return counts.get("weights calibrated", 0)


def relative_error(made: np.ndarray, exact: np.ndarray) -> float:
    exact = exact.astype(np.float64)
    return float(((made - exact) ** 2).sum() / (exact**2).sum())


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize(
    ("signature", "body", "shape"),
    [
        ("float[B,149] x", "y = MatMul(x, w)", (149, 37)),
        ("float[B,149] x", "y = Gemm(x, w)", (149, 37)),
        ("float[B,149] x", "y = Gemm<alpha=0.25, transB=1>(x, w)", (37, 149)),
        ("float[149,B] x", "y = Gemm<transA=1>(x, w)", (149, 37)),
        ("float[149,B] x", "y = MatMul(w, x)", (37, 149)),
        ("float[B,149] x", "i = Cast<to=10>(w)  c = Cast<to=1>(i)  y = MatMul(x, c)", (149, 37)),
        ("float[B,149] x", "h = Tanh(x)  t = Transpose<perm=[1, 0]>(h)  a = MatMul(w, t)  y = Relu(a)", (37, 149)),
    ],
)
def test_calibration_takes_away_half_of_the_error_on_other_inputs(type_, signature, body, shape):
    wide = model(f"g ({signature}) => (float[M,N] y) {{ {body} }}", w=numbers(*shape, heavy=True))
    by_rows = signature.startswith("float[B")
    inputs = [dependent(101, 149, seed) for seed in (11, 13, 17)]
    first, second, unseen = (x if by_rows else np.ascontiguousarray(x.T) for x in inputs)
    runs = [{"x": first}, {"x": second}]
    narrow, report = sardonyx.optimize(wide, passes="none", weights=type_, calibration=runs, return_report=True)
    assert calibrated(report) == 1
    alone = sardonyx.optimize(wide, passes="none", weights=type_)
    assert narrow.ByteSize() == alone.ByteSize() and ops(narrow) == ops(alone)
    exact = run(wide, "off", x=unseen)[0]
    for level in LEVELS:
        errors = [relative_error(run(m, level, x=unseen)[0], exact) for m in (narrow, alone)]
        floor = (
            2e-5 if level == "default" or "Cast" in body else 0
        )  # the rounding of x and w to 8 bits and half precision
        assert errors[0] < max(0.5 * errors[1], floor)


def smooth(*shape: int, seed: int) -> np.ndarray:
    """Images whose neighbors are alike, and whose channels follow a few, some of them further on."""
    rng = np.random.default_rng(seed)
    batch, channels, *sizes = shape
    x = np.einsum(
        "bf...,fc->bc...",
        rng.normal(size=(batch, 5, *sizes)),
        np.random.default_rng(channels).normal(size=(5, channels)),
    )
    for axis in range(2, x.ndim):
        x = x + np.roll(x, 1, axis) + np.roll(x, 2, axis)
    for channel in range(channels):
        x[:, channel] = np.roll(x[:, channel], channel % 3, -1)
    return (x + 0.1 * rng.normal(size=x.shape)).astype(np.float32)


@pytest.mark.parametrize("type_", ["int4", "uint4", "int8"])
@pytest.mark.parametrize(
    ("attributes", "kernel", "sizes"),
    [
        ("strides=[1, 1]", (13, 37, 5, 3), (11, 17)),
        ("pads=[2, 1, 0, 1], strides=[2, 1], dilations=[1, 2]", (13, 7, 5, 3), (23, 17)),
        ('auto_pad="SAME_UPPER", strides=[2, 3]', (13, 37, 3, 3), (17, 23)),
        ("strides=[3]", (41, 37, 7), (101,)),
    ],
)
def test_convolutions_learn_from_patches(type_, attributes, kernel, sizes):
    x_shape = ",".join(map(str, ["B", kernel[1], *sizes]))
    y_shape = ",".join("BCDE"[: len(kernel)])
    wide = model(
        f"g (float[{x_shape}] x) => (float[{y_shape}] y) {{ y = Conv<{attributes}>(x, w) }}", w=numbers(*kernel)
    )
    x, unseen = smooth(7, kernel[1], *sizes, seed=11), smooth(3, kernel[1], *sizes, seed=13)
    alone = sardonyx.optimize(wide, passes="none", weights=type_)
    narrow, report = sardonyx.optimize(wide, passes="none", weights=type_, calibration=[{"x": x}], return_report=True)
    assert calibrated(report) == 1 and ops(narrow) == ["DequantizeLinear", "Conv"]
    exact = run(wide, "off", x=unseen)[0]
    for level in LEVELS:
        errors = [relative_error(run(m, level, x=unseen)[0], exact) for m in (narrow, alone)]
        assert errors[0] < 0.45 * errors[1]


def test_a_convolution_in_groups_is_as_without_calibration():
    wide = model("g (float[B,14,11,17] x) => (float[B,C,D,E] y) { y = Conv<group=2>(x, w) }", w=numbers(26, 7, 5, 3))
    runs = [{"x": smooth(3, 14, 11, 17, seed=11)}]
    narrow, report = sardonyx.optimize(wide, passes="none", weights="int4", calibration=runs, return_report=True)
    assert calibrated(report) == 0
    assert narrow.SerializeToString() == sardonyx.optimize(wide, passes="none", weights="int4").SerializeToString()


def test_all_products_of_a_weight_count():
    """x says nothing about z: a weight that learned from x alone would be no better for z."""
    wide = model(
        "g (float[B,149] x, float[37,149] z) => (float[B,37] y, float[37,37] v) "
        "{ y = MatMul(x, w)  t = Transpose<perm=[1, 0]>(w)  u = Transpose<perm=[1, 0]>(z)  v = MatMul(t, u) }",
        w=numbers(149, 37),
    )
    x, z = dependent(101, 149, 11), dependent(37, 149, 13)[:, ::-1].copy()
    alone = sardonyx.optimize(wide, passes="none", weights="int4")
    narrow, report = sardonyx.optimize(
        wide, passes="none", weights="int4", calibration=[{"x": x, "z": z}], return_report=True
    )
    assert calibrated(report) == 1
    for made, before, exact in zip(*(run(m, "off", x=x, z=z) for m in (narrow, alone, wide)), strict=True):
        assert relative_error(made, exact) < 0.7 * relative_error(before, exact)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[B,149] x, int64[N] i) => (float[M,N] y, float[K,L] e) { y = MatMul(x, w)  t = Transpose<perm=[1, 0]>(w)  e = Gather(t, i) }",
        "g (float[B,149] x, bool c) => (float[M,N] y) { y = If (c) <then_branch = g () => (float a) { a = MatMul(x, w) }, "
        "else_branch = g () => (float b) { b = MatMul(x, w) }> }",
    ],
    ids=["tied with a table", "in bodies"],
)
def test_weights_without_known_inputs_are_as_without_calibration(text):
    wide = model(text, w=numbers(149, 37))
    given = {"x": dependent(101, 149, 11), "i": np.array([3]), "c": np.array(True)}
    feeds = {i.name: given[i.name] for i in wide.graph.input}
    narrow, report = sardonyx.optimize(wide, passes="none", weights="int4", calibration=[feeds], return_report=True)
    assert calibrated(report) == 0
    assert narrow.SerializeToString() == sardonyx.optimize(wide, passes="none", weights="int4").SerializeToString()


def test_a_layer_learns_from_what_is_before_it():
    wide = model(
        "g (float[B,67] x) => (float[B,37] y) { h = MatMul(x, v)  n = LayerNormalization(h, s)  y = MatMul(n, w) }",
        v=dependent(67, 149, 5),
        s=np.exp(numbers(149)),
        w=numbers(149, 37, seed=3),
    )
    x, unseen = numbers(301, 67, seed=11), numbers(101, 67, seed=13)
    only = {"weights": "int4", "options": {"quantize_weights.only": "w"}}
    alone = sardonyx.optimize(wide, **only)
    narrow, report = sardonyx.optimize(wide, calibration=[{"x": x}], return_report=True, **only)
    assert calibrated(report) == 1
    errors = [relative_error(run(m, "off", x=unseen)[0], run(wide, "off", x=unseen)[0]) for m in (narrow, alone)]
    assert errors[0] < 0.3 * errors[1]


def test_half_precision_learns_as_well():
    w = numbers(149, 37).astype(np.float16)
    wide = model("g (float16[B,149] x) => (float16[B,37] y) { y = MatMul(x, w) }", w=w)
    x, unseen = (dependent(101, 149, seed).astype(np.float16) for seed in (11, 13))
    narrow = sardonyx.optimize(wide, weights="int4", calibration=[{"x": x}])
    exact = unseen.astype(np.float64) @ w.astype(np.float64)
    errors = [
        relative_error(run(m, "off", x=unseen)[0], exact) for m in (narrow, sardonyx.optimize(wide, weights="int4"))
    ]
    assert errors[0] < 0.5 * errors[1]


def test_threads_make_the_same_calibrated_codes():
    wide = model("g (float[B,257] x) => (float[B,521] y) { y = MatMul(x, w) }", w=numbers(257, 521))
    runs = [{"x": dependent(101, 257, 11)}]
    narrow = [sardonyx.optimize(wide, weights="uint4", calibration=runs).SerializeToString() for _ in range(11)]
    assert len(set(narrow)) == 1


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([{"z": np.zeros((3, 67), np.float32)}], "the model has no input 'z'"),
        ([{"x": np.zeros((3, 61), np.float32)}], r"input 'x' is f32\[3,61\], expected f32\[B,67\]"),
        ([{"x": np.zeros((3, 67))}], r"input 'x' is f64\[3,67\], expected f32\[B,67\]"),
        ([{}], "input 'x' is missing"),
        ([{"x": np.full((3, 67), np.nan, np.float32)}], "input 'x' of a calibration run has elements that are NaN"),
        ({"x": np.zeros((3, 67), np.float32)}, "calibration is a list of runs"),
    ],
)
def test_bad_runs(runs, message, tmp_path):
    wide = model("g (float[B,67] x) => (float[B,37] y) { y = MatMul(x, w) }", w=numbers(67, 37))
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.optimize(wide, tmp_path / "q.onnx", weights="int4", calibration=runs)
    assert not (tmp_path / "q.onnx").exists()


def test_the_command_calibrates(tmp_path):
    wide = model("g (float[B,149] x) => (float[B,37] y) { y = MatMul(x, w) }", w=numbers(149, 37))
    onnx.save(wide, tmp_path / "m.onnx")
    np.savez(tmp_path / "run.npz", x=dependent(101, 149, 11))
    given = ("--weights", "int4", "--calibrate", tmp_path / "run.npz")
    command("optimize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", *given)
    command("optimize", tmp_path / "m.onnx", "-o", tmp_path / "alone.onnx", "--weights", "int4")
    unseen = dependent(101, 149, 13)
    exact = run(wide, "off", x=unseen)[0]
    errors = [relative_error(run(onnx.load(tmp_path / f), "off", x=unseen)[0], exact) for f in ("q.onnx", "alone.onnx")]
    assert errors[0] < 0.5 * errors[1]
    np.savez(tmp_path / "bad.npz", x=np.zeros((3, 61), np.float32))
    bad = ("--weights", "int4", "--calibrate", tmp_path / "bad.npz")
    refused = command("optimize", tmp_path / "m.onnx", "-o", tmp_path / "p.onnx", *bad, ok=False)
    assert refused.returncode != 0 and "input 'x' is f32[3,61]" in refused.stderr and not (tmp_path / "p.onnx").exists()


# --- onnxruntime's own operators


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_", ["int4", "uint4"])
@pytest.mark.parametrize("block", [16, 32])
@pytest.mark.parametrize(
    ("body", "shape", "wanted"),
    [
        ("y = MatMul(x, w)", (67, 37), ["MatMulNBits"]),
        ("y = MatMul(x, w)", (64, 37), ["MatMulNBits"]),
        ("y = Gemm(x, w, c)", (67, 37), ["MatMulNBits", "Add"]),
        ("y = Gemm<transB=1>(x, w)", (37, 67), ["MatMulNBits"]),
        (
            "a = MatMul(x, w)  r = Relu(a)  b = MatMul(x, w)  y = Add(r, b)",
            (67, 37),
            ["MatMulNBits", "Relu", "MatMulNBits", "Add"],
        ),
    ],
)
def test_own_products_compute_what_the_standard_form_does(level, type_, block, body, shape, wanted):
    depth = max(shape)
    weights = {"w": numbers(*shape, heavy=True), **({"c": numbers(37, seed=3)} if "c)" in body else {})}
    wide = model(f"g (float[B,{depth}] x) => (float[B,37] y) {{ {body} }}", 17, **weights)
    sizes = {"quantize_weights.block_size": block}
    standard = sardonyx.optimize(wide, passes="none", weights=type_, options=sizes)
    own = sardonyx.optimize(wide, passes="none", weights=type_, options=sizes | {"quantize_weights.target": "ort-1.17"})
    assert ops(own) == wanted and opset(own) == 17 and own.ir_version == wide.ir_version
    onnx.checker.check_model(standard)
    x = numbers(5, depth, seed=11)
    exact = sardonyx.evaluate(standard, {"x": x})["y"]
    assert np.allclose(sardonyx.evaluate(own, {"x": x})["y"], exact, atol=1e-5)
    assert np.allclose(run(own, level, x=x)[0], exact, atol=0.02)  # onnxruntime rounds x to 8 bits
    for node in own.graph.node:
        for attribute in node.attribute:
            attribute.i = 1 if attribute.name == "accuracy_level" else attribute.i
    assert np.allclose(run(own, level, x=x)[0], exact, atol=1e-5)
    again = {"weights": type_, "options": sizes | {"quantize_weights.target": "ort-1.17"}}
    assert sardonyx.optimize(own, passes="none", **again).SerializeToString() == own.SerializeToString()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_", ["int4", "uint4"])
def test_own_lookups(level, type_):
    wide = model("g (int64[B,T] i) => (float[B,T,67] y) { y = Gather(w, i) }", w=numbers(131, 67, heavy=True))
    own = sardonyx.optimize(wide, weights=type_, options={"quantize_weights.target": "ort-1.20"})
    assert ops(own) == ["GatherBlockQuantized"]
    i = np.random.default_rng(3).integers(-131, 131, (2, 7))
    standard = run(sardonyx.optimize(wide, weights=type_), "off", i=i)[0]
    assert (run(own, level, i=i)[0] == standard).all() and (sardonyx.evaluate(own, {"i": i})["y"] == standard).all()
    old = sardonyx.optimize(wide, weights=type_, options={"quantize_weights.target": "ort-1.19"})
    assert ops(old) == ["DequantizeLinear", "Gather"]


def test_own_products_learn_from_calibration():
    """Results of products that were replaced are inputs of later ones."""
    wide = model(
        "g (float[B,149] x) => (float[B,41] y) { h = MatMul(x, w)  y = MatMul(h, v) }",
        w=numbers(149, 37),
        v=numbers(37, 41),
    )
    x, unseen = dependent(101, 149, 11), dependent(101, 149, 13)
    own = {"weights": "int4", "options": {"quantize_weights.target": "ort-1.23"}}
    narrow, report = sardonyx.optimize(wide, calibration=[{"x": x}], return_report=True, **own)
    assert calibrated(report) == 2 and ops(narrow) == ["MatMulNBits", "MatMulNBits"]
    exact = sardonyx.evaluate(wide, {"x": unseen})["y"]
    errors = [
        relative_error(sardonyx.evaluate(m, {"x": unseen})["y"], exact)
        for m in (narrow, sardonyx.optimize(wide, **own))
    ]
    assert errors[0] < 0.5 * errors[1]


def test_half_precision_and_bytes_have_the_standard_form():
    half = model("g (float16[B,67] x) => (float16[B,37] y) { y = MatMul(x, w) }", w=numbers(67, 37).astype(np.float16))
    wide = model("g (float[B,67] x) => (float[B,37] y) { y = MatMul(x, w) }", w=numbers(67, 37))
    target = {"quantize_weights.target": "ort-1.23"}
    for m, type_ in ((half, "int4"), (wide, "int8")):
        assert ops(sardonyx.optimize(m, weights=type_, options=target)) == ["DequantizeLinear", "MatMul"]
    with pytest.raises(sardonyx.Error, match="ort-9"):
        sardonyx.optimize(wide, weights="int4", options={"quantize_weights.target": "ort-9"})


def test_the_command(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model("g (float[B,67] x) => (float[B,37] y) { y = MatMul(x, w) }", w=numbers(67, 37)), path)
    command("optimize", path, "-o", tmp_path / "q.onnx", "--weights", "uint4")
    assert ops(onnx.load(tmp_path / "q.onnx")) == ["DequantizeLinear", "MatMul"]
    (done,) = json.loads(command("optimize", path, "-o", tmp_path / "q.onnx", "--weights", "int8", "--json").stdout)
    counts = next(p["counts"] for p in done["passes"] if p["name"] == "quantize_weights")
    assert counts == {"weights": 1, "bytes before": 67 * 37 * 4, "bytes after": 67 * 37 + 37 * 4}
    for unknown in "int5", "palette4":  # palettes are for Core ML
        refused = command("optimize", path, "-o", tmp_path / "p.onnx", "--weights", unknown, ok=False)
        assert refused.returncode != 0 and f"weights cannot be stored as '{unknown}'" in refused.stderr
        assert "expected int8, uint8, int4, uint4, f16 or bf16" in refused.stderr and not (tmp_path / "p.onnx").exists()


@pytest.mark.slow
def test_more_weights_than_memory_needs_are_narrowed_while_they_are_written(tmp_path):
    rows, columns, count = 2503, 5003, 23  # 1.15 GB, nearly all of it a hole in the file
    model = save_with_holes(tmp_path, rows, columns, count)
    arguments = ["optimize", model, "-o", tmp_path / "s.onnx", "--weights", "int4", "--quiet"]
    subprocess.run(["prlimit", "--data=120000000", BUILD / "sardonyx", *arguments], check=True)
    narrow = onnx.load(tmp_path / "s.onnx")
    stored = {t.name: t for t in narrow.graph.initializer}
    for i in (0, 22):
        codes = numpy_helper.to_array(stored[f"w{i}_quantized"]).astype(np.float32)
        scales = numpy_helper.to_array(stored[f"w{i}_scale"])
        assert np.allclose(codes[0] * scales[0], first_row(i, columns), rtol=1e-6, atol=0)
        assert not codes[1:].any()


@pytest.mark.parametrize(("kind", "digits"), [("f16", 11), ("bf16", 8)])
def test_weights_rounded_to_half_the_bytes(kind, digits):
    w, table = numbers(53, 31), numbers(41, 53, seed=3)
    proto = model(
        "g (int64[N] i) => (float[N, 31] y) { a = Gather(table, i)  y = MatMul(a, w) }", opset=17, w=w, table=table
    )
    half = sardonyx.optimize(proto, weights=kind)
    assert [n.op_type for n in half.graph.node].count("Cast") == 2
    assert half.ByteSize() < 0.55 * proto.ByteSize()
    for size in (1, 7, 13):
        rows = np.arange(size) * 3 % 41
        expected = table[rows] @ w
        slack = 2.0**-digits * 2.1 * (np.abs(table[rows]) @ np.abs(w)) + 1e-6
        for level in LEVELS:
            assert (np.abs(run(half, level, i=rows)[0] - expected) <= slack).all()
        assert (np.abs(sardonyx.evaluate(half, {"i": rows})["y"] - expected) <= slack).all()
    assert sardonyx.optimize(half, weights=kind) == half


def test_weights_beyond_half_precision_stay():
    w = numbers(37, 29)
    w[5, 3] = 65520
    proto = model("g (float[N, 37] x) => (float[N, 29] y) { y = MatMul(x, w) }", opset=17, w=w)
    kept, report = sardonyx.optimize(proto, weights="f16", return_report=True)
    assert [n.op_type for n in kept.graph.node] == ["MatMul"]
    assert any("1 weight has elements beyond f16 and stays as it is" in w for w in report.warnings)
    assert [n.op_type for n in sardonyx.optimize(proto, weights="bf16").graph.node] == ["Cast", "MatMul"]


def test_precision_bf16_is_answered_by_what_there_is():
    proto = model("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    with pytest.raises(sardonyx.Error, match='weights="bf16"'):
        sardonyx.optimize(proto, precision="bf16")


@pytest.mark.parametrize("type_", TYPES)
def test_weights_in_half_precision_raise_the_opset(type_):
    proto = model("g (float[N, 41] x) => (float[N, 37] y) { y = MatMul(x, w) }", opset=17, w=numbers(41, 37))
    small = sardonyx.optimize(proto, precision="f16", weights=type_)
    assert small.opset_import[0].version == (19 if type_.endswith("8") else 21)
    x = numbers(7, 41, seed=5)
    exact = run(proto, "default", x=x)[0]
    assert np.abs(run(small, "default", x=x)[0] - exact).max() < 0.2 * np.abs(exact).max()
