"""ONNX models whose meaning the standard leaves open, or where onnxruntime goes beyond it: what is optimized computes what
onnxruntime computed before, at its default optimization level and without optimizations."""

import numpy as np
import onnx
import onnxruntime
import pytest
import sardonyx
from judge import RUNTIME
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
LEVELS = [onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL]
LARGEST = 2**63 - 1
node = helper.make_node


def value(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, constants=(), inner=(), imports=(("", 17),)):
    constants = [numpy_helper.from_array(np.asarray(a), name) for name, a in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants, value_info=list(inner))
    made = helper.make_model(graph, ir_version=8)
    del made.opset_import[:]
    made.opset_import.extend(helper.make_opsetid(*i) for i in imports)
    return made


def run(m, feeds, level):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def optimized(m, *feeds):
    """The optimized model, which gives what `m` gives without onnxruntime's optimizations, for each of `feeds`."""
    made = sardonyx.optimize(m)
    for feed in feeds:
        expected = run(m, feed, LEVELS[0])
        for level in LEVELS:
            for a, b in zip(run(made, feed, level), expected, strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return made


def operators(m):
    return [n.op_type for n in m.graph.node]


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# --- Slice


@pytest.mark.parametrize("size", [["N"], [7]])
@pytest.mark.parametrize("end", [LARGEST, 2**31 - 1, 2**31, -8])
@pytest.mark.parametrize("first", [-1, 1])
@pytest.mark.parametrize("second", [-1, 1])
def test_the_largest_end_of_a_backward_slice_reaches_the_first_element(size, end, first, second):
    m = model(
        [
            node("Slice", ["x", "from", "end", "axis", "by"], ["a"]),
            node("Slice", ["a", "from", "end", "axis", "by2"], ["y"]),
        ],
        [value("x", size)],
        [value("y", None)],
        {"from": [-1], "end": [end], "axis": [0], "by": [first], "by2": [second]},
    )
    optimized(m, {"x": numbers(7)})


def test_a_backward_slice_of_a_shape_is_not_empty():
    m = model(
        [
            node("Shape", ["x"], ["s"]),
            node("Slice", ["s", "from", "end", "axis", "by"], ["back"]),
            node("Reshape", ["x", "back"], ["y"]),
        ],
        [value("x", ["A", "B", 3])],
        [value("y", None)],
        {"from": [-1], "end": [LARGEST], "axis": [0], "by": [-1]},
    )
    optimized(m, {"x": numbers(2, 5, 3)}, {"x": numbers(7, 1, 3)})


# --- SplitToSequence


@pytest.mark.parametrize("shape", [[3, 5], ["N", 5], None])
@pytest.mark.parametrize("sizes", [1, [1, 1, 1], [2, 1], None])
def test_a_split_into_ones_drops_the_axis_if_one_number_gives_the_size(shape, sizes):
    m = model(
        [
            node("SplitToSequence", ["x"] + ["sizes"] * (sizes is not None), ["all"], axis=0, keepdims=0),
            node("SequenceAt", ["all", "place"], ["part"]),
            node("Shape", ["part"], ["y"]),
        ],
        [value("x", shape)],
        [value("part", None), value("y", None, INT)],
        {"place": -1} | ({"sizes": sizes} if sizes is not None else {}),
    )
    optimized(m, {"x": numbers(3, 5)})


# --- emptiness


def maximum_or(nodes, condition, is_empty, number):
    fallback = helper.make_graph([node("Identity", ["fallback"], ["p"])], "empty", [], [value("p", [])])
    maximum = helper.make_graph([node("ReduceMax", ["x"], ["q"], keepdims=0)], "rows", [], [value("q", [])])
    branches = (fallback, maximum) if is_empty else (maximum, fallback)
    return model(
        [*nodes, node("If", [condition], ["y"], then_branch=branches[0], else_branch=branches[1])],
        [value("x", ["N", 3])],
        [value("y", [])],
        {"number": number, "fallback": np.float32(-7)},
    )


@pytest.mark.parametrize(
    ("comparison", "operands", "number", "is_empty"),
    [
        ("Equal", ["size", "number"], 0, True),
        ("Equal", ["number", "size"], 0, True),
        ("Less", ["size", "number"], 1, True),
        ("LessOrEqual", ["size", "number"], 0, True),
        ("Greater", ["size", "number"], 0, False),
        ("Less", ["number", "size"], 0, False),
        ("GreaterOrEqual", ["size", "number"], 1, False),
    ],
)
def test_a_model_that_asks_whether_an_input_is_empty_is_answered_at_run_time(comparison, operands, number, is_empty):
    m = maximum_or([node("Size", ["x"], ["size"]), node(comparison, operands, ["c"])], "c", is_empty, np.int64(number))
    optimized(m, {"x": numbers(0, 3)}, {"x": numbers(2, 3)})


def test_what_holds_for_empty_inputs_too_is_still_decided():
    m = maximum_or([node("Size", ["x"], ["size"]), node("Less", ["size", "number"], ["c"])], "c", True, np.int64(0))
    assert operators(optimized(m, {"x": numbers(2, 3)})) == ["ReduceMax"]


def standardized(shape, size):
    return model(
        [
            node("ReduceMean", ["x"], ["mean"], axes=[-1]),
            node("Sub", ["x", "mean"], ["d"]),
            node("Mul", ["d", "d"], ["square"]),
            node("ReduceMean", ["square"], ["variance"], axes=[-1]),
            node("Add", ["variance", "eps"], ["more"]),
            node("Sqrt", ["more"], ["deviation"]),
            node("Div", ["d", "deviation"], ["q"]),
            node("Mul", ["q", "gain"], ["scaled"]),
            node("Add", ["scaled", "bias"], ["y"]),
        ],
        [value("x", shape)],
        [value("y", None)],
        {"eps": np.float32(1e-5), "gain": numbers(size), "bias": numbers(size)},
    )


@pytest.mark.parametrize("shape", [[3, 0], ["B", 0], ["B", 3, 0]])
def test_no_layer_normalization_over_an_axis_of_size_0(shape):
    if "B" in shape and RUNTIME < (1, 27):
        pytest.skip("this onnxruntime does not load such a model at its default level")
    feed = {"x": numbers(*(2 if d == "B" else d for d in shape))}
    assert "LayerNormalization" not in operators(optimized(standardized(shape, shape[-1]), feed))


@pytest.mark.parametrize(("shape", "target"), [([1, 1, 2], [0, 1, 2]), ([1], [0]), ([3, 1], [3, 0])])
@pytest.mark.parametrize("after", ["Neg", "Identity"])
def test_an_expand_to_no_elements_survives_the_runtimes_optimizer(shape, target, after):
    """onnxruntime removes such an Expand behind another node, so that the result has elements."""
    m = model(
        [node("Relu", ["x"], ["a"]), node("Expand", ["a", "target"], ["b"]), node(after, ["b"], ["y"])],
        [value("x", shape)],
        [value("y", None)],
        {"target": target},
    )
    optimized(m, {"x": numbers(*shape)})


def test_an_inner_size_of_0_that_is_only_declared_is_not_believed():
    m = model(
        [node("NonZero", ["x"], ["places"]), node("Cast", ["places"], ["a"], to=FLOAT), node("Neg", ["a"], ["y"])],
        [value("x", [5])],
        [value("y", None)],
        inner=[value("places", [1, 0], INT), value("a", [1, 0])],
    )
    optimized(m, {"x": numbers(5)})


@pytest.mark.parametrize("keepdims", [0, 1])
def test_the_mean_of_no_elements_is_left_to_the_runtime(keepdims):
    m = model(
        [node("ReduceMean", ["none"], ["mean"], axes=[1], keepdims=keepdims), node("Add", ["mean", "x"], ["y"])],
        [value("x", [])],
        [value("y", None)],
        {"none": np.zeros((3, 0), np.float32)},
    )
    optimized(m, {"x": numbers()})


# --- declared shapes


def test_a_rank_that_only_the_branch_not_taken_has_is_not_believed():
    """PyTorch writes scatter_reduce so: for scalars one branch, with whose rank the other one's result is declared."""
    flat = helper.make_graph([node("Reshape", ["x", "all"], ["p"])], "scalar", [], [value("p", ["F"])])
    same = helper.make_graph([node("Identity", ["x"], ["q"])], "tensor", [], [value("q", ["V", 3])])
    squeezed = helper.make_graph([node("Squeeze", ["s"], ["t"])], "scalar2", [], [value("t", None)])
    kept = helper.make_graph([node("Identity", ["s"], ["u"])], "tensor2", [], [value("u", ["F"])])
    m = model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Size", ["shape"], ["rank"]),
            node("Equal", ["rank", "zero"], ["c"]),
            node("If", ["c"], ["r"], then_branch=flat, else_branch=same),
            node("Sigmoid", ["r"], ["s"]),
            node("If", ["c"], ["v"], then_branch=squeezed, else_branch=kept),
            node("Shape", ["v"], ["found"]),
            node("Gather", ["found", "zero"], ["rows"]),
            node("Unsqueeze", ["rows", "first"], ["listed"]),
            node("Concat", ["listed", "all"], ["target"], axis=0),
            node("Reshape", ["v", "target"], ["w"]),
            node("Softmax", ["w"], ["y"], axis=-1),
        ],
        [value("x", ["V", 3])],
        [value("y", ["F", 1])],
        {"all": [-1], "zero": np.int64(0), "first": [0]},
    )
    made = optimized(m, {"x": numbers(5, 3)}, {"x": numbers(1, 3)})
    assert operators(made) == ["Sigmoid", "Softmax"]


