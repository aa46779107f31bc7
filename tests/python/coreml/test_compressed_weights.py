"""Weights of Core ML programs in fewer bits: what is stored, read back by coremltools, and what it loses."""

import re
import subprocess

import command
import numpy as np
import onnx
import pytest
import sardonyx
from large_weights import first_row, save_with_holes
from onnx import numpy_helper
from sardonyx import coreml

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import coremltools.optimize.coreml as cto  # noqa: E402
import mil_programs as programs  # noqa: E402
from coremltools.converters.mil.frontend.milproto.load import load as load_program  # noqa: E402
from mil_programs import mb  # noqa: E402
from sardonyx.compat import coremltools as compat  # noqa: E402

OLD, NEW = "iOS17", "iOS18"
INTEGERS = [("int8", OLD), ("uint8", OLD), ("int8", NEW), ("uint8", NEW), ("int4", NEW), ("uint4", NEW)]
PALETTES = [
    (f"palette{bits}", target) for target in (OLD, NEW) for bits in (1, 2, 3, 4, 6, 8) if (bits, target) != (3, OLD)
]
ALL = [*INTEGERS, *PALETTES, ("sparse", OLD), ("sparse", NEW)]
RNG = np.random.default_rng(5)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def model_of(text, **weights):
    """An ONNX model. Its weights are initializers."""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    proto.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    return proto


PRODUCT = model_of("g (float[96,96] x) => (float[96,37] y) { y = MatMul(x, w) }", w=normal(96, 37))
LAYERS = {
    "linear": model_of("g (float[3,96] x) => (float[3,37] y) { y = Gemm<transB=1>(x, w) }", w=normal(37, 96)),
    "conv": model_of("g (float[1,32,5,7] x) => (float[1,11,3,5] y) { y = Conv(x, w) }", w=normal(11, 32, 3, 3)),
    "conv_transpose": model_of(
        "g (float[1,64,5,7] x) => (float[1,13,7,9] y) { y = ConvTranspose(x, w) }", w=normal(64, 13, 3, 3)
    ),
    "left": model_of("g (float[96,5] x) => (float[37,5] y) { y = MatMul(w, x) }", w=normal(37, 96)),
    "batch": model_of("g (float[3,5,32] x) => (float[3,5,37] y) { y = MatMul(x, w) }", w=normal(3, 32, 37)),
    "gather": model_of("g (int32[5] x) => (float[5,37] y) { y = Gather(w, x) }", w=normal(101, 37)),
    "lstm": model_of(
        "g (float[7,1,32] x) => (float[7,1,1,29] y) { y = LSTM<hidden_size=29>(x, w, r) }",
        w=normal(1, 4 * 29, 32) / 7,
        r=normal(1, 4 * 29, 29) / 7,
    ),
}


def convert(model, path, precision="f32", **options):
    sardonyx.to_coreml(model, output_path=path, precision=precision, **options)
    return path


def program_of(package):
    model = ct.models.MLModel(str(package), skip_model_load=True)
    return load_program(
        model.get_spec(), model.get_spec().specificationVersion, str(package / "Data/com.apple.CoreML/weights")
    )


def decompressed(package):
    """What coremltools makes of each compressed weight."""
    ops = [op for op in program_of(package).functions["main"].operations if op.op_type.startswith("constexpr_")]
    return [op.materialized_val_inference() for op in ops]


def stored_bytes(package):
    return (package / "Data/com.apple.CoreML/weights/weight.bin").stat().st_size


def result_of(package, x):
    (y,) = coreml.load(package).run([x]).values()
    return y


def as_we_expand(package):
    """The weight of PRODUCT, by the evaluator."""
    return result_of(package, np.eye(96, dtype=np.float32))


def error_of(w, found):
    return float(((w.astype(np.float64) - found.astype(np.float64)) ** 2).sum() / (w.astype(np.float64) ** 2).sum())


