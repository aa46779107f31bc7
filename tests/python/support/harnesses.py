"""Judges JAX's own harnesses of its primitives, which come with the jax package: each is exported, runs in
onnxruntime at its default level, and is compared with the jitted function.

harnesses.py < names     (run by scripts/checks/harness_tests.py: a line of JSON before and after each harness)
"""

import faulthandler
import fnmatch
import functools
import json
import sys
import time
import warnings
import zlib
from pathlib import Path

import jax
import numpy as np
from judge import compare, in_onnxruntime

LISTED = Path(__file__).resolve().parents[2] / "harnesses" / "differs.txt"
SECONDS = 300  # a harness that takes longer ends its process


@functools.cache
def harnesses() -> dict:
    from jax._src.internal_test_util import test_harnesses

    return {h.fullname: h for h in test_harnesses.all_harnesses}


def listed() -> list[tuple[str, str]]:
    """(pattern of names, beginning of the outcome), in the order of the file."""
    lines = LISTED.read_text().splitlines()
    return [tuple(line.split(": ", 1)) for line in lines if line and not line.startswith("#")]


def expected(name: str) -> str:
    """How the outcome of a harness begins; "" if it is equal."""
    return next((text for pattern, text in listed() if fnmatch.fnmatchcase(name, pattern)), "")


def judged(harness) -> str:
    """ "" if the model in onnxruntime equals the jitted function, else what differs, or who refuses it."""
    import sardonyx

    fn = harness.dyn_fun
    arguments = harness.dyn_args_maker(np.random.RandomState(zlib.crc32(harness.fullname.encode())))
    try:
        with jax.default_matmul_precision("float32"):
            wanted = [plain(x) for x in jax.tree.leaves(jax.jit(fn)(*arguments))]
    except Exception as e:
        return f"JAX refuses: {told(e)}"
    try:
        model = sardonyx.to_onnx(fn, arguments)
    except sardonyx.Error as e:
        return f"refused: {e.message}"
    try:
        found = in_onnxruntime(model, [np.asarray(jax.numpy.asarray(x)) for x in arguments], optimize=True)
    except Exception as e:
        return f"onnxruntime refuses: {told(e)}"
    try:
        compare(wanted, found)
    except AssertionError as e:
        if is_choice(fn, arguments):
            return ""
        return f"differs: {e}"
    return ""


def plain(x) -> np.ndarray:
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.asarray(x)


def is_choice(fn, arguments) -> bool:
    """Whether the results are right though they differ: the vectors of a decomposition, whose signs and phases are
    free. `check=` puts those of the model in JAX's place, and checks that they decompose the operand."""
    import sardonyx
    from sardonyx._check import choices as _choices

    if not _choices.has_choices(jax.make_jaxpr(fn)(*arguments)):
        return False
    try:
        sardonyx.to_onnx(fn, arguments, check=True)
    except sardonyx.Error:
        return False
    return True


def told(e: Exception) -> str:
    return f"{type(e).__name__}: {(str(e).strip() or '-').splitlines()[0]}"[:300]


def main() -> None:
    warnings.simplefilter("ignore")
    for n, name in enumerate(sys.stdin.read().split()):
        print(json.dumps({"begins": name}), flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        start = time.perf_counter()
        try:
            text = judged(harnesses()[name])
        except Exception as e:
            text = f"fault: {told(e)}"
        seconds = round(time.perf_counter() - start, 2)
        print(json.dumps({"harness": name, "text": text, "seconds": seconds}), flush=True)
        if n % 200 == 199:
            jax.clear_caches()


if __name__ == "__main__":
    main()
