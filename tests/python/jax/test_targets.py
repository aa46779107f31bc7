"""`target=`: models that a named runtime loads. The installed onnxruntime stands in for all of them: a model that
runs on an older release runs there too. `dialects/onnx/generated/runtime_kernels.gen.inc` lists the operators and dtypes of
older releases, and each node is checked against it.
"""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import onnx.defs
import onnx.parser
import onnx.reference
import onnxruntime as ort
import pytest
import sardonyx
from judge import OF_JAX, RUNTIME, compare, outputs
from primitives import table
from test_primitives import TABLES

TABLE = Path(__file__).resolve().parents[3] / "src" / "dialects" / "onnx" / "generated" / "runtime_kernels.gen.inc"
RUNTIMES = re.findall(r'SX_RUNTIME\("([^"]*)", (\d+), (\d+)\)', TABLE.read_text())
NAMES = [name for name, _, _ in RUNTIMES]
NUMBERS = {
    "f32": 1,
    "u8": 2,
    "i8": 3,
    "u16": 4,
    "i16": 5,
    "i32": 6,
    "i64": 7,
    "str": 8,
    "bool": 9,
    "f16": 10,
    "f64": 11,
    "u32": 12,
}
NUMBERS |= {"u64": 13, "bf16": 16, "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20, "u4": 21, "i4": 22}


def _kernels(target: str):
    """{operator: [(first version, last version or None, {variable: element types})]} of a release."""
    n = NAMES.index(target)
    found: dict = {}
    for op, first, last, oldest, newest, types in re.findall(
        r'SX_KERNEL\("(\w+)", (\d+), (\d+), (\d+), (\d+), "([^"]*)"\)', TABLE.read_text()
    ):
        if int(oldest) <= n <= int(newest):
            parts = (p.split(": ") for p in types.split("; ") if p)
            by_variable = {v: {NUMBERS[t] for t in ts.split() if t in NUMBERS} for v, ts in parts}
            found.setdefault(op, []).append((int(first), int(last), by_variable))
    return found


def missing(model: onnx.ModelProto, target: str) -> list[str]:
    """Nodes without a kernel in the release, determined without Sardonyx; onnx's own shape inference gives
    the types."""
    kernels = _kernels(target)
    opset = next(i.version for i in model.opset_import if i.domain == "")
    problems = []
    inferred = onnx.shape_inference.infer_shapes(model)
    stack = [(inferred.graph, {})]
    while stack:
        graph, outer = stack.pop()
        values = (*graph.input, *graph.value_info, *graph.output)
        types = outer | {v.name: v.type.tensor_type.elem_type for v in values if v.type.HasField("tensor_type")}
        types |= {t.name: t.data_type for t in graph.initializer}
        for node in graph.node:
            stack += [(a.g, types) for a in node.attribute if a.HasField("g")]
            if node.domain or node.op_type == "Constant":
                continue
            schema = onnx.defs.get_schema(node.op_type, opset, "")
            version = schema.since_version
            wanted = {}
            for names, slots in ((node.input, schema.inputs), (node.output, schema.outputs)):
                for i, name in enumerate(names):
                    slot = slots[min(i, len(slots) - 1)]
                    if types.get(name):
                        wanted.setdefault(slot.type_str, types[name])
            fitting = [k for a, b, k in kernels.get(node.op_type, ()) if a == version or (b and a < version <= b)]
            if not any(all(t in k.get(v, {t}) for v, t in wanted.items()) for k in fitting):
                problems.append(f"{node.op_type}-{version} of {wanted}")
    return problems


@pytest.mark.parametrize(("name", "opset", "ir"), RUNTIMES)
def test_opset_and_ir_version(name, opset, ir):
    model = sardonyx.to_onnx(jnp.sin, [("B", 3)], target=name)
    assert model.opset_import[0].version == min(23, int(opset))
    assert model.ir_version == min(10, int(ir))


def test_names():
    for spelled in ("ort-1.17", "ort-1.17.3", "onnxruntime-1.17"):
        assert sardonyx.to_onnx(jnp.sin, [(3,)], target=spelled).opset_import[0].version == 20
    with pytest.raises(sardonyx.Error, match='target "ort-1.171" is not known') as error:
        sardonyx.to_onnx(jnp.sin, [(3,)], target="ort-1.171")
    assert "ort-1.17" in error.value.notes[0]
    with pytest.raises(sardonyx.Error, match="loads opset 20 at most, and 21 was asked for"):
        sardonyx.to_onnx(jnp.sin, [(3,)], target="ort-1.17", opset=21)
    assert sardonyx.to_onnx(jnp.sin, [(3,)], target="ort-1.17", opset=18).opset_import[0].version == 18


def _lines(share: int) -> list[table.Case]:
    lines = [case for name, lines in TABLES.items() if name != "narrow" for case in lines]
    return lines[:: 1 if share == 1 else share]


# Operators without a kernel in any release: RandomUniformLike of opset 22.
REFUSED = {"rng_uniform stays in its bounds"}


def _all_run_there(target: str, cases) -> None:
    wrong, refused = [], []
    for case in (c for c in cases if c.name not in REFUSED):
        try:
            model = sardonyx.to_onnx(case.fn, case.specs(), target=target, enable_double_precision=case.x64)
        except sardonyx.Error as e:
            refused.append(f"{case.name}: {e}")
            continue
        onnx.checker.check_model(model)
        wrong += [f"{case.name}: {problem}" for problem in missing(model, target)]
    assert not wrong, wrong[:10]
    assert not refused, refused[:10]


@pytest.mark.skipif(OF_JAX < (0, 10), reason="the tables are of newer JAX")
@pytest.mark.parametrize("target", ["ort-1.17", NAMES[-1]])
def test_primitives_run_there(target):
    """A quarter of the lines of the primitives' tables, checked against the release's kernels."""
    _all_run_there(target, _lines(4))


# Lines that need a kernel which no release has.
NARROW_REFUSED = re.compile(
    "(scan|cond|while|scatter|scatter-add|scatter-max|reduce_max of nothing|reduce_min of nothing|iota) of "
)


@pytest.mark.parametrize("target", ["ort-1.17", NAMES[-1]])
def test_small_types_run_there_or_are_refused(target):
    """8-bit floats and 4-bit integers, which few operators take. ort-1.17 loads opset 20, which has no 4-bit
    integers."""
    for case in TABLES["narrow"]:
        try:
            model = sardonyx.to_onnx(case.fn, case.specs(), target=target)
        except sardonyx.Error:
            assert NARROW_REFUSED.match(case.name) or (target == "ort-1.17" and re.search(r"\b[iu]4\b", case.name)), (
                case.name
            )
        else:
            assert not missing(model, target), case.name


@pytest.mark.slow
@pytest.mark.parametrize("target", NAMES)
def test_primitives_run_on_all(target):
    _all_run_there(target, _lines(1))


@pytest.mark.parametrize("case", _lines(67), ids=lambda c: c.name)
def test_results(case):
    """Exports for the oldest release give JAX's results."""
    model = sardonyx.to_onnx(case.fn, case.specs(), target="ort-1.17", enable_double_precision=case.x64)
    with jax.enable_x64(case.x64):
        inputs = case.sample(case.sizes()[0])
        expected = [np.asarray(y) for y in jax.tree.leaves(case.fn(*map(jnp.asarray, inputs)))]
        compare(expected, outputs(model, inputs), case.tolerance)


def test_what_no_cast_helps_is_refused():
    (case,) = (c for c in _lines(1) if c.name in REFUSED)
    with pytest.raises(sardonyx.Error, match="ort-1.31 cannot run 1 of the graph's nodes") as error:
        sardonyx.to_onnx(case.fn, case.specs(), target="ort-1.31")
    assert "RandomUniformLike-22 of f32" in error.value.notes[0]


def test_bfloat16_is_computed_in_f32_and_rounded_once():
    x = np.linspace(-3, 3, 15).reshape(3, 5).astype(ml_dtypes.bfloat16)
    w = np.linspace(-1, 1, 35).reshape(5, 7).astype(ml_dtypes.bfloat16)

    def fn(x):
        return jnp.tanh(x @ w)

    model = sardonyx.to_onnx(fn, [jax.ShapeDtypeStruct(("B", 5), jnp.bfloat16)], target="ort-1.20")
    assert not missing(model, "ort-1.20")
    compare([np.asarray(fn(jnp.asarray(x)))], outputs(model, [x]))


def test_what_a_release_lacks_is_noticed():
    """Tests this file's own check: a Max of i16 has no kernel anywhere, and a sum of i8 had none before 1.21."""
    b = onnx.parser.parse_model
    head = '<ir_version: 9, opset_import: ["" : 20]> g '
    assert missing(b(head + "(int16[3] x) => (int16[3] y) { y = Max(x, x) }"), "ort-1.31") == ["Max-13 of {'T': 5}"]
    total = b(head + "(int8[3] x) => (int8[3] y) { y = Add(x, x) }")
    assert missing(total, "ort-1.20") and not missing(total, "ort-1.21")


@pytest.mark.skipif(RUNTIME < (1, 31), reason="this onnxruntime does not load them")
@pytest.mark.parametrize("kind", ["float", "float16", "double", "bfloat16"])
@pytest.mark.parametrize("opset", [24, 25, 26])
def test_swish_in_later_opsets_than_its_own(kind, opset):
    """onnxruntime loads these opsets, and has Swish in models of 24 only."""
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": {opset}]> g ({kind}[B,3] x) => ({kind}[B,3] y) {{ y = Swish<alpha=1.5>(x) }}'
    )
    x = (
        np.linspace(-3, 3, 15)
        .reshape(5, 3)
        .astype(onnx.helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type))
    )
    (wanted,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    legal = sardonyx.optimize(model, passes=["legalize"], options={"legalize.target": "ort-1.31"}, strict=True)
    assert [n.op_type for n in legal.graph.node].count("Swish") == (opset == 24)
    ort.InferenceSession(legal.SerializeToString(), providers=["CPUExecutionProvider"])
    compare([wanted], outputs(legal, [x]))


def test_pooling_over_many_axes_is_composed():
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5, 6, 3), dtype=np.float32)

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 2, 2, 1), (1, 1, 1, 1, 1, 1), "VALID")

    model = sardonyx.to_onnx(pool, [x.shape], target="ort-1.17")
    assert "MaxPool" not in {n.op_type for n in model.graph.node}
    compare([np.asarray(pool(x))], outputs(model, [x]))