# Relative squared errors of normal numbers: scales for 96 of them, blocks of 32, tables, and half of them zero.
BOUNDS = {
    "int8": 8e-5, "uint8": 8e-5, "int4": 0.012, "uint4": 0.012, "sparse": 0.08,
    "palette1": 0.37, "palette2": 0.12, "palette3": 0.036, "palette4": 0.01, "palette6": 8e-4, "palette8": 6e-5,
}  # fmt: skip


@pytest.mark.parametrize("precision", ["f32", "f16"])
@pytest.mark.parametrize(("weights", "target"), ALL)
def test_coremltools_expands_what_we_expand(weights, target, precision, tmp_path):
    w = numpy_helper.to_array(PRODUCT.graph.initializer[0])
    small = convert(PRODUCT, tmp_path / "q.mlpackage", target=target, weights=weights, precision=precision)
    (theirs,) = decompressed(small)
    assert theirs.dtype == (np.float32 if precision == "f32" else np.float16)
    np.testing.assert_array_equal(theirs.reshape(as_we_expand(small).shape), as_we_expand(small).astype(theirs.dtype))
    assert 0 < error_of(w, theirs) < BOUNDS[weights]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(
    ("weights", "target"), [("int8", OLD), ("int4", NEW), ("palette4", OLD), ("palette6", NEW), ("sparse", NEW)]
)
def test_layers(layer, weights, target, tmp_path):
    model = LAYERS[layer]
    small = convert(model, tmp_path / "q.mlpackage", target=target, weights=weights)
    whole = convert(model, tmp_path / "f.mlpackage", target=target)
    assert len(decompressed(small)) == len(model.graph.initializer)
    assert stored_bytes(small) < stored_bytes(whole) * (0.6 if weights == "sparse" else 0.35)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = RNG.integers(0, 101, shape).astype(np.int32) if layer == "gather" else normal(*shape)
    exact, found = result_of(whole, x), result_of(small, x)
    assert 0 < error_of(exact, found) < 1.5 * BOUNDS[weights]


@pytest.mark.parametrize(("weights", "target"), ALL)
def test_a_package_becomes_the_same_as_a_conversion(weights, target, tmp_path):
    converted = convert(PRODUCT, tmp_path / "c.mlpackage", target=target, weights=weights)
    whole = convert(PRODUCT, tmp_path / "f.mlpackage", target=target)
    coreml.optimize(whole, tmp_path / "o.mlpackage", passes="none", weights=weights)
    np.testing.assert_array_equal(decompressed(tmp_path / "o.mlpackage")[0], decompressed(converted)[0])
    assert coreml.load(tmp_path / "o.mlpackage").op_counts() == coreml.load(converted).op_counts()


@pytest.mark.parametrize(("weights", "target"), ALL)
def test_a_second_run_changes_nothing(weights, target, tmp_path):
    once, twice = tmp_path / "1.mlpackage", tmp_path / "2.mlpackage"
    convert(PRODUCT, once, target=target, weights=weights)
    found = coreml.optimize(once, twice, weights=weights, return_report=True)
    assert not any(p["changed"] for p in found.report.passes if p["name"] == "compress_weights")
    for file in ("Data/com.apple.CoreML/model.mlmodel", "Data/com.apple.CoreML/weights/weight.bin"):
        assert (once / file).read_bytes() == (twice / file).read_bytes()


def test_tables_for_groups_of_channels_lose_less(tmp_path):
    columns = np.repeat([1, 100], [19, 18]).astype(np.float32)
    model = model_of("g (float[96,96] x) => (float[96,37] y) { y = MatMul(x, w) }", w=normal(96, 37) * columns)
    w = numpy_helper.to_array(model.graph.initializer[0])
    errors = []
    for size in (0, 1):
        options = {"compress_weights.group_size": size}
        package = convert(model, tmp_path / f"{size}.mlpackage", target=NEW, weights="palette2", options=options)
        errors.append(error_of(w[:, :19], decompressed(package)[0][:, :19]))
    assert errors[1] < 0.13 < 0.9 < errors[0]