@pytest.mark.parametrize("declared", [[2, 5], [2], [2, 3, 1]])
@pytest.mark.parametrize("where", ["inner", "result"])
def test_a_declared_shape_that_inference_contradicts_is_corrected(tmp_path, declared, where):
    m = model(
        [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["y"])],
        [value("x", [2, 3])],
        [value("y", declared if where == "result" else None)],
        inner=[value("a", declared)] if where == "inner" else [],
    )
    made, report = sardonyx.optimize(m, return_report=True)
    warned = report.warnings
    np.testing.assert_array_equal(run(made, {"x": numbers(2, 3)}, LEVELS[1])[0], -np.maximum(numbers(2, 3), 0))
    assert len(warned) == 1 and "was declared as" in warned[0]
    assert [d.dim_value for d in made.graph.output[0].type.tensor_type.shape.dim] in ([], [2, 3])
    _, report = sardonyx.optimize(made, return_report=True)
    assert report.warnings == []
    sardonyx.to_coreml(m, output_path=tmp_path / "m.mlpackage")


@pytest.mark.parametrize("carried", [[5, 5], [6]])
def test_a_loop_whose_body_declares_another_shape_than_it_gets(carried):
    body = helper.make_graph(
        [node("Sigmoid", ["a"], ["b"]), node("Identity", ["go"], ["on"]), node("Neg", ["a"], ["row"])],
        "body",
        [value("i", [], INT), value("go", [], BOOL), value("a", carried)],
        [value("on", [], BOOL), value("b", carried), value("row", carried)],
    )
    m = model(
        [node("Loop", ["count", "", "x"], ["y", "rows"], body=body)],
        [value("x", ["N", 3]), value("count", [], INT)],
        [value("y", None), value("rows", None)],
    )
    optimized(m, {"x": numbers(2, 3), "count": np.array(2)})


