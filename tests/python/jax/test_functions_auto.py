"""`to_onnx(..., functions="auto")`: repeating parts become one function and compute the same."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import sardonyx
from flax import linen, nnx
from judge import outputs
from sardonyx import to_onnx

WIDTH, HEADS = 12, 3


def normal(*shape, seed=7):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def agree(model, fn, *inputs):
    onnx.checker.check_model(model, full_check=True)
    expected = jax.tree_util.tree_leaves(fn(*inputs))
    names = [i.name for i in model.graph.input]
    for results in (
        outputs(model, list(inputs)),
        sardonyx.evaluate(model, dict(zip(names, inputs, strict=True))).values(),
    ):
        for got, want in zip(results, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def attention(p, x, mask):
    batch, time, _ = x.shape
    q, k, v = (jnp.reshape(x @ p[name], (batch, time, HEADS, -1)) for name in "qkv")
    w = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(jnp.float32(q.shape[-1]))
    w = jax.nn.softmax(jnp.where(mask, w, -1e9), -1)
    return jnp.reshape(jnp.einsum("bhqk,bkhd->bqhd", w, v), x.shape) @ p["o"]


def block(p, x, mask):
    x = x + attention(p, x, mask)
    return x + jax.nn.gelu(x @ p["up"]) @ p["down"]


def weights(n):
    shapes = dict.fromkeys("qkvo", (WIDTH, WIDTH)) | {"up": (WIDTH, 20), "down": (20, WIDTH)}
    return [{k: normal(*s, seed=100 * i + j) / 4 for j, (k, s) in enumerate(shapes.items())} for i in range(n)]


def transformer(n):
    parameters = weights(n)

    def fn(x):
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        for p in parameters:
            x = block(p, x, mask)
        return jnp.tanh(x)

    return fn


@pytest.mark.parametrize("batch", [("B", "T"), (2, 5)], ids=["dynamic", "static"])
def test_blocks_written_by_hand(batch):
    fn = transformer(6)
    model = to_onnx(fn, [(*batch, WIDTH)], functions="auto")
    plain = to_onnx(fn, [(*batch, WIDTH)])
    assert [(f.domain, f.name) for f in model.functions] == [("custom.block.1", "block")]
    assert [n.op_type for n in model.graph.node].count("block") == 6
    assert len(model.graph.node) + len(model.functions[0].node) < len(plain.graph.node) / 2
    assert model.ByteSize() < plain.ByteSize()
    assert not plain.functions
    agree(model, fn, normal(2, 5, WIDTH))
    if batch[0] == "B":
        agree(model, fn, normal(3, 7, WIDTH))


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 20, rngs=rngs)
        self.down = nnx.Linear(20, WIDTH, rngs=rngs)
        self.up.bias[...] = normal(20)

    def __call__(self, x):
        return x + self.down(jnp.sin(self.up(self.norm(x))))


class Net(nnx.Module):
    def __init__(self, rngs):
        self.blocks = nnx.List([Block(rngs) for _ in range(12)])

    def __call__(self, x):
        for b in self.blocks:
            x = b(x)
        return x


def test_modules_without_decorators():
    net = Net(nnx.Rngs(0))
    model = to_onnx(net, [("B", WIDTH)], functions="auto")
    assert [(f.domain, f.name) for f in model.functions] == [("custom.Block.1", "Block")]
    assert [n.op_type for n in model.graph.node] == ["Block"] * 12
    # Weights are operands, named as in the module.
    assert set(model.functions[0].input) >= {"up.kernel", "down.kernel"}
    agree(model, net, normal(3, WIDTH))


class LinenLayer(linen.Module):
    @linen.compact
    def __call__(self, x):
        h = linen.LayerNorm()(x)
        return x + linen.Dense(WIDTH)(jnp.cos(linen.Dense(20)(h)))


class LinenNet(linen.Module):
    @linen.compact
    def __call__(self, x):
        for _ in range(4):
            x = LinenLayer()(x)
        return x


def test_module_paths_name_functions():
    net = LinenNet()
    parameters = net.init(jax.random.key(0), normal(2, WIDTH))
    model = to_onnx(lambda x: net.apply(parameters, x), [("B", WIDTH)], functions="auto")
    assert [f.name for f in model.functions] == ["LinenLayer"]
    assert [n.op_type for n in model.graph.node] == ["LinenLayer"] * 4
    agree(model, lambda x: net.apply(parameters, x), normal(3, WIDTH))


def test_two_kinds_of_parts():
    parameters = weights(6)

    def other(p, y):
        return jnp.sin(y @ p["q"]) * jnp.cos(y @ p["k"]) + jnp.exp(-jnp.abs(y @ p["v"]))

    def fn(x):
        mask = jnp.ones((x.shape[1], x.shape[1]), bool)
        for p in parameters[:3]:
            x = block(p, x, mask)
        for p in parameters[3:]:
            x = other(p, x)
        return x

    model = to_onnx(fn, [("B", 5, WIDTH)], functions="auto")
    assert sorted(f.name for f in model.functions) == ["block", "other"]
    assert [n.op_type for n in model.graph.node if n.domain] == ["block"] * 3 + ["other"] * 3
    agree(model, fn, normal(2, 5, WIDTH))


def test_parts_in_a_loop_and_beside_decorated_functions():
    parameters = weights(4)

    @sardonyx.onnx_function
    def block2(x):
        return jnp.tanh(x) * 2

    def fn(x, n):
        mask = jnp.ones((x.shape[1], x.shape[1]), bool)

        def step(_, x):
            for p in parameters:
                x = block2(block(p, x, mask))
            return x

        return jax.lax.fori_loop(0, n, step, x)

    model = to_onnx(fn, [("B", 5, WIDTH), jax.ShapeDtypeStruct((), jnp.int32)], functions="auto")
    assert len({f.domain for f in model.functions}) == 2
    agree(model, fn, normal(2, 5, WIDTH), np.array(3, np.int32))


@pytest.mark.parametrize("target", ["ort-1.17", "ort-1.31"])
def test_functions_run_on_targets(target):
    fn = transformer(3)

    def half(x):
        return fn(x.astype(jnp.bfloat16).astype(jnp.float32))

    model = to_onnx(half, [(2, 5, WIDTH)], functions="auto", target=target)
    assert len(model.functions) == 1
    (got,) = outputs(model, [normal(2, 5, WIDTH)])
    np.testing.assert_allclose(got, half(normal(2, 5, WIDTH)), rtol=2e-5, atol=2e-5)


def test_same_bytes():
    first, second = (to_onnx(transformer(3), [("B", 5, WIDTH)], functions="auto") for _ in range(2))
    assert first.SerializeToString() == second.SerializeToString()


def test_inlining_gives_the_graph_back(tmp_path):
    fn = transformer(3)
    path = str(tmp_path / "model.onnx")
    to_onnx(fn, [("B", 5, WIDTH)], functions="auto", return_mode="file", output_path=path)
    inlined = sardonyx.optimize(path, passes=["inline_functions"])
    plain = to_onnx(fn, [("B", 5, WIDTH)])
    assert sorted(n.op_type for n in inlined.graph.node) == sorted(n.op_type for n in plain.graph.node)


def test_unknown_choice():
    with pytest.raises(sardonyx.Error, match="functions='all' is not known"):
        to_onnx(jnp.sin, [(3,)], functions="all")


def random_model(seed):
    """Few kinds of operators on one shape: candidates for parts occur often, overlap, and have outside users."""
    dice = np.random.default_rng(seed)
    kinds = ["Add", "Mul", "Tanh", "Neg"][: int(dice.integers(2, 5))]
    nodes, weights, values = [], [], ["x"]
    for i in range(int(dice.integers(10, 60))):
        kind = kinds[int(dice.integers(len(kinds)))]
        near = values[-int(dice.integers(2, 9)) :]
        operands = [near[int(dice.integers(len(near)))] for _ in range(2 if kind in ("Add", "Mul") else 1)]
        if kind == "Mul" and dice.random() < 0.5:
            operands[1] = f"w{i}"
            weights.append(onnx.numpy_helper.from_array(dice.normal(size=(2, 3)).astype(np.float32), operands[1]))
        nodes.append(onnx.helper.make_node(kind, operands, [f"v{i}"]))
        values.append(f"v{i}")
    results = sorted({values[-1], *(values[int(i)] for i in dice.integers(1, len(values), 2))})
    port = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, (2, 3)) for n in ("x", *results)]
    graph = onnx.helper.make_graph(nodes, "random", port[:1], port[1:], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)


def test_random_graphs_keep_their_results():
    found = 0
    for seed in range(150):
        model = random_model(seed)
        after = sardonyx.optimize(
            model, passes=["outline_functions"], options={"outline_functions.min_nodes": 2}, strict=True
        )
        onnx.checker.check_model(after, full_check=True)
        found += len(after.functions)
        x = normal(2, 3)
        for a, b in zip(sardonyx.evaluate(model, [x]).values(), sardonyx.evaluate(after, [x]).values(), strict=True):
            np.testing.assert_array_equal(a, b)
    assert found > 30


@pytest.mark.parametrize(
    "scope", ["Block_3", "net/Block_3", "transpose(jvp(my.Block))", "Block/vmap()", "Net/vmap(a,b->c)"]
)
def test_scopes_name_functions(scope):
    """Transformations around a module path are not part of the name. Where the path is empty, the function
    names the part."""

    def step(x):
        with jax.named_scope(scope):
            return jnp.tanh(jnp.sin(x) * jnp.cos(x)) + x

    model = to_onnx(lambda x: step(step(step(x))), [("B", 3)], functions="auto")
    assert [f.name for f in model.functions] == ["step" if "->" in scope else "Block"]
