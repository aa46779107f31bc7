"""Lowerings and plugins written in Python.

`@sardonyx.lowering("primitive")` adds or overrides one lowering:

    @sardonyx.lowering("cube")
    def lower_cube(ctx, eqn):
        (x,) = (ctx.get_value_for_var(v) for v in eqn.invars)
        return ctx.builder.Mul(x, ctx.builder.Mul(x, x))

A `Plugin` may also change what tracing sees: `binding_specs()` names functions that become a primitive while
Sardonyx traces, and only in the thread that traces.
"""

import functools
import inspect
import os
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from sardonyx import _sardonyx as native
from sardonyx import _source
from sardonyx._error import Error
from sardonyx.plugins import _patches
from sardonyx.plugins._patches import AssignSpec, MonkeyPatchSpec

__all__ = [
    "AssignSpec",
    "MonkeyPatchSpec",
    "Plugin",
    "PrimitiveLeafPlugin",
    "discover",
    "load",
    "lowering",
    "register",
    "register_primitive",
    "unload",
    "unregister",
]


class Plugin:
    """One primitive: the calls that become it, its result types, and its form in ONNX.

    Subclasses set `jaxpr_primitive` (its name in a jaxpr) and define `lower(ctx, eqn)`; without it, the
    existing lowering applies. For their own primitive they define `abstract_eval(*avals, **params)`.
    `cls._PRIM` is the primitive, made on first use unless the class has one.

    `impl(*arrays, **params)`, if defined, computes the same in JAX. Rules that JAX needs and the primitive
    lacks are derived from it: evaluation, shapes, gradients, batching. Inside, patched functions are the
    originals.
    """

    jaxpr_primitive: ClassVar[str] = ""
    multiple_results: ClassVar[bool] = False
    _PRIM: ClassVar[Any] = None

    @classmethod
    def binding_specs(cls) -> list[AssignSpec | MonkeyPatchSpec]:
        return []

    def lower(self, ctx, eqn):
        raise NotImplementedError(f"{type(self).__name__} has no lower(ctx, eqn)")

    @classmethod
    def primitive(cls):
        """The JAX primitive, ready to bind."""
        if cls.__dict__.get("_PRIM") is None:
            from jax.extend.core import Primitive

            cls._PRIM = Primitive(cls.jaxpr_primitive)
            cls._PRIM.multiple_results = cls.multiple_results
        abstract_eval = getattr(cls, "abstract_eval", None)
        if (impl := getattr(cls, "impl", None)) is not None and not cls.__dict__.get("_IMPL_BOUND", False):
            _derive(cls._PRIM, impl, shapes=abstract_eval is None)
            cls._IMPL_BOUND = True
        if abstract_eval is not None and not cls.__dict__.get("_ABSTRACT_EVAL_BOUND", False):
            cls._PRIM.def_abstract_eval(_guarded(cls.__name__, abstract_eval))
            cls._ABSTRACT_EVAL_BOUND = True
        return cls._PRIM


PrimitiveLeafPlugin = Plugin

_lowerings: dict[str, Callable] = {}
_plugins: dict[str, Plugin] = {}
_libraries: dict[str, frozenset[str]] = {}  # path of a shared object -> what it lowers, in the order of loading


def lowering(primitive: str):
    """Adds a lowering for a primitive, or overrides the built-in one. Results are returned, or bound through
    `ctx`."""
    if not isinstance(primitive, str) or not primitive:
        raise Error(
            f"lowering() takes the name of a primitive, found {primitive!r}", notes=['write @sardonyx.lowering("name")']
        )

    def decorate(fn):
        with _patches.lock:
            _lowerings[primitive] = fn
        return fn

    return decorate


def register(plugin):
    """Registers a Plugin class or object. Usable as a class decorator."""
    instance = plugin() if inspect.isclass(plugin) else plugin
    if not isinstance(instance, Plugin):
        raise Error(f"a Plugin was expected, found {type(instance).__name__}")
    if not instance.jaxpr_primitive:
        raise Error(f"{type(instance).__name__} has no jaxpr_primitive")
    with _patches.lock:
        _plugins[instance.jaxpr_primitive] = instance
    return plugin


def register_primitive(jaxpr_primitive: str, **metadata):
    """Class decorator: sets `jaxpr_primitive` and `metadata`, and registers."""

    def decorate(cls):
        cls.jaxpr_primitive = jaxpr_primitive
        cls.metadata = {"jaxpr_primitive": jaxpr_primitive, **metadata}
        return register(cls)

    return decorate


def unregister(primitive: str) -> None:
    """Removes the lowering and the plugin of a primitive, if any: the built-in lowering applies again."""
    with _patches.lock:
        _lowerings.pop(primitive, None)
        _plugins.pop(primitive, None)


_discovered = False


