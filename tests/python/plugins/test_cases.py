"""`sardonyx.testing.construct_and_call` and `run_cases`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sardonyx
from flax import nnx
from sardonyx import plugins
from sardonyx.testing import (
    construct_and_call,
    expect_graph,
    run_cases,
    with_prng_key,
    with_requested_dtype,
    with_rng_seed,
)

LINEAR = construct_and_call(nnx.Linear, 3, 5).with_requested_dtype().with_rng_seed(7)


def test_modules_are_made_for_the_dtype_that_is_asked_for():
    assert LINEAR.instantiate().kernel[...].dtype == jnp.float32
    half = LINEAR.with_dtype(jnp.bfloat16).instantiate()
    assert half.kernel[...].dtype == jnp.bfloat16 and half(jnp.ones((2, 3))).dtype == jnp.bfloat16


def test_a_seed_gives_the_same_weights_and_no_module_is_made_twice_the_same():
    one, two = LINEAR.instantiate(), LINEAR.instantiate()
    assert one is not two and jnp.array_equal(one.kernel[...], two.kernel[...])
    other = construct_and_call(nnx.Linear, 3, 5).with_rng_seed(8).instantiate()
    assert not jnp.array_equal(one.kernel[...], other.kernel[...])


def test_arguments_say_the_same_as_methods():
    as_arguments = construct_and_call(
        nnx.Linear, 3, 5, dtype=with_requested_dtype(), param_dtype=with_requested_dtype(), rngs=with_rng_seed(7)
    )
    assert jnp.array_equal(as_arguments.instantiate().kernel[...], LINEAR.instantiate().kernel[...])


class Scale:
    def __init__(self, size, options, key, precision=None):
        self.w = jax.random.normal(key, (size,), precision)
        self.twice = options["twice"][0]

    def __call__(self, x):
        return x * self.w * (2 if self.twice else 1)


def test_keys_keywords_and_nested_arguments():
    made = construct_and_call(Scale, 3, {"twice": [with_requested_dtype()]}, with_prng_key(3)).instantiate()
    assert made.twice == jnp.float32
    made = construct_and_call(Scale, 3, {"twice": [True]}).with_prng_key(3).with_requested_dtype("precision")
    assert made.with_dtype("float16").instantiate().w.dtype == jnp.float16
    with pytest.raises(sardonyx.Error, match="Scale takes neither dtype nor param_dtype"):
        construct_and_call(Scale, 3).with_requested_dtype()


def test_a_construct_is_exported_as_it_is():
    model = sardonyx.to_onnx(LINEAR, [("B", 3)])
    x = np.ones((2, 3), np.float32)
    (y,) = sardonyx.evaluate(model, [x]).values()
    assert np.allclose(y, LINEAR(x), rtol=1e-6)


def test_cases_run_in_each_dtype_and_shape():
    ran = run_cases(
        [
            {"testcase": "linear", "callable": LINEAR, "input_shapes": [("B", 3)]},
            {"testcase": "sin", "callable": jnp.sin, "input_values": [np.ones(3, np.float32)]},
            {
                "testcase": "outer",
                "callable": lambda x, y: x[:, None] + y,
                "input_shapes": [("N",), ("2*N",)],
                "input_dtypes": [jnp.int32, jnp.float32],
                "run_only_dynamic": True,
                "rtol": 1e-6,
            },
            {"testcase": "exp", "callable": jnp.exp, "input_shapes": [(3,)], "run_only_f64_variant": True},
        ]
    )
    assert ran == [
        "linear_f32",
        "linear_f32_dynamic",
        "linear_f64",
        "linear_f64_dynamic",
        "sin_f32",
        "outer_f32_dynamic",
        "exp_f64",
    ]


def test_all_cases_of_a_plugin_run_and_those_that_fail_are_told_together():
    @plugins.register_primitive(
        "wrong_twice",
        testcases=[
            {"testcase": "twice", "callable": lambda x: Wrong.primitive().bind(x), "input_shapes": [(3,)]},
            {
                "testcase": "graph",
                "callable": jnp.tanh,
                "input_shapes": [(3,)],
                "post_check_onnx_graph": expect_graph(["Sin"]),
                "run_only_f32_variant": True,
            },
            {"testcase": "good", "callable": jnp.tanh, "input_shapes": [(3,)]},
        ],
    )
    class Wrong(plugins.Plugin):
        @staticmethod
        def abstract_eval(x):
            return x

        def lower(self, ctx, eqn):
            x = ctx.get_value_for_var(eqn.invars[0])
            return ctx.builder.Add(x, x)

    Wrong.primitive().def_impl(lambda x: 3 * x)
    try:
        with pytest.raises(sardonyx.Error, match="3 of 5 cases fail") as found:
            run_cases(Wrong)
    finally:
        plugins.unregister("wrong_twice")
    text = str(found.value)
    assert "twice_f32: error: the exported model differs from JAX" in text and "twice_f64" in text
    assert "graph_f32: error: post_check_onnx_graph" in text and "good" not in text


@pytest.mark.parametrize(
    "case, message",
    [
        ({"testcase": "a", "input_shapes": [(3,)]}, "a case has no 'callable'"),
        ({"testcase": "a", "callable": jnp.sin}, "either input_shapes or input_values"),
        ({"testcase": "a", "callable": jnp.sin, "input_shape": [(3,)]}, "did you mean input_shapes"),
        ({"testcase": "a", "callable": construct_and_call(dict), "input_shapes": [(3,)]}, "made a dict"),
    ],
)
def test_cases_that_cannot_be_run(case, message):
    with pytest.raises(sardonyx.Error, match=message):
        run_cases([case])


def test_what_declares_no_cases():
    with pytest.raises(sardonyx.Error, match="Plugin declares no cases"):
        run_cases(plugins.Plugin)
