"""jax.random: the key is an input, and bits, keys, integers and uniforms are JAX's own to the last bit."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.extend.random import threefry_2x32

from .table import DTYPES, Arg, Table, full

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()
add = TABLE.add
KEY = full("u32", 2)


def typed(f):
    """f of a new-style key, from an input that holds the key's data."""
    return lambda data, *rest: f(random.wrap_key_data(data), *rest)



def unpartitionable(f):
    def inner(*xs):
        with jax.threefry_partitionable(False):
            return f(*xs)

    return inner


BITS = "random_bits random_wrap"
add("bits u32", lambda k: random.bits(k, (7,)), KEY, covers=BITS)
add("bits of an odd count", lambda k: random.bits(k, (3, 5)), KEY, covers=BITS)
add("bits of one", lambda k: random.bits(k), KEY, covers=BITS)
add("bits u16", lambda k: random.bits(k, (7,), np.uint16), KEY, covers=BITS)
add("bits u8", lambda k: random.bits(k, (3, 7), np.uint8), KEY, covers=BITS)
add("bits u64", lambda k: random.bits(k, (7,), np.uint64), KEY, covers=BITS, x64=True)
add("threefry_2x32", threefry_2x32, KEY, full("u32", 7), covers="threefry2x32")
add("threefry_2x32 of the batch", threefry_2x32, KEY, full("u32", "2*B"), covers="threefry2x32")
add("a key for each of the batch", lambda s: jax.vmap(lambda v: random.uniform(random.fold_in(random.PRNGKey(v), 3), (2,)))(s), Arg("i32[B]", 0, 99), covers="random_seed random_fold_in random_bits")
add("keys of the batch are split", lambda k: jax.vmap(lambda v: random.split(v, 3))(k), full("u32", "B", 2), covers="random_split random_wrap random_unwrap")
add("split", lambda k: random.split(k), KEY, covers="random_split random_unwrap")
add("split in five", lambda k: random.split(k, 5), KEY, covers="random_split")
add("split in a matrix", lambda k: random.split(k, (2, 3)), KEY, covers="random_split")
add("fold_in", lambda k, i: random.fold_in(k, i), KEY, Arg("i32[]", values=(7,)), covers="random_fold_in")
add("seed", lambda s: random.PRNGKey(s), Arg("i32[]", values=(42,)), covers="random_seed random_unwrap")
add("seed of a negative number", lambda s: random.PRNGKey(s), Arg("i32[]", values=(-3,)), covers="random_seed")
add("a fixed seed", lambda x: x + random.uniform(random.key(3), (7,)), "f32[7]", covers="random_bits")
add("new-style keys", typed(lambda k: random.key_data(random.split(k, 3))), KEY, covers="random_wrap random_split random_unwrap")
add("uniform", lambda k: random.uniform(k, (3, 7)), KEY, covers=BITS + " shift_right_logical bitcast_convert_type")
add("uniform in bounds", lambda k: random.uniform(k, (31,), minval=-2, maxval=5), KEY, covers=BITS)
add("uniform f16", lambda k: random.uniform(k, (31,), np.float16), KEY, covers=BITS)
add("uniform f64", lambda k: random.uniform(k, (31,), np.float64), KEY, covers=BITS, x64=True)
add("normal", lambda k: random.normal(k, (3, 7)), KEY, covers=BITS + " erf_inv")
add("normal of an odd count", lambda k: random.normal(k, (31,)), KEY, covers=BITS)
add("normal from new-style keys", typed(lambda k: random.normal(k, (31,))), KEY, covers=BITS)
add("randint", lambda k: random.randint(k, (31,), 0, 10), KEY, covers=BITS + " rem")
add("randint of both signs", lambda k: random.randint(k, (31,), -100, 101), KEY, covers=BITS)
add("randint u8", lambda k: random.randint(k, (31,), 3, 200, np.uint8), KEY, covers=BITS)
add("bernoulli", lambda k: random.bernoulli(k, 0.3, (31,)), KEY, covers=BITS + " lt")
add("permutation of a count", lambda k: random.permutation(k, 31), KEY, covers=BITS + " sort")
add("permutation of rows", lambda k, x: random.permutation(k, x), KEY, "f32[7,3]", covers=BITS + " sort gather")
add("choice", lambda k, x: random.choice(k, x, (5,)), KEY, "f32[7]", covers=BITS)
add("choice without replacement", lambda k, x: random.choice(k, x, (5,), replace=False), KEY, "f32[7]", covers=BITS)
add("categorical", lambda k, x: random.categorical(k, x), KEY, "f32[5,7]", covers=BITS + " argmax")
add("gumbel", lambda k: random.gumbel(k, (31,)), KEY, covers=BITS + " log")
add("exponential", lambda k: random.exponential(k, (31,)), KEY, covers=BITS)
add("laplace", lambda k: random.laplace(k, (31,)), KEY, covers=BITS)
add("truncated_normal", lambda k: random.truncated_normal(k, -1.0, 2.0, (31,)), KEY, covers=BITS + " erf_inv")
add("cauchy", lambda k: random.cauchy(k, (31,)), KEY, covers=BITS + " tan",
    tolerance=1e-4, because="tan near its poles magnifies an ulp of its argument")
