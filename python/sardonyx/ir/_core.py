"""Values, nodes, graphs, functions and models: Python's handles to the native graph.

These objects hold no data. Two expressions that name the same native object give the same handle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sardonyx import _sardonyx
from sardonyx._error import Error, WrongType
from sardonyx._page import Page
from sardonyx.ir._attr import Attr, Attributes, attr_to_native
from sardonyx.ir._containers import (
    Functions,
    GraphInitializers,
    GraphInputs,
    GraphOutputs,
    MetadataProps,
    OpsetImports,
)
from sardonyx.ir._convert import convert_attributes
from sardonyx.ir._enums import DataType
from sardonyx.ir._shape import Shape, SymbolicDim, TensorType, dims_to_native, type_from_native, type_to_native
from sardonyx.ir._tensor import Tensor

_native = _sardonyx.ir

__all__ = ["Function", "Graph", "GraphView", "Input", "Model", "Node", "Usage", "Value", "node", "val"]


def _text(text, what: str) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise WrongType(f"{what} is a string or None, not {type(text).__name__}")
    return text


def _pairs(props: Mapping | None, what: str = "metadata_props") -> list[tuple[str, str]]:
    if props is None:
        return []
    if not isinstance(props, Mapping):
        raise WrongType(f"{what} is a mapping, not {type(props).__name__}")
    for key, value in props.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise WrongType(f"{what} maps strings to strings, not {type(key).__name__} to {type(value).__name__}")
    return list(props.items())


class Usage(NamedTuple):
    """A use of a value: input `idx` of `node`."""

    node: Node
    idx: int


class _Documented:
    """Doc string and metadata, stored on the native side."""

    __slots__ = ()

    @property
    def doc_string(self) -> str | None:
        return self._doc()

    @doc_string.setter
    def doc_string(self, text: str | None) -> None:
        self._set_doc(_text(text, "doc_string"))

    @property
    def metadata_props(self) -> MetadataProps:
        """String properties that are written to files."""
        return MetadataProps(self)


class Value(_native.ValueBase):
    """A value that a node computes, a graph takes as input, or an initializer holds."""

    __slots__ = ()

    def __init__(
        self,
        producer: Node | None = None,
        *,
        index: int | None = None,
        name: str | None = None,
        shape: Shape | None = None,
        type=None,
        doc_string: str | None = None,
        const_value: Tensor | None = None,
        metadata_props: Mapping[str, str] | None = None,
    ):
        if producer is not None or index is not None:
            raise Error(
                "a value does not choose its producer",
                notes=("make the node with outputs=[value], or take one of node.outputs",),
            )
        pairs = _pairs(metadata_props)
        native_type = type_to_native(type)
        dims = dims_to_native(shape)
        super().__init__(_text(name, "name"))
        if native_type is not None or dims is not None:
            self._set_type(native_type, dims)
        if name == "":
            self._set_name("", True)
        if doc_string:
            self.doc_string = doc_string
        if const_value is not None:
            self.const_value = const_value
        if pairs:
            self._set_metadata(pairs)

    doc_string = _Documented.doc_string
    metadata_props = _Documented.metadata_props

    @property
    def name(self) -> str | None:
        return self._name or ("" if self._absent else None)

    @name.setter
    def name(self, name: str | None) -> None:
        text = _text(name, "name")
        if text == self._name and text:
            return
        self._set_name(text, name == "")
        tensor = self._const_value()
        if tensor is not None:
            tensor.name = text or None

    @property
    def type(self):
        """TensorType, SequenceType, OptionalType, ..., or None when unknown. The shape is separate."""
        return type_from_native(self._type())

    @type.setter
    def type(self, type) -> None:
        self._set_type(type_to_native(type), self._dims())

    @property
    def dtype(self) -> DataType | None:
        """The element type, or None when unknown."""
        type = self.type
        return None if type is None else type.dtype

    @dtype.setter
    def dtype(self, dtype: DataType | None) -> None:
        if dtype is None:
            self._set_type(None, self._dims())
            return
        dtype = int(DataType(dtype))

        def replaced(t):
            if t is None or t[0] in ("tensor", "sparse"):
                return ("tensor" if t is None else t[0], dtype)
            return (*t[:-1], replaced(t[-1]))

        self._set_type(replaced(self._type()), self._dims())

    @property
    def shape(self) -> Shape | None:
        """The dimensions, or None when the rank is unknown. Changing a dimension changes the value."""
        dims = self._dims()
        if dims is None:
            return None
        shape = Shape(dims)
        shape._owner = self
        return shape

    @shape.setter
    def shape(self, shape: Shape | Sequence | None) -> None:
        if shape is not None and not isinstance(shape, Shape):
            if isinstance(shape, str) or not isinstance(shape, Iterable):
                raise WrongType(f"a shape is an ir.Shape or a sequence of dimensions, not {type(shape).__name__}")
            shape = Shape(shape)
        self._write_shape(shape)
        if shape is not None and not shape.frozen and shape._owner is None:
            shape._owner = self

    def _write_shape(self, shape: Shape | None) -> None:
        self._set_type(self._type(), dims_to_native(shape))

    @property
    def const_value(self) -> Tensor | None:
        """The payload of an initializer or of a Constant node's result. On other values it is a note that is
        not written."""
        return self._const_value()

    @const_value.setter
    def const_value(self, tensor: Tensor | None) -> None:
        if tensor is not None and not isinstance(tensor, _native.TensorBase):
            raise WrongType(
                f"const_value is an ir.Tensor or None, not {type(tensor).__name__}", notes=("ir.tensor(...) makes one",)
            )
        self._set_const_value(tensor)

    def uses(self) -> tuple[Usage, ...]:
        """The inputs of nodes that use this value. Graph outputs are not among them: see is_graph_output()."""
        return tuple(Usage(n, i) for n, i in self._uses())

    def consumers(self) -> tuple[Node, ...]:
        """The nodes that use this value, each once."""
        return tuple(dict.fromkeys(n for n, _ in self._uses()))

    def merge_shapes(self, other: Shape | None, /) -> None:
        """Take the more precise dimension of each pair: integers before names, names before unknown."""
        if other is None:
            return
        mine = self.shape
        if mine is None:
            self.shape = other.copy()
            return
        if len(mine) != len(other):
            raise Error(f"shapes of different rank cannot be merged: {mine} and {other} of {self!r}")
        merged = []
        for a, b in zip(mine, other):
            if isinstance(a, int) and isinstance(b, int) and a != b:
                raise Error(f"shapes {mine} and {other} of {self!r} contradict each other: {a} is not {b}")
            better = isinstance(a, SymbolicDim) and (isinstance(b, int) or a.value is None)
            merged.append(b if better else a)
        self._write_shape(Shape(merged))

    def _label(self) -> str:
        return self._name or f"anonymous:{id(self)}"

    def __repr__(self) -> str:
        parts = [f"name={self._label()!r}"]
        for what in ("type", "shape"):
            if getattr(self, what) is not None:
                parts.append(f"{what}={getattr(self, what)!r}")
        producer = self.producer()
        if producer is not None:
            parts.append(f"producer={producer.name or 'anonymous_node'!r}, index={self.index()}")
        tensor = self.const_value
        if tensor is not None:
            parts.append(f"const_value={tensor!r}" if tensor.size <= 10 else "const_value=Tensor(...)")
        return f"Value({', '.join(parts)})"

    def __str__(self) -> str:
        type = "?" if self.type is None else str(self.type)
        shape = "?" if self.shape is None else str(self.shape)
        return f'%"{self._label()}"<{type},{shape}>'


class Node(_native.NodeBase):
    """One operation. `attributes` is a mapping (to ir.Attr, or to plain values whose type is inferred) or a
    sequence of ir.Attr."""

    __slots__ = ()

    def __init__(
        self,
        domain: str,
        op_type: str,
        inputs: Iterable[Value | None],
        attributes: Iterable[Attr] | Mapping[str, object] = (),
        *,
        overload: str = "",
        num_outputs: int | None = None,
        outputs: Sequence[Value] | None = None,
        version: int | None = None,
        graph: Graph | Function | None = None,
        name: str | None = None,
        doc_string: str | None = None,
        metadata_props: Mapping[str, str] | None = None,
        _stage=None,
    ):
        if not isinstance(domain, str) or not isinstance(op_type, str):
            raise WrongType(f"Node(domain, op_type, inputs, ...) takes two strings first, not {domain!r}, {op_type!r}")
        if isinstance(inputs, _native.ValueBase | str) or not isinstance(inputs, Iterable):
            raise WrongType(
                f"inputs is a sequence of values, not {type(inputs).__name__}", notes=("put it into a list: [value]",)
            )
        if outputs is not None and (isinstance(outputs, _native.ValueBase | str) or not isinstance(outputs, Iterable)):
            raise WrongType(f"outputs is a sequence of values, not {type(outputs).__name__}")
        if num_outputs is not None and (isinstance(num_outputs, bool) or not isinstance(num_outputs, int)):
            raise WrongType(f"num_outputs is an integer, not {type(num_outputs).__name__}")
        if isinstance(attributes, Mapping):
            attributes = convert_attributes(attributes)
        super().__init__(
            domain,
            op_type,
            list(inputs),
            [attr_to_native(a) for a in attributes or ()],
            _text(overload, "overload"),
            num_outputs,
            None if outputs is None else list(outputs),
            version,
            _graph_of(graph),
            _text(name, "name"),
            _text(doc_string, "doc_string"),
            _pairs(metadata_props),
            _stage,
        )

    doc_string = _Documented.doc_string
    metadata_props = _Documented.metadata_props

    @property
    def name(self) -> str | None:
        return self._name or None

    @name.setter
    def name(self, name: str | None) -> None:
        self._set_name(_text(name, "name"))

    @property
    def op_type(self) -> str:
        """The operator's name."""
        return self._op_type

    @op_type.setter
    def op_type(self, op_type: str) -> None:
        self._set_operator(self._domain, op_type)

    @property
    def domain(self) -> str:
        """The operator's domain; "" is ONNX's own."""
        return self._domain

    @domain.setter
    def domain(self, domain: str) -> None:
        self._set_operator(domain, self._op_type)

    @property
    def overload(self) -> str:
        """The overload of the function that the node calls."""
        return self._overload

    @overload.setter
    def overload(self, overload: str) -> None:
        self._set_overload(_text(overload, "overload"))

    @property
    def version(self) -> int | None:
        """The opset version that the node was made for; None: that of its graph."""
        return self._version

    @version.setter
    def version(self, version: int | None) -> None:
        self._set_version(version)

    @property
    def attributes(self) -> Attributes:
        return Attributes(self)

    def op_identifier(self) -> tuple[str, str, str]:
        """(domain, op_type, overload)"""
        return (self.domain, self.op_type, self.overload)

    def predecessors(self) -> tuple[Node, ...]:
        """The nodes whose results this one uses, each once."""
        return tuple(dict.fromkeys(p for v in self.inputs if v is not None and (p := v.producer()) is not None))

    def successors(self) -> tuple[Node, ...]:
        """The nodes that use this one's results, each once."""
        return tuple(dict.fromkeys(n for v in self.outputs for n in v.consumers()))

    def prepend(self, nodes: Node | Iterable[Node], /) -> None:
        """Insert nodes before this one."""
        self._home("prepend").insert_before(self, nodes)

    def append(self, nodes: Node | Iterable[Node], /) -> None:
        """Insert nodes after this one."""
        self._home("append").insert_after(self, nodes)

    def _home(self, what: str) -> Graph:
        if self.graph is None:
            raise Error(f"cannot {what}: the node does not belong to a graph")
        return self.graph

    def __str__(self) -> str:
        name = f"{self.domain}::{self.op_type}" + (f":{self.overload}" if self.overload else "")
        inputs = ", ".join("None" if v is None else f'%"{v._label()}"' for v in self.inputs)
        attributes = f" {{{', '.join(f'{k}={v}' for k, v in self.attributes.items())}}}" if self.attributes else ""
        return f"{', '.join(map(str, self.outputs))} = {name}({inputs}){attributes}"

    def __repr__(self) -> str:
        return (
            f"Node(name={self.name!r}, domain={self.domain!r}, op_type={self.op_type!r}, inputs={self.inputs!r}, "
            f"attributes={self.attributes!r}, overload={self.overload!r}, outputs={self.outputs!r}, version={self.version!r})"
        )


