"""`sardonyx optimize` and `sardonyx.optimize`: inputs and outputs. The .sx cases and test_passes.py test the
passes."""

import json

import numpy as np
import onnx
import pytest
import sardonyx
from command import sardonyx as command
from onnx import TensorProto, helper, numpy_helper
from sardonyx import ir


def casts() -> onnx.ModelProto:
    """x -> Cast to its own dtype -> Neg, with an unused weight."""
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["x"], ["a"], to=TensorProto.FLOAT),
            helper.make_node("Neg", ["a"], ["y"]),
        ],
        "casts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 3])],
        [numpy_helper.from_array(np.arange(7, dtype=np.float32), "unread")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def ops(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "in.onnx"
    onnx.save(casts(), path)
    return path


def test_each_kind_of_model_comes_back_as_it_was_given(saved, tmp_path):
    out = tmp_path / "out.onnx"
    assert sardonyx.optimize(saved, out) == str(out)
    results = [onnx.load(out), sardonyx.optimize(saved), sardonyx.optimize(casts())]
    results.append(onnx.ModelProto.FromString(sardonyx.optimize(casts().SerializeToString())))
    for result in results:
        assert ops(result) == ["Neg"] and not result.graph.initializer
        assert [i.name for i in result.graph.input] == ["x"] and [o.name for o in result.graph.output] == ["y"]
    kept = sardonyx.optimize(ir.from_proto(casts()))
    assert isinstance(kept, ir.Model) and [n.op_type for n in kept.graph] == ["Neg"]


def test_the_argument_is_not_changed():
    model = casts()
    sardonyx.optimize(model)
    assert model == casts()


def test_the_report_tells_before_and_after(saved, tmp_path):
    _, report = sardonyx.optimize(saved, tmp_path / "out.onnx", return_report=True)
    assert report.before["nodes"] == 2 and report.nodes == 1
    assert report.before["file_bytes"] == saved.stat().st_size
    assert report.bytes == (tmp_path / "out.onnx").stat().st_size
    assert [p["name"] for p in report.passes if p["changed"]]
    assert "2 nodes became 1" in str(report)


def test_lists_skips_and_presets(saved):
    assert ops(sardonyx.optimize(saved, passes="none")) == ["Cast", "Neg"]
    assert ops(sardonyx.optimize(saved, passes="remove_redundant_casts")) == ["Neg"]
    assert ops(sardonyx.optimize(saved, passes=["onnx::remove_redundant_casts"])) == ["Neg"]
    assert ops(sardonyx.optimize(saved, passes="remove_redundant_casts", skip=["remove_redundant_casts"])) == [
        "Cast",
        "Neg",
    ]
    assert ops(sardonyx.optimize(saved, passes="remove_redundant_casts", skip="remove_redundant_casts/same_type")) == ["Cast", "Neg"]  # fmt: skip
    assert ops(sardonyx.optimize(saved, passes="remove_redundant_casts", skip="remove_redundant_casts/cast_pair")) == ["Neg"]  # fmt: skip


def test_input_shapes_reach_the_signature(saved):
    result = sardonyx.optimize(saved, input_shapes={"x": (5, 3)})
    shapes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*result.graph.input, *result.graph.output)]
    assert shapes == [[5, 3], [5, 3]]


