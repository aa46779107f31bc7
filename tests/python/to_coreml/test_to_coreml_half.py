"""In half precision, the default of packages, ops that it would make wrong stay in single precision."""

import numpy as np
import onnxruntime
import pytest
import sardonyx
from onnx import TensorProto, helper, numpy_helper
from sardonyx import coreml


def model(nodes, inputs, outputs, constants=()):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value(name, kind, shape) for name, kind, shape in inputs],
        [value(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def both(made, feeds, target="iOS18", **options):
    """onnxruntime's results, and those of the package in half precision."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    program = sardonyx.to_coreml(made, target=target, **options)
    names = [i.name for i in made.graph.input]
    given = [feeds[n].astype(np.int32) if feeds[n].dtype.kind in "iu" else feeds[n] for n in names]
    return session.run(None, feeds), [np.asarray(y) for y in program.run(given).values()]


@pytest.mark.parametrize("rows", [1, 5])
def test_sums_of_integers(rows):
    """Their sums reach 255 * 255 * 127, and half precision ends at 65504."""
    w = np.full((127, 3), 255, np.uint8)
    w[:, 1] = 7
    made = model(
        [
            helper.make_node("MatMulInteger", ["x", "w", "", "zero"], ["sums"]),
            helper.make_node("Cast", ["sums"], ["floats"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["floats", "more"], ["all"]),
            helper.make_node("Mul", ["all", "scale"], ["y"]),
        ],
        [("x", TensorProto.UINT8, ["N", 127])],
        [("y", TensorProto.FLOAT)],
        [
            ("w", w),
            ("zero", np.uint8(3)),
            ("more", np.array([70_000, 1, 2], np.float32)),
            ("scale", np.float32(1e-6)),
        ],
    )
    x = np.random.default_rng(rows).integers(0, 256, (rows, 127)).astype(np.uint8)
    (wanted,), (found,) = both(made, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=2e-3)


def test_numbers_of_16_bits():
    made = model(
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
        ],
        [("x", TensorProto.FLOAT, ["N", 7])],
        [("y", TensorProto.FLOAT)],
        [("scale", np.float32(1e-4)), ("zero", np.uint16(32_768))],
    )
    x = np.linspace(-3, 3, 21, dtype=np.float32).reshape(3, 7)
    (wanted,), (found,) = both(made, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-4)


def test_boxes_of_large_images():
    """Areas of 200 x 200 exceed half precision, and from 4096 on it knows every fourth pixel."""
    corner = np.array([[0, 0], [10, 0], [0, 150], [300, 300], [303, 301], [900, 2]], np.float32)
    boxes = np.concatenate([corner, corner + 200], 1)
    scores = np.array([[0.9, 0.8, 0.7, 0.6, 0.5, 0.4]], np.float32)[None]
    made = model(
        [
            helper.make_node("Add", ["boxes", "class"], ["moved"]),
            helper.make_node("Unsqueeze", ["moved", "axes"], ["all"]),
            helper.make_node("NonMaxSuppression", ["all", "scores", "most", "limit"], ["y"]),
        ],
        [("boxes", TensorProto.FLOAT, ["N", 4]), ("scores", TensorProto.FLOAT, [1, 1, "N"])],
        [("y", TensorProto.INT64)],
        [
            ("class", np.float32(20_001)),
            ("axes", np.array([0])),
            ("most", np.array([5])),
            ("limit", np.array([0.5], np.float32)),
        ],
    )
    (wanted,), (found,) = both(made, {"boxes": boxes, "scores": scores})
    assert wanted[:, 2].tolist() == [0, 2, 3, 5]
    np.testing.assert_array_equal(found, wanted)


def test_places_in_large_images():
    """The last pixel is number 4086, and half precision counts up to 2048."""
    made = model(
        [helper.make_node("GridSample", ["x", "grid"], ["y"], mode="nearest")],
        [("x", TensorProto.FLOAT, ["N", 2, 61, 67]), ("grid", TensorProto.FLOAT, ["N", 11, 13, 2])],
        [("y", TensorProto.FLOAT)],
    )
    draw = np.random.default_rng(7)
    # In the middle of pixels, so that the nearest one is not a matter of rounding.
    columns, rows = draw.integers(0, 67, (3, 11, 13)), draw.integers(0, 61, (3, 11, 13))
    grid = np.stack([(2 * columns + 1) / 67 - 1, (2 * rows + 1) / 61 - 1], -1).astype(np.float32)
    x = draw.integers(0, 2000, (3, 2, 61, 67)).astype(np.float32)
    (wanted,), (found,) = both(made, {"x": x, "grid": grid})
    np.testing.assert_array_equal(found, wanted)


def test_tokens_and_places_beyond_int16():
    """Integers that are selected, and places along an open axis, need not fit 16 bits."""
    made = model(
        [
            helper.make_node("Gather", ["ids", "last"], ["tokens"], axis=1),
            helper.make_node("ArgMax", ["x"], ["best"], axis=0, keepdims=1),
            helper.make_node("Squeeze", ["best", "zero"], ["at"]),
            helper.make_node("Gather", ["x", "at"], ["y"]),
        ],
        [("ids", TensorProto.INT64, ["N", 3]), ("x", TensorProto.FLOAT, ["T", 2])],
        [("tokens", TensorProto.INT64), ("at", TensorProto.INT64), ("y", TensorProto.FLOAT)],
        [("last", np.array([2])), ("zero", np.array([0]))],
    )
    x = np.zeros((40_009, 2), np.float32)
    x[40_003, 0] = x[35_023, 1] = 1
    wanted, found = both(made, {"ids": np.array([[1, 2, 50_256], [3, 4, 32_768]]), "x": x}, sizes={"T": (None, 50000)})
    assert wanted[0].tolist() == [[50_256], [32_768]]
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(b, a)


def test_integers_that_are_scaled_or_compared():
    """As random bits, which become numbers from 0 to 1."""
    made = model(
        [
            helper.make_node("Cast", ["x"], ["float"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["float", "scale"], ["y"]),
            helper.make_node("Less", ["float", "limit"], ["z"]),
        ],
        [("x", TensorProto.INT32, ["N"])],
        [("y", TensorProto.FLOAT), ("z", TensorProto.BOOL)],
        [("scale", np.float32(2.0**-23)), ("limit", np.float32(5_000_003))],
    )
    wanted, found = both(made, {"x": np.array([0, 70_000, 5_000_000, 5_000_003, 8_388_607], np.int32)})
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-3)
    np.testing.assert_array_equal(found[1].astype(bool), wanted[1])


@pytest.mark.parametrize("outer", [False, True], ids=["elementwise", "product"])
def test_angles_of_late_positions(outer):
    """Rotary embeddings and time steps: from 2048 on, half precision counts in twos, and an angle of 2 is a third of a turn."""
    frequencies = (10_000.0 ** -np.linspace(0, 1, 7)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["at"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("MatMul" if outer else "Mul", ["float", "frequencies"], ["angle"]),
        helper.make_node("Sin", ["angle"], ["y"]),
        helper.make_node("Cos", ["angle"], ["z"]),
    ]
    made = model(
        nodes,
        [("at", TensorProto.INT64, ["N", 1])],
        [("y", TensorProto.FLOAT), ("z", TensorProto.FLOAT)],
        [("frequencies", frequencies[None] if outer else frequencies)],
    )
    wanted, found = both(made, {"at": np.array([[0], [1], [997], [3001], [8191]])})
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(b, a, atol=2e-3)


def test_places_computed_in_floats():
    made = model(
        [
            helper.make_node("Mul", ["x", "rows"], ["at"]),
            helper.make_node("Cast", ["at"], ["i"], to=TensorProto.INT64),
            helper.make_node("Gather", ["table", "i"], ["y"]),
        ],
        [("x", TensorProto.FLOAT, ["N"])],
        [("y", TensorProto.FLOAT)],
        [("rows", np.float32(4099)), ("table", np.arange(4099, dtype=np.float32) % 101)],
    )
    x = ((np.array([0, 5, 2049, 3333, 4098]) + 0.5) / 4099).astype(np.float32)
    (wanted,), (found,) = both(made, {"x": x})
    np.testing.assert_array_equal(found, wanted)


TARGETS = ["iOS15", "iOS16", "iOS17", "iOS18"]


def angle_model(nodes, constants, inputs=None, kind=TensorProto.FLOAT):
    """sin of what the nodes make of `p`, which they call `a`."""
    return model(
        [*nodes, helper.make_node("Sin", ["a"], ["y"])],
        inputs or [("p", kind, ["N", 1])],
        [("y", TensorProto.FLOAT)],
        constants,
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("p", [1000, 20_000])
def test_a_division_in_an_angle(p, target):
    """divide_to_multiply makes another op of the division."""
    made = angle_model([helper.make_node("Div", ["p", "three"], ["a"])], [("three", np.float32(3))])
    (wanted,), (found,) = both(made, {"p": np.float32([[p]])}, target)
    np.testing.assert_allclose(found, wanted, atol=2e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_a_division_before_floor_and_cast(target):
    made = model(
        [
            helper.make_node("Div", ["p", "three"], ["d"]),
            helper.make_node("Floor", ["d"], ["f"]),
            helper.make_node("Cast", ["f"], ["i"], to=TensorProto.INT64),
            helper.make_node("Gather", ["table", "i"], ["y"]),
        ],
        [("p", TensorProto.FLOAT, ["N"])],
        [("i", TensorProto.INT64), ("y", TensorProto.FLOAT)],
        [("three", np.float32(3)), ("table", np.arange(7001, dtype=np.float32) % 101)],
    )
    wanted, found = both(made, {"p": np.float32([20_002, 7, 12_345])}, target)
    assert wanted[0].tolist() == [6667, 2, 4115]
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(b, a)


REBUILT = {
    "divide_to_multiply": ([("Div", ["p", "c"], ["a"])], {"c": np.float32(7)}),
    "fuse_squeeze_expand_dims": (
        [("Squeeze", ["p", "one"], ["s"]), ("Div", ["s", "c"], ["d"]), ("Unsqueeze", ["d", "one"], ["a"])],
        {"one": np.array([1]), "c": np.float32(7)},
    ),
    "merge_consecutive_reshapes": (
        [("Mul", ["p", "c"], ["m"]), ("Reshape", ["m", "u"], ["r"]), ("Reshape", ["r", "v"], ["a"])],
        {"c": np.float32(0.37), "u": np.array([-1]), "v": np.array([-1, 1, 1])},
    ),
    "merge_consecutive_transposes": (
        [("Mul", ["p", "c"], ["m"]), ("Transpose", ["m"], ["t"]), ("Exp", ["t"], ["e"]), ("Log", ["e"], ["l"]), ("Transpose", ["l"], ["a"])],
        {"c": np.linspace(0.0003, 0.0021, 13, dtype=np.float32)},
    ),
    "fuse_elementwise_to_batchnorm": (
        [("Unsqueeze", ["p", "axes"], ["x"]), ("Mul", ["x", "c"], ["m"]), ("Add", ["m", "b"], ["a"])],
        {"axes": np.array([2, 3]), "c": np.float32([0.37, 0.73, 0.91]).reshape(3, 1, 1), "b": np.float32([3, 5, 7]).reshape(3, 1, 1)},
    ),
    "remove_redundant_ops": (
        [("Mul", ["p", "c"], ["m"]), ("Mul", ["p", "c"], ["n"]), ("Add", ["m", "n"], ["a"])],
        {"c": np.float32(0.37)},
    ),
    "fuse_matmul_weight_bias": (
        [("MatMul", ["p", "f"], ["m"]), ("Add", ["m", "b"], ["a"])],
        {"f": np.linspace(0.3, 1.1, 5, dtype=np.float32)[None], "b": np.float32([1, 2, 3, 5, 7])},
    ),
    "fuse_leaky_relu": (
        [("Mul", ["p", "c"], ["m"]), ("LeakyRelu", ["m"], ["a"])],
        {"c": np.float32(0.37)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REBUILT)
def test_what_passes_rebuild_before_an_angle(name):
    nodes, constants = REBUILT[name]
    made = angle_model(
        [helper.make_node(op, i, o) for op, i, o in nodes],
        list(constants.items()),
        [("p", TensorProto.FLOAT, ["N", 3 if name == "fuse_elementwise_to_batchnorm" else 1])],
    )
    draw = np.random.default_rng(3)
    p = draw.uniform(2000, 9000, (5, made.graph.input[0].type.tensor_type.shape.dim[1].dim_value)).astype(np.float32)
    (wanted,), (found,) = both(made, {"p": p})
    np.testing.assert_allclose(found, wanted, atol=3e-3)


@pytest.mark.parametrize("target", ["iOS15", "iOS18"])
def test_packages_of_others(tmp_path, target):
    """A package in single precision is protected as well when it is cast, and coremltools' way remains."""
    made = angle_model([helper.make_node("Div", ["p", "three"], ["a"])], [("three", np.float32(3))])
    sardonyx.to_coreml(made, output_path=tmp_path / "single.mlpackage", precision="f32", target=target)
    p = np.float32([[1000], [20_000]])
    for options, is_right in (({}, True), ({"add_fp16_cast.protect": False}, False)):
        program = coreml.optimize(tmp_path / "single.mlpackage", precision="f16", options=options)
        found = np.asarray(next(iter(program.run({"p": p}).values())))
        assert (np.abs(found - np.sin(p / 3)).max() < 2e-3) == is_right


def test_a_constant_mask_of_attention():
    """Distances and causality in one constant, as of T5's decoder: attention need not stay in single precision."""
    draw = np.random.default_rng(0)
    lowest = np.where(np.tril(np.ones((5, 5))) > 0, 0, np.finfo(np.float32).min).astype(np.float32)
    mask = draw.standard_normal((1, 2, 5, 5)).astype(np.float32) * 3 + lowest
    made = model(
        [
            helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["q", "t"], ["s"]),
            helper.make_node("Add", ["s", "mask"], ["m"]),
            helper.make_node("Softmax", ["m"], ["p"], axis=-1),
            helper.make_node("MatMul", ["p", "v"], ["y"]),
        ],
        [(n, TensorProto.FLOAT, [1, 2, 5, 7]) for n in "qkv"],
        [("y", TensorProto.FLOAT)],
        [("mask", mask)],
    )
    feeds = {n: draw.standard_normal((1, 2, 5, 7)).astype(np.float32) for n in "qkv"}
    (wanted,), (found,) = both(made, feeds)
    np.testing.assert_allclose(found, wanted, atol=5e-3)
    program = sardonyx.to_coreml(made, target="iOS18")
    assert program.op_counts()["scaled_dot_product_attention"] == 1
    # One cast for each input and the result, and none around the attention.
    assert program.op_counts()["cast"] == 4


def attending(constants=(), masks=()):
    return model(
        [
            helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["q", "kt"], ["s"]),
            helper.make_node("Add", ["s", "m"], ["masked"]),
            helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
            helper.make_node("MatMul", ["p", "v"], ["y"]),
        ],
        [(n, TensorProto.FLOAT, [2, 3, 7, 5]) for n in "qkv"] + [(n, TensorProto.FLOAT, [2, 1, 7, 7]) for n in masks],
        [("y", TensorProto.FLOAT)],
        constants,
    )