def _graph_of(graph) -> Graph | None:
    if graph is None or isinstance(graph, _native.GraphBase):
        return graph
    if isinstance(graph, _native.FunctionBase):
        return graph.graph
    raise WrongType(f"graph is an ir.Graph or ir.Function, not {type(graph).__name__}")


def _as_nodes(nodes) -> list:
    if isinstance(nodes, _native.NodeBase):
        return [nodes]
    if not isinstance(nodes, Iterable):
        raise WrongType(f"expected an ir.Node or several, not {type(nodes).__name__}")
    return list(nodes)


class _NodeSequence:
    """Code shared by Graph and Function, which are sequences of nodes."""

    __slots__ = ()

    def _body(self) -> Graph:
        raise NotImplementedError

    def __getitem__(self, index):
        body = self._body()
        if isinstance(index, slice):
            return tuple(body)[index]
        return body._node_at(index.__index__())

    def __contains__(self, node) -> bool:
        return isinstance(node, _native.NodeBase) and node.graph is self._body()

    def index(self, node, start: int = 0, stop: int | None = None) -> int:
        for i, other in enumerate(self._body()):
            if other is node and i >= start and (stop is None or i < stop):
                return i
        raise Error(f"{node!r} is not in the graph")

    def count(self, node) -> int:
        return 1 if node in self else 0

    def node(self, index_or_name: int | str, /) -> Node:
        """A node by position or by name. Each access walks the graph."""
        if isinstance(index_or_name, int):
            return self[index_or_name]
        for node in self._body():
            if node.name == index_or_name:
                return node
        raise Error(f"there is no node named '{index_or_name}'")

    def append(self, node: Node, /) -> None:
        """Append a node. Nodes and values without a name get one."""
        if not isinstance(node, _native.NodeBase):
            raise WrongType(f"expected an ir.Node, not {type(node).__name__}")
        self._body()._link([node], None, False)

    def extend(self, nodes: Iterable[Node], /) -> None:
        """Append nodes."""
        self._body()._link(_as_nodes(nodes), None, False)

    def insert_before(self, node: Node, new_nodes: Node | Iterable[Node], /) -> None:
        self._body()._link(_as_nodes(new_nodes), node, True)

    def insert_after(self, node: Node, new_nodes: Node | Iterable[Node], /) -> None:
        self._body()._link(_as_nodes(new_nodes), node, False)

    def remove(self, nodes: Node | Iterable[Node], /, safe: bool = False) -> None:
        """Remove nodes from the graph.

        With `safe=True`, also drops their inputs, and refuses, without changes, if anything still uses their
        results.
        """
        self._body()._remove(_as_nodes(nodes), safe)

    def all_nodes(self) -> Iterator[Node]:
        """All nodes. Those of nested graphs follow the node that holds them."""
        stack = [iter(self._body())]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            yield node
            nested = _graphs_of(node)
            stack.extend(iter(g) for g in reversed(nested))

    def subgraphs(self) -> Iterator[Graph]:
        """All nested graphs, at any depth."""
        todo = list(self._body()._subgraphs())
        while todo:
            graph = todo.pop(0)
            yield graph
            todo = list(graph._subgraphs()) + todo

    inputs = property(
        lambda self: GraphInputs(self._body()),
        lambda self, values: self._body()._set_inputs(list(values)),
        doc="The inputs, in order; a list that may be changed.",
    )
    outputs = property(
        lambda self: GraphOutputs(self._body()),
        lambda self, values: self._body()._set_outputs(list(values)),
        doc="The outputs, in order; a list that may be changed.",
    )

    @property
    def opset_imports(self) -> OpsetImports:
        """The version of each operator domain."""
        return OpsetImports(self._body())

    def display(self, *, page: bool = False) -> None:
        """Print it."""
        print(self)


