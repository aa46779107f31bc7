"""Reading and writing must change nothing: all models of the onnx package, and models with rare features."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_messages
import pytest
from command import sardonyx
from onnx import TensorProto, helper, numpy_helper
from sardonyx import Error, ir


def round_trip(model: onnx.ModelProto, folder: Path, *options: object) -> onnx.ModelProto:
    """`model` as Sardonyx writes it. Tensors in data files stay there."""
    (folder / "in.onnx").write_bytes(model.SerializeToString())
    sardonyx("optimize", folder / "in.onnx", "-o", folder / "out.onnx", "--passes", "none", *options)
    return onnx.load(folder / "out.onnx", load_external_data=False)


def check(model: onnx.ModelProto) -> str | None:
    try:
        onnx.checker.check_model(model)
    except Exception as e:  # the checker has no common type
        return str(e)
    return None


def fault(model: onnx.ModelProto, folder: Path) -> str | None:
    """The change that a round trip made, if any."""
    folder.mkdir()
    try:
        back = round_trip(model, folder)
    except AssertionError as e:
        return f"refused: {e}"
    if found := onnx_messages.same(model, back):
        return found
    if check(model) is None and (found := check(back)):
        return f"checker: {found}"
    return None


@functools.cache
def backend_models(kind: str) -> dict[str, onnx.ModelProto]:
    if kind == "light":
        folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
        return {p.stem: onnx.load(p) for p in sorted(folder.glob("*.onnx"))}
    from onnx.backend.test.loader import load_model_tests

    models = {}
    for case in load_model_tests(kind=kind):
        models[case.name] = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
    return models


MODELS = {"simple": 20, "light": 9, "pytorch-converted": 80, "pytorch-operator": 30, "node": 1500}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # onnx makes its cases with NumPy
@pytest.mark.parametrize("kind", MODELS)
def test_messages_survive(kind: str, tmp_path: Path) -> None:
    models = backend_models(kind)
    assert len(models) >= MODELS[kind]
    with ThreadPoolExecutor(2) as pool:
        faults = pool.map(lambda item: (item[0], fault(item[1], tmp_path / item[0])), models.items())
        wrong = [f"{name}: {found}" for name, found in faults if found]
    assert not wrong, f"{len(wrong)} of {len(models)}:\n" + "\n".join(wrong[:20])


# ---------------------------------------------------------------------------------------------------------------------
# Outputs


def random_inputs(model: onnx.ModelProto) -> dict[str, np.ndarray] | None:
    random = np.random.default_rng(0)
    initializers = {t.name for t in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name in initializers:
            continue
        tensor = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
            return None
        shape = [d.dim_value if d.HasField("dim_value") else 2 for d in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype == np.dtype(object):
            feeds[value.name] = np.full(shape, "word", dtype=object)
        else:
            feeds[value.name] = random.uniform(0, 2, shape).astype(dtype)
    return feeds


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[object] | None:
    """Results in onnxruntime, or in the reference evaluator where it has no kernel. None where neither runs
    the model."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)
    except Exception:  # no kernel, or inputs it cannot take
        pass
    try:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(model).run(None, feeds)
    except Exception:
        return None


def same_bits(a: object, b: object) -> bool:
    if isinstance(a, list | tuple):
        return isinstance(b, list | tuple) and len(a) == len(b) and all(map(same_bits, a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
    return type(a) is type(b) and repr(a) == repr(b)


RANDOM = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # onnx makes its cases with NumPy
@pytest.mark.parametrize("kind", MODELS)
def test_outputs_survive(kind: str, tmp_path: Path) -> None:
    compared, wrong = 0, []
    for name, model in backend_models(kind).items():
        feeds = random_inputs(model)
        if feeds is None:
            continue
        (tmp_path / name).mkdir()
        before = run(model, feeds)
        if before is None or RANDOM & {node.op_type for node in model.graph.node}:
            continue
        after = run(round_trip(model, tmp_path / name), feeds)
        compared += 1
        if after is None or not same_bits(before, after):
            wrong.append(name)
    assert not wrong, wrong
    assert compared >= MODELS[kind] // 2


# ---------------------------------------------------------------------------------------------------------------------
# Rare features

F32 = TensorProto.FLOAT


def small_graph(**fields: object) -> onnx.GraphProto:
    return helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], name="add")],
        "g",
        [helper.make_tensor_value_info("x", F32, ["N", 3])],
        [helper.make_tensor_value_info("y", F32, ["N", 3])],
        [numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")],
        **fields,
    )


