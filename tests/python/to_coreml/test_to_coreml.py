"""ONNX models and JAX functions as Core ML packages: onnxruntime (or JAX) beside Sardonyx's evaluator, types beside coremltools'."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import sardonyx  # noqa: E402
from coremltools.converters.mil.frontend.milproto.load import load as load_program  # noqa: E402
from coremltools.converters.mil.mil import types  # noqa: E402
from onnx import TensorProto as T  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from sardonyx import coreml  # noqa: E402

WEIGHTS = Path("Data/com.apple.CoreML/weights/weight.bin")


class Builder:
    """An ONNX model, node by node."""

    def __init__(self, opset=17):
        self.nodes, self.weights, self.inputs, self.opset = [], [], [], opset
        self.rng = np.random.default_rng(7)

    def input(self, name, shape, dtype=T.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape, scale=0.5):
        return self.constant((scale * self.rng.standard_normal(shape)).astype(np.float32))

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"{kind}.{len(self.nodes)}/{i}" for i in range(outputs)]  # no names that Core ML takes
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def model(self, **results):
        nodes = self.nodes + [helper.make_node("Identity", [v], [name]) for name, v in results.items()]
        outputs = [helper.make_tensor_value_info(name, T.FLOAT, None) for name in results]
        graph = helper.make_graph(nodes, "model", self.inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def run_onnx(model, inputs):
    import onnxruntime as ort

    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs), strict=True))


def type_of(value_type):
    """(element type, sizes) as a file says them; None: open."""
    tensor = value_type.tensorType
    return tensor.dataType, tuple(
        d.constant.size if d.WhichOneof("dimension") == "constant" else None for d in tensor.dimensions
    )


# MIL's numbers for element types.
TYPES = {
    1: types.bool,
    2: types.str,
    10: types.fp16,
    11: types.fp32,
    21: types.int8,
    22: types.int16,
    23: types.int32,
    24: types.int64,
    31: types.uint8,
}


def check_types(package):
    """coremltools loads the package, and infers the types that Sardonyx wrote, op by op."""
    spec = ct.models.MLModel(str(package), skip_model_load=True).get_spec()
    weights = Path(package) / WEIGHTS
    program = load_program(spec, spec.specificationVersion, str(weights.parent) if weights.exists() else "")
    function = spec.mlProgram.functions["main"]
    written, todo = {}, [function.block_specializations[function.opset]]
    while todo:
        block = todo.pop()
        for op in block.operations:
            todo += op.blocks
            for out in op.outputs:
                if out.type.WhichOneof("type") == "tensorType":
                    written[out.name] = type_of(out.type)
    seen, todo = 0, [program.functions["main"]]
    while todo:
        for op in todo.pop().operations:
            todo += op.blocks
            for var in op.outputs:
                if var.name not in written:
                    continue
                dtype, sizes = written[var.name]
                found = tuple(d if isinstance(d, (int, np.integer)) else None for d in (var.shape or ()))
                assert len(found) == len(sizes), f"{op.op_type} {var.name}: {found} against {sizes}"
                for a, b in zip(found, sizes, strict=True):
                    assert a is None or b is None or a == b, f"{op.op_type} {var.name}: {found} against {sizes}"
                assert var.dtype == TYPES[dtype], f"{op.op_type} {var.name}: {var.dtype} against {TYPES[dtype]}"
                seen += 1
    assert seen > 0
    return spec


def spec_of(package):
    return ct.models.MLModel(str(package), skip_model_load=True).get_spec()


def given(x):
    """An input as Core ML takes it: integers of 32 bits, numbers for bools."""
    x = np.asarray(x)
    return x.astype({"i": np.int32, "u": np.int32, "b": np.float32}.get(x.dtype.kind, x.dtype))


def check(model, tmp_path, *inputs, target="iOS17", tolerance=4e-6):
    """The package on Sardonyx's evaluator beside the model in onnxruntime, for each set of inputs."""
    path = tmp_path / "out.mlpackage"
    program = sardonyx.to_coreml(model, output_path=path, target=target, precision="f32")
    spec = check_types(path)
    for one in inputs:
        wanted = run_onnx(model, one)
        found = program.run({name: given(x) for name, x in one.items()})
        assert list(found) == list(wanted)
        for name, y in wanted.items():
            assert found[name].shape == y.shape
            largest = np.abs(y).max(initial=1e-30)
            assert np.abs(found[name] - y).max(initial=0) <= tolerance * largest, name
    return program, spec


