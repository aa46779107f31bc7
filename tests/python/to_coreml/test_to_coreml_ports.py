"""What inputs and results are: element types, images, sizes. coremltools' own objects say the same."""

import re

import numpy as np
import pytest
import sardonyx
from command import sardonyx as run_command
from onnx import TensorProto as T
from sardonyx.compat.coremltools import convert
from test_to_coreml import Builder, check_types, normal, run_onnx

ct = pytest.importorskip("coremltools")

F16, F32, I32 = 65552, 65568, 131104  # ArrayFeatureType's numbers


def array(feature):
    return feature.type.multiArrayType


def two(first=T.FLOAT, second=T.FLOAT):
    b = Builder()
    model = b.model(z=b.op("Tanh", b.op("Add", b.input("x", [3, 5], first), b.input("y", [3, 1], second))))
    model.graph.output[0].type.tensor_type.elem_type = first
    return model


@pytest.mark.parametrize(
    ("options", "types"),
    [
        ({}, (F32, F32, F32)),
        ({"input_types": "fp16"}, (F16, F16, F32)),
        ({"input_types": {"y": "fp16"}}, (F32, F16, F32)),
        ({"output_types": "fp16"}, (F32, F32, F16)),
        ({"input_types": "fp16", "output_types": {"z": "fp16"}}, (F16, F16, F16)),
    ],
)
def test_types_of_inputs_and_results(tmp_path, options, types):
    path = tmp_path / "out.mlpackage"
    program = sardonyx.to_coreml(two(), output_path=path, **options)
    description = check_types(path).description
    assert tuple(array(f).dataType for f in [*description.input, *description.output]) == types
    one = normal("x", (3, 5), 1) | normal("y", (3, 1), 2)
    found = program.run(
        {name: v.astype(np.float16 if t == F16 else v.dtype) for (name, v), t in zip(one.items(), types)}
    )
    np.testing.assert_allclose(found["z"], run_onnx(two(), one)["z"], atol=4e-3)


def test_half_precision_inside_needs_no_cast_at_half_precision_ports(tmp_path):
    program = sardonyx.to_coreml(two(), input_types="fp16", output_types="fp16")
    assert {op: n for op, n in program.op_counts().items() if op != "const"} == {"add": 1, "tanh": 1}


def test_half_precision_of_the_model_may_become_single(tmp_path):
    path = tmp_path / "out.mlpackage"
    sardonyx.to_coreml(two(T.FLOAT16, T.FLOAT16), output_path=path, input_types={"x": "fp32"}, output_types="fp32")
    description = check_types(path).description
    assert [array(f).dataType for f in [*description.input, *description.output]] == [F32, F16, F32]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_types": {"w": "fp16"}}, "'w' is not an input of the model"),
        ({"output_types": {"x": "fp16"}}, "'x' is not a result of the model"),
        ({"input_types": "int8"}, "'int8' gives no element type"),
        ({"input_types": "fp16", "target": "iOS15"}, "half precision need iOS16"),
    ],
)
def test_impossible_types(tmp_path, options, message):
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.to_coreml(two(), output_path=tmp_path / "out.mlpackage", **options)
    assert list(tmp_path.iterdir()) == []


def test_integers_stay_when_all_floats_are_asked_for(tmp_path):
    b = Builder()
    model = b.model(y=b.op("Gather", b.input("table", [7, 5]), b.input("i", [3], T.INT64)))
    path = tmp_path / "out.mlpackage"
    sardonyx.to_coreml(model, output_path=path, input_types="fp16")
    assert [array(f).dataType for f in check_types(path).description.input] == [F16, I32]
    with pytest.raises(sardonyx.Error, match="'i' is i64, and only floats can be fp16"):
        sardonyx.to_coreml(model, input_types={"i": "fp16"})