def small_model(**fields: object) -> onnx.ModelProto:
    return helper.make_model(small_graph(), opset_imports=[helper.make_opsetid("", 21)], **fields)


def assert_survives(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    back = round_trip(model, folder)
    assert onnx_messages.same(model, back) is None
    return back


def add_metadata(message, what: str) -> None:
    message.metadata_props.add(key=f"{what} key", value=f"{what} value")
    message.metadata_props.add(key="empty", value="")


def test_the_comparison_sees_differences() -> None:
    """Tests the comparison itself: encodings do not count, everything else does."""
    a, b = small_model(), small_model()
    b.graph.initializer[0].ClearField("raw_data")
    b.graph.initializer[0].float_data.extend([0, 1, 2])
    b.doc_string = ""
    assert onnx_messages.same(a, b) is None
    for change in (
        lambda m: m.graph.initializer[0].float_data.__setitem__(1, 7),
        lambda m: m.graph.node[0].metadata_props.add(key="k"),
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_param", "M"),
        lambda m: setattr(m.graph.initializer[0], "doc_string", "d"),
        lambda m: m.graph.node.add(op_type="Relu", input=["y"], output=["z"]),
    ):
        changed = onnx.ModelProto()
        changed.CopyFrom(b)
        change(changed)
        assert onnx_messages.same(a, changed) is not None


def test_documentation_and_metadata_everywhere(tmp_path: Path) -> None:
    model = small_model(producer_name="p", producer_version="1", domain="d", model_version=7, doc_string="model doc")
    add_metadata(model, "model")
    graph = model.graph
    graph.doc_string = "graph doc"
    add_metadata(graph, "graph")
    graph.node[0].doc_string = "node doc"
    graph.node[0].overload = "o"
    add_metadata(graph.node[0], "node")
    graph.initializer[0].doc_string = "tensor doc"
    add_metadata(graph.initializer[0], "tensor")
    graph.value_info.append(helper.make_tensor_value_info("w", F32, [3], "value doc"))
    for value, what in ((graph.input[0], "input"), (graph.output[0], "output"), (graph.value_info[0], "value")):
        value.doc_string = what
        add_metadata(value, what)
    graph.input[0].type.denotation = "IMAGE"
    graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    assert_survives(model, tmp_path)


def test_training_info_annotations_and_configurations(tmp_path: Path) -> None:
    model = small_model()
    training = model.training_info.add()
    training.algorithm.CopyFrom(small_graph())
    training.initialization.CopyFrom(small_graph())
    training.update_binding.add(key="w", value="y")
    annotation = model.graph.quantization_annotation.add(tensor_name="w")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    configuration = model.configuration.add(name="two", num_devices=2)
    configuration.device.extend(["a", "b"])
    device = model.graph.node[0].device_configurations.add(configuration_id="two", pipeline_stage=1)
    device.sharding_spec.add(tensor_name="x", device=[0, 1])
    assert_survives(model, tmp_path)


def test_external_data_of_training_information_moves_with_the_model(tmp_path: Path) -> None:
    model = small_model()
    training = model.training_info.add()
    training.algorithm.CopyFrom(small_graph())
    big = numpy_helper.from_array(np.arange(5000, dtype=np.float32), "big")
    big.doc_string = "kept"
    training.algorithm.initializer.append(big)
    inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value=big)], "inner", [], [])
    training.initialization.node.append(helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner))
    whole = onnx.ModelProto.FromString(model.SerializeToString())
    # onnx does this for weights; do it here for the tensors that it forgets.
    data = big.raw_data
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "w.bin").write_bytes(bytes(64) + data)
    info = model.training_info[0]
    tensors = [info.algorithm.initializer[-1]]
    tensors += [a.g.node[0].attribute[0].t for a in info.initialization.node[-1].attribute]
    for t in tensors:
        t.ClearField("raw_data")
        t.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "w.bin"), ("offset", "64"), ("length", str(len(data)))):
            t.external_data.add(key=key, value=value)
    onnx.save(model, tmp_path / "first" / "m.onnx")

    read = ir.load(tmp_path / "first" / "m.onnx")
    ir.save(read, tmp_path / "inline.onnx")
    assert onnx.load(tmp_path / "inline.onnx").training_info == whole.training_info
    (tmp_path / "second").mkdir()
    ir.save(read, tmp_path / "second" / "m.onnx", external_data="n.bin")
    back = onnx.load(tmp_path / "second" / "m.onnx", load_external_data=False).training_info[0]
    entry = {e.key: e.value for e in back.algorithm.initializer[-1].external_data}
    assert entry["location"] == "n.bin" and back.algorithm.initializer[-1].doc_string == "kept"
    stored = (tmp_path / "second" / "n.bin").read_bytes()
    assert stored[int(entry["offset"]) :][: len(data)] == data

    (tmp_path / "first" / "w.bin").unlink()
    with pytest.raises(Error, match="w.bin"):
        ir.load(tmp_path / "first" / "m.onnx")