def test_integer_products():
    x, y = np.arange(244, 256, dtype=np.uint8).reshape(3, 4), np.arange(236, 256, dtype=np.uint8).reshape(4, 5)

    def product(x, y):
        return jax.lax.dot(x, y, preferred_element_type=jnp.int32)

    model = sardonyx.to_onnx(product, [x, y], target="ort-1.17")
    assert [n.op_type for n in model.graph.node] == ["MatMulInteger"]
    compare([np.asarray(product(x, y))], outputs(model, [x, y]))


def test_saved_programs_too(tmp_path):
    """`sardonyx convert --target`."""
    import subprocess

    command = Path(sardonyx.__file__).resolve().parents[1] / "sardonyx"
    for at in (command, Path(sardonyx._sardonyx.__file__).resolve().parents[2] / "sardonyx"):
        if at.is_file():
            command = at
    sardonyx.save_program(jnp.sin, [jax.ShapeDtypeStruct((3,), jnp.bfloat16)], tmp_path / "sin.sx")
    args = [command, "convert", tmp_path / "sin.sx", "-o", tmp_path / "sin.onnx", "--target"]
    assert subprocess.run([*args, "ort-1.18"], check=False).returncode == 0
    model = onnx.load(tmp_path / "sin.onnx")
    assert (model.opset_import[0].version, model.ir_version) == (21, 10)
    assert [n.op_type for n in model.graph.node] == ["Cast", "Sin", "Cast"]
    told = subprocess.run([*args, "ort-0.9"], check=False, capture_output=True, text=True)
    assert told.returncode != 0 and 'target "ort-0.9" is not known' in told.stderr
