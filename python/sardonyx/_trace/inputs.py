"""Converts the `inputs` argument into abstract values for tracing, and names."""

import ast
import functools
import inspect
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sardonyx._error import Error
from sardonyx._source import first_line
from sardonyx._trace import state as _state

_DTYPE_WORDS = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "i4": "int4", "i2": "int2",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "u4": "uint4", "u2": "uint2",
    "bool": "bool", "c64": "complex64", "c128": "complex128",
    "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu", "f4e2m1": "float4_e2m1fn",
    "key": "key",
}  # fmt: skip
_TEXT_SPEC = re.compile(r"\s*(?:(?P<name>[A-Za-z_][\w.]*)\s*[=:]\s*)?(?P<dtype>[a-z]\w*)?\s*\[(?P<dims>[^\]]*)\]\s*")
_BARE_SPEC = re.compile(r"\s*(?P<name>[A-Za-z_][\w.]*)\s*:(?P<dims>[^\[\]:]+)")  # x:1,3
_PLAIN_SPEC = re.compile(r"[\w\s+*/%()<>=-]+(?:,[\w\s+*/%()<>=-]+)+,?")  # B,3
_CONSTRAINT = re.compile(r"(.+?)\s*(>=|<=|==)\s*(.+)")


@dataclass
class Inputs:
    """Arguments for tracing, and the origin of each of their leaves."""

    args: tuple  # pytrees of ShapeDtypeStruct
    kwargs: dict[str, Any]  # from input_params: pytrees of ShapeDtypeStruct
    baked: dict[str, Any]  # input_params that stay Python values
    names: list[str] = field(default_factory=list)  # of all leaves, in the order of the jaxpr's invars
    positional: int = 0  # how many leaves belong to `args`
    shapes: list[tuple] = field(default_factory=list)  # of each leaf
    values: dict[str, Any] = field(default_factory=dict)  # input_params as they were given
    constraints: list[str] = field(default_factory=list)  # "B >= 2", as written in shapes or stated by a scope
    data_sizes: dict[str, str] = field(default_factory=dict)  # symbols that depend on data, and where from
    branches: dict = field(default_factory=dict)  # comparisons of sizes that were taken as false
    references: list = field(default_factory=list)  # among the inputs, as they were given
    state: _state.State = field(default_factory=_state.State)  # the references that the program changes

    def with_static(self, args: Any) -> Any:
        """`args` or `kwargs` with their functions and other Python values put back."""
        import jax

        static = _static_class()
        return jax.tree_util.tree_map(
            lambda x: x.value if isinstance(x, static) else x, args, is_leaf=lambda x: isinstance(x, static)
        )

    def bake(self, keys) -> None:
        """Makes these keyword arguments Python values: they are not inputs of the model any more."""
        for key in keys:
            del self.kwargs[key]
            self.baked[key] = self.values[key]
            i = self.positional + self.names[self.positional :].index(key)
            del self.names[i], self.shapes[i]


def parse_text(text: str, what: str = "input") -> tuple[str | None, tuple, str | None]:
    """`"x=f32[B,3]"` as (name, shape, dtype); name and dtype may be None. `what` is its name in errors."""
    match = _TEXT_SPEC.fullmatch(text)
    bare = _BARE_SPEC.fullmatch(text)
    if bare and bare["dims"].strip() not in _DTYPE_WORDS:
        return bare["name"], _dims(bare["dims"]), None
    if not match and _PLAIN_SPEC.fullmatch(text) and not set(_split_dims(text)) & _DTYPE_WORDS.keys():
        return None, _dims(text), None
    if not match:
        raise Error(
            f'{what} "{text}" is not understood',
            notes=['expected a dtype and a shape, as in "f32[B,224,224,3]" or "x:B,3": inside a pytree, too'],
        )
    word = match["dtype"]
    dtype = None
    if word is not None:
        dtype = _DTYPE_WORDS.get(word, word)
        if dtype not in _DTYPE_WORDS.values():
            raise Error(
                f"dtype '{word}' of {what} \"{text}\" is not known", notes=[f"known dtypes: {', '.join(_DTYPE_WORDS)}"]
            )
    return match["name"], _dims(match["dims"]), dtype