def test_an_empty_input_is_no_contradiction(tmp_path):
    """Named sizes are at least 1, so all of them must give way to the 0."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (int64[B,7] x) => (float[B,7] y) { a = Abs(x) b = Cast<to=1>(a) y = Softmax(b) }'
    )
    onnx.save(model, tmp_path / "in.onnx")
    done = command("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--input-shape", "x:0,7")
    result = onnx.load(tmp_path / "out.onnx")
    assert done.stderr == ""
    assert [d.dim_value for d in result.graph.output[0].type.tensor_type.shape.dim] == [0, 7]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"passes": "remove_redundant_cast"},
            "no pass named 'remove_redundant_cast'\n  did you mean 'remove_redundant_casts'",
        ),  # fmt: skip
        ({"passes": 3}, "passes must be a name or a list of names"),
        ({"skip": ["nothing"]}, "no pass named 'nothing'"),
        ({"skip": ["remove_redundant_casts/pair"]}, "no rule of remove_redundant_casts named 'pair'"),
        ({"options": {"remove_redundant_casts.x": 1}}, "no option of remove_redundant_casts named 'x'"),
        ({"options": {"x": 1}}, "an option is written pass.option=value"),
        ({"input_shapes": {"z": (1, 3)}}, "the model has no input 'z'"),
        ({"input_shapes": {"x": (1, 3, 1)}}, "input 'x' has 2 axes"),
        ({"input_shapes": {"x": (1, 4)}}, "axis 1 of input 'x' is 3, not 4"),
        ({"input_shapes": {"x": (1, "N")}}, "axis 1 of input 'x' is 3, not N"),
    ],
)
def test_impossible_requests_are_refused(arguments, message):
    with pytest.raises(sardonyx.Error) as raised:
        sardonyx.optimize(casts(), **arguments)
    assert message in str(raised.value)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(sardonyx.Error, match="a model was expected, found a dict"):
        sardonyx.optimize({})
    with pytest.raises(sardonyx.Error, match="cannot read"):
        sardonyx.optimize(tmp_path / "none.onnx")
    with pytest.raises(sardonyx.Error, match="is not the name of an ONNX model|onnx"):
        sardonyx.optimize(casts(), tmp_path / "out.json")


# --- the command


def test_the_command_shows_a_table(saved, tmp_path):
    done = command("optimize", saved, "-o", tmp_path / "out.onnx")
    table = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:] if line.split()}
    assert table["nodes"][:2] == ["2", "1"] and table["Cast"] == ["1", "-"]
    assert command("optimize", saved, "-o", tmp_path / "out.onnx", "--quiet").stdout == ""


def test_the_command_speaks_json(saved, tmp_path):
    told = json.loads(command("optimize", saved, "-o", tmp_path / "out.onnx", "--json").stdout)[0]
    assert told["before"]["ops"] == {"Cast": 1, "Neg": 1} and told["after"]["ops"] == {"Neg": 1}
    assert told["after"]["file_bytes"] == (tmp_path / "out.onnx").stat().st_size


def test_a_pipeline_from_a_file(saved, tmp_path):
    (tmp_path / "pipeline.txt").write_text("# comment\nremove_redundant_casts  # the only one\n\n")
    command("optimize", saved, "-o", tmp_path / "out.onnx", "--passes", tmp_path / "pipeline.txt")
    assert ops(onnx.load(tmp_path / "out.onnx")) == ["Neg"]
    assert len(onnx.load(tmp_path / "out.onnx").graph.initializer) == 1


def test_a_folder_goes_on_after_a_model_that_is_refused(saved, tmp_path):
    folder = tmp_path / "models"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.onnx").write_bytes(saved.read_bytes()[:-9])
    (folder / "deep" / "b.onnx").write_bytes(saved.read_bytes())
    done = command("optimize", folder, "-o", tmp_path / "out", ok=False)
    assert done.returncode == 1 and done.stderr.count("a.onnx") == 1
    assert (
        ops(onnx.load(tmp_path / "out" / "deep" / "b.onnx")) == ["Neg"] and not (tmp_path / "out" / "a.onnx").exists()
    )


def test_wrong_command_lines(saved, tmp_path):
    for arguments in (
        ["--passes", "remove_redundant"],
        ["--passes", "passes.txt"],
        ["--verify", "all"],
        ["--data-threshold", "-1"],
        ["--max-data-file=-1"],
        ["--input-shape", "x"],
        ["--fold-budget", "much"],
        ["--skip", "x"],
    ):
        done = command("optimize", saved, "-o", tmp_path / "out.onnx", *arguments, ok=False)
        assert done.returncode == 2 and done.stderr.startswith("error: ") and not (tmp_path / "out.onnx").exists()


def test_a_command_that_does_not_exist():
    done = command("optimise", ok=False)
    assert (
        done.returncode == 2
        and done.stderr == "error: there is no command named 'optimise'\n  did you mean 'optimize'?\n"
    )


def test_passes_are_listed():
    assert "remove_redundant_casts" in command("passes").stdout
    assert "Cast(Cast(%x) as %y)" in command("passes", "remove_redundant_casts").stdout
    assert "remove_dead_nodes" in command("passes", "onnx").stdout
    told = json.loads(command("passes", "--json").stdout)[0]
    assert {p["name"] for p in told["presets"]} >= {"onnx", "onnx-spec", "none"}


@pytest.mark.parametrize("verify", ["off", "model", "pass"])
def test_results_can_be_evaluated_before_and_after(saved, tmp_path, verify):
    small, report = sardonyx.optimize(saved, verify=verify, return_report=True)
    assert ops(small) == ["Neg"] and report.faults == []
    assert (report.evaluations > 0) == (verify != "off")
    shown = command("optimize", saved, "-o", tmp_path / "out.onnx", "--verify", verify).stdout
    assert ("evaluations before and after compared" in shown) == (verify != "off")


def test_names_stand_for_what_they_did(tmp_path):
    """A convolution whose weights absorb a scale: the weights get a new name; unchanged values keep theirs."""
    weights = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["conv"]),
            helper.make_node("Mul", ["conv", "s"], ["scaled"]),
            helper.make_node("Relu", ["scaled"], ["active"]),
            helper.make_node("Add", ["active", "t"], ["y"]),
        ],
        "names",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 2, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 3, 6])],
        [
            numpy_helper.from_array(weights, "w"),
            numpy_helper.from_array(np.float32([[1], [2], [3]]), "s"),
            numpy_helper.from_array(np.float32([1, 2, 3, 4, 5, 6]), "t"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    plain, kept = sardonyx.optimize(model), sardonyx.optimize(model, keep_names=True)
    for m in (plain, kept):
        assert ops(m) == ["Conv", "Relu", "Add"]
        assert [n.output[0] for n in m.graph.node] == ["scaled", "active", "y"]
        assert "t" in {i.name for i in m.graph.initializer}
    assert plain.graph.node[0].input[1] == "w"
    name = kept.graph.node[0].input[1]
    changed = next(i for i in kept.graph.initializer if i.name == name)
    assert name not in {"w", "s", "t"}
    np.testing.assert_array_equal(numpy_helper.to_array(changed), weights * np.float32([1, 2, 3]).reshape(3, 1, 1))
    source, target = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(model, source)
    assert command("optimize", source, "-o", target, "--keep-names").returncode == 0
    assert onnx.load(target).graph.node[0].input[1] == name


def nested_ifs(depth: int) -> bytes:
    """A model of nested Ifs, built as bytes: protobuf's own writer stops at a hundred levels."""

    def number(n: int) -> bytes:
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + number(n >> 7)

    def field(tag: int, data: bytes) -> bytes:
        return number(tag << 3 | 2) + number(len(data)) + data

    def value(name: str) -> bytes:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", 3]).SerializeToString()

    def body(node: bytes, name: str, inputs: bytes = b"") -> bytes:
        return field(1, node) + field(2, b"g") + inputs + field(12, value(name))

    graph = body(helper.make_node("Neg", ["x"], ["v0"]).SerializeToString(), "v0")
    for d in range(1, depth + 1):
        other = body(helper.make_node("Abs", ["x"], [f"w{d}"]).SerializeToString(), f"w{d}")
        kind = number(20 << 3) + number(5)
        branches = field(5, field(1, b"then_branch") + field(6, graph) + kind)
        branches += field(5, field(1, b"else_branch") + field(6, other) + kind)
        node = field(1, b"c") + field(2, f"v{d}".encode()) + field(4, b"If") + branches
        condition = helper.make_tensor_value_info("c", TensorProto.BOOL, []).SerializeToString()
        graph = body(node, f"v{d}", field(11, value("x")) + field(11, condition) if d == depth else b"")
    return number(8) + number(10) + field(7, graph) + field(8, number(16) + number(21))


