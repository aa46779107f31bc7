"""Inference against the reference of ONNX itself, on every node test of the standard.

For each model the declared types of results are erased; then whatever `onnx.shape_inference` finds (strict, with data
propagation) must be found here too, element by element: never less known, and never another type.
"""

import collections
import copy
import functools
import re
import warnings
from pathlib import Path

import onnx
import onnx.shape_inference
import pytest
from sardonyx._sardonyx import infer_types

# Guards against running on too few models.
LEAST_MODELS = 1600  # onnx 1.20 has 1652 that it can infer itself
LEAST_SYMBOLIC = 1600
LEAST_OLD = 100
LEAST_EXPRESSIONS = 500
# onnx is wrong here: the loop inserts vectors into a sequence that was declared to hold scalars.
WRONG_THERE = {"test_loop13_seq: seq_res.element"}


@functools.cache
def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, about overflow in the reference implementations
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    return {case.name: case.model for case in found if case.model is not None}


def plain(proto):
    """A TypeProto in the form of infer_types()."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(proto, kind)
    if kind in ("tensor_type", "sparse_tensor_type"):
        dims = None
        if inner.HasField("shape"):
            # onnx names unknown sizes unk__0, unk__1, ...
            names = [None if d.dim_param.startswith("unk__") else d.dim_param or None for d in inner.shape.dim]
            dims = [d.dim_value if d.HasField("dim_value") else n for d, n in zip(inner.shape.dim, names, strict=True)]
        return ("tensor" if kind == "tensor_type" else "sparse", inner.elem_type, dims)
    if kind == "sequence_type":
        return ("sequence", plain(inner.elem_type))
    if kind == "optional_type":
        return ("optional", plain(inner.elem_type))
    if kind == "map_type":
        return ("map", inner.key_type, plain(inner.value_type))
    return ("other",)


def compare(ours, theirs, where):
    """Complaints: types that onnx knows and we do not, and contradictions."""
    if theirs is None or theirs == ours or where in WRONG_THERE:
        return []
    if ours is None:
        return [f"{where}: unknown here, {theirs} there"]
    if ours[0] != theirs[0]:
        return [f"{where}: {ours} here, {theirs} there"]
    if ours[0] == "map":
        return compare(ours[2], theirs[2], where) + ([f"{where}: key types differ"] if ours[1] != theirs[1] else [])
    if ours[0] not in ("tensor", "sparse"):
        return compare(ours[1], theirs[1], where + ".element") if len(ours) > 1 else []
    if theirs[1] != 0 and ours[1] != theirs[1]:
        return [f"{where}: element type {ours[1]} here, {theirs[1]} there"]
    if theirs[2] is None:
        return []
    if ours[2] is None or len(ours[2]) != len(theirs[2]):
        return [f"{where}: {ours[2]} here, {theirs[2]} there"]
    for here, there in zip(ours[2], theirs[2], strict=True):
        if there is None or here == there:
            continue
        # A name in onnx may equal an expression of ours, and an integer of ours is more precise than a name.
        if isinstance(there, str) and here is not None:
            continue
        # onnx's rule for Attention computes with the sizes of symbols, which are 0 in the message.
        if there == 0 and isinstance(here, str) and where.startswith("test_attention"):
            continue
        return [f"{where}: {ours[2]} here, {theirs[2]} there"]
    return []


def erase_results(model):
    model = copy.deepcopy(model)
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.ClearField("type")
    return model


def reference(model):
    """The types that onnx infers, or None if it refuses the model."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return None
    infos = [*inferred.graph.value_info, *inferred.graph.output]
    return {info.name: plain(info.type) for info in infos}


def with_symbols(model):
    """The model with a symbol for each distinct size above 1 of its inputs."""
    model = copy.deepcopy(model)
    for value in model.graph.input:
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type" or not value.type.tensor_type.HasField("shape"):
            continue
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and dim.dim_value > 1:
                dim.dim_param = f"n{dim.dim_value}"
    return model


