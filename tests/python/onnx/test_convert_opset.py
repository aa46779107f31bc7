"""Models converted to another opset: same results in onnxruntime, accepted by the checker, on files and from
Python."""

import glob
import os

import numpy as np
import onnx
import onnx.checker
import onnxruntime as ort
import pytest
import sardonyx
from command import sardonyx as command
from judge import NEWEST_OPSET
from onnx import TensorProto, helper, numpy_helper

LIGHT = sorted(glob.glob(os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light", "*.onnx")))


def run(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def convert(model, opset, **options):
    return sardonyx.optimize(model, passes="none", opset=opset, **options)


def opset_of(model):
    return next(i.version for i in model.opset_import if i.domain in ("", "ai.onnx"))


def fed(model):
    """Inputs without default values: before IR version 4, models list their initializers as well."""
    given = {t.name for t in model.graph.initializer}
    return [i.name for i in model.graph.input if i.name not in given]


def random_feeds(model):
    rng = np.random.default_rng(7)
    feeds = {}
    for value in (i for i in model.graph.input if i.name in fed(model)):
        shape = [d.dim_value or 2 for d in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = rng.uniform(0, 1, shape).astype(dtype)
    return feeds


@pytest.mark.parametrize("path", LIGHT, ids=[os.path.basename(p).removesuffix(".onnx") for p in LIGHT])
def test_real_architectures_raised(path):
    model = onnx.load(path)
    raised = convert(model, 23)
    assert opset_of(raised) == 23 and opset_of(model) < 10
    onnx.checker.check_model(raised)
    assert fed(raised) == fed(model)
    feeds = random_feeds(model)
    for before, after in zip(run(model, feeds), run(raised, feeds), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-7)


def old_model():
    """Operators at opset 9 that had parameters as attributes, with their meanings of that time."""
    nodes = [
        helper.make_node("Slice", ["x"], ["a"], starts=[0, 1], ends=[2, 7], axes=[0, 2]),
        helper.make_node("Pad", ["a"], ["b"], pads=[0, 0, 1, 0, 0, 2], value=0.5),
        helper.make_node("Clip", ["b"], ["c"], min=-1.0, max=1.5),
        helper.make_node("Softmax", ["c"], ["d"]),
        helper.make_node("Unsqueeze", ["d"], ["e"], axes=[0]),
        helper.make_node("ReduceSum", ["e"], ["f"], axes=[3], keepdims=0),
        helper.make_node("Squeeze", ["f"], ["g"], axes=[0]),
        helper.make_node("TopK", ["g"], ["y", "i"], k=2),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 3, 11])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 2])
    graph = helper.make_graph(nodes, "old", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)


@pytest.mark.parametrize("opset", [10, 11, 12, 13, 16, 18, 20, 22, 24, 26, 28])
def test_every_opset_on_the_way(opset):
    model = old_model()
    raised = convert(model, opset, verify="model")
    assert opset_of(raised) == opset
    onnx.checker.check_model(raised, full_check=True)
    if opset > NEWEST_OPSET:
        pytest.skip("this onnxruntime does not load it")
    for size in (2, 5):
        x = np.random.default_rng(size).normal(size=(size, 3, 11)).astype(np.float32)
        for before, after in zip(run(model, {"x": x}), run(raised, {"x": x}), strict=True):
            np.testing.assert_array_equal(after, before)


def test_there_and_back():
    import jax.numpy as jnp

    model = sardonyx.to_onnx(
        lambda x: jnp.sum(jnp.split(jnp.tanh(x), 3, axis=1)[1] ** 2, axis=0), [("B", 21)], opset=21
    )
    back = convert(convert(model, 17), 21)
    x = np.random.default_rng(3).normal(size=(5, 21)).astype(np.float32)
    (expected,) = run(model, {model.graph.input[0].name: x})
    for other in (convert(model, 17), back):
        onnx.checker.check_model(other, full_check=True)
        np.testing.assert_array_equal(run(other, {model.graph.input[0].name: x})[0], expected)


def smooth(x, w):
    """A typical program: a product, a softmax along an inner axis, bounds, a slice, named sizes."""
    import jax
    import jax.numpy as jnp

    y = jax.nn.softmax(jnp.clip(x @ w, -0.5, 0.75), axis=1)
    z = jnp.where(y > 0.25, y, jnp.tanh(x[:, :, 1:8])) + jnp.mean(x, axis=(0, -1), keepdims=True)
    return jnp.concatenate([z, z[:, ::-1]], axis=-1).reshape(-1, 14), jnp.max(z, axis=1) >= 0.5


@pytest.mark.parametrize(("opset", "ir_version"), [(9, 4), (10, 5), (11, 6), (12, 7), (14, 7), (16, 8)])
def test_jax_in_older_opsets(opset, ir_version):
    w = np.random.default_rng(7).normal(size=(11, 7)).astype(np.float32)
    model = sardonyx.to_onnx(lambda x: smooth(x, w), [("B", 3, 11)], opset=opset)
    assert opset_of(model) == opset and model.ir_version == ir_version
    onnx.checker.check_model(model, full_check=True)
    for size in (1, 2, 5):
        x = np.random.default_rng(size).normal(size=(size, 3, 11)).astype(np.float32)
        expected = smooth(x, w)
        found = run(model, {model.graph.input[0].name: x})
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found[1], expected[1])