@pytest.mark.parametrize("hidden", [-1e5, -1e9, -1e10, np.finfo(np.float32).min, -np.inf])
def test_a_constant_mask_of_any_size_takes_attention_in_half_precision(hidden):
    random = np.random.default_rng(3)
    mask = np.where(np.triu(np.ones((7, 7)), 1) > 0, hidden, random.normal(size=(3, 7, 7))).astype(np.float32)
    made = attending([("m", mask[None])])
    feeds = {n: random.normal(size=(2, 3, 7, 5)).astype(np.float32) for n in "qkv"}
    (wanted,), (found,) = both(made, feeds)
    np.testing.assert_allclose(found, wanted, atol=1e-2)
    ops = sardonyx.to_coreml(made, target="iOS18").op_counts()
    assert ops["scaled_dot_product_attention"] == 1 and ops["cast"] == 4  # of the inputs and the result


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
@pytest.mark.parametrize("hidden", [-3.0, -1e9, np.finfo(np.float32).min])
def test_a_mask_that_is_an_input_is_one_op_of_attention(hidden, precision):
    """Rows that hide all keys are the mean of the values: their bias is lost in single precision."""
    random = np.random.default_rng(5)
    made = attending(masks="m")
    feeds = {n: random.normal(size=(2, 3, 7, 5)).astype(np.float32) for n in "qkv"}
    feeds["m"] = np.where(random.random((2, 1, 7, 7)) < 0.4, hidden, 0).astype(np.float32)
    feeds["m"][:, :, 3] = hidden
    program = sardonyx.to_coreml(made, target="iOS18", precision=precision)
    wanted = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    ops = program.op_counts()
    assert ops["scaled_dot_product_attention"] == 1 and "softmax" not in ops
    rows = [r for r in range(7) if r != 3 or hidden == -3.0 or precision == "fp32"]
    found = program.run(feeds)["y"]
    np.testing.assert_allclose(found[:, :, rows], wanted[0][:, :, rows], atol=2e-2 if precision == "fp16" else 1e-5)
    assert np.isfinite(found).all()


def test_what_is_left_of_a_large_number():
    made = model(
        [
            helper.make_node("Div", ["x", "step"], ["d"]),
            helper.make_node("Floor", ["d"], ["f"]),
            helper.make_node("Mul", ["f", "step"], ["m"]),
            helper.make_node("Sub", ["x", "m"], ["y"]),
        ],
        [("x", TensorProto.FLOAT, [97])],
        [("y", TensorProto.FLOAT)],
        [("step", np.float32(0.3))],
    )
    x = np.random.default_rng(7).uniform(0, 2000, 97).astype(np.float32)
    (wanted,), (found,) = both(made, {"x": x})
    np.testing.assert_allclose(found, wanted, atol=1e-3)