def run(models, record):
    complaints, counts = [], collections.Counter()
    for name, model in models.items():
        erased = erase_results(model)
        theirs = reference(erased)
        if theirs is None:
            counts["refused by onnx"] += 1
            continue
        ours, messages = infer_types(erased.SerializeToString())
        if messages:
            complaints.append(f"{name}: refused here: {messages[0]}")
            continue
        counts["models"] += 1
        for value, expected in theirs.items():
            counts["values"] += 1
            found = compare(ours.get(value), expected, f"{name}: {value}")
            complaints += found
            if not found and ours.get(value) != expected:
                counts["more known here"] += 1
    for key, count in counts.items():
        record(key, count)
    print(dict(counts))
    assert not complaints, f"{len(complaints)} differences:\n" + "\n".join(complaints)
    return counts


def test_static_shapes(record_property):
    counts = run(cases(), record_property)
    assert counts["models"] >= LEAST_MODELS


def test_symbolic_shapes(record_property):
    counts = run({name: with_symbols(model) for name, model in cases().items()}, record_property)
    assert counts["models"] >= LEAST_SYMBOLIC


def evaluate(dim):
    """A symbolic dim with each symbol replaced by its size: n7 is 7."""
    functions = {
        "floordiv": lambda a, b: a // b,
        "ceildiv": lambda a, b: -(-a // b),
        "mod": lambda a, b: a % b,
        "max": max,
        "min": min,
    }
    if not isinstance(dim, str):
        return dim
    text = re.sub(r"\bn(\d+)\b", r"\1", dim).replace("^", "**")
    if set(re.findall(r"[A-Za-z_]\w*", text)) - set(functions):
        return None  # a name from the model
    return eval(text, {"__builtins__": {}}, functions)


def test_expressions_have_the_values_of_static_shapes():
    """Inference with symbols, evaluated at their sizes, equals inference from those sizes."""
    complaints, expressions = [], 0
    for name, model in cases().items():
        static, _ = infer_types(erase_results(model).SerializeToString())
        symbolic, messages = infer_types(erase_results(with_symbols(model)).SerializeToString())
        complaints += [f"{name}: {m}" for m in messages]
        for value, found in symbolic.items():
            if found is None or found[0] != "tensor" or found[2] is None or static[value] is None:
                continue
            for here, there in zip(found[2], static[value][2], strict=True):
                expressions += isinstance(here, str) and not here.isidentifier()
                value_here, value_there = evaluate(here), evaluate(there)
                if None not in (value_here, value_there) and value_here != value_there:
                    complaints.append(f"{name}: {value}: {here} stands for {there}")
    assert not complaints, "\n".join(complaints)
    assert expressions >= LEAST_EXPRESSIONS, expressions


def test_old_models(record_property):
    """Exports of many years, with operators of old versions. The sizes in the light models are real."""
    root = Path(onnx.__file__).parent / "backend" / "test" / "data"
    paths = [
        p
        for folder in ("simple", "pytorch-operator", "pytorch-converted", "light")
        for p in root.glob(f"{folder}/**/*.onnx")
    ]
    counts = run({str(p.relative_to(root)): onnx.load(p) for p in sorted(paths)}, record_property)
    assert counts["models"] >= LEAST_OLD


def test_results_of_the_node_tests_have_the_inferred_types():
    """Inferred types equal those declared in the standard's own models, where both are known."""
    complaints = []
    for name, model in cases().items():
        ours, _ = infer_types(erase_results(model).SerializeToString())
        for output in model.graph.output:
            declared, found = plain(output.type), ours.get(output.name)
            if found is None or declared is None:
                continue
            both = found[0] == declared[0]
            if both and found[0] == "tensor" and found[2] is not None and declared[2] is not None:
                both = found[1] == declared[1] and len(found[2]) == len(declared[2])
                both = both and all(
                    a == b
                    for a, b in zip(found[2], declared[2], strict=True)
                    if isinstance(a, int) and isinstance(b, int)
                )
            if not both:
                complaints.append(f"{name}: {output.name}: inferred {found}, declared {declared}")
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("dim", [None, "N"])
def test_what_is_less_known_is_noticed(dim):
    assert compare(("tensor", 1, [dim]), ("tensor", 1, [3]), "x")
    assert compare(("tensor", 1, None), ("tensor", 1, [3]), "x")
    assert compare(None, ("tensor", 1, None), "x")
    assert compare(("tensor", 7, [3]), ("tensor", 1, [3]), "x")
    assert not compare(("tensor", 1, [3]), ("tensor", 1, [dim]), "x")