def test_jax_in_the_oldest_opset():
    import jax.numpy as jnp

    model = sardonyx.to_onnx(lambda x: jnp.tanh(x).sum(axis=-1) * (x[:, 0] > 0.5), [("B", 7)], opset=7)
    assert opset_of(model) == 7 and model.ir_version == 4
    x = np.random.default_rng(3).normal(size=(5, 7)).astype(np.float32)
    expected = jnp.tanh(x).sum(axis=-1) * (x[:, 0] > 0.5)
    np.testing.assert_allclose(run(model, {model.graph.input[0].name: x})[0], expected, rtol=1e-5)
    with pytest.raises(sardonyx.Error, match=r"opset 7 cannot express(.|\n)*opset 7 has no Where"):
        sardonyx.to_onnx(lambda x: jnp.where(x > 0, x, 1.0), [(5,)], opset=7)


def test_functions_raise_the_ir_version():
    @sardonyx.onnx_function
    def twice(x):
        return x * 2

    model = sardonyx.to_onnx(lambda x: twice(x) + 1, [(5,)], opset=14)
    assert model.ir_version == 8 and [f.name for f in model.functions] == ["twice"]
    np.testing.assert_array_equal(run(model, {model.graph.input[0].name: np.ones(5, np.float32)})[0], np.full(5, 3.0))