def test_three_hundred_ifs_within_each_other(tmp_path):
    source, target = tmp_path / "m.onnx", tmp_path / "o.onnx"
    source.write_bytes(nested_ifs(300))
    assert command("optimize", source, "-o", target).returncode == 0
    results = sardonyx.evaluate(str(target), {"x": np.ones((2, 3), np.float32), "c": np.array(True)})
    assert results["v300"].tolist() == [[-1] * 3] * 2


def test_graphs_nested_too_deeply_are_an_error(tmp_path):
    source, target = tmp_path / "m.onnx", tmp_path / "o.onnx"
    source.write_bytes(nested_ifs(1001))
    done = command("optimize", source, "-o", target, ok=False)
    assert done.returncode != 0
    assert "graphs are nested more than 1000 deep" in done.stderr
    assert len(done.stderr.splitlines()) < 12
    assert not target.exists()


def test_near_misses_are_explained_by_the_name_of_the_operator(tmp_path):
    shapes = {"q": ["B", 3, 5, 8], "k": ["B", 3, 8, 7], "v": ["B", 3, 7, 8], "z": ["B", 3, 5, 7]}
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Mul", ["s", "z"], ["t"]),
        helper.make_node("Softmax", ["t"], ["p"]),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 3, 5, 8])
    opset = helper.make_opsetid("", 23)
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, [output]), opset_imports=[opset], ir_version=10)
    onnx.save(model, tmp_path / "in.onnx")
    told = command("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--explain", "Attention").stderr
    assert "fuse_attention: skipped a near match: the scores are not scaled by a single number" in told


