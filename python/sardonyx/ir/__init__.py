"""Graphs to look at, change and build: native objects with the names that users of onnx_ir know.

import numpy as np
from sardonyx import ir

x = ir.val("x", ir.DataType.FLOAT, ["N", 4])
b = ir.Builder()
y = b.Mul(x, b.initializer(ir.tensor(np.float32(0.5)), name="half"))
graph = ir.Graph([x], [y], nodes=b.nodes, initializers=b.initializers, opset_imports={"": 23}, name="scale")
ir.save(ir.Model(graph, ir_version=10), "scale.onnx")
"""

from sardonyx.ir import convenience, tape, traversal
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
from sardonyx.ir._serde import from_onnx_text, from_proto, load, save, to_onnx_text, to_proto
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
from sardonyx.ir._tensor import StringTensor, Tensor, tensor

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
    "AttributeType",
    "Builder",
    "DataType",
    "Function",
    "Graph",
    "GraphView",
    "Input",
    "Model",
    "Node",
    "OptionalType",
    "RefAttr",
    "SequenceType",
    "Shape",
    "SparseTensorType",
    "StringTensor",
    "SymbolicDim",
    "Tape",
    "Tensor",
    "TensorType",
    "TypeAndShape",
    "Usage",
    "Value",
    "convenience",
    "from_onnx_text",
    "from_proto",
    "load",
    "node",
    "save",
    "tape",
    "tensor",
    "to_onnx_text",
    "to_proto",
    "traversal",
    "val",
]
