"""What packages say of themselves: class labels, enumerated shapes, several functions, metadata. coremltools reads them back."""

import inspect

import numpy as np
import onnx
import pytest
import sardonyx
from command import sardonyx as run_command
from onnx import TensorProto as T
from sardonyx import coreml
from test_to_coreml import WEIGHTS, Builder, check_types, cnn, mlp, normal, run_onnx, spec_of

ct = pytest.importorskip("coremltools")

LABELS = ["cat", "dog", "emu", "fox", "gnu"]


def classifier(tmp_path, labels=LABELS, **options):
    path = tmp_path / "out.mlpackage"
    options = {"input_shapes": {"x": (1, 11)}, "precision": "f32", "class_labels": labels} | options
    return sardonyx.to_coreml(mlp(), output_path=path, **options), path


@pytest.mark.parametrize("labels", [LABELS, [3, 5, -7, 11, 13], "file"])
def test_class_labels(tmp_path, labels):
    if labels == "file":
        (tmp_path / "labels.txt").write_text("cat\r\ndög\nemu\nfox\ngnu\n", encoding="utf-8")
        labels = tmp_path / "labels.txt"
        expected = ["cat", "dög", *LABELS[2:]]
    else:
        expected = labels
    program, path = classifier(tmp_path, labels)
    description = check_types(path).description
    assert (description.predictedFeatureName, description.predictedProbabilitiesName) == (
        "classLabel",
        "classLabel_probs",
    )
    label, probabilities = description.output
    kind = "int64" if isinstance(expected[0], int) else "string"
    assert (label.name, label.type.WhichOneof("Type")) == ("classLabel", f"{kind}Type")
    assert probabilities.type.dictionaryType.WhichOneof("KeyType") == f"{kind}KeyType"
    assert program.op_counts()["classify"] == 1
    one = normal("x", (1, 11), 1)
    wanted = run_onnx(mlp(), one)["y"][0]
    found = program.run(one)
    assert found["classLabel"] == expected[int(wanted.argmax())]
    assert list(found["classLabel_probs"]) == expected
    np.testing.assert_allclose(list(found["classLabel_probs"].values()), wanted, atol=1e-6)


@pytest.mark.parametrize("labels", [LABELS, [3, 5, -7, 11, 13]])
def test_a_classifier_can_be_checked_and_optimized(tmp_path, labels):
    program, path = classifier(tmp_path, labels)
    one = normal("x", (1, 11), 1)
    assert "no faults" in run_command("check", path).stdout
    run_command("optimize", path, tmp_path / "again.mlpackage")
    again = coreml.load(tmp_path / "again.mlpackage")
    assert again.op_counts()["classify"] == 1
    assert again.run(one)["classLabel_probs"] == program.run(one)["classLabel_probs"]
    np.savez(tmp_path / "one.npz", **one)
    run_command("run", path, "-i", tmp_path / "one.npz", "-o", tmp_path / "y.npz")
    with np.load(tmp_path / "y.npz", allow_pickle=True) as y:
        found = dict(zip(y["classLabel_probs.keys"].tolist(), y["classLabel_probs.values"].tolist(), strict=True))
    assert found == program.run(one)["classLabel_probs"]


def test_a_program_that_was_made_without_a_path_is_saved(tmp_path):
    inputs = normal("x", (2, 11), 1)
    program = sardonyx.to_coreml(mlp(), input_shapes={"x": (2, 11)}, precision="f32")
    for name in ("a.mlpackage", "b/b.mlmodel"):
        program.save(tmp_path / name)
        again = coreml.load(tmp_path / name)
        np.testing.assert_array_equal(again.run(inputs)["y"], program.run(inputs)["y"])