def _graphs_of(node: Node) -> list:
    found = []
    for item in node._attributes():
        if item[3] is None and item[1] == 5:
            found.append(item[2])
        elif item[3] is None and item[1] == 10:
            found.extend(item[2])
    return found


class Graph(_native.GraphBase, _NodeSequence):
    """A sequence of nodes with inputs, outputs and initializers. The graph owns the objects that it is made
    from."""

    __slots__ = ()

    def __init__(
        self,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        *,
        nodes: Iterable[Node],
        initializers: Sequence[Value] = (),
        doc_string: str | None = None,
        opset_imports: Mapping[str, int] | None = None,
        name: str | None = None,
        metadata_props: Mapping[str, str] | None = None,
    ):
        opsets = []
        for domain, version in (opset_imports or {}).items():
            if not isinstance(domain, str) or isinstance(version, bool) or not isinstance(version, int):
                raise WrongType(
                    f"opset_imports maps domains to versions, such as {{'': 23}}, not {domain!r} to {version!r}"
                )
            opsets.append((domain, version))
        if isinstance(initializers, Mapping):
            initializers = initializers.values()
        super().__init__(
            list(inputs),
            list(outputs),
            list(nodes),
            list(initializers),
            _text(doc_string, "doc_string"),
            opsets,
            _text(name, "name"),
            _pairs(metadata_props),
        )

    doc_string = _Documented.doc_string
    metadata_props = _Documented.metadata_props

    def _body(self) -> Graph:
        return self

    @property
    def name(self) -> str | None:
        return self._name or None

    @name.setter
    def name(self, name: str | None) -> None:
        self._set_name(_text(name, "name"))

    @property
    def initializers(self) -> GraphInitializers:
        """The initializers by name."""
        return GraphInitializers(self)

    def register_initializer(self, value: Value) -> None:
        """Add an initializer. Refuses one whose name another initializer has."""
        if not isinstance(value, _native.ValueBase):
            raise WrongType(f"an initializer is an ir.Value with a const_value, not {type(value).__name__}")
        existing = self._initializer(value.name or "")
        if existing is not None and existing is not value:
            raise Error(
                f"there is an initializer named '{value.name}' already, and it is another one: {existing!r}",
                notes=("choose another name, or take the old one out of graph.initializers first",),
            )
        self._put_initializer(value)

    def clone(self, allow_outer_scope_values: bool = False, deep_copy: bool = False) -> Graph:
        """A copy that belongs to no model yet. Payloads are shared, since they cannot change."""
        return self._clone(allow_outer_scope_values)

    def __str__(self) -> str:
        return _native.graph_text(self)

    def __repr__(self) -> str:
        return f"Graph(name={self.name!r}, inputs={self.inputs!r}, outputs={self.outputs!r}, len()={len(self)})"