def discover() -> None:
    """Registers the plugins that installed packages offer as entry points of the group "sardonyx.plugins".
    The first export does it, once per process.

    An entry point names a module that registers when it is imported, a Plugin class or object, a function
    without parameters that registers, or the path of a shared object. Plugins that the program itself has
    registered take precedence. An entry point that fails is skipped, with a warning.
    """
    global _discovered
    import importlib.metadata

    with _patches.lock:
        if _discovered:
            return
        _discovered = True  # before loading: the entry points may export, too
        own = dict(_lowerings), dict(_plugins), dict(_libraries)
        offered = importlib.metadata.entry_points(group="sardonyx.plugins")
        for entry in sorted(offered, key=lambda e: (e.name, e.value)):
            try:
                _register_offered(entry.load())
            except Exception as e:
                package = f" of {entry.dist.name}" if entry.dist is not None else ""
                why = (str(e).splitlines() or [""])[0]
                warnings.warn(
                    f"the plugin '{entry.name}'{package} ({entry.value}) is left out: {type(e).__name__}: {why}",
                    UserWarning,
                    stacklevel=2,
                )
        for table, before in zip((_lowerings, _plugins, _libraries), own, strict=True):
            for key, value in before.items():
                table.pop(key, None)  # the last one loaded takes precedence: the program's own
                table[key] = value


def _register_offered(value) -> None:
    if isinstance(value, (str, os.PathLike)):
        load(value)
    elif isinstance(value, Plugin) or (inspect.isclass(value) and issubclass(value, Plugin)):
        register(value)
    elif inspect.ismodule(value) or value in _lowerings.values():
        pass  # importing it has registered
    elif callable(value) and not inspect.isclass(value):
        value()
    else:
        raise Error(f"a module, a Plugin, a function or a path was expected, found {type(value).__name__}")


def load(path) -> list[str]:
    """Loads a plugin that was compiled to a shared object (`sardonyx/plugin.h`). From now on, exports use its
    lowerings before the built-in ones.

    Returns the primitives that it lowers. Lowerings in Python take precedence over it, and libraries loaded
    later over earlier ones.
    """
    path = os.path.abspath(os.fspath(path))
    primitives = native.load_plugin(path)
    with _patches.lock:
        _libraries.pop(path, None)
        _libraries[path] = frozenset(primitives)
    return primitives


def unload(path) -> None:
    """Exports no longer use the plugin's lowerings. The shared object itself stays in memory."""
    with _patches.lock:
        _libraries.pop(os.path.abspath(os.fspath(path)), None)


def _paths() -> list[str]:
    with _patches.lock:
        return list(_libraries)


def _lowered(lowerings) -> set[str]:
    """Primitives that something other than the built-in table lowers."""
    with _patches.lock:
        return set(lowerings).union(*_libraries.values())


def _guarded(name, abstract_eval):
    @functools.wraps(abstract_eval)
    def evaluate(*args, **params):
        token = _patches.evaluating.set(name)
        try:
            return abstract_eval(*args, **params)
        finally:
            _patches.evaluating.reset(token)

    return evaluate


def _derive(primitive, impl, shapes: bool) -> None:
    """Derives the rules that `primitive` lacks from a function that computes the same; also its abstract
    evaluation if `shapes`."""
    import jax
    from jax.interpreters import ad, batching, mlir

    several = primitive.multiple_results

    def plain(*args, **params):
        token = _patches.tracing.set(
            False
        )  # patched functions are the originals, among them those that bind this primitive
        try:
            return impl(*args, **params)
        finally:
            _patches.tracing.reset(token)

    def of_shapes(*avals, **params):
        out = jax.eval_shape(functools.partial(plain, **params), *avals)
        made = [jax.core.ShapedArray(x.shape, x.dtype) for x in (out if several else [out])]
        return made if several else made[0]

    def jvp(primals, tangents, **params):
        out = primitive.bind(*primals, **params)
        moving = [i for i, t in enumerate(tangents) if type(t) is not ad.Zero]

        def of_moving(*some):
            full = list(primals)
            for i, x in zip(moving, some, strict=True):
                full[i] = x
            return plain(*full, **params)

        _, moved = jax.jvp(of_moving, [primals[i] for i in moving], [tangents[i] for i in moving])

        def tangent(x, t):
            return t if jax.numpy.issubdtype(x.dtype, jax.numpy.inexact) else ad.Zero(jax.typeof(x).to_tangent_aval())

        return out, [tangent(x, t) for x, t in zip(out, moved, strict=True)] if several else tangent(out, moved)

    def batch(args, axes, **params):
        out = jax.vmap(functools.partial(plain, **params), in_axes=tuple(axes))(*args)
        return out, (0,) * len(out) if several else 0

    if "impl" not in vars(primitive):
        primitive.def_impl(plain)
        mlir.register_lowering(primitive, mlir.lower_fun(plain, multiple_results=several))
    if shapes:
        primitive.def_abstract_eval(of_shapes)
    if primitive not in ad.primitive_jvps:
        ad.primitive_jvps[primitive] = jvp
    known = (
        "primitive_batchers",
        "fancy_primitive_batchers",
        "axis_primitive_batchers",
    )  # JAX versions have one to three of them
    tables = [getattr(batching, name, None) for name in known]
    if not any(primitive in table for table in tables if hasattr(table, "__contains__")):
        batching.primitive_batchers[primitive] = batch


