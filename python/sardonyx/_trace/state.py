"""References (`jax.new_ref`): changes in place become values that enter and leave the program.

JAX's own rules, those that `jax.jit` uses before it compiles, convert the program (jax._src.state.discharge).
This module handles the model's interface: a reference that the program changes, an argument or a captured
one, is an input and also a result.
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
    captured: list = field(default_factory=list)  # the references behind the last inputs, which are not arguments
    results: list[str] = field(default_factory=list)  # the names of all results; those of changed references are last
    pairs: list[tuple] = field(default_factory=list)  # of each changed one: names of input and result, abstract value


def is_reference(x) -> bool:
    """A reference, or its abstract value."""
    return type(x).__name__ in ("Ref", "AbstractRef") and type(x).__module__.partition(".")[0] == "jax"


def abstract(shape, dtype):
    """The abstract value of a reference, for tracing."""
    import jax

    return jax.ref.AbstractRef(jax.core.ShapedArray(shape, dtype))


def array(x):
    """The current value of a reference; other values unchanged."""
    return x[...] if is_reference(x) else x


def snapshot(leaves, state) -> list:
    """The values of the model's inputs: `leaves` of the arguments and what captured references hold now."""
    return [array(x) for x in (*leaves, *state.captured)]


@contextlib.contextmanager
def restored(state):
    """Restores the values of captured references at the end."""
    before = [array(x) for x in state.captured]
    try:
        yield
    finally:
        for reference, value in zip(state.captured, before, strict=True):
            reference[...] = value


def without_references(closed, given=()):
    """(The ClosedJaxpr as a function of values, State). `given` are the references among the arguments.

    References that it captures and changes become inputs after all others. References that it only reads
    become constants with their current value. The final values of changed references follow the results, in
    the order of the inputs.
    """
    if not _has_references(closed):
        return closed, State()
    from jax.extend import core

    arguments = len(closed.jaxpr.invars)
    closed, captured = _with_captured_as_inputs(closed)
    if len({id(r) for r in (*given, *captured)}) < len(given) + len(captured):  # jax.jit refuses this, too
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
    # A reference made inside leaves an effect on all enclosing equations.
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
    except Exception as e:  # some ways of indexing, for which it has no rule
        lines = [_source.user_line(x) for x in (e, e.__cause__) if x is not None]
        raise Error(
            f"JAX cannot turn a reference into values: {type(e).__name__}: {_source.first_line(e)}",
            notes=[*(f"at {line}" for line in lines if line), "jax.jit refuses it, too"],
        ) from None


def _changed(jaxpr) -> set[int]:
    """The positions of inputs that the program writes to."""
    places = {id(v): i for i, v in enumerate(jaxpr.invars)}
    found = set()
    for effect in jaxpr.effects:
        if type(effect).__name__ not in ("WriteEffect", "AccumEffect"):
            continue
        at = effect.input if hasattr(effect, "input") else effect.input_index
        # A position also counts the constants. Newer versions of JAX name the variable itself.
        found.add(at - len(jaxpr.constvars) if isinstance(at, int) else places[id(at)])
    return found
