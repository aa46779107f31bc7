"""Common edits of graphs."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import _sardonyx
from sardonyx._error import Error, WrongType
from sardonyx.ir._convert import convert_attribute, convert_attributes
from sardonyx.ir._core import Function, Graph, GraphView, Model, Node, Value
from sardonyx.ir._tensor import Tensor
from sardonyx.ir.traversal import RecursiveGraphIterator

__all__ = [
    "convert_attribute",
    "convert_attributes",
    "create_value_mapping",
    "get_const_tensor",
    "infer_types",
    "rename_values",
    "replace_all_uses_with",
    "replace_nodes_and_values",
]


def _values(values: Value | Sequence[Value]) -> list[Value]:
    values = [values] if isinstance(values, Value) else list(values)
    for v in values:
        if not isinstance(v, Value):
            raise WrongType(f"expected an ir.Value, not {type(v).__name__}")
    return values


def replace_all_uses_with(
    values: Value | Sequence[Value], replacements: Value | Sequence[Value], replace_graph_outputs: bool = False
) -> None:
    """Replace each value in all its users. Graph outputs are replaced only when asked for."""
    old, new = _values(values), _values(replacements)
    if len(old) != len(new):
        raise Error(f"{len(old)} values cannot be replaced by {len(new)}: there must be as many of both")
    for value, replacement in zip(old, new):
        value.replace_all_uses_with(replacement, replace_graph_outputs=replace_graph_outputs)


def create_value_mapping(graph: Graph | GraphView | Function, *, include_subgraphs: bool = True) -> dict[str, Value]:
    """Values by name. The first of several with one name; values without a name are left out."""
    found: dict[str, Value] = {}

    def see(value: Value | None) -> None:
        if value is not None and value.name:
            found.setdefault(value.name, value)

    def see_ports(g) -> None:
        if not isinstance(g, Function):
            for value in g.initializers.values():
                see(value)
        for value in g.inputs:
            see(value)

    see_ports(graph)
    nodes = RecursiveGraphIterator(graph, enter_graph=see_ports) if include_subgraphs else graph
    for node in nodes:
        for value in (*node.inputs, *node.outputs):
            see(value)
    return found


def replace_nodes_and_values(
    graph_or_function: Graph | Function,
    /,
    insertion_point: Node,
    old_nodes: Sequence[Node],
    new_nodes: Sequence[Node],
    old_values: Sequence[Value],
    new_values: Sequence[Value],
) -> None:
    """Insert `new_nodes` after `insertion_point`, replace `old_values` by `new_values`, and remove
    `old_nodes`.

    New values take the names of old ones, and their types and shapes where they have none. Graph outputs
    follow.
    """
    old_values, new_values = _values(old_values), _values(new_values)
    if len(old_values) != len(new_values):
        raise Error(f"{len(old_values)} values cannot be replaced by {len(new_values)}: there must be as many of both")
    for old, new in zip(old_values, new_values):
        if new.type is None:
            new.type = old.type
        if new.shape is None:
            new.shape = old.shape
        if new.const_value is None and old.const_value is not None and new.producer() is None:
            new.const_value = old.const_value
        name, old.name = old.name, None if not old.is_initializer() else old.name
        if not old.is_initializer():
            new.name = name
    graph_or_function.insert_after(insertion_point, new_nodes)
    replace_all_uses_with(old_values, new_values, replace_graph_outputs=True)
    graph_or_function.remove(old_nodes, safe=True)


def rename_values(values: Value | Sequence[Value], names: str | Sequence[str]) -> None:
    """Rename several values at once, so that initializers can also exchange names."""
    values = _values(values)
    names = [names] if isinstance(names, str) else list(names)
    if len(values) != len(names):
        raise Error(f"{len(names)} names for {len(values)} values: there must be as many of both")
    wanted: dict[int, str] = {}
    for value, name in zip(values, names):
        if not isinstance(name, str):
            raise WrongType(f"a name is a string, not {type(name).__name__}")
        if wanted.setdefault(id(value), name) != name:
            raise Error(f"{value!r} would get two names: '{wanted[id(value)]}' and '{name}'")
    moving = [(v, wanted[id(v)]) for v in dict.fromkeys(values) if v.is_initializer() and v.name != wanted[id(v)]]
    taken: set[tuple[int, str]] = set()
    for value, name in moving:
        graph = value.graph
        holder = graph.initializers.get(name)
        if not name:
            raise Error(f"initializer '{value.name}' cannot lose its name")
        if (id(graph), name) in taken or (holder is not None and all(holder is not v for v, _ in moving)):
            raise Error(f"cannot rename initializer '{value.name}' to '{name}': there is an initializer of that name")
        taken.add((id(graph), name))
    for i, (value, _) in enumerate(moving):  # first move all names out of each other's way
        value.name = f"{value.name}\0{i}"
    for value, name in zip(values, names):
        value.name = name


def infer_types(model: Model) -> list[str]:
    """Infer types and shapes by the operators' rules. Declares untyped outputs with the result.

    Returns a message for each node that breaks its operator's rule; such nodes keep what was known.
    """
    if not isinstance(model, Model):
        raise WrongType(f"infer_types takes an ir.Model, not {type(model).__name__}")
    return _sardonyx.ir.infer_types(model)


def get_const_tensor(value: Value, propagate_shape_type: bool = False) -> Tensor | None:
    """The tensor that a value always holds, if known: of an initializer, a Constant node, or a const_value."""
    tensor = value.const_value
    if tensor is not None and propagate_shape_type:
        value.dtype = tensor.dtype
        value.shape = tensor.shape
    return tensor