def test_programs_are_compared_like_paths(tmp_path):
    for precision in ("fp16", "fp32"):
        program = sardonyx.to_coreml(
            mlp(), output_path=tmp_path / "a.mlpackage", precision=precision, sizes={"N": (None, 7)}
        )
        assert sardonyx.compare(mlp(), program) and sardonyx.compare(program, tmp_path / "a.mlpackage")
        assert sardonyx.info(program).ops == sardonyx.info(tmp_path / "a.mlpackage").ops


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_a_jax_function_and_its_program(tmp_path, precision):
    jnp = pytest.importorskip("jax.numpy")

    def f(x, i):
        return jnp.tanh(x) * 50, (x > 0).any(-1), i + 3

    shapes = [("B <= 7", 3), "i32[5]"]
    program = sardonyx.to_coreml(f, shapes, output_path=tmp_path / "f.mlpackage", precision=precision)
    for model in (program, tmp_path / "f.mlpackage"):
        same, text = sardonyx.compare(f, model, shapes)
        assert same, text
    same, _ = sardonyx.compare(f, program, shapes, rtol=1e-6, atol=1e-6)
    assert same == (precision == "fp32")
    same, text = sardonyx.compare(lambda x, i: (jnp.tanh(x) * 53, *f(x, i)[1:]), program, shapes)
    assert not same and "result 0" in text


def test_inputs_of_run_that_are_no_inputs():
    program = sardonyx.to_coreml(mlp(), input_shapes={"x": (2, 11)}, precision="f32")
    (x,) = normal("x", (2, 11), 1).values()
    with pytest.raises(TypeError, match=r"the inputs are ndarray(.|\n)*run\(\{'x': ...\}\)"):
        program.run(x)
    with pytest.raises(TypeError, match="the second argument is the name of a function, not ndarray"):
        program.run([x], x)
    with pytest.raises(sardonyx.Error, match="2 inputs are given, and the function has 1: x"):
        program.run([x, x])
    ranged = sardonyx.to_coreml(mlp(), sizes={"N": (2, 7)}, precision="f32")
    assert ranged.run({"x": x})["y"].shape[0] == 2
    for rows in (1, 11):
        with pytest.raises(
            sardonyx.Error, match=rf"input 'x' is f32\[{rows},11\], and the program takes 2 to 7 at axis 0"
        ):
            ranged.run({"x": np.zeros((rows, 11), np.float32)})


def test_a_model_file_in_the_current_folder(tmp_path, monkeypatch):
    onnx.save(mlp(), tmp_path / "mlp.onnx")
    monkeypatch.chdir(tmp_path)
    run_command("convert", "mlp.onnx", "-o", "mlp.mlmodel", "--input-shape", "x:1,11")
    one = normal("x", (1, 11), 1)
    np.testing.assert_allclose(coreml.load("mlp.mlmodel").run(one)["y"], run_onnx(mlp(), one)["y"], atol=1e-2)


def test_ranges_have_an_upper_end(tmp_path):
    """Core ML: "Unbounded ranges are not permitted"."""
    with pytest.warns(UserWarning, match="takes up to 4096"):
        sardonyx.to_coreml(mlp(), output_path=tmp_path / "a.mlpackage", input_shapes={"x": ("B", 11)})
    sizes = check_types(tmp_path / "a.mlpackage").description.input[0].type.multiArrayType.shapeRange.sizeRanges
    assert [(r.lowerBound, r.upperBound) for r in sizes] == [(1, 4096), (11, 11)]
    sardonyx.to_coreml(
        mlp(), output_path=tmp_path / "b.mlpackage", input_shapes={"x": ("B", 11)}, sizes={"B": (5000, None)}
    )
    sizes = check_types(tmp_path / "b.mlpackage").description.input[0].type.multiArrayType.shapeRange.sizeRanges
    assert [(r.lowerBound, r.upperBound) for r in sizes] == [(5000, 10000), (11, 11)]


