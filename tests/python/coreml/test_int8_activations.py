"""`precision="int8"` for Core ML: pairs of quantize and dequantize, beside what coremltools writes for the same runs."""

import importlib
import re

import command
import numpy as np
import onnx
import pytest
import sardonyx
from int8_models import MODELS, drawn, inputs, mlp, network, with_weights
from onnx import numpy_helper
from sardonyx import coreml
from sardonyx.compat import coremltools as compat

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import coremltools.optimize.coreml as cto  # noqa: E402
from coremltools.converters.mil.frontend.milproto.load import load as load_program  # noqa: E402
from coremltools.optimize import _utils as arithmetic  # noqa: E402

PAIR = ("quantize", "dequantize")


def runs_of(name, count=3):
    return [inputs(name, seed, 13) for seed in range(count)]


def package(name, path, precision="f16", **options):
    """A package in floats, for 13 rows."""
    shapes = {"x": (13, *MODELS[name][1])}
    sardonyx.to_coreml(MODELS[name][0](), output_path=path, precision=precision, input_shapes=shapes, **options)
    return path


def error(program, wanted, feeds):
    found = program.run(feeds)
    return max(float(np.linalg.norm(found[n] - w) / np.linalg.norm(w)) for n, w in wanted.items())


def ops_of(program):
    counts = program.op_counts()
    return {op: counts[op] for op in (*PAIR, "constexpr_affine_dequantize")}


def read_by_coremltools(path):
    model = ct.models.MLModel(str(path), skip_model_load=True)
    program = load_program(model.get_spec(), model.get_spec().specificationVersion, model.weights_dir)
    return [op.op_type for op in program.functions["main"].operations]


def by_coremltools(monkeypatch, source, path, runs, mode):
    """linear_quantize_activations and linear_quantize_weights, whose runs go to our evaluator."""

    def predict(model, feeds):
        model.save(str(path.with_name("observed.mlpackage")))
        return coreml.load(path.with_name("observed.mlpackage"), mmap=False).run(feeds)

    monkeypatch.setattr(ct.models.MLModel, "predict", predict)
    config = cto.OptimizationConfig(global_config=cto.OpLinearQuantizerConfig(mode=mode, weight_threshold=0))
    model = ct.models.MLModel(str(source), skip_model_load=True)
    cto.linear_quantize_weights(cto.linear_quantize_activations(model, config, runs), config).save(str(path))
    return coreml.load(path)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("cnn", {"quantize": 9, "dequantize": 9, "constexpr_affine_dequantize": 7}),
        ("block", {"quantize": 3, "dequantize": 3, "constexpr_affine_dequantize": 5}),
        ("mlp", {"quantize": 3, "dequantize": 3, "constexpr_affine_dequantize": 3}),
    ],
)
@pytest.mark.parametrize("precision", ["f16", "f32"])
def test_a_package(name, count, precision, tmp_path):
    source = package(name, tmp_path / "f.mlpackage", precision)
    made = coreml.optimize(source, tmp_path / "q.mlpackage", precision="int8", calibration=runs_of(name))
    assert ops_of(made) == count
    assert set(PAIR) <= set(read_by_coremltools(tmp_path / "q.mlpackage"))
    feeds = inputs(name, 7, 13)
    exact = coreml.load(package(name, tmp_path / "exact.mlpackage", "f32")).run(feeds)
    assert 0.001 < error(made, exact, feeds) < 0.03


@pytest.mark.parametrize("precision", ["f16", "f32"])
@pytest.mark.parametrize("name", MODELS)
def test_a_second_run_changes_nothing(name, precision):
    shapes = {"x": (13, *MODELS[name][1])}
    floats = sardonyx.to_coreml(MODELS[name][0](), precision=precision, input_shapes=shapes)
    once = coreml.optimize(floats, precision="int8", calibration=runs_of(name))
    for again in coreml.optimize(once), coreml.optimize(once, precision="int8", calibration=runs_of(name)):
        assert again.text(full_constants=True) == once.text(full_constants=True)


@pytest.mark.parametrize("mode", ["linear_symmetric", "linear"])
@pytest.mark.parametrize("name", MODELS)
def test_the_error_and_the_pairs_beside_coremltools(name, mode, tmp_path, monkeypatch):
    source = package(name, tmp_path / "f.mlpackage")
    runs = runs_of(name)
    ours = coreml.optimize(source, precision="int8", calibration=runs)
    theirs = by_coremltools(monkeypatch, source, tmp_path / "t.mlpackage", runs, mode)
    assert ops_of(ours)["quantize"] < ops_of(theirs)["quantize"]
    assert ops_of(ours)["constexpr_affine_dequantize"] == ops_of(theirs)["constexpr_affine_dequantize"]
    exact = coreml.load(package(name, tmp_path / "exact.mlpackage", "f32"))
    for seed in range(50, 55):
        feeds = inputs(name, seed, 13)
        wanted = exact.run(feeds)
        assert error(ours, wanted, feeds) < error(theirs, wanted, feeds)