def test_sparse_initializers_and_attributes(tmp_path: Path) -> None:
    model = small_model()
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "s"),
        numpy_helper.from_array(np.array([1, 4], np.int64)),
        [2, 3],
    )
    model.graph.sparse_initializer.append(sparse)
    model.graph.node.append(helper.make_node("Identity", ["s"], ["dense"]))
    model.graph.node.append(helper.make_node("Constant", [], ["c"], sparse_value=sparse))
    back = assert_survives(model, tmp_path)
    assert len(back.graph.sparse_initializer) == 1


def test_local_functions(tmp_path: Path) -> None:
    def function(overload: str) -> onnx.FunctionProto:
        f = helper.make_function(
            "local",
            "twice",
            ["a"],
            ["b"],
            [helper.make_node("Add", ["a", "a"], ["m"]), helper.make_node("LeakyRelu", ["m"], ["b"])],
            [helper.make_opsetid("", 18)],
            attributes=["slope"],
            attribute_protos=[helper.make_attribute("beta", 2.5)],
            doc_string="function doc",
            overload=overload,
            value_info=[helper.make_tensor_value_info("m", F32, [3])],
        )
        reference = f.node[1].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
        assert reference.ref_attr_name
        add_metadata(f, "function")
        return f

    model = small_model(functions=[function(""), function("other")])
    model.opset_import.append(helper.make_opsetid("local", 1))
    for overload, (x, y) in {"": ("y", "z0"), "other": ("z0", "z1")}.items():
        model.graph.node.append(helper.make_node("twice", [x], [y], domain="local", overload=overload, slope=0.5))
    assert_survives(model, tmp_path)


def test_types_of_every_kind(tmp_path: Path) -> None:
    tensor = helper.make_tensor_type_proto(F32, ["N", None, 3])
    unranked = helper.make_tensor_type_proto(TensorProto.INT64, None)
    sequence = helper.make_sequence_type_proto(tensor)
    types = [
        tensor,
        unranked,
        sequence,
        helper.make_optional_type_proto(sequence),
        helper.make_map_type_proto(TensorProto.INT64, unranked),
        helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.STRING, tensor)),
        helper.make_sparse_tensor_type_proto(F32, [3, "M"]),
    ]
    opaque = onnx.TypeProto()
    opaque.opaque_type.domain, opaque.opaque_type.name = "some.domain", "Thing"
    types.append(opaque)
    model = small_model()
    for i, kind in enumerate(types):
        model.graph.input.append(helper.make_value_info(f"v{i}", kind))
    model.graph.input.append(onnx.ValueInfoProto(name="untyped"))
    model.graph.node.append(helper.make_node("Optional", [], ["o"], type=sequence))
    assert_survives(model, tmp_path)


def all_dtypes() -> list[int]:
    return [
        t
        for t in TensorProto.DataType.values()
        if t not in (TensorProto.UNDEFINED, TensorProto.STRING) and t <= TensorProto.INT2
    ]