def test_a_classifier_is_what_coremltools_makes(tmp_path):
    """The same program by hand: the description and the op differ in nothing."""
    from coremltools.converters.mil import Builder as mb

    @mb.program([mb.TensorSpec((1, 5))], opset_version=ct.target.iOS17)
    def program(x):
        return mb.softmax(x=x, axis=-1, name="y")

    model = ct.convert(
        program,
        minimum_deployment_target=ct.target.iOS17,
        compute_precision=ct.precision.FLOAT32,
        classifier_config=ct.ClassifierConfig(LABELS),
        skip_model_load=True,
    )
    b = Builder()
    source = b.model(y=b.op("Softmax", b.input("x", [1, 5]), axis=-1))
    path = tmp_path / "out.mlpackage"
    sardonyx.to_coreml(source, output_path=path, precision="f32", class_labels=LABELS)
    theirs, ours = model.get_spec(), check_types(path)

    def of(spec):
        description = type(spec.description).FromString(spec.description.SerializeToString())
        description.ClearField("metadata")
        block = spec.mlProgram.functions["main"].block_specializations["CoreML7"]
        classify = block.operations[-1]
        (labels,) = classify.inputs["classes"].arguments
        value = labels.value if labels.WhichOneof("binding") == "value" else None
        if value is None:
            (const,) = (op for op in block.operations if op.outputs and op.outputs[0].name == labels.name)
            value = const.attributes["val"]
        return description, list(block.outputs), classify.type, [o.type for o in classify.outputs], value.immediateValue

    assert of(ours) == of(theirs)


def test_labels_of_half_precision_results_are_single_precision(tmp_path):
    program, path = classifier(tmp_path, precision="f16")
    check_types(path)
    one = normal("x", (1, 11), 1)
    wanted = run_onnx(mlp(), one)["y"][0]
    assert program.run(one)["classLabel"] == LABELS[int(wanted.argmax())]


def two_heads(n=5):
    b = Builder()
    x = b.input("x", [1, n])
    return b.model(first=b.op("Softmax", x), second=b.op("Sigmoid", x))


def test_the_classified_result_may_be_named(tmp_path):
    path = tmp_path / "out.mlpackage"
    program = sardonyx.to_coreml(
        two_heads(),
        output_path=path,
        class_labels=sardonyx.Classifier(LABELS, name="animal", probabilities="second"),
    )
    description = check_types(path).description
    assert [f.name for f in description.output] == ["animal", "animal_probs", "first"]
    found = program.run({"x": np.array([[1, 2, 7, 3, 4]], np.float32)})
    assert found["animal"] == "emu" and found["first"].shape == (1, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_labels": LABELS[:4]}, "there are 4 class labels, and no result of floats has as many elements"),
        ({"class_labels": LABELS}, "2 results have one element for each of the 5 class labels"),
        ({"class_labels": sardonyx.Classifier(LABELS, probabilities="third")}, "no result 'third' to classify"),
        (
            {"class_labels": sardonyx.Classifier(LABELS[:3], probabilities="first")},
            r"'first' is f32\[1,5\], and there are 3",
        ),
        (
            {"class_labels": sardonyx.Classifier(LABELS, "x", "first")},
            "input or result 'x'",
        ),
        (
            {"class_labels": sardonyx.Classifier(LABELS, "a b", "first")},
            "not a name",
        ),
        ({"class_labels": []}, "the list of class labels is empty"),
        ({"class_labels": [1, "a"]}, "class_labels are strings, or numbers"),
        ({"class_labels": [True] * 5}, "class_labels are strings, or numbers"),
        ({"class_labels": [2**63] * 5}, "numbers of 64 bits"),
        ({"class_labels": 5}, "class_labels are strings, or numbers"),
        ({"class_labels": "no_such_file"}, "no_such_file"),
        ({"predicted_feature_name": "a"}, r"class_labels=sardonyx.Classifier\(labels, name="),
    ],
)
def test_impossible_labels(tmp_path, options, message):
    with pytest.raises((sardonyx.Error, TypeError), match=message):
        sardonyx.to_coreml(two_heads(), output_path=tmp_path / "out.mlpackage", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("content", "message"), [(b"", "lists no class labels"), (b"caf\xe9\n", "is not UTF-8")])