def ops(program):
    return {op: n for op, n in program.op_counts().items() if op != "const"}


def mlp():
    b = Builder()
    x = b.input("x", ["N", 11])
    h = b.op("Relu", b.op("Gemm", x, b.weight(13, 11), b.weight(13), transB=1))
    return b.model(y=b.op("Softmax", b.op("Gemm", h, b.weight(13, 5), b.weight(5)), axis=-1))


def cnn():
    b = Builder()
    x = b.input("image", ["N", 3, 19, 23])

    def block(x, channels, into, stride):
        y = b.op("Conv", x, b.weight(into, channels, 3, 3, scale=0.2), pads=[1, 1, 1, 1], strides=[stride, stride])
        ones = np.abs(b.rng.standard_normal((4, into))).astype(np.float32)
        return b.op("Relu", b.op("BatchNormalization", y, *map(b.constant, ones)))

    y = b.op("MaxPool", block(x, 3, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = b.op("Add", block(y, 7, 7, 1), y)
    y = b.op("Flatten", b.op("GlobalAveragePool", y))
    return b.model(logits=b.op("Gemm", y, b.weight(5, 7), b.weight(5), transB=1))


def bert(heads=3, width=7):
    """One layer, as exporters write it: shapes computed at run time, a mask, layer_norm and gelu spelled out."""
    b = Builder(opset=16)
    size = heads * width
    ids = b.input("ids", ["B", "T"], T.INT64)
    mask = b.input("mask", ["B", "T"], T.INT64)
    x = b.op("Gather", b.weight(29, size), ids)

    def norm(x):
        centered = b.op("Sub", x, b.op("ReduceMean", x, axes=[-1]))
        variance = b.op("ReduceMean", b.op("Pow", centered, b.constant(np.float32(2))), axes=[-1])
        root = b.op("Sqrt", b.op("Add", variance, b.constant(np.float32(1e-5))))
        return b.op("Add", b.op("Mul", b.op("Div", centered, root), b.weight(size)), b.weight(size))

    def dense(x, a, c):
        return b.op("Add", b.op("MatMul", x, b.weight(a, c, scale=0.2)), b.weight(c))

    def split(x):
        shape = b.op("Shape", x)
        kept = [b.op("Gather", shape, b.constant(np.int64(k))) for k in (0, 1)]
        parts = [b.op("Unsqueeze", k, b.constant(np.array([0]))) for k in kept]
        full = b.op("Concat", *parts, b.constant(np.array([heads])), b.constant(np.array([width])), axis=0)
        return b.op("Transpose", b.op("Reshape", x, full), perm=[0, 2, 1, 3])

    x = norm(x)
    q, k, v = (split(dense(x, size, size)) for _ in range(3))
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = b.op("Div", scores, b.constant(np.float32(width**0.5)))
    wide = b.op("Unsqueeze", mask, b.constant(np.array([1, 2])))
    bias = b.op(
        "Mul", b.op("Sub", b.constant(np.float32(1)), b.op("Cast", wide, to=T.FLOAT)), b.constant(np.float32(-1e4))
    )
    weights = b.op("Softmax", b.op("Add", scores, bias), axis=-1)
    mixed = b.op("Transpose", b.op("MatMul", weights, v), perm=[0, 2, 1, 3])
    x = b.op("Add", dense(b.op("Reshape", mixed, b.constant(np.array([0, 0, size]))), size, size), x)
    h = dense(norm(x), size, 31)
    erf = b.op("Erf", b.op("Div", h, b.constant(np.float32(2**0.5))))
    h = b.op("Mul", b.op("Mul", h, b.op("Add", erf, b.constant(np.float32(1)))), b.constant(np.float32(0.5)))
    x = norm(b.op("Add", dense(h, 31, size), x))
    return b.model(states=x, pooled=b.op("Tanh", dense(b.op("Gather", x, b.constant(np.int64(0)), axis=1), size, size)))


def tokens(batch, length, seed):
    rng = np.random.default_rng(seed)
    mask = np.ones((batch, length), np.int64)
    mask[0, length // 2 :] = 0
    return {"ids": rng.integers(0, 29, (batch, length)), "mask": mask}


def normal(name, shape, seed):
    return {name: np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("target", ["iOS15", "iOS16", "iOS17", "iOS18"])
def test_mlp(tmp_path, target):
    program, _ = check(mlp(), tmp_path, normal("x", (2, 11), 1), normal("x", (5, 11), 2), target=target)
    assert ops(program) == {"linear": 2, "relu": 1, "softmax": 1}
    assert program.specification_version == int(target[3:]) - 9


@pytest.mark.parametrize("target", ["iOS15", "iOS17"])
def test_cnn(tmp_path, target):
    shapes = (1, 3, 19, 23), (3, 3, 19, 23)
    program, spec = check(cnn(), tmp_path, *(normal("image", s, i) for i, s in enumerate(shapes)), target=target)
    counts = program.op_counts()
    assert counts["conv"] == 2 and "batch_norm" not in counts, "batch normalization goes into the convolutions"
    image = spec.description.input[0].type.multiArrayType
    assert list(image.shape) == [1, 3, 19, 23]
    assert [(r.lowerBound, r.upperBound) for r in image.shapeRange.sizeRanges] == [
        (1, 4096),
        (3, 3),
        (19, 19),
        (23, 23),
    ]


def test_sizes_bound_the_flexible_shapes(tmp_path):
    path = tmp_path / "out.mlpackage"
    sardonyx.to_coreml(mlp(), output_path=path, sizes={"N": (2, 7)})
    array = check_types(path).description.input[0].type.multiArrayType
    assert list(array.shape) == [2, 11]
    assert [(r.lowerBound, r.upperBound) for r in array.shapeRange.sizeRanges] == [(2, 7), (11, 11)]


@pytest.mark.parametrize("target", ["iOS15", "iOS17"])
def test_bert(tmp_path, target):
    program, _ = check(bert(), tmp_path, tokens(2, 7, 1), tokens(3, 5, 2), target=target)
    counts = program.op_counts()
    assert counts["layer_norm"] == 3 and counts["gelu"] == 1 and counts["softmax"] == 1


def test_bert_of_fixed_size_computes_no_shapes(tmp_path):
    path = tmp_path / "out.mlpackage"
    program = sardonyx.to_coreml(
        bert(), output_path=path, input_shapes={"ids": (2, 7), "mask": (2, 7)}, precision="f32"
    )
    assert not {"shape", "concat", "slice_by_index"} & set(ops(program))
    check_types(path)


def test_half_precision(tmp_path):
    path = tmp_path / "out.mlpackage"
    program = sardonyx.to_coreml(cnn(), output_path=path, precision="f16")
    check_types(path)
    one = normal("image", (1, 3, 19, 23), 3)
    wanted = run_onnx(cnn(), one)["logits"]
    assert np.abs(program.run(one)["logits"] - wanted).max() <= 1e-2 * np.abs(wanted).max()
    weights = (path / WEIGHTS).stat().st_size
    sardonyx.to_coreml(cnn(), output_path=path, precision="f32")
    assert weights < 0.7 * (path / WEIGHTS).stat().st_size


def test_a_jax_function(tmp_path):
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(3)
    w, b = rng.standard_normal((11, 13)).astype(np.float32), rng.standard_normal(13).astype(np.float32)

    def layer(x):
        return jax.nn.softmax(jax.nn.gelu(x @ w + b, approximate=False), axis=-1)

    path = tmp_path / "layer.mlpackage"
    program = sardonyx.to_coreml(layer, [("B <= 7", 11)], output_path=path, precision="f32")
    spec = check_types(path)
    ranges = spec.description.input[0].type.multiArrayType.shapeRange.sizeRanges
    assert [(r.lowerBound, r.upperBound) for r in ranges] == [(1, 7), (11, 11)]
    assert ops(program) == {"linear": 1, "gelu": 1, "softmax": 1}
    for rows in (2, 5):
        x = rng.standard_normal((rows, 11)).astype(np.float32)
        (found,) = program.run([x]).values()
        np.testing.assert_allclose(found, layer(x), atol=2e-6)


def test_a_matrix_function_made_of_loops_within_loops():
    """A value whose type only the model knows became a scalar by way of itself, without end."""
    jax = pytest.importorskip("jax")
    from jax.scipy import linalg

    a = np.random.default_rng(5).standard_normal((5, 5)).astype(np.float32)
    a = a @ a.T + 5 * np.eye(5, dtype=np.float32)
    program = sardonyx.to_coreml(lambda x: jax.numpy.real(linalg.sqrtm(x)), [(5, 5)], target="iOS18", precision="f32")
    assert program.op_counts()["while_loop"] >= 3
    (root,) = program.run([a]).values()
    np.testing.assert_allclose(root @ root, a, atol=1e-4)


def test_everything_that_is_missing_is_one_error_and_nothing_is_written(tmp_path):
    b = Builder()
    x = b.input("x", [5, 5])
    y = b.op("Det", x)
    model = b.model(y=y, z=b.op("Det", b.op("Relu", x)))
    path = tmp_path / "out.mlpackage"
    with pytest.raises(sardonyx.Error) as caught:
        sardonyx.to_coreml(model, output_path=path)
    text = str(caught.value)
    assert "cannot convert 2 nodes of this model to Core ML (iOS17)" in text and "Det of f32[5,5] -> f32[]" in text
    assert list(tmp_path.iterdir()) == []


def test_an_equation_without_a_lowering_names_its_line(tmp_path):
    jnp = pytest.importorskip("jax.numpy")
    with pytest.raises(sardonyx.Error, match=r"DFT .* at test_to_coreml.py:\d+ .*a Fourier transform of open size"):
        sardonyx.to_coreml(lambda x: jnp.abs(jnp.fft.fft(x)), [("B", "T")], output_path=tmp_path / "out.mlpackage")
    assert list(tmp_path.iterdir()) == []


def test_names_are_made_valid_and_kept_in_the_metadata(tmp_path):
    b = Builder()
    x = b.input("x:0", [2, 3])
    path = tmp_path / "out.mlpackage"
    with pytest.warns(UserWarning, match="'x:0' is called 'x_0'"):
        sardonyx.to_coreml(
            b.model(**{"y/1": b.op("Relu", x)}),
            output_path=path,
            metadata={"author": "A", "license": "B", "version": "1", "description": "C"},
        )
    spec = ct.models.MLModel(str(path), skip_model_load=True).get_spec()
    assert [f.name for f in (*spec.description.input, *spec.description.output)] == ["x_0", "y_1"]
    metadata = spec.description.metadata
    assert (metadata.author, metadata.license, metadata.versionString, metadata.shortDescription) == (
        "A",
        "B",
        "1",
        "C",
    )
    assert metadata.userDefined["com.github.sardonyx.name.x_0"] == "x:0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "iOS14"}, "'iOS14' is not a deployment target"),
        ({"precision": "int4"}, "precision='int4' is not known"),
        ({"passes": "no_such_pass"}, "no_such_pass"),
        ({"input_shapes": {"y": (1, 2)}}, "the model has no input 'y'"),
        ({"sizes": {"T": (None, 3)}}, "no input has a size 'T'"),
        ({"sizes": ["N <= 3"]}, "sizes are a mapping of names to a lowest and a highest number"),
        ({"sizes": {"N": (None, 0)}}, "no size 'N' is at least 1 and at most 0"),
    ],
)
def test_impossible_options(tmp_path, options, message):
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.to_coreml(mlp(), output_path=tmp_path / "out.mlpackage", **options)
    assert list(tmp_path.iterdir()) == []


def test_an_output_without_a_format(tmp_path):
    with pytest.raises(sardonyx.Error, match="is not a valid name"):
        sardonyx.to_coreml(mlp(), output_path=tmp_path / "out.onnx")
    assert list(tmp_path.iterdir()) == []


def test_targets_of_coremltools(tmp_path):
    program = sardonyx.to_coreml(mlp(), output_path=tmp_path / "out.mlpackage", target=ct.target.iOS16)
    assert program.specification_version == 7


def test_without_a_path_the_program_comes_back():
    program = sardonyx.to_coreml(mlp(), precision="f32")
    one = normal("x", (2, 11), 4)
    np.testing.assert_allclose(program.run(one)["y"], run_onnx(mlp(), one)["y"], atol=2e-6)


def files_in(package):
    return {p.relative_to(package): p.read_bytes() for p in package.rglob("*") if p.is_file()}


@pytest.mark.parametrize("form", ["path", "message", "function"])
def test_a_program_in_memory_is_the_one_that_is_written(tmp_path, monkeypatch, form):
    """Nothing is written on the way, and what happens to the source afterwards does not matter."""
    source = tmp_path / "in.onnx"
    onnx.save(mlp(), source)
    weight = np.linspace(-1, 1, 1001, dtype=np.float32).reshape(13, 77)
    arguments = {"path": [source], "message": [mlp()], "function": [lambda x: jnp.tanh(x @ weight), [("N <= 7", 13)]]}[
        form
    ]
    options = {"sizes": {"N": (None, 7)}} if form != "function" else {}
    sardonyx.to_coreml(*arguments, output_path=tmp_path / "direct.mlpackage", **options)
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/to/be/found")
    program = sardonyx.to_coreml(*arguments, **options)
    source.write_bytes(b"changed in place")
    loaded = coreml.load(tmp_path / "direct.mlpackage")
    assert program.op_counts() == loaded.op_counts() and repr(program) == repr(loaded)
    program.save(tmp_path / "saved.mlpackage")
    assert files_in(tmp_path / "saved.mlpackage") == files_in(tmp_path / "direct.mlpackage")


def test_optimizing_in_memory(tmp_path, monkeypatch):
    """Nothing is written on the way, and the source may be deleted afterwards."""
    package, half = tmp_path / "in.mlpackage", tmp_path / "half.mlpackage"
    program = sardonyx.to_coreml(mlp(), output_path=package, sizes={"N": (None, 7)}, precision="f32")
    before, x = files_in(package), np.random.default_rng(0).standard_normal((5, 11), dtype=np.float32)
    coreml.optimize(package, half, passes=["add_fp16_cast", "cast_optimization"])
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/to/be/found")
    made = [coreml.optimize(source, passes=["add_fp16_cast", "cast_optimization"]) for source in (package, program)]
    assert files_in(package) == before and program.op_counts() == coreml.load(package).op_counts()
    shutil.rmtree(package)
    wanted = coreml.load(half)
    (result,) = wanted.run([x]).values()
    for number, one in enumerate(made):
        assert one.op_counts() == wanted.op_counts() != program.op_counts()
        one.save(tmp_path / f"{number}.mlpackage")
        (found,) = coreml.load(tmp_path / f"{number}.mlpackage").run([x]).values()
        np.testing.assert_array_equal(found, result)
    coreml.optimize(program, tmp_path / "text.sx", passes=["add_fp16_cast", "cast_optimization"])
    (found,) = coreml.optimize(tmp_path / "text.sx").run([x]).values()
    np.testing.assert_array_equal(found, result)


def window():
    """The last five rows that went in, and their mean."""
    b = Builder()
    x, rows = b.input("x", [1, 3]), b.input("rows", [5, 3])
    kept = b.op("Slice", rows, b.constant(np.array([1])), b.constant(np.array([9])), b.constant(np.array([0])))
    new = b.op("Concat", kept, x, axis=0)
    return b.model(mean=b.op("ReduceMean", new, axes=[0], keepdims=0), new_rows=new)


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_an_input_and_a_result_become_a_state(tmp_path, precision):
    path = tmp_path / "out.mlpackage"
    program = sardonyx.to_coreml(
        window(),
        output_path=path,
        target="iOS18",
        precision=precision,
        states={"rows": "new_rows"},
    )
    spec = spec_of(path)  # coremltools' reader knows no states
    (state,) = spec.description.state
    held = state.type.stateType.arrayType
    assert (state.name, list(held.shape)) == ("rows", [5, 3])
    assert [f.name for f in (*spec.description.input, *spec.description.output)] == ["x", "mean"]
    counts = program.op_counts()
    assert counts["write_state"] == 1 and "coreml_update_state" not in counts
    rows, kept = np.zeros((5, 3), np.float32), program.make_state()
    for step in range(7):
        one = {"x": np.full((1, 3), step / 4, np.float32) + np.arange(3, dtype=np.float32)}
        wanted = run_onnx(window(), {**one, "rows": rows})
        rows = wanted["new_rows"]
        found = program.run(one, state=kept)
        assert list(found) == ["mean"]
        np.testing.assert_allclose(found["mean"], wanted["mean"], rtol=2e-3)
        np.testing.assert_array_equal(kept["rows"], rows)  # multiples of 1/4, which f16 holds


def test_references_are_states(tmp_path):
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    if not hasattr(jax, "new_ref"):
        pytest.skip("this JAX has no references")

    def step(cache, x):
        cache[...] = jnp.concatenate([cache[1:], x[None]])
        return cache[...].sum(0)

    cache = jax.new_ref(jnp.zeros((5, 3)))
    path = tmp_path / "out.mlpackage"
    program = sardonyx.to_coreml(step, [cache, (3,)], output_path=path, target="iOS18", precision="f32")
    (state,) = spec_of(path).description.state
    kept = program.make_state()
    assert list(kept) == [state.name]
    for k in range(1, 8):
        x = np.full(3, k, np.float32)
        (found,) = program.run([x], state=kept).values()
        np.testing.assert_array_equal(found, np.full(3, sum(range(max(1, k - 4), k + 1)), np.float32))
    older = sardonyx.to_coreml(step, [cache, (3,)], target="iOS17", precision="f32")
    assert len(older.run([np.zeros((5, 3), np.float32), x])) == 2  # an input and a result, as in ONNX


def test_a_result_of_a_jax_function_is_a_state_by_its_position(tmp_path):
    pytest.importorskip("jax")
    program = sardonyx.to_coreml(
        lambda x, total: (x * 2, total + x),
        [(3,), (3,)],
        states={"total": 1},
        target="iOS18",
        precision="f32",
    )
    kept = program.make_state()
    for _ in range(3):
        program.run([np.ones(3, np.float32)], state=kept)
    np.testing.assert_array_equal(kept["total"], np.full(3, 3, np.float16))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": {"rows": "new_rows"}, "target": "iOS17"}, "states need iOS18"),
        ({"states": {"row": "new_rows"}}, "'row' is not an input of the model"),
        ({"states": {"rows": "rows"}}, "is not a result of the model"),
        ({"states": {"rows": "mean"}}, r"a state holds f16\[5,3\], and its result is f16\[3\]"),
        ({"states": {"rows": "new_rows", "x": "new_rows"}}, "is in two states"),
        ({"states": {"rows": "new_rows", "x": "mean"}}, "all results of the model are states"),
    ],
)
def test_impossible_states(tmp_path, options, message):
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.to_coreml(window(), output_path=tmp_path / "out.mlpackage", **{"target": "iOS18", **options})
    assert list(tmp_path.iterdir()) == []