add("dropout", lambda k, x: jnp.where(random.bernoulli(k, 0.8, x.shape), x / 0.8, 0), KEY, "f32[7,31]", covers=BITS)
add("keys through a scan", lambda k: jax.lax.scan(lambda c, _: (random.split(c)[0], random.uniform(c, (3,))), k, None, length=4), KEY,
    covers="scan random_split")
add("new-style keys through a scan", typed(lambda k: jax.lax.scan(lambda c, _: (random.split(c)[0], random.uniform(c, (3,))), k, None, length=4)[1]), KEY,
    covers="scan random_split")
add("keys through a while", lambda k: jax.lax.while_loop(lambda s: s[1] < 0.9, lambda s: (random.split(s[0])[0], random.uniform(s[0])), (k, 0.0)), KEY,
    covers="while random_split")
add("vmap over keys", lambda k: jax.vmap(lambda s: random.uniform(s, (3,)))(random.split(k, 5)), KEY, covers=BITS)
add("vmap over seeds", jax.vmap(lambda s: random.uniform(random.key(s), (3,))), Arg("i32[5]", 0, 999), covers="random_seed")
add("uniform of the batch", lambda k, x: x + random.uniform(k, x.shape), KEY, "f32[B,3]", covers=BITS)
add("fold_in of a step, then normal", lambda k, i: random.normal(random.fold_in(k, i), (5,)), KEY, Arg("i32[]", 0, 99), covers="random_fold_in erf_inv")

for algorithm in (lax.RandomAlgorithm.RNG_DEFAULT, lax.RandomAlgorithm.RNG_PHILOX, lax.RandomAlgorithm.RNG_THREE_FRY):
    name = str(algorithm).removeprefix("RNG_").lower()
    for dtype in ("u8", "u16", "u32"):
        for shape in ((7,), (3, 5), (3, 4), ()):
            add(f"rng_bit_generator {name} {dtype} {shape}", lambda k, s=shape, d=DTYPES[dtype], a=algorithm: lax.rng_bit_generator(k, s, d, a),
                full("u32", 4), covers="rng_bit_generator")
    add(f"rng_bit_generator {name} u64", lambda k, a=algorithm: lax.rng_bit_generator(k, (3, 5), np.uint64, a), full("u64", 2), covers="rng_bit_generator", x64=True)
add("rng_bit_generator carries", lambda k: lax.rng_bit_generator(k, (13,)), Arg("u32[4]", values=(1, 2, 0xFFFFFFFE, 0xFFFFFFFF)), covers="rng_bit_generator")
add("rng_uniform stays in its bounds", lambda a, b: (lambda u: (u >= a) & (u < b))(lax.rng_uniform(a, b, (97,))), Arg("f32[]", -3, -2), Arg("f32[]", 4, 5), covers="rng_uniform")

ALPHA = Arg("f32[B,7]", 0.1, 5)
add("gamma", lambda k, a: random.gamma(k, a), KEY, ALPHA, covers="random_gamma")
add("gamma of one", lambda k, a: random.gamma(k, a), KEY, Arg("f32[]", 0.5, 2), covers="random_gamma")
add("gamma in logarithms", lambda k, a: random.loggamma(k, a), KEY, ALPHA, covers="random_gamma")
add("gamma f64", lambda k, a: random.gamma(k, a, dtype=np.float64), KEY, Arg("f64[31]", 0.1, 5), covers="random_gamma", x64=True)
add("gamma by unpartitionable bits", unpartitionable(lambda k, a: random.gamma(k, a)), KEY, Arg("f32[31]", 0.1, 5), covers="random_gamma")
add("gamma f64 by unpartitionable bits", unpartitionable(lambda k, a: random.gamma(k, a, dtype=np.float64)), KEY, Arg("f64[31]", 0.1, 5), covers="random_gamma", x64=True)
add("gamma under vmap", lambda k, a: jax.vmap(random.gamma)(random.split(k, 5), a), KEY, Arg("f32[5,3]", 0.1, 5), covers="random_gamma")
add("beta", lambda k: random.beta(k, 2.0, 0.5, (31,)), KEY, covers="random_gamma")
add("dirichlet", lambda k: random.dirichlet(k, jnp.array([0.5, 2.0, 1.0]), (7,)), KEY, covers="random_gamma")
add("student's t", lambda k: random.t(k, 3.0, (31,)), KEY, covers="random_gamma")
for dtype in ("f16", "bf16"):
    for wrap in (lambda f: f, unpartitionable):
        add(f"gamma {dtype}{'' if wrap is not unpartitionable else ' unpartitionable'}", wrap(lambda k, a: random.gamma(k, a)), KEY, Arg(f"{dtype}[211]", 0.2, 6), covers="random_gamma")
        add(f"loggamma {dtype}{'' if wrap is not unpartitionable else ' unpartitionable'}", wrap(lambda k, a: random.loggamma(k, a)), KEY, Arg(f"{dtype}[31]", 0.2, 6), covers="random_gamma")
for dtype in ("u8", "u16", "u32", "u64"):
    for shape in ("B,5", "3,B,T", "B,2", "T"):
        add(f"threefry rng_bit_generator {dtype} [{shape}]",
            lambda k, x, d=DTYPES[dtype]: lax.rng_bit_generator(k, x.shape, d, lax.RandomAlgorithm.RNG_THREE_FRY),
            full("u32", 4), f"f32[{shape}]", covers="rng_bit_generator", x64=dtype == "u64")
