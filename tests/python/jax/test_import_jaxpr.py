"""A jaxpr is read once, natively, with its weights borrowed."""

import gc
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sardonyx
from jax.extend.random import define_prng_impl
from sardonyx._sardonyx import import_jaxpr
from sardonyx._trace.data.sizes import scan_counts


def read(fn, *args, **options):
    return import_jaxpr(jax.make_jaxpr(fn)(*args), **options)


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def test_signature_and_equations():
    program = read(
        lambda x, y: (jnp.sin(x) + y, x), f32(2, 3), f32(2, 3), input_names=["x", "y"], output_names=["a", "b"]
    )
    assert program.inputs() == ["x: f32[2,3]", "y: f32[2,3]"]
    assert program.outputs() == ["a: f32[2,3]", "b: f32[2,3]"]
    assert program.op_counts() == {"sin": 1, "add": 1}


def test_symbolic_dims_keep_their_expressions():
    b, t = jax.export.symbolic_shape("B, T")
    program = read(lambda x: jnp.concatenate([x, x], axis=1).reshape(-1), f32(b, t))
    assert program.inputs() == [": f32[B,T]"]
    assert program.outputs() == [": f32[2*B*T]"]


def test_a_numpy_weight_is_borrowed():
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    closed = jax.make_jaxpr(lambda x: x @ jnp.asarray(weight))(f32(2, 3))
    program = import_jaxpr(closed)
    addresses = [address for text, address in program.constants() if text == "f32[3,4]"]
    assert addresses == [np.asarray(closed.consts[0]).ctypes.data]


def test_a_jax_weight_is_borrowed_and_outlives_the_array():
    values = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    weights = [jnp.array(values)]
    address = weights[0].unsafe_buffer_pointer()
    closed = jax.make_jaxpr(lambda x: x @ weights[0])(f32(2, 64))
    program = import_jaxpr(closed)
    assert ("f32[64,64]", address) in program.constants()
    weights.clear()
    del closed
    jax.clear_caches()
    gc.collect()
    del program, values  # the last owner is released without complaint


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "int4", "uint2", "complex64", "bool", "uint64", "float16"]
)
def test_weights_of_every_kind(dtype):
    with jax.enable_x64(True):
        weight = np.ones((3, 5), jnp.dtype(dtype))
        closed = jax.make_jaxpr(lambda: jnp.asarray(weight))()
        program = import_jaxpr(closed)
    short = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3fn", "int4": "i4", "uint2": "u2", "complex64": "c64",
             "bool": "bool", "uint64": "u64", "float16": "f16"}[dtype]  # fmt: skip
    assert program.outputs() == [f": {short}[3,5]"]


def test_equal_literals_are_one_constant():
    def fn(x):
        for _ in range(50):
            x = x * 2.0 + 1.0
        return x

    program = read(fn, f32(3))
    assert program.num_nodes() == 100
    assert sorted(text for text, _ in program.constants()) == ["f32[]", "f32[]"]


def test_nested_programs_become_bodies():
    def fn(x):
        y = jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)
        y = jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, y)
        _, z = jax.lax.scan(lambda c, v: (c + v, c * v), y[0], y)
        return jax.nn.relu(z)

    counts = read(fn, f32(3)).op_counts()
    assert counts["sin"] == counts["cos"] == 1
    assert {"cond", "while", "scan", "custom_jvp_call", "jit"} <= counts.keys()


def test_a_key_is_an_input_and_a_constant_key_is_wrapped():
    key = jax.random.key(0)
    program = read(lambda k: jax.random.bits(k, (4,)), key)
    assert program.inputs() == [": key[]"]
    program = read(lambda x: x + jax.random.uniform(key, (3,)), f32(3))
    assert program.op_counts()["random_wrap"] == 1


def test_another_generator_comes_as_the_program_that_jax_runs():
    program = read(lambda k: jax.random.bits(k, (4,)), jax.random.key(0, impl="rbg"))
    assert program.inputs() == [": key4[]"]
    assert program.op_counts() == {"jit": 1, "random_unwrap": 1, "rng_bit_generator": 1}


def test_keys_of_another_number_of_words_are_refused_by_name():
    three = define_prng_impl(
        key_shape=(3,),
        seed=lambda seed: jnp.zeros(3, jnp.uint32) + seed.astype(jnp.uint32),
        split=lambda key, shape: jnp.zeros((*shape, 3), jnp.uint32),
        random_bits=lambda key, width, shape: jnp.zeros(shape, jnp.uint32),
        fold_in=lambda key, data: key,
        name="three",
        tag="three",
    )
    with pytest.raises(sardonyx.Error, match="key<three>.*2 or 4 words"):
        read(lambda k: jax.random.bits(k, (4,)), jax.random.key(0, impl=three))


def test_nchw_ends_get_a_transpose():
    program = read(lambda x: x * 2, f32(2, 5, 7, 3), nchw_inputs=[0], nchw_outputs=[0])
    assert program.inputs() == [": f32[2,3,5,7]"]
    assert program.outputs() == [": f32[2,3,5,7]"]
    assert program.op_counts()["transpose"] == 2


def test_something_else_than_a_jaxpr_is_refused():
    with pytest.raises(sardonyx.Error, match="a ClosedJaxpr was expected, found list"):
        import_jaxpr([])


class Tree:
    """What a scan of JAX 0.12 and later holds in place of the numbers of its operands."""

    def __init__(self, *parts):
        self.parts = parts

    def unpack(self):
        return self.parts


def test_a_scan_says_by_numbers_or_by_a_tree_how_its_operands_split():
    def fn(w, x):
        return jax.lax.scan(lambda c, row: ((c[0] * w, c[1] + row), row.sum()), (w, x[0]), x)

    closed = jax.make_jaxpr(fn)(f32(7), f32(3, 7))
    (at,) = (i for i, e in enumerate(closed.eqns) if e.primitive.name == "scan")
    rest = {k: v for k, v in closed.eqns[at].params.items() if k not in ("num_consts", "num_carry", "ft_in", "ft_out")}
    numbers = {**rest, "num_consts": 1, "num_carry": 2}
    tree = {**rest, "ft_in": Tree([None], [None, None], [None]), "ft_out": Tree([None, None], [None])}

    def printed(params):
        eqns = [e.replace(params=params) if i == at else e for i, e in enumerate(closed.eqns)]
        return import_jaxpr(closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns))).text()

    assert "num_consts" in printed(numbers)
    assert printed(tree) == printed(numbers)
    assert scan_counts(tree) == scan_counts(numbers) == (1, 2)


def chain(n):
    def fn(x):
        for i in range(n):
            x = jnp.sin(x) + float(i)
        return x

    return jax.make_jaxpr(fn)(f32(3))


def test_time_is_linear_in_equations():
    small, large = chain(2_000), chain(20_000)

    def seconds(closed):
        best = 1e9
        for _ in range(3):
            start = time.process_time()
            import_jaxpr(closed)
            best = min(best, time.process_time() - start)
        return best

    seconds(small)
    assert seconds(large) < 40 * seconds(small)  # ten times is linear, a hundred quadratic
