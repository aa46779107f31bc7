"""Core ML passes that change a program's inputs and outputs, in memory and on files."""

import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import command  # noqa: E402
import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
import numpy as np  # noqa: E402
from coremltools.converters.mil import mil  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from mil_programs import mb  # noqa: E402
from sardonyx import coreml  # noqa: E402
from test_coreml_memory import twice  # noqa: E402
from test_coreml_passes import RNG, canonical, load, same, w  # noqa: E402
from test_coreml_passes import build as build_program


def spec_of(package):
    spec = ct.proto.Model_pb2.Model()
    spec.ParseFromString((package / "Data/com.apple.CoreML/model.mlmodel").read_bytes())
    return spec


def both(build, *names, options=None):
    """The program after coremltools' passes, and after Sardonyx's."""
    first, second = twice(RNG, build)
    with programs.quiet():
        for name in names:
            PASS_REGISTRY[f"common::{name}"](first)
    for name in names:
        coreml.apply_pass(second, f"common::{name}", **(options or {}))
    second.validate()
    assert same(canonical(second), canonical(first)), f"{second}\n{first}"
    assert list(second.functions["main"].inputs) == list(first.functions["main"].inputs)
    return first.functions["main"], second.functions["main"]


def test_names_become_identifiers():
    def build():
        specs = {"x/0": (2, 3), "1": (2, 3), "state": (2, 3), "a.b": (2, 3), "a/b": (2, 3)}
        prog = mil.Program()
        with mil.Function({n: mb.placeholder(shape=s) for n, s in specs.items()}) as function:
            x = mb.relu(x=function.inputs["x/0"], name="relu/1")
            y = mb.add(x=x, y=function.inputs["1"], name="out/1")
            z = mb.mul(x=function.inputs["a.b"], y=function.inputs["state"], name="fp16")
            function.set_outputs([z, y])
        prog.add_function("main", function)
        function.input_types = [ct.TensorType(name=n, shape=s) for n, s in specs.items()]
        return prog

    with pytest.warns(UserWarning, match="x_0"):
        theirs, ours = both(build, "sanitize_input_output_names")
    assert [v.name for v in ours.outputs] == [v.name for v in theirs.outputs] == ["fp16_workaround", "out_1"]
    assert [t.name for t in ours.input_types] == [t.name for t in theirs.input_types] == list(ours.inputs)
    assert list(ours.placeholder_inputs) == list(theirs.placeholder_inputs)
    assert next(op for op in ours.operations if op.op_type == "relu").outputs[0].name == "relu/1"


def test_names_that_others_have():
    specs = {"a/b": (2, 3), "a_b": (2, 3)}
    prog = mil.Program()
    with mil.Function({n: mb.placeholder(shape=s) for n, s in specs.items()}) as function:
        y = mb.add(x=function.inputs["a/b"], y=function.inputs["a_b"], name="c d")
        function.set_outputs([y, mb.relu(x=y, name="c_d")])
    prog.add_function("main", function)
    with pytest.warns(UserWarning, match="a_b_0"):
        coreml.apply_pass(prog, "common::sanitize_input_output_names")
    assert list(function.inputs) == ["a_b_0", "a_b"]
    assert [v.name for v in function.outputs] == ["c_d_0", "c_d"]
    prog.validate()


@pytest.mark.parametrize("dtypes", [(np.float16, np.float16), (np.float16, np.float32), (np.float16, np.int32)])
def test_one_value_as_two_results_of_other_types(dtypes):
    def build():
        @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))], opset_version=ct.target.iOS17)
        def prog(x):
            y = mb.relu(x=x, name="y")
            return y, y

        prog.functions["main"].set_output_types([ct.TensorType(dtype=t) for t in dtypes])
        return prog

    _, ours = both(build, "update_output_dtypes")
    assert [v.name for v in ours.outputs] == ["y", "y_type_fp32"]


def test_results_get_other_types():
    def build():
        @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))], opset_version=ct.target.iOS17)
        def prog(x):
            return mb.relu(x=x, name="a"), mb.cast(x=x, dtype="int32", name="b"), mb.exp(x=x, name="c"), x

        prog.functions["main"].set_output_types(
            [
                ct.TensorType(dtype=np.float16),
                ct.TensorType(),
                ct.TensorType(dtype=np.int32),
                ct.TensorType(dtype=np.float16),
            ]
        )
        return prog

    theirs, ours = both(build, "update_output_dtypes")
    assert [v.name for v in ours.outputs] == ["a", "b", "c", "x"]
    assert [v.dtype for v in ours.outputs] == [v.dtype for v in theirs.outputs]
    assert [v.name for op in ours.operations for v in op.outputs if op.op_type != "const"] == [
        v.name for op in theirs.operations for v in op.outputs if op.op_type != "const"
    ]
    prog = build()
    prog.functions["main"].set_output_types([ct.TensorType(dtype=np.float16)])
    with pytest.raises(ValueError, match="4 values"):
        coreml.apply_pass(prog, "common::update_output_dtypes")


