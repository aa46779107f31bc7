"""Core ML programs: read, written, and read again by coremltools. Same ops, names, types and values."""

import json
import os
import shutil
import struct
from pathlib import Path

import command
import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
import sardonyx  # noqa: E402
from coremltools import proto  # noqa: E402
from coremltools.converters.mil.frontend.milproto.load import load as load_program  # noqa: E402
from sardonyx import coreml  # noqa: E402

MODEL = Path("Data/com.apple.CoreML/model.mlmodel")
WEIGHTS = Path("Data/com.apple.CoreML/weights/weight.bin")


def message(package: Path):
    spec = proto.Model_pb2.Model()
    spec.ParseFromString((package / MODEL).read_bytes())
    return spec


def blob(weights: bytes, offset: int) -> bytes:
    sentinel, dtype, size, start, unused = struct.unpack_from("<IIQQQ", weights, offset)
    assert sentinel == 0xDEADBEEF and start % 64 == 0
    return struct.pack("<IQ", dtype, unused) + weights[start : start + size]


def with_weights(m, weights: bytes):
    """Replaces references to the weights by their contents, everywhere in a message."""
    for value in values_of(m):
        if value.WhichOneof("value") == "blobFileValue":
            data = blob(weights, value.blobFileValue.offset)
            value.immediateValue.tensor.bytes.values = data
    return m


def values_of(m):
    for field, content in m.ListFields():
        if field.message_type is None:
            continue
        is_map = field.message_type.GetOptions().map_entry
        if is_map and field.message_type.fields_by_name["value"].message_type is None:
            continue
        repeated = (
            content.values()
            if is_map
            else content
            if hasattr(content, "append") or hasattr(content, "add")
            else [content]
        )
        for item in repeated:
            if item.DESCRIPTOR.name == "Value" and "MILSpec" in item.DESCRIPTOR.full_name:
                yield item
            yield from values_of(item)


def weights_of(package: Path) -> bytes:
    path = package / WEIGHTS
    return path.read_bytes() if path.exists() else b""


def assert_same(before: Path, after: Path):
    old, new = weights_of(before), weights_of(after)
    a, b = with_weights(message(before), old), with_weights(message(after), new)
    assert a == b
    assert len(old) == len(new)


def load_again(package: Path):
    """The program as coremltools loads it: it infers all types again and compares them with the file."""
    spec = message(package)
    programs.mb.name_count.clear()  # counts generated names in the process
    with programs.quiet():
        return load_program(spec, spec.specificationVersion, str((package / WEIGHTS).parent))


def describe(package: Path):
    """Ops, names, types and values, of every block, as coremltools loads them."""
    named = {v.name for v in results_of(message(package).mlProgram)}
    lines = []

    def value_text(v):
        return (
            v.val.tobytes() + str(v.val.dtype).encode() if isinstance(v.val, (np.ndarray, np.generic)) else repr(v.val)
        )

    def reference(v):
        # Constants inside an op of the file get names, in the order of an unordered map.
        inside = v.op is not None and v.op.op_type == "const" and v.name not in named
        return value_text(v) if inside else v.name

    def block(b):
        for op in b.operations:
            if op.op_type == "const" and op.outputs[0].name not in named:
                continue
            inputs = {
                k: [reference(v) for v in x] if isinstance(x, (list, tuple)) else reference(x)
                for k, x in op.inputs.items()
            }
            outputs = [(v.name, type_text(v)) for v in op.outputs]
            lines.append((op.op_type, op.name, sorted(inputs.items(), key=str), outputs))
            if op.op_type == "const":
                lines.append(value_text(op.outputs[0]))
            for inner in op.blocks:
                block(inner)
        lines.append([v.name for v in b.outputs])

    for name, function in load_again(package).functions.items():
        lines.append((name, [(n, type_text(v)) for n, v in function.inputs.items()]))
        block(function)
    return lines


