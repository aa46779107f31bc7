"""Modules of Flax NNX whose variables cannot be changed inside a trace: NNX's transformations of their parts,
and training."""

import functools
import threading

import flax
import jax
import numpy as np
import pytest
import sardonyx
from flax import nnx
from judge import compare, outputs

X = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)


class Stack(nnx.Module):
    """Layers that are one module with a leading axis, as NNX scans over them."""

    def __init__(self):
        @nnx.vmap(in_axes=0, out_axes=0)
        def layers(key):
            return nnx.Linear(7, 7, rngs=nnx.Rngs(key))

        self.layers, self.head = layers(jax.random.split(jax.random.key(0), 4)), nnx.Linear(7, 3, rngs=nnx.Rngs(1))

    def __call__(self, x):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def run(x, layer):
            return x + nnx.relu(layer(x))

        return self.head(run(x, self.layers))


def test_a_scan_over_layers():
    model = Stack()
    exported = sardonyx.to_onnx(model, [("B", 7)])
    assert [n.op_type for n in exported.graph.node] == ["Scan", "MatMul"]
    assert {i.name for i in exported.graph.initializer} >= {"layers.kernel", "layers.bias", "head.kernel"}
    compare(model(X), outputs(exported, [X]), 2e-5)


class Trained(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.norm = nnx.Linear(7, 5, rngs=rngs), nnx.BatchNorm(5, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.dropout(self.features(x))

    def features(self, x):
        return self.norm(self.linear(x))


def test_a_module_in_training_is_exported_and_left_as_it_was():
    model = Trained(nnx.Rngs(0))
    before = str(nnx.state(model))
    exported = sardonyx.to_onnx(model, [("B", 7)])
    features = sardonyx.to_onnx(model.features, [("B", 7)])
    assert str(nnx.state(model)) == before
    assert exported.SerializeToString() == sardonyx.to_onnx(model, [("B", 7)]).SerializeToString()
    assert [i.name for i in features.graph.input] == ["x"]
    compare(model.features(X), outputs(features, [X]), 2e-5)
    compare(Trained(nnx.Rngs(0))(X), outputs(exported, [X]), 2e-5)


class Part(nnx.Module):
    def __init__(self, rngs):
        self.up, self.down = nnx.Linear(7, 5, rngs=rngs), nnx.Linear(5, 7, rngs=rngs)

    def __call__(self, x):
        return self.down(nnx.gelu(self.up(x)))


class Louder(Part):
    def __call__(self, x):
        return super().__call__(x) * 3


class Whole(nnx.Module):
    def __init__(self, rngs):
        self.parts = nnx.List([Part(rngs), Louder(rngs)])
        self.named = nnx.Dict(last=nnx.Sequential(nnx.tanh, nnx.Linear(7, 3, rngs=rngs)))
        self.head = nnx.Linear(3, 2, rngs=rngs)

    def __call__(self, x):
        for part in self.parts:
            x = x + part(x)
        return self.classify(self.named["last"](x))

    def classify(self, x):
        return self.head(x)


def paths(fn, *inputs):
    """The module paths of the products in an exported program."""
    model = sardonyx.to_onnx(fn, list(inputs), passes="none")
    found = [{p.key: p.value for p in n.metadata_props} for n in model.graph.node if n.op_type in ("MatMul", "Gemm")]
    return [m.get("namespace") for m in found]


WHOLE = ["parts/0/up", "parts/0/down", "parts/1/up", "parts/1/down", "named/last/layers/1", "head"]


def test_modules_give_nodes_their_paths():
    model = Whole(nnx.Rngs(0))
    calls = {cls: cls.__call__ for cls in (Part, Louder, Whole, nnx.Linear)}
    wanted = [f"Whole/{path}" for path in WHOLE]
    assert paths(model, ("B", 7)) == wanted
    assert paths(nnx.jit(model), ("B", 7)) == wanted
    assert paths(lambda x: model(x) - model.parts[1](x).sum(), ("B", 7)) == [*wanted, "Louder/up", "Louder/down"]
    assert paths(model.classify, ("B", 3)) == ["Whole/head"]
    assert paths(model.__call__, ("B", 7)) == wanted
    assert {cls: cls.__call__ for cls in calls} == calls


def test_modules_that_are_made_anew_are_called_after_their_class():
    class Checkpointed(nnx.Module):
        def __init__(self, rngs):
            self.part = Part(rngs)

        def __call__(self, x):
            return nnx.remat(lambda part, x: part(x))(self.part, x)

    model = Checkpointed(nnx.Rngs(0))
    assert paths(model, ("B", 7)) == ["Checkpointed/Part/up", "Checkpointed/Part/down"]
    if flax.__version__ != "0.12.0":  # it leaves traced values in variables that it passes to nnx.remat
        assert model(X).shape == (5, 7)


def test_paths_do_not_reach_other_threads():
    model = Whole(nnx.Rngs(0))
    seen = []

    class Waiting(nnx.Module):
        def __init__(self):
            self.model = model

        def __call__(self, x):
            def other():
                closed = jax.make_jaxpr(model)(X)
                seen.extend(str(e.source_info.name_stack) for e in closed.jaxpr.eqns)

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            return self.model(x)

    assert paths(Waiting(), ("B", 7)) == [f"Waiting/model/{path}" for path in WHOLE]
    assert set(seen) == {""}


def predict(model, x):
    return model(x)


def reached(model):
    """Functions that reach a module in various ways, with their expected results."""
    jitted, held = nnx.jit(predict), {"all": [model]}

    def loss(model, x):
        return model(x).sum()

    return {
        "a closure": lambda x: model(x),
        "a container": lambda x: held["all"][0](x),
        "nnx.jit": lambda x: jitted(model, x),
        "nnx.jit twice": lambda x: jitted(model, x) + jitted(model, 2 * x),
        "partial": functools.partial(predict, model),
        "partial of nnx.jit": functools.partial(jitted, model),
        "cached_partial": nnx.cached_partial(jitted, model),
        "jax.jit": jax.jit(lambda x: nnx.clone(model)(x)),
        "gradient": lambda x: nnx.value_and_grad(loss)(model, x)[0],
        "changes": lambda x: (model(x), setattr(model, "more", x), setattr(model, "linear", model.norm))[0],
    }


def stands(model) -> list:
    """The full state of a module: its parts by identity, and their values."""
    parts = [x for _, x in nnx.iter_graph(model) if isinstance(x, nnx.Module | nnx.Variable)]
    leaves = jax.tree_util.tree_leaves(nnx.to_pure_dict(nnx.state(model)))
    arrays = [jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in leaves]
    return [str(nnx.graphdef(model)), [id(x) for x in parts], [np.asarray(x).tobytes() for x in arrays]]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("way", list(reached(Trained(nnx.Rngs(0)))))
def test_a_module_that_the_function_reaches_is_exported_and_left_as_it_was(way, training):
    model = Trained(nnx.Rngs(0))
    (model.train if training else model.eval)()
    fn = reached(model)[way]
    before = stands(model)
    exported = sardonyx.to_onnx(fn, [("B", 7)], check=True)
    assert stands(model) == before
    assert outputs(exported, [X])[0].dtype == np.float32
    assert sardonyx.compare(fn, exported, [X])
    assert stands(model) == before
    compare(fn(X), outputs(exported, [X]), 2e-5)
    assert (stands(model) != before) == (training and way != "jax.jit" or way == "changes")


@pytest.mark.parametrize("raised", [RuntimeError("no"), KeyboardInterrupt()])
@pytest.mark.parametrize("training", [False, True])
def test_a_module_is_left_as_it_was_where_the_export_stops(raised, training):
    model = Trained(nnx.Rngs(0))
    (model.train if training else model.eval)()

    def fails(x):
        y = nnx.jit(predict)(model, x)
        model.linear.kernel[...] = model.linear.kernel[...] * y.sum()
        del model.norm
        raise raised

    before = stands(model)
    with pytest.raises(KeyboardInterrupt if isinstance(raised, KeyboardInterrupt) else sardonyx.Error):
        sardonyx.to_onnx(fails, [("B", 7)])
    assert stands(model) == before
    assert model(X).shape == (5, 5)


def test_a_module_is_left_as_it_was_by_another_exporter():
    model = Trained(nnx.Rngs(0))
    before = stands(model)

    def other(fn, inputs):
        fn(X)
        raise RuntimeError

    sardonyx.to_onnx(lambda x: model(x), [("B", 7)], shadow=other)
    assert stands(model) == before


GLOBAL = Trained(nnx.Rngs(0))


class Holder:
    model = Trained(nnx.Rngs(0))


@functools.cache
def remembered():
    return Trained(nnx.Rngs(0))


def test_modules_in_globals_classes_and_caches_are_found():
    model = remembered()
    for fn, held in (
        (lambda x: GLOBAL(x), GLOBAL),
        (lambda x: Holder.model(x), Holder.model),
        (lambda x: remembered()(x), model),
        (jax.jit(lambda x: nnx.clone(GLOBAL)(x)), GLOBAL),
    ):
        before = stands(held)
        sardonyx.to_onnx(fn, [("B", 7)])
        assert stands(held) == before


class Counter(nnx.Module):
    def __init__(self):
        self.linear, self.count = nnx.Linear(7, 3, rngs=nnx.Rngs(0)), nnx.Variable(jax.numpy.int32(2))

    def __call__(self, x):
        self.count[...] += 1
        return self.linear(x) * self.count[...]


def decoder():
    module = nnx.MultiHeadAttention(num_heads=2, in_features=6, qkv_features=6, decode=True, rngs=nnx.Rngs(0))
    module.init_cache((1, 5, 6))
    return module


@pytest.mark.parametrize(
    ("make", "shape", "changed"), [(Counter, (5, 7), "Counter.count"), (decoder, (1, 1, 6), "cached_key")]
)
def test_a_state_that_the_module_changes_is_not_dropped(make, shape, changed):
    module = make()
    before = str(nnx.state(module))
    with pytest.raises(sardonyx.Error, match=rf"changes .*{changed}.* drop the new values") as e:
        sardonyx.to_onnx(module, [shape])
    assert str(nnx.state(module)) == before
    # The lines of the help work.
    (told,) = [note for note in e.value.notes if note.startswith("help: ")]
    assert "nnx.split(module, nnx.Param, ...)" in told
    graphdef, weights, state = nnx.split(module, nnx.Param, ...)

    def fn(state, x):
        return (m := nnx.merge(graphdef, weights, state))(x), nnx.state(m, nnx.Not(nnx.Param))

    model = sardonyx.to_onnx(fn, [state, shape])
    assert all(name.partition(".")[0] in ("state", "x") for name in (i.name for i in model.graph.input))
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    for _ in range(2):  # two steps: the second starts from what the first left
        before = [np.array(leaf) for leaf in jax.tree.leaves(state)]
        wanted, new = fn(state, x)
        compare((wanted, new), outputs(model, [*before, x]), 2e-5)
        state = new


def test_variables_that_nnx_jit_passes_through_are_not_changed():
    class Scaled(nnx.Module):
        def __init__(self):
            self.scale = nnx.Variable(jax.numpy.float32(3))

        @nnx.jit
        def __call__(self, x):
            return x * self.scale[...]

    compare(X * 3, outputs(sardonyx.to_onnx(Scaled(), [(5, 7)]), [X]))


def test_values_that_are_only_looked_at_may_change():
    class Watched(nnx.Module):
        def __call__(self, x):
            self.sow(nnx.Intermediate, "h", x * 2)
            return x + 1

    compare(X + 1, outputs(sardonyx.to_onnx(Watched(), [(5, 7)]), [X]))