class GraphView:
    """Some nodes of a graph with their inputs and outputs, as a sequence that owns nothing."""

    def __init__(
        self,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        *,
        nodes: Iterable[Node],
        initializers: Sequence[Value] = (),
        doc_string: str | None = None,
        opset_imports: Mapping[str, int] | None = None,
        name: str | None = None,
        metadata_props: Mapping[str, str] | None = None,
    ):
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.initializers = {v.name: v for v in initializers}
        self.doc_string = doc_string
        self.opset_imports = dict(opset_imports or {})
        self.name = name
        self.metadata_props = dict(metadata_props or {})
        self.meta = {}
        self._nodes = tuple(nodes)

    def __getitem__(self, index):
        return self._nodes[index]

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __reversed__(self) -> Iterator[Node]:
        return reversed(self._nodes)


class Function(_native.FunctionBase, _NodeSequence):
    """A graph that nodes can call by (domain, name, overload)."""

    __slots__ = ()

    def __init__(
        self,
        domain: str,
        name: str,
        overload: str = "",
        *,
        graph: Graph,
        attributes: Iterable[Attr] | Mapping[str, Attr] = (),
    ):
        if isinstance(attributes, Mapping):
            attributes = attributes.values()
        natives = [attr_to_native(a, allow_open=True) for a in attributes]
        super().__init__(_text(domain, "domain"), _text(name, "name"), _text(overload, "overload"), graph, natives)

    doc_string = _Documented.doc_string
    metadata_props = _Documented.metadata_props

    def _body(self) -> Graph:
        return self.graph

    def identifier(self) -> tuple[str, str, str]:
        """(domain, name, overload)"""
        return (self.domain, self.name, self.overload)

    @property
    def attributes(self) -> Attributes:
        """The parameters of the function; one without a value must be given by each call."""
        return Attributes(self)

    def num_nodes(self) -> int:
        return self.graph.num_nodes()

    def __len__(self) -> int:
        return len(self.graph)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.graph)

    def __reversed__(self) -> Iterator[Node]:
        return reversed(self.graph)

    def sort(self) -> None:
        self.graph.sort()

    def clone(self, deep_copy: bool = False) -> Function:
        """A copy that belongs to no model yet."""
        graph = self.graph.clone()
        copy = Function(self.domain, self.name, self.overload, graph=graph, attributes=self.attributes)
        copy.doc_string = self.doc_string
        copy.metadata_props.update(self.metadata_props)
        return copy

    def __str__(self) -> str:
        return str(self.graph)

    def __repr__(self) -> str:
        return f"Function({self.domain!r}, {self.name!r}, {self.overload!r}, inputs={self.inputs!r}, outputs={self.outputs!r})"