@pytest.mark.parametrize("target", ["iOS17", "iOS18"])
@pytest.mark.parametrize("name", MODELS)
def test_a_conversion_with_open_sizes(name, target, tmp_path):
    model = MODELS[name][0]()
    sizes = dict.fromkeys(("B", "T")[: 2 if name == "block" else 1], (1, 64))
    exact = sardonyx.to_coreml(model, precision="f32", sizes=sizes, target=target)
    made, report = sardonyx.to_coreml(
        model, output_path=tmp_path / "q.mlpackage", precision="int8", calibration=runs_of(name), sizes=sizes,
        target=target, return_report=True,
    )  # fmt: skip
    assert set(PAIR) <= set(read_by_coremltools(tmp_path / "q.mlpackage"))
    assert report.ops["quantize"] == report.ops["dequantize"] > 0
    attention = {"in floats: its weight is computed": 2} if (name, target) == ("block", "iOS17") else {}
    assert report.integers == {"in int8": {"cnn": 9, "block": 5, "mlp": 3}[name]} | attention
    for batch in (1, 2, 5):
        feeds = inputs(name, 7, batch)
        assert 0.001 < error(made, exact.run(feeds), feeds) < 0.03


def test_runs_have_the_names_and_types_of_the_model():
    """In Core ML, i64 is i32, a scalar has an axis, and names are identifiers."""
    model = with_weights(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
            g (int64[B] rows, float[37,11] x, float s) => (float[B,5] y) {
                r = Gather(x, rows) z = Mul(r, s) y = MatMul(z, w) }"""),
        w=(11, 5),
    )
    model.graph.input[0].name = model.graph.node[0].input[1] = "rows.1"
    runs = [{"rows.1": np.array([0, 3, 36]), "x": drawn(1, 37, 11), "s": np.float32(0.5)}]
    made = sardonyx.to_coreml(model, precision="int8", calibration=runs)
    assert ops_of(made)["quantize"] == 1
    feeds = [np.atleast_1d(x) for x in runs[0].values()]
    assert error(made, sardonyx.to_coreml(model, precision="f32").run(feeds), feeds) < 0.02


def test_weights_in_other_forms_stay_so():
    made = sardonyx.to_coreml(
        mlp(), precision="int8", calibration=runs_of("mlp"), weights="palette4", target="iOS18",
        options={"compress_weights.min_elements": 0},
    )  # fmt: skip
    counts = made.op_counts()
    assert (counts["constexpr_lut_to_dense"], counts["quantize"]) == (3, 3)
    assert "constexpr_blockwise_shift_scale" not in counts


@pytest.mark.parametrize(("mode", "is_symmetric"), [("linear_symmetric", True), ("linear", False)])
@pytest.mark.parametrize("name", ["x", None])
def test_coremltools_own_function(mode, is_symmetric, name, tmp_path):
    source = package("cnn", tmp_path / "f.mlpackage")
    config = cto.OptimizationConfig(global_config=cto.OpLinearQuantizerConfig(mode=mode))
    runs = runs_of("cnn")
    model = ct.models.MLModel(str(source), skip_model_load=True)
    made = compat.linear_quantize_activations(model, config, [{name: run["x"]} for run in runs])
    options = {"quantize_activations.symmetric": is_symmetric}
    wanted = coreml.optimize(source, passes="none", precision="int8", calibration=runs, options=options)
    assert made.text(full_constants=True) == wanted.text(full_constants=True)
    assert is_symmetric == (re.search(r"\bquantize\([^)]*zero_point", made.text()) is None)
    four = cto.OptimizationConfig(global_config=cto.OpLinearQuantizerConfig(dtype="int4"))
    with pytest.raises(sardonyx.Error, match="4 bits of values of coremltools is not supported"):
        compat.linear_quantize_activations(source, four, runs)


def test_options_of_a_conversion():
    made = sardonyx.to_coreml(
        network(), precision="int8", calibration=runs_of("cnn"), options={"quantize_activations.symmetric": True}
    )
    assert re.search(r"\bquantize\([^)]*zero_point", made.text()) is None


def test_jax_functions():
    jnp = importlib.import_module("jax.numpy")
    w = drawn(1, 11, 5)
    made = sardonyx.to_coreml(
        lambda x: jnp.tanh(x @ w), [("B", 11)], precision="int8", calibration=[{"in_0": drawn(2, 3, 11)}],
        input_names=["in_0"],
    )  # fmt: skip
    assert ops_of(made) == {"quantize": 1, "dequantize": 1, "constexpr_affine_dequantize": 1}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("codes", ["int8", "uint8"])
@pytest.mark.parametrize("zero", [None, 3, 127])
def test_the_evaluator_rounds_as_coremltools(dtype, codes, zero, tmp_path):
    """All numbers of half precision, by a power of two, by a scale that is rounded, and by one that leaves few codes."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = every[np.isfinite(every)].astype(dtype)
    short = {np.float32: "f32", np.float16: "f16"}[dtype]
    zeros = None if zero is None else np.dtype(codes).type(zero)
    for scale in (dtype(0.25), dtype(0.01903), dtype(3000)):
        at = f"scale={short} {float(scale)!r}" + ("" if zero is None else f", zero_point={codes[:-3]}8 {zero}")
        at = at.replace("int8", "i8").replace("ui8", "u8")
        (tmp_path / "m.sx").write_text(
            f'graph mil(x: {short}[{len(x)}]) mil_opset "CoreML7" {{\n'
            f'  q = quantize(x, {at}, output_dtype=str "{codes}")\n  return q, dequantize(q, {at})\n}}\n'
        )
        found, back = coreml.load(tmp_path / "m.sx").run([x]).values()
        wanted = arithmetic.quantize_by_scale_and_zp(x, scale, zeros, codes)
        assert np.array_equal(found, wanted)
        assert np.array_equal(back, arithmetic.dequantize_by_scale_and_zp(wanted, scale, zeros))


REFUSED = [
    (["convert", "FOLDER/m.onnx"], "precision int8 learns ranges from runs of the model"),
    (
        ["convert", "FOLDER/m.onnx", "--calibrate", "FOLDER/r.npz", "--target", "iOS16"],
        "needs iOS17, and the program is for iOS16",
    ),
    (["convert", "FOLDER/m.onnx", "--calibrate", "FOLDER/r.npz", "--verify"], "--precision makes them differ"),
    (["convert", "FOLDER/m.onnx", "--calibrate", "FOLDER/r.npz", "--image-input", "x:rgb"], "inputs that are images"),
    (["convert", "FOLDER/m.onnx", "--calibrate", "y=1"], "the model has no input 'y'"),
    (["convert", "FOLDER/m.onnx", "--calibrate", "x=1"], "input 'x' is f32[], expected f32[B,3,29,31]"),
    (
        ["convert", "--function", "f=FOLDER/m.onnx", "--target", "iOS18", "--calibrate", "FOLDER/r.npz"],
        "several functions",
    ),
    (
        ["convert", "FOLDER/m.onnx", "--calibrate", "FOLDER/r.npz", "--precision", "f16"],
        "calibration is for precision int8",
    ),
    (["optimize", "FOLDER/p.mlpackage"], "--precision int8 of Core ML learns ranges from runs"),
    (["optimize", "FOLDER/p16.mlpackage", "--calibrate", "FOLDER/r.npz"], "needs iOS17, and the program is for iOS16"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("int8")
    onnx.save(network(), made / "m.onnx")
    np.savez(made / "r.npz", **inputs("cnn", 0, 13))
    package("cnn", made / "p.mlpackage")
    package("cnn", made / "p16.mlpackage", target="iOS16")
    return made


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_the_command_refuses(folder, arguments, message, tmp_path):
    kind, *rest = [a.replace("FOLDER", str(folder)) for a in arguments]
    out = tmp_path / "q.mlpackage"
    asked = [] if "--precision" in rest else ["--precision", "int8"]
    done = command.sardonyx(kind, *rest, "-o", out, *asked, ok=False)
    assert done.returncode != 0
    assert message in done.stderr
    assert not out.exists()


def test_what_the_command_tells(folder, tmp_path):
    asked = ("-o", tmp_path / "q.mlpackage", "--precision", "int8", "--calibrate", folder / "r.npz")
    converted = command.sardonyx("convert", folder / "m.onnx", *asked)
    assert "9 in int8" in converted.stdout
    model = mlp()
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full((37, 131), np.inf, np.float32), "w1"))
    sardonyx.to_coreml(model, output_path=tmp_path / "inf.mlpackage", precision="f32")
    runs = [v for i in range(2) for v in ("--calibrate", tmp_path / f"{i}.npz")]
    for i in range(2):
        np.savez(tmp_path / f"{i}.npz", **inputs("mlp", i))
    asked = ("-o", tmp_path / "q2.mlpackage", "--precision", "int8", *runs, "--explain", "quantize_activations")
    told = command.sardonyx("optimize", tmp_path / "inf.mlpackage", *asked)
    for why in ("its weight is infinite or NaN, or used otherwise", "its operand is infinite or NaN in a run"):
        assert f"in floats: {why}" in told.stdout
        assert why in told.stdout.replace("in floats: ", "", 1) + told.stderr


def test_what_python_refuses(folder):
    with pytest.raises(sardonyx.Error, match="learns ranges from runs"):
        coreml.optimize(folder / "p.mlpackage", precision="int8")
    with pytest.raises(sardonyx.Error, match="learns ranges from runs"):
        sardonyx.to_coreml(network(), precision="int8")
    with pytest.raises(sardonyx.Error, match="calibration is for precision int8"):
        sardonyx.to_coreml(network(), calibration=runs_of("cnn"))
    with pytest.raises(sardonyx.Error, match="calibration is a list of runs"):
        sardonyx.to_coreml(network(), precision="int8", calibration=inputs("cnn", 0))
    with pytest.raises(sardonyx.Error, match="input 'x' is missing"):
        coreml.optimize(folder / "p.mlpackage", precision="int8", calibration=[{}])
    with pytest.raises(sardonyx.Error, match="NaN"):
        coreml.optimize(
            folder / "p.mlpackage", precision="int8", calibration=[{"x": np.full((13, 3, 29, 31), np.nan, np.float32)}]
        )