@pytest.mark.parametrize("target", [OLD, NEW])
def test_sparsity_is_a_share(target, tmp_path):
    w = numpy_helper.to_array(PRODUCT.graph.initializer[0])
    package = convert(
        PRODUCT, tmp_path / "q.mlpackage", target=target, weights="sparse", options={"compress_weights.sparsity": 0.75}
    )
    (found,) = decompressed(package)
    kept = found != 0
    assert kept.sum() == w.size - np.ceil(0.75 * w.size)
    np.testing.assert_array_equal(found[kept], w[kept])
    assert np.abs(w[kept]).min() >= np.abs(w[~kept]).max()


def test_a_tied_weight_is_stored_once(tmp_path):
    model = model_of(
        "g (int32[5] i) => (float[5,101] y) { x = Gather(w, i) y = Gemm<transB=1>(x, w) }", w=normal(101, 37)
    )
    package = convert(model, tmp_path / "q.mlpackage", weights="int8")
    counts = coreml.load(package).op_counts()
    assert counts["constexpr_affine_dequantize"] == 1
    assert stored_bytes(package) < 1.3 * 101 * 37


def test_functions_share_compressed_weights(tmp_path):
    functions = {"one": PRODUCT, "two": PRODUCT}
    made = sardonyx.to_coreml(
        functions=functions, target=NEW, weights="int4", precision="f32", output_path=tmp_path / "q.mlpackage"
    )
    assert made is not None
    assert stored_bytes(tmp_path / "q.mlpackage") < 1.5 * 96 * 37 / 2


def test_a_jax_function(tmp_path):
    jnp = pytest.importorskip("jax.numpy")
    w = jnp.asarray(normal(96, 37))
    made = sardonyx.to_coreml(lambda x: jnp.tanh(x @ w), [(5, 96)], weights="palette4")
    assert made.op_counts()["constexpr_lut_to_dense"] == 1


def test_what_is_small_or_no_weight_stays(tmp_path):
    @mb.program(input_specs=[mb.TensorSpec(shape=(47, 53))], opset_version=ct.target.iOS17)
    def prog(x):
        y = mb.add(x=x, y=normal(47, 53))
        return mb.matmul(x=y, y=normal(53, 37))

    source = tmp_path / "f.mlpackage"
    programs.save(prog, str(source), ct.target.iOS17)
    small = coreml.optimize(source, tmp_path / "q.mlpackage", weights="int8")
    assert not any(op.startswith("constexpr_") for op in small.op_counts())


# --- the command


def test_the_command_on_models_and_packages(tmp_path):
    onnx.save(PRODUCT, tmp_path / "m.onnx")
    converted, whole, small = (tmp_path / f"{name}.mlpackage" for name in "cfq")
    command.sardonyx("convert", tmp_path / "m.onnx", "-o", converted, "--weights", "palette4", "--precision", "f32")
    command.sardonyx("convert", tmp_path / "m.onnx", "-o", whole, "--precision", "f32")
    command.sardonyx("optimize", whole, "-o", small, "--weights", "palette4")
    np.testing.assert_array_equal(as_we_expand(converted), as_we_expand(small))
    done = command.sardonyx("compare", whole, small, ok=False)
    assert done.returncode == 1
    assert "the models differ: result 0 differs" in done.stdout


def test_a_conversion_is_not_compared_after_compression(tmp_path):
    onnx.save(PRODUCT, tmp_path / "m.onnx")
    done = command.sardonyx(
        "convert", tmp_path / "m.onnx", "-o", tmp_path / "q.mlpackage", "--weights", "int8", "--verify", ok=False
    )
    assert "--weights makes them differ" in done.stderr
    assert not (tmp_path / "q.mlpackage").exists()


