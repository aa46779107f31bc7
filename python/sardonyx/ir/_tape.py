"""Recording graphs: Tape and Builder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from sardonyx import _sardonyx
from sardonyx._error import Error, WrongType
from sardonyx.ir._core import Function, Graph, Node, Value, val
from sardonyx.ir._tensor import Tensor
from sardonyx.ir._tensor import tensor as _tensor

_native = _sardonyx.ir

__all__ = ["Builder", "Tape", "UsedOpsets"]

# The domains and versions that recorded nodes were made for; None means the graph's version.
UsedOpsets = set[tuple[str, int | None]]


class Tape:
    """Records nodes and initializers, and appends them to a graph or function when it is given one.

    Without one, hand `nodes` and `initializers` to ir.Graph at the end.
    """

    def __init__(self, graph_like: Graph | Function | None = None):
        if graph_like is not None and not isinstance(graph_like, _native.GraphBase | _native.FunctionBase):
            raise WrongType(f"a tape records for an ir.Graph or ir.Function, not {type(graph_like).__name__}")
        self.graph_like = graph_like
        self._nodes: list[Node] = []
        self._initializers: list[Value] = []
        self._by_name: dict[str, Value] = {}  # the initializers
        self._constants: dict[str, Value] = {}  # Constant nodes by name, which functions use instead of initializers
        self._used_opsets: UsedOpsets = set()
        self._stage = _native.Stage() if graph_like is None else None

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes recorded so far, in order."""
        return tuple(self._nodes)

    @property
    def initializers(self) -> Sequence[Value]:
        """The initializers recorded so far."""
        return tuple(self._initializers)

    @property
    def used_opsets(self) -> UsedOpsets:
        """(domain, version) of the recorded nodes; None where no version was given."""
        return self._used_opsets

    def opset_imports(self, default: Mapping[str, int] | int | None = None) -> dict[str, int]:
        """used_opsets in the form of Graph(opset_imports=...). Raises when two versions of one domain were
        given.

        `default` gives versions for domains without one: a mapping, or a number for ONNX's own domain.
        """
        defaults = {"": default} if isinstance(default, int) else dict(default or {})
        found: dict[str, int] = {}
        for domain, version in sorted(self._used_opsets, key=lambda used: (used[0], used[1] or 0)):
            if version is None:
                continue
            if found.setdefault(domain, version) != version:
                raise Error(
                    f"two opset versions of domain '{domain}' are asked for: {found[domain]} and {version}",
                    notes=("give all nodes of a domain the same version, or none",),
                )
        for domain, version in defaults.items():
            found.setdefault(domain, version)
        return found

    def op(
        self,
        op_type: str,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        overload: str = "",
        version: int | None = None,
        graph: Graph | Function | None = None,
        name: str | None = None,
        doc_string: str | None = None,
        metadata_props: Mapping[str, str] | None = None,
        output: Value | None = None,
    ) -> Value:
        """Record a node with one output, and return that output."""
        return self._record(
            op_type,
            inputs,
            attributes,
            num_outputs=1 if output is None else None,
            outputs=None if output is None else [output],
            domain=domain,
            overload=overload,
            version=version,
            graph=graph,
            name=name,
            doc_string=doc_string,
            metadata_props=metadata_props,
        )[0]

    def op_multi_out(
        self,
        op_type: str,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        num_outputs: int | None = None,
        outputs: Sequence[Value] | None = None,
        domain: str = "",
        overload: str = "",
        version: int | None = None,
        graph: Graph | Function | None = None,
        name: str | None = None,
        doc_string: str | None = None,
        metadata_props: Mapping[str, str] | None = None,
    ) -> tuple[Value, ...]:
        """Record a node with several outputs: `num_outputs` new ones, or the values in `outputs`."""
        if (num_outputs is None) == (outputs is None):
            raise Error(
                "op_multi_out needs num_outputs or outputs" + (", not both" if outputs is not None else ""),
                notes=("num_outputs=n makes new values", "outputs=[...] takes values that no node computes yet"),
            )
        return self._record(
            op_type,
            inputs,
            attributes,
            num_outputs=num_outputs,
            outputs=outputs,
            domain=domain,
            overload=overload,
            version=version,
            graph=graph,
            name=name,
            doc_string=doc_string,
            metadata_props=metadata_props,
        )

    def _record(self, op_type, inputs, attributes, *, domain, version, graph, **options) -> tuple[Value, ...]:
        if attributes is not None and not isinstance(attributes, Mapping):
            raise WrongType(f"attributes is a mapping of names to values, not {type(attributes).__name__}")
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise WrongType(f"an opset version is an integer, not {type(version).__name__}")
        node = Node(
            domain,
            op_type,
            inputs,
            attributes or (),
            version=version,
            graph=self.graph_like if graph is None else graph,
            _stage=self._stage if graph is None else None,
            **options,
        )
        self._nodes.append(node)
        self._used_opsets.add((node.domain, version))
        return node.outputs

    def initializer(self, tensor: Tensor, name: str | None = None) -> Value:
        """Make an initializer, registered with the graph at once if there is one. It must have a name.

        The same name with the same content gives the same value back; with other content it is an error. ONNX
        functions cannot have initializers.
        """
        if isinstance(tensor, _native.ValueBase):
            raise WrongType(
                "initializer takes an ir.Tensor, not an ir.Value", notes=("value.const_value has its tensor",)
            )
        if not isinstance(tensor, _native.TensorBase):
            tensor = _tensor(tensor)
        if name is not None and not isinstance(name, str):
            raise WrongType(f"an initializer's name is a string, not {type(name).__name__}")
        name = name or tensor.name
        if not name:
            raise Error("an initializer must have a name", notes=("builder.initializer(tensor, name=...)",))
        if isinstance(self.graph_like, _native.FunctionBase):
            raise Error(
                f"a function cannot have initializers: '{name}' is refused",
                notes=("add_initializer_from_array(...) makes Constant nodes in functions",),
            )
        return self._put_initializer(val(name, const_value=tensor))

    def _put_initializer(self, value: Value) -> Value:
        """Register `value`, or return the equal one that is registered."""
        existing = self._find_initializer(value.name)
        if existing is value:
            return value
        if existing is not None:
            old, new = existing.const_value, value.const_value
            if new is not None and old is not None and old._equals(new):
                return existing
            raise Error(
                f"there is an initializer named '{value.name}' already, with other content",
                notes=(f"it is {_summary(old)}, the new one is {_summary(new)}", "choose another name"),
            )
        if isinstance(self.graph_like, _native.GraphBase):
            self.graph_like.register_initializer(value)
        self._initializers.append(value)
        self._by_name[value.name] = value
        return value

    def _find_initializer(self, name: str) -> Value | None:
        if isinstance(self.graph_like, _native.GraphBase):
            return self.graph_like._initializer(name)
        found = self._by_name.get(name)
        if found is None or found.name == name:
            return found
        self._by_name = {v.name: v for v in self._initializers}  # after initializers were renamed
        return self._by_name.get(name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(nodes={len(self._nodes)}, initializers={len(self._initializers)})"


def _summary(tensor: Tensor | None) -> str:
    if tensor is None:
        return "without content"
    values = np.array2string(tensor.numpy(), threshold=4, separator=",") if tensor.size <= 8 else "..."
    return f"{tensor.dtype.short_name()}{tensor.shape} {values}"


class _InitializerList(MutableSequence):
    """The builder's initializers as a list. Additions follow the builder's rule: same name, same content,
    same value."""

    def __init__(self, builder: Builder):
        self._builder = builder

    def _values(self) -> list[Value]:
        graph = self._builder.graph_like
        if isinstance(graph, _native.GraphBase):
            return graph._initializers()
        return list(self._builder._initializers)

    def __len__(self) -> int:
        return len(self._values())

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values())

    def __contains__(self, value: object) -> bool:
        return any(v is value for v in self._values())

    def __getitem__(self, index):
        return self._values()[index]

    def __setitem__(self, index, value) -> None:
        values = self._values()
        values[index] = value
        self.replace(values)

    def __delitem__(self, index) -> None:
        values = self._values()
        gone = values[index] if isinstance(index, slice) else [values[index]]
        for value in gone:
            self.remove(value)

    def insert(self, index: int, value: Value) -> None:
        if index >= len(self):
            self.append(value)
            return
        values = self._values()
        values.insert(index, value)
        self.replace(values)

    def append(self, value: Value) -> None:
        if not isinstance(value, _native.ValueBase):
            raise WrongType(f"an initializer is an ir.Value with a const_value, not {type(value).__name__}")
        if not value.name:
            raise Error("an initializer must have a name", notes=("set value.name first",))
        if value.const_value is None:
            raise Error(f"'{value.name}' must have its const_value set to be an initializer")
        if isinstance(self._builder.graph_like, _native.FunctionBase):
            raise Error(f"a function cannot have initializers: '{value.name}' is refused")
        self._builder._put_initializer(value)

    def extend(self, values: Iterable[Value]) -> None:
        for value in values:
            self.append(value)

    def remove(self, value: Value) -> None:
        if value not in self:
            raise Error(f"{value!r} is not an initializer of this builder")
        graph = self._builder.graph_like
        if isinstance(graph, _native.GraphBase):
            graph._take_initializer(value)
        self._builder._initializers = [v for v in self._builder._initializers if v is not value]
        self._builder._by_name.pop(value.name, None)

    def clear(self) -> None:
        for value in self._values():
            self.remove(value)

    def replace(self, values: Iterable[Value]) -> None:
        """Make `values` the initializers."""
        values = list(values)
        self.clear()
        self.extend(values)

    def copy(self) -> list[Value]:
        return self._values()

    def __eq__(self, other) -> bool:
        mine = self._values()
        return (
            isinstance(other, Iterable) and len(mine) == len(list(other)) and all(a is b for a, b in zip(mine, other))
        )

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self._values())


