"""Whole models at toy size, in the libraries that people write them in: what `test_models_zoo.py` exports and compares.

Sizes are distinct primes (or products of them where something must be divisible), weights come from `models.weights`, seeds
are fixed. Words in `inputs` are dynamic sizes. Arguments are arrays, not pytrees, so that every exporter takes them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Model:
    """One model: how to make it, its inputs, and the expected operators of its graph."""

    name: str
    make: Callable[[], Callable]
    inputs: Sequence[jax.ShapeDtypeStruct]
    sizes: Sequence[Mapping[str, int]] = ({},)  # two at least where there are dynamic sizes
    below: int = 2**32  # integers in the inputs are smaller
    # max|difference| / max|value| of one result: both sides round in f32 at every layer, in different orders.
    tolerance: float = 2e-5
    ops: Mapping[str, int] = field(default_factory=dict)  # nodes of the exported graph, bodies included, by operator
    given: Callable[[np.random.Generator, Mapping[str, int]], Sequence[np.ndarray]] | None = (
        None  # other inputs than noise
    )

    def sample(self, sizes: Mapping[str, int], seed: int = 0) -> list[np.ndarray]:
        """Concrete inputs with the dynamic dimensions at `sizes`."""
        rng = np.random.default_rng(seed)
        if self.given is not None:
            arrays = [np.asarray(x) for x in self.given(rng, sizes)]
            for spec, x in zip(self.inputs, arrays, strict=True):
                assert x.dtype == spec.dtype and x.ndim == len(spec.shape), (
                    f"{self.name}: {x.dtype} {x.shape} for {spec}"
                )
            return arrays
        arrays = []
        for spec in self.inputs:
            shape = tuple(sizes[d] if isinstance(d, str) else d for d in spec.shape)
            if jnp.issubdtype(spec.dtype, jnp.integer):
                arrays.append(rng.integers(0, self.below, shape).astype(spec.dtype))
            else:
                arrays.append(rng.standard_normal(shape).astype(spec.dtype))
        return arrays

    def symbolic_inputs(self) -> list[jax.ShapeDtypeStruct]:
        """`inputs` with words turned into one scope of JAX's own symbolic sizes."""
        scope = jax.export.SymbolicScope()
        return [
            jax.ShapeDtypeStruct(jax.export.symbolic_shape(", ".join(map(str, s.shape)), scope=scope), s.dtype)
            for s in self.inputs
        ]


def f32(*shape) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def i32(*shape) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


KEY = jax.ShapeDtypeStruct((2,), jnp.uint32)


def all_models() -> list[Model]:
    from . import dynamics, images, sequences

    return [*images.MODELS, *sequences.MODELS, *dynamics.MODELS]