@pytest.mark.parametrize(("weights", "bits"), [("int4", "i4"), ("palette3", "u3"), ("sparse", "u1")])
def test_info_names_the_bits(weights, bits, tmp_path):
    package = convert(PRODUCT, tmp_path / "q.mlpackage", target=NEW, weights=weights)
    assert f" {bits}[96,37] " in command.sardonyx("info", package).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--weights", "int5"], "weights cannot be stored as 'int5'"),
        (["--weights", "int4"], "weights stored as int4 need iOS18, and the program is for iOS17"),
        (["--weights", "palette3"], "weights stored as palette3 need iOS18, and the program is for iOS17"),
        (["--weights", "int8", "--option", "compress_weights.block_size=32"], "scales for blocks need iOS18"),
        (["--weights", "int8", "--option", "compress_weights.sparsity=0.5"], "sparsity is an option of sparse weights"),
        (["--option", "compress_weights.sparsity=0.5"], "compress_weights"),
        (["--weights", "sparse", "--option", "compress_weights.sparsity=1.5"], "a share '1.5' of the weights"),
    ],
)
@pytest.mark.parametrize("kind", ["convert", "optimize"])
def test_bad_input_is_one_error_and_writes_nothing(kind, arguments, message, tmp_path):
    onnx.save(PRODUCT, tmp_path / "m.onnx")
    source = tmp_path / "m.onnx"
    if kind == "optimize":
        source = convert(PRODUCT, tmp_path / "f.mlpackage")
    done = command.sardonyx(kind, source, "-o", tmp_path / "q.mlpackage", *arguments, ok=False)
    assert done.returncode != 0
    assert message in done.stderr
    assert not (tmp_path / "q.mlpackage").exists()


def test_weights_that_are_infinite_stay_and_are_reported(tmp_path):
    w = numpy_helper.to_array(PRODUCT.graph.initializer[0]).copy()
    w[3, 5] = np.inf
    whole = convert(
        model_of("g (float[96,96] x) => (float[96,37] y) { y = MatMul(x, w) }", w=w), tmp_path / "f.mlpackage"
    )
    found = coreml.optimize(whole, tmp_path / "q.mlpackage", passes="none", weights="int8", return_report=True)
    assert "infinite or NaN" in " ".join(found.report.warnings)
    assert not any(op.startswith("constexpr_") for op in coreml.load(tmp_path / "q.mlpackage").op_counts())


# --- coremltools' names


def op_config(name, **how):
    return cto.OptimizationConfig(global_config=getattr(cto, name)(**how))


CONFIGS = [
    ("linear_quantize_weights", op_config("OpLinearQuantizerConfig", mode="linear_symmetric"), "int8", {}),
    ("linear_quantize_weights", op_config("OpLinearQuantizerConfig", mode="linear", dtype="uint8"), "uint8", {}),
    (
        "linear_quantize_weights",
        op_config("OpLinearQuantizerConfig", dtype="int4", granularity="per_block", block_size=16),
        "int4",
        {"block_size": 16},
    ),
    ("palettize_weights", op_config("OpPalettizerConfig", nbits=4), "palette4", {}),
    (
        "palettize_weights",
        op_config("OpPalettizerConfig", nbits=2, granularity="per_grouped_channel", group_size=37),
        "palette2",
        {"group_size": 37},
    ),
    ("prune_weights", op_config("OpMagnitudePrunerConfig", target_sparsity=0.75), "sparse", {"sparsity": 0.75}),
]


@pytest.mark.parametrize(("function", "config", "weights", "options"), CONFIGS)
def test_configurations_of_coremltools(function, config, weights, options, tmp_path):
    whole = convert(PRODUCT, tmp_path / "f.mlpackage", target=NEW)
    model = ct.models.MLModel(str(whole), skip_model_load=True)
    getattr(compat, function)(model, config, output_path=tmp_path / "c.mlpackage")
    options = {f"compress_weights.{name}": value for name, value in options.items()}
    coreml.optimize(whole, tmp_path / "o.mlpackage", passes="none", weights=weights, options=options)
    np.testing.assert_array_equal(decompressed(tmp_path / "c.mlpackage")[0], decompressed(tmp_path / "o.mlpackage")[0])


