"""References (`jax.new_ref`): what a program changes in place, as values that go in and come out.

JAX's own rules do it, those that `jax.jit` uses before it compiles (jax._src.state.discharge). What is left
to do here is the border of the model: a reference that the program changes, an argument or one that it
captures, is an input and also a result.
"""

import contextlib
import inspect
from dataclasses import dataclass, field

from sardonyx import _source
from sardonyx._error import Error


@dataclass
class State:
    """The references that a program changes."""

    changed: list[int] = field(default_factory=list)  # their positions among the inputs, in the order of their results
    captured: list = field(default_factory=list)  # the references behind the last inputs, which are no arguments


def is_reference(x) -> bool:
    """A reference, or its abstract value."""
    return type(x).__name__ in ("Ref", "AbstractRef") and type(x).__module__.partition(".")[0] == "jax"


def abstract(shape, dtype):
    """The abstract value of a reference, for tracing."""
    import jax

    return jax.ref.AbstractRef(jax.core.ShapedArray(shape, dtype))


def array(x):
    """What a reference holds now; all else is itself."""
    return x[...] if is_reference(x) else x


def snapshot(leaves, state) -> list:
    """The values of the model's inputs: `leaves` of the arguments and what captured references hold now."""
    return [array(x) for x in (*leaves, *state.captured)]


@contextlib.contextmanager
def restored(state):
    """Captured references hold afterwards what they held before."""
    before = [array(x) for x in state.captured]
    try:
        yield
    finally:
        for reference, value in zip(state.captured, before, strict=True):
            reference[...] = value


def without_references(closed, given=()):
    """(the ClosedJaxpr as a function of values, State). `given` are the references among the arguments.

    References that it captures and changes are further inputs, after all others; those that it only reads are
    constants with the value that they have now. The final values of those that it changes follow the results,
    in the order of the inputs.
    """
    if not _has_references(closed):
        return closed, State()
    from jax.extend import core

    arguments = len(closed.jaxpr.invars)
    closed, captured = _with_captured_as_inputs(closed)
    if len({id(r) for r in (*given, *captured)}) < len(given) + len(captured):  # jax.jit refuses it, too
        raise Error(
            "two inputs are the same reference, or one is an argument and captured, too",
            notes=["help: make a reference for each argument: jax.new_ref(ref[...])"],
        )
    changed = _changed(closed.jaxpr)
    references = [i for i, v in enumerate(closed.jaxpr.invars) if is_reference(v.aval)]
    pure = _discharged(closed)
    jaxpr = pure.jaxpr
    results = len(closed.jaxpr.outvars)
    if len(jaxpr.outvars) != results + len(references):
        raise Error("the program freezes a reference that is not its own", notes=["help: read it with ref[...]"])
    outvars = [
        *jaxpr.outvars[:results],
        *(v for i, v in zip(references, jaxpr.outvars[results:], strict=True) if i in changed),
    ]
    kept = [i for i in range(len(jaxpr.invars)) if i < arguments or i in changed]
    constant = [i for i in range(arguments, len(jaxpr.invars)) if i not in changed]
    jaxpr = jaxpr.replace(
        constvars=[*jaxpr.constvars, *(jaxpr.invars[i] for i in constant)],
        invars=[jaxpr.invars[i] for i in kept],
        outvars=outvars,
        debug_info=no_debug(jaxpr),
    )
    pure = core.ClosedJaxpr(jaxpr, [*pure.consts, *(array(captured[i - arguments]) for i in constant)])
    left = [captured[i - arguments] for i in kept[arguments:]]
    return pure, State([n for n, i in enumerate(kept) if i in changed], left)


def no_debug(jaxpr):
    """The jaxpr's debug information for other operands and results."""
    debug = jaxpr.debug_info
    if hasattr(debug, "with_unknown_names"):
        debug = debug.with_unknown_names()
    if hasattr(debug, "_replace"):
        debug = debug._replace(result_paths=None)
    return debug


def _has_references(closed) -> bool:
    if any(is_reference(v.aval) for v in (*closed.jaxpr.invars, *closed.jaxpr.constvars)):
        return True
    # One that is made inside leaves an effect on all equations around it.
    return any(type(e).__name__ == "InternalMutableArrayEffect" for e in closed.effects)


def _with_captured_as_inputs(closed):
    """(the ClosedJaxpr with the references among its constants as last inputs, these references)."""
    from jax._src.interpreters import pxla

    return pxla._move_mutable_consts(closed)


def _discharged(closed):
    """The ClosedJaxpr with values in place of references; their final values follow the results."""
    from jax._src.state.discharge import discharge_state
    from jax.extend import core

    try:
        if "consts" in inspect.signature(discharge_state).parameters:  # before JAX 0.10
            return core.ClosedJaxpr(*discharge_state(closed.jaxpr, closed.consts))
        return discharge_state(closed)
    except Exception as e:  # some ways to index, for which it has no rule
        lines = [_source.user_line(x) for x in (e, e.__cause__) if x is not None]
        raise Error(
            f"JAX cannot turn a reference into values: {type(e).__name__}: {_source.first_line(e)}",
            notes=[*(f"at {line}" for line in lines if line), "jax.jit refuses it, too"],
        ) from None


def _changed(jaxpr) -> set[int]:
    """The positions of inputs that something is written to."""
    places = {id(v): i for i, v in enumerate(jaxpr.invars)}
    found = set()
    for effect in jaxpr.effects:
        if type(effect).__name__ not in ("WriteEffect", "AccumEffect"):
            continue
        at = effect.input if hasattr(effect, "input") else effect.input_index
        # A position counts the constants, too; newer versions of JAX name the variable itself.
        found.add(at - len(jaxpr.constvars) if isinstance(at, int) else places[id(at)])
    return found
