"""Handles of graphs; sardonyx.ir is what people use."""



def dim_arithmetic(op: str, a: object | None, b: object | None) -> object: ...

def dim_substitute(dim: object | None, bindings: dict) -> object: ...

def dim_symbols(dim: object | None) -> list[str]: ...

def set_classes(arg0: object, arg1: object, arg2: object, arg3: object, arg4: object, arg5: object, /) -> None: ...

def newest_opset(arg: str, /) -> int: ...

class TensorBytes:
    pass

class TensorBase:
    """A constant's payload."""

    def __init__(self) -> None: ...

    @property
    def size(self) -> int:
        """The number of elements."""

    @property
    def nbytes(self) -> int:
        """The number of bytes."""

    @property
    def name(self) -> str | None:
        """The tensor's name, or None."""

    @name.setter
    def name(self, name: str | None) -> None: ...

    @property
    def doc_string(self) -> str | None: ...

    @doc_string.setter
    def doc_string(self, doc: str | None) -> None: ...

class ValueBase:
    def __init__(self, arg: str, /) -> None: ...

    @property
    def meta(self) -> object:
        """A dict of anything, kept as long as the model and never written."""

    def producer(self) -> object:
        """
        The node that computes this value; None for inputs, initializers and values without a producer yet.
        """

    def index(self) -> object:
        """Which result of its producer this is, or None."""

    @property
    def graph(self) -> object:
        """The graph that defines this value, or None."""

    def is_graph_input(self) -> bool: ...

    def is_graph_output(self) -> bool: ...

    def is_initializer(self) -> bool: ...

    def replace_all_uses_with(self, replacement: ValueBase, replace_graph_outputs: bool = False) -> None:
        """
        Make all readers of this value read `replacement`. A graph output is replaced only when asked for.
        """

class Stage:
    """Keeps what a tape records in one model."""

    def __init__(self) -> None: ...

class NodeBase:
    def __init__(self, domain: str, op_type: str, inputs: object, attributes: object, overload: str, num_outputs: int | None, outputs: object | None, version: int | None, graph: GraphBase | None, name: str, doc: str, metadata: object, stage: Stage | None) -> None: ...

    @property
    def meta(self) -> object:
        """A dict of anything, kept as long as the model and never written."""

    @property
    def inputs(self) -> tuple:
        """
        What the node reads, None where an optional input is absent. See replace_input_with.
        """

    @property
    def outputs(self) -> tuple:
        """What the node computes."""

    @property
    def graph(self) -> object:
        """The graph that has this node, or None."""

    def replace_input_with(self, index: int, value: ValueBase | None) -> None:
        """Read `value` (or nothing) at input `index`."""

    def resize_inputs(self, new_size: int) -> None:
        """Change the number of inputs; new ones are None."""

    def resize_outputs(self, new_size: int) -> None:
        """Change the number of outputs; those that go must not be read."""

class NodeWalk:
    def __iter__(self) -> object: ...

    def __next__(self) -> object: ...

class GraphBase:
    def __init__(self, arg0: object, arg1: object, arg2: object, arg3: object, arg4: str, arg5: object, arg6: str, arg7: object, /) -> None: ...

    @property
    def meta(self) -> object:
        """A dict of anything, kept as long as the model and never written."""

    def num_nodes(self) -> int:
        """The number of nodes, those of nested graphs not counted."""

    def __len__(self) -> int: ...

    def __bool__(self) -> bool: ...

    def __iter__(self) -> NodeWalk: ...

    def __reversed__(self) -> NodeWalk: ...

    def sort(self) -> None:
        """
        Put the nodes of this graph and of all nested ones into topological order, changing as little as possible.
        """

class FunctionBase:
    def __init__(self, arg0: str, arg1: str, arg2: str, arg3: object, arg4: object, /) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def domain(self) -> str: ...

    @domain.setter
    def domain(self, arg: str, /) -> None: ...

    @property
    def overload(self) -> str: ...

    @overload.setter
    def overload(self, arg: str, /) -> None: ...

    @property
    def graph(self) -> object:
        """The function's body."""

    @property
    def meta(self) -> object: ...

class ModelBase:
    def __init__(self, graph: GraphBase, ir_version: int, producer_name: str, producer_version: str, domain: str, model_version: int | None, doc: str, functions: object, metadata: object) -> None: ...

    @property
    def graph(self) -> object:
        """The main graph."""

    @property
    def ir_version(self) -> int: ...

    @ir_version.setter
    def ir_version(self, arg: int, /) -> None: ...

    @property
    def meta(self) -> object: ...

    def clone(self) -> object:
        """A copy that shares nothing that can change."""

def read_path(arg0: str, arg1: bool, /) -> object: ...

def read_bytes(arg0: bytes, arg1: str, /) -> object: ...

def free_node(arg: NodeBase, /) -> object: ...

def free_graph(arg: GraphBase, /) -> object: ...

def verify(arg0: ModelBase, arg1: bool, /) -> None: ...

def warnings(arg: ModelBase, /) -> list[str]: ...

def check_complete(arg: ModelBase, /) -> None: ...

def write_path(arg0: ModelBase, arg1: str, arg2: bool, arg3: str, arg4: int, arg5: int, /) -> None: ...

def serialize(arg: ModelBase, /) -> bytes: ...

def infer_types(arg: ModelBase, /) -> list[str]: ...

def graph_text(arg: GraphBase, /) -> str: ...

def model_text(arg: ModelBase, /) -> str: ...