@pytest.mark.parametrize(
    ("function", "config", "message"),
    [
        ("palettize_weights", op_config("OpPalettizerConfig", nbits=4, mode="uniform"), 'mode "uniform"'),
        (
            "palettize_weights",
            op_config("OpMagnitudePrunerConfig", target_sparsity=0.5),
            "OpPalettizerConfig was expected",
        ),
        ("palettize_weights", None, "config is an OptimizationConfig"),
        ("linear_quantize_weights", op_config("OpLinearQuantizerConfig", granularity="per_tensor"), "per_tensor"),
        ("prune_weights", op_config("OpMagnitudePrunerConfig", n_m_ratio=(1, 2)), "n_m_ratio"),
    ],
)
def test_configurations_without_a_form_are_refused(function, config, message, tmp_path):
    whole = convert(PRODUCT, tmp_path / "f.mlpackage", target=NEW)
    with pytest.raises(sardonyx.Error, match=message):
        getattr(compat, function)(whole, config, output_path=tmp_path / "q.mlpackage")
    assert not (tmp_path / "q.mlpackage").exists()


@pytest.mark.parametrize(
    ("weights", "op", "bound"), [("sparse-int8", "blockwise_shift_scale", 0.08), ("sparse-palette4", "lut", 0.09)]
)
@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_zeros_and_fewer_bits(weights, op, bound, precision, tmp_path):
    w = numpy_helper.to_array(PRODUCT.graph.initializer[0])
    package = convert(PRODUCT, tmp_path / "q.mlpackage", target=NEW, weights=weights, precision=precision)
    _, found = decompressed(package)
    np.testing.assert_array_equal(found, as_we_expand(package).astype(found.dtype))
    assert (found == 0).sum() >= w.size / 2
    assert 0 < error_of(w, found) < bound
    assert any(op in name for name in coreml.load(package).op_counts())
    assert stored_bytes(package) < (1 / 8 + (0.5 if "int8" in weights else 0.25)) * w.size + 1000


def constants(package):
    """The type and hash of each constant of a package, by those of what reads it."""
    text = command.sardonyx("view", package).stdout
    stored = dict(re.findall(r"^  (%\d+) = (.*)$", text, re.M))
    return {
        name: [stored[c] for c in re.findall(r"%\d+", operands)]
        for name, operands in re.findall(r"^  (w\d+)\w* = constexpr_\w+\((.*?)\)", text, re.M)
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "target", "precision", "limit"),
    [("int4", NEW, "f32", 90), ("uint4", NEW, "f16", 150), ("int8", OLD, "f16", 150)],
)
def test_more_weights_than_memory_needs_are_narrowed_while_they_are_written(
    weights, target, precision, limit, tmp_path
):
    rows, columns, count = 32 * 79, 5003, 61  # 3.1 GB; in half precision, a weight is in memory as floats
    many = save_with_holes(tmp_path / "many", rows, columns, count)
    few = save_with_holes(tmp_path / "few", rows, columns, 3)
    how = ["--precision", precision, "--target", target, "--quiet"]
    limited = ["prlimit", f"--data={limit}000000", command.BUILD / "sardonyx"]
    narrow = ["--weights", weights]
    subprocess.run([*limited, "convert", many, "-o", tmp_path / "many.mlpackage", *narrow, *how], check=True)
    command.sardonyx("convert", few, "-o", tmp_path / "few.mlpackage", *narrow, *how)
    found, expected = constants(tmp_path / "many.mlpackage"), constants(tmp_path / "few.mlpackage")
    assert len(found) == count and len(expected) == 3
    for i, floats in enumerate(decompressed(tmp_path / "few.mlpackage")):
        np.testing.assert_allclose(floats[0], first_row(i, columns), rtol=0.5 if "4" in weights else 0.01)
        assert not floats[1:].any()
    for name, parts in expected.items():
        assert found[name] == parts and len(parts) >= 2, name
    if precision == "f32":  # a package, too
        command.sardonyx("convert", many, "-o", tmp_path / "wide.mlpackage", *how)
        package = tmp_path / "again.mlpackage"
        subprocess.run(
            [*limited, "optimize", tmp_path / "wide.mlpackage", "-o", package, *narrow, "--quiet"], check=True
        )
        assert constants(package) == found