def picture(channels, last=False, height=7, width=11):
    b = Builder()
    shape = [1, height, width, channels] if last else [1, channels, height, width]
    return b.model(y=b.op("Abs", b.input("x", shape)))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("color", "channels", "number"), [("rgb", 3, 20), ("bgr", 3, 30), ("gray", 1, 10), ("gray16", 1, 40)]
)
def test_images_in_and_out(tmp_path, color, channels, number, last):
    path = tmp_path / "out.mlpackage"
    model = picture(channels, last)
    program = sardonyx.to_coreml(model, output_path=path, image_inputs={"x": color}, image_outputs={"y": color})
    description = check_types(path).description
    for feature in [*description.input, *description.output]:
        image = feature.type.imageType
        assert (image.colorSpace, image.height, image.width) == (number, 7, 11)
    pixels = np.random.default_rng(3).integers(0, 256, (1, channels, 7, 11))
    pixels = pixels.astype(np.float16 if color == "gray16" else np.float32)
    found = program.run({"x": pixels})["y"]
    assert found.dtype == pixels.dtype
    np.testing.assert_array_equal(found, pixels)


def test_images_of_half_precision_are_scaled(tmp_path):
    how = {"color": "gray16", "scale": 0.5, "bias": [-3]}
    program = sardonyx.to_coreml(picture(1), image_inputs={"x": how}, precision="f32")
    pixels = np.full((1, 1, 7, 11), 17, np.float16)
    np.testing.assert_array_equal(program.run({"x": pixels})["y"], np.full((1, 1, 7, 11), 5.5))


def test_a_result_image_of_open_size_has_any_size(tmp_path):
    path = tmp_path / "out.mlpackage"
    sardonyx.to_coreml(
        picture(3, height="H", width="W"),
        output_path=path,
        sizes={"H": (None, 37), "W": (None, 41)},
        image_inputs={"x": "rgb"},
        image_outputs={"y": "rgb"},
    )
    (feature,) = check_types(path).description.output
    size = feature.type.imageType.imageSizeRange
    assert [(r.lowerBound, r.upperBound) for r in (size.heightRange, size.widthRange)] == [(1, -1), (1, -1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_outputs": {"x": "rgb"}}, "the image 'x' is not a result of the model"),
        ({"image_outputs": {"y": "gray"}}, r"'y' is f32\[1,3,7,11\], expected numbers of shape \[1,1,height,width\]"),
        ({"image_outputs": {"y": {"color": "rgb", "scale": 2}}}, "the image 'y' is a result, which has no scale"),
        ({"image_outputs": {"y": "cmyk"}}, "'y:cmyk' describes no image"),
        (
            {"image_inputs": {"x": "gray16"}, "target": "iOS15"},
            "images of half precision need iOS16",
        ),
    ],
)
def test_impossible_images(tmp_path, options, message):
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.to_coreml(picture(3), output_path=tmp_path / "out.mlpackage", **options)


def test_a_default_within_a_range(tmp_path):
    b = Builder()
    model, path = b.model(y=b.op("Sin", b.input("x", [1, "T", 3]))), tmp_path / "out.mlpackage"
    sardonyx.to_coreml(model, output_path=path, sizes={"T": (5, 37)}, default_sizes={"T": 17})
    (feature,) = check_types(path).description.input
    assert tuple(array(feature).shape) == (1, 17, 3)
    assert [(r.lowerBound, r.upperBound) for r in array(feature).shapeRange.sizeRanges] == [(1, 1), (5, 37), (3, 3)]
    for size, message in ((41, "41 is no default for the size 'T', which is from 5 to 37"), (3, "3 is no default")):
        with pytest.raises(sardonyx.Error, match=message):
            sardonyx.to_coreml(model, sizes={"T": (5, 37)}, default_sizes={"T": size})
    with pytest.raises(sardonyx.Error, match="no input has a size 'S'"):
        sardonyx.to_coreml(model, sizes={"T": (None, 37)}, default_sizes={"S": 5})


