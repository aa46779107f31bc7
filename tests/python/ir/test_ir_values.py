"""Values, shapes, types, tensors and attributes of sardonyx.ir."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
import sardonyx
from sardonyx import ir

SMALL = [t for t in ir.DataType if t not in (ir.DataType.UNDEFINED, ir.DataType.STRING)]


def test_val_has_name_type_and_shape():
    v = ir.val("x", ir.DataType.FLOAT, ["N", 42, None])
    assert v.name == "x"
    assert v.dtype is ir.DataType.FLOAT
    assert v.type == ir.TensorType(ir.DataType.FLOAT)
    assert v.shape == ir.Shape(["N", 42, None])
    assert v.shape[0] == "N" and isinstance(v.shape[0], ir.SymbolicDim)
    assert v.producer() is None and v.index() is None and v.graph is None
    assert v.uses() == () and v.consumers() == ()
    assert not v.is_graph_input() and not v.is_graph_output() and not v.is_initializer()


def test_what_is_not_known_is_none():
    v = ir.Value()
    assert (v.name, v.type, v.dtype, v.shape, v.const_value, v.doc_string) == (None,) * 6
    v.shape = ir.Shape([2, 3])
    assert v.dtype is None and v.shape == [2, 3]
    v.dtype = ir.DataType.INT32
    assert v.type == ir.TensorType(ir.DataType.INT32) and v.shape == [2, 3]
    v.shape = None
    assert v.shape is None and v.dtype is ir.DataType.INT32
    v.type = None
    assert v.type is None


def test_a_shape_writes_through_to_its_value():
    v = ir.val("x", ir.DataType.FLOAT, [2, 3])
    v.shape[0] = "N"
    assert v.shape == ["N", 3]
    s = ir.Shape([5, 7])
    v.shape = s
    s[1] = 11
    assert v.shape == [5, 11]
    s.freeze()
    with pytest.raises(TypeError, match="frozen"):
        s[0] = 1


def test_nested_types_keep_their_shape():
    v = ir.Value(name="s", type=ir.SequenceType(ir.TensorType(ir.DataType.FLOAT)), shape=ir.Shape([2, "N"]))
    assert v.type == ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))
    assert v.shape == [2, "N"] and v.dtype is ir.DataType.FLOAT
    v.dtype = ir.DataType.INT64
    assert v.type == ir.SequenceType(ir.TensorType(ir.DataType.INT64))
    o = ir.val("o", type=ir.OptionalType(ir.SequenceType(ir.TensorType(ir.DataType.BOOL))))
    assert o.type.elem_type.elem_type.dtype is ir.DataType.BOOL
    assert o.type != v.type and hash(o.type) == hash(ir.OptionalType(ir.SequenceType(ir.TensorType(ir.DataType.BOOL))))


def test_merge_shapes_keeps_what_is_better_known():
    v = ir.val("x", ir.DataType.FLOAT, [None, "N", 3, "M"])
    v.merge_shapes(ir.Shape(["B", 5, None, "K"]))
    assert v.shape == ["B", 5, 3, "M"]
    with pytest.raises(sardonyx.Error, match="contradict"):
        v.merge_shapes(ir.Shape(["B", 7, 3, "M"]))
    with pytest.raises(sardonyx.Error, match="rank"):
        v.merge_shapes(ir.Shape([1]))


def test_symbolic_dims_compute():
    n, m = ir.SymbolicDim("N"), ir.SymbolicDim("M")
    assert (n + 1).value == "N + 1" and (2 * n + m) == (m + n * 2)
    assert n - n == 0 and isinstance(n - n, int)
    assert (n * 4) // 2 == 2 * n
    assert (n * m + 1).free_symbols() == {"N", "M"}
    assert (n * m + 1).evaluate({"N": 3, "M": 5}) == 16
    assert (n * m).evaluate({"N": 3}) == 3 * m
    assert ir.SymbolicDim(None).value is None
    assert len({n, ir.SymbolicDim("N")}) == 1
    for wrong in (3, 1.5, True, []):
        with pytest.raises(TypeError):
            ir.SymbolicDim(wrong)


def test_shapes_are_sequences():
    s = ir.Shape([2, "N", None], denotations=["a", None, None])
    assert len(s) == s.rank() == 3 and s[1:] == ("N", None) and list(s)[0] == 2
    assert s.is_dynamic() and s.is_static(0) and s.is_dynamic(1) and s.is_unknown_dim(2) and s.has_unknown_dim()
    assert s.get_denotation(0) == "a" and s.free_symbols() == {"N"}
    assert s.evaluate({"N": 7}) == [2, 7, None]
    assert ir.Shape([2, 3]).numpy() == (2, 3)
    with pytest.raises(sardonyx.Error, match="not static"):
        s.numpy()
    for wrong in ("ab", [1.5], [True], [object()]):
        with pytest.raises(TypeError):
            ir.Shape(wrong)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_arrays_of_every_dtype_become_tensors_and_come_back(dtype):
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype.numpy())
    if dtype is ir.DataType.FLOAT8E8M0:  # has no zero
        array = np.array([[1, 2, 4], [1, 0.5, 1]]).astype(dtype.numpy())
    t = ir.tensor(array, name="t")
    assert t.dtype is dtype and t.shape == [2, 3] and t.size == 6 and t.name == "t"
    assert t.nbytes == -(-6 * dtype.bitwidth // 8) == len(t.tobytes())
    back = t.numpy()
    assert back.dtype == array.dtype and np.array_equal(back.view(np.uint8), array.view(np.uint8))
    assert not back.flags.writeable
    assert ir.DataType.from_numpy(array.dtype) is dtype
    assert ir.DataType.from_short_name(dtype.short_name()) is dtype


def test_negative_four_bit_integers_keep_their_sign():
    array = np.array([-8, -1, 0, 7, 3], ml_dtypes.int4)
    assert np.array_equal(ir.tensor(array).numpy(), array)
    assert ir.tensor(array).tobytes() == bytes([0xF8, 0x70, 0x03])


def test_arrays_are_not_copied():
    array = np.zeros((3, 4), np.float32)
    array[:] = np.arange(12).reshape(3, 4)
    t = ir.tensor(array)
    assert np.shares_memory(t.numpy(), array)
    alive = weakref.ref(array)
    del array
    gc.collect()
    assert alive() is not None and t.numpy()[2, 3] == 11
    view = t.numpy()
    del t
    gc.collect()
    assert view[0, 1] == 1  # the view keeps the tensor's bytes alive


def test_other_layouts_are_copied_rightly():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert np.array_equal(ir.tensor(array.T).numpy(), array.T)
    assert np.array_equal(ir.tensor(array[:, ::2]).numpy(), array[:, ::2])
    assert np.array_equal(ir.tensor(array.astype(">i4")).numpy(), array)
    assert ir.tensor(np.float64(2.5)).numpy() == 2.5 and ir.tensor(np.float64(2.5)).shape == []
    assert ir.tensor(np.zeros((0, 3), np.float32)).shape == [0, 3]


def test_plain_python_values_become_tensors():
    assert ir.tensor(3).dtype is ir.DataType.INT64
    assert ir.tensor([[1, 2], [3, 4]]).shape == [2, 2]
    assert ir.tensor(1.5).dtype is ir.DataType.FLOAT and ir.tensor([1.5, 2]).dtype is ir.DataType.FLOAT
    assert ir.tensor([True, False]).dtype is ir.DataType.BOOL
    assert ir.tensor([1, 2], dtype=ir.DataType.BFLOAT16).numpy().dtype == ml_dtypes.bfloat16
    s = ir.tensor(["a", "ß"])
    assert s.dtype is ir.DataType.STRING and s.string_data() == [b"a", "ß".encode()] and s.numpy()[1] == "ß".encode()
    assert ir.tensor([], dtype=ir.DataType.FLOAT).shape == [0]
    t = ir.tensor(1)
    assert ir.tensor(t) is t
    assert np.asarray(ir.tensor([1, 2]), dtype=np.float32).dtype == np.float32


def test_bits_may_stand_for_another_type():
    bits = np.array([0x3F80, 0x4000], np.uint16)
    assert list(ir.Tensor(bits, ir.DataType.BFLOAT16).numpy().astype(np.float32)) == [1.0, 2.0]
    with pytest.raises(sardonyx.Error, match="cannot be a tensor of FLOAT"):
        ir.Tensor(np.zeros(2, np.float64), ir.DataType.FLOAT)


@pytest.mark.parametrize(
    "wrong", [[], object(), [1, "a"], [[1], [2, 3]], None, {"a": 1}], ids=lambda v: type(v).__name__
)
def test_what_cannot_be_a_tensor_is_refused(wrong):
    with pytest.raises(ValueError) as e:
        ir.tensor(wrong)
    assert isinstance(e.value, sardonyx.Error)


def test_values_have_docs_metadata_and_notes():
    v = ir.Value(name="x", doc_string="about x", metadata_props={"a": "1"})
    assert v.doc_string == "about x" and v.metadata_props == {"a": "1"}
    v.metadata_props["b"] = "2"
    v.doc_string = None
    del v.metadata_props["a"]
    assert v.doc_string is None and dict(v.metadata_props) == {"b": "2"}
    v.meta["anything"] = [1, 2]
    assert v.meta["anything"] == [1, 2]
    with pytest.raises(TypeError):
        v.metadata_props["c"] = 3
    with pytest.raises(KeyError):
        v.metadata_props["missing"]


def test_val_with_a_constant_is_typed_by_it():
    t = ir.tensor(np.zeros((2, 3), np.float16))
    v = ir.val("w", const_value=t)
    assert v.dtype is ir.DataType.FLOAT16 and v.shape == [2, 3] and v.const_value is t
    for wrong in ({"dtype": ir.DataType.FLOAT}, {"shape": [3, 2]}, {"type": ir.TensorType(ir.DataType.INT8)}):
        with pytest.raises(sardonyx.Error, match="const_value"):
            ir.val("w", const_value=t, **wrong)
    v.name = "other"
    assert t.name == "other"


def test_attributes_hold_what_their_type_says():
    assert ir.AttrInt64("a", 3).as_int() == 3
    assert ir.AttrFloat32("a", 0.5).as_float() == 0.5
    assert ir.AttrString("a", "x").as_string() == "x"
    assert ir.AttrInt64s("a", [1, 2]).as_ints() == (1, 2)
    assert ir.AttrFloat32s("a", (1, 2.5)).as_floats() == (1.0, 2.5)
    assert ir.AttrStrings("a", ["x", "y"]).as_strings() == ("x", "y")
    t = ir.tensor([1.0])
    assert ir.AttrTensor("a", t).as_tensor() is t and ir.AttrTensors("a", [t]).as_tensors() == (t,)
    ref = ir.RefAttr("alpha", "outer", ir.AttributeType.FLOAT)
    assert ref.is_ref() and ref.ref_attr_name == "outer" and ref.value is None
    assert ir.Attr("to", ir.AttributeType.INT, 1) == ir.AttrInt64("to", 1) != ir.AttrInt64("to", 2)
    with pytest.raises(TypeError, match="INT, not FLOAT"):
        ir.AttrInt64("a", 3).as_float()
    for kind, value in (
        ("INT", 1.5),
        ("INT", "x"),
        ("INTS", 3),
        ("INTS", "ab"),
        ("FLOAT", "1"),
        ("STRING", 1),
        ("TENSOR", [1]),
    ):
        with pytest.raises(TypeError):
            ir.Attr("a", ir.AttributeType[kind], value)
    with pytest.raises(TypeError):
        ir.Attr("a", 3.5, ir.AttributeType.INT)


def test_attribute_types_are_found():
    kinds = {
        "INT": 1, "FLOAT": 1.0, "STRING": "s", "INTS": [1, 2], "FLOATS": [1, 2.5], "STRINGS": ["a"], "TENSOR": ir.tensor(1),
        "TENSORS": [ir.tensor(1)], "GRAPH": ir.Graph([], [], nodes=[]), "GRAPHS": [ir.Graph([], [], nodes=[])],
        "TYPE_PROTO": ir.TensorType(ir.DataType.FLOAT), "TYPE_PROTOS": [ir.TensorType(ir.DataType.FLOAT)],
    }  # fmt: skip
    for kind, value in kinds.items():
        assert ir.convenience.convert_attribute("a", value).type.name == kind
    assert ir.convenience.convert_attribute("a", np.int32(3)).as_int() == 3
    assert ir.convenience.convert_attribute("a", np.float32(0.5)).as_float() == 0.5
    assert ir.convenience.convert_attribute("a", True).as_int() == 1
    assert ir.convenience.convert_attribute("a", ir.DataType.FLOAT16).as_int() == 10
    assert ir.convenience.convert_attribute("a", [], ir.AttributeType.INTS).as_ints() == ()
    for wrong in (None, [], object(), [1, "a"], np.zeros(3), {}):
        with pytest.raises(sardonyx.Error):
            ir.convenience.convert_attribute("a", wrong)
    with pytest.raises(sardonyx.Error, match="called 'b'"):
        ir.convenience.convert_attribute("a", ir.AttrInt64("b", 1))


def test_dtype_facts():
    D = ir.DataType
    assert D.FLOAT.itemsize == 4 and D.INT4.itemsize == 0.5 and D.BFLOAT16.bitwidth == 16
    assert D.FLOAT.is_floating_point() and D.UINT4.is_integer() and not D.UINT8.is_signed() and D.STRING.is_string()
    assert D.INT8.min == -128 and D.INT8.max == 127 and D.FLOAT16.max == 65504 and D.FLOAT.eps == 2**-23
    with pytest.raises(TypeError):
        D.from_numpy(np.dtype("datetime64[s]"))
    with pytest.raises(TypeError):
        D.UNDEFINED.numpy()
