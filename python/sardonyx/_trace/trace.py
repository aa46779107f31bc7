"""Tracing with `jax.make_jaxpr`, and the errors for functions that do not trace."""

import contextlib
import inspect
import re

import numpy as np

from sardonyx import _source, plugins
from sardonyx._error import Error
from sardonyx._require import warn
from sardonyx._trace import functions as _functions
from sardonyx._trace import module_paths as _module_paths
from sardonyx._trace import module_state as _module_state
from sardonyx._trace.data import sizes as _data_sizes


def x64(enabled: bool):
    """A context manager that sets jax_enable_x64 in this thread."""
    import jax

    return jax.enable_x64(enabled) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64(enabled)


def _short(e: BaseException) -> str:
    """JAX's message without its page of advice."""
    text = str(e).strip()
    text = re.split(
        r"\n\s*See https?://|\n-{5,}|\nThe problem arose|\nThis (?:BatchTracer|Tracer|DynamicJaxprTracer)", text
    )[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    text = " ".join(lines[:3])
    # The location of our own wrapper does not help the user.
    text = re.sub(r"\s*The error occurred while tracing the function .*? for \w+\.", ".", text)
    text = re.sub(r"^function \S+ at \S+ traced for \w+ returned", "it returned", text)
    text = re.sub(r"\s*This concrete value was not available in Python because .*", "", text)
    text = text.replace("..", ".").strip() or type(e).__name__
    return text if len(text) <= 400 else text[:397] + "..."


_CONCRETE = (
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TracerArrayConversionError",
    "ConcretizationTypeError",
)


def _asks_for_values(e: BaseException) -> bool:
    return any(c.__name__ in _CONCRETE for c in type(e).__mro__)


_PYTHON_NUMBERS = {
    "len": "write x.shape[0] for len(x)",
    "range": "write jax.lax.fori_loop or jax.lax.scan for a loop as long as a size",
    "float": "write jnp.float32(x.shape[0])",
    "int": "sizes are integers already: leave int() out",
}


def _advice_on_python(e: BaseException) -> str | None:
    """What to write in place of NumPy and of Python's own functions, which need numbers."""
    is_size = isinstance(e, TypeError) and "_DimExpr" in str(e)
    if not is_size and not _asks_for_values(e):
        return None
    code = _source.user_code(e)
    if m := re.search(r"\b(np|onp|numpy)\.(\w+)\(", code):
        return f"write jnp.{m[2]}: NumPy computes while the program is traced, and needs numbers"
    if not is_size:
        return None
    no_number = "a size with a name is no number while the program is traced"
    if m := re.search(r"\bmath\.(\w+)\(", code):
        return f"write jnp.{m[1]}: {no_number}"
    if m := re.search(rf"\b({'|'.join(_PYTHON_NUMBERS)})\(", code):
        return f"{_PYTHON_NUMBERS[m[1]]}: {no_number}"
    return f"{no_number}: give it one in the inputs"


def _advice_on_arguments(fn, inputs, e: BaseException) -> str | None:
    """What to give where the function wants another number of arguments."""
    if not isinstance(e, TypeError) or _source.user_line(e) is not None:
        return None
    if not re.search(r"missing \d+ required positional|takes .* positional arguments? but", str(e)):
        return None
    try:
        names = [p.name for p in inspect.signature(fn).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        return None
    return f"inputs (-i) has one entry per argument: {len(inputs.args)} given, and the arguments are {', '.join(names)}"


def _advice(e: BaseException) -> str | None:
    kind = type(e).__name__
    if advice := _advice_on_python(e):
        return advice
    if m := re.search(r"\bmin\((\d+), (\w+)\)", str(e)):  # what a slice of an array of that many rows has
        return f'state "{m[2]} <= {m[1]}" in place of {m[2]} in a shape'
    if kind == "TracerBoolConversionError":
        return "use jax.lax.cond, jnp.where or jax.lax.while_loop where a branch depends on values"
    if _asks_for_values(e):
        return "a shape or a Python number cannot depend on the values of an input"
    if kind == "NotImplementedError" and (m := re.match(r"\w+ rule for '([^']+)' not implemented", str(e))):
        if (plugin := plugins._plugins.get(m[1])) is not None:
            name = type(plugin).__name__
            return (
                f"give plugin {name} an impl(*arrays, **params) that computes the same in JAX: the rule follows from it"
            )
    if "InconclusiveDimensionOperation" in kind:
        advice = _advice_on_sizes(str(e))
        m = re.search(r"(?<![\w.])(min|max)\(", _source.user_code(e))
        return f"write jax.core.{m[1]}_dim(a, b) for {m[1]}(a, b) of sizes, or {advice}" if m else advice
    return None


def _solved(left: str, relation: str, right: str) -> tuple[str, str, str]:
    """The comparison with a name alone on its left: T <= 10 for "- T + 10 >= 0"."""
    m = re.fullmatch(r"(- )?(?:(\d+)\*)?([A-Za-z_]\w*)(?: ([+-]) (\d+))?", left)
    if not m or not re.fullmatch(r"-?\d+", right) or not (m[1] or m[2] or m[4]):
        return left, relation, right
    factor = int(m[2] or 1)
    rest = int(right) - int((m[4] or "+") + (m[5] or "0"))
    if m[1]:
        rest, relation = -rest, {"<": ">", ">": "<", "<=": ">=", ">=": "<="}[relation]
    # Of integers: n*T < r is T < ceil(r/n), n*T <= r is T <= floor(r/n).
    return m[3], relation, str(-(-rest // factor) if relation in ("<", ">=") else rest // factor)


def _advice_on_sizes(text: str) -> str:
    """The constraint that would decide the comparison."""
    if m := re.search(r"comparison '(.+?)' (<=?|>=?) '(.+?)' is inconclusive", text):
        left, relation, right = _solved(*m.groups())
        least, step = ("<=", 1) if relation in (">", "<=") else (">=", -1)
        beyond = str(int(right) + step) if re.fullmatch(r"-?\d+", right) else f"{right} {'+' if step > 0 else '-'} 1"
        other = f"{left} {'>=' if step > 0 else '<='} {beyond}"
        return f'state what holds, "{left} {least} {right}" or "{other}", in place of {left} in a shape, or give the dimension a number'
    if m := re.search(r"Symbolic dimension '(.+?)' used in a context that requires a constant", text):
        return f"JAX wants a number here: give {m[1]} one in the inputs"
    return 'state what holds of the dimension, as in "B >= 2", or give it a number'


def trace(fn, inputs):
    """Returns (ClosedJaxpr, result shapes). Moves `inputs.kwargs` that must be known in Python to
    `inputs.baked`.

    If JAX refuses because a size depends on data, traces once more with replacements for the functions that
    return such sizes. `inputs.data_sizes` then has their symbols.
    """
    with _module_state.kept(fn, inputs.args, inputs.baked) as modules:
        traced = _traced(fn, inputs, modules)
    if modules.lost:
        lost = ", ".join(modules.lost[:4]) + (f" and {len(modules.lost) - 4} more" if len(modules.lost) > 4 else "")
        raise Error(
            f"{_source.callable_name(fn)} changes {lost} as it runs, and the model would drop the new values",
            "unsupported",
            [
                "help: make the state an input and a result: graphdef, weights, state = nnx.split(module, nnx.Param, ...), then "
                "to_onnx(lambda state, x: ((m := nnx.merge(graphdef, weights, state))(x), nnx.state(m, nnx.Not(nnx.Param))), [state, x])"
            ],
        )
    return traced


def _traced(fn, inputs, modules):
    import jax

    leaves, tree = jax.tree_util.tree_flatten(inputs.args)

    def attempt(fn):
        bound = dict(inputs.baked)

        def call(leaves, kwargs):
            args = jax.tree_util.tree_unflatten(tree, leaves)
            with _module_paths.scope(fn):
                return fn(*inputs.with_static(args), **bound, **inputs.with_static(kwargs))

        call.__name__ = getattr(fn, "__name__", None) or type(fn).__name__
        with _module_paths.active():
            return modules.trace(call, leaves, inputs.kwargs)

    def second(e):
        """Traces with symbols for sizes that depend on data. If that fails, too, raises the first error: the
        second names symbols that the user never wrote."""
        from sardonyx._trace.data import shapes as _data_shapes

        with _data_shapes.active(_leaves(inputs)) as sizes:
            try:
                traced = attempt(_data_shapes.patched(fn))
                sizes.check(traced[0])
            except Error as error:
                line = _source.user_line(error)
                raise Error(error.message, error.code, [*([f"at {line}"] if line else []), *error.notes]) from None
            except Exception as later:
                further = sizes.origins or not _needs_values(later)
                raise failure(fn, inputs, e, later if further else None, sizes.origins) from None
        inputs.data_sizes = dict(sizes.origins)
        return traced

    def tried(fn):
        """(traced, None), or (None, JAX's error)."""
        try:
            return attempt(fn), None
        except Error:
            raise
        except Exception as e:
            return None, e

    traced, first = tried(fn)
    if first is None:
        return traced
    if not _needs_values(first):
        raise failure(fn, inputs, first) from None
    flags = [k for k in inputs.kwargs if isinstance(inputs.values[k], (bool, np.bool_, int, float))]
    if not flags:
        return second(first)
    if type(first).__name__ != "TracerBoolConversionError":
        with contextlib.suppress(Error):
            return second(first)
    # A flag such as `deterministic` that the function's own Python branches on cannot be an input. JAX does
    # not say which one it was: booleans go first, then integers, then all, so that a scale beside a flag
    # stays an input.
    baked = []
    for kinds in ((bool, np.bool_), int, float):
        group = [k for k in flags if k not in baked and isinstance(inputs.values[k], kinds)]
        if not group:
            continue
        inputs.bake(group)
        baked += group
        traced, error = tried(fn)
        if error is None:
            break
        if not _needs_values(error):
            raise failure(fn, inputs, error) from None
        if type(error).__name__ != "TracerBoolConversionError":
            with contextlib.suppress(Error):
                traced = second(error)
                break
    else:
        traced = second(error)
    values = ", ".join(f"{k}={inputs.values[k]!r}" for k in flags if k in baked)
    warn_user(f"{_source.callable_name(fn)} branches on its parameters in Python: {values} is baked into the model")
    return traced


# In newer and in older JAX.
_STATIC_SLICES = ("Slice entries must be static integers", "Array slice indices must have static start/stop/step")


def _needs_values(e: BaseException) -> bool:
    text = str(e)
    if isinstance(e, TypeError) and text.startswith("Shapes must be 1D sequences of concrete values"):  # jnp.zeros(n)
        return True
    if isinstance(e, (TypeError, ValueError)) and "hashable" in text and "Tracer" in text:  # jnp.tile(x, n)
        return True
    if isinstance(e, IndexError) and text.startswith(_STATIC_SLICES):  # x[:n]
        return True
    if isinstance(e, NotImplementedError) and text.startswith("associative scan over axis of non-constant size"):
        return True
    if _wants_number(e):
        return True
    return _asks_for_values(e) or any(c.__name__ == "NonConcreteBooleanIndexError" for c in type(e).__mro__)


def _wants_number(e: BaseException) -> bool:
    """Whether JAX requires a number where the size is symbolic, as in jnp.hanning(x.shape[0])."""
    text = str(e)
    if isinstance(e, TypeError) and "'_DimExpr'" in text:
        return True
    return type(e).__name__ == "InconclusiveDimensionOperation" and (
        "requires a constant" in text or "comparison" in text
    )


def failure(fn, inputs, e: BaseException, later: BaseException | None = None, data_sizes=()) -> Error:
    """The error for a failed trace, `e`. `later` is the error of the second trace, with symbols for sizes
    that depend on data."""
    notes = []
    if line := _source.user_line(e):
        notes.append(f"at {line}")
    shown = [f"{n}: {_spec_text(a)}" for n, a in zip(inputs.names, _leaves(inputs), strict=False)]
    if shown:
        notes.append("traced with " + ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else ""))
    last = later or e
    if later is not None:
        where = f" at {line}" if (line := _source.user_line(later)) else ""
        notes.append(
            f"traced again with names for such sizes, it stops{where}: {type(later).__name__}: {_short(later)}"
        )
    named = [f"{n} ({data_sizes[n]})" for n in data_sizes if re.search(rf"\b{n}\b", str(last))]
    depend = f"{' and '.join(named)} {'depends' if len(named) == 1 else 'depend'} on data"
    if named and "InconclusiveDimensionOperation" in type(last).__name__:
        notes.append(f"help: {depend} and may be 0: use jnp.maximum, jnp.where or jax.lax.cond")
    elif named:
        notes.append(depend)
    elif _needs_values(e) and (numbers := _functions.advice_on_numbers()):
        notes.append(f"help: {numbers}")
    elif advice := _advice_on_arguments(fn, inputs, e) or _advice(last):
        notes.append(f"help: {advice}")
    elif inputs.branches:
        branch = next(iter(inputs.branches))
        notes.append(f"help: {branch} is not known to hold, and JAX takes it as false: {branch.advice()}")
    return Error(
        f"{_source.callable_name(fn)} does not trace: {type(e).__name__}: {_short(e)}", "invalid_argument", notes
    )


def prints(closed) -> str:
    """Where the program prints or calls back for debugging: "jax.debug.print at model.py:12 (loss) and 2
    more"; usually ""."""
    if not any("DebugEffect" in type(e).__name__ for e in closed.effects):
        return ""
    found, todo = [], [closed.jaxpr]
    while todo:
        for eqn in todo.pop().eqns:
            if eqn.primitive.name in ("debug_print", "debug_callback"):
                where = _source.source_text(eqn)
                found.append(f"jax.debug.{eqn.primitive.name[6:]}{where and ' at ' + where}")
            todo.extend(_data_sizes._bodies(eqn))
    return found[0] + (f" and {len(found) - 1} more" if len(found) > 1 else "") if found else ""


def _leaves(inputs):
    import jax

    return jax.tree_util.tree_leaves((inputs.args, inputs.kwargs))


def _spec_text(a) -> str:
    return f"{a.dtype}[{','.join(map(str, a.shape))}]"


def warn_user(text: str) -> None:
    warn(text)