@pytest.mark.parametrize("raw", [True, False])
def test_tensors_of_every_dtype(raw: bool, tmp_path: Path) -> None:
    model = small_model(ir_version=13)
    random = np.random.default_rng(0)
    for dtype in all_dtypes():
        name = TensorProto.DataType.Name(dtype)
        array = random.uniform(0, 3, 5).astype(helper.tensor_dtype_to_np_dtype(dtype))
        if np.iscomplexobj(array):
            array = array * (1 - 2j)
            array = array.astype(helper.tensor_dtype_to_np_dtype(dtype))
        tensor = numpy_helper.from_array(array, name)
        if not raw:
            values = array.tolist()
            if dtype in (TensorProto.FLOAT16, TensorProto.BFLOAT16):
                values = array.view(np.uint16).tolist()
                tensor.int32_data.extend(values)
                tensor.ClearField("raw_data")
            elif array.dtype.itemsize == 1 and dtype not in (TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT8):
                # Small floats, and sub-byte types packed into bytes: each byte is one number.
                tensor.int32_data.extend(tensor.raw_data)
                tensor.ClearField("raw_data")
            else:
                tensor = helper.make_tensor(name, dtype, array.shape, values)
                assert not tensor.HasField("raw_data")
        model.graph.initializer.append(tensor)
    strings = helper.make_tensor("strings", TensorProto.STRING, [3], [b"a", b"", b"\xff\x00b"])
    model.graph.initializer.append(strings)
    back = assert_survives(model, tmp_path)
    assert len(back.graph.initializer) == len(all_dtypes()) + 2
    assert (
        ml_dtypes.bfloat16
        == numpy_helper.to_array(next(t for t in back.graph.initializer if t.name == "BFLOAT16")).dtype
    )


def test_attributes_of_every_kind(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.arange(4, dtype=np.int32), "named")
    tensor.doc_string = "kept"
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"])], "body", [], [helper.make_tensor_value_info("r", F32, None)]
    )
    node = helper.make_node(
        "Anything",
        ["x", ""],
        ["", "q"],
        domain="other",
        f=0.1,
        i=-5,
        s=b"\x00bytes",
        t=tensor,
        g=body,
        floats=[1.0, float("nan")],
        ints=[1, -(2**63)],
        strings=["a", ""],
        tensors=[tensor, tensor],
        graphs=[body, body],
        tp=helper.make_tensor_type_proto(F32, [1]),
        type_protos=[helper.make_tensor_type_proto(F32, ["K"])],
    )
    node.attribute.add(name="no_ints", type=onnx.AttributeProto.INTS)
    one_graph = node.attribute.add(name="one_graph", type=onnx.AttributeProto.GRAPHS, doc_string="doc of a list of one")
    one_graph.graphs.add().CopyFrom(body)
    model = small_model()
    model.graph.node.append(node)
    model.opset_import.append(helper.make_opsetid("other", 3))
    assert_survives(model, tmp_path)


def test_nested_graphs_capture_by_name(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [helper.make_node("Add", ["x", "local"], ["i"])],
        "inner",
        [],
        [helper.make_tensor_value_info("i", F32, None)],
        [numpy_helper.from_array(np.ones(3, np.float32), "local")],
    )
    outer = helper.make_graph(
        [helper.make_node("If", ["c"], ["o"], then_branch=inner, else_branch=inner)],
        "outer",
        [],
        [helper.make_tensor_value_info("o", F32, None)],
    )
    model = small_model()
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    model.graph.node.append(helper.make_node("If", ["c"], ["z"], then_branch=outer, else_branch=outer))
    assert_survives(model, tmp_path)


def test_identity_of_domains_and_duplicates_of_outputs(tmp_path: Path) -> None:
    model = small_model()
    model.graph.node[0].domain = "ai.onnx"
    model.graph.output.append(model.graph.output[0])
    model.graph.output.append(model.graph.input[0])
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    assert_survives(model, tmp_path)


# ---------------------------------------------------------------------------------------------------------------------
# External data


def weights_model() -> onnx.ModelProto:
    model = small_model()
    for i, size in enumerate((7, 300, 5000)):
        array = np.random.default_rng(i).standard_normal(size).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, f"w{i}"))
    return model


def test_external_data_comes_in_and_goes_out(tmp_path: Path) -> None:
    original = weights_model()
    source = tmp_path / "source"
    source.mkdir()
    onnx.save(
        weights_model(),
        source / "m.onnx",
        save_as_external_data=True,
        location="m.bin",
        size_threshold=100,
    )
    # In: the weights are found beside the file, and by default go into the model.
    sardonyx("optimize", source / "m.onnx", "-o", tmp_path / "inside.onnx", "--passes", "none")
    inside = onnx.load(tmp_path / "inside.onnx")
    assert not (tmp_path / "inside.onnx.data").exists()
    assert onnx_messages.same(original, inside) is None
    # Out: aligned, dense, and what onnx itself reads back.
    sardonyx("optimize", source / "m.onnx", "-o", tmp_path / "out.onnx", "--passes", "none", "--external-data")
    out = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    places = {t.name: {e.key: e.value for e in t.external_data} for t in out.graph.initializer}
    assert places["w0"] == {}
    assert places["w1"] == {"location": "out.onnx.data", "offset": "0", "length": "1200"}
    assert places["w2"] == {"location": "out.onnx.data", "offset": "4096", "length": "20000"}
    assert (tmp_path / "out.onnx.data").stat().st_size == 24096
    assert onnx_messages.same(original, onnx.load(tmp_path / "out.onnx")) is None
    onnx.checker.check_model(str(tmp_path / "out.onnx"))