def test_unknown_names_in_keep_f32_are_errors(tmp_path):
    b = Builder()
    model = b.model(y=b.op("Erf", b.op("Tanh", b.input("x", [3, 5]))))
    with pytest.raises(sardonyx.Error, match=r"(?s)keep_f32 has 'Tanh_0_O', and no op .*did you mean 'Tanh_0_0'"):
        sardonyx.to_coreml(model, output_path=tmp_path / "out.mlpackage", keep_f32=["Tanh_0_O"])
    assert list(tmp_path.iterdir()) == []
    functions = {"a": model, "b": two()}
    with pytest.raises(sardonyx.Error, match="keep_f32 has 'other'"):
        sardonyx.to_coreml(functions=functions, target="iOS18", keep_f32=["Tanh_0_0", "other"])
    sardonyx.to_coreml(functions=functions, target="iOS18", keep_f32=["Tanh_0_0"])


def test_the_newest_target_is_written(tmp_path):
    path = tmp_path / "out.mlpackage"
    program = sardonyx.to_coreml(two(), output_path=path, target=ct.target.iOS26)
    spec = check_types(path)
    assert (spec.specificationVersion, spec.mlProgram.functions["main"].opset) == (10, "CoreML9")
    assert program.op_counts()["tanh"] == 1
    with pytest.raises(sardonyx.Error, match="expected iOS15, iOS16, iOS17, iOS18 or iOS26"):
        sardonyx.to_coreml(two(), target="iOS25")


def conv_net(pooled=True):
    """A network for images of 1 x 3 x 16 x 24."""
    b = Builder()
    x = b.op("Relu", b.op("Conv", b.input("x", [1, 3, 16, 24]), b.weight(5, 3, 3, 3), pads=[1] * 4))
    x = b.op("GlobalAveragePool", x) if pooled else x
    return b.model(y=b.op("Flatten", x) if pooled else b.op("MatMul", b.op("Flatten", x), b.weight(5 * 16 * 24, 7)))


def test_fixed_sizes_are_opened_by_name(tmp_path):
    model, path = conv_net(), tmp_path / "out.mlpackage"
    program = sardonyx.to_coreml(
        model,
        output_path=path,
        input_shapes={"x": (1, 3, "H", "W")},
        sizes={"H": (None, 64), "W": (None, 64)},
        precision="f32",
    )
    (feature,) = check_types(path).description.input
    assert [(r.lowerBound, r.upperBound) for r in array(feature).shapeRange.sizeRanges] == [
        (1, 1),
        (3, 3),
        (1, 64),
        (1, 64),
    ]
    open_model = conv_net()
    for axis, name in ((2, "H"), (3, "W")):
        open_model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    del open_model.graph.value_info[:]
    one = normal("x", (1, 3, 13, 31), 3)
    np.testing.assert_allclose(program.run(one)["y"], run_onnx(open_model, one)["y"], atol=1e-5)


def test_sizes_that_an_operator_fixes_are_not_opened(tmp_path):
    with pytest.raises(sardonyx.Error, match="the sizes of x cannot be opened: at twice the size, .*MatMul") as caught:
        sardonyx.to_coreml(
            conv_net(pooled=False), output_path=tmp_path / "out.mlpackage", input_shapes={"x": (1, 3, "H", "W")}
        )
    assert "export the model with these sizes open" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------------------------------------------
# coremltools' objects


def test_tensor_types(tmp_path):
    path = tmp_path / "out.mlpackage"
    b = Builder()
    model = b.model(z=b.op("Sin", b.op("Add", b.input("x", ["N", 3, "M"]), b.input("y", ["N", 1, "M"]))))
    n = ct.RangeDim(2, 37, default=5)
    inputs = [
        ct.TensorType(name="x", shape=(n, 3, 7), dtype=np.float16),
        ct.TensorType(name="y", shape=(n, 1, 7), dtype=np.float32),
    ]
    outputs = [ct.TensorType(name="z", dtype=np.float16)]
    convert(model, output_path=path, inputs=inputs, outputs=outputs, compute_precision=ct.precision.FLOAT16)
    description = check_types(path).description
    assert [array(f).dataType for f in [*description.input, *description.output]] == [F16, F32, F16]
    assert tuple(array(description.input[0]).shape) == (5, 3, 7)
    ranges = [(r.lowerBound, r.upperBound) for r in array(description.input[1]).shapeRange.sizeRanges]
    assert ranges == [(2, 37), (1, 1), (7, 7)]