def test_fusions_that_need_a_newer_opset_say_so(tmp_path):
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", value[:1], value[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "in.onnx")
    arguments = ["optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--explain", "Attention"]
    told = "fuse_attention: skipped a near match: it makes operators of opset 23, the model imports 17 (help: --opset)"
    assert told in command(*arguments).stderr
    assert told not in command(*arguments, "--opset", "23").stderr


# --- unknown operators


def unknown(domain: str, opset: int = 17, imports: int = 1) -> onnx.ModelProto:
    """Neg -> Neg -> Identity -> Mystery, twice -> Add."""
    nodes = [
        helper.make_node("Neg", ["x"], ["d"]),
        helper.make_node("Neg", ["d"], ["e"]),
        helper.make_node("Identity", ["e"], ["a"]),
        helper.make_node("Mystery", ["a"], ["b"], domain=domain, level=1.5),
        helper.make_node("Mystery", ["a"], ["c"], domain=domain, level=1.5),
        helper.make_node("Add", ["b", "c"], ["y"]),
    ]
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["B", 3]) for n in "xy"]
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, imports)] if domain else [])
    return helper.make_model(helper.make_graph(nodes, "g", value[:1], value[1:]), opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(("domain", "shown"), [("acme", "acme::Mystery"), ("", "Mystery")])
def test_unknown_operators_stay_and_are_named(domain, shown, tmp_path):
    onnx.save(unknown(domain), tmp_path / "in.onnx")
    done = command("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx")
    assert f"warning: {shown} is an unknown operator: its 2 nodes are left as they are\n  at b = {shown}" in done.stderr
    # The two stay separate, since they may draw random numbers. The nodes around them are optimized.
    assert ops(onnx.load(tmp_path / "out.onnx")) == ["Mystery", "Mystery", "Add"]
    mystery = onnx.load(tmp_path / "out.onnx").graph.node[0]
    assert (mystery.domain, mystery.input, mystery.attribute[0].f) == (domain, ["x"], 1.5)


@pytest.mark.parametrize("opset", [29, 99])
def test_an_opset_from_the_future_is_left_alone(opset, tmp_path):
    onnx.save(unknown("", opset), tmp_path / "in.onnx")
    done = command("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx")
    assert f"warning: opset {opset} is newer than" in done.stderr and "6 nodes are left as they are" in done.stderr
    assert ops(onnx.load(tmp_path / "out.onnx")) == ops(unknown("", opset))
    assert (tmp_path / "out.onnx").stat().st_size <= (tmp_path / "in.onnx").stat().st_size


def test_unknown_versions_of_other_domains(tmp_path):
    model = unknown("ai.onnx.ml", imports=77)
    small, report = sardonyx.optimize(model, return_report=True)
    assert ops(small) == ["Mystery", "Mystery", "Add"]
    assert {o.domain: o.version for o in small.opset_import} == {"": 17, "ai.onnx.ml": 77}
    assert "ai.onnx.ml::Mystery is an unknown operator" in report.warnings[0]


def test_bodies_of_unknown_operators_keep_what_they_read():
    body = helper.make_graph(
        [helper.make_node("Identity", ["a"], ["q"]), helper.make_node("Add", ["q", "w"], ["z"])],
        "b", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["B", 3])],
    )  # fmt: skip
    model = unknown("acme")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "w"))
    model.graph.node[3].attribute.append(helper.make_attribute("body", body))
    small = sardonyx.optimize(model)
    onnx.checker.check_model(small)
    (kept,) = [a.g for a in small.graph.node[0].attribute if a.name == "body"]
    assert {"x", "w"} <= {i for n in kept.node for i in n.input} and [w.name for w in small.graph.initializer] == ["w"]


