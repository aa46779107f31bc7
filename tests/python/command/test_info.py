"""`sardonyx info` on Core ML packages."""

import json

import numpy as np
import onnx
import pytest
from command import sardonyx as command
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture
def convolution(tmp_path):
    value = helper.make_tensor_value_info
    w = numpy_helper.from_array(np.ones((5, 3, 3, 3), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])], "g", [value("x", TensorProto.FLOAT, ["B", 3, 11, 13])],
        [value("y", TensorProto.FLOAT, ["B", 5, 9, 11])], [w],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_convolutions_of_packages_have_a_cost(convolution, tmp_path):
    package = tmp_path / "m.mlpackage"
    command("convert", convolution, "-o", package, "--input-shape", "x:1,3,11,13")
    (told,) = json.loads(command("info", package, "--json").stdout)
    assert told["nodes_without_cost"] == 0 and told["work"]["flops_at"] >= 2 * (5 * 9 * 11) * (3 * 3 * 3)


def test_an_open_size_has_its_range(convolution, tmp_path):
    package = tmp_path / "m.mlpackage"
    command("convert", convolution, "-o", package, "--size", "B <= 7", "--size", "B >= 2")
    (told,) = json.loads(command("info", package, "--json").stdout)
    assert [(s["min"], s["max"]) for s in told["sizes"]] == [(2, 7)]


def test_an_image_input_is_an_image(convolution, tmp_path):
    package = tmp_path / "m.mlpackage"
    command("convert", convolution, "-o", package, "--input-shape", "x:1,3,11,13", "--image-input", "x:bgr")
    assert "x: f32[1,3,11,13]  BGR image, 13 x 11 (width x height)" in command("info", package).stdout
    (told,) = json.loads(command("info", package, "--json").stdout)
    assert told["inputs"][0]["image"] == "BGR image, 13 x 11 (width x height)"