# --- imports


def test_a_domain_that_no_import_names_gets_one():
    m = model(
        [node("Gelu", ["x"], ["a"], domain="com.microsoft", name="here"), node("Neg", ["a"], ["y"])],
        [value("x", [2, 3])],
        [value("y", [2, 3])],
    )
    made, report = sardonyx.optimize(m, return_report=True)
    warned = report.warnings
    assert [(i.domain, i.version) for i in made.opset_import] == [("", 17), ("com.microsoft", 1)]
    assert sum("com.microsoft" in w and "'here'" in w for w in warned) == 1
    optimized(m, {"x": numbers(2, 3)})


def test_a_missing_import_of_the_default_domain_is_an_opset_that_all_releases_load():
    m = model(
        [node("Softmax", ["x"], ["y"])], [value("x", [2, 3, 5])], [value("y", None)], imports=[("com.microsoft", 1)]
    )
    made = optimized(m, {"x": numbers(2, 3, 5)})
    assert {i.domain: i.version for i in made.opset_import}[""] == 23


@pytest.mark.parametrize(
    "imports", [[("", 11), ("", 13)], [("", 13), ("", 11)], [("ai.onnx", 13), ("", 11)], [("", 0), ("", 13)]]
)
def test_of_two_imports_of_a_domain_the_last_one_counts(imports):
    m = model([node("Softmax", ["x"], ["y"])], [value("x", [2, 3, 5])], [value("y", None)], imports=imports)
    optimized(m, {"x": numbers(2, 3, 5)})