def test_a_state_of_open_size_is_refused(tmp_path):
    b = Builder()
    x = b.input("x", ["N", 3])
    model = b.model(y=b.op("Relu", x), z=b.op("Neg", x))
    with pytest.raises(sardonyx.Error, match=r"the state 'x' is f32\[N,3\]"):
        sardonyx.to_coreml(model, output_path=tmp_path / "o.mlpackage", target="iOS18", states={"x": "z"})


@pytest.mark.parametrize("target", ["iOS16", "iOS18"])
@pytest.mark.parametrize("make", [mlp, cnn, bert])
def test_coremltools_default_passes_find_nothing_left(tmp_path, make, target):
    from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipelineManager

    path = tmp_path / "out.mlpackage"
    sardonyx.to_coreml(make(), output_path=path, target=target, precision="f32")
    spec = spec_of(path)
    program = load_program(spec, spec.specificationVersion, str((path / WEIGHTS).parent))

    def counts():
        return Counter(op.op_type for op in program.functions["main"].operations if op.op_type != "const")

    before = counts()
    pipeline = ct.PassPipeline()
    # The last of these guards the indices of gathers again, which the lowering has done.
    pipeline.remove_passes({"common::add_fp16_cast", "common::add_int16_cast", "common::guard_negative_gather_indices"})
    PassPipelineManager.apply_pipeline(program, pipeline)
    assert counts() == before


