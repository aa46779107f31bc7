"""Inspect, change and build graphs: native objects under the names that users of onnx_ir know.

For example:

    import numpy as np
    from sardonyx import ir

    x = ir.val("x", ir.DataType.FLOAT, ["N", 4])
    b = ir.Builder()
    y = b.Mul(x, b.initializer(ir.tensor(np.float32(0.5)), name="half"))
    graph = ir.Graph([x], [y], nodes=b.nodes, initializers=b.initializers, opset_imports={"": 23}, name="scale")
    ir.save(ir.Model(graph, ir_version=10), "scale.onnx")
"""

from sardonyx.ir import convenience, serde, tape, traversal
from sardonyx.ir._attr import (
    Attr,
    AttrFloat32,
    AttrFloat32s,
    AttrGraph,
    AttrGraphs,
    AttrInt64,
    AttrInt64s,
    AttrString,
    AttrStrings,
    AttrTensor,
    AttrTensors,
    AttrTypeProto,
    AttrTypeProtos,
    RefAttr,
)
from sardonyx.ir._core import Function, Graph, GraphView, Input, Model, Node, Usage, Value, node, val
from sardonyx.ir._enums import AttributeType, DataType
from sardonyx.ir._serde import from_onnx_text, from_proto, load, save, to_onnx_text, to_proto, verify, warnings
from sardonyx.ir._shape import (
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    SymbolicDim,
    TensorType,
    TypeAndShape,
)
from sardonyx.ir._tape import Builder, Tape
from sardonyx.ir._tensor import SparseTensor, StringTensor, Tensor, tensor

# Names for annotations in code written for onnx_ir.
TensorProtocol = Tensor
ValueProtocol = Value
NodeProtocol = Node
GraphProtocol = Graph
GraphViewProtocol = GraphView
FunctionProtocol = Function
ModelProtocol = Model
AttributeProtocol = Attr
ReferenceAttributeProtocol = Attr
ShapeProtocol = Shape
SymbolicDimProtocol = SymbolicDim
TypeProtocol = TensorType | SparseTensorType | SequenceType | OptionalType
OperatorIdentifier = tuple[str, str, str]

__all__ = [
    "Attr",
    "AttrFloat32",
    "AttrFloat32s",
    "AttrGraph",
    "AttrGraphs",
    "AttrInt64",
    "AttrInt64s",
    "AttrString",
    "AttrStrings",
    "AttrTensor",
    "AttrTensors",
    "AttrTypeProto",
    "AttrTypeProtos",
    "AttributeProtocol",
    "AttributeType",
    "Builder",
    "DataType",
    "Function",
    "FunctionProtocol",
    "Graph",
    "GraphProtocol",
    "GraphView",
    "GraphViewProtocol",
    "Input",
    "Model",
    "ModelProtocol",
    "Node",
    "NodeProtocol",
    "OperatorIdentifier",
    "OptionalType",
    "RefAttr",
    "ReferenceAttributeProtocol",
    "SequenceType",
    "Shape",
    "ShapeProtocol",
    "SparseTensorType",
    "SparseTensor",
    "StringTensor",
    "SymbolicDim",
    "SymbolicDimProtocol",
    "Tape",
    "Tensor",
    "TensorProtocol",
    "TensorType",
    "TypeAndShape",
    "TypeProtocol",
    "Usage",
    "Value",
    "ValueProtocol",
    "convenience",
    "from_onnx_text",
    "from_proto",
    "load",
    "node",
    "save",
    "serde",
    "tape",
    "tensor",
    "to_onnx_text",
    "to_proto",
    "traversal",
    "val",
    "verify",
    "warnings",
]