@pytest.mark.parametrize("channel_first", [False, True])
def test_images_are_turned(channel_first):
    def build():
        @mb.program(input_specs=[mb.TensorSpec(shape=(1, 5, 7, 3)), mb.TensorSpec(shape=(1, 3, 5, 7))])
        def prog(x, y):
            return mb.add(x=mb.transpose(x=mb.relu(x=x), perm=(0, 3, 1, 2)), y=y)

        shape = ct.EnumeratedShapes(shapes=[(1, 5, 7, 3), (1, 11, 13, 3)])
        prog.functions["main"].input_types = [
            ct.ImageType(name="x", shape=shape, scale=0.5, channel_first=channel_first),
            ct.TensorType(name="y", shape=(1, 3, 5, 7)),
        ]
        return prog

    theirs, ours = both(build, "image_input_preprocess")
    assert ours.inputs["x"].shape == theirs.inputs["x"].shape
    (a, _), (b, _) = ours.input_types, theirs.input_types
    assert (a.channel_first, a.scale, a.shape.default) == (b.channel_first, b.scale, b.shape.default)
    assert [s.shape for s in a.shape.shapes] == [s.shape for s in b.shape.shapes]


def test_interfaces_of_files(tmp_path):
    def program(x):
        return mb.relu(x=mb.transpose(x=x, perm=(0, 3, 1, 2)), name="y"), mb.exp(x=x, name="z")

    source, result = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(build_program(program, [(1, 5, 7, 3)], ct.target.iOS17), source, ct.target.iOS17)
    asked = ("--option", "image_input_preprocess.inputs=x:nhwc", "--output-type", "y=fp16")
    passes = "image_input_preprocess,update_output_dtypes"
    command.sardonyx("optimize", source, "-o", result, "--passes", passes, *asked, "--strict", "--quiet")
    description = spec_of(result).description
    assert list(description.input[0].type.multiArrayType.shape) == [1, 3, 5, 7]
    assert description.output[0].type.multiArrayType.dataType == ct.proto.FeatureTypes_pb2.ArrayFeatureType.FLOAT16
    assert description.output[1].type.multiArrayType.dataType == ct.proto.FeatureTypes_pb2.ArrayFeatureType.FLOAT32
    assert [op for op, _ in canonical(load(result))] == [
        "transpose",
        "transpose",
        "relu",
        "exp",
        "cast",
        "return",
        "names",
    ]
    x = w(1, 5, 7, 3)
    before, after = coreml.load(source).run({"x": x}), coreml.load(result).run({"x": x.transpose(0, 3, 1, 2)})
    assert after["y"].dtype == np.float16 and np.allclose(after["y"], before["y"], rtol=1e-3)
    assert np.array_equal(after["z"], before["z"])
    command.sardonyx("optimize", result, "-o", result, "--passes", passes, *asked, "--strict", "--quiet")
    assert [op for op, _ in canonical(load(result))].count("transpose") == 2
    done = command.sardonyx("optimize", source, "-o", result, "--output-type", "w=f16", "--strict", ok=False)
    assert done.returncode != 0 and "there is no result 'w'" in done.stderr


def test_a_function_of_two_names_gets_other_types_once():
    prog = mil.Program()
    f = mb.function(input_specs=[mb.TensorSpec(shape=(2, 3))])(lambda x: mb.relu(x=x, name="a"))
    f.set_output_types([ct.TensorType(dtype=np.float16)])
    prog.add_function("one", f)
    prog.add_function("two", f)
    coreml.apply_pass(prog, "common::update_output_dtypes")
    assert [op.op_type for op in f.operations if op.op_type != "const"] == ["relu", "cast"]


def test_input_types_are_a_tuple_afterwards():
    """coremltools' pass leaves a tuple, even where it finds no image."""
    ours, theirs = (build_program(lambda x: mb.relu(x=x), ((2, 3),), ct.target.iOS16) for _ in range(2))
    assert ours.functions["main"].input_types == []
    PASS_REGISTRY["common::image_input_preprocess"](theirs)
    coreml.apply_pass(ours, "common::image_input_preprocess")
    assert ours.functions["main"].input_types == theirs.functions["main"].input_types == ()