def test_impossible_files_of_labels(tmp_path, content, message):
    (tmp_path / "labels").write_bytes(content)
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.to_coreml(mlp(), output_path=tmp_path / "out.mlpackage", class_labels=tmp_path / "labels")
    assert [p.name for p in tmp_path.iterdir()] == ["labels"]


def of_open_size():
    b = Builder()
    x = b.input("x", ["N", 3, "H", "W"])
    y = b.op("Relu", b.op("Conv", x, b.weight(5, 3, 3, 3), pads=[1, 1, 1, 1]))
    return b.model(y=b.op("GlobalAveragePool", y))


SHAPES = [(1, 3, 7, 11), (1, 3, 13, 17), (1, 3, 19, 7)]


def test_enumerated_shapes(tmp_path):
    path = tmp_path / "out.mlpackage"
    program = sardonyx.to_coreml(of_open_size(), output_path=path, enumerated_shapes={"x": SHAPES}, precision="f32")
    (feature,) = check_types(path).description.input
    array = feature.type.multiArrayType
    assert tuple(array.shape) == SHAPES[0]
    assert [tuple(s.shape) for s in array.enumeratedShapes.shapes] == SHAPES
    for shape in SHAPES:
        one = normal("x", shape, shape[2])
        np.testing.assert_allclose(program.run(one)["y"], run_onnx(of_open_size(), one)["y"], atol=1e-5)


def pair(first, second):
    b = Builder()
    x, y = b.input("x", first), b.input("y", second)
    return b.model(z=b.op("Add", x, y))


def test_enumerated_shapes_of_several_inputs_follow_from_the_names(tmp_path):
    path = tmp_path / "out.mlpackage"
    shapes = {"x": [(5, 3), (7, 3), (11, 3)]}
    model = pair(["T", 3], ["T", 1])
    program = sardonyx.to_coreml(model, output_path=path, enumerated_shapes=shapes, target="iOS18", precision="f32")
    x, y = (f.type.multiArrayType for f in check_types(path).description.input)
    assert [tuple(s.shape) for s in x.enumeratedShapes.shapes] == shapes["x"]
    assert [tuple(s.shape) for s in y.enumeratedShapes.shapes] == [(5, 1), (7, 1), (11, 1)]
    one = normal("x", (7, 3), 1) | normal("y", (7, 1), 2)
    np.testing.assert_allclose(program.run(one)["z"], one["x"] + one["y"], rtol=1e-6)