def test_image_types_and_enumerated_shapes(tmp_path):
    path = tmp_path / "out.mlpackage"
    shapes = ct.EnumeratedShapes([(1, 3, 7, 11), (1, 3, 13, 17)], default=(1, 3, 13, 17))
    image = ct.ImageType(name="x", shape=shapes, scale=0.5, bias=[1.0, 2.0, 3.0], color_layout=ct.colorlayout.BGR)
    out = ct.ImageType(name="y", color_layout=ct.colorlayout.RGB)
    program = convert(
        picture(3, height="H", width="W"),
        output_path=path,
        inputs=[image],
        outputs=[out],
        compute_precision=ct.precision.FLOAT32,
    )
    description = check_types(path).description
    feature = description.input[0].type.imageType
    assert (feature.colorSpace, feature.height, feature.width) == (30, 13, 17)
    assert [(s.height, s.width) for s in feature.enumeratedSizes.sizes] == [(13, 17), (7, 11)]
    assert description.output[0].type.imageType.colorSpace == 20
    pixels = np.full((1, 3, 7, 11), 7, np.float32)
    np.testing.assert_allclose(program.run({"x": pixels})["y"][0, :, 0, 0], [4.5, 5.5, 6.5])


def test_classifier_configs(tmp_path):
    b = Builder()
    model = b.model(y=b.op("Softmax", b.op("MatMul", b.input("x", [1, 3]), b.weight(3, 2))))
    config = ct.ClassifierConfig(["cat", "dog"], predicted_feature_name="animal")
    program = convert(model, classifier_config=config)
    assert program.run(normal("x", (1, 3), 1))["animal"] in ("cat", "dog")
    with pytest.raises(sardonyx.Error, match="class_labels is an object of coremltools") as caught:
        sardonyx.to_coreml(model, class_labels=config)
    assert caught.value.notes == ("help: sardonyx.compat.coremltools.convert takes coremltools' objects",)


def test_state_types(tmp_path):
    b = Builder()
    model = b.model(y=b.op("Sin", b.input("s", [3, 5])), t=b.op("Add", b.input("x", [3, 5]), "s"))
    state = ct.StateType(wrapped_type=ct.TensorType(shape=(3, 5), dtype=np.float16), name="s")
    program = convert(model, states={state: "t"}, minimum_deployment_target=ct.target.iOS18)
    assert list(program.make_state()) == ["s"]
    with pytest.raises(sardonyx.Error, match=r"(?s)the state 's' does not name the result .*states=\{\"s\": "):
        convert(model, states=[state], minimum_deployment_target=ct.target.iOS18)


def test_objects_for_jax_functions(tmp_path):
    import jax.numpy as jnp

    path = tmp_path / "out.mlpackage"
    inputs = [
        ct.TensorType(name="table", shape=(11, 5), dtype=np.float16),
        ct.TensorType(name="i", shape=(ct.RangeDim(2, 37, default=7),), dtype=np.int32),
    ]
    program = convert(
        lambda table, i: jnp.sin(table)[i],
        inputs=inputs,
        output_path=path,
        output_names=["y"],
        outputs=[ct.TensorType(name="y", dtype=np.float16)],
    )
    description = check_types(path).description
    assert [array(f).dataType for f in [*description.input, *description.output]] == [F16, I32, F16]
    assert tuple(array(description.input[1]).shape) == (7,)
    assert [(r.lowerBound, r.upperBound) for r in array(description.input[1]).shapeRange.sizeRanges] == [(2, 37)]
    table = np.random.default_rng(3).standard_normal((11, 5)).astype(np.float16)
    found = program.run({"table": table, "i": np.array([3, 7, 0], np.int32)})["y"]
    np.testing.assert_allclose(found, np.sin(table)[[3, 7, 0]], atol=2e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": [ct.TensorType(shape=(3, 5))]}, "a TensorType has no name"),
        ({"inputs": [(3, 5)]}, "TensorType or ImageType objects, not"),
        (
            {"inputs": [ct.TensorType(name="x", shape=(3, 5), default_value=np.zeros((3, 5), np.float32))]},
            "an input with a default value",
        ),
        (
            {"inputs": [ct.ImageType(name="x", color_layout=ct.colorlayout.GRAYSCALE, grayscale_use_uint8=True)]},
            "grayscale_use_uint8 is not supported",
        ),
        (
            {"compute_precision": ct.transform.FP16ComputePrecision(lambda op: True)},
            "compute_precision is a function over ops",
        ),
    ],
)
def test_objects_that_cannot_be_written(tmp_path, options, message):
    with pytest.raises((sardonyx.Error, TypeError), match=message):
        convert(two(), output_path=tmp_path / "out.mlpackage", **options)