def test_what_could_not_be_compared_is_said(tmp_path):
    onnx.save(unknown("acme"), tmp_path / "in.onnx")
    done = command("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--verify", "model")
    assert "warning: nothing was compared: the evaluator cannot run acme" in done.stderr


def test_a_loop_without_an_end_is_not_compared(tmp_path):
    body = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["on"]), helper.make_node("Neg", ["v"], ["w"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("going", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("w", TensorProto.FLOAT, [3])],
    )  # fmt: skip
    forever = helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)
    graph = helper.make_graph(
        [helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True))), forever],
        "forever",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), tmp_path / "in.onnx")
    done = command("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--verify", "model")
    assert done.returncode == 0
    assert "warning: nothing was compared: " in done.stderr and "loops ran more than" in done.stderr


# --- the command line


def test_options_leave_the_models_that_follow_them(saved, tmp_path):
    for option in (["--skip", "fuse_gelu,fuse_softmax"], ["--explain", "Attention"], ["--input-shape", "x:7,3"]):
        command("optimize", *option, saved, "-o", tmp_path / "out.onnx")
        assert ops(onnx.load(tmp_path / "out.onnx")) == ["Neg"]
    command("optimize", "--skip", "remove_redundant_casts", "--skip", "remove_no_ops", saved, "-o", tmp_path / "o.onnx")
    assert "Cast" in ops(onnx.load(tmp_path / "o.onnx"))


def test_several_models_need_a_folder(saved, tmp_path):
    (tmp_path / "other.onnx").write_bytes(saved.read_bytes())
    (tmp_path / "file.onnx").write_bytes(b"here")
    done = command("optimize", saved, tmp_path / "other.onnx", "-o", tmp_path / "file.onnx", ok=False)
    assert done.returncode == 2 and "is a file, and several models need a folder" in done.stderr
    assert (tmp_path / "file.onnx").read_bytes() == b"here"


FUSIONS = """Attention BatchNormalization Clip Conv ConvTranspose DepthToSpace Einsum Elu Gather Gelu Gemm GlobalAveragePool
GroupNormalization HardSigmoid HardSwish InstanceNormalization LayerNormalization LeakyRelu LogSoftmax MatMul Mish PRelu RMSNormalization
ReduceL1 ReduceL2 ReduceLogSumExp ReduceMean ReduceSumSquare Relu RotaryEmbedding Selu Sigmoid Softmax Softplus Softsign SpaceToDepth
Swish""".split()


def test_every_fused_operator_can_be_explained(saved, tmp_path):
    command("optimize", saved, "-o", tmp_path / "out.onnx", "--explain", ",".join(FUSIONS))
    done = command("optimize", saved, "-o", tmp_path / "out.onnx", "--explain", "Atention", ok=False)
    assert done.returncode == 2 and "did you mean 'Attention'?" in done.stderr


def test_a_rule_that_says_nothing_is_explained_too(tmp_path):
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 4, 3, 5]),
        helper.make_node("Reshape", ["b", "back"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.array([1, 2, 3, 2, 2, 5]), "shape"), numpy_helper.from_array(np.array([1, 6, 4, 5]), "back"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 24, 5, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 4, 5])], weights,
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "in.onnx")
    told = command("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--explain", "DepthToSpace").stderr
    assert told.count("a condition does not hold") == 1