@pytest.mark.parametrize("enumerated", [False, True])
def test_images_of_several_sizes(tmp_path, enumerated):
    b = Builder()
    model, path = b.model(y=b.op("Sin", b.input("x", [1, 3, "H", "W"]))), tmp_path / "out.mlpackage"
    how = {"enumerated_shapes": {"x": SHAPES}} if enumerated else {"sizes": {"H": (None, 37), "W": (5, 41)}}
    program = sardonyx.to_coreml(model, output_path=path, image_inputs={"x": "rgb"}, precision="f32", **how)
    (feature,) = check_types(path).description.input
    image = feature.type.imageType
    if enumerated:
        assert [(s.height, s.width) for s in image.enumeratedSizes.sizes] == [s[2:] for s in SHAPES]
        assert (image.height, image.width) == SHAPES[0][2:]
    else:
        height, width = image.imageSizeRange.heightRange, image.imageSizeRange.widthRange
        assert [(r.lowerBound, r.upperBound) for r in (height, width)] == [(1, 37), (5, 41)]
    pixels = np.random.default_rng(3).integers(0, 256, SHAPES[1]).astype(np.float32)
    np.testing.assert_allclose(program.run({"x": pixels})["y"], np.sin(pixels), atol=1e-6)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (of_open_size, {"y": SHAPES}, "shapes for 'y', which is not an input"),
        (of_open_size, {"x": SHAPES[:1]}, "has 1 enumerated shape"),
        (
            of_open_size,
            {"x": [(1, 3, 7), (1, 3, 11)]},
            r"the shape \(1, 3, 7\) of the input 'x' has 3 axes, expected 4",
        ),
        (of_open_size, {"x": [(1, 3, 7, 7), (1, 5, 7, 7)]}, "axis 1 of the input 'x' is 3, and its enumerated shapes"),
        (of_open_size, {"x": [(1, 3, 7, 7), (1, 3, 0, 7)]}, "has a size below 1"),
        (of_open_size, {"x": [SHAPES[0], SHAPES[0]]}, r"shape \(1, 3, 7, 11\) is listed twice"),
        (of_open_size, {"x": [(1, 3, 7.5, 7)]}, "a list of shapes of whole numbers"),
        (of_open_size, {"x": 5}, "a list of shapes of whole numbers"),
        (of_open_size, 5, "a mapping of inputs to lists of shapes"),
        (lambda: pair(["T", "T"], [1]), {"x": [(3, 5), (7, 7)]}, "the size 'T' would be both 3 and 5"),
        (
            lambda: pair(["T", 3], ["T", 1]),
            {"x": [(5, 3), (7, 3)]},
            "2 inputs have enumerated shapes, and before iOS18",
        ),
        (lambda: pair(["T", 3], ["S", 1]), {"x": [(5, 3), (7, 3)]}, "no enumerated shape says what its size S is"),
        (
            lambda: pair(["T", 3], ["S", 1]),
            {"x": [(5, 3), (7, 3)], "y": [(1, 1)] * 3},
            "has 2 enumerated shapes and 'y' has 3",
        ),
    ],
)
def test_impossible_enumerated_shapes(tmp_path, model, options, message):
    with pytest.raises((sardonyx.Error, TypeError), match=message):
        sardonyx.to_coreml(model(), output_path=tmp_path / "out.mlpackage", enumerated_shapes=options)
    assert list(tmp_path.iterdir()) == []


def test_enumerated_shapes_beyond_a_stated_bound(tmp_path):
    with pytest.raises(sardonyx.Error, match="gives 'H' the size 19"):
        sardonyx.to_coreml(
            of_open_size(),
            output_path=tmp_path / "o.mlpackage",
            enumerated_shapes={"x": SHAPES},
            sizes={"H": (None, 17)},
        )


def step(length, width=31, rows=67):
    """The same weights, for sequences of different lengths."""
    b = Builder()
    ids = b.input("ids", [1, length], T.INT64)
    x = b.op("Gather", b.weight(rows, width), ids)
    return b.model(logits=b.op("MatMul", b.op("Tanh", x), b.weight(width, rows)))


def test_functions_share_weights(tmp_path):
    path = tmp_path / "both.mlpackage"
    models = {"prefill": step("T"), "decode": step(1)}
    program = sardonyx.to_coreml(
        functions=models,
        output_path=path,
        sizes={"T": (None, 59)},
        target="iOS18",
        precision="f32",
        metadata=sardonyx.Metadata(author="A"),
    )
    spec = spec_of(path)
    functions = spec.description.functions
    assert [f.name for f in functions] == ["prefill", "decode"] and spec.description.defaultFunctionName == "prefill"
    assert spec.description.metadata.author == "A" and not spec.description.input
    ranges = functions[0].input[0].type.multiArrayType.shapeRange.sizeRanges
    assert [(r.lowerBound, r.upperBound) for r in ranges] == [(1, 1), (1, 59)]
    assert list(functions[1].input[0].type.multiArrayType.shape) == [1, 1]
    assert set(spec.mlProgram.functions) == {"prefill", "decode"}
    sardonyx.to_coreml(step(1), output_path=tmp_path / "one.mlpackage", target="iOS18", precision="f32")
    assert (path / WEIGHTS).stat().st_size == (tmp_path / "one.mlpackage" / WEIGHTS).stat().st_size
    for name, length in (("prefill", 7), ("decode", 1)):
        ids = np.random.default_rng(length).integers(0, 67, (1, length))
        found = program.run({"ids": ids.astype(np.int32)}, function=name)["logits"]
        np.testing.assert_allclose(found, run_onnx(models[name], {"ids": ids})["logits"], atol=1e-5)