# ----------------------------------------------------------------------------------------------------------------------
# The interface of lowerings


class Unsupported(Error):
    """Raised by `ctx.unsupported()`; reported with all other equations that cannot be converted."""

    def __init__(self, reason: str, code: str = "unsupported", notes=()):
        super().__init__(reason, code, notes)


class Context:
    """`ctx`: the equation's operands as `ir.Value`s, a builder to write with, and ways to bind its results.

    Results are bound in one of three ways: nodes write into `get_value_for_var(outvar)`, or
    `bind_value_for_var(outvar, value)`, or the lowering returns the values. The core checks number, shapes
    and dtypes.
    """

    def __init__(self, native, eqn, origin: str):
        self._native = native
        self._eqn = eqn
        self._origin = origin
        self._builder = None
        self._bound: dict[int, Any] = {}  # by id of the var
        self._placeholders: dict[int, Any] = {}
        self._keep: list[Any] = []

    @property
    def builder(self):
        """An `ir.Builder` that appends to the graph being written."""
        if self._builder is None:
            from sardonyx import ir

            self._builder = ir.Builder(self._native.graph())
        return self._builder

    @property
    def eqn(self):
        return self._eqn

    def get_value_for_var(self, var, *, name_hint: str | None = None, prefer_np_dtype=None):
        """The value of an operand or a literal; for a result, the value to write into."""
        if id(var) in self._bound:
            return self._bound[id(var)]
        literal = hasattr(var, "val")
        if not (literal and prefer_np_dtype is not None):
            for i, operand in enumerate(self._eqn.invars):
                if operand is var:
                    return self._native.operand(i)
        if literal:
            import numpy as np

            return self.bind_const_for_var(None, np.asarray(var.val, dtype=prefer_np_dtype or var.aval.dtype))
        for i, result in enumerate(self._eqn.outvars):
            if result is var:
                if i not in self._placeholders:
                    self._placeholders[i] = self._native.placeholder(i, name_hint or "")
                return self._placeholders[i]
        raise Error(f"{self._origin}: {var} is neither an operand nor a result of '{self._eqn.primitive.name}'")

    def bind_value_for_var(self, var, value) -> None:
        """Binds `var` to `value`."""
        if id(var) in self._bound and self._bound[id(var)] is not value and self._index(var) is not None:
            raise Error(f"{self._origin}: result {self._index(var)} of '{self._eqn.primitive.name}' is bound twice")
        self._bound[id(var)] = value
        self._keep.append(var)

    def bind_const_for_var(self, var, array):
        """A constant; bound to `var` unless that is None."""
        import numpy as np

        value = self._native.constant(np.asarray(array), "")
        if var is not None and not hasattr(var, "val"):
            self.bind_value_for_var(var, value)
        return value

    def fresh_name(self, base: str) -> str:
        """A name that no value of the graph has yet."""
        return self._native.fresh_name(base)

    def cast_like(self, tensor, exemplar, name_hint: str | None = None):
        """`tensor` converted to the dtype of `exemplar`; unchanged if it has that dtype."""
        return self._native.cast_like(tensor, exemplar)

    def get_symbolic_dim_origin(self, dim):
        """(value, axis) of the input where the symbolic dimension can be read at run time, or None. `dim` may
        be a string."""
        return self._native.dim_origin(str(dim))

    def dim_as_value(self, dim):
        """A size at run time as i64[]: any expression of symbolic dimensions, or an integer."""
        return self._native.dim(str(dim))

    def set_node_attrs(self, node, attrs) -> None:
        """Sets attributes late, after the passes, which see the node as it is now. `node` is an `ir.Node` or
        one of its results.

        A node that the passes have removed or replaced gets no attributes. Results must keep their types.
        """
        from sardonyx import ir

        if isinstance(node, ir.Value):
            node = node.producer()
        if not isinstance(node, ir.Node):
            raise Error(f"{self._origin}: set_node_attrs takes an ir.Node or a value that a node makes, found {node!r}")
        self._native.late().append((node, dict(attrs), self._origin))

    def get_node_attrs(self, node) -> dict:
        """The attributes that `set_node_attrs` has recorded for a node."""
        from sardonyx import ir

        node = node.producer() if isinstance(node, ir.Value) else node
        return {k: v for target, attrs, _ in self._native.late() if target is node for k, v in attrs.items()}

    def add_node_attr_override(self, node_name: str, attrs) -> None:
        """`set_node_attrs` for whatever node has this name after the passes."""
        if not isinstance(node_name, str) or not node_name:
            raise Error(f"{self._origin}: add_node_attr_override takes the name of a node, found {node_name!r}")
        self._native.late().append((node_name, dict(attrs), self._origin))

    def add_input_for_invar(self, var, index: int):
        """A new input of the model, of the type of `var`."""
        value = self._native.add_input(self.fresh_name(f"in_{index}"), var.aval)
        self._bound[id(var)] = value
        self._keep.append(var)
        return value

    def add_outputs_from_vars(self, variables) -> None:
        """New outputs of the model."""
        for i, var in enumerate(variables):
            self._native.add_output(self.get_value_for_var(var), self.fresh_name(f"out_{i}"))

    def unsupported(self, reason: str):
        """Rejects this equation. The export continues to collect all unsupported equations, and then fails."""
        raise Unsupported(reason)

    def _index(self, var) -> int | None:
        for i, result in enumerate(self._eqn.outvars):
            if result is var:
                return i
        return None

    def _results(self, returned) -> list:
        """One value per result, whichever way they were bound."""
        name = self._eqn.primitive.name
        outvars = self._eqn.outvars
        written = {i: v for i, v in self._placeholders.items() if self._native.is_filled(v)}
        if returned is not None:
            values = list(returned) if isinstance(returned, (tuple, list)) else [returned]
            mixed = [i for i, v in enumerate(outvars) if id(v) in self._bound or i in written]
            if mixed and any(
                v is not self._bound.get(id(o), written.get(i))
                for i, (v, o) in enumerate(zip(values, outvars, strict=False))
            ):
                raise Error(
                    f"{self._origin}: result {mixed[0]} of '{name}' is bound twice: it was bound and other values were returned"
                )
            if len(values) != len(outvars):
                raise Error(f"{self._origin} returned {len(values)} values for the {len(outvars)} results of '{name}'")
            return values
        out = []
        for i, var in enumerate(outvars):
            bound = self._bound.get(id(var))
            if bound is not None and i in written and bound is not written[i]:
                raise Error(f"{self._origin}: result {i} of '{name}' is bound twice: written into and bound")
            value = bound if bound is not None else written.get(i)
            if value is None:
                raise Error(
                    f"{self._origin}: result {i} of '{name}' was left unbound",
                    notes=[
                        "return it, write into ctx.get_value_for_var(outvar), or call ctx.bind_value_for_var(outvar, value)"
                    ],
                )
            out.append(value)
        return out