@pytest.mark.parametrize("second", ["", "ai.onnx"])
def test_an_opset_that_is_imported_twice(second, tmp_path):
    """skl2onnx writes such models. Of two versions, onnxruntime takes the last one."""
    model = casts()
    model.opset_import.append(helper.make_opsetid(second, 21))
    onnx.save(model, tmp_path / "in.onnx")
    command("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx")
    out = onnx.load(tmp_path / "out.onnx")
    assert ops(out) == ["Neg"] and [(o.domain, o.version) for o in out.opset_import] == [("", 21)]
    model.opset_import[1].version = 22
    small, report = sardonyx.optimize(model, return_report=True)
    assert [o.version for o in small.opset_import] == [22]
    assert "'ai.onnx' is imported twice, as 21 and as 22" in report.warnings[0]


def test_text_is_read_and_written(saved, tmp_path):
    """The text form, with its weights beside it, works like any other model file."""
    text = tmp_path / "m.sx"
    text.write_text("graph(x: f32[B,3]) { a = Neg(Neg(x))  y = Add(a, f32[3]{2,3,5})  return y }\n")
    command("optimize", text, "-o", tmp_path / "out.sx", "--quiet")
    assert (
        "Neg" not in (tmp_path / "out.sx").read_text() and "Add(x, f32[3]{2,3,5})" in (tmp_path / "out.sx").read_text()
    )
    command("optimize", tmp_path / "out.sx", "-o", tmp_path / "out.onnx", "--quiet")
    assert ops(onnx.load(tmp_path / "out.onnx")) == ["Add"]
    assert sardonyx.optimize(text, tmp_path / "other.onnx") and ops(onnx.load(tmp_path / "other.onnx")) == ["Add"]
    assert "nodes     3" in command("info", text).stdout
    assert "no faults" in command("check", text).stdout
    jax = tmp_path / "jax.sx"
    jax.write_text("graph jax(x: f32[3]) { y: f32[3] = neg(x)  return y }\n")
    assert "`sardonyx convert`" in command("optimize", jax, "-o", tmp_path / "j.onnx", ok=False).stderr
    mil = tmp_path / "mil.sx"
    mil.write_text("graph mil(x: f32[3]) { y = relu(relu(x))  return y }\n")
    assert "a Core ML program is written to" in command("optimize", mil, "-o", tmp_path / "j.onnx", ok=False).stderr
    command("optimize", mil, "-o", tmp_path / "out_mil.sx", "--quiet")
    assert "relu" in (tmp_path / "out_mil.sx").read_text()


