"""`sardonyx.testing.expect_graph`: accepted graphs, refused graphs, and messages."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.parser
import pytest
import sardonyx
from sardonyx.testing import expect_graph

ONES = np.ones((8, 5), np.float32)


@pytest.fixture(scope="module")
def mlp():
    w, v = np.arange(40, dtype=np.float32).reshape(8, 5), np.arange(15, dtype=np.float32).reshape(5, 3)

    def fn(x):
        return jax.nn.softmax(jax.nn.relu(x @ w + 1) @ v, axis=-1)

    return sardonyx.to_onnx(fn, [("B", 7, 8)])


def says(check, model, capsys) -> str:
    assert check(model) is False
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "path",
    [
        "MatMul",
        "MatMul -> Relu",
        "MatMul:Bx7x5 -> Relu:Bx7x5 -> MatMul:Bx7x3 -> Softmax",
        "MatMul:[B,7,5] -> Relu:?x?x5",
        "* -> Softmax:Bx7x3",
        "Add -> Relu -> MatMul",
    ],
)
def test_paths_that_are_there(mlp, path):
    assert expect_graph([path])(mlp)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("Conv", "no Conv"),
        ("Relu -> Softmax", "after Relu comes no Softmax"),
        ("MatMul:Bx7x4", "MatMul has shape Bx7x"),
        ("MatMul:5", "MatMul has shape Bx7x"),
        ("Softmax -> MatMul", "after Softmax comes no MatMul"),
    ],
)
def test_paths_that_are_not_there(mlp, path, why, capsys):
    text = says(expect_graph([path]), mlp, capsys)
    assert why in text and path in text and "Softmax:Bx7x3(" in text
    assert not expect_graph([path], explain_on_fail=False)(mlp)
    assert capsys.readouterr().err == ""


def test_modes(mlp):
    assert expect_graph(["Conv", "MatMul -> Relu"], mode="any")(mlp)
    assert not expect_graph(["Conv", "MatMul -> Relu"], mode="all", explain_on_fail=False)(mlp)
    assert not expect_graph(["Conv", "Gelu"], mode="any", explain_on_fail=False)(mlp)


def test_exact(mlp, capsys):
    whole = "MatMul -> Add -> Relu -> MatMul -> Softmax"
    assert expect_graph([whole], match="exact")(mlp)
    assert "after MatMul comes no Relu" in says(expect_graph(["MatMul -> Relu"], match="exact"), mlp, capsys)
    assert "goes on before" in says(expect_graph(["Add -> Relu"], match="exact"), mlp, capsys)
    model = sardonyx.to_onnx(lambda x: (jnp.sin(x), jnp.cos(x)), [(3,)])
    assert expect_graph(["Sin", "Cos"], match="exact")(model)
    assert "more nodes than the paths name: 1 Cos" in says(expect_graph(["Sin"], match="exact"), model, capsys)


def test_counts_and_absence(mlp, capsys):
    assert expect_graph([], counts={"MatMul": 2, "Conv": 0}, must_absent=["Expand"])(mlp)
    assert "2 nodes of MatMul, 1 expected" in says(expect_graph([], counts={"MatMul": 1}), mlp, capsys)
    assert "Relu occurs 1 times and must be absent" in says(expect_graph([], must_absent=["Relu"]), mlp, capsys)
    assert expect_graph([("Relu", {"counts": {"Relu": 1}, "must_absent": ["Tanh"]})])(mlp)
    assert not expect_graph([("Relu", {"counts": {"Relu": 2}})], explain_on_fail=False)(mlp)
    assert not expect_graph([{"path": "Relu", "must_absent": ["Add"]}], explain_on_fail=False)(mlp)


def test_attributes(mlp, capsys):
    joined = sardonyx.to_onnx(lambda x, y: jnp.concatenate([x, y], 1), [(3, 4), (3, 5)])
    assert expect_graph(["Concat"], attrs={"Concat": {"axis": 1}})(joined)
    default = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 23]> g (float[3,4] x) => (float[3,4] y) { y = Softmax(x) }'
    )
    assert expect_graph(["Softmax"], attrs={"Softmax": {"axis": -1}})(default)
    assert "axis of Softmax is 2, 0 expected" in says(
        expect_graph(["Softmax"], attrs={"Softmax": {"axis": 0}}), mlp, capsys
    )
    assert not expect_graph(["Relu"], attrs={"Conv": {"group": 1}}, explain_on_fail=False)(mlp)


def test_inputs(mlp, capsys):
    assert expect_graph(["MatMul -> Add"], inputs={1: {"const": 1.0}})(mlp)
    assert "operand 1 is 1.0, 2.0 expected" in says(expect_graph(["Add"], inputs={"1": {"const": 2.0}}), mlp, capsys)
    assert expect_graph([("MatMul", {"inputs": {1: {"initializer_name": "?*"}, 2: {"absent": True}}})])(mlp)
    assert not expect_graph([("MatMul", {"inputs": {0: {"initializer_name": "*"}}})], explain_on_fail=False)(mlp)
    assert not expect_graph([("MatMul", {"inputs": {0: {"absent": True}}})], explain_on_fail=False)(mlp)
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 23]> g (bool[3] x) => (bool[3] y) <bool yes = {1}> { y = And(x, yes) }'
    )
    assert expect_graph(["And"], inputs={1: {"const_bool": True}})(model)
    assert not expect_graph(["And"], inputs={1: {"const_bool": False}}, explain_on_fail=False)(model)


def test_symbols(mlp, capsys):
    assert expect_graph(["Relu:Nx7x5", "Softmax:Nx7x3"], symbols={"N": None})(mlp)
    assert expect_graph(["Relu:Bx7xK", "Softmax:Bx7xL"], symbols={"K": 5, "L": None})(mlp)
    assert "Softmax has shape Bx7x3" in says(
        expect_graph(["Relu:Bx7xK", "Softmax:Bx7xK"], symbols={"K": None}), mlp, capsys
    )
    assert not expect_graph(["Relu:Nx7xK"], explain_on_fail=False)(mlp)


def test_unused_inputs(capsys):
    model = sardonyx.to_onnx(lambda x, y: jnp.sin(x), [(3,), (2,)])
    assert expect_graph(["Sin"])(model)
    assert "input 'y' of the graph has no reader" in says(expect_graph(["Sin"], no_unused_inputs=True), model, capsys)


def test_functions(capsys):
    @sardonyx.onnx_function
    def block(x):
        return jnp.tanh(x @ ONES)

    model = sardonyx.to_onnx(lambda x: block(x) + 1, [("B", 8)], passes="none")
    assert expect_graph(["block -> Add"])(model)
    assert not expect_graph(["Tanh"], explain_on_fail=False)(model)
    assert expect_graph(["MatMul -> Tanh"], search_functions=True, no_unused_function_inputs=True)(model)
    assert expect_graph([("Tanh", {"graph": "fn:block"})], search_functions=True)(model)
    assert "there is no graph 'fn:other'" in says(
        expect_graph([("Tanh", {"graph": "fn:other"})], search_functions=True), model, capsys
    )
    assert not expect_graph([("Tanh", {"graph": "top"})], search_functions=True, explain_on_fail=False)(model)


def test_bodies_belong_to_their_graph():
    model = sardonyx.to_onnx(lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.exp, x), [(3,)])
    assert expect_graph([], counts={"Sin": 1, "Exp": 1, "If": 1})(model)


def test_models_of_every_kind(mlp, tmp_path):
    from sardonyx import ir

    sardonyx.to_onnx(jnp.sin, [("B", 3)], return_mode="file", output_path=tmp_path / "sin.onnx")
    assert expect_graph(["Sin:Bx3"])(tmp_path / "sin.onnx")
    assert expect_graph(["Softmax:Bx7x3"])(ir.from_proto(mlp))


@pytest.mark.parametrize(
    ("specs", "options", "message"),
    [
        ("MatMul", {}, "a list of paths"),
        (["MatMul -> "], {}, "empty step"),
        (["MatMul:Bxx3"], {}, "is not a shape"),
        ([3], {}, "a path is a text"),
        ([("MatMul", {"color": 1})], {}, "'color' is not known"),
        (["MatMul"], {"mode": "some"}, "mode='some'"),
        (["MatMul"], {"match": "roughly"}, "match='roughly'"),
        (["MatMul"], {"inputs": {0: {"kind": 1}}}, "predicate 'kind'"),
        (["MatMul"], {"no_unused_function_inputs": True}, "needs search_functions=True"),
        (["MatMul"], {"must_absent": "Conv"}, "list of operators"),
    ],
)
def test_mistakes(specs, options, message):
    with pytest.raises(sardonyx.Error, match=message):
        expect_graph(specs, **options)


def test_a_model_describes_itself(mlp, capsys):
    from sardonyx.testing import describe_graph

    text = describe_graph(mlp)
    assert '"MatMul:Bx7x5 -> Add:Bx7x5 -> Relu:Bx7x5 -> MatMul:Bx7x3 -> Softmax:Bx7x3"' in text
    check = eval(text)
    assert check(mlp)
    other = sardonyx.to_onnx(lambda x: jax.nn.softmax(jax.nn.relu(x @ ONES) + 1), [("B", 7, 8)])
    assert check(other) is False

    @sardonyx.onnx_function
    def part(x):
        return jax.lax.fori_loop(0, 3, lambda i, v: jnp.sin(v) * x.shape[0], x)

    def fn(x, y):
        return part(x[None])[0] + part(y), x.sum(), jnp.concatenate([x, x])

    model = sardonyx.to_onnx(fn, [("2*B+1", 8), (1, "2*B+1", 8)])
    text = describe_graph(model, search_functions=True)
    assert '{"graph": "fn:custom.part.1"}' in text and '"Sin": 1' in text
    assert eval(text)(model)
    assert expect_graph(["part"], counts={"part": 2})(model)
    assert expect_graph([{"path": "Loop", "graph": "fn:custom.part"}], search_functions=True)(model)
