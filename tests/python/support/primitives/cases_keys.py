"""Keys of JAX's other generators: their draws and moves match JAX on a CPU bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from .table import Arg, Table, full

# A table: one case per line where it fits.
# fmt: off

TABLE = Table()
add = TABLE.add
KINDS = {"rbg": 4, "unsafe_rbg": 4, "threefry4x32": 4, "philox4x32": 2}


def typed(kind, f):
    """f of a key of that kind, from an input that holds the key's data; keys among the results as their data."""
    def words(x):
        return random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    return lambda data, *rest: jax.tree.map(words, f(random.wrap_key_data(data, impl=kind), *rest))


def has(kind):
    """Skips generators that this JAX does not have."""
    try:
        random.key(0, impl=kind)
    except ValueError:
        return False
    return True


def unpartitionable(f):
    def inner(*xs):
        with jax.threefry_partitionable(False):
            return f(*xs)

    return inner


for kind, words in KINDS.items():
    if not has(kind):
        continue
    KEY, KEYS = full("u32", words), full("u32", 5, words)
    BITS = "random_bits random_wrap"

    def line(name, f, *inputs, covers, kind=kind, **options):
        add(f"{kind}: {name}", typed(kind, f), *inputs, covers=covers, **options)

    line("bits", lambda k: random.bits(k, (3, 5)), KEY, covers=BITS)
    line("bits u8", lambda k: random.bits(k, (3, 7), np.uint8), KEY, covers=BITS)
    line("bits u64", lambda k: random.bits(k, (7,), np.uint64), KEY, covers=BITS, x64=True)
    line("uniform of the batch", lambda k, x: x + random.uniform(k, x.shape), KEY, "f32[B,3]", covers=BITS)
    line("normal", lambda k: random.normal(k, (31,)), KEY, covers=BITS)
    line("randint", lambda k: random.randint(k, (31,), -100, 101), KEY, covers=BITS)
    line("permutation", lambda k: random.permutation(k, 31), KEY, covers=BITS)
    line("split", lambda k: random.split(k, 5), KEY, covers="random_split random_unwrap")
    line("split in a matrix", lambda k: random.split(k, (2, 3)), KEY, covers="random_split")
    line("fold_in", lambda k, i: random.fold_in(k, i), KEY, Arg("i32[]", 0, 99), covers="random_fold_in")
    line("split, then one of them", lambda k: random.uniform(random.split(k)[1], (7,)), KEY, covers="random_split")
    line("vmap over keys", lambda k: jax.vmap(lambda s: random.uniform(s, (3,)))(random.split(k, 5)), KEY, covers=BITS)
    line("keys of the batch are split", jax.vmap(lambda k: random.split(k, 3)), KEYS, covers="random_split")
    line("fold_in under vmap", lambda k, i: jax.vmap(random.fold_in)(k, i), KEYS, Arg("i32[5]", 0, 99), covers="random_fold_in")
    line("fold_in of many in one", lambda k, i: jax.vmap(lambda j: random.fold_in(k, j))(i), KEY, Arg("i32[5]", 0, 99), covers="random_fold_in")
    line("keys through a scan", lambda k: lax.scan(lambda c, _: (random.split(c)[0], random.uniform(c, (3,))), k, None, length=4), KEY, covers="scan random_split")
    line("keys through a while", lambda k: lax.while_loop(lambda s: s[1] < 0.9, lambda s: (random.split(s[0])[0], random.uniform(s[0])), (k, 0.0)), KEY, covers="while random_split")
    line("keys through a cond", lambda k, x: lax.cond(x > 0, lambda c: random.fold_in(c, 1), lambda c: c, k), KEY, "f32[]", covers="cond")
    line("keys moved about", lambda k: jnp.concatenate([k[::-1], k[1:3]]).reshape(7, 1).T.squeeze(), KEYS, covers="rev slice concatenate reshape transpose squeeze")
    line("keys by index", lambda k, i: k[i], KEYS, Arg("i32[3]", 0, 5), covers="gather")
    line("keys by a slice", lambda k, i: lax.dynamic_slice(k, (i,), (2,)), KEYS, Arg("i32[]", 0, 3), covers="dynamic_slice")
    line("keys put in their place", lambda k, i: k.at[i].set(k[0]), KEYS, Arg("i32[]", 0, 5), covers="scatter")
    line("keys selected", lambda k, m: jnp.where(m, k, k[0]), KEYS, "bool[5]", covers="select_n")
    line("keys broadcast", lambda k: jnp.broadcast_to(k, (3,)), KEY, covers="broadcast_in_dim")
    line("gamma", lambda k, a: random.gamma(k, a), KEY, Arg("f32[7]", 0.1, 5), covers="random_gamma")
    add(f"{kind}: a seed", lambda s, kind=kind: random.key_data(random.key(s, impl=kind)), Arg("i32[]", values=(-3,)), covers="random_seed")
    add(f"{kind}: seeds under vmap", jax.vmap(lambda s, kind=kind: random.uniform(random.key(s, impl=kind), (3,))), Arg("i32[5]", 0, 999), covers="random_seed")
    add(f"{kind}: a key that is known", lambda x, kind=kind: x + random.uniform(random.key(3, impl=kind), (7,)), "f32[7]", covers="random_bits")
    add(f"{kind}: split, unpartitionable", unpartitionable(typed(kind, lambda k: random.split(k, 3))), KEY, covers="random_split")