def test_external_data_in_attributes(tmp_path: Path) -> None:
    model = weights_model()
    value = numpy_helper.from_array(np.arange(2000, dtype=np.int64), "value")
    model.graph.node.append(helper.make_node("Constant", [], ["k"], value=value))
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, convert_attribute=True, size_threshold=100, location="d"
    )
    model.graph.node[-1].attribute[0].t.name = ""
    sardonyx("optimize", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--passes", "none", "--external-data")
    back = onnx.load(tmp_path / "out.onnx")
    np.testing.assert_array_equal(numpy_helper.to_array(back.graph.node[-1].attribute[0].t), np.arange(2000))


# ---------------------------------------------------------------------------------------------------------------------
# Bad input as users meet it


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "this is an empty file, not an ONNX model"),
        (b"not a model at all", "this is text, not an ONNX model"),
        (small_model().SerializeToString()[:-20], "damaged or not a model of this kind"),
    ],
)
def test_what_is_no_model_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "in.onnx").write_bytes(content)
    done = sardonyx("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", ok=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and says in done.stderr
    assert str(tmp_path / "in.onnx") in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.onnx"]


def test_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "in.onnx").write_bytes(small_model().SerializeToString())
    assert sardonyx("check", tmp_path / "in.onnx").returncode == 0
    assert sardonyx("check", tmp_path / "missing.onnx", ok=False).returncode == 1
    assert sardonyx("frobnicate", ok=False).returncode == 2
    assert sardonyx("optimize", tmp_path / "in.onnx", ok=False).returncode == 2
    done = sardonyx("optimize", tmp_path / "in.onnx", "-o", tmp_path / "in.onnx" / "out.onnx", ok=False)
    assert done.returncode == 1 and "error: " in done.stderr


def test_check_names_faults_and_doubts(tmp_path: Path) -> None:
    model = small_model()
    model.graph.node[0].attribute.append(helper.make_attribute("axsi", 1))
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    done = sardonyx("check", tmp_path / "in.onnx")
    assert "warning: Add-14 has no attribute 'axsi'" in done.stdout
    model.graph.node.append(helper.make_node("MatMul", ["x", "x", "x"], ["z"]))
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    done = sardonyx("check", tmp_path / "in.onnx", ok=False)
    assert done.returncode == 1 and "fault: MatMul: takes 2 operands, not 3" in done.stdout, done.stdout


def test_info_counts(tmp_path: Path) -> None:
    import json

    (tmp_path / "in.onnx").write_bytes(weights_model().SerializeToString())
    shown = json.loads(sardonyx("info", "--json", tmp_path / "in.onnx").stdout)[0]
    assert shown["ops"] == {"Add": 1}
    assert shown["tensors"] == 4 and shown["tensor_bytes"] == 4 * (3 + 7 + 300 + 5000)
    assert shown["inputs"] == [{"name": "x", "type": "f32[N,3]"}]
    assert "f32[N,3]" in sardonyx("info", tmp_path / "in.onnx").stdout


def test_text_becomes_a_model(tmp_path: Path) -> None:
    (tmp_path / "p.sx").write_text("graph jax(x: f32[2,3]) { y: f32[2,3] = neg(x)  return y }")
    sardonyx("convert", tmp_path / "p.sx", "-o", tmp_path / "p.onnx")
    model = onnx.load(tmp_path / "p.onnx")
    onnx.checker.check_model(model)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run(model, {model.graph.input[0].name: x})[0], -x)
    assert "Neg" in sardonyx("view", tmp_path / "p.onnx").stdout
    for text, says in (
        ("graph jax(x: f32[2]) { y = neg(x)  return y }", "has no type"),
        ("graph(x: f32[2]) { y = Relu(x return y }", "p.sx:1:"),
    ):
        (tmp_path / "p.sx").write_text(text)
        done = sardonyx("convert", tmp_path / "p.sx", "-o", tmp_path / "bad.onnx", ok=False)
        assert done.returncode == 1 and says in done.stderr, done.stderr