def results_of(m):
    """Every named and typed entry of a message."""
    for function in m.functions.values():
        stack = list(function.block_specializations.values())
        while stack:
            block = stack.pop()
            yield from block.inputs
            for op in block.operations:
                yield from op.outputs
                stack.extend(op.blocks)


def type_text(v):
    shape = getattr(v, "shape", None)
    # Each load makes new symbols.
    return str(v.dtype), None if shape is None else [
        "?" if not isinstance(d, (int, np.integer)) else int(d) for d in shape
    ]


def round_trip(before: Path, after: Path):
    coreml.load(before).save(after)
    assert_same(before, after)


# Programs that coremltools writes but cannot read.
UNREADABLE = ("list_write", "classify")

CASES = [pytest.param(c, t, id=f"{c.id}-{t.name}") for c in programs.CASES for t in programs.targets_of(c)]


@pytest.mark.parametrize(("case", "target"), CASES)
def test_op(case, target, tmp_path):
    before, after = tmp_path / "before.mlpackage", tmp_path / "after.mlpackage"
    programs.save(programs.build(case, target), before, target)
    program = coreml.load(before)
    assert case.op in program.op_counts()
    program.save(after)
    assert_same(before, after)
    if case.op not in UNREADABLE:
        assert describe(after) == describe(before)


# Types that coremltools infers wrongly: the batch axis is lost with the vector's; 0 counts as a size.
WRONG_TYPES = {("matmul-vector", False), ("matmul-vector", True), ("reshape-zero", True)}


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize(("case", "target"), CASES)
def test_types(case, target, symbolic, tmp_path):
    """Inference from the inputs alone finds the types that coremltools has written: nothing less, nothing
    else."""
    if (case.id, symbolic) in WRONG_TYPES:
        pytest.skip("coremltools is wrong about this one")
    if symbolic and not any(
        len(x.shape) > 1 for x in [*case.operands.values(), *case.inputs] if isinstance(x, programs.Input)
    ):
        pytest.skip("no size to leave open")
    package = tmp_path / "x.mlpackage"
    try:
        programs.save(programs.build(case, target, symbolic), package, target)
    except Exception as e:
        if not symbolic:
            raise
        pytest.skip(f"coremltools cannot build it: {e}")
    assert coreml.load(package)._native.compare_types() == []


@pytest.mark.parametrize("name", programs.NETWORKS)
def test_types_of_networks(name, tmp_path):
    build, target = programs.NETWORKS[name]
    package = tmp_path / "x.mlpackage"
    programs.save(build(), package, target)
    program = coreml.load(package)
    assert program._native.compare_types() == []
    assert program.infer_types() == []


def test_every_op_has_a_program():
    covered = {"const"}
    ops = set(programs.SSAOpRegistry.core_ops) - {"_const_symbolic", "conv_quantized"}
    covered |= {c.op for c in programs.CASES}
    # Covered by programs of other ops, or by separate tests.
    covered |= {"list_gather", "list_length", "list_read", "list_scatter", "make_list", "read_state", "classify"}
    assert ops <= covered, sorted(ops - covered)


@pytest.mark.parametrize("name", programs.NETWORKS)
def test_network(name, tmp_path):
    build, target = programs.NETWORKS[name]
    before, after = tmp_path / "before.mlpackage", tmp_path / "after.mlpackage"
    model = programs.save(build(), before, target)
    model.author, model.license, model.short_description = "A. Author", "none", "a network"
    model.user_defined_metadata["key"] = "value"
    shutil.rmtree(before)
    model.save(str(before))
    round_trip(before, after)
    assert message(after).description.metadata.userDefined["key"] == "value"
    assert describe(after) == describe(before)
    # A second write changes nothing, and the weights are the same bytes.
    again = tmp_path / "again.mlpackage"
    coreml.load(after).save(again)
    for path in (MODEL, WEIGHTS, Path("Manifest.json")):
        if (after / path).exists():
            assert (again / path).read_bytes() == (after / path).read_bytes()
    assert weights_of(after) == weights_of(before)