def test_a_domain_that_no_runtime_knows_needs_an_import():
    m = model([node("Foo", ["x"], ["y"], domain="mine")], [value("x", [2])], [value("y", [2])])
    with pytest.raises(sardonyx.Error, match="imports no opset of domain 'mine'"):
        sardonyx.optimize(m)


# --- bodies of a runtime's operators


def test_inputs_of_the_bodies_of_a_runtimes_operator_keep_their_names():
    def body(name, inputs):
        nodes = [node("Add", inputs, [f"{name}_out"])]
        return helper.make_graph(nodes, name, [value(i, [2, 3]) for i in inputs], [value(f"{name}_out", [2, 3])])

    search = node(
        "BeamSearch",
        ["input_ids"],
        ["y"],
        domain="com.microsoft",
        encoder=body("encoder", ["encoder_input_ids", "input_ids"]),
        decoder=body("decoder", ["input_ids", "encoder_input_ids"]),
    )
    m = model(
        [node("Neg", ["x"], ["encoder_input_ids"]), node("Abs", ["encoder_input_ids"], ["input_ids"]), search],
        [value("x", [2, 3])],
        [value("y", None)],
        imports=[("", 17), ("com.microsoft", 1)],
    )
    made = sardonyx.optimize(m)
    bodies = {a.name: a.g for n in made.graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH}
    assert [i.name for i in bodies["encoder"].input] == ["encoder_input_ids", "input_ids"]
    assert [i.name for i in bodies["decoder"].input] == ["input_ids", "encoder_input_ids"]


# --- results


def test_a_value_that_is_returned_twice_under_one_name():
    m = model(
        [node("Relu", ["x"], ["y"]), node("Neg", ["y"], ["z"])],
        [value("x", [2, 3])],
        [value("y", [2, 3]), value("z", [2, 3]), value("y", [2, 3])],
    )
    made = sardonyx.optimize(m)
    for level in LEVELS:
        for a, b in zip(run(made, {"x": numbers(2, 3)}, level), run(m, {"x": numbers(2, 3)}, level), strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_empty_result_whose_size_is_declared_with_a_name_can_be_read_again(tmp_path):
    m = model(
        [node("NonZero", ["zeros"], ["y"]), node("Neg", ["x"], ["z"])],
        [value("x", [3])],
        [value("y", [1, "N"], INT), value("z", [3])],
        {"zeros": np.zeros(5, np.float32)},
    )
    made = optimized(m, {"x": numbers(3)})
    assert sardonyx.optimize(made).SerializeToString() == made.SerializeToString()
    onnx.save(made, tmp_path / "m.onnx")
    assert sardonyx.check(tmp_path / "m.onnx").faults == []


# --- names of sizes


def test_names_that_an_exporter_invents_for_each_unknown_size_do_not_stop_the_last_fusion():
    """tf2onnx names the sizes of each value anew: unk__0, unk__1, ..."""
    m = model(
        [node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "bias"], ["y"])],
        [value("x", ["unk__0", 5])],
        [value("y", ["unk__7", 7])],
        {"w": numbers(5, 7), "bias": numbers(7)},
        inner=[value("a", ["unk__3", 7])],
    )
    made = optimized(m, {"x": numbers(3, 5)})
    assert operators(made) == ["Gemm"]
    assert made.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "unk__7"