def _origin(fn) -> str:
    """The name of a lowering in messages."""
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, Plugin):
        return f"plugin {type(owner).__name__}"
    return f"lowering {getattr(fn, '__qualname__', fn)}"


def _run(fn, native, eqn, origin: str) -> list:
    """Called by native code for one equation."""
    context = Context(native, eqn, origin)
    try:
        return context._results(fn(context, eqn))
    except Unsupported:
        raise
    except Error as e:
        note = f"while {origin} lowered '{eqn.primitive.name}'"
        raise Error(e.message, e.code, (*e.notes, note)) from e
    except Exception as e:
        raise _mistake(e, eqn, origin) from e


def _mistake(e: Exception, eqn, origin: str) -> Error:
    """The Error for an unexpected exception in a lowering. The cause keeps its traceback."""
    where = [f"at {line}" for line in [_source.user_line(e)] if line]
    text = f"{type(e).__name__}: {_source.first_line(e)}"
    source = _source.source_text(eqn)
    return Error(
        f"{origin} failed to lower '{eqn.primitive.name}': {text}",
        "invalid_argument",
        [*where, f"while lowering '{eqn.primitive.name}' of {_source.types_text(eqn)}{source and ', at ' + source}"],
    )


def _set_attributes(node, attrs) -> None:
    """Called by native code after the passes."""
    from sardonyx.ir._convert import convert_attributes

    for attr in convert_attributes(attrs):
        node.attributes.add(attr)


class _active:
    """Around tracing: patches are in place for this thread. Returns the lowerings by primitive."""

    def __enter__(self):
        discover()
        with _patches.lock:
            plugins = list(_plugins.values())
            table = {p.jaxpr_primitive: p.lower for p in plugins if type(p).lower is not Plugin.lower} | _lowerings
        self._within = _patches.patched(plugins) if plugins else _patches.Tracing()
        self._within.__enter__()
        return table

    def __exit__(self, *error):
        return self._within.__exit__(*error)
