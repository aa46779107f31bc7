"""Exports programs of this folder and holds each to the jitted function: one line of JSON per program.

run.py MODULE [PROGRAM ...]      run by scripts/checks/library_tests.py, in the environment of the libraries
"""

import importlib
import json
import sys
import time
import traceback
import warnings

import numpy as np
from catalog import PROGRAMS


def judged(program) -> str:
    """ "" where the model in onnxruntime equals the jitted function, else what differs or why it is refused."""
    import jax
    import sardonyx
    from sardonyx._check.values import feeds_of
    from sardonyx._models.session import Session

    fn, arguments = program.make()
    model = sardonyx.to_onnx(fn, arguments)
    with jax.default_matmul_precision("float32"):
        expected = jax.tree_util.tree_leaves(jax.jit(fn)(*arguments))
    session = Session(model)
    found = session.run(feeds_of(session, jax.tree_util.tree_leaves(arguments), {}, None))
    for want, got, port in zip(expected, found, session.outputs, strict=True):
        if text := difference(plain(want), got, program.tolerance):
            return f"wrong: {port.name} {text}"
    return ""


def plain(x) -> np.ndarray:
    """A result as the model gives it."""
    import jax

    if hasattr(x, "dtype") and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    x = np.asarray(jax.numpy.asarray(x))
    return np.stack([x.real, x.imag], -1) if x.dtype.kind == "c" else x


def difference(want, got, tolerance) -> str:
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"is {got.dtype}{list(got.shape)}, JAX has {want.dtype}{list(want.shape)}"
    if want.dtype.kind not in "fV":
        return "" if np.array_equal(want, got) else f"differs in {(want != got).sum()} of {want.size} elements"
    want, got = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(want[~finite], got[~finite], equal_nan=True):
        return "has other infinities or NaN"
    scale = max(np.abs(want[finite]).max(initial=0.0), 1e-6)
    off = np.abs(want - got)[finite].max(initial=0.0) / scale
    return "" if off <= tolerance else f"differs by {off:.3g} of its largest magnitude"


def main() -> None:
    warnings.simplefilter("ignore")
    module, *names = sys.argv[1:]
    try:
        importlib.import_module(module)
    except Exception as e:
        print(json.dumps({"program": f"{module}.*", "seconds": 0, "text": f"{type(e).__name__}: {e}"}), flush=True)
        return
    for program in list(PROGRAMS.values()):
        if names and program.name not in names:
            continue
        start = time.perf_counter()
        try:
            text = judged(program)
        except Exception as e:
            import sardonyx

            if isinstance(e, sardonyx.Error):
                text = f"refused: {e}"
            else:
                traceback.print_exc(file=sys.stderr)
                text = f"{type(e).__name__}: {e}"
        seconds = round(time.perf_counter() - start, 1)
        print(
            json.dumps({"program": program.name, "library": program.library, "seconds": seconds, "text": text}),
            flush=True,
        )


if __name__ == "__main__":
    main()