def attention_by_hand(heads=3, width=7):
    b = Builder(opset=17)
    q, k, v = (b.input(name, ["B", heads, length, width]) for name, length in (("q", "T"), ("k", "S"), ("v", "S")))
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = b.op("Div", scores, b.constant(np.float32(width**0.5)))
    return b.model(y=b.op("MatMul", b.op("Softmax", scores, axis=-1), v))


def test_what_guards_against_onnxruntime_is_not_written():
    """onnxruntime 1.23 averages wrongly where padding counts, so that ONNX files get a Pad."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        net (float[1,3,17,19] x) => (float[1,3,9,10] y) {
            y = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], count_include_pad=1>(x)
        }""")
    assert [n.op_type for n in sardonyx.optimize(model).graph.node] == ["Pad", "AveragePool"]
    assert ops(sardonyx.to_coreml(model, precision="f32")) == {"avg_pool": 1}


@pytest.mark.parametrize(("target", "fused"), [("iOS17", 0), ("iOS18", 1)])
def test_attention_is_one_op_from_ios_18_on(tmp_path, target, fused):
    def one(batch, queries, keys):
        shapes = {"q": (batch, 3, queries, 7), "k": (batch, 3, keys, 7), "v": (batch, 3, keys, 7)}
        return {name: x for i, (name, s) in enumerate(shapes.items()) for x in normal(name, s, i).values()}

    program, _ = check(attention_by_hand(), tmp_path, one(2, 5, 11), one(1, 13, 3), target=target)
    counts = program.op_counts()
    assert counts.get("scaled_dot_product_attention", 0) == fused and counts.get("softmax", 0) == 1 - fused