def test_functions_are_what_coremltools_reads(tmp_path):
    """coremltools joins packages itself; both results have the same functions."""
    for name, length in (("a", 5), ("b", 7)):
        sardonyx.to_coreml(
            step(length),
            output_path=tmp_path / f"{name}.mlpackage",
            target="iOS18",
            precision="f32",
        )
    joined = ct.utils.MultiFunctionDescriptor()
    for name in ("a", "b"):
        joined.add_function(str(tmp_path / f"{name}.mlpackage"), src_function_name="main", target_function_name=name)
    joined.default_function_name = "a"
    ct.utils.save_multifunction(joined, str(tmp_path / "theirs.mlpackage"))
    ours = tmp_path / "ours.mlpackage"
    sardonyx.to_coreml(
        functions={"a": step(5), "b": step(7)},
        output_path=ours,
        target="iOS18",
        precision="f32",
    )

    def described(path):
        description = spec_of(path).description
        return description.defaultFunctionName, sorted(
            f.SerializeToString(deterministic=True) for f in description.functions
        )

    assert described(ours) == described(tmp_path / "theirs.mlpackage")


def test_jax_functions_with_a_common_state(tmp_path):
    pytest.importorskip("jax.numpy")

    def push(x, total):
        return x.sum(0), total + x.sum(0)

    program = sardonyx.to_coreml(
        functions={"many": (push, [(5, 3), (3,)]), "one": (push, [(1, 3), (3,)])},
        states={"total": 1},
        output_path=tmp_path / "both.mlpackage",
        target="iOS18",
        precision="f32",
    )
    description = spec_of(tmp_path / "both.mlpackage").description
    assert [[s.name for s in f.state] for f in description.functions] == [["total"], ["total"]]
    kept = program.make_state()
    program.run({"x": np.ones((5, 3), np.float32)}, state=kept)
    program.run({"x": np.ones((1, 3), np.float32)}, state=kept, function="one")
    np.testing.assert_array_equal(kept["total"], np.full(3, 6, np.float16))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "iOS17"}, "several functions need iOS18"),
        ({"functions": {}}, "needs at least one"),
        ({"functions": {"a b": step(3)}}, "'a b' is not a name for a function"),
        ({"functions": {"state": step(3)}}, "'state' is not a name for a function"),
        ({"functions": [("a", 1)]}, "functions are a mapping of names to models"),
        ({"source": step(3)}, "one source, or functions, and not both"),
        ({"class_labels": ["a"]}, "cannot have class labels"),
        ({"states": {"cache": "logits"}}, "no function has an input 'cache' and a result 'logits'"),
        ({"sizes": {"T": (None, 7)}}, "no function has a size 'T', which is to be bounded"),
        ({"image_inputs": {"x": "rgb"}}, "no function has an input 'x', which is to be an image"),
        (
            {"enumerated_shapes": {"x": [(1,), (2,)]}},
            "no function has an input 'x', which is to be of enumerated shapes",
        ),
    ],
)
def test_impossible_functions(tmp_path, options, message):
    given = {"functions": {"a": step(5), "b": step(7)}, "target": "iOS18"} | options
    with pytest.raises((sardonyx.Error, TypeError), match=message):
        sardonyx.to_coreml(output_path=tmp_path / "o.mlpackage", **given)
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_a_function_names_it(tmp_path):
    b = Builder()
    bad = b.model(y=b.op("Det", b.input("x", [5, 5])))
    with pytest.raises(sardonyx.Error, match="in the function 'bad'"):
        sardonyx.to_coreml(
            functions={"good": step(3), "bad": bad},
            output_path=tmp_path / "o.mlpackage",
            target="iOS18",
        )
    assert list(tmp_path.iterdir()) == []


def single(path):
    """The ops that compute in single precision, as coremltools reads the file."""
    spec = check_types(path)
    block = spec.mlProgram.functions["main"].block_specializations["CoreML7"]
    float32 = 11
    return [
        op.type
        for op in block.operations
        if op.type not in ("const", "cast") and op.outputs[0].type.tensorType.dataType == float32
    ]


