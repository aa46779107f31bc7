"""Presets of Core ML on packages; tests/coremltools_own compares them with coremltools' pipelines."""

import json

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import command  # noqa: E402
import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
import sardonyx  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from mil_programs import mb  # noqa: E402
from sardonyx import coreml  # noqa: E402

TOLD = json.loads(command.sardonyx("passes", "--json").stdout)[0]


def bare(name: str) -> str:
    return name.removeprefix("common::")


def test_every_common_pass_that_conversion_runs_is_here():
    ours = {p["name"] for p in TOLD["passes"] if p["dialect"] == "mil"}
    used = {
        p for name in ct.PassPipeline.list_available_pipelines() for p in ct.PassPipeline._PIPELINE_NAME_TO_PASSES[name]
    }
    missing = {bare(p) for p in used if p.startswith("common::")} - ours
    assert not missing
    with coreml.native_passes():
        for name in ours & {bare(p) for p in PASS_REGISTRY.passes if p.startswith("common::")}:
            assert type(PASS_REGISTRY[f"common::{name}"]).__module__.startswith("sardonyx")


def test_compression_is_coremltools_own(tmp_path):
    source, result = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(programs.resnet(), source, ct.target.iOS17)
    with pytest.raises(sardonyx.Error, match="palettize_weights"):
        coreml.optimize(source, result, passes="default_palettization")
    with pytest.raises(sardonyx.Error, match="prune_weights"):
        coreml.optimize(source, result, passes="default_sparsification", skip=["palettize_weights"])
    assert not result.exists()
    done = coreml.optimize(source, result, passes="default_palettization", skip=["compression::palettize_weights"])
    default = coreml.optimize(source, tmp_path / "default.mlpackage")
    assert done.op_counts() == default.op_counts()


def test_empty_changes_nothing(tmp_path):
    source, result = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(programs.resnet(), source, ct.target.iOS17)
    program, done = coreml.optimize(source, result, passes="empty", return_report=True)
    assert done.after["ops"] == done.before["ops"] == program.op_counts() and done.path == str(result)


def test_bytes_and_results_without_a_file(tmp_path):
    """Optimizes what coremltools serializes, without a file; options are grouped by pass, as coremltools
    groups them."""

    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))], opset_version=ct.target.iOS17)
    def prog(x):
        return mb.relu(x=mb.relu(x=mb.add(x=x, y=mb.sqrt(x=np.float32([4, 9, 16])))), name="y")

    source = tmp_path / "in.mlpackage"
    programs.save(prog, source, ct.target.iOS17)
    x = np.float32([[1, 2, 3], [-4, -5, -6]])
    blob = (source / "Data/com.apple.CoreML/model.mlmodel").read_bytes()
    before = sorted(tmp_path.rglob("*"))
    for model in (source, blob):
        program = coreml.optimize(model, passes=["merge_consecutive_relus"])
        assert isinstance(program, coreml.Program) and program.op_counts()["relu"] == 1
        assert (program.run([x])["y"] == np.maximum(x + [2, 3, 4], 0)).all()
    assert sorted(tmp_path.rglob("*")) == before
    for model in (blob, coreml.load(source)):
        program, report = coreml.optimize(
            model, tmp_path / "out.mlmodel", passes=["merge_consecutive_relus"], return_report=True
        )
        assert report.after["ops"]["relu"] == program.op_counts()["relu"] == 1
        assert coreml.load(tmp_path / "out.mlmodel").op_counts()["relu"] == 1
    for size, constant in ((2, False), (1e6, True)):
        grouped = {"common::const_elimination": {"skip_const_by_size": size}}
        ops = coreml.optimize(source, passes=["const_elimination"], options=grouped).op_counts()
        assert ("sqrt" not in ops) == constant


def test_options_are_checked_where_nothing_is_to_be_done():
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))], opset_version=ct.target.iOS17)
    def prog(x):
        return mb.relu(x=x)

    with pytest.raises(ValueError, match="skip_const_by_size' must be a number of elements, not 'many'"):
        coreml.apply_pass(prog, "common::const_elimination", skip_const_by_size="many")


@mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))], opset_version=ct.target.iOS17)
def pipelined(x):
    y = mb.sqrt(x=mb.const(val=np.float32([4, 9, 16]), name="c"), name="s")
    return mb.identity(x=mb.relu(x=mb.relu(x=mb.add(x=x, y=y))), name="y")


def test_a_pipeline_of_coremltools_runs_on_files(tmp_path):
    source, half = tmp_path / "in.mlpackage", "common::add_fp16_cast"
    programs.save(pipelined, source, ct.target.iOS17)

    def ops(pipeline, **more):
        return coreml.optimize(source, passes=pipeline, **more).op_counts()

    assert "sqrt" in ops(ct.PassPipeline.EMPTY)
    default = coreml.optimize(source, passes="default").op_counts()
    assert ops(ct.PassPipeline()) == ops(ct.PassPipeline.DEFAULT) == default and "cast" not in default
    assert ops(ct.PassPipeline.CLEANUP) == coreml.optimize(source, passes="cleanup").op_counts()
    assert ops(ct.PassPipeline.DEFAULT_PALETTIZATION, skip=["palettize_weights"]) == default
    # Passes that are appended, inserted and removed, and options.
    pipeline = ct.PassPipeline(["common::noop_elimination"])
    assert ops(pipeline)["relu"] == 2
    pipeline.append_pass("common::merge_consecutive_relus")
    pipeline.insert_pass(0, "common::const_elimination")
    assert ops(pipeline)["relu"] == 1 and "sqrt" not in ops(pipeline)
    pipeline.set_options("common::const_elimination", {"skip_const_by_size": "2"})
    assert ops(pipeline)["sqrt"] == 1
    assert "sqrt" not in ops(pipeline, options={"common::const_elimination": {"skip_const_by_size": 3}})
    # Half precision on request.
    pipeline = ct.PassPipeline()
    pipeline.set_options(half, {"skip_ops_by_type": "relu"})
    assert ops(pipeline) == default
    assert ops(pipeline, precision="f16")["cast"] == 4
    with pytest.raises(sardonyx.Error, match="precision"):
        ops(ct.PassPipeline([half]))
    assert ops(ct.PassPipeline([half]), precision="f16")["cast"] > 0