def _model_text(field: str):
    def get(self) -> str | None:
        return self._get_text(field)

    def put(self, text: str | None) -> None:
        self._set_text(field, _text(text, field))

    return property(get, put)


class Model(_native.ModelBase):
    """A graph, the functions it calls, and the file's metadata."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """The drawing that notebooks show. None where this build has no viewer: then they show the text."""
        try:
            return Page(_sardonyx.page(self, "model", []))._repr_html_()
        except Error:
            return None

    def __init__(
        self,
        graph: Graph,
        *,
        ir_version: int,
        producer_name: str | None = None,
        producer_version: str | None = None,
        domain: str | None = None,
        model_version: int | None = None,
        doc_string: str | None = None,
        functions: Sequence[Function] = (),
        metadata_props: Mapping[str, str] | None = None,
    ):
        if not isinstance(graph, _native.GraphBase):
            raise WrongType(f"a model is made from an ir.Graph, not {type(graph).__name__}")
        if isinstance(functions, Mapping):
            functions = functions.values()
        super().__init__(
            graph,
            ir_version,
            _text(producer_name, "producer_name"),
            _text(producer_version, "producer_version"),
            _text(domain, "domain"),
            model_version,
            _text(doc_string, "doc_string"),
            list(functions),
            _pairs(metadata_props),
        )

    producer_name = _model_text("producer_name")
    producer_version = _model_text("producer_version")
    domain = _model_text("domain")
    doc_string = _model_text("doc_string")
    metadata_props = _Documented.metadata_props

    @property
    def model_version(self) -> int | None:
        return self._model_version or None

    @model_version.setter
    def model_version(self, version: int | None) -> None:
        self._set_model_version(version or 0)

    @property
    def opset_imports(self) -> OpsetImports:
        """The version of each operator domain."""
        return self.graph.opset_imports

    @property
    def functions(self) -> Functions:
        """The functions by (domain, name, overload)."""
        return Functions(self)

    def graphs(self) -> Iterator[Graph]:
        """The main graph, all nested graphs, and those of functions."""
        yield self.graph
        yield from self.graph.subgraphs()
        for function in self._functions():
            yield function.graph
            yield from function.subgraphs()

    def __str__(self) -> str:
        return _native.model_text(self)

    def __repr__(self) -> str:
        return f"Model(graph={self.graph!r}, ir_version={self.ir_version}, opset_imports={self.opset_imports!r})"


def val(
    name: str | None,
    dtype: DataType | None = None,
    shape: Shape | Sequence[int | str | None] | None = None,
    *,
    type=None,
    const_value: Tensor | None = None,
    metadata_props: Mapping[str, str] | None = None,
) -> Value:
    """Make a value. With `const_value`, which sets its type, it can become an initializer."""
    if shape is not None and not isinstance(shape, Shape):
        shape = Shape(shape)
    if type is not None and dtype is not None and DataType(dtype) != type.dtype:
        raise Error(f"dtype={DataType(dtype)} does not match type={type!r}", notes=("give one of the two",))
    if const_value is not None:
        if not isinstance(const_value, _native.TensorBase):
            raise WrongType(
                f"const_value is an ir.Tensor, not {const_value.__class__.__name__}",
                notes=("ir.tensor(...) makes one",),
            )
        own = TensorType(const_value.dtype)
        if (type is not None and type != own) or (dtype is not None and DataType(dtype) != const_value.dtype):
            raise Error(
                f"the const_value has element type {const_value.dtype}, not {dtype if type is None else type!r}"
            )
        if shape is not None and shape != const_value.shape:
            raise Error(f"the const_value has shape {const_value.shape}, not {shape}")
        type, shape = own, const_value.shape
    elif type is None and dtype is not None:
        type = TensorType(dtype)
    return Value(name=name, type=type, shape=shape, const_value=const_value, metadata_props=metadata_props)


def Input(name: str | None = None, shape: Shape | None = None, type=None, doc_string: str | None = None) -> Value:
    """The same as Value(...), for code written when inputs were a separate class."""
    return Value(name=name, shape=shape, type=type, doc_string=doc_string)


def node(
    op_type: str,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, object] | None = None,
    *,
    domain: str = "",
    overload: str = "",
    num_outputs: int | None = None,
    outputs: Sequence[Value] | None = None,
    version: int | None = None,
    graph: Graph | None = None,
    name: str | None = None,
    doc_string: str | None = None,
    metadata_props: Mapping[str, str] | None = None,
) -> Node:
    """Make a node. The types of its attributes are inferred."""
    return Node(
        domain,
        op_type,
        inputs,
        attributes or (),
        overload=overload,
        num_outputs=num_outputs,
        outputs=outputs,
        version=version,
        graph=graph,
        name=name,
        doc_string=doc_string,
        metadata_props=metadata_props,
    )


_native.set_classes(Value, Node, Graph, Function, Model, Tensor)