def test_a_clip_without_bounds_makes_infinities_finite(tmp_path):
    """onnxruntime reports it as well."""
    import onnxruntime

    graph = helper.make_graph(
        [helper.make_node("Clip", ["x", "", ""], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    onnx.save(model, tmp_path / "in.onnx")
    sardonyx.optimize(tmp_path / "in.onnx", tmp_path / "out.onnx")
    assert ops(onnx.load(tmp_path / "out.onnx")) == ["Clip"]
    np.save(tmp_path / "x.npy", x)
    command("run", tmp_path / "out.onnx", "-i", f"x={tmp_path}/x.npy", "-o", tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), want)


def test_a_file_of_passes_from_python(saved, tmp_path):
    file = tmp_path / "passes.txt"
    file.write_text("remove_redundant_casts  # nothing else\n\n")
    model = sardonyx.optimize(saved, passes=str(file))
    assert ops(model) == ["Neg"] and [i.name for i in model.graph.initializer] == ["unread"]
    assert ops(sardonyx.to_onnx(lambda x: x + x, [("B", 3)], passes=str(file))) == ["Add"]
    file.write_text("remove_redundant_casts\nremove_redundant_casts.unheard_of=1\n")
    for run in (
        lambda: sardonyx.optimize(saved, passes=str(file)),
        lambda: sardonyx.to_onnx(abs, [(3,)], passes=str(file)),
    ):
        with pytest.raises(sardonyx.Error, match="unheard_of"):
            run()


def trained(weight: np.ndarray) -> onnx.ModelProto:
    """y = x @ transpose(w) * 2, where training updates w by the hidden value h."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["m"]),
        helper.make_node("Identity", ["m"], ["h"]),
        helper.make_node("Mul", ["h", "two"], ["y"]),
    ]
    n, k = weight.shape
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, ["B", k])], [value("y", 1, ["B", n])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.float32(2), "two")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    step = [helper.make_node("ReduceMean", ["h"], ["mean"]), helper.make_node("Sub", ["w", "mean"], ["new_w"])]
    training = model.training_info.add()
    training.algorithm.CopyFrom(helper.make_graph(step, "step", [], [value("new_w", 1, [n, k])]))
    training.update_binding.add(key="w", value="new_w")
    return model


@pytest.mark.parametrize("ir_version", [3, 10])
def test_what_training_updates_stays_a_variable(ir_version):
    weight = np.arange(35, dtype=np.float32).reshape(5, 7)
    model = trained(weight)
    model.ir_version = ir_version
    if ir_version == 3:  # initializers are listed as inputs
        model.graph.input.append(helper.make_tensor_value_info("w", 1, [5, 7]))
        model.graph.input.append(helper.make_tensor_value_info("two", 1, []))
    out = sardonyx.optimize(model)
    assert out.training_info == model.training_info
    kept = {i.name: numpy_helper.to_array(i) for i in out.graph.initializer}
    np.testing.assert_array_equal(kept["w"], weight)  # not folded into another
    made = {o for n in out.graph.node for o in n.output}
    assert "h" in made and any("w" in n.input for n in out.graph.node)
    assert [i.name for i in out.graph.input] == [i.name for i in model.graph.input]
    assert [o.name for o in out.graph.output] == ["y"]
    assert sardonyx.optimize(out) == out
    onnx.checker.check_model(out)


def test_quantization_annotations_stay_with_their_tensors():
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Identity", ["a"], ["y"]),
    ]
    weights = {"w": np.arange(35, dtype=np.float32).reshape(5, 7), "b": np.ones(5, np.float32)}
    scales = {f"scale_{n}": np.float32(k) for k, n in enumerate("wbx")}
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, ["B", 7])], [value("y", 1, ["B", 5])],
        [numpy_helper.from_array(v, k) for k, v in (weights | scales).items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    for n in "wbx":
        annotation = model.graph.quantization_annotation.add(tensor_name=n)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=f"scale_{n}")
    out = sardonyx.optimize(model)
    there = {i.name: numpy_helper.to_array(i) for i in out.graph.initializer}
    stay = [a.tensor_name for a in out.graph.quantization_annotation]
    assert "x" in stay and "b" in stay and ("w" in stay) == (there.get("w", np.empty(0)).shape == (5, 7))
    for n in stay:
        assert there[f"scale_{n}"] == scales[f"scale_{n}"]
    assert not {f"scale_{n}" for n in "wbx" if n not in stay} & there.keys()
    assert sardonyx.optimize(out) == out


@pytest.mark.parametrize("rows, columns", [(30, 16), (7, 11), (300, 160)])
@pytest.mark.parametrize("op", ["Transpose", "Mul", "Cast"])
def test_tied_weights_are_never_duplicated(rows, columns, op):
    """An embedding that is also the last product's matrix, transposed: the file holds one copy."""
    value, f16 = helper.make_tensor_value_info, TensorProto.FLOAT16
    form = {
        "Transpose": helper.make_node("Transpose", ["e"], ["form"]),
        "Mul": helper.make_node("Mul", ["e", "three"], ["form"]),
        "Cast": helper.make_node("Cast", ["e"], ["form"], to=f16),
    }[op]
    element = f16 if op == "Cast" else TensorProto.FLOAT
    k, n = (columns, rows) if op == "Transpose" else (rows, columns)
    nodes = [helper.make_node("Gather", ["e", "i"], ["z"]), form, helper.make_node("MatMul", ["x", "form"], ["y"])]
    weights = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    inputs = [value("i", TensorProto.INT64, ["B"]), value("x", element, ["B", k])]
    outputs = [value("y", element, ["B", n]), value("z", TensorProto.FLOAT, ["B", columns])]
    initializers = [numpy_helper.from_array(weights, "e"), numpy_helper.from_array(np.float32(3), "three")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    kept = [tuple(i.dims) for i in sardonyx.optimize(model).graph.initializer if i.dims]
    assert kept == [(rows, columns)]