def _dims(text: str) -> tuple:
    return tuple(int(part) if re.fullmatch(r"\d+", part) else part for part in _split_dims(text))


def _split_dims(text: str) -> list[str]:
    """Splits at commas outside parentheses: `max(B, 2), 3` has two parts."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "(") - (c in ")")
        if c == "," and depth == 0:
            parts.append(text[last:i])
            last = i + 1
    parts.append(text[last:])
    return [p.strip() for p in parts if p.strip()]


def _is_dim(d: Any) -> bool:
    if isinstance(d, str):
        return "[" not in d
    return isinstance(d, (int, np.integer)) and not isinstance(d, bool) or type(d).__name__ == "_DimExpr"


def _is_sequence(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and not hasattr(x, "_fields")


def is_shape(x: Any) -> bool:
    return _is_sequence(x) and all(map(_is_dim, x))


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def is_leaf(item: Any):
    """Whether something inside `item`, an entry of `inputs`, is one input: the `is_leaf` that
    flattens the entry.

    Inside a pytree, a sequence of sizes with a name among them is a shape. One of integers is a shape, too, unless
    the entry has arrays or numbers elsewhere: an optimizer's state holds integers as they are.
    """
    named_only = _holds_values(item)

    def is_one(x: Any) -> bool:
        if x is item:
            return x is None or isinstance(x, str) or is_shape(x) or _is_array(x)
        return isinstance(x, str) or _is_array(x) or is_shape_inside(x, named_only)

    return is_one


def is_shape_inside(x: Any, named_only: bool) -> bool:
    return (
        _is_sequence(x) and bool(x) and is_shape(x) and not any(map(_is_text, x)) and (not named_only or _has_name(x))
    )


def _is_text(d: Any) -> bool:
    """Whether it describes an input of its own, such as "x:B,3"."""
    return isinstance(d, str) and (":" in d or "[" in d)


def _has_name(x: Sequence) -> bool:
    return any(_is_dim(d) and not isinstance(d, (int, np.integer)) for d in x) and not any(map(_is_text, x))


def _is_meant_as_shape(x: Any) -> bool:
    return _is_sequence(x) and (_has_name(x) or is_shape(x))


def _holds_values(item: Any) -> bool:
    """Whether a pytree has arrays, or numbers that are no sizes: it is an example, and no description."""
    import jax

    leaves = jax.tree_util.tree_leaves(item, is_leaf=lambda x: _is_array(x) or _is_meant_as_shape(x))
    return any(
        (_is_array(x) and not isinstance(x, jax.ShapeDtypeStruct)) or isinstance(x, (bool, int, float, complex))
        for x in leaves
    )


def _refuse_misspelled(inputs: Any) -> None:
    if isinstance(inputs, (str, Mapping)) or not isinstance(inputs, Sequence):
        raise Error(
            f"inputs must be a list with one entry per argument, found {type(inputs).__name__}",
            notes=['help: write inputs=[("B", 224, 224, 3)], one shape, array or pytree per argument'],
        )
    if isinstance(inputs, tuple) and inputs and is_shape(inputs):
        raise Error(
            f"inputs={inputs!r} is one shape, and a list with one entry per argument was expected",
            notes=[f"help: write inputs=[{inputs!r}]"],
        )
    for i, item in enumerate(inputs):
        for path, x in _sequences(item, f"input {i}"):
            if x is item or _has_name(x) or not _holds_values(item):
                _refuse_no_sizes(x, path)


def _sequences(item: Any, path: str):
    """(path, sequence) of each tuple and list in an entry, without those of a shape."""
    if isinstance(item, Mapping):
        for key, x in item.items():
            yield from _sequences(x, f"{path}[{key!r}]")
    elif _is_sequence(item):
        yield path, item
        for n, x in enumerate(item):
            yield from _sequences(x, f"{path}[{n}]")


def _refuse_no_sizes(x: Sequence, path: str) -> None:
    """Refuses what is meant as a shape and has None or a float among its sizes."""
    wrong = [d for d in x if not _is_dim(d)]
    if not wrong or len(wrong) == len(x) or not all(d is None or isinstance(d, float) for d in wrong):
        return
    if not _has_name(x) and not all(d is None or d.is_integer() for d in wrong):
        return  # numbers
    named = any(d is None for d in wrong)
    advice = "give each dynamic size a name of your choice" if named else "sizes are integers, and // divides them"
    free = (name for name in "BTNMKPQRSUVWXYZ" if name not in x)
    right = tuple(next(free, "n") if d is None else int(d) if isinstance(d, float) else d for d in x)
    raise Error(f"{path} has the shape {x!r}, and {wrong[0]} is not a size", notes=[f"help: {advice}, as in {right!r}"])


def is_static(x: Any) -> bool:
    """Functions inside a pytree (a module's activation, for example) belong to the program, not to its
    inputs."""
    return callable(x) and not hasattr(x, "dtype")


@functools.cache
def _static_class():
    """A pytree without leaves that carries one value."""
    import jax

    class Static:
        def __init__(self, value):
            self.value = value

    jax.tree_util.register_pytree_node(Static, lambda s: ((), s.value), lambda value, _: Static(value))
    return Static


_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip


def _jax_spelling(text: str) -> str:
    """Rewrites `B//2`, `B%2` and parentheses, which JAX does not parse, in its own form: `floordiv(B, 2)`. Anything
    else stays as it is."""
    if not re.search(r"//|%|(?<!\w)\(", text):
        return text
    import jax
    from jax import export

    functions = {"floordiv": operator.floordiv, "mod": operator.mod, "max": jax.core.max_dim, "min": jax.core.min_dim}
    scope = export.SymbolicScope()

    def value(node):
        match node:
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return _OPERATORS[type(node.op)](value(node.left), value(node.right))
            case ast.UnaryOp() if type(node.op) in _OPERATORS:
                return _OPERATORS[type(node.op)](value(node.operand))
            case ast.Call(func=ast.Name(id=name), args=[a, b], keywords=[]) if name in functions:
                return functions[name](value(a), value(b))
            case ast.Name(id=name):
                return export.symbolic_shape(name, scope=scope)[0]
            case ast.Constant(value=int(number)):
                return number
        raise SyntaxError

    try:
        return str(value(ast.parse(text.replace("^", "**"), mode="eval").body))
    except (SyntaxError, ArithmeticError):
        return text  # JAX's own error names what it cannot parse


class _Symbols:
    """Turns sizes written as strings into JAX's symbolic dimensions, all in one scope."""

    def __init__(self):
        self.scope = None
        self.constraints: list[str] = []
        self.names: list[str] = []

    def note(self, dims: Sequence) -> None:
        for d in dims:
            if isinstance(d, str):
                if m := _CONSTRAINT.fullmatch(d):
                    self.constraints.append(f"{_jax_spelling(m[1])} {m[2]} {_jax_spelling(m[3])}")
                    d = m[1]
                self.names.append(d)
            elif type(d).__name__ == "_DimExpr":
                if self.scope is not None and d.scope is not self.scope:
                    raise Error(
                        "inputs use symbolic dimensions of different scopes",
                        notes=["help: make them in one call of jax.export.symbolic_shape, or give names as strings"],
                    )
                self.scope = d.scope

    def stated(self) -> list[str]:
        """The stated constraints, from shapes or from the scope of the caller's own symbolic dimensions."""
        own = getattr(self.scope, "_explicit_constraints", ())
        return list(dict.fromkeys([*self.constraints, *(c.debug_str for c in own)]))

    def shape(self, dims: Sequence, what: str) -> tuple:
        from jax import export

        if self.scope is None and any(isinstance(d, str) for d in dims):
            self.scope = export.SymbolicScope(self.constraints)
        made = []
        for d in dims:
            if isinstance(d, str):
                text = m[1] if (m := _CONSTRAINT.fullmatch(d)) else d
                try:
                    (d,) = export.symbolic_shape(_jax_spelling(text), scope=self.scope)
                except Exception as e:
                    raise Error(
                        f"{what}: dimension '{d}' is not understood: {first_line(e)}",
                        notes=['expected a name or an expression of names, as in "B", "2*T+1" or "B//2"'],
                    ) from None
            elif isinstance(d, (int, np.integer)):
                d = int(d)
                if d < 0:
                    raise Error(
                        f"{what}: dimension {d} is negative", notes=['help: give a dynamic dimension a name, as in "B"']
                    )
            made.append(d)
        return tuple(made)


def normalize(fn, inputs, input_params, double: bool, warn) -> Inputs:
    """Abstract values for every argument. `warn` is called with a text when float64 arrays are narrowed."""
    import jax

    _refuse_misspelled(inputs)
    default_float = np.float64 if double else np.float32
    symbols = _Symbols()
    items = list(inputs)
    text_names: dict[int, str] = {}

    def leaves(item):
        return jax.tree_util.tree_leaves(item, is_leaf=is_leaf(item))

    for i, item in enumerate(items):
        if isinstance(item, str) and (name := parse_text(item)[0]):
            text_names[i] = name
        for path, x in jax.tree_util.tree_flatten_with_path(item, is_leaf=is_leaf(item))[0]:
            if isinstance(x, str):
                symbols.note(parse_text(x, f"input {i}{jax.tree_util.keystr(path)}" if path else "input")[1])
            elif is_shape(x):
                symbols.note(x)
            elif hasattr(x, "shape"):
                symbols.note(x.shape)

    def abstract(x, what):
        if isinstance(x, str):
            _, dims, dtype = parse_text(x)
            if dtype == "key":  # of the implementation that jax.random.key() takes now
                dtype = jax.eval_shape(jax.random.key, 0).dtype
            else:
                dtype = jax.numpy.dtype(dtype) if dtype else default_float
        elif is_shape(x):
            dims, dtype = x, default_float
        elif hasattr(x, "shape") and hasattr(x, "dtype"):
            dims, dtype = x.shape, x.dtype
        elif isinstance(x, (bool, int, float, complex)):
            dims, dtype = (), jax.dtypes.canonicalize_dtype(np.asarray(x).dtype)
        else:
            raise Error(
                f"{what} has the type {type(x).__name__}",
                notes=['expected a shape such as ("B", 3), a jax.ShapeDtypeStruct, an array, or a pytree of these'],
            )
        if not jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
            dtype = np.dtype(dtype).newbyteorder("=")
            if not double and dtype in (np.dtype(np.float64), np.dtype(np.complex128)):
                warn(
                    f"{what} is {dtype}; it becomes {'complex64' if dtype.kind == 'c' else 'float32'} "
                    "(enable_double_precision=True keeps it)"
                )
            dtype = jax.dtypes.canonicalize_dtype(dtype)
            if dtype.kind not in "biufcV":
                raise Error(f"{what} has dtype {dtype}, which is none of JAX's")
        make = _state.abstract if _state.is_reference(x) else jax.ShapeDtypeStruct
        return make(symbols.shape(dims, what), dtype)

    def leaf(path, x, i, inside):
        if x is None:
            return None
        if inside and is_static(x):
            return _static_class()(x)
        return abstract(x, f"input {i}{jax.tree_util.keystr(path)}")

    args = tuple(
        jax.tree_util.tree_map_with_path(
            lambda path, x, i=i, item=item: leaf(path, x, i, x is not item), item, is_leaf=is_leaf(item)
        )
        for i, item in enumerate(items)
    )
    kwargs, baked = _parameters(input_params or {}, abstract, warn)
    out = Inputs(args, kwargs, baked, values=dict(input_params or {}))
    out.constraints = symbols.stated()
    out.references = [x for item in items for x in leaves(item) if isinstance(x, jax.Ref)]
    leaf_names, out.shapes = _names(fn, args, text_names)
    out.positional = len(leaf_names)
    for path, x in jax.tree_util.tree_flatten_with_path(kwargs)[0]:
        leaf_names.append(path_text(path))
        out.shapes.append(tuple(x.shape))
    out.names = leaf_names
    return out


def _parameters(params: Mapping[str, Any], abstract, warn) -> tuple[dict, dict]:
    """(inputs, Python values): arrays in a pytree become inputs, its other leaves stay Python values."""
    import jax

    kwargs, baked = {}, {}
    if not isinstance(params, Mapping):
        raise Error(
            f"input_params is a mapping of keyword arguments, found {type(params).__name__}",
            notes=["help: a path is given by name, as output_path="],
        )
    for key, value in params.items():
        if not isinstance(key, str):
            raise Error(f"input_params must have strings as keys, found {type(key).__name__}")
        what = f"input_params['{key}']"
        if any(map(_state.is_reference, jax.tree_util.tree_leaves(value))):
            raise Error(f"{what} is a reference", notes=["help: make it an argument, in inputs"])
        if _is_array(value) or isinstance(value, (bool, int, float)):
            kwargs[key] = abstract(value, what)
        elif any(map(_is_array, jax.tree_util.tree_leaves(value, is_leaf=_is_array))):
            numbers = []

            def part(path, x, what=what, numbers=numbers):
                if _is_array(x):
                    return abstract(x, what)
                if isinstance(x, (int, float)) and not isinstance(x, bool):
                    numbers.append(f"{path_text(path)}={x!r}")
                return _static_class()(x)

            kwargs[key] = jax.tree_util.tree_map_with_path(part, value, is_leaf=_is_array)
            if numbers:
                warn(
                    f"{what} has numbers beside its arrays, which are baked in ({', '.join(numbers)}): make an array of what should be an input"
                )
        else:
            baked[key] = value
    return kwargs, baked


def named_parameters(params: Mapping[str, Any]) -> dict[str, Any]:
    """Values of keyword arguments by the names of their inputs."""
    import jax

    return {path_text(path): x for path, x in jax.tree_util.tree_flatten_with_path(dict(params), is_leaf=_is_array)[0]}


def satisfies(constraints: Sequence[str], sizes: Mapping[str, int]) -> bool:
    """Whether the constraints hold for these sizes. A constraint with an unknown symbol counts as
    satisfied."""
    from jax import export

    for text in constraints:
        left, relation, right = _CONSTRAINT.fullmatch(text).groups()
        dims = export.symbolic_shape(f"{left}, {right}", scope=export.SymbolicScope())
        if any(name not in sizes for d in dims if hasattr(d, "_get_vars") for name in d._get_vars()):
            continue
        a, b = (d._evaluate(sizes) if hasattr(d, "_evaluate") else d for d in dims)
        if not {">=": a >= b, "<=": a <= b, "==": a == b}[relation]:
            return False
    return True


def key_text(key: Any) -> str:
    """One step of a pytree path."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def path_text(path: Sequence) -> str:
    return ".".join(key_text(k) for k in path)


def _names(fn, args, text_names) -> tuple[list[str], list[tuple]]:
    """A name per leaf: the argument's name, with the path below it."""
    import jax

    bases = [text_names.get(i) for i in range(len(args))]
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    position = 0
    for p in parameters:
        if position >= len(args) or p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD):
            break
        if p.kind is p.VAR_POSITIONAL:
            for n in range(position, len(args)):
                bases[n] = bases[n] or f"{p.name}.{n - position}"
            position = len(args)
        else:
            bases[position] = bases[position] or p.name
            position += 1
    names, axes = [], []
    for i, arg in enumerate(args):
        base = bases[i] or f"in_{i}"
        for path, leaf in jax.tree_util.tree_flatten_with_path(arg)[0]:
            names.append(".".join(filter(None, [base, path_text(path)])))
            axes.append(tuple(leaf.shape))
    return names, axes


def output_names(shapes: Any, taken: Sequence[str]) -> list[str]:
    """Names of results: "output" for one, else their path in the result; never one of `taken`."""
    import jax

    if type(shapes) is jax.ShapeDtypeStruct and "output" not in taken:
        return ["output"]
    leaves = jax.tree_util.tree_flatten_with_path(shapes)[0]
    named = isinstance(shapes, Mapping) or hasattr(shapes, "_fields") or not isinstance(shapes, (tuple, list))
    names = []
    for path, _ in leaves:
        text = path_text(path)
        name = (text if named else f"output.{text}") if text else "output"
        while name in taken or name in names:
            name = f"output.{name}" if not name.startswith("output.") else name + "_"
        names.append(name)
    return names