@pytest.mark.parametrize("last", [False, True])
def test_image_inputs(tmp_path, last):
    b = Builder()
    x = b.input("x:0", [1, 5, 7, 3] if last else [1, 3, 5, 7])
    model, path = b.model(y=b.op("Sin", x)), tmp_path / "out.mlpackage"
    how = {"color": "bgr", "scale": 1 / 128, "bias": [-1, -0.5, 0]}
    with pytest.warns(UserWarning, match="is called 'x_0'"):
        program = sardonyx.to_coreml(model, output_path=path, image_inputs={"x:0": how}, precision="f32")
    (feature,) = check_types(path).description.input
    image = feature.type.imageType
    assert (feature.name, image.width, image.height, image.colorSpace) == ("x_0", 7, 5, 30)
    pixels = np.random.default_rng(3).integers(0, 256, (1, 3, 5, 7)).astype(np.float32)
    given = pixels / 128 + np.array([-1, -0.5, 0], np.float32).reshape(1, 3, 1, 1)
    wanted = run_onnx(model, {"x:0": given.transpose(0, 2, 3, 1) if last else given})["y"]
    np.testing.assert_allclose(program.run({"x_0": pixels})["y"], wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ({"y": "rgb"}, "the image 'y' is not an input"),
        ({"image": "gray"}, r"the image 'image' is f32\[1,3,19,23\], expected numbers of shape \[1,1,height"),
        ({"image": "cmyk"}, "'image:cmyk' describes no image"),
        ({"image": {"color": "rgb", "bias": [1, 2]}}, "describes no image"),
        ({"image": {"colour": "rgb"}}, "an image is described by its color"),
    ],
)
def test_impossible_images(tmp_path, images, message):
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.to_coreml(
            cnn(), output_path=tmp_path / "o.mlpackage", input_shapes={"image": (1, 3, 19, 23)}, image_inputs=images
        )
    assert list(tmp_path.iterdir()) == []
