"""The demonstration's architectures at toy size, exported and compared at two batch sizes and at one."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sardonyx
from flax import nnx
from judge import check_structure, compare, outputs
from models import MODELS, gpt, hybrid, lstm, mixer, resnet, sampler, vit
from models.weights import draw, fill, nnx_module

# Whole networks: errors of single operators add up over the depth. See the models' own `why`.
TOLERANCE = 2e-5
SIZES = ({"B": 3, "T": 7}, {"B": 5, "T": 2}, {"B": 1, "T": 1})


def image(*shape):
    return [jax.ShapeDtypeStruct(("B", *shape), jnp.float32)]


def check(fn, specs, *, sizes=SIZES, integers=0, tolerance=TOLERANCE, most_nodes=None, optimize=False):
    """Export `fn`, then compare with JAX at every size."""
    model = sardonyx.to_onnx(fn, specs)
    dynamic = any(isinstance(d, str) for s in specs for d in s.shape)
    check_structure(model, static=not dynamic, f64=False)
    if most_nodes is not None:
        ops = [node.op_type for node in model.graph.node]
        assert len(ops) <= most_nodes, f"{len(ops)} nodes, {most_nodes} are enough: {ops}"
    for size in sizes:
        rng = np.random.default_rng(0)
        inputs = []
        for spec in specs:
            shape = tuple(size[d] if isinstance(d, str) else d for d in spec.shape)
            floating = jnp.issubdtype(spec.dtype, jnp.floating)
            value = rng.standard_normal(shape) if floating else rng.integers(0, integers, shape)
            inputs.append(value.astype(spec.dtype))
        compare(fn(*map(jnp.asarray, inputs)), outputs(model, inputs, optimize), tolerance)
    return model


class Mlp(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(7, 13, rngs=rngs)
        self.norm = nnx.LayerNorm(13, rngs=rngs)
        self.second = nnx.Linear(13, 5, rngs=rngs)

    def __call__(self, x):
        return nnx.softmax(self.second(nnx.gelu(self.norm(self.first(x)))))


def test_nnx_mlp():
    check(nnx_module(lambda: Mlp(nnx.Rngs(0))), image(7))


def test_nnx_mlp_with_its_own_initialisers():
    check(Mlp(nnx.Rngs(0)), image(7))


def test_nnx_resnet():
    small = nnx_module(lambda: resnet.ResNet((1, 1), width=4, classes=5, rngs=nnx.Rngs(0)))
    check(small, image(32, 48, 3))


def test_nnx_resnet_of_one_size():
    small = nnx_module(lambda: resnet.ResNet((1, 2), width=4, classes=5, rngs=nnx.Rngs(0)))
    specs = [jax.ShapeDtypeStruct((2, 32, 48, 3), jnp.float32)]
    model = check(small, specs, sizes=({},))
    assert [node.op_type for node in model.graph.node].count("Conv") == 12


def test_nnx_vit():
    def make():
        return vit.VisionTransformer(32, 16, features=12, depth=2, heads=3, hidden=20, classes=5, rngs=nnx.Rngs(0))

    check(nnx_module(make), image(32, 32, 3))


def test_nnx_gpt():
    def make():
        return gpt.Decoder(vocabulary=31, context=16, features=12, depth=2, heads=3, rngs=nnx.Rngs(0))

    check(nnx_module(make), [jax.ShapeDtypeStruct(("B", "T"), jnp.int32)], integers=31)


def test_nnx_gpt_survives_the_optimizations_of_onnxruntime():
    def make():
        return gpt.Decoder(vocabulary=31, context=16, features=12, depth=1, heads=3, rngs=nnx.Rngs(0))

    check(nnx_module(make), [jax.ShapeDtypeStruct(("B", "T"), jnp.int32)], integers=31, optimize=True)


def test_tied_weights_are_written_once():
    decoder = nnx_module(lambda: gpt.Decoder(127, 16, features=12, depth=0, heads=3, rngs=nnx.Rngs(0)))
    model = check(decoder, [jax.ShapeDtypeStruct(("B", "T"), jnp.int32)], integers=127)
    tables = [t for t in model.graph.initializer if sorted(t.dims) == [12, 127]]
    assert len(tables) == 1


def test_linen_mixer():
    module = mixer.Mixer(patch=8, features=12, depth=2, across_tokens=10, across_channels=14, classes=5)
    example = jax.ShapeDtypeStruct((1, 16, 24, 3), jnp.float32)
    variables = fill(jax.eval_shape(module.init, jax.random.key(0), example))
    check(lambda x: module.apply(variables, x), image(16, 24, 3))


class LinenCnn(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(6, (3, 3), strides=(2, 2))(x))
        x = nn.BatchNorm(use_running_average=True)(x)
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.ConvTranspose(4, (3, 3), strides=(2, 2))(x)
        x = nn.GroupNorm(num_groups=2)(x)
        return nn.Dense(5)(x.reshape(x.shape[0], -1))


def test_linen_cnn():
    module = LinenCnn()
    example = jax.ShapeDtypeStruct((1, 12, 20, 3), jnp.float32)
    variables = fill(jax.eval_shape(module.init, jax.random.key(0), example))
    check(lambda x: module.apply(variables, x), image(12, 20, 3))


def test_linen_recurrent():
    module = nn.RNN(nn.GRUCell(features=6))
    example = jax.ShapeDtypeStruct((1, 5, 3), jnp.float32)
    variables = fill(jax.eval_shape(module.init, jax.random.key(0), example))
    check(lambda x: module.apply(variables, x), image(5, 3))


def test_equinox_hybrid():
    empty = eqx.filter_eval_shape(hybrid.Hybrid, (3, 8, 16), 1, 5, key=jax.random.key(0))
    check(jax.vmap(fill(empty)), image(3, 16, 8))


def test_equinox_mlp_under_filter_jit():
    mlp = fill(eqx.filter_eval_shape(eqx.nn.MLP, 7, 5, 13, 2, key=jax.random.key(0)))
    check(lambda x: jax.vmap(lambda v: eqx.filter_jit(mlp)(v))(x), image(7))


def test_lstm():
    classify = lstm.make(features=3, units=6, classes=5)
    check(classify, image(11, 3))


def test_lstm_of_any_length():
    classify = lstm.make(features=3, units=6, classes=5)
    check(classify, [jax.ShapeDtypeStruct(("B", "T", 3), jnp.float32)])


def test_sampler():
    specs = [jax.ShapeDtypeStruct((5, 7), jnp.float32), jax.ShapeDtypeStruct((2,), jnp.uint32)]
    check(sampler.dominant_direction, specs, sizes=({},), integers=2**32, tolerance=1e-4)


def test_a_plain_function_over_a_pytree_of_weights():
    weights = {"w": draw("w.kernel", (7, 5), jnp.float32), "b": [draw("b.bias", (5,), jnp.float32)]}
    check(lambda x: {"y": jnp.tanh(x @ weights["w"] + weights["b"][0]), "x": x}, image(7), most_nodes=4)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
@pytest.mark.slow
def test_full_size(model, tmp_path):
    """As in the demo, from a file, at one size."""
    fn = model.make()
    path = tmp_path / f"{model.name}.onnx"
    sardonyx.to_onnx(fn, list(model.inputs), return_mode="file", output_path=str(path))
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = model.sample(model.sizes[0])
    feeds = {i.name: x for i, x in zip(session.get_inputs(), inputs, strict=True)}
    compare(fn(*map(jnp.asarray, inputs)), session.run(None, feeds), model.tolerance)
