"""Saves Flax NNX's objects before a trace and restores them after it.

A trace runs the user's function on the user's own modules. Unless a module was made within the trace, NNX
refuses to change its variables (statistics, counts of random keys) or to pass it to nnx.jit or nnx.grad, and
may have emptied it by then. So the objects that the function can reach are saved first, marked as the trace's
own where NNX checks that, and restored however the trace ends.
"""

import contextlib
import gc
import sys
import types

_MOST_OBJECTS = 1_000_000
# The globals of these packages' modules and the attributes of their classes hold none of the user's objects.
_FOREIGN = {*sys.stdlib_module_names, "flax", "jax", "jaxlib", "ml_dtypes", "numpy", "optax", "sardonyx", "scipy"}


@contextlib.contextmanager
def kept(*roots):
    """Restores NNX's objects that `roots` reach when this block ends."""
    state = ModuleState(*roots)
    try:
        yield state
    finally:
        state.restore()


class ModuleState:
    """NNX's modules and variables that `roots` reach, and their contents."""

    def __init__(self, *roots):
        self._objects = [_Saved(x) for x in _nnx_objects(roots)]
        self.lost: list[str] = []  # variables whose new values the last trace computed, and nothing returns

    def trace(self, call, *args):
        """`jax.make_jaxpr(call, return_shape=True)(*args)`. Restores the objects afterwards."""
        import jax

        def inside(*args):
            for saved in self._objects:
                saved.belong_to_this_trace()
            results = call(*args)
            self.lost = self._changed()
            return results

        inside.__name__ = getattr(call, "__name__", "call")
        try:
            try:
                traced = jax.make_jaxpr(call, return_shape=True)(*args)
                self.lost = self._changed()
                return traced
            except Exception as e:
                if not self._objects or not _is_of_another_trace(e):
                    raise
            self.restore()
            # Only now: until they are put back, other threads cannot change these objects.
            return jax.make_jaxpr(inside, return_shape=True)(*args)
        finally:
            self.restore()

    def _changed(self) -> list[str]:
        """The names of the variables that hold other values than before. Counts of random keys, statistics of batches
        and values that are only looked at (sow) may change: a model for inference has no use for them. Weights may,
        too: a transformed function assigns them as they were."""
        nnx = sys.modules.get("flax.nnx")
        if nnx is None:
            return []
        passing = tuple(
            getattr(nnx, name) for name in ("Param", "RngState", "BatchStat", "Intermediate") if hasattr(nnx, name)
        )
        changed = {
            id(saved.object)
            for saved in self._objects
            if isinstance(saved.object, nnx.Variable) and not isinstance(saved.object, passing) and saved.is_changed()
        }
        names = {}
        for saved in self._objects:
            for name, value in (saved.attributes or {}).items():
                if id(value) in changed:
                    names.setdefault(id(value), f"{type(saved.object).__name__}.{name}")
        return [names.get(x, "a variable") for x in changed]

    def restore(self):
        for saved in self._objects:
            saved.restore()


class _Saved:
    """An object, its attributes, and those of NNX's record of the trace that made it."""

    def __init__(self, x):
        self.object = x
        self.attributes = None
        with contextlib.suppress(
            AttributeError
        ):  # a Variable has only slots and forwards other attributes to its value
            self.attributes = dict(object.__getattribute__(x, "__dict__"))
        self.slots = _slots(x)
        note = (self.attributes or {}).get("_pytree__state")
        self.note = None if note is None else (note, _slots(note))
        self.containers = []
        todo = [value for _, value in self.slots]
        while todo:  # a variable's metadata, and its value if that is a tree of arrays
            value = todo.pop()
            if type(value) in (dict, list):
                self.containers.append((value, value.copy()))
                todo.extend(value.values() if type(value) is dict else value)

    def belong_to_this_trace(self):
        from flax.nnx import tracers

        x = self.object if self.note is None else self.note[0]
        object.__setattr__(x, "_trace_state", tracers.TraceState())

    def is_changed(self) -> bool:
        """Whether a variable has a value that the trace computed."""
        import jax

        pairs = zip(_slots(self.object), self.slots, strict=True)
        return any(
            isinstance(now, jax.core.Tracer) and now is not before and _passed_through(now) is not before
            for (_, now), (_, before) in pairs
        )

    def restore(self):
        if self.attributes is not None:
            now = vars(self.object)
            if list(now) != list(self.attributes) or any(now[k] is not v for k, v in self.attributes.items()):
                now.clear()
                now.update(self.attributes)
        _set_slots(self.object, self.slots)
        if self.note is not None:
            _set_slots(*self.note)
        for container, before in self.containers:
            container.clear()
            (container.update if type(container) is dict else container.extend)(before)