# --- constants


def test_an_initializer_that_is_a_result_needs_no_copy():
    m = model(
        [node("Add", ["x", "c"], ["y"]), node("Add", ["less", "one"], ["z"])],
        [value("x", ["N", 5])],
        [value("y", ["N", 5]), value("z", [5])],
        {"c": np.full(5, 3, np.float32), "less": np.full(5, 2, np.float32), "one": np.float32(1)},
    )
    made = optimized(m, {"x": numbers(3, 5)})
    assert operators(made) == ["Add"]
    assert [t.name for t in made.graph.initializer] == ["z"]


def test_an_initializer_that_is_two_results_keeps_one_name():
    m = model(
        [node("Add", ["x", "c"], ["y"]), node("Identity", ["c"], ["z"])],
        [value("x", ["N", 5])],
        [value("y", ["N", 5]), value("c", [5]), value("z", [5])],
        {"c": numbers(5)},
    )
    assert operators(optimized(m, {"x": numbers(3, 5)})) == ["Add", "Identity"]


def test_large_standardized_weights_are_folded():
    """A batch normalization that trains, on a constant: how timm writes standardized convolutions."""
    m = model(
        [
            node("Reshape", ["w", "rows"], ["a"]),
            node(
                "BatchNormalization",
                ["a", "gain", "zero", "mean", "one"],
                ["b", "m", "v"],
                training_mode=1,
                momentum=0.0,
            ),
            node("Reshape", ["b", "back"], ["c"]),
            node("Conv", ["x", "c"], ["y"]),
        ],
        [value("x", ["N", 36, 7, 7])],
        [value("y", None)],
        {
            "w": numbers(64, 36, 3, 3),
            "rows": [1, 64, -1],
            "back": [64, 36, 3, 3],
            "gain": numbers(64) * 0.05,
            "zero": np.zeros(64, np.float32),
            "mean": np.zeros(64, np.float32),  # which onnxruntime overwrites
            "one": np.ones(64, np.float32),
        },
    )
    made = sardonyx.optimize(m)
    assert operators(made) == ["Conv"]
    feed = {"x": numbers(2, 36, 7, 7)}
    for level in LEVELS:
        np.testing.assert_allclose(run(made, feed, level)[0], run(m, feed, LEVELS[0])[0], rtol=1e-4, atol=1e-4)


# --- nodes that inference refuses


def test_what_feeds_an_ill_typed_node_is_left_as_it_is():
    """A Mul of 4 against 8 columns: onnxruntime loads the model as long as it cannot compute the 4 itself."""
    m = model(
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["rows"]),
            node("Gather", ["s", "one"], ["columns"]),
            node("Min", ["columns", "four"], ["half"]),
            node("Unsqueeze", ["rows", "first"], ["r"]),
            node("Unsqueeze", ["half", "first"], ["h"]),
            node("Concat", ["r", "two_", "h"], ["target"], axis=0),
            node("Reshape", ["x", "target"], ["a"]),
            node("Mul", ["a", "w"], ["y"]),
            node("MatMul", ["x", "w2"], ["p"]),
            node("Add", ["p", "c"], ["z"]),
        ],
        [value("x", ["B", 8])],
        [value("y", None), value("z", ["B", 5])],
        {"zero": np.int64(0), "one": np.int64(1), "four": np.int64(4), "two_": [2], "first": [0], "w": numbers(8)}
        | {"w2": numbers(8, 5), "c": numbers(5)},
    )
    made, report = sardonyx.optimize(m, return_report=True)
    assert "do not broadcast" in report.warnings[0]
    assert operators(made) == [*operators(m)[:9], "Gemm"]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[0]
    for loads in (m, made):
        onnxruntime.InferenceSession(loads.SerializeToString(), options, providers=["CPUExecutionProvider"])