def test_fusions_use_what_came_since():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 13])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 13])
    constants = {"root": 2**0.5, "one": 1.0, "half": 0.5}
    nodes = [
        helper.make_node("Div", ["x", "root"], ["a"]),
        helper.make_node("Erf", ["a"], ["b"]),
        helper.make_node("Add", ["b", "one"], ["c"]),
        helper.make_node("Mul", ["x", "c"], ["d"]),
        helper.make_node("Mul", ["d", "half"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(np.float32(v), k) for k, v in constants.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "gelu", [x], [y], tensors), opset_imports=[helper.make_opsetid("", 14)], ir_version=8
    )
    assert [n.op_type for n in sardonyx.optimize(model).graph.node] != ["Gelu"]
    raised = sardonyx.optimize(model, opset=20)
    assert [n.op_type for n in raised.graph.node] == ["Gelu"]
    feed = {"x": np.linspace(-5, 5, 39, dtype=np.float32).reshape(3, 13)}
    np.testing.assert_allclose(run(raised, feed)[0], run(model, feed)[0], rtol=1e-5, atol=1e-6)


def test_refusals_name_every_node():
    model = written(helper.make_node("GridSample", ["x", "g"], ["y"]), {"x": (1, 2, 5, 7), "g": (1, 3, 3, 2)}, opset=20)
    with pytest.raises(sardonyx.Error, match="GridSample needs opset 16; the model imports opset 15"):
        convert(model, 15)
    for opset in (0, 99, 5):
        with pytest.raises(sardonyx.Error, match=r"opset -?\d+ cannot be written"):
            convert(model, opset)


def written(node, shapes, opset=23, dtypes=None, constants=None, ir_version=10):
    """A model of one node. Its operands are inputs of these shapes, or constants."""
    inputs = [
        helper.make_tensor_value_info(name, (dtypes or {}).get(name, TensorProto.FLOAT), shape)
        for name, shape in shapes.items()
    ]
    tensors = [numpy_helper.from_array(np.asarray(v), name) for name, v in (constants or {}).items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "g", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    model = onnx.shape_inference.infer_shapes(model)
    for output in model.graph.output:
        if not output.type.tensor_type.HasField("shape"):  # of functions, which keep the first operand's
            output.type.CopyFrom(inputs[0].type)
    return model


FLOATS = {"x": (3, 5, 8)}
WRITTEN_OUT = {
    "Celu": (9, helper.make_node("Celu", ["x"], ["y"], alpha=0.5), FLOATS),
    "Gelu": (9, helper.make_node("Gelu", ["x"], ["y"]), FLOATS),
    "Gelu by tanh": (7, helper.make_node("Gelu", ["x"], ["y"], approximate="tanh"), FLOATS),
    "HardSwish": (7, helper.make_node("HardSwish", ["x"], ["y"]), FLOATS),
    "Mish": (7, helper.make_node("Mish", ["x"], ["y"]), FLOATS),
    "ThresholdedRelu": (9, helper.make_node("ThresholdedRelu", ["x"], ["y"], alpha=0.25), FLOATS),
    "LayerNormalization": (
        7,
        helper.make_node("LayerNormalization", ["x", "s", "b"], ["y", "m", "d"], axis=1),
        FLOATS | {"s": (5, 8), "b": (5, 8)},
    ),
    "RMSNormalization": (7, helper.make_node("RMSNormalization", ["x", "s"], ["y"]), FLOATS | {"s": (8,)}),
    "GroupNormalization": (
        7,
        helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3),
        {"x": (2, 6, 5), "s": (6,), "b": (6,)},
    ),
    "MeanVarianceNormalization": (7, helper.make_node("MeanVarianceNormalization", ["x"], ["y"]), {"x": (2, 3, 5, 7)}),
    "RotaryEmbedding": (
        7,
        helper.make_node("RotaryEmbedding", ["x", "c", "s"], ["y"], rotary_embedding_dim=4, num_heads=3),
        {"x": (2, 3, 5, 8), "c": (2, 5, 2), "s": (2, 5, 2)},
    ),
    "RotaryEmbedding of neighbours": (
        10,
        helper.make_node("RotaryEmbedding", ["x", "c", "s"], ["y"], interleaved=1, num_heads=3),
        {"x": (2, 5, 24), "c": (2, 5, 4), "s": (2, 5, 4)},
    ),
    "Attention": (
        7,
        helper.make_node("Attention", ["q", "k", "v"], ["y"]),
        {"q": (2, 3, 5, 8), "k": (2, 3, 7, 8), "v": (2, 3, 7, 11)},
    ),
    "Attention of groups under a mask": (
        9,
        helper.make_node(
            "Attention", ["q", "k", "v", "m"], ["y"], q_num_heads=6, kv_num_heads=2, is_causal=1, scale=0.3
        ),
        {"q": (2, 5, 24), "k": (2, 7, 8), "v": (2, 7, 10), "m": (5, 7)},
    ),
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_what_the_standard_defines_by_older_operators(name):
    oldest, node, shapes = WRITTEN_OUT[name]
    model = written(node, shapes, opset=23)
    rng = np.random.default_rng(7)
    feeds = {k: rng.standard_normal(shape).astype(np.float32) for k, shape in shapes.items()}
    expected = run(model, feeds)
    for opset in sorted({oldest, 9, 11, 13, 16} - set(range(oldest))):
        older = convert(model, opset)
        first = min(v.since_version for v in onnx.defs.get_all_schemas_with_history() if v.name == node.op_type)
        assert opset_of(older) == opset
        assert (node.op_type in {n.op_type for n in older.graph.node}) == (first <= opset)
        onnx.checker.check_model(older)
        for want, found in zip(expected, run(older, feeds), strict=True):
            np.testing.assert_allclose(found, want, rtol=3e-6, atol=3e-6)


I64, U32, I32 = TensorProto.INT64, TensorProto.UINT32, TensorProto.INT32
EXTREMES = np.array([-(2**63), -(2**53) - 1, -7, -3, -1, 0, 1, 5, 2**31, 2**62 + 1, 2**63 - 1])
ROUNDED = np.array(
    [-2.5, -1.5, -0.5, -0.2, -0.0, 0.0, 0.5, 1.5, 2.5, 8388609, 2**40 + 0.5, np.inf, -np.inf, np.nan], np.float32
)
INDICES = np.array([[1, -1], [0, 2], [2, 0], [-3, 1]])
EXACT = {
    "Mod": (7, helper.make_node("Mod", ["x", "k"], ["y"]), {"x": (I64, EXTREMES)}, {"k": np.array(-7)}),
    "Mod by a number that is not known": (
        7,
        helper.make_node("Mod", ["x", "k"], ["y"]),
        {"x": (I64, EXTREMES[2:8]), "k": (I64, np.array([5, -5, 2, -2, 3, -3]))},
        {},
    ),
    "Mod of C": (
        7,
        helper.make_node("Mod", ["x", "k"], ["y"], fmod=1),
        {"x": (I32, np.arange(-5, 6, dtype=np.int32))},
        {"k": np.int32(3)},
    ),
    "BitShift to the right": (
        7,
        helper.make_node("BitShift", ["x", "k"], ["y"], direction="RIGHT"),
        {"x": (U32, np.array([0, 1, 2**31, 2**32 - 1, 12345], np.uint32))},
        {"k": np.array([0, 1, 31, 7, 3], np.uint32)},
    ),
    "BitShift to the left": (
        7,
        helper.make_node("BitShift", ["x", "k"], ["y"], direction="LEFT"),
        {
            "x": (U32, np.array([0, 1, 2**31, 2**32 - 1, 12345], np.uint32)),
            "k": (U32, np.array([0, 31, 1, 7, 3], np.uint32)),
        },
        {},
    ),
    "GatherND": (
        7,
        helper.make_node("GatherND", ["x", "i"], ["y"]),
        {"x": (TensorProto.FLOAT, np.arange(30, dtype=np.float32).reshape(3, 5, 2)), "i": (I64, INDICES)},
        {},
    ),
    "ScatterND": (
        9,
        helper.make_node("ScatterND", ["x", "i", "u"], ["y"]),
        {
            "x": (TensorProto.FLOAT, np.zeros((3, 5, 2), np.float32)),
            "i": (I64, INDICES),
            "u": (TensorProto.FLOAT, np.arange(8, dtype=np.float32).reshape(4, 2)),
        },
        {},
    ),
    "GatherElements": (
        7,
        helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1),
        {
            "x": (TensorProto.FLOAT, np.arange(15, dtype=np.float32).reshape(3, 5)),
            "i": (I64, np.array([[1, -1], [4, 0], [2, 3]])),
        },
        {},
    ),
    "Round": (9, helper.make_node("Round", ["x"], ["y"]), {"x": (TensorProto.FLOAT, ROUNDED)}, {}),
    "IsInf": (7, helper.make_node("IsInf", ["x"], ["y"], detect_negative=0), {"x": (TensorProto.FLOAT, ROUNDED)}, {}),
    "IsNaN": (7, helper.make_node("IsNaN", ["x"], ["y"]), {"x": (TensorProto.FLOAT, ROUNDED)}, {}),
    "Range": (
        9,
        helper.make_node("Range", ["x", "z", "k"], ["y"]),
        {"x": (I64, np.array(3)), "z": (I64, np.array(-8))},
        {"k": np.array(-4)},
    ),
    "TopK of the smallest": (
        7,
        helper.make_node("TopK", ["x", "k"], ["y", "i"], largest=0),
        {"x": (I32, np.array([[3, 1, 2, 1, -(2**31)]], np.int32))},
        {"k": np.array([3])},
    ),
    "TopK of integers": (
        7,
        helper.make_node("TopK", ["x", "k"], ["y", "i"]),
        {"x": (I32, np.array([[3, -(2**31), 2**31 - 1, 1, 5]], np.int32))},
        {"k": np.array([4])},
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_what_older_operators_say_to_the_bit(name):
    oldest, node, feeds, constants = EXACT[name]
    model = written(
        node, {k: v.shape for k, (_, v) in feeds.items()}, 16, {k: t for k, (t, _) in feeds.items()}, constants, 8
    )
    values = {k: v for k, (_, v) in feeds.items()}
    expected = run(model, values)
    for opset in range(oldest, 11):
        older = convert(model, opset)
        assert opset_of(older) == opset
        onnx.checker.check_model(older)
        for want, found in zip(expected, run(older, values), strict=True):
            np.testing.assert_array_equal(found, want)
            if found.dtype.kind == "f":
                np.testing.assert_array_equal(np.signbit(found), np.signbit(want))


def test_command(tmp_path):
    source, target = tmp_path / "old.onnx", tmp_path / "new.onnx"
    onnx.save(old_model(), source)
    command("convert", source, "-o", target, "--opset", 21, "--verify", "model")
    assert opset_of(onnx.load(target)) == 21
    assert command("convert", source, "-o", target, "--opset", 99, ok=False).returncode == 2
    assert opset_of(onnx.load(target)) == 21  # untouched
    command("optimize", source, "-o", target, "--opset", 23)
    assert opset_of(onnx.load(target)) == 23