def test_the_command(tmp_path):
    import onnx

    onnx.save(picture(3, height="H", width="W"), tmp_path / "x.onnx")
    run_command(
        "convert", tmp_path / "x.onnx", "-o", tmp_path / "x.mlpackage", "--size", "2*H + 1 <= 75", "--size", "W <= 41",
        "--size", "H=17", "--image-input", "x:rgb", "--image-output", "y:bgr",
    )  # fmt: skip
    description = check_types(tmp_path / "x.mlpackage").description
    assert description.input[0].type.imageType.height == 17
    assert description.output[0].type.imageType.colorSpace == 30
    onnx.save(two(), tmp_path / "y.onnx")
    run_command(
        "convert",
        tmp_path / "y.onnx",
        "-o",
        tmp_path / "y.mlpackage",
        "--input-type",
        "x=fp16",
        "--output-type",
        "fp16",
    )
    description = check_types(tmp_path / "y.mlpackage").description
    assert [array(f).dataType for f in [*description.input, *description.output]] == [F16, F32, F16]


def test_images_are_values(tmp_path):
    """A sardonyx.Image says what a color and a mapping say; the bias of all channels may be one number."""
    made = []
    for how in ({"color": "bgr", "scale": 0.5, "bias": [-1, -1, -1]}, sardonyx.Image("bgr", scale=0.5, bias=-1)):
        sardonyx.to_coreml(picture(3), output_path=tmp_path / "x.mlpackage", image_inputs={"x": how})
        made.append(sardonyx.coreml.load(tmp_path / "x.mlpackage", mmap=False).text())
    assert made[0] == made[1] and "0.5" in made[0]


def test_what_is_made_of_the_table_of_options():
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[3] / "scripts" / "tables"))
    import inspect

    import keywords

    for table in keywords.TABLES:
        assert table.module_file.read_text() == table.module(), "run scripts/tables/keywords.py"
        assert table.page_file.read_text() == table.page(), "run scripts/tables/keywords.py"
    assert "input_types: Element types of inputs" in (sardonyx.to_coreml.__doc__ or "")
    assert inspect.signature(sardonyx.optimize).parameters["fold_budget"].default == 0
    with pytest.raises(TypeError, match="did you mean 'precision'"):
        sardonyx.to_coreml(lambda x: x, [(3,)], precisoin="f16")
    for old, new in (
        ({"compute_precision": "f16"}, 'precision="f16"'),
        ({"minimum_deployment_target": "iOS16"}, 'target="iOS17"'),
        ({"skip_ops": "auto"}, 'keep_f32=["name", ...]'),
    ):
        with pytest.raises(TypeError, match=re.escape(f"help: {new}")):
            sardonyx.to_coreml(lambda x: x, [(3,)], **old)
    with pytest.raises(TypeError, match=r'help: metadata=\{"author": ...\}'):
        sardonyx.to_coreml("x.onnx", author="A")


def test_source_lines_may_be_left_out(tmp_path):
    def net(x):
        return x + x

    for provenance in (True, False):
        sardonyx.to_coreml(net, [(3, 5)], output_path=tmp_path / "x.mlpackage", provenance=provenance)
        metadata = check_types(tmp_path / "x.mlpackage").description.metadata.userDefined
        assert ("com.github.sardonyx.source_file" in metadata) == provenance
    (tmp_path / "in.sx").write_text("graph(x: f32[3]) {\n  y = Neg(x)\n  return y\n}\n")
    run_command("convert", tmp_path / "in.sx", "-o", tmp_path / "y.mlpackage", "--provenance", "off")
