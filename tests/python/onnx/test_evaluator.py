"""The evaluator on the onnx package's own tests: all operators of the standard, with each test's own tolerance."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import onnx
import pytest
import sardonyx
from onnx import numpy_helper

# Tests that the evaluator does not pass, and why.
NOT_PASSED: dict[str, str] = {}
for _name in (
    "test_attention_3d_causal_bf16",
    "test_attention_4d_attn_mask_causal_bf16",
    "test_attention_4d_causal_bf16",
    "test_attention_4d_causal_fp16",
    "test_attention_4d_causal_padded_kv_bf16",
    "test_attention_4d_padded_kv_bf16",
):
    for _suffix in ("", "_expanded"):
        NOT_PASSED[_name + _suffix] = "expects a softmax that rounds to 16 bits after exp and within the sum"
for _name in ("test_dft_inverse", "test_dft_inverse_opset19"):
    NOT_PASSED[_name] = "expects rounding noise of an f32 transform, 1.9e-7, where the result is 0"

# Tests with other expectations in onnx 1.20, corrected in later releases.
if tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 21):
    for _name in (
        "test_attention_3d_with_past_and_present_qk_matmul_bias",
        "test_attention_3d_with_past_and_present_qk_matmul_softcap",
        "test_attention_4d_with_past_and_present_qk_matmul_bias",
        "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask",
        "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
        "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask",
        "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal",
        "test_attention_4d_with_qk_matmul_bias",
        "test_attention_4d_with_qk_matmul_softcap",
    ):
        NOT_PASSED[_name] = "counted the stages that qk_matmul_output_mode names in another order"
    NOT_PASSED["test_l2normalization_axis_0"] = "divided zero by zero"
    for _suffix in ("2D_int8_float16", "2D_int8_float32", "3D_int8_float16", "3D_int8_float32"):
        NOT_PASSED[f"test_qlinearmatmul_{_suffix}"] = "wrapped where QLinearMatMul saturates"

# Operators that the evaluator does not have.
NOT_EVALUATED = {
    "test_image_decoder_": "ImageDecoder: formats of images are not the evaluator's business",
    "test_adagrad": "training",
    "test_adam": "training",
    "test_momentum": "training",
    "test_nesterov_momentum": "training",
    "test_gradient_of_": "training",
}

# Random operators draw different numbers, so only shapes and dtypes are compared.
RANDOM = ("test_bernoulli", "test_training_dropout")


@functools.cache
def cases() -> dict[str, object]:
    from onnx.backend.test.loader import load_model_tests

    kinds = ("node", "simple", "pytorch-converted", "pytorch-operator")
    return {c.name: c for kind in kinds for c in load_model_tests(kind=kind)}


def value_from(path: Path, type_proto: onnx.TypeProto) -> object:
    data = path.read_bytes()
    kind = type_proto.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    if kind == "map_type":
        return numpy_helper.to_dict(onnx.MapProto.FromString(data))
    return sardonyx.ir.from_proto(onnx.TensorProto.FromString(data))


def plain(value: object) -> object:
    if isinstance(value, onnx.TensorProto):
        value = sardonyx.ir.from_proto(value)
    return value.numpy() if isinstance(value, sardonyx.ir.Tensor) else value


def compare(want: object, got: object, rtol: float, atol: float, exact: bool = True) -> None:
    want, got = plain(want), plain(got)
    if isinstance(want, list):
        assert isinstance(got, list)
        assert len(want) == len(got)
        for w, g in zip(want, got, strict=True):
            compare(w, g, rtol, atol, exact)
        return
    if isinstance(want, dict):
        assert want.keys() == got.keys()
        for k in want:
            compare(want[k], got[k], rtol, atol, exact)
        return
    if want is None:
        assert got is None
        return
    want, got = np.asarray(want), np.asarray(got)
    assert want.shape == got.shape
    if want.dtype == object:
        text = [w.decode() if isinstance(w, bytes) else w for w in want.reshape(-1)]
        assert text == list(got.reshape(-1))
        return
    assert want.dtype == got.dtype
    if not exact:
        return
    if want.dtype.type.__module__ != "numpy":  # ml_dtypes
        want, got = want.astype(np.float64), got.astype(np.float64)
    if np.issubdtype(want.dtype, np.inexact):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(got, want)


def run(case) -> None:
    model = onnx.load(Path(case.model_dir) / "model.onnx") if case.model is None else case.model
    graph = model.graph
    if case.data_sets is not None:
        sets = [(list(i), list(o)) for i, o in case.data_sets]
    else:
        sets = []
        for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
            # Old models list initializers among the inputs: there are no files for these.
            files = [(folder / f"input_{i}.pb", v) for i, v in enumerate(graph.input)]
            inputs = {v.name: value_from(path, v.type) for path, v in files if path.exists()}
            outputs = [value_from(folder / f"output_{i}.pb", v.type) for i, v in enumerate(graph.output)]
            sets.append((inputs, outputs))
    assert sets
    for inputs, outputs in sets:
        results = list(sardonyx.evaluate(model, inputs).values())
        assert len(results) == len(outputs)
        for want, got in zip(outputs, results, strict=True):
            compare(want, got, case.rtol, case.atol, exact=not case.name.startswith(RANDOM))


@pytest.mark.parametrize("name", sorted(cases()))
def test_node(name):
    if name in NOT_PASSED:
        pytest.skip(NOT_PASSED[name])
    for start, reason in NOT_EVALUATED.items():
        if name.startswith(start):
            pytest.skip(reason)
    run(cases()[name])


def test_the_lists_of_exceptions_hold():
    for name in NOT_PASSED.keys() & cases().keys():  # old releases of onnx lack some
        with pytest.raises(AssertionError):
            run(cases()[name])
    for start in NOT_EVALUATED:
        for name in cases():
            if name.startswith(start):
                with pytest.raises(sardonyx.Error, match="the evaluator cannot run"):
                    run(cases()[name])


# --- onnxruntime's own operators

PRODUCTS = {
    "4 bits": ({"bits": 4, "block_size": 16}, (7, 3, 8), {}),
    "4 bits, zero points": ({"bits": 4, "block_size": 16}, (7, 3, 8), {"zero_points": "u8", "shape": (7 * 2,)}),
    "8 bits, zero points": ({"bits": 8, "block_size": 16}, (7, 3, 16), {"zero_points": "u8", "shape": (7 * 3,)}),
    "8 bits": ({"bits": 8, "block_size": 16}, (7, 3, 16), {}),
    "zero points of floats": ({"bits": 4, "block_size": 16}, (7, 3, 8), {"zero_points": "f32", "shape": (7 * 3,)}),
}


def product(attributes: dict, packed: tuple, zeros: dict, bias: bool) -> onnx.ModelProto:
    rng = np.random.default_rng(7)
    constants = {
        "b": rng.integers(0, 256, packed, np.uint8),
        "scales": rng.normal(size=21).astype(np.float32),
    }
    if zeros:
        made = rng.integers(0, 256, zeros["shape"], np.uint8) if zeros["zero_points"] == "u8" else rng.normal(size=21)
        constants["zeros"] = made if made.dtype == np.uint8 else made.astype(np.float32)
    if bias:
        constants["bias"] = rng.normal(size=7).astype(np.float32)
    names = ["x", "b", "scales", "zeros" if zeros else "", "", "bias" if bias else ""]
    node = onnx.helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=41, N=7, accuracy_level=1, **attributes
    )
    f32 = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("x", f32, ["B", 3, 41])],
        [onnx.helper.make_tensor_value_info("y", f32, None)],
        [numpy_helper.from_array(a, name) for name, a in constants.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_packed_weights(name, bias):
    import onnxruntime

    model = product(*PRODUCTS[name], bias)
    x = np.random.default_rng(3).normal(size=(2, 3, 41)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": x})
    assert np.allclose(sardonyx.evaluate(model, {"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("attributes", "packed", "zeros", "message"),
    [
        ({"bits": 3, "block_size": 16}, (7, 3, 6), {}, "weights of 3 bits"),
        ({"bits": 4, "block_size": 16}, (7, 3, 9), {}, "do not fit N, K and the blocks"),
        ({"bits": 4, "block_size": 32}, (7, 3, 8), {}, "do not fit N, K and the blocks"),
        ({"bits": 4, "block_size": 0}, (7, 3, 8), {}, "N, K and blocks"),
        ({"bits": 4, "block_size": 16}, (7, 3, 8), {"zero_points": "u8", "shape": (7,)}, "zero points do not fit"),
    ],
)
def test_packed_weights_that_do_not_fit(attributes, packed, zeros, message):
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.evaluate(product(attributes, packed, zeros, False), {"x": np.zeros((2, 3, 41), np.float32)})


@pytest.mark.parametrize("indices", [[[5, -131], [130, 0]], []])
def test_lookups_in_packed_tables(indices):
    """Of bytes; the tests of quantize_weights have 4 bits."""
    import onnxruntime

    rng = np.random.default_rng(7)
    constants = {
        "w": rng.integers(0, 256, (131, 67), np.uint8),
        "s": rng.normal(size=(131, 5)).astype(np.float32),
        "z": rng.integers(0, 256, (131, 5), np.uint8),
    }
    for zeros in ([], ["z"]):
        node = onnx.helper.make_node(
            "GatherBlockQuantized",
            ["w", "i", "s", *zeros],
            ["y"],
            domain="com.microsoft",
            block_size=16,
            quantize_axis=1,
            bits=8,
        )
        i = np.array(indices, np.int64)
        graph = onnx.helper.make_graph(
            [node],
            "g",
            [onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, i.shape)],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
            [numpy_helper.from_array(constants[name], name) for name in ("w", "s", *zeros)],
        )
        opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        assert (sardonyx.evaluate(model, {"i": i})["y"] == session.run(None, {"i": i})[0]).all()
        if i.size:
            with pytest.raises(sardonyx.Error, match="an index is outside of the table"):
                sardonyx.evaluate(model, {"i": np.full(i.shape, 131)})