def test_classifier(tmp_path):
    before, after = tmp_path / "before.mlpackage", tmp_path / "after.mlpackage"
    with programs.quiet():
        model = ct.convert(
            programs.resnet(),
            convert_to="mlprogram",
            minimum_deployment_target=ct.target.iOS15,
            classifier_config=ct.ClassifierConfig([f"class {k}" for k in range(10)]),
            skip_model_load=True,
        )
        model.save(str(before))
    round_trip(before, after)
    assert coreml.load(after).op_counts()["classify"] == 1


def test_several_functions_share_weights(tmp_path):
    paths = []
    for k, activation in enumerate(("relu", "tanh")):
        weight = np.arange(12 * 20, dtype=np.float32).reshape(12, 20)

        def layer(x):
            return getattr(programs.mb, activation)(x=programs.mb.linear(x=x, weight=weight), name="y")  # noqa: B023

        prog = programs.mb.program(input_specs=[programs.mb.TensorSpec(shape=(2, 20))], opset_version=ct.target.iOS18)(
            layer
        )
        paths.append(tmp_path / f"part_{k}.mlpackage")
        programs.save(prog, paths[-1], ct.target.iOS18)
    before, after = tmp_path / "before.mlpackage", tmp_path / "after.mlpackage"
    with programs.quiet():
        both = ct.utils.MultiFunctionDescriptor()
        both.add_function(str(paths[0]), "main", "first")
        both.add_function(str(paths[1]), "main", "second")
        both.default_function_name = "second"
        ct.utils.save_multifunction(both, str(before))
    round_trip(before, after)
    program = coreml.load(after)
    assert program.functions == ["second", "first"]
    assert len(weights_of(after)) < 2 * 12 * 20 * 4, "weights that both functions have are stored once"


def test_bare_model_file(tmp_path):
    package = tmp_path / "x.mlpackage"
    programs.save(programs.resnet(), package, ct.target.iOS15)
    bare = package / MODEL
    folder = tmp_path / "bare"
    folder.mkdir()
    coreml.load(bare).save(folder / "x.mlmodel")
    assert (folder / "weights" / "weight.bin").read_bytes() == weights_of(package)
    assert (folder / "x.mlmodel").stat().st_size == bare.stat().st_size
    # Back into a package of its own making.
    after = tmp_path / "after.mlpackage"
    coreml.load(folder / "x.mlmodel").save(after)
    assert_same(package, after)
    manifest = json.loads((after / "Manifest.json").read_text())
    assert {e["path"] for e in manifest["itemInfoEntries"].values()} == {
        "com.apple.CoreML/model.mlmodel",
        "com.apple.CoreML/weights",
    }
    assert len(describe(after)) == len(describe(package))
    # Another model's weights are not overwritten.
    with pytest.raises(sardonyx.Error, match="weights of another model"):
        coreml.load(package).save(folder / "y.mlmodel")


def test_a_package_replaces_itself(tmp_path):
    package, copy = tmp_path / "x.mlpackage", tmp_path / "copy.mlpackage"
    programs.save(programs.recurrent(), package, ct.target.iOS16)
    (package / "Data" / "notes.txt").write_text("kept")
    shutil.copytree(package, copy)
    coreml.load(package).save(package)
    assert_same(copy, package)
    assert (package / "Data" / "notes.txt").read_text() == "kept"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.mlpackage", "x.mlpackage"], "nothing is left behind"


def test_info(tmp_path):
    package = tmp_path / "x.mlpackage"
    programs.save(programs.transformer(), package, ct.target.iOS17)
    out = command.sardonyx("info", package).stdout
    assert "layer_norm" in out and "specification version 8" in out
    j = json.loads(command.sardonyx("info", "--json", package).stdout)[0]
    assert "no faults" in command.sardonyx("check", package).stdout
    assert "logits" in command.sardonyx("run", package, "--seed", "0", "--input-shape", "tokens:1,3").stdout
    assert j["ops"]["matmul"] == 7 and j["inputs"][0] == {"name": "tokens", "type": "i32[1,is0]"}


