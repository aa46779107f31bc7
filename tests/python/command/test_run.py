"""sardonyx run: inputs from files and the command line, results in files that NumPy reads; errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from command import sardonyx
from onnx import TensorProto, helper

INFO = helper.make_tensor_value_info


def save(folder, nodes, inputs, outputs, opset=21, name="m.onnx", **graph):
    g = helper.make_graph(nodes, "g", inputs, outputs, **graph)
    model = helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.save(model, folder / name)
    return folder / name


@pytest.fixture
def scaled(tmp_path):
    """y = x * k + 1, with k scalar."""
    nodes = [helper.make_node("Mul", ["x", "k"], ["t"]), helper.make_node("Add", ["t", "one"], ["y"])]
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1])
    return save(
        tmp_path,
        nodes,
        [INFO("x", TensorProto.FLOAT, ["B", 3]), INFO("k", TensorProto.FLOAT, [])],
        [INFO("y", TensorProto.FLOAT, ["B", 3])],
        initializer=[one],
    )


def test_arrays_go_in_and_out(scaled, tmp_path):
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    np.save(tmp_path / "x.npy", x)
    sardonyx("run", scaled, "--input", f"x={tmp_path}/x.npy", "--input", "k=2.5", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as got:
        assert got.files == ["y"]
        np.testing.assert_array_equal(got["y"], x * np.float32(2.5) + 1)
    sardonyx("run", scaled, "--input", f"x={tmp_path}/x.npy", "--input", "k=2.5", "-o", tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), x * np.float32(2.5) + 1)


def test_an_archive_gives_inputs_by_name(scaled, tmp_path):
    x = np.asfortranarray(np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32))
    np.savez(tmp_path / "in.npz", x=x, k=np.float32(2))
    sardonyx("run", scaled, "--input", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], x * 2 + 1)


def test_values_are_written_as_lists(scaled):
    out = sardonyx("run", scaled, "--input", "x=[[1, 2, 3], [-4, 5e1, 0.5]]", "--input", "k=2").stdout
    assert out == "y: f32[2,3] = 3, 5, 7, -7, 101, 2\n"


def test_made_up_inputs_depend_on_the_seed_alone(scaled, tmp_path):
    def run(*more):
        return sardonyx("run", scaled, *(more if "--seed" in more else ("--seed", "0", *more))).stdout

    assert run() == run()
    assert run() != run("--seed", "1")
    assert "y: f32[2,3]" in run()
    assert "y: f32[5,3]" in run("--input-shape", "x:5,3")
    # The given inputs fix the sizes of the others.
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    two = [INFO(n, TensorProto.FLOAT, ["N"]) for n in "ab"]
    model = save(tmp_path, nodes, two, [INFO("y", TensorProto.FLOAT, ["N"])], name="two.onnx")
    assert "y: f32[4] =" in sardonyx("run", model, "--seed", "0", "--input", "a=[1,2,3,4]").stdout


@pytest.mark.parametrize(
    "dtype",
    [
        "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
        "bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4",
    ],
)  # fmt: skip
def test_every_element_type_survives(dtype, tmp_path):
    values = np.array([[0, 1, 1, 0, 3], [2, 0, 1, 1, 1]]).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    number = helper.np_dtype_to_tensor_dtype(values.dtype)
    nodes = [helper.make_node("Transpose", ["x"], ["y"])]
    model = save(tmp_path, nodes, [INFO("x", number, [2, 5])], [INFO("y", number, [5, 2])])
    np.save(tmp_path / "x.npy", values)
    sardonyx("run", model, "--input", f"x={tmp_path}/x.npy", "-o", tmp_path / "y.npy")
    got = np.load(tmp_path / "y.npy")
    np.testing.assert_array_equal(got.view(values.dtype).astype(np.float64), values.T.astype(np.float64))


def test_texts_and_sequences(tmp_path):
    nodes = [
        helper.make_node("StringConcat", ["s", "s"], ["t"]),
        helper.make_node("SplitToSequence", ["t"], ["parts"], keepdims=0),
    ]
    parts = helper.make_value_info("parts", helper.make_sequence_type_proto(helper.make_tensor_type_proto(8, [])))
    model = save(tmp_path, nodes, [INFO("s", TensorProto.STRING, [2])], [INFO("t", TensorProto.STRING, [2]), parts])
    np.save(tmp_path / "s.npy", np.array(["é", "日本"]))
    sardonyx("run", model, "--input", f"s={tmp_path}/s.npy", "-o", tmp_path / "out.npz")
    got = np.load(tmp_path / "out.npz")
    assert got.files == ["t", "parts.0", "parts.1"]
    assert got["t"].tolist() == ["éé", "日本日本"]
    assert got["parts.1"].item() == "日本日本"
    assert '"ab", "c d"' in sardonyx("run", model, "--input", 's=["a", "c "]').stdout.replace("aa", "ab").replace(
        "c c ", "c d"
    )


def refusal(*arguments, code=2):
    done = sardonyx("run", *arguments, ok=False)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr


def test_wrong_inputs_are_refused_in_one_sentence(scaled, tmp_path):
    assert "input 'x' is missing" in refusal(scaled, "--input", "k=1")
    assert "did you mean 'x'?" in refusal(scaled, "--input", "xx=1")
    assert "input 'x' is f32[2], expected f32[B,3]" in refusal(scaled, "--input", "x=[1,2]", "--input", "k=1")
    assert "input 'k' is given twice" in refusal(scaled, "--input", "k=1", "--input", "k=2")
    assert "'[[1,2],[3]]' is not a value of f32" in refusal(scaled, "--input", "x=[[1,2],[3]]")
    assert "'1..5' is not a value" in refusal(scaled, "--input", "k=1..5")
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    assert "input 'x' is f64[2,3], expected f32[B,3]" in refusal(
        scaled, "--input", f"x={tmp_path}/x.npy", "--input", "k=1"
    )


def test_a_named_size_is_one_size(tmp_path):
    nodes = [helper.make_node("Concat", ["a", "b"], ["y"], axis=0)]
    two = [INFO(n, TensorProto.FLOAT, ["N"]) for n in "ab"]
    model = save(tmp_path, nodes, two, [INFO("y", TensorProto.FLOAT, None)])
    assert "input 'b' is f32[3], expected f32[N]" in refusal(model, "--input", "a=[1,2]", "--input", "b=[1,2,3]")


def test_damaged_array_files_are_refused(scaled, tmp_path):
    x = tmp_path / "x.npy"
    np.save(x, np.zeros((4, 3), np.float32))
    good = x.read_bytes()
    for bad, message in [
        (b"", "it does not begin as one"),
        (good[:8], "it does not begin as one"),
        (good[:40], "its header is cut off"),
        (good[:-1], "its data is cut off"),
        (good.replace(b"(4, 3)", b"(4, -)"), "lacks a number"),
        (good.replace(b"'<f4'", b"'<q4'"), "is not known"),
        (good.replace(b"(4, 3)", b"(9999999999999999999,)"), "too large"),
    ]:
        x.write_bytes(bad)
        assert message in refusal(scaled, "--input", f"x={x}", code=1)
    np.save(x, np.zeros((4, 3), ">f4"))
    assert "is big-endian" in refusal(scaled, "--input", f"x={x}", code=1)
    np.save(x, np.array([object()]), allow_pickle=True)
    assert "holds Python objects" in refusal(scaled, "--input", f"x={x}", code=1)
    np.savez_compressed(tmp_path / "c.npz", x=np.zeros((4, 3), np.float32))
    assert "is compressed" in refusal(scaled, "--input", tmp_path / "c.npz", code=1)
    archive = tmp_path / "a.npz"
    np.savez(archive, x=np.zeros((4, 3), np.float32))
    good = archive.read_bytes()
    for cut in range(0, len(good), 7):
        archive.write_bytes(good[:cut])
        refusal(scaled, "--input", archive, code=1)


def test_memory_and_unknown_operators_are_refused(tmp_path):
    nodes = [helper.make_node("Range", ["zero", "n", "one"], ["y"])]
    constants = [helper.make_tensor(n, TensorProto.INT64, [], [v]) for n, v in [("zero", 0), ("one", 1)]]
    model = save(
        tmp_path,
        nodes,
        [INFO("n", TensorProto.INT64, [])],
        [INFO("y", TensorProto.INT64, ["M"])],
        initializer=constants,
    )
    assert "y: i64[3] = 0, 1, 2" in sardonyx("run", model, "--input", "n=3").stdout
    assert "does not fit into the evaluator's memory" in refusal(model, "--input", "n=4000000000", code=1)
    assert "does not fit" in refusal(model, "--input", "n=4000", "--memory", "16K", code=1)
    nodes = [helper.make_node("Mystery", ["x"], ["y"], domain="com.example", name="it")]
    g = helper.make_graph(nodes, "g", [INFO("x", 1, [])], [INFO("y", 1, [])])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(g, opset_imports=imports, ir_version=10), tmp_path / "u.onnx")
    assert "cannot run com.example.Mystery" in refusal(tmp_path / "u.onnx", "--input", "x=1", code=1)
