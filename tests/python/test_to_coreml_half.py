"""In half precision, the default of packages, ops that it would make wrong stay in single precision."""

import numpy as np
import onnxruntime
import pytest
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


def both(made, feeds):
    """onnxruntime's results, and those of the package in half precision."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    program = coreml.from_onnx(made, minimum_deployment_target="iOS18")
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
    wanted, found = both(made, {"ids": np.array([[1, 2, 50_256], [3, 4, 32_768]]), "x": x})
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


def test_the_mark_is_not_written(tmp_path):
    made = model(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        [("x", TensorProto.UINT8, [2, 3])],
        [("y", TensorProto.INT32)],
        [("w", np.ones((3, 5), np.uint8))],
    )
    coreml.from_onnx(made, tmp_path / "m.mlmodel")
    written = (tmp_path / "m.mlmodel").read_bytes()
    assert b"keep_fp32" not in written and b"keep_int32" not in written