# ----------------------------------------------------------------------------------------------------------------------
# Bad input


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    package = tmp_path_factory.mktemp("good") / "x.mlpackage"
    programs.save(programs.resnet(), package, ct.target.iOS15)
    return package


def broken(good, tmp_path, change):
    package = tmp_path / "x.mlpackage"
    shutil.copytree(good, package)
    change(package)
    return package


def cut(path, keep):
    def change(package):
        os.truncate(package / path, keep if keep >= 0 else (package / path).stat().st_size + keep)

    return change


def edit(change):
    def apply(package):
        spec = message(package)
        change(spec.mlProgram.functions["main"].block_specializations["CoreML5"], spec)
        (package / MODEL).write_bytes(spec.SerializeToString())

    return apply


def overwrite(at, data):
    def change(package):
        content = bytearray(weights_of(package))
        content[at : at + len(data)] = data
        (package / WEIGHTS).write_bytes(content)

    return change


def first_blob(block):
    for op in block.operations:
        if op.type == "const" and op.attributes["val"].WhichOneof("value") == "blobFileValue":
            return op
    raise AssertionError("no weights")


def set_offset(block, spec):
    first_blob(block).attributes["val"].blobFileValue.offset = 96


def set_far_offset(block, spec):
    first_blob(block).attributes["val"].blobFileValue.offset = 1 << 40


def other_shape(block, spec):
    first_blob(block).attributes["val"].type.tensorType.dimensions[0].constant.size += 1


def leave_folder(block, spec):
    first_blob(block).attributes["val"].blobFileValue.fileName = "@model_path/../../../Manifest.json"


def undefined_name(block, spec):
    op = next(op for op in block.operations if op.type == "relu")
    op.inputs["x"].arguments[0].name = "nowhere"


def no_value(block, spec):
    next(op for op in block.operations if op.type == "relu").inputs["x"].arguments.pop()


def no_operand(block, spec):
    next(op for op in block.operations if op.type == "relu").inputs.pop("x")


def other_size(block, spec):
    op = next(op for op in block.operations if op.type == "relu")
    op.outputs[0].type.tensorType.dimensions[1].constant.size += 1


def no_block(block, spec):
    spec.mlProgram.functions["main"].opset = "CoreML9"


def short_value(block, spec):
    op = next(
        op
        for op in block.operations
        if op.type == "const" and op.attributes["val"].immediateValue.tensor.HasField("ints")
    )
    op.attributes["val"].immediateValue.tensor.ints.values.pop()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda p: (p / "Manifest.json").unlink(), "no Manifest.json", id="no manifest"),
        pytest.param(cut("Manifest.json", 20), "lists no items", id="short manifest"),
        pytest.param(lambda p: (p / MODEL).unlink(), "no model at", id="no model"),
        pytest.param(cut(MODEL, -100), "damaged or not a model of this kind", id="short model"),
        pytest.param(cut(MODEL, 0), "an empty file, not a Core ML model", id="empty model"),
        pytest.param(lambda p: (p / WEIGHTS).unlink(), "weights/weight.bin", id="no weights"),
        pytest.param(cut(WEIGHTS, 10), "less than its header", id="no header"),
        pytest.param(cut(WEIGHTS, -8), "beyond the end", id="short weights"),
        pytest.param(cut(WEIGHTS, 64), "the file ends at 64", id="only a header"),
        pytest.param(overwrite(4, b"\x01"), "storage version is 1", id="storage version"),
        pytest.param(overwrite(64, b"\0\0\0\0"), "no tensor at that offset", id="no sentinel"),
        pytest.param(overwrite(68, b"\x01"), "has element type 1", id="element type"),
        pytest.param(edit(set_offset), "not a multiple of 64", id="crooked offset"),
        pytest.param(edit(set_far_offset), "the file ends at", id="far offset"),
        pytest.param(edit(other_shape), "the tensor there has", id="shape"),
        pytest.param(edit(leave_folder), "leaves the model's folder", id="other folder"),
        pytest.param(edit(undefined_name), "'nowhere', which is not defined before it", id="undefined"),
        pytest.param(edit(no_value), "operand 'x' has no value", id="no value"),
        pytest.param(edit(no_block), "no block for its op set 'CoreML9'", id="op set"),
        pytest.param(edit(short_value), "has values for", id="short constant"),
    ],
)
def test_bad_input(good, tmp_path, change, expected):
    package = broken(good, tmp_path, change)
    with pytest.raises(sardonyx.Error, match=expected):
        coreml.load(package)
    with pytest.raises(sardonyx.Error, match=expected):
        coreml.load(package, mmap=False)