def _passed_through(tracer):
    """The value that calls of jitted functions return as they got it: nnx.jit assigns each variable anew."""
    with contextlib.suppress(AttributeError, KeyError, StopIteration):  # parts of JAX that may change
        while (call := tracer.parent) is not None:
            place = next(i for i, v in enumerate(call.outvars) if v is tracer.val)
            body = call.params["jaxpr"].jaxpr
            place = next(i for i, v in enumerate(body.invars) if v is body.outvars[place])
            tracer = call.in_tracers[place]
        return tracer.full_lower()
    return tracer


def _slots(x) -> list[tuple]:
    names = [name for cls in type(x).__mro__ for name in vars(cls).get("__slots__", ())]
    found = []
    for name in names:
        with contextlib.suppress(AttributeError):
            found.append((name, object.__getattribute__(x, name)))
    return [(name, value) for name, value in found if name not in ("__dict__", "__weakref__")]


def _set_slots(x, slots) -> None:
    for name, value in slots:
        if object.__getattribute__(x, name) is not value:
            object.__setattr__(x, name, value)


def _is_of_another_trace(e: BaseException) -> bool:
    return type(e).__name__ == "TraceContextError" or "different trace level" in str(e)


def _nnx_objects(roots) -> list:
    """Those that can be reached from `roots`: arguments of partials, closures, globals that functions name,
    attributes, containers."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None:
        return []
    kinds = (nnx.Pytree if hasattr(nnx, "Pytree") else nnx.Object, nnx.Variable)
    seen, found, todo = {}, [], list(roots)
    while todo and len(seen) < _MOST_OBJECTS:
        x = todo.pop()
        if id(x) in seen or not gc.is_tracked(x):
            continue
        seen[id(x)] = x
        if isinstance(x, kinds):
            found.append(x)
        todo.extend(_parts(x))
    return found


def _parts(x) -> list:
    if isinstance(x, types.FunctionType):
        return _parts_of_function(x)
    if isinstance(x, types.ModuleType | types.FrameType):
        return []
    if isinstance(x, type):
        return [] if _is_foreign(x.__module__) else list(vars(x).values())
    if str(type(x).__module__).partition(".")[0] not in ("jax", "jaxlib"):
        return gc.get_referents(x)
    # Transformed functions; not arrays, whose devices lead to everything.
    return [*gc.get_referents(x), getattr(x, "__wrapped__", None)] if callable(x) else []


def _parts_of_function(f) -> list:
    parts = [f.__defaults__, f.__kwdefaults__, f.__dict__, *(f.__closure__ or ())]
    if _is_foreign(f.__globals__.get("__name__")):
        return parts
    names, codes = set(), [f.__code__]
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes.extend(c for c in code.co_consts if isinstance(c, types.CodeType))
    spaces = [f.__globals__]
    for space in spaces:
        for value in (space[name] for name in names if name in space):
            if not isinstance(value, types.ModuleType):
                parts.append(value)
            elif not _is_foreign(value.__name__) and not any(vars(value) is s for s in spaces):
                spaces.append(vars(value))
    return parts


def _is_foreign(module) -> bool:
    return not isinstance(module, str) or (module.partition(".")[0] in _FOREIGN and module != "__main__")
