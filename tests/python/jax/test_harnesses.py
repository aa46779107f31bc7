"""A sample of JAX's own harnesses of its primitives; `make test-harnesses` runs all of them."""

import random

import pytest

pytest.importorskip("jax._src.internal_test_util.test_harnesses")

import harnesses

NAMES = sorted(harnesses.harnesses())
SAMPLE = random.Random(17).sample(NAMES, 60)
ONCE_DIFFERED = [
    "bitcast_convert_type_dtypes_to_new_dtypes_shape_complex64_2_3_newdtype_complex64",
    "integer_pow_dtypes_shape_bfloat16_20_30_y_0",
    "min_inf_nan_complex64",
]


@pytest.mark.parametrize("name", [*SAMPLE, *ONCE_DIFFERED])
def test_a_harness_of_jax_equals_the_jitted_function(name):
    text = harnesses.judged(harnesses.harnesses()[name])
    if text.startswith("JAX refuses"):
        pytest.skip(text)
    listed = harnesses.expected(name)
    assert text.startswith(listed) and bool(text) == bool(listed), text
