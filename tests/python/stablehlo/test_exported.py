"""What `jax.export` writes becomes the model that the direct export gives."""

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime as ort
import pytest
import sardonyx
from jax import export

F32 = np.float32


def softmax_of_rows(x):
    return jax.nn.softmax(x.reshape(-1, 3), axis=1) * x.shape[0]


def sorted_and_greatest(x):
    return jnp.sort(x, axis=0), jnp.argmax(x, axis=0)


def joined(x, y):
    return jnp.concatenate([x, y]) + jnp.arange(2 * x.shape[0])[:, None]


def convolved(x, w):
    dims = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=dims)


def pooled(x):
    return jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 2, 3), (1, 2, 1), "VALID")


def summed(x):
    return jnp.cumsum(x, axis=0), jax.lax.top_k(x, 2)


def looped(x):
    return jax.lax.fori_loop(0, 5, lambda i, a: a * 0.5 + x, x)


def branched(x):
    return jax.lax.cond(x.sum() > 0, jnp.sin, lambda a: a * 2, x)


def gathered(x, i):
    return x[i], x.at[i].add(2.0)


PROGRAMS = [
    (softmax_of_rows, ["B, 3"]),
    (sorted_and_greatest, ["7, 5"]),
    (joined, ["B, 3", "B, 3"]),
    (convolved, ["2, 7, 5, 3", "3, 2, 3, 11"]),
    (pooled, ["2, 7, 5"]),
    (summed, ["B, 3"]),
    (looped, ["B, 3"]),
    (branched, ["5, 3"]),
]


def exported(f, shapes, dtypes=None):
    scope = export.SymbolicScope()
    types = [
        jax.ShapeDtypeStruct(export.symbolic_shape(s, scope=scope), t)
        for s, t in zip(shapes, dtypes or [F32] * len(shapes), strict=True)
    ]
    return export.export(jax.jit(f))(*types)


def numbers(shapes, size):
    rng = np.random.default_rng(7)
    dims = [[int(d) if d.strip().isdigit() else size for d in s.split(",")] for s in shapes]
    return [rng.standard_normal(d).astype(F32) for d in dims]


def run(model, arrays):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([i.name for i in session.get_inputs()], arrays, strict=True)))


def sizes_of(model):
    return [[d.dim_param or d.dim_value for d in o.type.tensor_type.shape.dim] for o in model.graph.output]


@pytest.mark.parametrize(("f", "shapes"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_an_exported_function_computes_what_jax_does(f, shapes):
    model = sardonyx.convert(exported(f, shapes), to="onnx")
    for size in (2, 5):
        arrays = numbers(shapes, size)
        wanted = jax.tree.leaves(f(*arrays))
        for got, want in zip(run(model, arrays), wanted, strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("f", "shapes"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_an_exported_function_is_the_direct_export(f, shapes):
    direct = sardonyx.to_onnx(
        f, [tuple(int(d) if d.strip().isdigit() else d.strip() for d in s.split(",")) for s in shapes]
    )
    model = sardonyx.convert(exported(f, shapes), to="onnx")
    assert sizes_of(model) == sizes_of(direct)
    assert len(model.graph.node) <= len(direct.graph.node)


def test_indices_that_are_outside_do_nothing():
    model = sardonyx.convert(exported(gathered, ["7, 3", "2"], [F32, np.int32]), to="onnx")
    (x,) = numbers(["7, 3"], 0)
    for i in (np.array([1, 6], np.int32), np.array([-1, 7], np.int32)):
        for got, want in zip(run(model, [x, i]), gathered(jnp.asarray(x), i), strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_size_that_is_a_multiple_keeps_the_name():
    model = sardonyx.convert(exported(lambda x: x[::2], ["2*B, 3"]), to="onnx")
    assert sizes_of(model) == [["B", 3]]


def test_text_bytecode_and_file_are_one_model(tmp_path):
    module = exported(softmax_of_rows, ["B, 3"])
    path = tmp_path / "module.mlir"
    path.write_text(module.mlir_module())
    models = [
        sardonyx.convert(source, to="onnx")
        for source in (module, module.mlir_module_serialized, module.serialize(), path)
    ]
    assert {tuple(n.op_type for n in m.graph.node) for m in models} == {tuple(n.op_type for n in models[0].graph.node)}


def test_linear_algebra_of_lapack():
    a = np.array([[4, 1, 0], [1, 3, 1], [0, 1, 2]], F32)

    def solved(a):
        return jnp.linalg.cholesky(a), jnp.linalg.solve(a, a[0]), jnp.linalg.eigh(a)[0], jnp.linalg.svd(a)[1]

    model = sardonyx.convert(exported(solved, ["3, 3"]), to="onnx")
    for got, want in zip(run(model, [a]), solved(a), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_foreign_call_is_refused_by_its_target():
    text = """module { func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.custom_call @mine(%x) : (tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32> } }"""
    with pytest.raises(sardonyx.Error, match="the target 'mine'"):
        sardonyx.convert(text.encode(), to="onnx")


def test_half_precision_and_damaged_artifacts(tmp_path):
    e = exported(softmax_of_rows, ["B, 3"])
    half = sardonyx.convert(e, to="onnx", precision="f16")
    assert any(n.op_type == "Cast" for n in half.graph.node)
    (tmp_path / "cut.mlirbc").write_bytes(e.mlir_module_serialized[:200])
    with pytest.raises(sardonyx.Error, match=r"(?s)at byte \d+.*cut\.mlirbc") as told:
        sardonyx.convert(tmp_path / "cut.mlirbc", tmp_path / "m.onnx")
    assert "not a StableHLO module" not in str(told.value)
    assert not (tmp_path / "m.onnx").exists()