def test_pipelines_that_files_cannot_have(tmp_path):
    source = tmp_path / "in.mlpackage"
    programs.save(pipelined, source, ct.target.iOS17)
    with pytest.raises(sardonyx.Error, match="palettize_weights"):
        coreml.optimize(source, passes=ct.PassPipeline.DEFAULT_PALETTIZATION)
    pipeline = ct.PassPipeline()
    pipeline.set_options("common::add_fp16_cast", {"op_selector": lambda op: True})
    with pytest.raises(sardonyx.Error, match="op_selector.*files"):
        coreml.optimize(source, passes=pipeline, precision="f16")
    pipeline = ct.PassPipeline(["common::noop_elimination"])
    pipeline.set_options("common::const_elimination", {"skip_const_by_size": "2"})
    with pytest.raises(ValueError, match="const_elimination"):
        coreml.optimize(source, passes=pipeline)
    for model in (pipelined, None, 3):
        with pytest.raises(sardonyx.Error, match="apply_pass"):
            coreml.optimize(model, passes=pipeline)
    with pytest.raises(TypeError, match="mapping"):
        coreml.optimize(source, passes="default", options=["const_elimination"])


@pytest.mark.parametrize("what", ["none", "text", "path", "program", "model", "function", "dict"])
def test_passes_in_memory_want_a_program(what, tmp_path):
    source = tmp_path / "in.mlpackage"
    programs.save(pipelined, source, ct.target.iOS17)
    model = ct.models.MLModel(str(source), skip_model_load=True)
    given, message = {
        "none": (None, "Program of coremltools"),
        "text": (str(source), "coreml.optimize"),
        "path": (source, "coreml.optimize"),
        "program": (coreml.load(source), "coreml.optimize"),
        "model": (model, "_mil_program" if model._mil_program is not None else "expected a Program"),
        "function": (pipelined.functions["main"], "add_function"),
        "dict": ({}, "not on dict"),
    }[what]
    with pytest.raises(sardonyx.Error, match=message) as caught:
        coreml.apply_pass(given, "common::noop_elimination")
    assert isinstance(caught.value, TypeError)
    with pytest.raises(TypeError, match="name of a pass"):
        coreml.apply_pass(pipelined, ["common::noop_elimination"])


def test_reports_say_what_each_pass_changed_and_where(tmp_path):
    source, result = tmp_path / "in.mlpackage", tmp_path / "out.mlpackage"
    programs.save(pipelined, source, ct.target.iOS17)
    passes = ["common::const_elimination", "common::merge_consecutive_relus", "common::fuse_conv_bias"]
    folded, merged, idle = coreml.optimize(source, result, passes=passes, return_report=True).report.passes
    assert folded["ops"] == {"sqrt": (1, 0)} and folded["at"] == []
    assert merged["ops"] == {"const": (1, 0), "relu": (2, 1)} and merged["seconds"] > 0
    ((rule, op, name),) = merged["at"]
    assert (rule, op) == ("merge_consecutive_relus", "relu") and name
    assert (idle["ops"], idle["at"], idle["changed"]) == ({}, [], False)

    def asked(*how):
        return command.sardonyx("optimize", source, "-o", result, "--passes", ",".join(passes), *how).stdout

    told = json.loads(asked("--json"))[0]["passes"][1]
    assert told["ops"] == {"const": [1, 0], "relu": [2, 1]}
    assert told["at"] == [{"rule": rule, "op": op, "name": name}]
    assert f"at relu {name}" in asked("--verbose") and "at relu" not in asked()


def test_options_of_passes_that_do_not_run(tmp_path):
    source = tmp_path / "in.mlpackage"
    programs.save(pipelined, source, ct.target.iOS17)
    by_size = {"const_elimination.skip_const_by_size": 3}
    with pytest.raises(sardonyx.Error, match="const_elimination is not among the passes"):
        coreml.optimize(source, passes=["noop_elimination"], options=by_size)
    coreml.optimize(source, passes="default", options=by_size, skip=["const_elimination"])
    with pytest.raises(sardonyx.Error, match="precision f16"):
        coreml.optimize(source, passes="default", options={"add_fp16_cast.skip_ops": "y"})


@pytest.fixture
def source(tmp_path):
    package = tmp_path / "in.mlpackage"
    programs.save(programs.resnet(), package, ct.target.iOS17)
    return package


def test_an_option_that_is_no_value_is_one_error(source, tmp_path):
    out = tmp_path / "out.mlpackage"
    with pytest.raises(ValueError, match="must be a number of elements, not 'many'"):
        coreml.optimize(source, out, options={"const_elimination.skip_const_by_size": "many"})
    assert not out.exists()


@pytest.mark.parametrize("name", ["out", "out.onnx", "there.json"])
def test_results_are_named_as_what_they_are(name, source, tmp_path):
    out = tmp_path / name
    if name == "there.json":
        out.write_text("{}")
    with pytest.raises(ValueError, match="a Core ML program is written to .mlpackage"):
        coreml.optimize(source, out)
    assert out.read_text() == "{}" if out.suffix == ".json" else not out.exists()
    assert not (tmp_path / "weights").exists()