@pytest.mark.parametrize(
    ("change", "expected"), [(no_operand, "relu: takes 1 operands, not 0"), (other_size, "relu: result 0 is f32")]
)
def test_ill_typed_programs_are_not_optimized(good, tmp_path, change, expected):
    package, out = broken(good, tmp_path, edit(change)), tmp_path / "out.mlpackage"
    before = [f.read_bytes() for f in sorted(package.rglob("*")) if f.is_file()]
    for passes in ("default", ["noop_elimination"]):
        with pytest.raises(sardonyx.Error, match=f"the program is ill-typed: {expected}"):
            coreml.optimize(package, out, passes=passes)
    assert [f.read_bytes() for f in sorted(package.rglob("*")) if f.is_file()] == before
    assert not out.exists() and not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    assert coreml.load(package).infer_types()


def test_every_cut_is_an_error(good, tmp_path):
    package = broken(good, tmp_path, lambda p: None)
    content = (package / MODEL).read_bytes()
    for size in range(0, len(content), 97):
        (package / MODEL).write_bytes(content[:size])
        with pytest.raises(sardonyx.Error):
            coreml.load(package)


def test_neural_networks_are_refused(tmp_path):
    spec = proto.Model_pb2.Model(specificationVersion=4)
    spec.neuralNetwork.SetInParent()
    (tmp_path / "x.mlmodel").write_bytes(spec.SerializeToString())
    with pytest.raises(sardonyx.Error, match="a neural network, not an ML program"):
        coreml.load(tmp_path / "x.mlmodel")


def test_targets_that_are_no_packages(good, tmp_path):
    program = coreml.load(good)
    (tmp_path / "y.mlpackage").mkdir()
    (tmp_path / "y.mlpackage" / "precious").write_text("data")
    with pytest.raises(sardonyx.Error, match="is not a package"):
        program.save(tmp_path / "y.mlpackage")
    assert (tmp_path / "y.mlpackage" / "precious").read_text() == "data"
    with pytest.raises(sardonyx.Error, match="cannot"):
        program.save(tmp_path / "y.mlpackage" / "precious" / "x.mlpackage")


def test_unknown_ops_are_kept(good, tmp_path):
    def change(block, spec):
        op = next(op for op in block.operations if op.type == "relu")
        op.type = "relu_of_the_future"
        op.inputs["slope"].arguments.add().name = op.inputs["x"].arguments[0].name
        op.inputs["slope"].arguments.add().name = op.inputs["x"].arguments[0].name
        op.attributes["tuning"].CopyFrom(op.attributes["name"])
        spec.mlProgram.attributes["buildInfo"].CopyFrom(op.attributes["name"])
        spec.mlProgram.functions["main"].attributes["a"].CopyFrom(op.attributes["name"])
        spec.isUpdatable = True

    package = broken(good, tmp_path, edit(change))
    # Fields that this version of the format lacks, in a message and in an op.
    spec = message(package)
    content = spec.SerializeToString() + bytes([0xD2, 0x7D, 3]) + b"abc"
    (package / MODEL).write_bytes(content)
    after = tmp_path / "after.mlpackage"
    coreml.load(package).save(after)
    assert_same(package, after)
    assert b"\xd2\x7d\x03abc" in (after / MODEL).read_bytes()
    assert coreml.load(after).op_counts()["relu_of_the_future"] == 1