def test_what_overflows_in_half_precision_stays_in_single(tmp_path):
    """exp of 17 to 23 is beyond 65504; its logarithm and the tanh are not."""
    b = Builder()
    steep = b.op("Tanh", b.input("x", [5, 7]))
    far = b.op("Add", b.op("Mul", steep, b.constant(np.float32(3))), b.constant(np.float32(20)))
    model = b.model(y=b.op("Log", b.op("Exp", far)), z=b.op("Add", steep, b.constant(np.float32(1))))
    path, one = tmp_path / "auto.mlpackage", normal("x", (5, 7), 3)
    wanted = run_onnx(model, one)
    with pytest.warns(UserWarning, match=r"(?s)stay in single precision.*exp.*overflows.*log.*overflows"):
        program = sardonyx.to_coreml(model, output_path=path, keep_f32="auto")
    assert single(path) == ["exp", "log"]
    for name, y in program.run(one).items():
        np.testing.assert_allclose(y, wanted[name], rtol=2e-3, atol=2e-3)
    # Bounds tell as much; without any protection the same ops overflow.
    with pytest.warns(UserWarning, match=r"(?s)stay in single precision.*exp.*no bound"):
        sardonyx.to_coreml(model, output_path=tmp_path / "bounds.mlpackage")
    assert single(tmp_path / "bounds.mlpackage") == ["exp", "log"]
    plain = sardonyx.to_coreml(
        model, output_path=tmp_path / "plain.mlpackage", options={"add_fp16_cast.protect": False}
    )
    assert single(tmp_path / "plain.mlpackage") == []
    assert np.isinf(plain.run(one)["y"]).all()


def test_the_report_has_the_line_of_an_op_that_stays_single(tmp_path):
    jnp = pytest.importorskip("jax.numpy")

    def steep(x):
        y = jnp.tanh(x) * 1e5
        return jnp.arctan(y), x + 1

    line = inspect.getsourcelines(steep)[1] + 1
    path = tmp_path / "auto.mlpackage"
    with pytest.warns(UserWarning) as caught:
        program = sardonyx.to_coreml(steep, [(3, 5)], output_path=path, keep_f32="auto")
    (text,) = (str(w.message) for w in caught if "single precision" in str(w.message))
    assert "mul(" in text and f"at test_to_coreml_interface.py:{line}" in text
    assert single(path) == ["mul", "atan"]
    x = np.random.default_rng(3).standard_normal((3, 5)).astype(np.float32)
    first, second = program.run([x]).values()
    # tanh is rounded to half precision before it is multiplied: 1e5 * 2**-12.
    assert np.isfinite(first).all() and np.abs(first).max() <= 1.6
    np.testing.assert_allclose(second, x + 1, atol=2**-10 * np.abs(x).max())


def test_ops_that_stay_single_may_be_named(tmp_path):
    b = Builder()
    model = b.model(y=b.op("Erf", b.op("Tanh", b.input("x", [3, 5]))))
    path = tmp_path / "out.mlpackage"
    sardonyx.to_coreml(model, output_path=path, precision="f32")
    block = spec_of(path).mlProgram.functions["main"].block_specializations["CoreML7"]
    (name,) = (op.outputs[0].name for op in block.operations if op.type == "tanh")
    sardonyx.to_coreml(model, output_path=path, keep_f32=[name])
    assert single(path) == ["tanh"]
    with pytest.raises(sardonyx.Error, match="keep_f32 must be a name or a list of names"):
        sardonyx.to_coreml(model, output_path=path, keep_f32=5)


