"""Models spelled in another opset: the same results in onnxruntime, by the checker, on files and from Python."""

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
    """Inputs without a value of their own: before IR version 4, models list their initializers as well."""
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
    """What spelled its parameters as attributes, at opset 9, with the meanings of that time."""
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
    """What many programs do: a product, a softmax along an inner axis, bounds, a slice, sizes that have names."""
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
    with pytest.raises(sardonyx.Error, match=r"opset 7 cannot express(.|\n)*opset 7 has no Round"):
        sardonyx.to_onnx(jnp.round, [(5,)], opset=7)


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
    import jax

    model = sardonyx.to_onnx(lambda x: jax.nn.gelu(x, approximate=False), [(3, 5)], opset=20)
    with pytest.raises(sardonyx.Error, match="opset 17 has no Gelu"):
        convert(model, 17)
    for opset in (0, 99, 5):
        with pytest.raises(sardonyx.Error, match=r"opset -?\d+ cannot be written"):
            convert(model, opset)
    with pytest.raises(sardonyx.Error, match="opset 12 has no Gelu"):
        convert(model, 12)


def test_command(tmp_path):
    source, target = tmp_path / "old.onnx", tmp_path / "new.onnx"
    onnx.save(old_model(), source)
    command("convert-opset", source, "-o", target, "--opset", 21, "--verify", "model")
    assert opset_of(onnx.load(target)) == 21
    assert command("convert-opset", source, "-o", target, "--opset", 99, ok=False).returncode == 2
    assert opset_of(onnx.load(target)) == 21  # untouched
    assert command("convert-opset", source, "-o", target, ok=False).returncode == 2
    command("optimize", source, "-o", target, "--opset", 23)
    assert opset_of(onnx.load(target)) == 23