def _of_graph(name: str, doc: str) -> property:
    """A property of the builder that is one of its graph."""
    return property(
        lambda self: getattr(self._target(name), name),
        lambda self, values: setattr(self._target(name), name, values),
        doc=doc,
    )


class Builder(Tape):
    """A tape with one method per operator: builder.Add(a, b), builder.Conv(x, w, strides=[2, 2]).

    Positional arguments are inputs (None for an optional one that is absent), keywords are attributes.
    Keywords with an underscore are the builder's own: `_domain`, `_version`, and `_outputs` (how many, or a
    list of names).
    """

    def __getattr__(self, op_type: str):
        if op_type.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{op_type}'")

        def emit(*inputs, **keywords):
            return self._make_node(op_type, inputs, keywords)

        emit.__name__ = op_type
        return emit

    def _make_node(self, op_type: str, inputs: Sequence[Value | None], keywords: dict[str, Any]):
        domain = keywords.pop("_domain", "")
        version = keywords.pop("_version", None)
        outputs = keywords.pop("_outputs", 1)
        for keyword in keywords:
            if keyword.startswith("_"):
                raise Error(
                    f"{op_type}: '{keyword}' is not known",
                    notes=("the builder's own keywords are _domain, _version, _outputs",),
                )
        names: Sequence[str] | None = None
        if isinstance(outputs, str | bytes):
            raise WrongType(
                f"{op_type}: _outputs={outputs!r} is a string, which would be taken for {len(outputs)} names of one letter",
                notes=(f"put it into a list: _outputs=[{outputs!r}]",),
            )
        if isinstance(outputs, Sequence):
            names = list(outputs)
            for name in names:
                if not isinstance(name, str):
                    raise WrongType(f"{op_type}: _outputs is a list of names, and {name!r} is none")
            count = len(names)
        elif isinstance(outputs, int) and not isinstance(outputs, bool):
            count = outputs
        else:
            raise WrongType(f"{op_type}: _outputs is a number or a list of names, not {type(outputs).__name__}")
        made: dict[str, Any] = (
            {"num_outputs": count} if names is None else {"outputs": [Value(name=name) for name in names]}
        )
        values = self._record(op_type, inputs, keywords, domain=domain, version=version, graph=None, **made)
        return values[0] if count == 1 else values

    # -- the graph's own lists, which may also be assigned

    inputs = _of_graph("inputs", "The inputs of the graph that is built.")
    outputs = _of_graph("outputs", "The outputs of the graph that is built.")

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes recorded so far, in order."""
        return tuple(self._nodes)

    @nodes.setter
    def nodes(self, nodes: Iterable[Node]) -> None:
        nodes = list(nodes)
        if self.graph_like is not None:
            graph = self.graph_like
            kept = {id(n) for n in nodes}
            graph.remove([n for n in graph if id(n) not in kept])
            graph.extend(nodes)
        self._nodes = nodes

    @property
    def initializers(self) -> _InitializerList:
        """The initializers, as a list."""
        return _InitializerList(self)

    @initializers.setter
    def initializers(self, values: Iterable[Value]) -> None:
        _InitializerList(self).replace(values)

    def _target(self, what: str):
        if self.graph_like is None:
            raise Error(f"this builder has no {what}: it was made without a graph", notes=("ir.Builder(graph)",))
        return self.graph_like

    # -- constants

    def add_initializer_from_array(self, name: str, array) -> Value:
        """A constant from an array: an initializer or, in a function, a Constant node.

        Returns the same value for the same name and content; other content is an error.
        """
        made = array if isinstance(array, _native.TensorBase) else _tensor(array)
        if not name:
            raise Error("a constant needs a name", notes=("add_initializer_from_array(name, array)",))
        if isinstance(self.graph_like, _native.FunctionBase):
            return self._constant_node(name, made)
        return self.initializer(made, name=name)

    def add_initializer_from_scalar(self, name: str, value) -> Value:
        """A constant of rank 0. Python ints become int64, floats float32, bools bool; NumPy scalars keep
        their dtype."""
        if isinstance(value, bool | np.bool_):
            array = np.array(value, np.bool_)
        elif isinstance(value, int):
            array = np.array(value, np.int64)
        elif isinstance(value, float):
            array = np.array(value, np.float32)
        else:
            array = np.asarray(value)
            if array.ndim != 0:
                raise Error(
                    f"a scalar is expected for '{name}', not an array of shape {array.shape}",
                    notes=("add_initializer_from_array",),
                )
        return self.add_initializer_from_array(name, array)

    def const_i64(self, name: str, values: int | Sequence[int]) -> Value:
        """A constant of int64: a vector from a sequence, rank 0 from a number."""
        return self.add_initializer_from_array(name, np.asarray(values, dtype=np.int64))

    def _constant_node(self, name: str, made: Tensor) -> Value:
        known = self._constants.get(name)
        if known is not None and known.name == name and known.const_value is not None:
            if known.const_value._equals(made):
                return known
            raise Error(
                f"there is a constant named '{name}' already, with other content",
                notes=(f"it is {_summary(known.const_value)}, the new one is {_summary(made)}", "choose another name"),
            )
        value = self.op("Constant", [], {"value": made}, output=val(name, made.dtype, made.shape))
        self._constants[name] = value
        return value