def test_metadata_says_where_a_model_comes_from(tmp_path):
    model = mlp()
    model.producer_name, model.producer_version = "maker", "2.7"
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    sardonyx.to_coreml(tmp_path / "net.onnx", output_path=tmp_path / "o.mlpackage", metadata={"key": "value"})
    loaded = ct.models.MLModel(str(tmp_path / "o.mlpackage"), skip_model_load=True)
    found = {k.removeprefix("com.github.sardonyx."): v for k, v in loaded.user_defined_metadata.items()}
    assert found == {
        "key": "value",
        "source": "maker==2.7",
        "source_dialect": "ONNX opset 17",
        "source_file": "net.onnx",
        "version": sardonyx.__version__,
    }


def test_metadata_has_the_line_of_a_jax_function(tmp_path):
    jax = pytest.importorskip("jax")

    def net(x):
        return jax.numpy.tanh(x)

    path = tmp_path / "o.mlpackage"
    sardonyx.to_coreml(
        net, [(2, 3)], output_path=path, metadata={"author": "A", "license": "L", "version": "3", "description": "D"}
    )
    loaded = ct.models.MLModel(str(path), skip_model_load=True)
    assert (loaded.author, loaded.license, loaded.version, loaded.short_description) == ("A", "L", "3", "D")
    found = loaded.user_defined_metadata
    assert found["com.github.sardonyx.source"] == f"jax=={jax.__version__}"
    assert found["com.github.sardonyx.source_dialect"] == "JAX"
    assert found["com.github.sardonyx.source_file"] == "test_to_coreml_interface.py"
    assert found["com.github.sardonyx.source_line"] == str(inspect.getsourcelines(net)[1])


def test_the_command(tmp_path):
    for name, model in (("net", cnn()), ("prefill", step("T")), ("decode", step(1))):
        (tmp_path / f"{name}.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "labels.txt").write_text("\n".join(LABELS))
    shapes = ["--input-shape", "image:1,3,19,23", "--input-shape", "image:2,3,19,23"]
    run_command("convert", tmp_path / "net.onnx", "-o", tmp_path / "a.mlpackage", *shapes)
    (feature,) = spec_of(tmp_path / "a.mlpackage").description.input
    assert [s.shape[0] for s in feature.type.multiArrayType.enumeratedShapes.shapes] == [1, 2]
    labels = ["--class-labels", tmp_path / "labels.txt", "--input-shape", "image:1,3,19,23"]
    run_command("convert", tmp_path / "net.onnx", "-o", tmp_path / "b.mlpackage", *labels)
    assert spec_of(tmp_path / "b.mlpackage").description.predictedFeatureName == "classLabel"
    functions = [f"--function={name}={tmp_path / name}.onnx" for name in ("prefill", "decode")]
    run_command("convert", *functions, "-o", tmp_path / "c.mlpackage", "--target", "iOS18")
    assert [f.name for f in spec_of(tmp_path / "c.mlpackage").description.functions] == ["prefill", "decode"]
    for wrong, message in (
        ([tmp_path / "net.onnx", *functions], "expected a model, or models as functions"),
        ([], "what to convert is missing"),
        (
            [tmp_path / "net.onnx", "--input-shape", "image:1,a", "--input-shape", "image:1,b"],
            "is not the shape of an input",
        ),
        ([tmp_path / "net.onnx", "--input-shape", "image"], "'image' is not an input shape"),
        ([tmp_path / "net.onnx", "--input-shape", "image:1,,3"], "'image:1,,3' is not an input shape"),
        ([tmp_path / "net.onnx", "--size", "B*H <= 7"], "'B*H <= 7' gives no range of one size"),
        ([tmp_path / "net.onnx", "--size", "B is 7"], "'B is 7' gives no range of one size"),
        ([tmp_path / "net.onnx", "--size", "B=many"], "expected a size as T=128, found 'many'"),
        (["--function", "prefill"], "expected a function as name=model.onnx"),
        ([functions[0], functions[0], "--target", "iOS18"], "two functions are called 'prefill'"),
    ):
        done = run_command("convert", *wrong, "-o", tmp_path / "d.mlpackage", ok=False)
        assert done.returncode != 0 and message in done.stderr
        assert not (tmp_path / "d.mlpackage").exists()
