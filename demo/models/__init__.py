"""The demonstration models, each as a person would write it, at full size and from fixed seeds.

`MODELS` lists them; `demo`, `bench` and the tests read nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["MODELS", "DemoModel", "by_name"]

Sizes = dict[str, int]


@dataclass(frozen=True)
class DemoModel:
    """One model: how to make it, its inputs, and the tolerance for its export."""

    name: str
    title: str
    make: Callable[[], Callable]
    inputs: Sequence[jax.ShapeDtypeStruct]
    sizes: Sequence[Sizes]  # at least two per dynamic dimension, 1 among them
    tolerance: float
    why: str
    draw: Callable[[np.random.Generator, tuple[int, ...], np.dtype], np.ndarray] | None = field(
        default=None, repr=False
    )

    def sample(self, sizes: Sizes, seed: int = 0) -> tuple[np.ndarray, ...]:
        """Concrete inputs with the dynamic dimensions at `sizes`."""
        rng = np.random.default_rng(seed)
        arrays = []
        for spec in self.inputs:
            shape = tuple(sizes[d] if isinstance(d, str) else d for d in spec.shape)
            arrays.append((self.draw or _normal)(rng, shape, np.dtype(spec.dtype)))
        return tuple(arrays)

    def symbolic_inputs(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        """`inputs` with names turned into one scope of JAX's own symbolic dimensions, for `jax.make_jaxpr`."""
        scope = jax.export.SymbolicScope()
        return tuple(
            jax.ShapeDtypeStruct(jax.export.symbolic_shape(", ".join(map(str, s.shape)), scope=scope), s.dtype)
            for s in self.inputs
        )


def _normal(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


def _resnet():
    from flax import nnx

    from .resnet import ResNet
    from .weights import nnx_module

    return nnx_module(lambda: ResNet(rngs=nnx.Rngs(0)))


def _vit():
    from flax import nnx

    from .vit import VisionTransformer
    from .weights import nnx_module

    return nnx_module(lambda: VisionTransformer(rngs=nnx.Rngs(0)))


def _gpt():
    from flax import nnx

    from .gpt import Decoder
    from .weights import nnx_module

    return nnx_module(lambda: Decoder(rngs=nnx.Rngs(0)))


def _mixer():
    from .mixer import Mixer
    from .weights import fill

    module = Mixer()
    image = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)
    variables = fill(jax.eval_shape(module.init, jax.random.key(0), image))
    return lambda images: module.apply(variables, images)


def _hybrid():
    import equinox as eqx

    from .hybrid import Hybrid
    from .weights import fill

    empty = eqx.filter_eval_shape(Hybrid, key=jax.random.key(0))
    return jax.vmap(fill(empty))


def _lstm():
    from .lstm import make

    return make()


def _sampler():
    from .sampler import dominant_direction

    return dominant_direction


def _tokens(rng, shape, dtype):
    return rng.integers(0, 50257, shape).astype(dtype)


def _matrix_or_key(rng, shape, dtype):
    if dtype == np.uint32:
        return rng.integers(0, 2**32, shape, dtype=np.uint32)
    return _normal(rng, shape, dtype)


def _spec(shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


MODELS: tuple[DemoModel, ...] = (
    DemoModel(
        name="resnet50",
        title="ResNet-50, Flax NNX",
        make=_resnet,
        inputs=(_spec(("B", 224, 224, 3)),),
        sizes=({"B": 1}, {"B": 2}),
        tolerance=5e-5,
        why="53 convolutions of up to 4608 terms: each errs by about 4e-6 of its sum, and errors add up in squares",
    ),
    DemoModel(
        name="vit_b16",
        title="ViT-B/16, Flax NNX",
        make=_vit,
        inputs=(_spec(("B", 224, 224, 3)),),
        sizes=({"B": 1}, {"B": 2}),
        tolerance=3e-5,
        why="12 blocks around a residual stream, sums of up to 3072 terms",
    ),
    DemoModel(
        name="gpt2_124m",
        title="GPT-2 124M, Flax NNX",
        make=_gpt,
        inputs=(_spec(("B", "T"), jnp.int32),),
        sizes=({"B": 1, "T": 1}, {"B": 2, "T": 37}),
        tolerance=3e-5,
        why="12 blocks around a residual stream, sums of up to 3072 terms",
        draw=_tokens,
    ),
    DemoModel(
        name="mixer_s16",
        title="MLP-Mixer S/16, Flax Linen",
        make=_mixer,
        inputs=(_spec(("B", 224, 224, 3)),),
        sizes=({"B": 1}, {"B": 3}),
        tolerance=3e-5,
        why="8 blocks around a residual stream, sums of up to 2048 terms",
    ),
    DemoModel(
        name="hybrid",
        title="CNN + attention, Equinox",
        make=_hybrid,
        inputs=(_spec(("B", 3, 64, 64)),),
        sizes=({"B": 1}, {"B": 5}),
        tolerance=3e-5,
        why="3 convolutions and 4 blocks, sums of up to 1152 terms",
    ),
    DemoModel(
        name="lstm",
        title="LSTM over scan, plain JAX",
        make=_lstm,
        inputs=(_spec(("B", 48, 128)),),
        sizes=({"B": 1}, {"B": 7}),
        tolerance=3e-5,
        why="48 steps each way feed their own rounding back; the gates' saturation keeps it from growing",
    ),
    DemoModel(
        name="sampler",
        title="while_loop and jax.random, plain JAX",
        make=_sampler,
        inputs=(_spec((96, 160)), _spec((2,), jnp.uint32)),
        sizes=({},),
        tolerance=1e-4,
        why="the loop forgets its rounding but for the last rounds; the noise's bits are equal, its normals round",
        draw=_matrix_or_key,
    ),
)


def by_name(name: str) -> DemoModel:
    for model in MODELS:
        if model.name == name:
            return model
    raise KeyError(f"no demonstration model {name!r}; there are {', '.join(m.name for m in MODELS)}")
