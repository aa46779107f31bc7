"""The programs of this folder: what each of them exports, from which library, and how near the model must come."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# The largest difference, as a share of the largest magnitude in a result, of programs of a few hundred operations of f32.
TOLERANCE = 2e-5


@dataclass
class Program:
    name: str
    library: str
    make: Callable  # gives (a function of arrays, its arguments)
    tolerance: float


PROGRAMS: dict[str, Program] = {}


def program(library: str, *, tolerance: float = TOLERANCE):
    """Decorates a function without parameters that gives (a function, its arguments). One that needs a larger tolerance says why."""

    def decorate(make):
        assert make.__name__ not in PROGRAMS, make.__name__
        PROGRAMS[make.__name__] = Program(make.__name__, library, make, tolerance)
        return make

    return decorate


def normal(*shape, seed=7) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def positive(*shape, seed=7) -> np.ndarray:
    return np.abs(normal(*shape, seed=seed)) + np.float32(0.1)
